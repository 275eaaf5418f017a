//! `whyspike watch` as it is used: a log that grows under it, kills and restarts, commands, webhooks, metrics, hangs.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::Noise;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A folder with a log that grows, and what remembers what was told of it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn log(&self, text: &str) {
        append(&self.path("train.jsonl"), text);
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_whyspike"));
        command.current_dir(self.folder.path()).env("NO_COLOR", "1");
        command.env_remove("WHYSPIKE_WEBHOOK");
        command.args([
            "watch",
            "train.jsonl",
            "--state",
            "state",
            "--every",
            "0.02",
        ]);
        command.args(args);
        command
    }

    /// One look; the lines that it printed.
    fn once(&self, args: &[&str]) -> Vec<String> {
        let out = self.command(args).arg("--once").output().expect("it runs");
        let err = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(0), "{err}");
        lines(&out.stdout)
    }

    fn start(&self, args: &[&str]) -> Running {
        Running::new(
            self.command(args)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        )
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Waits for a file of the state whose name ends so; its name.
    fn wait_for_ending(&self, ending: &str) -> String {
        let start = Instant::now();
        loop {
            let all = fs::read_dir(self.path("state")).expect("a folder");
            let names = all.map(|e| {
                e.expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            });
            if let Some(name) = names.into_iter().find(|n| n.ends_with(ending)) {
                return name;
            }
            assert!(start.elapsed() < PATIENCE, "{ending}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a file holds something that fits.
    fn wait(&self, name: &str, fits: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let text = self.read(name);
            if fits(&text) {
                return text;
            }
            let count = text.lines().count();
            assert!(start.elapsed() < PATIENCE, "{name}: {count} lines");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A watch that runs; it is killed when this goes.
struct Running {
    child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
}

impl Running {
    fn new(command: &mut Command) -> Self {
        let mut child = command.spawn().expect("it starts");
        let out = pumped(child.stdout.take().expect("piped"));
        let err = pumped(child.stderr.take().expect("piped"));
        Self { child, out, err }
    }

    /// The next line of standard output that fits; those before it are passed over.
    fn line(&self, fits: &str) -> String {
        next(&self.out, fits)
    }

    fn note(&self, fits: &str) -> String {
        next(&self.err, fits)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pumped(from: impl Read + Send + 'static) -> Receiver<String> {
    let (give, take) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if give.send(line).is_err() {
                return;
            }
        }
    });
    take
}

fn next(lines: &Receiver<String>, fits: &str) -> String {
    let mut seen = Vec::new();
    loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) if line.contains(fits) => return line,
            Ok(line) => seen.push(line),
            Err(e) => panic!("no `{fits}` ({e}) after {seen:#?}"),
        }
    }
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes)
        .lines()
        .map(str::to_owned)
        .collect()
}

fn append(path: &Path, text: &str) {
    let file = OpenOptions::new().append(true).create(true).open(path);
    file.and_then(|mut f| f.write_all(text.as_bytes()))
        .expect("written");
}

/// Rows of a healthy run with spikes of three rows after these steps.
fn rows(steps: std::ops::Range<u64>, spikes: &[u64]) -> Vec<String> {
    let mut noise = Noise::new(steps.start);
    let row = |step: u64| {
        let up = spikes.iter().any(|s| (*s..s + 3).contains(&step));
        let loss = 2.0 + 0.01 * noise.normal() + if up { 1.0 } else { 0.0 };
        format!("{{\"step\": {step}, \"loss\": {loss:.5}, \"grad_norm\": 1.0}}\n")
    };
    steps.map(row).collect()
}

fn text(steps: std::ops::Range<u64>, spikes: &[u64]) -> String {
    rows(steps, spikes).concat()
}

#[test]
fn an_incident_is_told_while_the_log_grows_and_what_becomes_of_it_too() {
    let place = Place::new();
    let watch = place.start(&[
        "--on-incident",
        "cat >> new.json",
        "--on-update",
        "cat >> updates.json",
    ]);
    watch.note("watching train.jsonl");
    let all = rows(1..900, &[500]);
    place.log(&all[..499].concat());
    std::thread::sleep(Duration::from_millis(200));
    for row in &all[499..503] {
        place.log(row);
        std::thread::sleep(Duration::from_millis(60));
    }
    let line = watch.line("incident 1");
    assert!(
        line.contains("loss, acute") && line.contains("onset 500"),
        "{line}"
    );
    let new: Value =
        serde_json::from_str(&place.wait("new.json", |t| t.ends_with('\n'))).expect("JSON");
    assert_eq!(
        (&new["event"], &new["id"]),
        (&Value::from("incident"), &Value::from(1))
    );
    assert_eq!(new["incident"]["onset_step"], 500);
    assert!(new["incident"]["plan"]["action"].is_string());
    place.log(&all[503..].concat());
    let line = watch.line("incident 1");
    assert!(line.contains("now loss, acute, transient"), "{line}");
    place.wait("updates.json", |t| t.contains("\"event\":\"update\""));
    assert_eq!(place.read("new.json").lines().count(), 1);
}

#[test]
fn what_was_told_is_not_told_again_and_a_state_belongs_to_one_log() {
    let place = Place::new();
    place.log(&text(1..900, &[300, 600]));
    let first = place.once(&[]);
    assert_eq!(first.len(), 2, "{first:?}");
    assert!(place.once(&[]).is_empty());
    place.log(&text(900..1200, &[1000]));
    let later = place.once(&["--format", "json"]);
    let news: Value = serde_json::from_str(&later[0]).expect("JSON");
    assert_eq!(
        (later.len(), &news["id"], &news["incident"]["onset_step"]),
        (1, &3.into(), &1000.into())
    );
    fs::copy(place.path("train.jsonl"), place.path("other.jsonl")).expect("copied");
    let mut other = Command::new(env!("CARGO_BIN_EXE_whyspike"));
    other.current_dir(place.folder.path()).args([
        "watch",
        "other.jsonl",
        "--once",
        "--state",
        "state",
    ]);
    let out = other.output().expect("it runs");
    assert_eq!(out.status.code(), Some(2));
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        said.contains("train.jsonl, not of ") && said.contains("other.jsonl; give each"),
        "{said}"
    );
}

#[test]
fn a_first_watch_may_be_silent_on_what_is_there() {
    let place = Place::new();
    place.log(&text(1..900, &[300]));
    assert!(
        place
            .once(&["--from-now", "--on-incident", "cat >> new.json"])
            .is_empty()
    );
    place.log(&text(900..1300, &[1100]));
    let told = place.once(&["--from-now", "--on-incident", "cat >> new.json"]);
    assert!(
        told.len() == 1 && told[0].contains("onset 1100"),
        "{told:?}"
    );
    assert_eq!(
        place
            .wait("new.json", |t| t.ends_with('\n'))
            .lines()
            .count(),
        1
    );
}

#[test]
fn a_hundred_kills_lose_and_repeat_nothing() {
    const KILLS: u64 = 100;
    let place = Place::new();
    let spikes: Vec<u64> = (1..=KILLS)
        .filter(|n| n % 2 == 0)
        .map(|n| 300 + 100 * n)
        .collect();
    let last = 300 + 100 * KILLS + 400;
    let all = rows(1..last, &spikes);
    place.log(&all[..300].concat());
    let mut noise = Noise::new(7);
    let told = OpenOptions::new()
        .append(true)
        .create(true)
        .open(place.path("lines.txt"));
    let told = told.expect("a file");
    let args = ["--on-incident", "cat >> new.json", "--webhook"];
    let server = Webhook::start(&[]);
    for n in 0..KILLS {
        let mut command = place.command(&args);
        command.arg(&server.url).stderr(Stdio::null());
        let mut watch = command
            .stdout(told.try_clone().expect("a file"))
            .spawn()
            .expect("it starts");
        let at = (300 + 100 * n) as usize;
        let wait = |share: f64| std::thread::sleep(Duration::from_secs_f64(0.4 * share));
        wait(noise.uniform());
        place.log(&all[at..at + 100].concat());
        wait(noise.uniform());
        watch.kill().expect("killed");
        watch.wait().expect("gone");
    }
    place.log(&all[(300 + 100 * KILLS) as usize..].concat());
    let mut watch = place.command(&args);
    watch
        .arg(&server.url)
        .arg("--once")
        .stdout(told)
        .stderr(Stdio::null());
    assert!(watch.status().expect("it runs").success());
    let count = |text: &str| -> Vec<u64> {
        let mut out: Vec<u64> = text
            .lines()
            .map(|l| serde_json::from_str::<Value>(l).expect("JSON"))
            .map(|v| v["incident"]["onset_step"].as_u64().expect("a step"))
            .collect();
        out.sort_unstable();
        out
    };
    let text = place.wait("new.json", |t| {
        t.lines().count() >= spikes.len() && t.ends_with('\n')
    });
    assert_eq!(count(&text), spikes, "each spike once, by the command");
    let lines = place.read("lines.txt");
    let new: Vec<&str> = lines
        .lines()
        .filter(|l| l.contains(" · onset ") && !l.contains("  now "))
        .collect();
    let said = |onset: &u64| {
        new.iter()
            .filter(|l| l.contains(&format!("onset {onset},")))
            .count()
    };
    let wrong: Vec<(&u64, usize)> = spikes
        .iter()
        .map(|s| (s, said(s)))
        .filter(|(_, n)| *n != 1)
        .collect();
    assert!(wrong.is_empty(), "{wrong:?} in {lines}");
    let start = Instant::now();
    while server.taken("acute").len() < spikes.len() && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    let posted: Vec<u64> = spikes
        .iter()
        .map(|s| {
            server
                .taken(&format!("onset {s},"))
                .iter()
                .filter(|t| !t.contains("now loss"))
                .count() as u64
        })
        .collect();
    assert!(posted.iter().all(|n| *n == 1), "{posted:?}");
}

/// A server that takes webhooks, and first answers with these codes.
struct Webhook {
    url: String,
    got: Receiver<(u16, String)>,
    all: std::cell::RefCell<Vec<(u16, String)>>,
}

impl Webhook {
    fn start(answers: &[u16]) -> Self {
        let server = tiny_http::Server::http("127.0.0.1:0").expect("a port");
        let address = server.server_addr().to_ip().expect("an address");
        let (give, got) = channel();
        let answers = answers.to_vec();
        std::thread::spawn(move || {
            for (n, mut request) in server.incoming_requests().enumerate() {
                let mut body = String::new();
                request
                    .as_reader()
                    .read_to_string(&mut body)
                    .expect("a body");
                let code = answers.get(n).copied().unwrap_or(200);
                let _ = request.respond(tiny_http::Response::empty(code));
                if give.send((code, body)).is_err() {
                    return;
                }
            }
        });
        Self {
            url: format!("http://{address}/services/T0/B0/secret"),
            got,
            all: std::cell::RefCell::new(Vec::new()),
        }
    }

    /// The texts that were taken so far and hold something.
    fn taken(&self, holds: &str) -> Vec<String> {
        let mut all = self.all.borrow_mut();
        all.extend(self.got.try_iter());
        let text = |body: &str| {
            serde_json::from_str::<Value>(body).expect("JSON")["text"]
                .as_str()
                .expect("text")
                .to_owned()
        };
        all.iter()
            .filter(|(code, _)| *code == 200)
            .map(|(_, b)| text(b))
            .filter(|t| t.contains(holds))
            .collect()
    }
}

#[test]
fn a_webhook_is_tried_again_while_the_server_is_busy_and_not_when_it_refuses() {
    let place = Place::new();
    place.log(&text(1..900, &[600]));
    let busy = Webhook::start(&[500, 429]);
    let start = Instant::now();
    assert_eq!(place.once(&["--webhook", &busy.url]).len(), 1);
    let codes: Vec<u16> = (0..3)
        .map(|_| busy.got.recv_timeout(PATIENCE).expect("a request"))
        .map(|(code, body)| {
            let body: Value = serde_json::from_str(&body).expect("JSON");
            let text = body["text"].as_str().expect("text");
            assert!(
                text.starts_with("*whyspike: incident 1* in `train.jsonl`\nloss, acute, transient"),
                "{text}"
            );
            code
        })
        .collect();
    assert_eq!(codes, [500, 429, 200]);
    assert!(start.elapsed() >= Duration::from_secs(3), "1 s, then 2 s");
    // The next watch clears away what was delivered.
    std::thread::sleep(Duration::from_millis(300));
    place.once(&[]);
    let left: Vec<String> = fs::read_dir(place.path("state"))
        .expect("a folder")
        .map(|e| {
            e.expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert!(
        left.iter()
            .all(|n| ["lock", "said", "state.json"].contains(&n.as_str())),
        "{left:?}"
    );

    let place = Place::new();
    place.log(&text(1..900, &[600]));
    let refusing = Webhook::start(&[404, 404]);
    let watch = place.start(&["--webhook", &refusing.url]);
    let said = watch.note("404");
    assert!(said.contains("not sent again"), "{said}");
    assert!(refusing.got.recv_timeout(PATIENCE).is_ok());
    assert!(
        refusing
            .got
            .recv_timeout(Duration::from_millis(1500))
            .is_err(),
        "once"
    );
}

#[test]
fn a_webhook_that_is_away_holds_up_nobody_who_reads_the_notes() {
    let place = Place::new();
    place.log(&text(1..900, &[600]));
    let nowhere = "http://127.0.0.1:9/hook";
    let start = Instant::now();
    // As `2>&1 | cat` does: the output is read until its last writer is gone.
    let out = place.command(&["--webhook", nowhere, "--once"]).output();
    assert!(out.expect("it runs").status.success());
    assert!(start.elapsed() < PATIENCE / 2, "its delivery goes on alone");
    let name = place.wait_for_ending(".webhook.note");
    let watch = place.start(&["--webhook", nowhere]);
    let said = watch.note("it is tried for an hour");
    assert!(said.starts_with("incident 1: --webhook: "), "{said}");
    assert!(!place.path("state").join(name).exists());
}

#[test]
fn a_slow_command_does_not_hold_up_the_reading_and_outlives_the_watch() {
    let place = Place::new();
    place.log(&text(1..900, &[300, 600]));
    let watch = place.start(&["--on-incident", "sleep 2; cat >> slow.json"]);
    let start = Instant::now();
    watch.line("onset 300");
    watch.line("onset 600");
    place.log(&text(900..1300, &[1000]));
    watch.line("onset 1000");
    assert!(start.elapsed() < Duration::from_secs(30));
    drop(watch);
    place.wait("slow.json", |t| t.lines().count() >= 2);
}

#[test]
fn a_command_that_fails_is_said_in_words_and_not_run_again() {
    let place = Place::new();
    place.log(&text(1..900, &[600]));
    let watch = place.start(&["--on-incident", "echo ran >> runs; exit 3"]);
    let note = watch.note("incident 1: ");
    assert!(
        note.contains("command of --on-incident failed (exit status: 3); it is not tried again"),
        "{note}"
    );
    drop(watch);
    place.once(&["--on-incident", "echo ran >> runs"]);
    assert_eq!(place.read("runs"), "ran\n");
}

#[test]
fn metrics_are_served_while_the_log_grows() {
    let place = Place::new();
    place.log(&text(1..600, &[]));
    let watch = place.start(&["--metrics", "127.0.0.1:0"]);
    let note = watch.note("metrics at http://");
    let url = note.rsplit(' ').next().expect("an address").to_owned();
    let metric = |name: &str| -> Option<f64> {
        let mut response = ureq::get(&url).call().expect("it answers");
        let kind = response
            .headers()
            .get("content-type")
            .expect("a type")
            .to_str()
            .expect("text")
            .to_owned();
        assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
        let text = response.body_mut().read_to_string().expect("text");
        let line = text
            .lines()
            .find_map(|l| l.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned))?;
        line.parse().ok()
    };
    let wait = |name: &str, fits: &dyn Fn(f64) -> bool| {
        let start = Instant::now();
        while !metric(name).is_some_and(fits) {
            assert!(start.elapsed() < PATIENCE, "{name}: {:?}", metric(name));
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait("whyspike_last_step", &|s| s >= 599.0);
    assert!(metric("whyspike_robust_z").is_some_and(|z| z.abs() < 5.0));
    assert_eq!(
        metric("whyspike_open_incidents{action=\"rollback\"}"),
        Some(0.0)
    );
    let up: String = text(600..800, &[])
        .replace("\"loss\": 2.", "\"loss\": 4.")
        .replace("\"loss\": 1.", "\"loss\": 4.");
    place.log(&up);
    wait("whyspike_last_step", &|s| s >= 799.0);
    wait("whyspike_open_incidents{action=\"rollback\"}", &|n| {
        n >= 1.0
    });
    assert_eq!(
        metric("whyspike_incidents_total{kind=\"acute\"}"),
        Some(1.0)
    );
    assert!(metric("whyspike_robust_z").is_some_and(|z| z > 10.0));
    assert!(metric("whyspike_steps_since_progress").is_some_and(|s| s >= 200.0));
    let other = ureq::get(url.replace("/metrics", "/"))
        .config()
        .http_status_as_error(false)
        .build()
        .call();
    assert_eq!(other.expect("it answers").status(), 404);
}

#[test]
fn a_hang_and_its_end_are_told() {
    let place = Place::new();
    let watch = place.start(&["--hang-after", "1s", "--on-incident", "cat >> hang.json"]);
    place.log(&text(1..600, &[400]));
    watch.line("onset 400");
    place.log(&text(600..603, &[]));
    let line = watch.line("hang");
    assert!(line.contains("no step after 602 for 1 s"), "{line}");
    place.log(&text(603..605, &[]));
    let line = watch.line("steps come again");
    assert!(
        line.contains("incident 2") && line.contains("604 after"),
        "{line}"
    );
    let told = place.wait("hang.json", |t| t.lines().count() == 2);
    let json: Value = serde_json::from_str(told.lines().last().expect("a line")).expect("JSON");
    assert_eq!(
        (&json["event"], &json["hang"]["last_step"]),
        (&"hang".into(), &602.into())
    );
    assert!(json["incident"].is_null());
}

#[test]
fn standard_input_is_followed_to_its_end() {
    let place = Place::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyspike"));
    command
        .current_dir(place.folder.path())
        .env("NO_COLOR", "1")
        .args(["watch", "-", "--every", "0.02"]);
    let out = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        out.status.code() == Some(2) && said.contains("--state"),
        "{said}"
    );
    command
        .args(["--state", "state"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut input = child.stdin.take().expect("piped");
    // The last line has no end.
    input
        .write_all(text(1..900, &[600]).trim_end().as_bytes())
        .expect("written");
    drop(input);
    let out = child.wait_with_output().expect("it ends");
    let told = lines(&out.stdout);
    assert!(
        out.status.success() && told.len() == 1 && told[0].contains("onset 600"),
        "{told:?}"
    );
}

#[test]
fn rotation_and_truncation_are_said_and_the_run_goes_on() {
    let place = Place::new();
    place.log(&text(1..500, &[]));
    let watch = place.start(&[]);
    watch.note("watching");
    std::thread::sleep(Duration::from_millis(300));
    fs::rename(place.path("train.jsonl"), place.path("train.jsonl.1")).expect("moved");
    place.log(&text(500..700, &[600]));
    watch.note("another file took the place of the log");
    let line = watch.line("incident 1");
    assert!(
        line.contains("onset 600") && !line.contains("few rows"),
        "{line}"
    );
    fs::write(place.path("train.jsonl"), text(650..660, &[])).expect("written");
    watch.note("the log was cut and begins anew");
}

#[test]
fn what_cannot_work_is_refused() {
    let place = Place::new();
    place.log(&text(1..10, &[]));
    let busy = place.start(&[]);
    busy.note("watching");
    let refused = |args: &[&str]| {
        let out = place.command(args).output().expect("it runs");
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let said = refused(&["--once"]);
    assert!(said.contains("another `whyspike watch` has it"), "{said}");
    drop(busy);
    for (args, part) in [
        (
            &["--webhook", "hooks.slack.com/x"][..],
            "begins with https://",
        ),
        (&["--metrics", "nowhere"], "such as 127.0.0.1:9464"),
        (&["other.jsonl"], "watch follows one log"),
        (&["--hang-after", "0s"], "more than 0"),
        (&["--input-format", "nothing"], "no format `nothing`"),
    ] {
        let said = refused(args);
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_restart_after_rotations_goes_on_telling() {
    let place = Place::new();
    // Three attempts, of which the next file shows nothing.
    place.log(&(text(1..500, &[300]) + &text(200..600, &[]) + &text(400..700, &[])));
    assert_eq!(place.once(&[]).len(), 1);
    fs::write(place.path("train.jsonl"), text(700..1400, &[1100])).expect("cut");
    let told = place.once(&[]);
    assert!(
        told.len() == 1 && told[0].contains("onset 1100"),
        "{told:?}"
    );
    place.log(&text(1400..1900, &[1600]));
    let told = place.once(&[]);
    assert!(
        told.len() == 1 && told[0].contains("onset 1600"),
        "{told:?}"
    );
}

#[test]
fn news_are_told_though_nobody_reads_the_lines_and_the_state_is_gone() {
    let place = Place::new();
    place.log(&text(1..600, &[300]));
    // A pipe that is full, and is never read.
    let mut command = place.command(&["--format", "json", "--on-incident", "cat >> new.json"]);
    let mut watch = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let notes = pumped(watch.stderr.take().expect("piped"));
    let told = |n: usize| place.wait("new.json", |t| t.lines().count() == n && t.ends_with('\n'));
    told(1);
    let spikes: Vec<u64> = (7..=30).map(|n| n * 100).collect();
    place.log(&text(600..3200, &spikes));
    told(25);
    fs::remove_dir_all(place.path("state")).expect("removed");
    fs::write(place.path("state"), "in its place").expect("written");
    place.log(&text(3200..3600, &[3400]));
    next(&notes, "it is tried again");
    fs::remove_file(place.path("state")).expect("removed");
    told(26);
    let _ = watch.kill();
    let _ = watch.wait();
    assert!(place.read("state/state.json").contains("\"news\":"));
}

#[test]
fn a_webhook_that_points_elsewhere_is_not_followed_and_one_that_is_away_is_said() {
    let place = Place::new();
    place.log(&text(1..900, &[600]));
    let server = tiny_http::Server::http("127.0.0.1:0").expect("a port");
    let address = server.server_addr().to_ip().expect("an address");
    let watch = place.start(&["--webhook", &format!("http://{address}/old")]);
    let request = server.recv().expect("a request");
    let to = tiny_http::Header::from_bytes("Location", "http://127.0.0.1:1/new").expect("a header");
    let answer = tiny_http::Response::empty(302).with_header(to);
    request.respond(answer).expect("answered");
    let note = watch.note("302");
    assert!(note.contains("http://127.0.0.1:1/new"), "{note}");
    drop(watch);
    let place = Place::new();
    place.log(&text(1..900, &[600]));
    let busy = Webhook::start(&[503]);
    let watch = place.start(&["--webhook", &busy.url]);
    assert!(watch.note("it is tried for an hour").contains("503"));
    let codes = [(); 2].map(|()| busy.got.recv_timeout(PATIENCE).expect("a request").0);
    assert_eq!(codes, [503, 200]);
}
