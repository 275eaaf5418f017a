//! Hands news on: lines to standard output, the rest to processes of their own, each once whatever happens to this one.
//!
//! The ledger is written before anything is said. What it says is due is handed on, after a restart too; the marks of
//! `deliver` tell what was.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::cli::deliver::WEBHOOK;
use crate::cli::watch::print::{self, Printer};
use crate::cli::watch::{Args, say};
use whyspike::diagnosis::Diagnosis;
use whyspike::report::alert;
use whyspike::watch::{Change, Channel, Due, Ledger, News};

/// Deliveries that run at the same time.
const MOST: usize = 8;
/// Names of files end at 255 bytes: of a longer path its end tells more, and a number tells it from others.
const LONGEST: usize = 200;
const LEDGER: &str = "state.json";
const SAID: &str = "said";
/// Time in which lines are taken, unless nobody reads them.
const PROMPT: Duration = Duration::from_millis(200);

/// Where news go, and what is remembered of them.
pub(super) struct Post<'a> {
    folder: PathBuf,
    log: String,
    commands: [Option<&'a str>; 2],
    webhook: Option<String>,
    running: Vec<(Due, Child)>,
    /// News whose files are not written yet.
    unwritten: Vec<(PathBuf, String)>,
    printer: Printer,
    /// Whether the ledger could not be written.
    unsaved: bool,
    /// What was complained of last.
    complaint: Option<String>,
    /// Held as long as this watch runs.
    _lock: File,
}

impl<'a> Post<'a> {
    /// Opens the folder of what was told of a log. Only one watch can have it.
    pub(super) fn open(log: &Path, args: &'a Args) -> anyhow::Result<Self> {
        let folder = match &args.state {
            Some(folder) => folder.clone(),
            None => usual_folder(log)?,
        };
        let at = || format!("--state {}", folder.display());
        fs::create_dir_all(&folder).with_context(at)?;
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(folder.join("lock"));
        let lock = lock.with_context(at)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => bail!(
                "{}: another `whyspike watch` has it; to watch the log twice, give each its own --state",
                folder.display()
            ),
            Err(fs::TryLockError::Error(e)) => say(&format!(
                "--state {}: its file system has no locks ({e}): see that only one watch uses it",
                folder.display()
            )),
        }
        let webhook = args.webhook.clone().or_else(|| std::env::var(WEBHOOK).ok());
        if let Some(url) = webhook.as_deref().filter(|u| !is_address(u)) {
            bail!("--webhook: `{url}` is no address: it begins with https:// or http://");
        }
        let printer = Printer::start(&folder.join(SAID)).with_context(at)?;
        Ok(Self {
            folder,
            log: whole(log)?.display().to_string(),
            commands: [args.on_incident.as_deref(), args.on_update.as_deref()],
            webhook,
            running: Vec::new(),
            unwritten: Vec::new(),
            printer,
            unsaved: false,
            complaint: None,
            _lock: lock,
        })
    }

    /// What was told so far.
    pub(super) fn ledger(&self) -> anyhow::Result<Ledger> {
        let path = self.folder.join(LEDGER);
        let found = Ledger::read(&path).with_context(|| path.display().to_string())?;
        let mut ledger = found.unwrap_or_else(|| Ledger::new(&self.log));
        if ledger.log != self.log {
            bail!(
                "--state {}: it remembers what was told of {}, not of {}; give each log its own",
                self.folder.display(),
                ledger.log,
                self.log
            );
        }
        print::forget_said(&mut ledger, &self.folder.join(SAID));
        Ok(ledger)
    }

    /// Writes down what was told. A folder that is full or gone for now must not keep news from being told.
    pub(super) fn save(&mut self, ledger: &Ledger) {
        self.write_down();
        if !self.unwritten.is_empty() {
            // A ledger that says they are due would lose them if this watch ended now.
            self.unsaved = true;
            return;
        }
        let path = self.folder.join(LEDGER);
        let saved = fs::create_dir_all(&self.folder).and_then(|()| ledger.write(&path));
        self.unsaved = saved.is_err();
        match saved {
            Ok(()) => self.complaint = None,
            Err(e) => self.complain(&format!(
                "{}: {e}; it is tried again, and until then a restart may repeat what is told",
                path.display()
            )),
        }
    }

    /// Says what is wrong, once as long as it stays the same.
    fn complain(&mut self, what: &str) {
        if self.complaint.as_deref() != Some(what) {
            say(what);
            self.complaint = Some(what.to_owned());
        }
    }

    /// Puts news down as to be told. Nothing is said before [`catch_up`](Self::catch_up).
    pub(super) fn add(
        &mut self,
        ledger: &mut Ledger,
        log: &str,
        d: Option<&Diagnosis>,
        news: &News,
        line: String,
    ) {
        ledger.news += 1;
        ledger.unsaid.push(line);
        let name = format!("{}-{}", ledger.news, news.id);
        for channel in self.channels(news) {
            let text = match channel {
                Channel::Webhook => alert::message(log, d, news),
                _ => alert::payload(log, d, news),
            };
            let due = Due {
                name: name.clone(),
                channel,
            };
            self.unwritten
                .push((self.file(&due, "json"), format!("{text}\n")));
            ledger.due.push(due);
        }
        self.write_down();
    }

    /// Writes the files of news; those that cannot be written are tried again.
    fn write_down(&mut self) {
        for (path, text) in std::mem::take(&mut self.unwritten) {
            let written = fs::create_dir_all(&self.folder).and_then(|()| fs::write(&path, &text));
            if let Err(e) = written {
                self.complain(&format!("{}: {e}; it is tried again", path.display()));
                self.unwritten.push((path, text));
            }
        }
    }

    fn channels(&self, news: &News) -> Vec<Channel> {
        let new = matches!(news.what, Change::New(_) | Change::Hung(_));
        let command = if new {
            Channel::Incident
        } else {
            Channel::Update
        };
        let mut out = Vec::new();
        if self.command(command).is_some() {
            out.push(command);
        }
        if self.webhook.is_some() {
            out.push(Channel::Webhook);
        }
        out
    }

    fn command(&self, channel: Channel) -> Option<&str> {
        match channel {
            Channel::Incident => self.commands[0],
            Channel::Update => self.commands[1],
            Channel::Webhook => None,
        }
    }

    fn file(&self, due: &Due, ending: &str) -> PathBuf {
        let channel = match due.channel {
            Channel::Incident => "incident",
            Channel::Update => "update",
            Channel::Webhook => "webhook",
        };
        self.folder.join(format!("{}.{channel}.{ending}", due.name))
    }

    /// Hands on what is due, and says what the ledger says is unsaid.
    pub(super) fn catch_up(&mut self, ledger: &mut Ledger) -> anyhow::Result<()> {
        self.save(ledger);
        self.tend(ledger)
    }

    /// Starts deliveries that are due, clears away those that are done, and goes on with what waits.
    pub(super) fn tend(&mut self, ledger: &mut Ledger) -> anyhow::Result<()> {
        if self.unsaved {
            self.save(ledger);
        }
        // Before the lines: nobody may read those.
        self.deliver(ledger, MOST);
        self.print(ledger, PROMPT)
    }

    /// Starts all that is due: the watch ends, its deliveries need not.
    pub(super) fn finish(&mut self, ledger: &mut Ledger) -> anyhow::Result<()> {
        self.deliver(ledger, usize::MAX);
        loop {
            let unsaid = ledger.unsaid.len();
            self.print(ledger, Duration::MAX)?;
            if ledger.unsaid.len() == unsaid {
                return Ok(());
            }
        }
    }

    /// Prints what is unsaid, and waits so long for it to be taken.
    fn print(&mut self, ledger: &mut Ledger, patience: Duration) -> anyhow::Result<()> {
        let Some((lines, outcome)) = self.printer.print(ledger, patience) else {
            return Ok(());
        };
        match outcome {
            Ok(()) => {
                ledger.unsaid.drain(..lines);
                self.save(ledger);
                Ok(())
            }
            // Whoever is paged needs no standard output.
            Err(e) if self.is_heard() => {
                self.complain(&format!("standard output: {e}; the lines wait"));
                Ok(())
            }
            Err(e) => Err(e).context("standard output"),
        }
    }

    fn is_heard(&self) -> bool {
        self.webhook.is_some() || self.commands.iter().any(Option::is_some)
    }

    fn deliver(&mut self, ledger: &mut Ledger, most: usize) {
        let ended = self.ended();
        // A delivery notes its trouble before it ends.
        self.say_trouble(ledger);
        for text in ended
            .iter()
            .filter_map(|(due, status)| failure(due, *status))
        {
            say(&text);
        }
        let mut done: Vec<Due> = ended.into_iter().map(|(due, _)| due).collect();
        for due in &ledger.due {
            let file = self.file(due, "json");
            let away = self.running.iter().any(|(d, _)| d == due) || done.contains(due);
            if away || self.unwritten.iter().any(|(path, _)| *path == file) {
                continue;
            }
            if self.was_handed_on(due) {
                done.push(due.clone());
            } else if !file.exists() {
                say(&format!("{}: {} is gone", about(due), file.display()));
                done.push(due.clone());
            } else if self.running.len() < most {
                match self.start(due) {
                    Ok(Some(child)) => self.running.push((due.clone(), child)),
                    Ok(None) => {}
                    Err(e) => self.complain(&format!("{e:#}; it is tried again")),
                }
            }
        }
        if done.is_empty() {
            return;
        }
        ledger.due.retain(|d| !done.contains(d));
        self.save(ledger);
        if self.unsaved {
            // What the old ledger says is due must stay known as handed on.
            return;
        }
        for due in &done {
            for ending in ["json", "claimed", "done", "note"] {
                let _ = fs::remove_file(self.file(due, ending));
            }
        }
    }

    /// Says what deliveries have noted of their trouble.
    fn say_trouble(&self, ledger: &Ledger) {
        for due in ledger.due.iter().filter(|d| d.channel == Channel::Webhook) {
            let note = self.file(due, "note");
            if let Ok(text) = fs::read_to_string(&note)
                && text.ends_with('\n')
                && fs::remove_file(&note).is_ok()
            {
                say(&format!("{}: --webhook: {}", about(due), text.trim()));
            }
        }
    }

    /// Deliveries whose process has ended.
    fn ended(&mut self) -> Vec<(Due, ExitStatus)> {
        let mut out = Vec::new();
        self.running.retain_mut(|(due, child)| {
            let Ok(Some(status)) = child.try_wait() else {
                return true;
            };
            out.push((due.clone(), status));
            false
        });
        out
    }

    /// Whether an earlier watch saw to it. A webhook that was being tried when that one ended is tried on by its process.
    fn was_handed_on(&self, due: &Due) -> bool {
        match due.channel {
            Channel::Webhook => self.file(due, "done").exists(),
            _ => self.file(due, "claimed").exists(),
        }
    }

    /// Starts a delivery, if this watch has somewhere to hand it to.
    fn start(&self, due: &Due) -> anyhow::Result<Option<Child>> {
        let command = self.command(due.channel);
        if command.is_none() && (due.channel != Channel::Webhook || self.webhook.is_none()) {
            return Ok(None);
        }
        let mut child = Command::new(myself()?);
        child.arg("deliver");
        child.arg("--news").arg(self.file(due, "json"));
        child.arg("--claim").arg(self.file(due, "claimed"));
        child.arg("--done").arg(self.file(due, "done"));
        match (command, &self.webhook) {
            (Some(command), _) => {
                child.arg(format!("--command={command}"));
                child.env_remove(WEBHOOK);
            }
            (None, url) => {
                child.envs(url.as_ref().map(|url| (WEBHOOK, url)));
            }
        }
        child.stdin(Stdio::null()).stdout(Stdio::null());
        if command.is_none() {
            child.stderr(Stdio::null());
        }
        apart(&mut child);
        Ok(Some(child.spawn().context("a process for the news")?))
    }
}

/// The incident that news are about.
fn about(due: &Due) -> String {
    let id = due.name.split_once('-').map_or("", |(_, id)| id);
    format!("incident {id}")
}

/// That a command failed, which happens once: it may have done its work. A webhook has noted its own trouble.
fn failure(due: &Due, status: ExitStatus) -> Option<String> {
    let option = match due.channel {
        Channel::Incident => "--on-incident",
        Channel::Update => "--on-update",
        Channel::Webhook => return None,
    };
    let text = format!(
        "{}: the command of {option} failed ({status}); it is not tried again",
        about(due)
    );
    (!status.success()).then_some(text)
}

/// What ends the watch from the keyboard does not end the delivery.
#[cfg(unix)]
fn apart(child: &mut Command) {
    use std::os::unix::process::CommandExt;
    child.process_group(0);
}

#[cfg(not(unix))]
fn apart(_: &mut Command) {}

/// This program, though its file may have been replaced since it was started.
fn myself() -> anyhow::Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() {
        return Ok(running.to_owned());
    }
    std::env::current_exe().context("the path of whyspike")
}

fn is_address(url: &str) -> bool {
    let host = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    host.is_some_and(|h| !h.is_empty() && !h.starts_with('/'))
}

/// The path of a log from the root on, however it was given.
fn whole(log: &Path) -> anyhow::Result<PathBuf> {
    if log.as_os_str() == "-" {
        return Ok(log.to_owned());
    }
    std::path::absolute(log).with_context(|| log.display().to_string())
}

/// The folder of a log in the user's state folder.
fn usual_folder(log: &Path) -> anyhow::Result<PathBuf> {
    if log.as_os_str() == "-" {
        bail!(
            "--state: standard input has no name by which what was told could be found again: give a folder"
        );
    }
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state"));
    let given = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|p| p.is_absolute());
    let Some(base) = given.or_else(home) else {
        bail!("--state: HOME is not set: give a folder that remembers what was told");
    };
    let whole = whole(log)?;
    let name: String = whole
        .to_string_lossy()
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') {
                c
            } else {
                '%'
            }
        })
        .collect();
    let short = &name[name.len().saturating_sub(LONGEST)..];
    let number = crc32fast::hash(whole.as_os_str().as_encoded_bytes());
    Ok(base
        .join("whyspike/watch")
        .join(format!("{short}-{number:08x}")))
}
