//! `whyspike watch`: follows a growing log and tells of each incident once.

mod post;
mod print;
mod serve;

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::bail;
use clap::ValueEnum;

use crate::cli::input::{self, Input};
use crate::cli::times;
use whyspike::diagnosis::{Diagnosis, Told, diagnose};
use whyspike::ingest::IngestError;
use whyspike::ingest::follow::{Before, Follower};
use whyspike::report::{alert, prometheus};
use whyspike::rules::RuleSet;
use whyspike::watch::{Came, News, Place, Pulse, Watcher};

use post::Post;
use serve::Server;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    /// Time between looks at the log
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = seconds)]
    every: f64,
    /// Shell command that is run once for each new incident, with the incident as JSON on standard input
    #[arg(long, value_name = "CMD")]
    on_incident: Option<String>,
    /// Shell command that is run when the advice on an incident changes, it is over, or it is taken back
    #[arg(long, value_name = "CMD")]
    on_update: Option<String>,
    /// Address that all news are posted to, as Slack's incoming webhooks take them; the environment variable
    /// `WHYSPIKE_WEBHOOK` keeps it out of the list of processes
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// Serve metrics for Prometheus at this address, such as 127.0.0.1:9464
    #[arg(long, value_name = "ADDR")]
    metrics: Option<String>,
    /// Folder that remembers what was told, so that a restart repeats nothing; without it one in the user's state folder
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Say nothing of what the log holds already, if it is watched for the first time
    #[arg(long)]
    from_now: bool,
    /// Look once, tell what is new since the last time, and end: for a job that runs every few minutes
    #[arg(long)]
    once: bool,
    /// Time without a new step that is a hang; without it the pauses that the run has made tell
    #[arg(long, value_name = "TIME", value_parser = times::positive, conflicts_with = "no_hang")]
    hang_after: Option<f64>,
    /// Do not tell when steps stop coming
    #[arg(long)]
    no_hang: bool,
    /// How to print news
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    /// One JSON object a line
    Json,
}

/// A time; a bare number counts seconds.
fn seconds(text: &str) -> anyhow::Result<f64> {
    match text.trim().parse::<f64>() {
        Ok(s) if s.is_finite() && s > 0.0 => Ok(s),
        _ => times::positive(text),
    }
}

/// A log that is read whole at every change is looked at this many times as rarely as reading it takes.
const REST: u32 = 10;
/// Time between looks at the checkpoints.
const SCANNED: Duration = Duration::from_secs(30);
/// Time between writes of how far the log was read.
const NOTED: Duration = Duration::from_secs(10);

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let [log] = args.input.reading.logs.as_slice() else {
        bail!("watch follows one log: give one path (rotated pieces are found by themselves)");
    };
    let aliases = input::aliases(args.input.reading.aliases.as_deref())?;
    let post = Post::open(log, args)?;
    let ledger = post.ledger()?;
    let first = ledger.seen_to == Place::default() && ledger.entries.is_empty();
    let follower = Follower::new(log, &aliases, args.input.reading.options(), &ledger.last())?;
    let server = args.metrics.as_deref().map(Server::start).transpose()?;
    let mut watch = Watch {
        args,
        log: alert::name(log),
        rules: args.input.rules()?,
        told: args.input.told()?,
        watcher: Watcher::new(ledger),
        follower,
        post,
        server,
        latest: None,
        silent: args.from_now && first,
        caught_up: false,
        unseen: false,
        unreadable: None,
        noted: Instant::now(),
        scanned: Instant::now(),
        complaints: [None, None],
    };
    watch.hello();
    watch.post.catch_up(&mut watch.watcher.ledger)?;
    watch.follow()
}

struct Watch<'a> {
    args: &'a Args,
    log: String,
    rules: RuleSet,
    told: Told,
    watcher: Watcher,
    follower: Follower<'a>,
    post: Post<'a>,
    server: Option<Server>,
    /// The last diagnosis, and what lies before its rows.
    latest: Option<(Diagnosis, Before)>,
    /// Whether what is found is only noted: it was there before the watch.
    silent: bool,
    /// Whether the end of the log was reached once: what comes from then on comes now.
    caught_up: bool,
    /// Whether rows came that were not looked at.
    unseen: bool,
    /// Since when the log cannot be read: that no step is seen tells nothing then.
    unreadable: Option<Instant>,
    noted: Instant,
    scanned: Instant,
    /// What was said last of a log that cannot be read, and of checkpoints that cannot be looked up.
    complaints: [Option<String>; 2],
}

impl Watch<'_> {
    fn hello(&self) {
        let told = self.watcher.ledger.entries.len();
        let told = match told {
            0 => String::new(),
            1 => "; 1 incident was told before".to_owned(),
            n => format!("; {n} incidents were told before"),
        };
        let mut text = format!("watching {}{told}", self.log);
        if let Some(server) = &self.server {
            let _ = write!(text, "; metrics at http://{}/metrics", server.address());
        }
        say(&text);
    }

    fn follow(&mut self) -> anyhow::Result<ExitCode> {
        loop {
            let started = Instant::now();
            let (more, ended) = self.look()?;
            if more {
                continue;
            }
            (self.silent, self.caught_up) = (false, true);
            self.hang()?;
            self.note();
            self.post.tend(&mut self.watcher.ledger)?;
            self.publish();
            if ended || self.args.once {
                self.post.finish(&mut self.watcher.ledger)?;
                return Ok(ExitCode::SUCCESS);
            }
            let took = started.elapsed();
            let rest = if self.follower.reads_anew() {
                took * REST
            } else {
                Duration::ZERO
            };
            std::thread::sleep(Duration::from_secs_f64(self.args.every).max(rest));
        }
    }

    /// Reads what is new and tells what it shows: whether more waits, and whether nothing will follow.
    fn look(&mut self) -> anyhow::Result<(bool, bool)> {
        let poll = match self.follower.poll() {
            Ok(poll) => poll,
            Err(e) if lasting(&e) => return Err(e.into()),
            Err(e) => {
                self.unreadable.get_or_insert_with(Instant::now);
                complain(&mut self.complaints[0], &e.to_string());
                return Ok((false, false));
            }
        };
        self.unreadable = None;
        for note in &poll.notes {
            say(&format!("{}: {note}", self.log));
        }
        self.unseen |= poll.grew || poll.ended;
        if self.unseen {
            self.complaints[0] = None;
            self.examine(!poll.more)?;
        }
        Ok((poll.more, poll.ended))
    }

    /// Diagnoses the rows that are kept, unless all that they show was told. `at_end` is false if more rows wait.
    fn examine(&mut self, at_end: bool) -> anyhow::Result<()> {
        // Fewer looks while much waits: what is there in the end is what counts.
        if !at_end && !self.follower.is_full() {
            return Ok(());
        }
        self.unseen = false;
        let Some((run, before)) = self.follower.run() else {
            return Ok(());
        };
        if run.column("loss").is_none() && run.column("grad_norm").is_none() {
            return Ok(());
        }
        // What was there before the watch is looked at once, and not while more of it waits.
        if !at_end && self.silent || self.watcher.is_behind(&run, before) {
            return Ok(());
        }
        let came = if self.caught_up {
            Came::Now(now())
        } else {
            Came::Earlier(self.follower.written().map(since_1970))
        };
        let goes_on = self.watcher.advance(&run, before, came);
        self.scan();
        let diagnosis = diagnose(run, &self.rules, &self.told);
        let mut news: Vec<News> = goes_on.into_iter().collect();
        news.extend(self.watcher.look(&diagnosis, before));
        self.latest = Some((diagnosis, before));
        if self.silent {
            self.post.save(&self.watcher.ledger);
            return Ok(());
        }
        self.tell(&news)
    }

    /// Looks which checkpoints exist, now and then: a folder of them may be far away.
    fn scan(&mut self) {
        if self.scanned.elapsed() < SCANNED {
            return;
        }
        self.scanned = Instant::now();
        match self.args.input.kept.given() {
            Ok(given) => {
                self.told.checkpoints = given;
                self.complaints[1] = None;
            }
            Err(e) => complain(&mut self.complaints[1], &format!("{e:#}")),
        }
    }

    fn judges_pauses(&self) -> bool {
        !self.args.no_hang && self.unreadable.is_none()
    }

    fn hang(&mut self) -> anyhow::Result<()> {
        let Some((d, before)) = self.latest.as_ref().filter(|_| self.judges_pauses()) else {
            return Ok(());
        };
        let news = self
            .watcher
            .hang(&d.run, *before, now(), self.args.hang_after);
        self.tell(&news.into_iter().collect::<Vec<_>>())
    }

    fn tell(&mut self, news: &[News]) -> anyhow::Result<()> {
        let d = self.latest.as_ref().map(|(d, _)| d);
        for n in news {
            let line = match self.args.format {
                Format::Text => format!("\x1b[2m{}\x1b[0m  {}", clock(), alert::line(d, n)),
                Format::Json => alert::payload(&self.log, d, n).to_string(),
            };
            self.post
                .add(&mut self.watcher.ledger, &self.log, d, n, line);
        }
        if news.is_empty() {
            return Ok(());
        }
        self.watcher.ledger.mark = self.follower.mark();
        self.post.catch_up(&mut self.watcher.ledger)
    }

    /// Writes down how far the log was read, now and then.
    fn note(&mut self) {
        if self.args.once || self.noted.elapsed() >= NOTED {
            self.noted = Instant::now();
            self.watcher.ledger.mark = self.follower.mark();
            self.post.save(&self.watcher.ledger);
        }
    }

    fn publish(&self) {
        let Some(server) = &self.server else { return };
        let pulse: Option<Pulse> = self
            .latest
            .as_ref()
            .map(|(d, before)| self.watcher.pulse(d, *before, now()));
        server.publish(prometheus::render(
            &self.log,
            pulse.as_ref(),
            self.follower.unread(),
        ));
    }
}

/// Says what is wrong, once as long as it stays the same.
fn complain(said: &mut Option<String>, what: &str) {
    if said.as_deref() != Some(what) {
        say(&format!("{what}; it is tried again"));
        *said = Some(what.to_owned());
    }
}

/// Whether an error stays whatever is written to the log.
fn lasting(e: &IngestError) -> bool {
    matches!(e, IngestError::NoFormat { .. } | IngestError::NoRun { .. })
}

fn since_1970(t: SystemTime) -> f64 {
    t.duration_since(UNIX_EPOCH)
        .map_or(0.0, |d| d.as_secs_f64())
}

/// Seconds since 1970, which go on evenly though the clock be set: a jump is no hang.
fn now() -> f64 {
    static START: LazyLock<(f64, Instant)> =
        LazyLock::new(|| (since_1970(SystemTime::now()), Instant::now()));
    START.0 + START.1.elapsed().as_secs_f64()
}

/// The time of day as it is printed.
fn clock() -> String {
    jiff::Timestamp::from_second(since_1970(SystemTime::now()) as i64)
        .map_or_else(|_| String::new(), |t| t.to_string())
}

/// A note about the watch itself, on standard error.
fn say(text: &str) {
    let mut err = anstream::stderr().lock();
    let _ = writeln!(err, "\x1b[2m{text}\x1b[0m");
}
