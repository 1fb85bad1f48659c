//! The loader's socket: who asks for what.
//!
//! Nobody is waited for. A client is scheduled like any task: on a busy machine seconds may pass
//! between its connecting and its request, in which the loader has other things to do.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

/// A client that does not take its answer must not keep the loader.
const PATIENCE: Duration = Duration::from_millis(200);
/// Clients that have not said yet what they want; one more, and the oldest has to go.
const MOST_CLIENTS: usize = 64;
/// Bytes of a request, a line.
const LONGEST: usize = 128;

/// Listens at a path, which is gone when this is dropped.
pub(crate) struct Socket {
    path: PathBuf,
    listener: UnixListener,
    /// In the order of their coming.
    clients: VecDeque<Client>,
}

impl Socket {
    /// Anybody may connect.
    pub(crate) fn listen(path: &Path) -> Result<Socket> {
        // Left behind by a loader that was killed: only one can be loaded, and that is us.
        let _ = fs::remove_file(path);
        let listener =
            UnixListener::bind(path).with_context(|| format!("cannot make {}", path.display()))?;
        listener.set_nonblocking(true)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
        Ok(Socket { path: path.to_path_buf(), listener, clients: VecDeque::new() })
    }

    /// Waits until somebody connects or speaks, or a signal comes, but no longer than this.
    pub(crate) fn wait(&self, longest: Duration) {
        let input = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let clients = self.clients.iter().map(|client| client.stream.as_raw_fd());
        let mut inputs: Vec<libc::pollfd> =
            clients.chain([self.listener.as_raw_fd()]).map(input).collect();
        let longest_ms = i32::try_from(longest.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the pointer is to as many live structs as the call is told. How it ended does not
        // matter: `serve` finds out.
        unsafe { libc::poll(inputs.as_mut_ptr(), inputs.len() as libc::nfds_t, longest_ms) };
    }

    /// Has `answer` answer those who have said what they want; an error is the answer too. With our
    /// end of the socket, the kernel keeps the credentials of whoever connected it.
    pub(crate) fn serve(&mut self, mut answer: impl FnMut(&str, BorrowedFd<'_>) -> Result<String>) {
        while let Ok((stream, _)) = self.listener.accept() {
            // One that has gone meanwhile is not missed.
            self.clients.extend(Client::new(stream));
            if self.clients.len() > MOST_CLIENTS {
                self.clients.pop_front();
            }
        }
        self.clients.retain_mut(|client| match client.listen() {
            Ok(None) => true,
            Ok(Some(request)) => {
                let text = answer(&request, client.stream.as_fd())
                    .unwrap_or_else(|error| format!("{error:#}\n"));
                client.tell(&text);
                false
            }
            Err(_) => false,
        });
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Somebody who is connected and has not said everything yet.
struct Client {
    stream: UnixStream,
    said: Vec<u8>,
}

impl Client {
    fn new(stream: UnixStream) -> io::Result<Client> {
        stream.set_nonblocking(true)?;
        Ok(Client { stream, said: Vec::new() })
    }

    /// The request, once its line is whole. An error if none will come.
    fn listen(&mut self) -> io::Result<Option<String>> {
        let mut bytes = [0; LONGEST];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.said.extend(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
            let end = self.said.iter().position(|&byte| byte == b'\n');
            if end.is_some() || self.said.len() >= LONGEST {
                let line = &self.said[..end.unwrap_or(self.said.len())];
                return Ok(Some(String::from_utf8_lossy(line).into_owned()));
            }
        }
    }

    fn tell(&mut self, text: &str) {
        let mut stream = &self.stream;
        let ready =
            stream.set_nonblocking(false).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
        // The client may have gone.
        let _ = ready.and_then(|()| stream.write_all(text.as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use anyhow::ensure;

    use super::*;

    fn socket(name: &str) -> Socket {
        let name = format!("prorata-{name}-{}.sock", std::process::id());
        Socket::listen(&std::env::temp_dir().join(name)).expect("a socket")
    }

    fn echo(request: &str, _: BorrowedFd<'_>) -> Result<String> {
        ensure!(request != "wrong", "this is wrong");
        Ok(format!("{request}!\n"))
    }

    fn read(mut client: UnixStream) -> String {
        let mut text = String::new();
        client.read_to_string(&mut text).expect("an answer");
        text
    }

    #[test]
    fn a_client_may_take_its_time() {
        let mut socket = socket("slow");
        let mut slow = UnixStream::connect(&socket.path).expect("connects");
        socket.serve(echo);
        let mut quick = UnixStream::connect(&socket.path).expect("connects");
        quick.write_all(b"quick\n").expect("writes");
        slow.write_all(b"sl").expect("writes");
        socket.serve(echo);
        assert_eq!(read(quick), "quick!\n");
        slow.write_all(b"ow\n").expect("writes");
        socket.wait(Duration::from_secs(60));
        socket.serve(echo);
        assert_eq!(read(slow), "slow!\n");
        assert!(socket.clients.is_empty());
    }

    #[test]
    fn errors_are_told_and_the_silent_are_forgotten() {
        let mut socket = socket("odd");
        let mut wrong = UnixStream::connect(&socket.path).expect("connects");
        wrong.write_all(b"wrong\n").expect("writes");
        let mut endless = UnixStream::connect(&socket.path).expect("connects");
        endless.write_all(&[b'x'; LONGEST]).expect("writes");
        drop(UnixStream::connect(&socket.path).expect("connects"));
        socket.serve(echo);
        assert_eq!(read(wrong), "this is wrong\n");
        assert!(read(endless).ends_with("x!\n"));
        assert!(socket.clients.is_empty());
        let silent: Vec<UnixStream> = (0..=MOST_CLIENTS)
            .map(|_| UnixStream::connect(&socket.path).expect("connects"))
            .collect();
        socket.serve(echo);
        assert_eq!(socket.clients.len(), MOST_CLIENTS);
        drop(silent);
        socket.serve(echo);
        assert!(socket.clients.is_empty());
    }

    #[test]
    fn the_path_goes_with_the_socket() {
        let socket = socket("path");
        let path = socket.path.clone();
        assert!(path.exists());
        drop(socket);
        assert!(!path.exists());
    }
}
