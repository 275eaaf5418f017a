//! Pictures: they can be read, are as large as was asked, lose no spike, and what cannot be drawn is refused with a way out.

use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;
use whyspike::diagnosis::Diagnosis;
use whyspike::report::plot::{self, Look, PlotError};
use whyspike::report::{figure, markdown, text};

use crate::cli::{BAD_DATA, KEPT, fails, stdout};
use crate::support::{Curve, Noise, diagnosed, fixture, read};

/// Pixels of a PNG file, three bytes each.
struct Pixels {
    width: usize,
    height: usize,
    bytes: Vec<u8>,
}

impl Pixels {
    fn of(bytes: &[u8]) -> Self {
        let decoder = png::Decoder::new(std::io::Cursor::new(bytes));
        let mut reader = decoder.read_info().expect("a PNG header");
        let mut out = vec![0; reader.output_buffer_size().expect("a size")];
        let info = reader.next_frame(&mut out).expect("a PNG picture");
        assert_eq!(info.color_type, png::ColorType::Rgb);
        Self {
            width: info.width as usize,
            height: info.height as usize,
            bytes: out,
        }
    }

    fn at(&self, x: usize, y: usize) -> [u8; 3] {
        let at = 3 * (y * self.width + x);
        [self.bytes[at], self.bytes[at + 1], self.bytes[at + 2]]
    }

    /// The share of pixels that are not as the first one.
    fn inked(&self) -> f64 {
        let paper = self.at(0, 0);
        let all = (0..self.height).flat_map(|y| (0..self.width).map(move |x| (x, y)));
        let inked = all.filter(|(x, y)| self.at(*x, *y) != paper).count();
        inked as f64 / (self.width * self.height) as f64
    }

    /// Whether a pixel is as blue as the line of a curve.
    fn is_line(&self, x: usize, y: usize) -> bool {
        let [r, g, b] = self.at(x, y).map(i32::from);
        b - r > 60 && b > g
    }
}

/// Texts of an SVG file, once it is seen that every tag is closed and every letter stands where XML allows it.
fn texts(svg: &str) -> Vec<String> {
    let (mut open, mut texts) = (Vec::new(), Vec::new());
    let mut rest = svg;
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        for (n, _) in text.match_indices('&') {
            let entity = ["&lt;", "&gt;", "&amp;", "&quot;", "&apos;"];
            assert!(entity.iter().any(|e| text[n..].starts_with(e)), "{text}");
        }
        assert!(!text.contains('>'), "{text}");
        if open.last() == Some(&"text") {
            texts.push(text.trim().to_owned());
        }
        let end = at + rest[at..].find('>').expect("an end of the tag");
        let tag = &rest[at + 1..end];
        let name = tag.split([' ', '\n']).next().unwrap();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed));
        } else if !tag.starts_with(['?', '!']) {
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
    texts
}

/// The path of a picture in a folder, and the bytes that a command wrote there.
fn drawn(folder: &TempDir, name: &str, args: &[&str]) -> Vec<u8> {
    let path = folder.path().join(name);
    let path = path.to_str().unwrap();
    let told = stdout(&[&["plot", BAD_DATA, "-o", path], args].concat());
    assert!(told.starts_with(path), "{told}");
    std::fs::read(path).unwrap()
}

#[test]
fn an_overview_as_svg() {
    let folder = TempDir::new().unwrap();
    let svg = String::from_utf8(drawn(&folder, "a.svg", &["--width", "900"])).unwrap();
    assert!(
        svg.starts_with("<svg width=\"900\" height=\""),
        "{}",
        &svg[..80]
    );
    let texts = texts(&svg);
    for text in [
        "log.jsonl.gz: 1 incident, and 1 met again",
        "Loss (nats per token), log scale",
        "Gradient norm, log scale",
        "Learning rate",
        "incident 1: acute, transient",
        "attempt 1, superseded",
        "step",
        "600",
    ] {
        assert!(
            texts.iter().any(|t| t == text),
            "`{text}` is not in {texts:#?}"
        );
    }
    assert!(svg.contains("sans-serif"));
    let again = String::from_utf8(drawn(&folder, "b.svg", &["--width", "900"])).unwrap();
    assert_eq!(svg, again, "the same picture every time");
}

#[test]
fn an_incident_as_png_of_the_size_that_was_asked() {
    let folder = TempDir::new().unwrap();
    let args = ["--incident", "1", "--checkpoint-steps", KEPT];
    let sized = [&args[..], &["--width", "800", "--height", "700"]].concat();
    let light = Pixels::of(&drawn(&folder, "a.png", &sized));
    assert_eq!((light.width, light.height), (800, 700));
    assert!((0.02..0.5).contains(&light.inked()), "{}", light.inked());
    let dark = Pixels::of(&drawn(
        &folder,
        "b.png",
        &[&sized[..], &["--dark"]].concat(),
    ));
    assert!(light.at(0, 0) > [250; 3] && dark.at(0, 0) < [40; 3]);
    let svg = String::from_utf8(drawn(&folder, "c.svg", &args)).unwrap();
    let texts = texts(&svg);
    for text in [
        "onset 529",
        "back 571",
        "way back: checkpoint 500",
        "skip 528-573",
        "Update norm",
    ] {
        assert!(
            texts.iter().any(|t| t == text),
            "`{text}` is not in {texts:#?}"
        );
    }
}

#[test]
fn signals_and_steps_are_chosen() {
    let folder = TempDir::new().unwrap();
    let args = [
        "--signals",
        "update_norm,loss",
        "--from",
        "500",
        "--to",
        "600",
    ];
    let svg = String::from_utf8(drawn(&folder, "a.svg", &args)).unwrap();
    let shown = texts(&svg);
    let place = |text: &str| shown.iter().position(|t| t.starts_with(text));
    assert!(place("Update norm") < place("Loss"), "{shown:#?}");
    assert_eq!(place("Gradient norm"), None);
    assert!(
        place("700").is_none() && place("520").is_some(),
        "{shown:#?}"
    );
    let incident = [&args[..], &["--incident", "1"]].concat();
    let svg = String::from_utf8(drawn(&folder, "b.svg", &incident)).unwrap();
    let shown = texts(&svg);
    assert!(shown.iter().any(|t| t == "onset 529") && shown.iter().all(|t| t != "Learning rate"));
}

/// Ten thousand rows, one of which is high.
fn spiking() -> Diagnosis {
    let mut noise = Noise::new(3);
    let mut curve = Curve::of_loss((0..10_000).map(|_| 2.0 + 0.02 * noise.normal()));
    curve.raise(6200, 6.0);
    diagnosed(curve.run(), "")
}

#[test]
fn a_spike_of_one_row_in_ten_thousand_shows_at_every_width() {
    let d = spiking();
    for width in [320, 500, 1200, 2000] {
        let look = Look {
            width,
            height: Some(300),
            dark: false,
        };
        let figure = figure::overview(&d, plot::columns(&look));
        let pixels = Pixels::of(&plot::png(&figure, "a spike", &look).unwrap());
        // The upper half of the panel is empty but for the spike.
        let columns: Vec<usize> = (100..pixels.width - 30)
            .filter(|x| (110..150).all(|y| pixels.is_line(*x, y)))
            .collect();
        assert!((1..=4).contains(&columns.len()), "{width}: {columns:?}");
        let inner = f64::from(width) - 100.0;
        let expected = 78.0 + inner * 0.62;
        let off = columns.iter().map(|x| (*x as f64 - expected).abs());
        assert!(
            off.fold(0.0, f64::max) < 4.0,
            "{width}: {columns:?} for {expected}"
        );
    }
}

#[test]
fn what_cannot_be_drawn_is_refused_with_a_way_out() {
    let plot = |args: &[&str]| fails(&[&["plot", BAD_DATA], args].concat());
    let error = plot(&["-o", "a.jpeg"]);
    assert!(error.contains("end the name in .svg or .png"), "{error}");
    let error = plot(&["-o", "a.svg", "--signals", "loss,gard_norm"]);
    assert!(
        error.contains("`gard_norm`") && error.contains("grad_norm, "),
        "{error}"
    );
    let error = plot(&["-o", "a.svg", "--from", "9", "--to", "8"]);
    assert!(error.contains("smaller step first"), "{error}");
    let error = plot(&["-o", "a.svg", "--from", "5000"]);
    assert!(error.contains("steps 0 to 799"), "{error}");
    let error = plot(&["-o", "a.svg", "--incident", "3"]);
    assert!(error.contains("the run has 2"), "{error}");
    let error = plot(&["-o", "a.svg", "--height", "200"]);
    assert!(error.contains("--height 3"), "{error}");
    assert!(!Path::new("a.svg").exists() && !Path::new("a.jpeg").exists());
    let nowhere = plot(&["-o", "no/such/folder/a.svg"]);
    assert!(nowhere.contains("no/such/folder/a.svg"), "{nowhere}");
}

#[test]
fn names_of_metrics_are_text_whatever_is_in_them() {
    let name = "<script>alert(1)</script> & 'x' ]]> \u{1f600}";
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("a<b>&\"c\".jsonl");
    let row = |step: usize| {
        let key = serde_json::to_string(name).unwrap();
        format!(
            "{{\"step\": {step}, \"loss\": 2.{}, {key}: {step}}}\n",
            step % 10
        )
    };
    std::fs::write(&log, (1..100).map(row).collect::<String>()).unwrap();
    for picture in ["a.svg", "a.png"] {
        let path = folder.path().join(picture);
        let (log, path) = (log.to_str().unwrap(), path.to_str().unwrap());
        stdout(&["plot", log, "-o", path, "--signals", name]);
    }
    let svg = std::fs::read_to_string(folder.path().join("a.svg")).unwrap();
    assert!(!svg.contains("<script"), "{svg}");
    let texts = texts(&svg);
    assert!(
        texts.iter().any(|t| t.starts_with("&lt;script&gt;")),
        "{texts:#?}"
    );
    let caption = "a&lt;b&gt;&amp;&quot;c&quot;.jsonl: no incident";
    assert!(texts.iter().any(|t| t == caption), "{texts:#?}");
}

#[test]
fn every_bundled_run_and_next_to_nothing_can_be_drawn() {
    let look = Look::default();
    let draw = |figure: &figure::Figure| {
        let svg = plot::svg(figure, "a run", &look).expect("an SVG");
        assert!(texts(&svg).len() > 4);
    };
    for name in ["attention-logit", "bf16", "healthy", "learning-rate"] {
        let d = diagnosed(read(fixture(&format!("runs/{name}/log.jsonl.gz"))), KEPT);
        draw(&figure::overview(&d, 1100));
        if let Some(x) = d.incidents.first() {
            draw(&figure::incident(&d, x, 1100));
        }
    }
    for loss in [
        vec![2.0],
        vec![f64::NAN; 4],
        vec![2.0; 30],
        vec![0.0, -1e300, 1e300],
    ] {
        let d = diagnosed(Curve::of_loss(loss).run(), "");
        draw(&figure::overview(&d, 1100));
    }
    let d = spiking();
    let figure = figure::selection(&d, &["none".to_owned()], None, None, 100);
    let nothing = plot::svg(&figure, "", &look);
    assert!(matches!(nothing, Err(PlotError::Nothing)), "{nothing:?}");
}

/// A value that a log may hold: ordinary, huge, tiny, zero, or no number.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => 0.5..12.0_f64,
        1 => prop::num::f64::ANY,
        1 => prop::sample::select(vec![0.0, -1.0, f64::NAN, f64::INFINITY, f64::MAX, f64::MIN, 5e-324]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_values_can_be_drawn(
        rows in prop::collection::vec((value(), value(), 1..40_u64), 1..120),
        base in prop::sample::select(vec![0, 1, 1 << 40, u64::MAX / 2]),
    ) {
        let mut step = base;
        let mut curve = Curve::of_loss(rows.iter().map(|r| r.0)).with("grad_norm", rows.iter().map(|r| r.1));
        for (at, row) in curve.steps.iter_mut().zip(&rows) {
            step += row.2;
            *at = step;
        }
        let d = diagnosed(curve.run(), "");
        let look = Look { width: 400, ..Look::default() };
        let figures = [figure::overview(&d, 300)].into_iter();
        let figures = figures.chain(d.incidents.iter().map(|x| figure::incident(&d, x, 300)));
        for figure in figures.filter(|f| !f.panels.is_empty()) {
            texts(&plot::svg(&figure, "", &look).expect("an SVG"));
        }
        for width in [10, 40, 300] {
            let layout = text::Layout { columns: width, charts: true };
            prop_assert!(!text::render(&d, layout).is_empty());
        }
        prop_assert!(!markdown::render(&d).is_empty());
    }
}

#[test]
fn corners_of_a_schedule_and_what_a_curve_belongs_to_are_in_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["--incident", "1", "--checkpoint-steps", KEPT];
    let svg = String::from_utf8(drawn(&folder, "i.svg", &args)).unwrap();
    let texts = texts(&svg);
    assert!(texts.iter().any(|t| t == "attempt of the incident"));
    let whole = String::from_utf8(drawn(&folder, "run.svg", &[])).unwrap();
    let whole = self::texts(&whole);
    for said in ["the run", "schedule bends or jumps"] {
        assert!(whole.iter().any(|t| t == said), "{said} in {whole:?}");
    }
}
