//! The table of what cannot be right: `exceptions.toml`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use glob::Pattern;
use serde::Deserialize;

use crate::name::{COMPILED, TestName};
use crate::{Error, Result};

/// The whole table.
#[derive(Clone, Debug, Default)]
pub struct Exceptions {
    rows: Vec<Row>,
}

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    /// As written.
    test: String,
    /// Target, kind, op and dtype.
    parts: [Pattern; 4],
    /// Why it cannot be right.
    pub reason: String,
    /// What holds in place of it.
    pub bound: Bound,
}

/// What stands in for torch's tolerances.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    fn looser(self, other: Self) -> Self {
        match (self, other) {
            (
                Self::Tolerance { rtol, atol },
                Self::Tolerance {
                    rtol: other_rtol,
                    atol: other_atol,
                },
            ) => Self::Tolerance {
                rtol: rtol.max(other_rtol),
                atol: atol.max(other_atol),
            },
            _ => Self::NotCompared,
        }
    }

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
    #[serde(default)]
    exceptions: Vec<WrittenGroup>,
}

/// Rows for the same reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenGroup {
    reason: String,
    tests: Vec<WrittenRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRow {
    test: String,
    rtol: Option<f64>,
    atol: Option<f64>,
    #[serde(default = "yes")]
    compared: bool,
}

fn yes() -> bool {
    true
}

impl WrittenRow {
    fn bound(&self) -> Result<Bound, &'static str> {
        match (self.compared, self.rtol, self.atol) {
            (true, Some(rtol), Some(atol)) => Ok(Bound::Tolerance { rtol, atol }),
            (false, None, None) => Ok(Bound::NotCompared),
            _ => Err("needs `rtol` and `atol`, or else `compared = false`"),
        }
    }

    fn parts(&self) -> Result<[Pattern; 4], String> {
        let parts: Result<Vec<Pattern>, _> = self.test.split("::").map(Pattern::new).collect();
        let parts = parts.map_err(|e| e.to_string())?;
        parts
            .try_into()
            .map_err(|_| "is no pattern of TARGET::KIND::NAME::DTYPE".to_owned())
    }
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
        let mut rows = Vec::new();
        for group in written.exceptions {
            for row in group.tests {
                let wrong = |what: &str| format!("the row of {:?} {what}", row.test);
                if group.reason.trim().is_empty() {
                    return Err(wrong("gives no reason"));
                }
                rows.push(Row {
                    parts: row.parts().map_err(|what| wrong(&what))?,
                    bound: row.bound().map_err(wrong)?,
                    reason: group.reason.clone(),
                    test: row.test,
                });
            }
        }
        Ok(Self { rows })
    }

    /// The row of a test, if one is.
    pub fn of(&self, test: &TestName) -> Option<&Row> {
        self.rows.iter().find(|row| row.matches(test))
    }

    /// What holds for a compiled op that has no row of its own: it runs the lowerings that its plain test and its
    /// gradients run, so their bounds, the looser of both, are its own.
    pub fn inherited(&self, test: &TestName) -> Option<Row> {
        if test.kind != COMPILED {
            return None;
        }
        let rows = ["op", "grad"].map(|kind| self.of(&test.of_kind(kind)));
        let mut rows = rows.into_iter().flatten();
        let first = rows.next()?.clone();
        Some(rows.fold(first, |row, other| Row {
            bound: row.bound.looser(other.bound),
            ..row
        }))
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
            .map(|(row, _)| row.test.clone())
            .collect()
    }
}

impl Row {
    fn matches(&self, test: &TestName) -> bool {
        let names = [test.target.name(), &test.kind, &test.op, &test.dtype];
        self.parts
            .iter()
            .zip(names)
            .all(|(part, name)| part.matches(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"
        [[exceptions]]
        reason = "because"
        tests = [
            { test = "sim::op::linalg.*::float32", rtol = 1e-2, atol = 1e-3 },
            { test = "sim::grad::linalg.*::float32", rtol = 1e-2, atol = 1e-3 },
            { test = "v6e::op::linalg.svd::*", compared = false },
        ]
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
    fn a_compiled_op_has_the_looser_bound_of_its_plain_test_and_its_gradients() {
        let gradient = "sim::grad::linalg.*::float32\", ";
        let table = TABLE.replace(
            &format!("{gradient}rtol = 1e-2, atol = 1e-3"),
            &format!("{gradient}rtol = 1e-3, atol = 1e-1"),
        );
        let table = Exceptions::parse(&table).unwrap();
        let inherited = |name: &str| table.inherited(&test(name)).map(|row| row.bound);
        let looser = Bound::Tolerance {
            rtol: 1e-2,
            atol: 1e-1,
        };
        assert_eq!(inherited("sim::compiled::linalg.qr::float32"), Some(looser));
        assert_eq!(inherited("sim::compiled::svd::float32"), None);
        assert_eq!(inherited("sim::gradgrad::linalg.qr::float32"), None);
    }

    #[test]
    fn a_row_that_matches_nothing_is_idle() {
        let table = Exceptions::parse(TABLE).unwrap();
        let tests = [
            test("sim::op::linalg.qr::float32"),
            test("sim::grad::linalg.qr::float32"),
        ];
        assert_eq!(table.idle(&tests), ["v6e::op::linalg.svd::*"]);
    }

    #[test]
    fn a_row_without_a_reason_or_a_bound_is_refused() {
        let text = TABLE.replace("\"because\"", "\" \"");
        let what = Exceptions::parse(&text).unwrap_err();
        assert!(what.contains("gives no reason"), "{what}");
        let text = TABLE.replace(", compared = false", "");
        let what = Exceptions::parse(&text).unwrap_err();
        assert!(what.contains("needs `rtol` and `atol`"), "{what}");
        let what = Exceptions::parse(&TABLE.replace("v6e::op::", "v6e::")).unwrap_err();
        assert!(what.contains("TARGET::KIND::NAME::DTYPE"), "{what}");
    }
}
