//! The table of what cannot be right: `exceptions.toml`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use glob::Pattern;
use serde::Deserialize;

use crate::name::TestName;
use crate::{Error, Result};

/// The whole table.
#[derive(Clone, Debug, Default)]
pub struct Exceptions {
    rows: Vec<Row>,
}

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    op: Pattern,
    kinds: Vec<String>,
    dtypes: Vec<String>,
    target: String,
    /// Why it cannot be right.
    pub reason: String,
    /// What holds in place of it.
    pub bound: Bound,
}

/// What stands in for torch's tolerances.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Bound {
    /// Nothing: results are not compared, programs not needed. A crash or a hang is still a failure.
    NotCompared,
    /// Looser tolerances.
    Tolerance {
        /// Relative.
        rtol: f64,
        /// Absolute.
        atol: f64,
    },
}

impl Bound {
    pub(crate) fn tolerances(self) -> Option<BTreeMap<&'static str, f64>> {
        match self {
            Self::NotCompared => None,
            Self::Tolerance { rtol, atol } => Some(BTreeMap::from([("rtol", rtol), ("atol", atol)])),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default, rename = "exception")]
    rows: Vec<WrittenRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRow {
    op: String,
    kinds: Vec<String>,
    dtypes: Vec<String>,
    target: String,
    reason: String,
    bound: Bound,
}

impl Exceptions {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
        Self::parse(&text).map_err(|what| Error::Text {
            path: path.to_owned(),
            what,
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let written: Written = toml::from_str(text).map_err(|e| e.to_string())?;
        let rows = written.rows.into_iter().map(|row| {
            let wrong = |what: &str| format!("the row of {:?} {what}", row.op);
            if row.reason.trim().is_empty() {
                return Err(wrong("gives no reason"));
            }
            if row.kinds.is_empty() || row.dtypes.is_empty() {
                return Err(wrong("names no kind or no dtype"));
            }
            Ok(Row {
                op: Pattern::new(&row.op).map_err(|e| wrong(&e.to_string()))?,
                kinds: row.kinds,
                dtypes: row.dtypes,
                target: row.target,
                reason: row.reason,
                bound: row.bound,
            })
        });
        Ok(Self {
            rows: rows.collect::<Result<_, _>>()?,
        })
    }

    /// The row of a test, if one is.
    pub fn of(&self, test: &TestName) -> Option<&Row> {
        self.rows.iter().find(|row| row.matches(test))
    }

    /// Rows that no test needs: they match none, or an earlier row takes all that they match.
    pub fn idle(&self, tests: &[TestName]) -> Vec<String> {
        let mut used = vec![false; self.rows.len()];
        for test in tests {
            if let Some(at) = self.rows.iter().position(|row| row.matches(test)) {
                used[at] = true;
            }
        }
        let rows = self.rows.iter().zip(used);
        rows.filter(|(_, used)| !used)
            .map(|(row, _)| {
                let (kinds, dtypes) = (row.kinds.join(","), row.dtypes.join(","));
                format!("{}::{kinds}::{}::{dtypes}", row.target, row.op)
            })
            .collect()
    }
}

impl Row {
    fn matches(&self, test: &TestName) -> bool {
        // A kind or a dtype of `*` is all of them.
        let listed = |list: &[String], what: &str| list.iter().any(|one| one == "*" || one == what);
        self.target == test.target.name()
            && listed(&self.kinds, &test.kind)
            && listed(&self.dtypes, &test.dtype)
            && self.op.matches(&test.op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"
        [[exception]]
        op = "linalg.*"
        kinds = ["op", "grad"]
        dtypes = ["float32"]
        target = "sim"
        reason = "because"
        bound = { tolerance = { rtol = 1e-2, atol = 1e-3 } }

        [[exception]]
        op = "linalg.svd"
        kinds = ["op"]
        dtypes = ["*"]
        target = "v6e"
        reason = "because"
        bound = "not_compared"
    "#;

    fn test(name: &str) -> TestName {
        name.parse().unwrap()
    }

    #[test]
    fn a_row_takes_the_tests_that_it_names() {
        let table = Exceptions::parse(TABLE).unwrap();
        let bound = |name: &str| table.of(&test(name)).map(|row| row.bound);
        let loose = Bound::Tolerance {
            rtol: 1e-2,
            atol: 1e-3,
        };
        assert_eq!(bound("sim::grad::linalg.qr::float32"), Some(loose));
        assert_eq!(bound("v6e::op::linalg.svd::float64"), Some(Bound::NotCompared));
        for other in [
            "sim::op::linalg.qr::float64",
            "sim::error::linalg.qr::float32",
            "sim::op::svd::float32",
        ] {
            assert_eq!(bound(other), None, "{other}");
        }
    }

    #[test]
    fn a_row_that_matches_nothing_is_idle() {
        let table = Exceptions::parse(TABLE).unwrap();
        let tests = [test("sim::op::linalg.qr::float32")];
        assert_eq!(table.idle(&tests), ["v6e::op::linalg.svd::*"]);
    }

    #[test]
    fn a_row_without_a_reason_is_refused() {
        let text = TABLE.replace("\"because\"", "\" \"");
        let what = Exceptions::parse(&text).unwrap_err();
        assert!(what.contains("gives no reason"), "{what}");
        assert!(Exceptions::parse("[[exception]]\nop = \"x\"").is_err());
    }
}
