//! `whyspike deliver`, which `watch` starts: hands one piece of news to a command or a webhook, once.
//!
//! It is a process of its own, so that what ends the watch, even a kill, does not end the delivery: it claims the news in
//! a file that only one can create, and only then hands them on.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use ureq::http::StatusCode;

/// The environment variable that holds the address of the webhook: an argument could be read by every user.
pub(super) const WEBHOOK: &str = "WHYSPIKE_WEBHOOK";
/// Time that one request may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The wait before the second try, doubled after each up to the longest.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// Time after which a webhook that does not answer is given up.
const GIVE_UP: Duration = Duration::from_hours(1);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The news, as a file
    #[arg(long, value_name = "FILE")]
    news: PathBuf,
    /// The file that says that they are being handed on
    #[arg(long, value_name = "FILE")]
    claim: PathBuf,
    /// The file that says that they were, for a webhook
    #[arg(long, value_name = "FILE")]
    done: PathBuf,
    /// Shell command that gets them on standard input; without it they go to the webhook
    #[arg(long, value_name = "CMD", allow_hyphen_values = true)]
    command: Option<String>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Some(command) => execute(args, command),
        None => post(args),
    }
}

/// Runs the command in place of this process, if nobody did before.
fn execute(args: &Args, command: &str) -> anyhow::Result<ExitCode> {
    let news = open(&args.news)?;
    let claimed = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&args.claim);
    match claimed {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(ExitCode::SUCCESS),
        other => other.with_context(|| args.claim.display().to_string())?,
    };
    let mut shell = shell(command);
    shell.stdin(news).stdout(Stdio::from(std::io::stderr()));
    become_it(shell).with_context(|| format!("--on-incident: `{command}`"))
}

fn open(path: &Path) -> anyhow::Result<File> {
    File::open(path).with_context(|| path.display().to_string())
}

#[cfg(unix)]
fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command);
    shell
}

#[cfg(not(unix))]
fn shell(command: &str) -> Command {
    let mut shell = Command::new("cmd");
    shell.arg("/C").arg(command);
    shell
}

#[cfg(unix)]
fn become_it(mut command: Command) -> anyhow::Result<ExitCode> {
    use std::os::unix::process::CommandExt;
    Err(command.exec().into())
}

#[cfg(not(unix))]
fn become_it(mut command: Command) -> anyhow::Result<ExitCode> {
    let status = command.status()?;
    Ok(ExitCode::from(u8::from(!status.success())))
}

/// Posts the news, and tries again while the other side is busy or cannot be reached.
fn post(args: &Args) -> anyhow::Result<ExitCode> {
    let url = std::env::var(WEBHOOK).with_context(|| format!("{WEBHOOK} is not set"))?;
    let body = std::fs::read(&args.news).with_context(|| args.news.display().to_string())?;
    let claim = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&args.claim);
    let claim = claim.with_context(|| args.claim.display().to_string())?;
    // Whoever holds the lock hands them on; it falls when that process ends.
    if matches!(claim.try_lock(), Err(TryLockError::WouldBlock)) || args.done.exists() {
        return Ok(ExitCode::SUCCESS);
    }
    let note = |text: &str| {
        // What cannot be noted is not heard: the delivery goes on all the same.
        let _ = std::fs::write(note_of(&args.done), format!("{text}\n"));
    };
    let outcome = insist(&url, &body, &note, &|| args.news.exists());
    if let Err(e) = &outcome {
        note(&e.to_string());
    }
    std::fs::write(
        &args.done,
        if outcome.is_ok() {
            "sent\n"
        } else {
            "refused\n"
        },
    )
    .with_context(|| args.done.display().to_string())?;
    outcome.context("--webhook")?;
    Ok(ExitCode::SUCCESS)
}

/// What one request came to.
enum Answer {
    Taken,
    /// Not now; the wait that the other side asks for, if it does.
    Later(String, Option<Duration>),
    Never(String),
}

/// The file beside `done` in which a webhook's trouble is noted, for the watch to say: what is written to its standard error
/// would keep open whatever that is piped into, for as long as the webhook is tried.
fn note_of(done: &Path) -> PathBuf {
    done.with_extension("note")
}

/// Sends until it is taken. `note` hears of the first trouble; whoever removes the news calls the delivery off.
fn insist(
    url: &str,
    body: &[u8],
    note: &dyn Fn(&str),
    wanted: &dyn Fn() -> bool,
) -> anyhow::Result<()> {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .http_status_as_error(false)
        // One that is followed turns the message into a request for a page, which is answered and holds nothing.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("whyspike/", env!("CARGO_PKG_VERSION")));
    let agent: ureq::Agent = config.build().into();
    let (start, mut wait) = (Instant::now(), FIRST_WAIT);
    loop {
        let (why, asked) = match send(&agent, url, body) {
            Answer::Taken => return Ok(()),
            Answer::Never(why) => bail!("{why}; it is not sent again"),
            Answer::Later(why, asked) => (why, asked),
        };
        let pause = asked.unwrap_or(wait).min(GIVE_UP);
        if start.elapsed() + pause > GIVE_UP {
            bail!("{why}; given up after an hour");
        }
        if wait == FIRST_WAIT {
            note(&format!("{why}; it is tried for an hour"));
        }
        std::thread::sleep(pause);
        if !wanted() {
            bail!("{why}; the news were removed");
        }
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

fn send(agent: &ureq::Agent, url: &str, body: &[u8]) -> Answer {
    let sent = agent
        .post(url)
        .header("Content-Type", "application/json")
        .send(body);
    let response = match sent {
        Ok(response) => response,
        Err(e @ (ureq::Error::BadUri(_) | ureq::Error::Http(_))) => {
            return Answer::Never(e.to_string());
        }
        Err(e) => return Answer::Later(e.to_string(), None),
    };
    let status = response.status();
    if status.is_success() {
        return Answer::Taken;
    }
    let header = |name: &str| response.headers().get(name).and_then(|v| v.to_str().ok());
    if let Some(to) = header("location").filter(|_| status.is_redirection()) {
        return Answer::Never(format!(
            "the server answered {status}: give the address it points to, {to}"
        ));
    }
    let asked = header("retry-after")
        .and_then(|v| v.trim().parse().ok())
        .map(Duration::from_secs);
    let why = format!("the server answered {status}");
    let later = status.is_server_error()
        || matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT
        );
    if later {
        Answer::Later(why, asked)
    } else {
        Answer::Never(why)
    }
}
