//! Which tests there are. Torch is asked once; the answer is kept until torch or the workers' code changes.

use std::fs;
use std::process::Command;

use crate::layout::Layout;
use crate::name::{Target, TestName};
use crate::{Error, Result};

/// Every test of every target, in the order of the database.
pub fn every_test(layout: &Layout) -> Result<Vec<TestName>> {
    Ok(expand(&on_the_simulator(layout)?))
}

/// Tests of the other targets are those of the simulator.
fn expand(on_sim: &[TestName]) -> Vec<TestName> {
    let of = |target: Target| {
        on_sim
            .iter()
            .filter(move |test| target.runs(&test.kind))
            .map(move |test| test.on(target))
    };
    Target::ALL.into_iter().flat_map(of).collect()
}

fn on_the_simulator(layout: &Layout) -> Result<Vec<TestName>> {
    let path = layout.dir.join(format!("list-{:016x}.txt", layout.list_key()?));
    if let Ok(text) = fs::read_to_string(&path)
        && let Ok(names) = parse(&text)
    {
        return Ok(names);
    }
    let text = ask(layout)?;
    let names = parse(&text).map_err(|what| Error::Process {
        program: "python -m worker --list".to_owned(),
        what,
    })?;
    // Through a name of our own: another listing may be at it.
    let draft = path.with_extension(format!("{}.tmp", std::process::id()));
    fs::write(&draft, text).map_err(Error::file("write", &draft))?;
    fs::rename(&draft, &path).map_err(Error::file("write", &path))?;
    Ok(names)
}

fn parse(text: &str) -> Result<Vec<TestName>, String> {
    let names: Result<Vec<TestName>, _> = text.lines().map(str::parse).collect();
    match names {
        Ok(names) if names.is_empty() => Err("it lists no test".to_owned()),
        Ok(names) => Ok(names),
        Err(e) => Err(e.to_string()),
    }
}

fn ask(layout: &Layout) -> Result<String> {
    let failed = |what: String| Error::Process {
        program: format!("{} -m worker --list", layout.python.display()),
        what,
    };
    let output = Command::new(&layout.python)
        .args(["-m", "worker", "--list"])
        .env("PYTHONPATH", layout.package())
        .current_dir(&layout.root)
        .output()
        .map_err(|e| failed(format!("{e}; `tools/dev setup` makes the environment")))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let start = words.len().saturating_sub(2000);
        let words: String = words.chars().skip(start).collect();
        return Err(failed(format!("ended with {}: {words}", output.status)));
    }
    String::from_utf8(output.stdout).map_err(|e| failed(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_are_not_asked_for_errors() {
        let names = parse("sim::op::add::float32\nsim::error::add::float32\n").unwrap();
        let all: Vec<String> = expand(&names).iter().map(ToString::to_string).collect();
        let want = "sim::op::add::float32 sim::error::add::float32 v6e::op::add::float32 \
                    tpu::op::add::float32 tpu::error::add::float32";
        assert_eq!(all.join(" "), want);
    }

    #[test]
    fn an_empty_list_is_a_failure() {
        assert!(parse("").is_err());
        assert!(parse("warning: something\n").is_err());
    }
}
