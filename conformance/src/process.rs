//! A child that answers a line with a line, under a time limit, and whose last words are kept.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::{Error, Result};

/// How much of a dead child's standard error is told.
const LAST_WORDS: usize = 3000;
const READ_BACK: u64 = 1 << 16;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Silence {
    /// The child ended; its status, and its last words.
    Died(String),
    /// It took too long and was ended; its last words.
    Hung(String),
}

/// The child; killed and reaped when dropped.
#[derive(Debug)]
pub(crate) struct LineProcess {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    log: PathBuf,
}

impl LineProcess {
    /// Starts it; its standard error goes to the file `log`, which starts anew.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let failed = |what: String| Error::Process { program, what };
        let stderr = File::create(log).map_err(Error::file("create", log))?;
        let mut child = match command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
        {
            Ok(child) => child,
            Err(e) => return Err(failed(e.to_string())),
        };
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("started without pipes".to_owned()));
        };
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            child,
            input,
            lines,
            log: log.to_owned(),
        })
    }

    /// Sends a line and waits for the answer. After a silence the child is of no more use.
    pub(crate) fn ask(&mut self, line: &str, limit: Duration) -> Result<String, Silence> {
        // What was said before this question is nobody's last words.
        let from = self.log.metadata().map_or(0, |data| data.len());
        let sent = writeln!(self.input, "{line}").and_then(|()| self.input.flush());
        if sent.is_err() {
            return Err(Silence::Died(self.words(from)));
        }
        match self.lines.recv_timeout(limit) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => {
                self.end();
                Err(Silence::Hung(self.words(from)))
            }
            Err(RecvTimeoutError::Disconnected) => {
                let words = self.words(from);
                Err(Silence::Died(format!("{}: {words}", self.status())))
            }
        }
    }

    /// Bytes of memory it holds.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id()));
        let pages = statm
            .ok()
            .and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
        pages.unwrap_or(0) * 4096
    }

    fn status(&mut self) -> String {
        // Its pipe is closed, so it is about to end, unless it closed that itself.
        for _ in 0..50 {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.to_string();
            }
            thread::sleep(Duration::from_millis(20));
        }
        self.end();
        "it closed its output".to_owned()
    }

    fn words(&self, from: u64) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = File::open(&self.log)?;
            let from = from.max(file.metadata()?.len().saturating_sub(READ_BACK));
            file.seek(SeekFrom::Start(from))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(last_words(&String::from_utf8_lossy(&bytes)))
        };
        match read() {
            Ok(words) if !words.is_empty() => words,
            _ => "it said nothing".to_owned(),
        }
    }

    fn end(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for LineProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// The end of what a child said, without the list of modules that Python ends a crash with.
fn last_words(log: &str) -> String {
    let telling = log
        .lines()
        .filter(|line| !line.starts_with("Extension modules: "));
    let text = telling.collect::<Vec<_>>().join("\n");
    let text = text.trim();
    let skipped = text.chars().count().saturating_sub(LAST_WORDS);
    text.chars().skip(skipped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, dir: &tempfile::TempDir) -> LineProcess {
        LineProcess::start(Command::new("sh").args(["-c", script]), &dir.path().join("log")).unwrap()
    }

    #[test]
    fn a_line_is_answered() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = shell("while read x; do echo \"<$x>\"; done", &dir);
        for word in ["a", "b"] {
            assert_eq!(
                child.ask(word, Duration::from_secs(10)).unwrap(),
                format!("<{word}>")
            );
        }
        assert!(child.resident_bytes() > 0);
    }

    #[test]
    fn the_last_words_are_those_since_the_question() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = shell(
            "echo old >&2; read x; echo ok; read x; echo new >&2; kill -9 $$",
            &dir,
        );
        child.ask("1", Duration::from_secs(10)).unwrap();
        match child.ask("2", Duration::from_secs(10)) {
            Err(Silence::Died(words)) => assert_eq!(words, "signal: 9 (SIGKILL): new"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pythons_list_of_modules_is_nobodys_last_word() {
        let log = "Fatal Python error: Aborted\n  File a.py\n\nExtension modules: torch._C (total: 118)\n";
        assert_eq!(last_words(log), "Fatal Python error: Aborted\n  File a.py");
        assert_eq!(last_words(&"é".repeat(4000)).chars().count(), LAST_WORDS);
    }

    #[test]
    fn a_hang_ends() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = shell("read x; echo thinking >&2; exec sleep 100", &dir);
        match child.ask("1", Duration::from_millis(300)) {
            Err(Silence::Hung(words)) => assert_eq!(words, "thinking"),
            other => panic!("{other:?}"),
        }
    }
}
