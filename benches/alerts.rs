//! Feeds logs to a watch row by row: how soon each incident is told, what is told for nothing, what is taken back.
//!
//! `cargo bench --bench alerts -- LOG...`: logs of one row a line. What the whole log shows in the end is the measure.

#![expect(clippy::expect_used, reason = "a bench that cannot read its logs ends")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use whyspike::diagnosis::{Diagnosis, Told, diagnose};
use whyspike::ingest::Options;
use whyspike::ingest::follow::{Follower, Last};
use whyspike::rules::RuleSet;
use whyspike::signal::Aliases;
use whyspike::watch::{Came, Change, Ledger, Place, Watcher};

/// Alerts that the onset of an incident is near enough to are its own.
const NEAR: u64 = 20;

fn main() {
    let logs: Vec<PathBuf> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with("--"))
        .map(PathBuf::from)
        .collect();
    let (aliases, rules) = (Aliases::built_in(), RuleSet::built_in().expect("rules"));
    let mut all = Sum::default();
    for log in &logs {
        let one = feed(log, &aliases, &rules);
        say(&format!("{:60} {one:?}", log.display()));
        all.add(&one);
    }
    all.latencies.sort_unstable();
    let at = |share: f64| {
        all.latencies.get(
            ((all.latencies.len() as f64 * share) as usize)
                .min(all.latencies.len().saturating_sub(1)),
        )
    };
    say(&format!(
        "rows {}, incidents {}, told {}, acute {} with latency in rows: median {:?}, 90 % {:?}, most {:?}, within 2: {}; not in the end {}, taken back {}, updates {:?}",
        all.rows,
        all.incidents,
        all.told,
        all.latencies.len(),
        at(0.5),
        at(0.9),
        all.latencies.last(),
        all.latencies.iter().filter(|l| **l <= 2).count(),
        all.extra,
        all.withdrawn,
        all.updates
    ));
}

#[derive(Debug, Default)]
struct Sum {
    rows: usize,
    incidents: usize,
    told: usize,
    /// Rows after the onset at which each acute incident was told.
    latencies: Vec<usize>,
    /// Alerts that no incident of the whole log is near.
    extra: usize,
    extras: Vec<String>,
    withdrawn: usize,
    updates: usize,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.incidents += other.incidents;
        self.told += other.told;
        self.latencies.extend(&other.latencies);
        self.extra += other.extra;
        self.withdrawn += other.withdrawn;
        self.updates += other.updates;
    }
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// An alert: its onset and the number of rows that were there.
struct Alert {
    onset: Place,
    rows: usize,
    what: String,
}

fn feed(log: &Path, aliases: &Aliases, rules: &RuleSet) -> Sum {
    let folder = tempfile::tempdir().expect("a folder");
    let growing = folder.path().join("log");
    let mut file = File::create(&growing).expect("a log");
    let mut follower =
        Follower::new(&growing, aliases, Options::default(), &Last::default()).expect("follows");
    let mut watcher = Watcher::new(Ledger::new("log"));
    let mut sum = Sum::default();
    let mut alerts: Vec<Alert> = Vec::new();
    let mut last: Option<Diagnosis> = None;
    let lines = BufReader::new(unpacked(log));
    for line in lines.split(b'\n') {
        let mut line = line.expect("a line");
        line.push(b'\n');
        file.write_all(&line).expect("written");
        follower.poll().expect("readable");
        let Some((run, before)) = follower.run() else {
            continue;
        };
        if last.as_ref().is_some_and(|d| d.run.len() == run.len()) {
            continue;
        }
        let rows = run.len();
        watcher.advance(&run, before, Came::Now(rows as f64));
        let d = diagnose(run, rules, &Told::default());
        for news in watcher.look(&d, before) {
            match news.what {
                Change::New(n) => {
                    let i = &d.incidents[n].incident;
                    let onset = Place {
                        attempt: i.attempt,
                        step: d.run.steps[i.onset_row],
                    };
                    let what = format!(
                        "{} {} {}",
                        i.signal,
                        i.kind.name(),
                        d.incidents[n].plan.action.name()
                    );
                    alerts.push(Alert { onset, rows, what });
                }
                Change::Withdrawn => sum.withdrawn += 1,
                _ => sum.updates += 1,
            }
        }
        last = Some(d);
    }
    let Some(d) = last else { return sum };
    judge(&d, &alerts, &mut sum);
    sum
}

fn judge(d: &Diagnosis, alerts: &[Alert], sum: &mut Sum) {
    sum.rows = d.run.len();
    sum.incidents = d.incidents.len();
    sum.told = alerts.len();
    let span = |i: &whyspike::detect::Incident| {
        (
            i.attempt,
            d.run.steps[i.onset_row],
            d.run.steps[i.end_row.max(i.onset_row + 1) - 1],
        )
    };
    let near = |a: &Alert, (attempt, from, to): (u32, u64, u64)| {
        a.onset.attempt == attempt && a.onset.step + NEAR >= from && a.onset.step <= to + NEAR
    };
    for x in &d.incidents {
        let i = &x.incident;
        let told = alerts
            .iter()
            .filter(|a| near(a, span(i)))
            .map(|a| a.rows)
            .min();
        if i.kind.name() == "acute" {
            sum.latencies
                .push(told.map_or(usize::MAX, |rows| (rows - 1).saturating_sub(i.onset_row)));
        }
    }
    for a in alerts {
        if !d.incidents.iter().any(|x| near(a, span(&x.incident))) {
            sum.extra += 1;
            sum.extras.push(format!("{} at {}", a.what, a.onset.step));
        }
    }
}

fn unpacked(log: &Path) -> Box<dyn Read> {
    let file = File::open(log).expect("a log");
    if log.extension().is_some_and(|e| e == "gz") {
        let bytes = fs::read(log).expect("a log");
        let mut out = Vec::new();
        #[expect(clippy::disallowed_types, reason = "our own files")]
        flate2::read::MultiGzDecoder::new(&bytes[..])
            .read_to_end(&mut out)
            .expect("unpacked");
        return Box::new(std::io::Cursor::new(out));
    }
    Box::new(file)
}
