//! `whyspike report`: the page says what the other renderers say, is safe to open, and stays small.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Output};

use proptest::prelude::*;
use whyspike::checkpoints::Given;
use whyspike::detect::Incident;
use whyspike::diagnosis::{Diagnosed, Diagnosis, Told, diagnose};
use whyspike::report::{html, json};
use whyspike::resume::Framework;
use whyspike::run::{Column, Run};

use crate::support::{Curve, Noise, RULES, diagnosed, fixture, read};

/// The bundled runs with their checkpoints, and a framework, so that there is a command.
fn bundled() -> Vec<(&'static str, Diagnosis)> {
    let names = [
        "attention-logit",
        "bad-data",
        "bf16",
        "healthy",
        "learning-rate",
        "optimizer-state",
    ];
    let with = |run: Run, checkpoints: Given| {
        let told = Told {
            checkpoints,
            framework: Some(Framework::parse("megatron-lm@0.17")),
            ..Told::default()
        };
        diagnose(run, &RULES, &told)
    };
    let mut out: Vec<(&str, Diagnosis)> = names
        .into_iter()
        .map(|name| {
            let folder = fixture("runs").join(name);
            let checkpoints = std::fs::read_to_string(folder.join("checkpoints.txt")).unwrap();
            let given = Given::parse_steps(checkpoints.trim()).unwrap();
            (name, with(read(folder.join("log.jsonl.gz")), given))
        })
        .collect();
    let bloom = read(fixture("runs/bloom-176b/spike-2022-04-12.log"));
    out.push(("bloom-176b", with(bloom, Given::Nothing)));
    out
}

/// Text as the page holds it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

/// The part of a page between two texts.
fn between<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = page.split_once(from).unwrap_or_else(|| panic!("no {from}"));
    rest.split_once(to).unwrap_or_else(|| panic!("no {to}")).0
}

/// The section of an incident.
fn section<'a>(page: &'a str, x: &Diagnosed) -> &'a str {
    between(page, &format!("id=\"incident-{}\"", x.id), "</section>")
}

#[test]
fn each_incident_of_the_bundled_runs_is_told_in_full() {
    for (name, d) in bundled() {
        let page = html::render(&d);
        for x in &d.incidents {
            let own = section(&page, x);
            let step = |row: usize| d.run.steps[row];
            assert!(
                own.contains(&format!("onset {}", step(x.incident.onset_row))),
                "{name}: onset"
            );
            let told = |i: &Incident| {
                [
                    i.peak_row
                        .filter(|_| i.peak.is_some())
                        .map(|r| format!("peak {}", step(r))),
                    i.return_row.map(|r| format!("back at {}", step(r))),
                ]
            };
            for text in told(&x.incident).into_iter().flatten() {
                assert!(own.contains(&text), "{name}, {}: {text}", x.id);
            }
            if x.same_as.is_some() {
                assert!(!own.contains("<svg"), "{name}: met again is short");
                continue;
            }
            for (cause, _) in &x.verdict.posterior {
                assert!(own.contains(&format!("<th scope=\"row\">{cause}</th>")));
            }
            for c in &x.plan.candidates {
                assert!(
                    own.contains(&escaped(&c.why)),
                    "{name}: candidate {}",
                    c.step
                );
            }
            let shown = x.plan.rollback.is_some();
            let resume = x.plan.resume.as_ref().filter(|_| shown);
            if let Some(command) = resume.and_then(|r| r.command.as_ref()) {
                assert!(own.contains(&escaped(command)), "{name}: command");
            }
            for panel in ["loss", "grad_norm"] {
                assert!(own.contains(&format!("id=\"i{}-{panel}\"", x.id)), "{name}");
            }
        }
    }
}

#[test]
fn marks_stand_at_the_steps_that_the_json_has() {
    for (name, d) in bundled() {
        let page = html::render(&d);
        let document: serde_json::Value = serde_json::from_str(&json::render(&d)).unwrap();
        for incident in document["incidents"].as_array().unwrap() {
            if !incident["same_as"].is_null() {
                continue;
            }
            let stack = format!("<div class=\"stack\" id=\"i{}\"", incident["id"]);
            let own = between(&page, &stack, "</ul>");
            for (mark, key) in [
                ("onset", "onset_step"),
                ("peak", "peak_step"),
                ("back", "return_step"),
            ] {
                if let Some(step) = incident[key].as_u64() {
                    assert!(
                        own.contains(&format!("{mark} {step}</li>")),
                        "{name}: {mark} {step}"
                    );
                }
            }
        }
    }
}

#[test]
fn links_lead_somewhere_and_ids_are_their_own() {
    for (name, d) in bundled() {
        let page = html::render(&d);
        let ids: Vec<&str> = page
            .split(" id=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(ids.len(), unique.len(), "{name}: an id stands twice");
        for link in page.split("href=\"").skip(1) {
            let target = link.split('"').next().unwrap();
            let id = target
                .strip_prefix('#')
                .unwrap_or_else(|| panic!("{name}: {target}"));
            assert!(unique.binary_search(&id).is_ok(), "{name}: {target}");
        }
    }
}

#[test]
fn nothing_is_fetched_and_the_page_is_always_the_same() {
    for (name, d) in bundled() {
        let page = html::render(&d);
        for outside in [
            "http:", "https:", "src=", "@import", "url(", "<link", "<iframe", "fetch(",
        ] {
            assert!(!page.contains(outside), "{name}: {outside}");
        }
        assert!(page.contains("default-src 'none'"));
        assert_eq!(page, html::render(&d), "{name}");
        assert!(page.len() < 500_000, "{name}: {} bytes", page.len());
    }
}

/// A loss with a spike, and other signals by name.
fn spiked(names: &[&str]) -> Run {
    let mut noise = Noise::new(3);
    let mut curve = Curve::of_loss((0..900).map(|_| 2.0 + 0.01 * noise.normal()));
    (600..606).for_each(|s| curve.raise(s, 3.0));
    let mut run = curve.run();
    for name in names {
        let values = (0..900).map(|i| f64::from(i) * 0.1 + 1.0).collect();
        run.insert(name, Column::from_values(values));
    }
    run
}

#[test]
fn hostile_names_are_text() {
    const NAME: &str = "</script><img src=x onerror=alert(1)>\"'&";
    let mut run = spiked(&[&format!("{NAME}/0"), &format!("{NAME}/1")]);
    run.meta.sources = vec![NAME.to_owned()];
    run.meta.format = NAME.to_owned();
    let d = diagnosed(run, "500");
    let page = html::render(&d);
    assert!(!page.contains("<img"), "a name became an element");
    assert_eq!(
        page.matches("</script>").count(),
        2,
        "a name ended a script"
    );
    assert!(page.contains(&escaped(NAME)));
    assert!(page.contains("by layer"), "the family has a heat map");
}

#[test]
fn a_run_without_incidents_says_so_and_is_drawn() {
    let mut noise = Noise::new(1);
    let d = diagnosed(
        Curve::of_loss((0..500).map(|_| 2.0 + 0.01 * noise.normal())).run(),
        "",
    );
    let page = html::render(&d);
    assert!(page.contains("Nothing found") && page.contains("No incident in 500 rows"));
    assert!(page.contains("id=\"run-loss\"") && !page.contains("id=\"incident-1\""));
}

#[test]
fn odd_runs_are_drawn() {
    let one = html::render(&diagnosed(Curve::of_loss([2.5]).run(), ""));
    assert!(one.contains("id=\"run-loss\""));

    let mut broken = Curve::of_loss((0..200).map(|i| 2.0 + 0.01 * f64::from(i % 7)));
    for row in 120..200 {
        broken.column("loss")[row] = Some(f64::NAN);
    }
    let page = html::render(&diagnosed(broken.run(), "100"));
    let own = between(&page, "id=\"i1-loss\"", "</figure>");
    assert!(own.contains("class=\"off value\"") && own.contains("without a finite value"));

    let mut noise = Noise::new(5);
    let norms: Vec<f64> = (0..400)
        .map(|i| {
            if i == 300 {
                90.0
            } else {
                1.0 + 0.05 * noise.normal()
            }
        })
        .collect();
    let mut only = Curve::of_loss(norms);
    only.columns[0].0 = "grad_norm";
    let page = html::render(&diagnosed(only.run(), ""));
    assert!(page.contains("id=\"run-grad_norm\"") && !page.contains("id=\"run-loss\""));
}

#[test]
fn the_first_table_says_how_far_why_and_where_to() {
    let all = bundled();
    let d = &all[0].1;
    let page = html::render(d);
    let answer = between(&page, "id=\"answer\"", "</section>");
    let x = &d.incidents[0];
    let back = x.plan.rollback.as_ref().unwrap().step;
    let by = x.incident.excess.unwrap();
    assert!(answer.contains(&format!("<td>go back to {back}</td>")));
    assert!(answer.contains(&format!(">{by:+.4}</td>")));
    let markdown = whyspike::report::markdown::render(d);
    assert!(markdown.contains(&format!("| go back to {back} |")));
}

#[test]
fn every_incident_that_a_legend_names_has_a_sign() {
    let all = bundled();
    let d = &all[4].1;
    assert_eq!(d.incidents.len(), 5, "all begin at one step");
    let page = html::render(d);
    let strip = between(&page, "<div class=\"strip\"", "</div>");
    for x in &d.incidents {
        let sign = format!("{}</span>", x.id);
        let sign = strip.split("<span ").find(|s| s.ends_with(&sign)).unwrap();
        assert!(sign.contains("incident") && !sign.contains(" hidden"));
    }
}

#[test]
fn a_picture_promises_no_more_than_the_text() {
    let (_, bloom) = bundled().pop().unwrap();
    let x = &bloom.incidents[0];
    assert!(x.incident.return_is_bound && x.plan.skip.is_some() && x.plan.rollback.is_none());
    let page = html::render(&bloom);
    let legend = between(section(&page, x), "class=\"legend\"", "</ul>");
    assert!(legend.contains("back 31250 at the latest"), "{legend}");
    assert!(
        !legend.contains("skip"),
        "a skip that no text tells of: {legend}"
    );
}

#[test]
fn a_row_without_neighbours_is_a_dot() {
    let mut curve = Curve::of_loss((0..50).map(|i| 2.0 - 0.001 * f64::from(i)));
    curve.steps = (0..50).map(|s| if s < 49 { s } else { 500 }).collect();
    let page = html::render(&diagnosed(curve.run(), ""));
    let panel = between(&page, "id=\"run-loss\"", "</figure>");
    let dot = between(panel, "class=\"alone value\" data-s=\"0\" d=\"", "\"");
    assert_eq!(dot.matches("h0").count(), 1, "{dot}");
}

#[test]
fn what_was_never_finite_has_no_level_and_no_scale() {
    let d = diagnosed(Curve::of_loss((0..300).map(|_| f64::NAN)).run(), "");
    let page = html::render(&d);
    let panel = between(&page, "id=\"i1-loss\"", "</figure>");
    assert!(panel.contains("class=\"off value\"") && !panel.contains("class=\"band\""));
    let values = between(panel, "class=\"values\"", "</div>");
    assert!(!values.contains("<span"), "{values}");

    let mut broken = Curve::of_loss((0..400).map(|i| 2.0 + 0.01 * f64::from(i % 7)));
    (300..400).for_each(|row| broken.column("loss")[row] = Some(f64::NAN));
    let text = html::render(&diagnosed(broken.run(), ""));
    assert!(
        text.contains("not back") && !text.contains("of it left"),
        "{text}"
    );
}

#[test]
fn attempts_are_branches() {
    let mut noise = Noise::new(9);
    let mut first = Curve::of_loss((0..700).map(|_| 2.0 + 0.01 * noise.normal()));
    (600..640).for_each(|s| first.raise(s, 3.0));
    let mut second = Curve::of_loss((0..400).map(|_| 2.0 + 0.01 * noise.normal()));
    second.steps = (501..=900).collect();
    let d = diagnosed(first.then(&second).run(), "500");
    let page = html::render(&d);
    let overview = between(&page, "id=\"overview\"", "</section>");
    assert!(overview.contains("class=\"line superseded\""));
    assert!(overview.contains("left behind by a newer attempt: attempt 0"));
    assert!(overview.contains("attempt 1: step went back from 700 to 501"));
    let own = section(&page, &d.incidents[0]);
    assert!(own.contains("class=\"line later\""));
}

/// So many rows with several signals, layers, spikes and a checkpoint every so many steps.
fn long(rows: usize) -> Diagnosis {
    let mut noise = Noise::new(7);
    let mut curve = Curve::of_loss((0..rows).map(|_| 2.0 + 0.02 * noise.normal()));
    for n in 1..=5 {
        let at = (rows * n / 6) as u64;
        (at..at + 300).for_each(|s| curve.raise(s, 1.0 + n as f64));
    }
    let mut run = curve.run();
    let names = [
        "grad_norm",
        "param_norm",
        "update_norm",
        "learning_rate",
        "loss_scale",
    ];
    let layers = (0..24).map(|l| format!("max_attention_logit/{l}"));
    for name in names.into_iter().map(str::to_owned).chain(layers) {
        let values = (0..rows).map(|_| 1.0 + 0.2 * noise.uniform()).collect();
        run.insert(&name, Column::from_values(values));
    }
    let checkpoints: Vec<String> = (1..rows / 250).map(|n| (n * 250).to_string()).collect();
    diagnosed(run, &checkpoints.join(","))
}

/// A million rows are measured by hand with the release build: here, without optimisation, a part of them.
#[test]
fn a_long_run_is_a_small_page_and_no_spike_is_lost() {
    let d = long(60_000);
    assert!(d.incidents.len() >= 5);
    let page = html::render(&d);
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    let peak = d
        .incidents
        .iter()
        .filter_map(|x| x.incident.peak)
        .fold(0.0, f64::max);
    let overview = between(&page, "id=\"run-loss-d\">", "</desc>");
    let shown = format!("highest {}", whyspike::report::figure::number(peak));
    assert!(overview.contains(&shown), "{overview} lacks {shown}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any values at any steps in any order: a page, without numbers in it that a browser could not read.
    #[test]
    fn any_run_is_drawn(
        rows in prop::collection::vec((gap(), value(), value(), value()), 1..160),
        back in 0_u64..200,
        far in prop_oneof![Just(0_u64), Just(1 << 40)],
    ) {
        let mut step = far + back;
        let mut curve = Curve::default();
        let mut columns: [Vec<Option<f64>>; 3] = Default::default();
        for (n, (gap, a, b, c)) in rows.iter().enumerate() {
            step = if n % 50 == 49 { step.saturating_sub(back) } else { step + gap };
            curve.steps.push(step);
            for (column, v) in columns.iter_mut().zip([a, b, c]) {
                column.push(*v);
            }
        }
        let [loss, norm, layer] = columns;
        curve.columns = vec![("loss", loss), ("grad_norm", norm)];
        for name in ["max_attention_logit/0", "max_attention_logit/1", "learning_rate"] {
            curve.columns.push((name, layer.clone()));
        }
        let page = html::render(&diagnosed(curve.run(), "3,50,120"));
        for d in page.split(" d=\"").skip(1) {
            let d = d.split('"').next().unwrap();
            prop_assert!(!d.contains("NaN") && !d.contains("inf"), "{d}");
        }
        let data = between(&page, "id=\"figures\">", "</script>");
        let read = serde_json::from_str::<serde_json::Value>(data);
        prop_assert!(read.is_ok(), "{:?}", read.err());
    }
}

fn gap() -> impl Strategy<Value = u64> {
    prop_oneof![8 => Just(1_u64), 2 => 1_u64..9, 1 => 100_u64..100_000]
}

fn value() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        20 => (1.9..2.1_f64).prop_map(Some),
        3 => (-10.0..100.0_f64).prop_map(Some),
        2 => prop::sample::select(vec![
            f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e308, -1e308, f64::MAX, 5e-324,
        ]).prop_map(Some),
        1 => Just(None),
    ]
}

/// The headings and captions of a page, and the heads of its tables: what a reader without eyes walks through.
fn outline(page: &str) -> String {
    let mut out = String::new();
    let body = page.split_once("<body>").unwrap().1;
    let body = body.split("<script").next().unwrap();
    for piece in body.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap_or((piece, ""));
        let name = tag.split(' ').next().unwrap();
        let indent = match name {
            "h1" => "",
            "h2" => "  ",
            "h3" => "    ",
            "caption" | "figcaption" | "dt" => "      ",
            _ => continue,
        };
        writeln!(out, "{indent}{name} {}", text.trim()).unwrap();
    }
    out
}

#[test]
fn headings_are_in_order() {
    let all = bundled();
    for (name, d) in &all {
        let page = html::render(d);
        let levels: Vec<u32> = outline(&page)
            .lines()
            .filter_map(|l| l.trim_start().strip_prefix('h')?[..1].parse().ok())
            .collect();
        assert_eq!(levels.iter().filter(|l| **l == 1).count(), 1, "{name}");
        assert!(
            levels.windows(2).all(|w| w[1] <= w[0] + 1),
            "{name}: {levels:?}"
        );
    }
    let (_, d) = &all[1];
    let page = html::render(d);
    let page = page.replace(&escaped(&d.run.meta.sources[0]), "LOG");
    insta::assert_snapshot!("report_outline", outline(&page));
}

fn whyspike(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyspike"));
    command.current_dir(folder).env("NO_COLOR", "1");
    command.args(args).output().expect("it runs")
}

#[test]
fn the_command_writes_a_whole_file_and_tells_its_size() {
    let folder = tempfile::tempdir().unwrap();
    let log = fixture("runs/bad-data/log.jsonl.gz");
    let log = log.to_str().unwrap();
    let out = whyspike(folder.path(), &["report", log, "-o", "page.html"]);
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(
        said.starts_with("page.html: 2 incidents, ") && said.ends_with(" kB\n"),
        "{said}"
    );
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        1,
        "nothing is left beside it"
    );

    let printed = whyspike(folder.path(), &["report", log, "-o", "-"]);
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), page);

    // A folder in the place of the page is no page, and stays.
    std::fs::create_dir(folder.path().join("taken")).unwrap();
    let taken = whyspike(folder.path(), &["report", log, "-o", "taken"]);
    assert_eq!(taken.status.code(), Some(2));

    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("page.html", folder.path().join("link.html")).unwrap();
        std::fs::write(folder.path().join("page.html"), "old").unwrap();
        let linked = whyspike(folder.path(), &["report", log, "-o", "link.html"]);
        assert!(linked.status.success());
        assert!(
            folder.path().join("link.html").is_symlink(),
            "a link stays one"
        );
        let written = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
        assert_eq!(written, page);
    }

    let nowhere = whyspike(folder.path(), &["report", log, "-o", "no/such/page.html"]);
    assert_eq!(nowhere.status.code(), Some(2));
    std::fs::write(
        folder.path().join("train.jsonl"),
        "{\"step\": 1, \"loss\": 2.0}\n",
    )
    .unwrap();
    let same = whyspike(
        folder.path(),
        &["report", "train.jsonl", "-o", "train.jsonl"],
    );
    assert_eq!(same.status.code(), Some(2));
}
