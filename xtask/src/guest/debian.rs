//! Programs of Debian's, in `/debian`: servers, their clients, encoders, a compiler.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::random::Random;
use super::stress::run_time_ns;
use super::system;
use crate::shell;

/// What the machine takes along.
pub(crate) const PACKAGES: &[&str] =
    &["nginx", "wrk", "redis-server", "redis-tools", "lame", "gcc", "libc6-dev"];

const NOISE: &str = "/tmp/noise";
/// Of sound in 16 bits, in stereo: three minutes, more than an emulated cpu encodes here.
const NOISE_BYTES: usize = 32 << 20;
/// Of one frame of MP3.
const FRAME_BYTES: u64 = 1152 * 4;
const UNIT: &str = "/tmp/unit.c";
const FUNCTIONS: u32 = 8;
/// As many as redis answers beside encoders of its weight.
const REQUESTS_PER_S: u64 = 300;
const PATIENCE: Duration = Duration::from_secs(60);

const NGINX: &str =
    "daemon off; master_process off; user root; pid /tmp/nginx.pid; error_log stderr;
events { worker_connections 64; }
http { access_log off; server { listen 127.0.0.1:8080; root /tmp/www; } }
";
/// Each connection's clients think for 50 ms between two requests.
const THINKING: &str = "function delay() return 50 end\n";

/// Writes the files that the programs read.
pub(super) fn prepare() -> Result<()> {
    ensure!(Path::new("/debian/usr/bin/lame").exists(), "this needs the packages: {PACKAGES:?}");
    if Path::new(NOISE).exists() {
        return Ok(());
    }
    fs::create_dir_all("/tmp/www")?;
    fs::write("/tmp/www/index.html", [b'x'; 4096])?;
    fs::write("/tmp/nginx.conf", NGINX)?;
    fs::write("/tmp/thinking.lua", THINKING)?;
    fs::write(UNIT, unit())?;
    let mut random = Random::new(1);
    let mut noise = Vec::with_capacity(NOISE_BYTES);
    while noise.len() < NOISE_BYTES {
        noise.extend_from_slice(&random.next().to_le_bytes());
    }
    Ok(fs::write(NOISE, noise)?)
}

/// C that takes a compiler a moment.
fn unit() -> String {
    let function = |n: u32| {
        format!(
            "double f{n}(double *a, int n) {{ double s = {n}; for (int i = 1; i < n; i++) {{ \
             a[i] = a[i - 1] * s + a[i]; if (a[i] > {n}) s -= a[i] / 3; else s += i % {}; }} \
             return s; }}\n",
            n + 2
        )
    };
    (0..FUNCTIONS).map(function).collect()
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new("chroot");
    command.arg("/debian").args(words);
    command
}

/// A program, killed when dropped.
pub(super) struct Program(Child);

impl Program {
    fn start(words: &[&str]) -> Result<Program> {
        let mut command = command(words);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Program(command.spawn().with_context(|| format!("cannot start {}", words[0]))?))
    }

    /// How long all of its threads have run.
    pub(super) fn time_ns(&self) -> Result<u64> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0.id()))?;
        let times = tasks.map(|task| {
            let id = task?.file_name();
            run_time_ns(format!("{}/task/{}", self.0.id(), id.to_string_lossy()))
        });
        times.sum()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // One that has gone already is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a server's client found.
#[derive(Debug, PartialEq)]
pub(super) struct Answers {
    pub(super) per_s: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// A server and the client that asks it.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Service {
    /// nginx; ten clients that think between requests.
    Web,
    /// nginx; ten clients that do not.
    BusyWeb,
    /// redis; ten clients that do not.
    Cache,
}

impl Service {
    pub(super) fn name(self) -> &'static str {
        match self {
            Service::Web => "nginx",
            Service::BusyWeb => "nginx, busy",
            Service::Cache => "redis, busy",
        }
    }

    /// Returns once it answers.
    pub(super) fn start(self) -> Result<Program> {
        let (words, address): (&[&str], _) = match self {
            Service::Web | Service::BusyWeb => {
                (&["nginx", "-c", "/tmp/nginx.conf"], "127.0.0.1:8080")
            }
            Service::Cache => (&["redis-server", "--port", "6379", "--save", ""], "127.0.0.1:6379"),
        };
        let mut server = Program::start(words)?;
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            let ended = server.0.try_wait()?;
            ensure!(ended.is_none(), "{} ended by itself", words[0]);
            ensure!(Instant::now() < deadline, "{} does not answer", words[0]);
            thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// Asks it for so long.
    pub(super) fn ask(self, seconds: u64) -> Result<Answers> {
        match self {
            Service::Web => ask_nginx(seconds, "/tmp/thinking.lua"),
            Service::BusyWeb => ask_nginx(seconds, "/dev/null"),
            Service::Cache => ask_redis(seconds),
        }
    }
}

fn ask_nginx(seconds: u64, script: &str) -> Result<Answers> {
    let duration = format!("{seconds}s");
    let mut wrk = command(&["wrk", "-t1", "-c10", "-d", &duration, "--latency"]);
    wrk.args(["-s", script, "http://127.0.0.1:8080/"]);
    let said = shell::output(&mut wrk)?;
    read_wrk(&said).with_context(|| format!("wrk said: {said}"))
}

/// It is told a number of requests, not a time.
fn ask_redis(seconds: u64) -> Result<Answers> {
    let requests = (seconds * REQUESTS_PER_S).to_string();
    let words = ["redis-benchmark", "-t", "get", "-c", "10", "-n", &requests, "--csv"];
    let said = shell::output(&mut command(&words))?;
    read_redis_benchmark(&said).with_context(|| format!("redis-benchmark said: {said}"))
}

fn read_wrk(said: &str) -> Option<Answers> {
    let after = |name: &str| {
        let line = said.lines().find_map(|line| line.trim().strip_prefix(name));
        line.map(str::trim)
    };
    let per_s = after("Requests/sec:")?.parse().ok()?;
    Some(Answers { per_s, p50_ms: ms(after("50%")?)?, p99_ms: ms(after("99%")?)? })
}

/// `1.04ms`, `635.91us`, `2.87s`.
fn ms(text: &str) -> Option<f64> {
    let (number, factor) = match text {
        _ if text.ends_with("us") => (text.strip_suffix("us")?, 1e-3),
        _ if text.ends_with("ms") => (text.strip_suffix("ms")?, 1.0),
        _ => (text.strip_suffix('s')?, 1e3),
    };
    Some(number.parse::<f64>().ok()? * factor)
}

fn read_redis_benchmark(said: &str) -> Option<Answers> {
    let mut lines = said.lines().map(|line| line.split(',').map(|field| field.trim_matches('"')));
    let names: Vec<&str> = lines.next()?.collect();
    let fields: Vec<&str> = lines.next()?.collect();
    let field =
        |name| fields.get(names.iter().position(|&known| known == name)?)?.parse::<f64>().ok();
    Some(Answers {
        per_s: field("rps")?,
        p50_ms: field("p50_latency_ms")?,
        p99_ms: field("p99_latency_ms")?,
    })
}

/// An encoder of noise.
pub(super) struct Encoder(Program);

impl Encoder {
    pub(super) fn start(nice: i32) -> Result<Encoder> {
        let words = ["lame", "--quiet", "-r", "-s", "44.1", "-", "/dev/null"];
        let mut command = command(&words);
        command.stdin(File::open(NOISE)?).stdout(Stdio::null()).stderr(Stdio::null());
        let encoder = Program(command.spawn().context("cannot start lame")?);
        system::set_nice(encoder.0.id(), nice)?;
        Ok(Encoder(encoder))
    }

    pub(super) fn time_ns(&self) -> Result<u64> {
        self.0.time_ns()
    }

    /// Frames that it has read; an error if it has ended.
    pub(super) fn frames(&mut self) -> Result<u64> {
        ensure!(self.0.0.try_wait()?.is_none(), "an encoder has ended");
        let text = fs::read_to_string(format!("/proc/{}/io", self.0.0.id()))?;
        let read = text.lines().find_map(|line| line.strip_prefix("rchar: "));
        Ok(read.context("no rchar in io")?.parse::<u64>()? / FRAME_BYTES)
    }
}

/// Compiles the unit. Returns how long that took.
pub(super) fn compile() -> Result<Duration> {
    let begin_us = system::monotonic_us();
    let words = ["gcc", "-O2", "-c", UNIT, "-o", "/tmp/unit.o"];
    let said = shell::output(&mut command(&words))?;
    io::stdout().write_all(said.as_bytes())?;
    Ok(Duration::from_micros(system::monotonic_us() - begin_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_wrk_says() {
        let said = "  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   635.91us    0.89ms  12.92ms   93.69%
  Latency Distribution
     50%  250.00us
     75%  491.00us
     90%    1.08ms
     99%    5.66ms
  22464657 requests in 30.00s, 17.76GB read
Requests/sec: 748868.53
Transfer/sec:    606.33MB\n";
        let answers = Answers { per_s: 748_868.53, p50_ms: 0.25, p99_ms: 5.66 };
        assert_eq!(read_wrk(said), Some(answers));
        assert_eq!(ms("1.20s"), Some(1200.0));
        assert_eq!(read_wrk("unable to connect"), None);
    }

    #[test]
    fn reads_what_redis_benchmark_says() {
        let said = "\"test\",\"rps\",\"avg_latency_ms\",\"p50_latency_ms\",\"p99_latency_ms\"\n\
                    \"GET\",\"1234.50\",\"0.7\",\"0.5\",\"2.25\"\n";
        let answers = Answers { per_s: 1234.5, p50_ms: 0.5, p99_ms: 2.25 };
        assert_eq!(read_redis_benchmark(said), Some(answers));
        assert_eq!(read_redis_benchmark(""), None);
    }
}
