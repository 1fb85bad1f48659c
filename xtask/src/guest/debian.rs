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
use super::system;
use crate::shell;

/// What the machine takes along.
pub(crate) const PACKAGES: &[&str] = &[
    "nginx",
    "wrk",
    "redis-server",
    "redis-tools",
    "lame",
    "gcc",
    "libc6-dev",
    "rt-tests",
    "rt-app",
    "stress-ng",
];

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

/// Ten tasks that work for about a millisecond at the beginning of every 20: rt-app's loop takes an emulated
/// cpu 1.9 µs.
const PERIODIC: &str = r#"{
    "tasks": { "periodic": { "instance": 10, "loop": -1, "run": 1000,
        "timer": { "ref": "unique", "period": 20000 } } },
    "global": { "duration": SECONDS, "default_policy": "SCHED_OTHER", "calibration": 1900,
        "logdir": "/tmp/rt-app", "log_basename": "task" }
}"#;
/// What cyclictest tells latencies of, in µs.
const LATENCIES_US: usize = 100_000;

/// Writes the files that the programs read.
pub(super) fn prepare() -> Result<()> {
    ensure!(Path::new("/debian/usr/bin/lame").exists(), "this needs the packages: {PACKAGES:?}");
    if Path::new(NOISE).exists() {
        return Ok(());
    }
    fs::create_dir_all("/tmp/www")?;
    fs::create_dir_all("/tmp/rt-app")?;
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

    pub(super) fn time_ns(&self) -> Result<u64> {
        system::run_time_ns(self.0.id())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // One that has gone already is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a server's client found, or a program that keeps a rhythm.
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

/// Programs that measure how late a scheduler lets them run.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Rhythm {
    Cyclictest,
    RtApp,
}

impl Rhythm {
    pub(super) fn name(self) -> &'static str {
        match self {
            Rhythm::Cyclictest => "cyclictest",
            Rhythm::RtApp => "rt-app",
        }
    }

    /// How late they ran in so many seconds.
    pub(super) fn keep(self, seconds: u64) -> Result<Answers> {
        let mut late_us = match self {
            Rhythm::Cyclictest => cyclictest(seconds)?,
            Rhythm::RtApp => rt_app(seconds)?,
        };
        ensure!(!late_us.is_empty(), "{} never ran", self.name());
        late_us.sort_unstable();
        let percentile = |percent: usize| late_us[(late_us.len() - 1) * percent / 100] as f64 / 1e3;
        let per_s = late_us.len() as f64 / seconds as f64;
        Ok(Answers { per_s, p50_ms: percentile(50), p99_ms: percentile(99) })
    }
}

fn cyclictest(seconds: u64) -> Result<Vec<u64>> {
    let (loops, range) = ((seconds * 100).to_string(), LATENCIES_US.to_string());
    let words = ["cyclictest", "--policy=other", "--threads=4", "--interval=10000", "--distance=0"];
    let mut command = command(&words);
    command.args([
        "--quiet",
        "--json=/tmp/cyclictest.json",
        "--loops",
        &loops,
        "--histogram",
        &range,
    ]);
    shell::output(&mut command)?;
    read_cyclictest(&fs::read_to_string("/tmp/cyclictest.json")?)
}

/// A latency above the range counts as its thread's longest.
fn read_cyclictest(json: &str) -> Result<Vec<u64>> {
    let report: serde_json::Value = serde_json::from_str(json)?;
    let threads = report["thread"].as_object().context("cyclictest tells of no threads")?;
    let mut late_us = Vec::new();
    for thread in threads.values() {
        let counts = thread["histogram"].as_object().context("a thread without histogram")?;
        let before = late_us.len();
        for (us, count) in counts {
            let count = usize::try_from(count.as_u64().context("a count")?)?;
            late_us.extend(std::iter::repeat_n(us.parse::<u64>()?, count));
        }
        let cycles = usize::try_from(thread["cycles"].as_u64().context("no cycles")?)?;
        let longest = thread["max"].as_u64().context("no maximum")?;
        late_us.resize((before + cycles).max(late_us.len()), longest);
    }
    Ok(late_us)
}

fn rt_app(seconds: u64) -> Result<Vec<u64>> {
    fs::write("/tmp/periodic.json", PERIODIC.replace("SECONDS", &seconds.to_string()))?;
    shell::output(&mut command(&["rt-app", "/tmp/periodic.json"]))?;
    let mut late_us = Vec::new();
    for log in fs::read_dir("/tmp/rt-app")? {
        late_us.extend(read_rt_app(&fs::read_to_string(log?.path())?).context("rt-app's log")?);
    }
    Ok(late_us)
}

/// The column of wake-up latencies.
fn read_rt_app(log: &str) -> Option<Vec<u64>> {
    let mut lines = log.lines().skip_while(|line| !line.starts_with("#idx"));
    let names: Vec<&str> = lines.next()?.split_whitespace().collect();
    let column = names.iter().position(|&name| name == "wu_lat")?;
    // The first is early, which rt-app prints as a number without a sign.
    let latency = |line: &str| {
        let late_us = line.split_whitespace().nth(column)?.parse::<u64>().ok()?.cast_signed();
        Some(late_us.max(0).unsigned_abs())
    };
    lines.map(latency).collect()
}

/// Tasks that compute in many ways.
pub(super) fn stress(tasks: usize) -> Result<Program> {
    Program::start(&["stress-ng", "--cpu", &tasks.to_string(), "--temp-path", "/tmp"])
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
    fn reads_what_cyclictest_says() {
        let json = r#"{ "thread": { "0": { "histogram": { "12": 2, "40": 1 }, "cycles": 4,
                        "min": 12, "max": 100500, "avg": 20.5 } } }"#;
        assert_eq!(read_cyclictest(json).unwrap(), [12, 12, 40, 100_500]);
        assert!(read_cyclictest("{}").is_err());
    }

    #[test]
    fn reads_what_rt_app_logs() {
        let log = "# Policy\n#idx run period start end rel_st slack c_duration c_period wu_lat\n\
                   0 1000 20000 1 2 3 4 5 6 57\n\
                   0 1000 20000 1 2 3 4 5 6 18446744073709371720\n";
        assert_eq!(read_rt_app(log), Some(vec![57, 0]));
        assert_eq!(read_rt_app("#idx run\n"), None);
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
