//! Garbage that looks like something: files that are right, changed a little. What an input is depends on its
//! target and its seed alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longer than any input takes, however busy the machine is.
const HANGS: Duration = Duration::from_secs(60);
/// No longer inputs.
const LONGEST: usize = 20_000;

/// Numbers at which something may overflow, or that are none.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "7",
    "64",
    "65535",
    "65536",
    "65537",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999999999999999999",
    "-1",
    "-0",
    "0.5",
    "1e308",
    "1e-308",
    "1e400",
    "nan",
    "inf",
    "-9223372036854775808",
    "0x10",
    "",
];

/// A parser, and what it is fed with.
pub(crate) struct Target<'a> {
    pub(crate) name: &'a str,
    /// Inputs that are right.
    pub(crate) corpus: &'a [&'a str],
    /// Words of the format.
    pub(crate) words: &'a [&'a str],
    pub(crate) read: &'a (dyn Fn(&str, u64) + Sync),
}

/// A small generator (`SplitMix64`).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An index below `length`, or 0.
    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.next() % (length.max(1) as u64)).expect("below a usize")
    }

    fn choose<'c>(&mut self, choices: &[&'c str]) -> &'c str {
        choices.get(self.index(choices.len())).copied().unwrap_or("")
    }
}

impl Target<'_> {
    /// The input that `seed` makes.
    pub(crate) fn input(&self, seed: u64) -> String {
        let mut random = Random(seed);
        let mut bytes = random.choose(self.corpus).as_bytes().to_vec();
        // One change in half of them: what is changed more often is seldom accepted, and simulated.
        for _ in 0..=random.next().trailing_zeros().min(7) {
            self.change(&mut bytes, &mut random);
            bytes.truncate(LONGEST);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn change(&self, bytes: &mut Vec<u8>, random: &mut Random) {
        let at = random.index(bytes.len() + 1);
        match random.index(10) {
            0 => drop(bytes.splice(at..at, random.choose(self.words).bytes())),
            1 | 2 => {
                let (begin, end) = word_near(bytes, at, u8::is_ascii_digit);
                bytes.splice(begin..end, random.choose(NUMBERS).bytes());
            }
            3 => {
                let (begin, end) =
                    word_near(bytes, at, |b| b.is_ascii_alphanumeric() || *b == b'_');
                bytes.splice(begin..end, random.choose(self.words).bytes());
            }
            4 => {
                let (begin, end) = line_near(bytes, at);
                bytes.drain(begin..end);
            }
            5 => {
                let (begin, end) = line_near(bytes, at);
                let line = bytes[begin..end].to_vec();
                let to = line_near(bytes, random.index(bytes.len() + 1)).0;
                bytes.splice(to..to, line);
            }
            6 => {
                let end = (at + random.index(40)).min(bytes.len());
                bytes.drain(at..end);
            }
            7 => {
                let end = (at + random.index(40)).min(bytes.len());
                let part = bytes[at..end].repeat(1 + random.index(5));
                bytes.splice(at..at, part);
            }
            8 => {
                let other = random.choose(self.corpus).as_bytes();
                let begin = random.index(other.len());
                let end = (begin + random.index(200)).min(other.len());
                bytes.splice(at..at, other[begin..end].iter().copied());
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = u8::try_from(random.index(256)).expect("a byte");
                }
            }
        }
    }

    /// Feeds it what seeds from `first` on make, until `goes_on` says no. Panics with all seeds that made it
    /// panic; aborts if one makes it hang. Returns the first seed that was not tried.
    pub(crate) fn feed(&self, first: u64, goes_on: impl Fn(u64) -> bool) -> u64 {
        let current = AtomicU64::new(first);
        let done = AtomicU64::new(u64::MAX);
        let mut failed = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| self.watch(&current, &done));
            let mut seed = first;
            while goes_on(seed) {
                current.store(seed, Ordering::Relaxed);
                let input = self.input(seed);
                if catch_unwind(AssertUnwindSafe(|| (self.read)(&input, seed))).is_err() {
                    eprintln!("{} seed {seed}:\n{input}\n", self.name);
                    failed.push(seed);
                }
                seed += 1;
            }
            current.store(seed, Ordering::Relaxed);
            done.store(0, Ordering::Relaxed);
        });
        assert!(failed.is_empty(), "{} panics on what seeds {failed:?} make", self.name);
        current.into_inner()
    }

    fn watch(&self, current: &AtomicU64, done: &AtomicU64) {
        let (mut seen, mut since) = (u64::MAX, Instant::now());
        while done.load(Ordering::Relaxed) != 0 {
            std::thread::sleep(Duration::from_millis(20));
            let now = current.load(Ordering::Relaxed);
            if now != seen {
                (seen, since) = (now, Instant::now());
            } else if since.elapsed() > HANGS {
                eprintln!("{} hangs on what seed {now} makes:\n{}", self.name, self.input(now));
                std::process::abort();
            }
        }
    }
}

/// Where the word of such bytes is that is at `at` or behind it.
fn word_near(bytes: &[u8], at: usize, belongs: impl Fn(&u8) -> bool) -> (usize, usize) {
    let within = bytes[..at].iter().rev().take_while(|byte| belongs(byte)).count();
    let skipped =
        if within > 0 { 0 } else { bytes[at..].iter().take_while(|b| !belongs(b)).count() };
    let begin = at - within + skipped;
    let length = bytes[begin..].iter().take_while(|byte| belongs(byte)).count();
    (begin, begin + length)
}

/// Where the line at `at` begins and ends.
fn line_near(bytes: &[u8], at: usize) -> (usize, usize) {
    let begin = bytes[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let end =
        bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |end| at + end + 1);
    (begin, end)
}

/// All of `targets`, as `cargo xtask fuzz` says: PRORATA_SEED is one seed of PRORATA_TARGET; otherwise
/// PRORATA_SECONDS of each, or of that one, from the seed PRORATA_FIRST on. The first seed that was not
/// tried is written to PRORATA_NEXT.
pub(crate) fn campaign(targets: &[Target<'_>]) {
    let number =
        |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let wanted = std::env::var("PRORATA_TARGET").ok();
    let length = Duration::from_secs(number("PRORATA_SECONDS").unwrap_or(1));
    let first = number("PRORATA_FIRST").unwrap_or(0);
    for target in targets.iter().filter(|target| wanted.as_deref().is_none_or(|w| w == target.name))
    {
        if let Some(seed) = number("PRORATA_SEED") {
            println!("{} seed {seed}:\n{}", target.name, target.input(seed));
            (target.read)(&target.input(seed), seed);
            continue;
        }
        let begin = Instant::now();
        let next = target.feed(first, |_| begin.elapsed() < length);
        println!("{}: seeds {first} to {next}", target.name);
        if let Some(place) = std::env::var_os("PRORATA_NEXT") {
            std::fs::write(place, next.to_string()).expect("writable");
        }
    }
}
