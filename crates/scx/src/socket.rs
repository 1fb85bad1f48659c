//! The loader's sockets: who asks for what, and whose turn it is.
//!
//! Nobody is waited for. A client is scheduled like any task: on a busy machine seconds may pass
//! between its connecting and its request, in which the loader has other things to do.
//!
//! Root has a socket of its own, which nobody else can keep busy; what is done for other users has
//! a budget.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::budget::{Budget, LEAST};
use crate::host::Host;

/// Clients of root, and of all others. One more, and the oldest has to go of the user who has most.
const MOST_CLIENTS: usize = 64;
/// Connections taken in a turn.
const MOST_NEW: usize = 16;
/// Bytes of a request, a line.
const LONGEST: usize = 128;
const ROOT: u32 = 0;

/// Listens at two paths, which are gone when this is dropped.
pub(crate) struct Socket<H> {
    root: Listener,
    users: Listener,
    /// In the order of their coming.
    clients: Vec<Client>,
    budget: Budget,
    host: H,
}

/// What has happened, of what may be dealt with now.
struct Ready {
    /// Somebody connects.
    root: bool,
    users: bool,
    /// They have said something, or take more of their answers.
    clients: Vec<usize>,
}

impl<H: Host> Socket<H> {
    /// Root may connect at the one path, everybody at the other.
    pub(crate) fn listen(root: &Path, users: &Path, host: H) -> Result<Socket<H>> {
        Ok(Socket {
            root: Listener::bind(root, 0o600)?,
            users: Listener::bind(users, 0o666)?,
            clients: Vec::new(),
            budget: Budget::default(),
            host,
        })
    }

    /// Waits until somebody connects or speaks whose turn it is, or a signal comes, but no longer
    /// than this. Has `answer` answer those who have said what they want, root first; an error is
    /// the answer too. With our end of the socket the kernel keeps the credentials of whoever
    /// connected it.
    pub(crate) fn serve(
        &mut self,
        longest: Duration,
        mut answer: impl FnMut(&str, BorrowedFd<'_>) -> Result<String>,
    ) {
        let before = self.host.used();
        let ready = self.wait(longest);
        let now = self.host.now();
        let (roots, mut users): (Vec<usize>, Vec<usize>) =
            ready.clients.iter().partition(|&&client| self.clients[client].user == ROOT);
        for client in roots {
            self.clients[client].go_on(&mut answer);
        }
        users.sort_by_key(|&client| self.budget.own_free_at(self.clients[client].user));
        let end = self.host.used() + LEAST;
        for &client in &users {
            let begin = self.host.used();
            if begin >= end {
                break;
            }
            let client = &mut self.clients[client];
            client.go_on(&mut answer);
            self.budget.charge(client.user, self.host.used().saturating_sub(begin), now);
        }
        self.clients.retain(|client| !client.is_done);
        if ready.root {
            self.accept_root(&mut answer);
        }
        if ready.users {
            self.accept_users(now, &mut answer);
        }
        if ready.users || !users.is_empty() {
            self.budget.end_turn(self.host.used().saturating_sub(before), now);
        }
    }

    fn wait(&self, longest: Duration) -> Ready {
        let now = self.host.now();
        // The kernel leaves out what is below 0.
        let input = |socket: &dyn AsRawFd, is_due: bool, events| libc::pollfd {
            fd: if is_due { socket.as_raw_fd() } else { -1 },
            events,
            revents: 0,
        };
        let users_due = self.budget.free_at() <= now;
        let mut inputs = vec![
            input(&self.root.socket, true, libc::POLLIN),
            input(&self.users.socket, users_due, libc::POLLIN),
        ];
        inputs.extend(
            self.clients.iter().map(|client| {
                input(&client.stream, self.free_at(client) <= now, client.waits_for())
            }),
        );
        let longest = self.next_turn(now).map_or(longest, |at| longest.min(at.saturating_sub(now)));
        let longest_ms = longest.as_micros().div_ceil(1000).try_into().unwrap_or(i32::MAX);
        // SAFETY: the pointer is to as many live structs as the call is told. If it fails, nothing
        // has happened.
        unsafe { libc::poll(inputs.as_mut_ptr(), inputs.len() as libc::nfds_t, longest_ms) };
        let mut happened = inputs.iter().map(|input| input.revents != 0);
        Ready {
            root: happened.next() == Some(true),
            users: happened.next() == Some(true),
            clients: happened.enumerate().filter_map(|(at, is_so)| is_so.then_some(at)).collect(),
        }
    }

    /// When something may be done that may not be done now.
    fn next_turn(&self, now: Duration) -> Option<Duration> {
        let clients = self.clients.iter().map(|client| self.free_at(client));
        clients.chain([self.budget.free_at()]).filter(|&at| at > now).min()
    }

    fn free_at(&self, client: &Client) -> Duration {
        if client.user == ROOT { Duration::ZERO } else { self.budget.user_free_at(client.user) }
    }

    fn accept_root(&mut self, answer: &mut impl FnMut(&str, BorrowedFd<'_>) -> Result<String>) {
        for _ in 0..MOST_NEW {
            let Some(mut client) = self.root.accept(&self.host) else { break };
            client.go_on(answer);
            self.admit(client);
        }
    }

    fn accept_users(
        &mut self,
        now: Duration,
        answer: &mut impl FnMut(&str, BorrowedFd<'_>) -> Result<String>,
    ) {
        let end = self.host.used() + LEAST;
        for _ in 0..MOST_NEW {
            let begin = self.host.used();
            if begin >= end {
                break;
            }
            let Some(mut client) = self.users.accept(&self.host) else { break };
            // Another's turn may come first.
            if self.budget.own_free_at(client.user) <= now {
                client.go_on(answer);
            }
            let user = client.user;
            self.admit(client);
            self.budget.charge(user, self.host.used().saturating_sub(begin), now);
        }
    }

    fn admit(&mut self, client: Client) {
        if client.is_done {
            return;
        }
        let is_root = client.user == ROOT;
        self.clients.push(client);
        let users = self.clients.iter().map(|client| client.user);
        let crowd: Vec<u32> = users.filter(|&user| (user == ROOT) == is_root).collect();
        if crowd.len() > MOST_CLIENTS {
            let count_of = |user: u32| crowd.iter().filter(|&&other| other == user).count();
            let greediest = crowd.iter().copied().max_by_key(|&user| count_of(user));
            let oldest = self.clients.iter().position(|client| Some(client.user) == greediest);
            self.clients.remove(oldest.expect("there is a crowd"));
        }
    }
}

/// A socket's path, which goes with it.
struct Listener {
    path: PathBuf,
    socket: UnixListener,
}

impl Listener {
    fn bind(path: &Path, mode: u32) -> Result<Listener> {
        // Left behind by a loader that was killed: only one can be loaded, and that is us.
        let _ = fs::remove_file(path);
        let socket =
            UnixListener::bind(path).with_context(|| format!("cannot make {}", path.display()))?;
        let listener = Listener { path: path.to_path_buf(), socket };
        listener.socket.set_nonblocking(true)?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        Ok(listener)
    }

    fn accept(&self, host: &impl Host) -> Option<Client> {
        loop {
            let (stream, _) = self.socket.accept().ok()?;
            // One that has gone meanwhile is not missed.
            if let Ok(client) = Client::new(stream, host) {
                return Some(client);
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Somebody who is connected.
struct Client {
    stream: UnixStream,
    user: u32,
    said: Vec<u8>,
    /// What is left of the answer; nothing before it has said what it wants.
    untold: Vec<u8>,
    /// It has its answer, or has gone.
    is_done: bool,
}

impl Client {
    fn new(stream: UnixStream, host: &impl Host) -> io::Result<Client> {
        stream.set_nonblocking(true)?;
        let user = host.user_of(&stream)?;
        Ok(Client { stream, user, said: Vec::new(), untold: Vec::new(), is_done: false })
    }

    fn waits_for(&self) -> libc::c_short {
        if self.untold.is_empty() { libc::POLLIN } else { libc::POLLOUT }
    }

    /// Hears it, answers it, and tells it the answer, as far as that goes without waiting.
    fn go_on(&mut self, answer: &mut impl FnMut(&str, BorrowedFd<'_>) -> Result<String>) {
        let result = self.try_to_go_on(answer);
        self.is_done = result.err().is_none_or(|error| error.kind() != io::ErrorKind::WouldBlock);
    }

    fn try_to_go_on(
        &mut self,
        answer: &mut impl FnMut(&str, BorrowedFd<'_>) -> Result<String>,
    ) -> io::Result<()> {
        if self.untold.is_empty() {
            let request = self.hear()?;
            let text = answer(&request, self.stream.as_fd());
            self.untold = text.unwrap_or_else(|error| format!("{error:#}\n")).into_bytes();
        }
        while !self.untold.is_empty() {
            let told = self.stream.write(&self.untold)?;
            self.untold.drain(..told);
        }
        Ok(())
    }

    /// The request, once its line is whole.
    fn hear(&mut self) -> io::Result<String> {
        let mut bytes = [0; LONGEST];
        loop {
            let count = self.stream.read(&mut bytes)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.said.extend(&bytes[..count]);
            let end = self.said.iter().position(|&byte| byte == b'\n');
            if end.is_some() || self.said.len() >= LONGEST {
                let line = &self.said[..end.unwrap_or(self.said.len())];
                return Ok(String::from_utf8_lossy(line).into_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;
    use std::rc::Rc;

    use anyhow::ensure;

    use super::*;

    /// Logical time, and users in the order in which they connect.
    #[derive(Clone, Default)]
    struct Test {
        now: Rc<Cell<Duration>>,
        used: Rc<Cell<Duration>>,
        users: Rc<RefCell<VecDeque<u32>>>,
    }

    impl Host for Test {
        fn now(&self) -> Duration {
            self.now.get()
        }

        fn used(&self) -> Duration {
            self.used.get()
        }

        fn user_of(&self, stream: &UnixStream) -> io::Result<u32> {
            let path = stream.local_addr()?;
            if path.as_pathname().expect("it was bound").to_string_lossy().contains("-root-") {
                return Ok(ROOT);
            }
            Ok(self.users.borrow_mut().pop_front().expect("as many users as connect"))
        }
    }

    /// What a request costs, and what all others do.
    const WORK: Duration = Duration::from_millis(1);

    struct Sockets {
        socket: Socket<Test>,
        host: Test,
    }

    impl Sockets {
        fn new(name: &str) -> Sockets {
            let path = |whose: &str| {
                let name = format!("prorata-{name}-{whose}-{}.sock", std::process::id());
                std::env::temp_dir().join(name)
            };
            let host = Test::default();
            let socket = Socket::listen(&path("root"), &path("users"), host.clone());
            Sockets { socket: socket.expect("two sockets"), host }
        }

        /// Root connects to its own socket.
        fn connect(&self, user: u32, words: &str) -> UnixStream {
            let listener = if user == ROOT { &self.socket.root } else { &self.socket.users };
            let mut stream = UnixStream::connect(&listener.path).expect("connects");
            stream.write_all(words.as_bytes()).expect("writes");
            if user != ROOT {
                self.host.users.borrow_mut().push_back(user);
            }
            stream
        }

        fn serve(&mut self) {
            let used = &self.host.used;
            self.socket.serve(Duration::ZERO, |request, _| {
                used.set(used.get() + WORK);
                ensure!(request != "wrong", "this is wrong");
                Ok(if request == "much" {
                    "much\n".repeat(1 << 18)
                } else {
                    format!("{request}!\n")
                })
            });
        }

        fn pass(&self, time: Duration) {
            self.host.now.set(self.host.now.get() + time);
        }

        fn silent_clients(&self, user: u32) -> usize {
            self.socket.clients.iter().filter(|client| client.user == user).count()
        }
    }

    fn read(mut client: UnixStream) -> String {
        let mut text = String::new();
        client.read_to_string(&mut text).expect("an answer");
        text
    }

    /// The answer, if all of it is there.
    fn answer(client: &UnixStream) -> Option<String> {
        client.set_nonblocking(true).expect("a socket");
        let mut text = String::new();
        let mut client = client;
        client.read_to_string(&mut text).is_ok().then_some(text)
    }

    #[test]
    fn a_client_may_take_its_time() {
        for user in [ROOT, 1000] {
            let mut sockets = Sockets::new(&format!("slow-{user}"));
            let mut slow = sockets.connect(user, "");
            sockets.serve();
            sockets.pass(WORK * 1000);
            let quick = sockets.connect(user, "quick\n");
            slow.write_all(b"sl").expect("writes");
            sockets.serve();
            assert_eq!(read(quick), "quick!\n");
            sockets.pass(WORK * 1000);
            slow.write_all(b"ow\n").expect("writes");
            sockets.serve();
            assert_eq!(read(slow), "slow!\n");
            assert!(sockets.socket.clients.is_empty());
        }
    }

    #[test]
    fn errors_are_told_and_the_gone_are_forgotten() {
        let mut sockets = Sockets::new("odd");
        let wrong = sockets.connect(ROOT, "wrong\n");
        let endless = sockets.connect(ROOT, &"x".repeat(LONGEST));
        drop(sockets.connect(ROOT, ""));
        let silent = sockets.connect(ROOT, "");
        sockets.serve();
        assert_eq!(read(wrong), "this is wrong\n");
        assert!(read(endless).ends_with("x!\n"));
        assert_eq!(sockets.silent_clients(ROOT), 1);
        drop(silent);
        sockets.serve();
        assert!(sockets.socket.clients.is_empty());
    }

    #[test]
    fn a_user_with_many_connections_pushes_out_nobody_else() {
        let mut sockets = Sockets::new("many");
        let other = sockets.connect(1001, "");
        let mut crowd = Vec::new();
        for _ in 0..10 * MOST_CLIENTS {
            crowd.push(sockets.connect(1000, ""));
            sockets.serve();
            sockets.pass(WORK * 1000);
        }
        assert_eq!(sockets.silent_clients(1000), MOST_CLIENTS - 1);
        assert_eq!(sockets.silent_clients(1001), 1);
        drop((other, crowd));
        (0..10 * MOST_CLIENTS).for_each(|_| {
            sockets.serve();
            sockets.pass(WORK * 1000);
        });
        assert!(sockets.socket.clients.is_empty());
    }

    #[test]
    fn who_does_not_take_an_answer_keeps_nobody_waiting() {
        let mut sockets = Sockets::new("much");
        let slow = sockets.connect(1000, "much\n");
        sockets.serve();
        let root = sockets.connect(ROOT, "root\n");
        sockets.serve();
        assert_eq!(read(root), "root!\n");
        let reader = std::thread::spawn(move || read(slow).len());
        while !reader.is_finished() {
            sockets.pass(WORK * 1000);
            sockets.socket.serve(WORK, |_, _| unreachable!("all has been asked"));
        }
        assert_eq!(reader.join().expect("it reads"), "much\n".len() << 18);
    }

    /// A user asks as often as it can for five seconds, another and root now and then.
    #[test]
    fn a_flood_has_a_budget_and_keeps_neither_root_nor_another_user_waiting() {
        let mut sockets = Sockets::new("flood");
        let (mut flood, mut others, mut roots) = (Vec::new(), VecDeque::new(), 0);
        let end = Duration::from_secs(5);
        while sockets.host.now.get() < end {
            let now = sockets.host.now.get();
            if flood.len() < 40 {
                flood.push(sockets.connect(1000, "flood\n"));
            }
            if now.as_millis().is_multiple_of(1000) {
                others.push_back((now, sockets.connect(1001, "other\n")));
                let root = sockets.connect(ROOT, "root\n");
                sockets.serve();
                assert_eq!(answer(&root).as_deref(), Some("root!\n"), "at {now:?}");
                roots += 1;
            }
            sockets.serve();
            flood.retain(|client| answer(client).is_none());
            if let Some((since, other)) = others.front()
                && answer(other).is_some()
            {
                assert!(now <= *since + WORK * 900, "asked at {since:?}, answered at {now:?}");
                others.pop_front();
            }
            sockets.pass(WORK);
        }
        let used = sockets.host.used.get().saturating_sub(WORK * roots);
        assert!(others.len() <= 1, "{} wait", others.len());
        assert!(used <= end / 99, "{used:?}");
        assert!(used >= end / 202, "{used:?}: nobody is served");
    }

    #[test]
    fn the_paths_go_with_the_socket() {
        let sockets = Sockets::new("path");
        let paths = [&sockets.socket.root, &sockets.socket.users].map(|it| it.path.clone());
        assert!(paths.iter().all(|path| path.exists()));
        drop(sockets);
        assert!(!paths.iter().any(|path| path.exists()));
    }
}
