//! `whyspike plot`: the run or an incident as a picture.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;

use crate::cli::input::Input;
use crate::cli::output;
use whyspike::diagnosis::{Diagnosed, Diagnosis};
use whyspike::report::figure::{self, Figure};
use whyspike::report::plot::{self, Look};
use whyspike::run::Run;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    /// The picture to write; its ending says which kind
    #[arg(short, long, value_name = "FILE.svg|FILE.png")]
    output: PathBuf,
    /// Number of the incident; without it the whole run
    #[arg(long, value_name = "N")]
    incident: Option<usize>,
    /// What to draw, from top to bottom: columns of run.parquet; a family that is logged by layer is drawn
    /// with all its layers [default: what tells of causes]
    #[arg(long, value_name = "SIGNAL,...", value_delimiter = ',')]
    signals: Vec<String>,
    /// First step of the picture
    #[arg(long, value_name = "STEP")]
    from: Option<u64>,
    /// Last step of the picture
    #[arg(long, value_name = "STEP")]
    to: Option<u64>,
    /// Width in pixels
    #[arg(long, value_name = "PX", default_value_t = 1200, value_parser = clap::value_parser!(u32).range(320..=8192))]
    width: u32,
    /// Height in pixels; without it what the panels need
    #[arg(long, value_name = "PX", value_parser = clap::value_parser!(u32).range(160..=8192))]
    height: Option<u32>,
    /// Light on dark
    #[arg(long)]
    dark: bool,
}

/// Kinds of picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Svg,
    Png,
}

/// The kind that the ending of a name says.
fn kind(path: &Path) -> anyhow::Result<Kind> {
    let ending = path.extension().and_then(|e| e.to_str());
    match ending.map(str::to_lowercase).as_deref() {
        Some("svg") => Ok(Kind::Svg),
        Some("png") => Ok(Kind::Png),
        _ => bail!(
            "--output {}: a picture is SVG or PNG; end the name in .svg or .png",
            path.display()
        ),
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let kind = kind(&args.output)?;
    if let (Some(from), Some(to)) = (args.from, args.to)
        && from > to
    {
        bail!("--from {from} lies behind --to {to}: give the smaller step first");
    }
    output::spares(&args.output, &args.input.reading.logs)?;
    let diagnosis = args.input.diagnosis()?;
    known(&diagnosis.run, &args.signals)?;
    within(&diagnosis.run, args.from, args.to)?;
    let incident = args.incident.map(|id| find(&diagnosis, id)).transpose()?;
    let look = Look {
        width: args.width,
        height: args.height,
        dark: args.dark,
    };
    let figure = figure(args, &diagnosis, incident, plot::columns(&look));
    let caption = match incident {
        Some(x) => plot::caption_of_incident(&diagnosis, x),
        None => plot::caption(&diagnosis),
    };
    let path = &args.output;
    let bytes = match kind {
        Kind::Svg => plot::svg(&figure, &caption, &look)?.into_bytes(),
        Kind::Png => plot::png(&figure, &caption, &look)?,
    };
    output::file(path, &bytes)?;
    output::result(&told(path, &figure))?;
    Ok(ExitCode::SUCCESS)
}

fn figure(args: &Args, d: &Diagnosis, incident: Option<&Diagnosed>, columns: usize) -> Figure {
    let whole = args.signals.is_empty() && args.from.is_none() && args.to.is_none();
    match incident {
        Some(x) => {
            let (from, to) = figure::window(d, x);
            let to = args.to.unwrap_or(to);
            let from = args.from.unwrap_or(from);
            figure::incident_within(d, x, &args.signals, (from, to), columns)
        }
        None if whole => figure::overview(d, columns),
        None if args.signals.is_empty() => {
            let usual = figure::overview(d, columns).panels;
            let usual: Vec<String> = usual.into_iter().map(|p| p.signal).collect();
            figure::selection(d, &usual, args.from, args.to, columns)
        }
        None => figure::selection(d, &args.signals, args.from, args.to, columns),
    }
}

/// The incident of a number.
fn find(d: &Diagnosis, id: usize) -> anyhow::Result<&Diagnosed> {
    let found = d.incidents.iter().find(|x| x.id == id);
    match (found, d.incidents.len()) {
        (Some(x), _) => Ok(x),
        (None, 0) => {
            bail!("--incident {id}: the run has no incident; without --incident all of it is drawn")
        }
        (None, n) => bail!("--incident {id}: the run has {n}, numbered from 1"),
    }
}

/// Signals that the run does not have are told before anything is drawn, with those that it has.
fn known(run: &Run, signals: &[String]) -> anyhow::Result<()> {
    const SHOWN: usize = 24;
    let here = |s: &&String| run.column(s).is_some() || run.family(s).next().is_some();
    let Some(unknown) = signals.iter().find(|s| !here(s)) else {
        return Ok(());
    };
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in run.columns() {
        // A layer each would hide the rest.
        let layer = name
            .rsplit_once('/')
            .filter(|(_, n)| n.parse::<u64>().is_ok());
        let name = layer.map_or(name, |(family, _)| family);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.len() > SHOWN {
        names.truncate(SHOWN);
        names.push("…");
    }
    bail!(
        "--signals: the run has no `{unknown}`; it has {}",
        names.join(", ")
    )
}

/// Steps beyond the run would be an empty picture.
fn within(run: &Run, from: Option<u64>, to: Option<u64>) -> anyhow::Result<()> {
    let Some((first, last)) = run.span() else {
        return Ok(());
    };
    if from.is_some_and(|s| s > last) || to.is_some_and(|s| s < first) {
        bail!("--from, --to: nothing was logged there; the run has steps {first} to {last}");
    }
    Ok(())
}

fn told(path: &Path, figure: &Figure) -> String {
    let panels = figure.panels.len();
    format!(
        "{}: {}, steps {} to {}, {panels} panel{}\n",
        path.display(),
        figure.title,
        figure.from,
        figure.to,
        if panels == 1 { "" } else { "s" }
    )
}
