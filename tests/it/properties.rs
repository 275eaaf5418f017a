//! Any bytes in, no panic; what the store writes it reads back.

use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use whyspike::ingest::{self, INGESTERS, Options};
use whyspike::run::{BuildOptions, Column, EventKind, Rows, Run};
use whyspike::store;

use crate::support::{ALIASES, built, files, fixture};

/// Small logs of every format, their bytes.
static LOGS: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
    let folders = files(&fixture("logs"));
    let all = folders
        .iter()
        .flat_map(|f| files(f))
        .filter(|p| p.is_file());
    all.map(|p| {
        (
            p.display().to_string(),
            std::fs::read(&p).expect("a fixture"),
        )
    })
    .filter(|(_, bytes)| !bytes.is_empty())
    .collect()
});

/// Reads bytes as what they look like and as five of the formats. An error is one line.
fn read_anyhow(bytes: &[u8], folder: &Path, pick: usize) {
    let path = folder.join("log");
    std::fs::write(&path, bytes).expect("written");
    let some = (0..5).map(|n| INGESTERS[(pick + n * INGESTERS.len() / 5) % INGESTERS.len()].name);
    for format in some.map(|name| Some(name.to_owned())).chain([None]) {
        let options = Options {
            format,
            ..Options::default()
        };
        match ingest::read(
            std::slice::from_ref(&path),
            &ALIASES,
            &options,
            &mut |_, _| {},
        ) {
            Ok(run) => consistent(&run),
            Err(e) => assert_eq!(e.to_string().lines().count(), 1, "{e}"),
        }
    }
}

/// Rows lie in attempts, in order of step within each.
fn consistent(run: &Run) {
    assert!(!run.is_empty() && run.intervals.len() == run.len());
    let mut next = 0;
    for attempt in &run.attempts {
        assert_eq!(attempt.rows.start, next);
        assert!(
            run.steps[attempt.rows.clone()]
                .windows(2)
                .all(|w| w[0] < w[1])
        );
        next = attempt.rows.end;
    }
    assert_eq!(next, run.len());
    assert!(run.columns().all(|(_, c)| c.len() == run.len()));
    assert!(
        run.events
            .iter()
            .all(|e| (e.attempt as usize) < run.attempts.len())
    );
}

fn quick(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Bytes that look like logs more often than random ones do.
fn loglike() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(" iteration ".to_owned()),
        Just("{\"step\": ".to_owned()),
        Just("\"loss\": ".to_owned()),
        Just("step,loss\n".to_owned()),
        Just(" lm loss: ".to_owned()),
        Just("{\"log_history\": [{\"step\": 1, \"loss\": ".to_owned()),
        Just("PAR1".to_owned()),
        Just(" saving checkpoint at iteration ".to_owned()),
        Just("[2026-03-01 12:00:00]".to_owned()),
        "[-+0-9.eEnaif,:;|/{}\\[\\]\" \r\n\t]{0,12}",
        any::<u64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| n.to_string()),
        any::<String>(),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|p| p.concat().into_bytes())
}

proptest! {
    #![proptest_config(quick(64))]

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), pick in 0_usize..100) {
        let folder = tempfile::tempdir().unwrap();
        read_anyhow(&bytes, folder.path(), pick);
    }

    #[test]
    fn no_text_makes_a_reader_panic(bytes in loglike(), pick in 0_usize..100) {
        let folder = tempfile::tempdir().unwrap();
        read_anyhow(&bytes, folder.path(), pick);
    }

    #[test]
    fn a_log_cut_anywhere_is_read_or_refused(which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), pick in 0_usize..100) {
        let (_, bytes) = which.get(&LOGS);
        let folder = tempfile::tempdir().unwrap();
        read_anyhow(&bytes[..at.index(bytes.len())], folder.path(), pick);
    }

    #[test]
    fn a_log_with_a_byte_flipped_is_read_or_refused(
        which in any::<prop::sample::Index>(),
        pick in 0_usize..100,
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 1_u8..=255), 1..4),
    ) {
        let (_, bytes) = which.get(&LOGS);
        let mut bytes = bytes.clone();
        for (at, mask) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= mask;
        }
        let folder = tempfile::tempdir().unwrap();
        read_anyhow(&bytes, folder.path(), pick);
    }

    #[test]
    fn two_logs_glued_together_are_read_or_refused(a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>(), pick in 0_usize..100) {
        let folder = tempfile::tempdir().unwrap();
        read_anyhow(&[a.get(&LOGS).1.clone(), b.get(&LOGS).1.clone()].concat(), folder.path(), pick);
    }
}

/// A value that may be missing, NaN, infinite or ordinary.
fn real() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        2 => Just(None),
        1 => Just(Some(f64::NAN)),
        1 => Just(Some(f64::INFINITY)),
        1 => Just(Some(f64::NEG_INFINITY)),
        1 => Just(Some(-0.0)),
        6 => (-1e3_f64..1e3).prop_map(Some),
        2 => proptest::num::f64::NORMAL.prop_map(Some),
    ]
}

fn whole() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![1 => Just(None), 3 => (0_u64..1 << 53).prop_map(|v| Some(v as f64)), 1 => (0_u64..9).prop_map(|v| Some(v as f64))]
}

fn counts() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![1 => Just(None), 3 => (0_u32..1000).prop_map(|v| Some(f64::from(v)))]
}

/// One attempt: where it starts, the gaps between its steps, and what is said before it.
type Stretch = (u64, Vec<u64>, Option<(usize, Option<u64>, Option<String>)>);

fn stretch() -> impl Strategy<Value = Stretch> {
    let mark = (
        0..EventKind::ALL.len(),
        proptest::option::of(0_u64..5000),
        proptest::option::of("[ -~]{0,12}|é\"\\\\"),
    );
    (
        0_u64..4000,
        proptest::collection::vec(1_u64..50, 1..20),
        proptest::option::of(mark),
    )
}

/// A run of a few attempts with columns of every kind.
fn runs() -> impl Strategy<Value = Run> {
    let columns = |rows: usize| {
        (
            proptest::collection::vec(real(), rows),
            proptest::collection::vec(real(), rows),
            proptest::collection::vec(whole(), rows),
            proptest::collection::vec(counts(), rows),
        )
    };
    let shape = proptest::collection::vec(stretch(), 1..5);
    let whole_run = shape.prop_flat_map(move |stretches| {
        let rows = stretches.iter().map(|s| s.1.len()).sum();
        (
            Just(stretches),
            columns(rows),
            proptest::option::of(0_u64..2),
            "[a-z]{0,6}",
        )
    });
    whole_run.prop_map(
        |(stretches, (loss, other, samples, skipped), step_base, fact)| {
            let mut rows = Rows::default();
            let mut attempt = Vec::new();
            for (n, (start, gaps, mark)) in stretches.iter().enumerate() {
                if let Some((kind, step, path)) = mark {
                    rows.mark(EventKind::ALL[*kind], *step, path.clone());
                }
                let mut step = *start;
                for gap in gaps {
                    step += gap;
                    rows.begin(step);
                    attempt.push(Some(n as f64));
                }
            }
            let names = [
                "loss",
                "max_attention_logit/3",
                "consumed_samples",
                "number of skipped iterations",
                "attempt",
                "some metric.x",
            ];
            for (name, values) in names
                .into_iter()
                .zip([&loss, &other, &samples, &skipped, &attempt, &other])
            {
                rows.put(name, Column::from_options(values.iter().copied()));
            }
            rows.lose("line 7", format!("torn \"{fact}\""));
            rows.facts.insert("adam_beta2".to_owned(), fact);
            built(
                rows,
                BuildOptions {
                    format: "jsonl".into(),
                    framework: Some("x".into()),
                    step_base,
                    ..BuildOptions::default()
                },
            )
        },
    )
}

proptest! {
    #![proptest_config(quick(48))]

    #[test]
    fn what_is_stored_is_read_back(run in runs()) {
        consistent(&run);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.parquet");
        store::write(&run, &path).expect("written");
        prop_assert!(store::is_store(&path));
        let back = store::read_file(&path).expect("read");
        prop_assert_eq!(format!("{back:?}"), format!("{run:?}"));
        let again = folder.path().join("again.parquet");
        store::write(&back, &again).expect("written");
        prop_assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&again).unwrap(), "the same bytes each time");
    }

    #[test]
    fn a_stored_run_that_is_damaged_is_refused_or_read(
        run in runs(),
        cut in any::<prop::sample::Index>(),
        pick in 0_usize..100,
        flip in (any::<prop::sample::Index>(), 1_u8..=255),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.parquet");
        store::write(&run, &path).expect("written");
        let mut bytes = std::fs::read(&path).unwrap();
        prop_assert!(store::read(bytes[..cut.index(bytes.len())].to_vec()).is_err());
        let at = flip.0.index(bytes.len());
        bytes[at] ^= flip.1;
        let _ = store::read(bytes.clone());
        read_anyhow(&bytes, folder.path(), pick);
    }
}
