//! What is told of runs whose rows come one by one.

use super::*;
use crate::diagnosis::{Told as Given, diagnose};
use crate::rules::RuleSet;
use crate::run::{Attempt, Began, Column};

/// A run of one attempt.
fn run(loss: &[f64]) -> Run {
    let mut run = Run::default();
    run.meta.step_base = 1;
    run.steps = (1..=loss.len() as u64).collect();
    run.intervals = vec![1; loss.len()];
    run.attempts.push(Attempt {
        index: 0,
        rows: 0..loss.len(),
        began: Began::First,
    });
    run.insert("loss", Column::from_values(loss.to_vec()));
    run
}

/// A healthy loss, the same at every call.
fn healthy(rows: usize) -> Vec<f64> {
    let mut state = 1_u64;
    let mut uniform = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut normal = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
    (0..rows).map(|_| 2.0 + 0.01 * normal()).collect()
}

/// A loss with spikes of so many rows at these rows.
fn spiky(rows: usize, spikes: &[(usize, usize)]) -> Vec<f64> {
    let mut loss = healthy(rows);
    for (at, long) in spikes {
        loss[*at..at + long].iter_mut().for_each(|v| *v += 1.0);
    }
    loss
}

/// What is told of a loss as its rows come one by one, from a row on.
fn told_of(watcher: &mut Watcher, loss: &[f64], from: usize) -> Vec<(usize, News)> {
    let rules = RuleSet::built_in().expect("rules");
    let mut out = Vec::new();
    for rows in from..=loss.len() {
        let run = run(&loss[..rows]);
        let before = Before::default();
        if watcher.is_behind(&run, before) {
            continue;
        }
        watcher.advance(&run, before, Came::Now(rows as f64));
        let d = diagnose(run, &rules, &Given::default());
        let news = watcher.look(&d, before);
        out.extend(news.into_iter().map(|n| (rows, n)));
    }
    out
}

fn new(news: &[(usize, News)]) -> Vec<(usize, u64)> {
    let new = news
        .iter()
        .filter(|(_, n)| matches!(n.what, Change::New(_)));
    new.map(|(rows, n)| (*rows, n.id)).collect()
}

#[test]
fn each_of_two_near_spikes_is_told_once_and_soon() {
    let loss = spiky(700, &[(400, 3), (440, 3)]);
    let mut watcher = Watcher::new(Ledger::new("log"));
    let news = told_of(&mut watcher, &loss, 380);
    let [(first, 1), (second, 2)] = new(&news)[..] else {
        panic!("{news:?}")
    };
    assert!((401..=403).contains(&first), "{first}");
    assert!((441..=443).contains(&second), "{second}");
    let over = |e: &Entry| !e.told.open && e.told.shape == "transient";
    assert!(
        watcher.ledger.entries.iter().all(over),
        "{:?}",
        watcher.ledger
    );
    assert_eq!(watcher.ledger.open_incidents().count(), 0);
}

#[test]
fn waiting_becomes_going_back_when_the_time_is_up() {
    let loss = spiky(560, &[(400, 160)]);
    let mut watcher = Watcher::new(Ledger::new("log"));
    let news = told_of(&mut watcher, &loss, 395);
    assert_eq!(new(&news).len(), 1, "{news:?}");
    let actions: Vec<String> = news
        .iter()
        .filter_map(|(_, n)| match &n.what {
            Change::Updated(was, _) => Some(was.action.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(
        actions.first().map(String::as_str),
        Some("wait"),
        "{news:?}"
    );
    assert_eq!(watcher.ledger.entries[0].told.action, "rollback");
}

#[test]
fn what_is_worse_is_told_at_once_and_what_is_calmer_once_it_holds() {
    let mut ledger = Ledger::new("log");
    let at = |step| Place { attempt: 0, step };
    let seen = |end| Seen {
        at: 0,
        onset: at(100),
        end: at(end),
    };
    let told = |action: &str, open| Told {
        action: action.to_owned(),
        open,
        ..Told::default()
    };
    ledger.open(told("wait", true), &seen(100));
    let mut now = |action, open, end, last| {
        let news = ledger.update(0, &told(action, open), &seen(end), at(last));
        news.is_some()
    };
    assert!(!now("wait", true, 110, 110));
    assert!(now("rollback", true, 170, 170));
    // To and fro near a threshold.
    assert!(!now("wait", true, 171, 171) && !now("rollback", true, 172, 172));
    assert!(!now("wait", true, 180, 180) && !now("wait", true, 230, 230));
    assert!(now("wait", true, 240, 240));
    assert!(now("stop", true, 241, 241));
    // Over, once it was so for a while: the log tells since when.
    assert!(!now("none", false, 250, 300));
    assert!(now("none", false, 250, 310));
    assert!(now("wait", true, 320, 320));
}

#[test]
fn a_restart_repeats_nothing_and_tells_what_came_meanwhile() {
    let loss = spiky(900, &[(300, 3), (500, 3), (700, 3)]);
    let mut watcher = Watcher::new(Ledger::new("log"));
    assert_eq!(new(&told_of(&mut watcher, &loss[..450], 290)).len(), 1);
    let text = serde_json::to_string(&watcher.ledger).expect("JSON");
    let again = serde_json::from_str(&text).expect("a ledger");
    // From the first row again, and then all that came meanwhile at once.
    let mut again = Watcher::new(again);
    assert_eq!(told_of(&mut again, &loss[..450], 290), []);
    let meanwhile = told_of(&mut again, &loss, 900);
    assert_eq!(new(&meanwhile), [(900, 2), (900, 3)]);
    assert_eq!(told_of(&mut again, &loss, 900), []);
}

#[test]
fn what_lies_before_the_kept_rows_is_not_told_again() {
    let rules = RuleSet::built_in().expect("rules");
    let mut watcher = Watcher::new(Ledger::new("log"));
    let before = Before {
        attempts: 2,
        rows: true,
    };
    let look = |watcher: &mut Watcher, from: usize| {
        let mut run = run(&spiky(900, &[(300, 3)])[from..]);
        run.steps = (from as u64 + 1..=900).collect();
        watcher.advance(&run, before, Came::Now(0.0));
        let d = diagnose(run, &rules, &Given::default());
        assert_eq!(d.incidents.len(), 1);
        watcher.look(&d, before).len()
    };
    watcher.ledger.settle(Place {
        attempt: 2,
        step: 400,
    });
    assert_eq!(look(&mut watcher, 0), 0, "it was settled before");
    let mut fresh = Watcher::new(Ledger::new("log"));
    assert_eq!(look(&mut fresh, 100), 1);
    assert_eq!(fresh.ledger.entries[0].onset.attempt, 2);
}

#[test]
fn a_hang_is_told_once_and_so_is_its_end() {
    let loss = healthy(200);
    let mut watcher = Watcher::new(Ledger::new("log"));
    let before = Before::default();
    let mut step = |rows: usize, now: f64| {
        let run = run(&loss[..rows]);
        let news = watcher.advance(&run, before, Came::Now(now));
        let hang = watcher.hang(&run, before, now + 50.0, Some(40.0));
        let again = watcher.hang(&run, before, now + 60.0, Some(40.0));
        (
            news.map(|n| n.what),
            hang.map(|n| (n.id, n.what)),
            again.is_some(),
        )
    };
    assert_eq!(
        step(100, 0.0),
        (None, None, false),
        "nothing was seen to come yet"
    );
    let (news, hang, again) = step(101, 10.0);
    assert!(news.is_none() && !again);
    let Some((1, Change::Hung(hang))) = hang else {
        panic!("{hang:?}")
    };
    assert_eq!((hang.step, hang.waited, hang.limit), (101, 50.0, 40.0));
    let (news, hang, _) = step(102, 90.0);
    let goes_on = Change::GoesOn {
        step: 102,
        after: 80,
    };
    assert_eq!(news, Some(goes_on));
    assert!(hang.is_some_and(|(id, _)| id == 2));
}

#[test]
fn the_pulse_of_a_run() {
    let mut loss = spiky(600, &[(480, 120)]);
    loss.iter_mut()
        .zip(0..300)
        .for_each(|(v, n)| *v += 0.5 - f64::from(n) / 600.0);
    let rules = RuleSet::built_in().expect("rules");
    let mut watcher = Watcher::new(Ledger::new("log"));
    let run = run(&loss);
    let before = Before {
        attempts: 3,
        rows: false,
    };
    watcher.advance(&run, before, Came::Now(0.0));
    let d = diagnose(run, &rules, &Given::default());
    watcher.look(&d, before);
    let pulse = watcher.pulse(&d, before, 9.0);
    assert_eq!((pulse.last_step, pulse.attempt), (600, 3));
    assert_eq!(pulse.loss, Some(loss[599]));
    assert_eq!(pulse.grad_norm, None);
    assert!(pulse.robust_z.is_some_and(|z| z > 20.0), "{pulse:?}");
    let since = pulse.steps_since_progress.expect("progress");
    assert!((100..300).contains(&since), "{since}");
    assert_eq!(pulse.told.get("acute"), Some(&1));
    assert_eq!(pulse.open.get("wait"), Some(&1), "{:?}", watcher.ledger);
    assert_eq!(pulse.seconds_since_step, None);
}

#[test]
fn a_ledger_is_read_back_and_what_is_none_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state.json");
    assert!(Ledger::read(&path).expect("none").is_none());
    let mut watcher = Watcher::new(Ledger::new("log"));
    told_of(&mut watcher, &spiky(320, &[(300, 3)]), 310);
    watcher.ledger.write(&path).expect("written");
    let back = Ledger::read(&path).expect("read").expect("a ledger");
    assert_eq!(back.entries, watcher.ledger.entries);
    assert_eq!(back.seen_to, watcher.ledger.seen_to);
    std::fs::write(&path, "{}").expect("written");
    assert!(matches!(Ledger::read(&path), Err(LedgerError::Broken(_))));
    let other = serde_json::to_string(&back)
        .expect("JSON")
        .replace("\"version\":1", "\"version\":9");
    std::fs::write(&path, other).expect("written");
    assert!(matches!(Ledger::read(&path), Err(LedgerError::Version(9))));
}
