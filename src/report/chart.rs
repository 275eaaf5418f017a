//! Curves as characters: small charts of an incident's loss and gradient norm, and one of a whole run.
//!
//! The highest value of each column is drawn, whatever the width: no spike is averaged away.

mod plot;

use crate::detect::{Incident, lineage};
use crate::diagnosis::{Diagnosed, Diagnosis};
use crate::run::Run;

use plot::{Plot, Point};

/// The characters that curves are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// Lines of braille dots, two columns and four rows a character: for terminals.
    Braille,
    /// Columns of blocks: for places whose fonts have braille of another width, or none.
    Blocks,
}

/// What a character of a chart shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// The curve where nothing is wrong, the frame.
    Plain,
    /// The curve within the incident, and its marks.
    Incident,
    /// A value that is not finite.
    Broken,
}

/// A line of a chart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The quantity; empty but for the first line of each.
    pub label: &'static str,
    /// What the line stands for on the axis: a value, `log`, or nothing.
    pub value: String,
    /// The characters, the frame first.
    pub cells: Vec<(char, Tone)>,
}

impl Line {
    /// The value and the characters without their tones; spaces at the end are left out.
    pub fn plain(&self) -> String {
        let cells: String = self.cells.iter().map(|(c, _)| *c).collect();
        let text = format!("{:>VALUE$} {cells}", self.value);
        text.trim_end().to_owned()
    }
}

/// Characters before the frame that a value takes.
pub const VALUE: usize = 8;
/// The value, a space and the frame.
const FRAME: usize = VALUE + 2;
/// Lines of the signal that the incident is of, and of the other one.
const HEIGHTS: [usize; 2] = [5, 3];
/// Narrower charts show nothing.
const NARROWEST: usize = 20;
/// Rows shown before the onset and after the end, at least.
const CONTEXT_ROWS: u64 = 30;
/// Neighbours this many times the usual distance apart have a hole between them.
const HOLE: f64 = 4.0;

/// The charts of an incident: its lines, the marks under them, and what the marks stand for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chart {
    /// The lines from top to bottom, the axis with the marks last.
    pub lines: Vec<Line>,
    /// Steps from left to right, and the steps of the marks.
    pub legend: String,
}

/// Loss and gradient norm around an incident in so many characters. `None` where there is nothing to draw, or no room.
pub fn around(d: &Diagnosis, x: &Diagnosed, width: usize, ink: Ink) -> Option<Chart> {
    let columns = width
        .checked_sub(FRAME)
        .filter(|columns| *columns >= NARROWEST)?;
    let i = &x.incident;
    let rows = rows(&d.run, i);
    let (first, last) = (d.run.steps[*rows.first()?], d.run.steps[*rows.last()?]);
    let place = |step: u64| {
        plot::place(
            (step.max(first) - first) as f64,
            (last - first) as f64,
            columns,
        )
    };
    let end = d.run.steps[i
        .return_row
        .unwrap_or(i.end_row.saturating_sub(1))
        .min(d.run.len() - 1)];
    let within = place(d.run.steps[i.onset_row])..=place(end.min(last));
    let other = if i.signal == "loss" {
        "grad_norm"
    } else {
        "loss"
    };
    let mut lines = Vec::new();
    for (signal, height) in [i.signal, other].into_iter().zip(HEIGHTS) {
        let points = points(&d.run, signal, &rows, first);
        let Some(plot) = Plot::of(&points, (last - first) as f64, signal == "grad_norm") else {
            continue;
        };
        let plot = plot.joined(HOLE * d.run.spacing() as f64);
        lines.extend(framed(&plot, signal, (columns, height), ink, &|column| {
            within.contains(&column)
        }));
    }
    if lines.is_empty() {
        return None;
    }
    let broken = lines
        .iter()
        .any(|l| l.cells.iter().any(|c| c.1 == Tone::Broken));
    let marks = marks(&d.run, i, first, last);
    lines.push(axis(&marks, columns, &place));
    Some(Chart {
        lines,
        legend: legend(&marks, (first, last), broken, &place),
    })
}

/// A signal over all rows of a run, in the order of the rows. `None` where there is nothing to draw.
pub fn whole(run: &Run, signal: &'static str, width: usize) -> Option<Vec<Line>> {
    const HEIGHT: usize = 4;
    let columns = width
        .checked_sub(FRAME)
        .filter(|columns| *columns >= NARROWEST)?;
    let column = run.column(signal)?;
    let points: Vec<Point> = column
        .iter()
        .enumerate()
        .filter_map(|(row, v)| Some((row as f64, v?)))
        .collect();
    let plot = Plot::of(
        &points,
        run.len().saturating_sub(1) as f64,
        signal == "grad_norm",
    )?
    .joined(f64::INFINITY);
    Some(framed(
        &plot,
        signal,
        (columns, HEIGHT),
        Ink::Blocks,
        &|_| false,
    ))
}

/// The rows to show: the incident, as much before and after it as tells it from its surroundings.
fn rows(run: &Run, i: &Incident) -> Vec<usize> {
    let Some(attempt) = run.attempts.get(i.attempt as usize) else {
        return Vec::new();
    };
    let ends = [
        i.return_row,
        i.grad_return_row,
        i.peak_row,
        i.end_row.checked_sub(1),
    ];
    let onset = run.steps[i.onset_row];
    let end = ends
        .into_iter()
        .flatten()
        .filter_map(|row| run.steps.get(row))
        .max();
    let end = end.copied().unwrap_or(onset).max(onset);
    let around = ((end - onset) / 4 * 3).max(CONTEXT_ROWS * run.spacing());
    let (from, to) = (onset.saturating_sub(around), end.saturating_add(around));
    let inside = |steps: &[u64]| {
        let begin = steps.partition_point(|s| *s < from);
        begin..steps.partition_point(|s| *s <= to).max(begin)
    };
    // What earlier attempts did stands before an incident that comes soon after a restart.
    if run.steps[attempt.rows.start] > from {
        let behind = lineage(run, attempt).0;
        let steps: Vec<u64> = behind.iter().map(|row| run.steps[*row]).collect();
        return behind[inside(&steps)].to_vec();
    }
    let part = inside(&run.steps[attempt.rows.clone()]);
    (attempt.rows.start + part.start..attempt.rows.start + part.end).collect()
}

fn points(run: &Run, signal: &str, rows: &[usize], first: u64) -> Vec<Point> {
    let value = |row: &usize| {
        Some((
            run.steps[*row].saturating_sub(first) as f64,
            run.value(signal, *row)?,
        ))
    };
    rows.iter().filter_map(value).collect()
}

/// The lines of a curve with its highest and its lowest value beside them.
fn framed(
    plot: &Plot,
    signal: &'static str,
    (columns, height): (usize, usize),
    ink: Ink,
    within: &dyn Fn(usize) -> bool,
) -> Vec<Line> {
    let drawn = match ink {
        Ink::Braille => plot.braille(columns, height),
        Ink::Blocks => plot.blocks(columns, height),
    };
    let tone = |column: usize, c: char| match c {
        plot::BROKEN => Tone::Broken,
        _ if within(column) => Tone::Incident,
        _ => Tone::Plain,
    };
    let span = plot.highest() - plot.lowest();
    let line = |(n, cells): (usize, Vec<char>)| {
        let value = match n {
            0 => short(plot.highest(), span),
            _ if n + 1 == height => short(plot.lowest(), span),
            1 if plot.logs() => "log".to_owned(),
            _ => String::new(),
        };
        let frame = if n == 0 || n + 1 == height {
            '┤'
        } else {
            '│'
        };
        let cells = cells
            .into_iter()
            .enumerate()
            .map(|(at, c)| (c, tone(at, c)));
        Line {
            label: if n == 0 { words(signal) } else { "" },
            value,
            cells: std::iter::once((frame, Tone::Plain)).chain(cells).collect(),
        }
    };
    drawn.into_iter().enumerate().map(line).collect()
}

fn words(signal: &'static str) -> &'static str {
    if signal == "grad_norm" {
        "grad norm"
    } else {
        signal
    }
}

/// What is marked on the axis: the mark, its name, its step. The first of those that share a column is drawn.
type Mark = (char, &'static str, u64);

fn marks(run: &Run, i: &Incident, first: u64, last: u64) -> Vec<Mark> {
    let all = [
        ('^', "onset", Some(i.onset_row)),
        ('*', "peak", i.peak_row),
        ('<', "back", i.return_row),
    ];
    let step = |(mark, name, row): (char, &'static str, Option<usize>)| {
        Some((mark, name, *run.steps.get(row?)?))
    };
    let shown = |m: &Mark| (first..=last).contains(&m.2);
    all.into_iter().filter_map(step).filter(shown).collect()
}

fn axis(marks: &[Mark], columns: usize, place: &dyn Fn(u64) -> usize) -> Line {
    let mut cells = vec![('─', Tone::Plain); columns + 1];
    cells[0].0 = '└';
    for (mark, _, step) in marks.iter().rev() {
        cells[place(*step) + 1] = (*mark, Tone::Incident);
    }
    Line {
        label: "",
        value: String::new(),
        cells,
    }
}

/// `500-600: ^ onset and peak 529, < back 571`.
fn legend(
    marks: &[Mark],
    (first, last): (u64, u64),
    broken: bool,
    place: &dyn Fn(u64) -> usize,
) -> String {
    let mut said: Vec<(char, Vec<&Mark>)> = Vec::new();
    for mark in marks {
        match said.last_mut() {
            Some((_, with)) if place(with[0].2) == place(mark.2) => with.push(mark),
            _ => said.push((mark.0, vec![mark])),
        }
    }
    let mut parts: Vec<String> = said
        .iter()
        .map(|(sign, with)| format!("{sign} {}", together(with)))
        .collect();
    if broken {
        parts.push(format!("{} not finite", plot::BROKEN));
    }
    format!("{first}-{last}: {}", parts.join(", "))
}

/// Marks of one column; those of one step name it once.
fn together(marks: &[&Mark]) -> String {
    let one_step = marks.iter().all(|m| m.2 == marks[0].2);
    if one_step {
        let names: Vec<&str> = marks.iter().map(|m| m.1).collect();
        return format!("{} {}", names.join(" and "), marks[0].2);
    }
    let each: Vec<String> = marks.iter().map(|m| format!("{} {}", m.1, m.2)).collect();
    each.join(", ")
}

/// A value in at most [`VALUE`] characters, with as many digits as tell it from another one `span` away.
fn short(v: f64, span: f64) -> String {
    let size = v.abs();
    if size != 0.0 && !(1e-3..1e5).contains(&size) {
        return format!("{v:.1e}");
    }
    // The place of a number's first digit behind the point.
    let digit = |v: f64| if v > 0.0 { -v.log10().floor() } else { 0.0 };
    let wanted = (digit(size) + 3.0).max(digit(span) + 1.0).clamp(0.0, 6.0) as usize;
    let mut texts = (0..=wanted).rev().map(|digits| format!("{v:.digits$}"));
    let fitting = texts.find(|t| t.len() <= VALUE);
    let text = fitting.unwrap_or_else(|| format!("{v:.1e}"));
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::{Told, diagnose};
    use crate::rules::RuleSet;
    use crate::run::{BuildOptions, Column, Rows, RunBuilder};
    use crate::signal::Aliases;

    fn run(columns: &[(&str, Vec<f64>)]) -> Run {
        let mut rows = Rows::default();
        rows.steps = (1..=columns[0].1.len() as u64).collect();
        for (name, values) in columns {
            rows.put(name, Column::from_values(values.clone()));
        }
        let aliases = Aliases::built_in();
        let mut builder = RunBuilder::new(&aliases, BuildOptions::default());
        builder.add("generated", rows);
        builder.finish().unwrap()
    }

    fn noisy(rows: usize) -> Vec<f64> {
        (0..rows)
            .map(|i| 2.0 + 0.01 * ((i * 7919) % 13) as f64)
            .collect()
    }

    fn spiking(rows: usize, at: usize) -> Vec<f64> {
        let mut out = noisy(rows);
        out[at] = 9.0;
        out
    }

    fn drawn(run: Run, width: usize, ink: Ink) -> Option<Chart> {
        let d = diagnose(run, &RuleSet::built_in().unwrap(), &Told::default());
        around(&d, d.incidents.first().expect("an incident"), width, ink)
    }

    #[test]
    fn a_spike_of_one_row_in_ten_thousand_shows_at_every_width() {
        let run = run(&[("loss", spiking(10_000, 5050))]);
        for width in 30..300 {
            let lines = whole(&run, "loss", width).expect("a chart");
            assert!(lines.iter().all(|l| l.cells.len() == width - FRAME + 1));
            let top = lines[0].plain();
            assert_eq!(top.matches('█').count(), 1, "{width}: {top}");
            assert!(top.trim_start().starts_with("9 ┤"), "{top}");
        }
        assert_eq!(whole(&run, "grad_norm", 80), None);
        assert_eq!(whole(&run, "loss", 20), None, "no room");
    }

    #[test]
    fn an_incident_is_drawn_with_its_marks() {
        let run = run(&[("loss", spiking(400, 299)), ("grad_norm", noisy(400))]);
        let chart = drawn(run, 60, Ink::Braille).unwrap();
        let lines: Vec<String> = chart.lines.iter().map(Line::plain).collect();
        assert_eq!(chart.lines[0].label, "loss");
        assert_eq!(chart.lines[5].label, "grad norm");
        assert_eq!(lines.len(), 9, "five lines, three, the axis");
        assert!(
            lines[0].contains("9 ┤") && lines[4].contains("2 ┤"),
            "{lines:#?}"
        );
        let onset = lines[8].chars().position(|c| c == '^').unwrap();
        let top = lines[0].chars().position(|c| c > '\u{2800}').unwrap();
        assert_eq!(onset, top, "the mark stands below the spike: {lines:#?}");
        assert!(
            chart.legend.contains("^ onset and peak 300"),
            "{}",
            chart.legend
        );
        let tone = chart.lines[0].cells[top - VALUE - 1].1;
        assert_eq!(tone, Tone::Incident);
    }

    #[test]
    fn what_is_not_finite_is_marked_and_hides_nothing() {
        let mut loss = noisy(400);
        loss[299] = 9.0;
        loss[300..400].fill(f64::NAN);
        for ink in [Ink::Braille, Ink::Blocks] {
            let chart = drawn(run(&[("loss", loss.clone())]), 60, ink).unwrap();
            let broken = |l: &Line| l.cells.iter().filter(|c| c.1 == Tone::Broken).count();
            assert!(chart.lines.iter().map(broken).sum::<usize>() > 10);
            assert!(chart.legend.ends_with("× not finite"), "{}", chart.legend);
            assert!(chart.lines[0].value == "9", "{:?}", chart.lines[0]);
        }
    }

    #[test]
    fn runs_with_next_to_nothing_in_them() {
        let constant = run(&[("loss", vec![2.5; 50])]);
        let lines = whole(&constant, "loss", 40).unwrap();
        assert_eq!(
            (lines[0].value.as_str(), lines[3].value.as_str()),
            ("2.5", "2.5")
        );
        assert!(lines[2].plain().contains('█'), "{lines:#?}");
        let one = run(&[("loss", vec![2.5])]);
        assert!(whole(&one, "loss", 40).is_some());
        let nothing = run(&[("loss", vec![f64::NAN; 5])]);
        assert_eq!(whole(&nothing, "loss", 40), None);
    }

    #[test]
    fn any_value_can_be_drawn() {
        let huge = [
            f64::MIN,
            f64::MAX,
            0.0,
            f64::MIN_POSITIVE,
            -1.0,
            1e-300,
            1e300,
        ];
        for values in [&huge[..], &huge[1..4], &huge[3..4]] {
            let run = run(&[("loss", values.to_vec())]);
            assert!(whole(&run, "loss", 40).is_some());
        }
    }

    #[test]
    fn values_have_the_digits_that_tell_them_apart() {
        let both = |low: f64, high: f64| (short(low, high - low), short(high, high - low));
        assert_eq!(both(0.98, 17.858), ("0.98".into(), "17.86".into()));
        assert_eq!(both(2.3412, 2.3415), ("2.3412".into(), "2.3415".into()));
        assert_eq!(both(0.0, 123_456.0), ("0".into(), "1.2e5".into()));
        assert_eq!(both(99_999.0, 99_999.0), ("99999".into(), "99999".into()));
        assert_eq!(both(-12_345.6, 1.0), ("-12346".into(), "1".into()));
        for v in [f64::MIN, f64::MAX, -0.001_234_56, 5e-324, 99_999.99] {
            assert!(short(v, 1e-9).len() <= VALUE, "{}", short(v, 1e-9));
        }
    }
}
