//! The workflow of the README, as far as it runs without the service: its shell steps.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Curve, Noise, root};

/// A shell step and whether it runs after a failure, too.
struct Step {
    run: String,
    always: bool,
}

fn steps() -> Vec<Step> {
    let readme = fs::read_to_string(root().join("README.md")).expect("the README");
    let workflow = readme
        .split("```yaml\n")
        .skip(1)
        .map(|b| b.split("```").next().unwrap_or(""))
        .find(|b| b.contains("jobs:"))
        .expect("a workflow");
    let steps = workflow.split("      - ").skip(1);
    steps
        .filter_map(|step| {
            let run = step.lines().find_map(|l| l.trim().strip_prefix("run: "))?;
            Some(Step {
                run: run.to_owned(),
                always: step.contains("if: always()"),
            })
        })
        .collect()
}

/// Runs the steps as GitHub does: the exit code of the first that failed, if any.
fn job(folder: &Path) -> Option<i32> {
    let program = Path::new(env!("CARGO_BIN_EXE_whyspike"));
    let path = std::env::var("PATH").expect("a path");
    let path = format!("{}:{path}", program.parent().expect("a folder").display());
    let mut failed = None;
    for step in steps() {
        if failed.is_some() && !step.always {
            continue;
        }
        let mut shell = Command::new("bash");
        shell.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &step.run]);
        shell.current_dir(folder).env("PATH", &path);
        shell.env("GITHUB_STEP_SUMMARY", folder.join("summary.md"));
        let out = shell.output().expect("bash");
        if !out.status.success() {
            failed = failed.or(out.status.code());
        }
    }
    failed
}

/// A folder whose training prints this loss.
fn trained(curve: &Curve) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let losses = curve.columns[0].1.iter().flatten();
    let rows = curve.steps.iter().zip(losses);
    let rows: Vec<String> = rows
        .map(|(s, l)| format!("{{\"step\": {s}, \"loss\": {l:.5}}}\n"))
        .collect();
    fs::write(folder.path().join("rows"), rows.concat()).expect("written");
    let script = folder.path().join("smoke-train.sh");
    fs::write(&script, "#!/bin/sh\ncat rows\n").expect("written");
    let done = Command::new("chmod").arg("+x").arg(&script).status();
    assert!(done.expect("chmod").success());
    folder
}

fn curve() -> Curve {
    let mut noise = Noise::new(3);
    Curve::of_loss((0..600).map(|_| 2.0 + 0.01 * noise.normal()))
}

#[test]
fn the_workflow_lets_a_healthy_run_pass_and_fails_one_that_diverged() {
    assert_eq!(steps().len(), 3);
    let healthy = trained(&curve());
    assert_eq!(job(healthy.path()), None);
    let files = ["train.log", "whyspike.xml", "whyspike.html", "summary.md"];
    assert!(files.iter().all(|f| healthy.path().join(f).exists()));

    let mut diverged = curve();
    (400..=600).for_each(|step| diverged.raise(step, 2.0));
    let diverged = trained(&diverged);
    assert_eq!(job(diverged.path()), Some(1));
    let read = |name: &str| fs::read_to_string(diverged.path().join(name)).expect(name);
    assert!(read("whyspike.xml").contains("<failure"));
    assert!(read("summary.md").contains("divergent"));
    assert!(diverged.path().join("whyspike.html").exists());
}
