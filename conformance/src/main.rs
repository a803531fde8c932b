//! `conformance`: the suite's reports. It is also the daemon and the compiler that tests start.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use conformance::layout::Layout;
use conformance::report::Report;
use conformance::{Error, Result, client, compiler, coverage, daemon, diff};

const USAGE: &str = "usage:
  conformance coverage [REPORT.json...]   writes docs/coverage.md from the last report, or from these, the later first
  conformance diff A.json B.json          what became worse from A to B; ends with 1 when something did
  conformance same A.json B.json          whether two reports are the same but for times; ends with 1 when not
The suite itself: cargo nextest run -p conformance";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(e) => {
            complain(&e);
            ExitCode::from(2)
        }
    }
}

#[expect(clippy::print_stderr, reason = "a command's errors")]
fn complain(what: &dyn std::fmt::Display) {
    eprintln!("conformance: {what}");
}

#[expect(clippy::print_stdout, reason = "a command's answer")]
fn say(what: &dyn std::fmt::Display) {
    println!("{what}");
}

fn run() -> Result<ExitCode> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [daemon::SERVE, key] => {
            let key = u64::from_str_radix(key, 16).map_err(|e| Error::Usage(format!("{key:?}: {e}")))?;
            daemon::serve(&Layout::here()?, key)?;
        }
        [compiler::SERVE] => compiler::serve(&Layout::here()?)?,
        [compiler::LIBTPU] => {
            pjrt::aot::worker::serve(io::stdin(), &mut io::stdout().lock()).map_err(|e| Error::Process {
                program: "libtpu's process".to_owned(),
                what: e.to_string(),
            })?;
        }
        ["coverage", ref reports @ ..] => {
            let layout = Layout::here()?;
            say(&write_coverage(&layout, reports)?);
        }
        ["diff", a, b] => {
            let (a, b) = both(a, b)?;
            let worse = diff::compare(&a, &b);
            say(&worse);
            return Ok(ExitCode::from(u8::from(worse.any())));
        }
        ["same", a, b] => {
            let (a, b) = both(a, b)?;
            let same = diff::same(&a, &b);
            say(&same);
            return Ok(ExitCode::from(u8::from(!same.is_empty())));
        }
        _ => return Err(Error::Usage(USAGE.to_owned())),
    }
    Ok(ExitCode::SUCCESS)
}

/// Two reports; one of them may be of a run that ended just now.
fn both(a: &str, b: &str) -> Result<(Report, Report)> {
    client::flush(&Layout::here()?);
    Ok((Report::read(Path::new(a))?, Report::read(Path::new(b))?))
}

fn write_coverage(layout: &Layout, reports: &[&str]) -> Result<String> {
    client::flush(layout);
    let last = layout.dir.join("report.json");
    let mut paths: Vec<PathBuf> = reports.iter().map(PathBuf::from).collect();
    if paths.is_empty() {
        paths.push(last);
    }
    let mut whole: Option<Report> = None;
    for path in &paths {
        let report = Report::read(path)?;
        match &mut whole {
            Some(whole) => whole.merge(report),
            None => whole = Some(report),
        }
    }
    let page = coverage::page(&whole.unwrap_or_default());
    let path = layout.root.join("docs").join("coverage.md");
    std::fs::write(&path, page).map_err(|source| Error::File {
        action: "write",
        path: path.clone(),
        source,
    })?;
    Ok(path.display().to_string())
}
