//! Faults on demand: the grammar of `TORCH_TPU_SIM_FAULT` and what happens at a faulty call.
//!
//! ```text
//! spec   = rule { ';' rule }
//! rule   = CALL [ '@' which ] '=' action
//! CALL   = a PJRT function, with or without `PJRT_`, or its last part if only one function ends so
//! which  = '*' (every call; the default) | N (the Nth call, from 1) | N '+' (the Nth call and all later ones)
//! action = CODE [ ':' TEXT ]          the call returns this error and does nothing
//!        | 'delay:' NUMBER UNIT       the call is held back first; UNIT is us, ms or s
//!        | 'async:' CODE              the call succeeds, and what it promised fails: buffers and events
//! CODE   = a canonical status code: RESOURCE_EXHAUSTED, INTERNAL, UNAVAILABLE, ...
//! ```
//!
//! `LoadedExecutable_Execute@3=RESOURCE_EXHAUSTED;Client_Compile=delay:50ms` fails the third execution and slows
//! every compile. Several rules may name one call; delays add up, and the first error that applies wins.
//! Calls no rule names run without any extra work.

use std::fmt;
use std::time::Duration;

use pjrt_ffi::{SLOT_NAMES, slot};

use crate::error::{Code, ShimError};

/// Which of a call's occurrences, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All of them.
    Every,
    /// Only this one.
    Nth(u64),
    /// This one and all later ones.
    From(u64),
}

impl Which {
    fn applies(self, occurrence: u64) -> bool {
        match self {
            Self::Every => true,
            Self::Nth(n) => occurrence == n,
            Self::From(n) => occurrence >= n,
        }
    }
}

/// What happens at a faulty call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The call returns an error.
    Fail(Code, String),
    /// The call is held back.
    Delay(Duration),
    /// The call's results turn into errors.
    Async(Code),
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Index of the table entry.
    pub slot: usize,
    /// Which occurrences.
    pub which: Which,
    /// What happens.
    pub action: Action,
}

/// Everything that was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// In the order written.
    pub rules: Vec<Rule>,
}

/// A rule that does not follow the grammar.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rule {rule} ({text:?}): {why}")]
pub struct FaultSyntaxError {
    rule: usize,
    text: String,
    why: String,
}

/// Calls whose results can fail later.
const ASYNC_CALLS: [usize; 5] = [
    slot::PJRT_LoadedExecutable_Execute,
    slot::PJRT_Client_BufferFromHostBuffer,
    slot::PJRT_Buffer_CopyToDevice,
    slot::PJRT_Buffer_CopyToMemory,
    slot::PJRT_Buffer_ToHostBuffer,
];
/// Calls that return nothing.
const VOID_CALLS: [usize; 2] = [slot::PJRT_Error_Destroy, slot::PJRT_Error_Message];

impl FaultPlan {
    /// Parses a whole specification; the empty one has no rules.
    pub fn parse(text: &str) -> Result<Self, FaultSyntaxError> {
        let mut rules = Vec::new();
        for (at, rule) in text.split(';').enumerate() {
            if rule.trim().is_empty() {
                continue;
            }
            rules.push(parse_rule(rule.trim()).map_err(|why| FaultSyntaxError {
                rule: at + 1,
                text: rule.trim().to_owned(),
                why,
            })?);
        }
        Ok(Self { rules })
    }

    /// Indices of the table entries that some rule names, each once.
    pub fn slots(&self) -> Vec<usize> {
        let mut slots: Vec<usize> = self.rules.iter().map(|rule| rule.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// The whole delay and the first error of the `occurrence`th call of `slot`.
    pub(crate) fn decide(&self, slot: usize, occurrence: u64) -> (Duration, Option<&Action>) {
        let mut delay = Duration::ZERO;
        let mut error = None;
        for rule in &self.rules {
            if rule.slot != slot || !rule.which.applies(occurrence) {
                continue;
            }
            match &rule.action {
                Action::Delay(more) => delay += *more,
                action => error = error.or(Some(action)),
            }
        }
        (delay, error)
    }
}

/// The error of an injected fault.
pub(crate) fn injected(slot: usize, occurrence: u64, code: Code, text: &str) -> ShimError {
    let name = SLOT_NAMES.get(slot).copied().unwrap_or("?");
    let text = if text.is_empty() {
        String::new()
    } else {
        format!(": {text}")
    };
    ShimError::new(
        code,
        format!("{name}: injected fault at call {occurrence} (TORCH_TPU_SIM_FAULT){text}"),
    )
}

fn parse_rule(text: &str) -> Result<Rule, String> {
    let (left, action) = text
        .split_once('=')
        .ok_or("there is no '=' between call and action, as in Client_Compile@1=INTERNAL")?;
    let (call, which) = match left.split_once('@') {
        Some((call, which)) => (call.trim(), parse_which(which.trim())?),
        None => (left.trim(), Which::Every),
    };
    let slot = find_call(call)?;
    let action = parse_action(action.trim())?;
    match action {
        Action::Async(_) if !ASYNC_CALLS.contains(&slot) => Err(format!(
            "{} promises nothing that could fail later; async is for {}",
            SLOT_NAMES[slot],
            ASYNC_CALLS.map(|slot| SLOT_NAMES[slot]).join(", ")
        )),
        Action::Fail(..) if VOID_CALLS.contains(&slot) => Err(format!(
            "{} returns nothing, so it cannot fail; only delay applies",
            SLOT_NAMES[slot]
        )),
        action => Ok(Rule { slot, which, action }),
    }
}

fn parse_which(text: &str) -> Result<Which, String> {
    if text == "*" {
        return Ok(Which::Every);
    }
    let (digits, from) = match text.strip_suffix('+') {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    match digits.parse::<u64>() {
        Ok(n) if n > 0 && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(if from { Which::From(n) } else { Which::Nth(n) })
        }
        _ => Err(format!(
            "occurrence {text:?} is none of '*', N and N+ with N from 1"
        )),
    }
}

fn find_call(name: &str) -> Result<usize, String> {
    if name.is_empty() {
        return Err("the call's name is missing".into());
    }
    let whole = format!("PJRT_{}", name.strip_prefix("PJRT_").unwrap_or(name));
    if let Some(slot) = SLOT_NAMES.iter().position(|known| *known == whole) {
        return Ok(slot);
    }
    let tail = format!("_{name}");
    let ends: Vec<usize> = (0..SLOT_NAMES.len())
        .filter(|&slot| SLOT_NAMES[slot].ends_with(&tail))
        .collect();
    match ends[..] {
        [slot] => Ok(slot),
        [] => Err(format!("{name:?} is not a PJRT function")),
        _ => Err(format!(
            "{name:?} could be any of {}",
            ends.iter()
                .map(|&slot| SLOT_NAMES[slot])
                .collect::<Vec<_>>()
                .join(", ")
        )),
    }
}

fn parse_action(text: &str) -> Result<Action, String> {
    if let Some(duration) = text.strip_prefix("delay:") {
        return parse_duration(duration).map(Action::Delay);
    }
    if let Some(code) = text.strip_prefix("async:") {
        return parse_code(code).map(Action::Async);
    }
    let (code, text) = text.split_once(':').unwrap_or((text, ""));
    Ok(Action::Fail(parse_code(code)?, text.to_owned()))
}

fn parse_code(name: &str) -> Result<Code, String> {
    Code::from_name(name).ok_or_else(|| {
        format!(
            "{name:?} is neither a status code ({}), nor delay:, nor async:",
            Code::ALL.map(Code::name).join(", ")
        )
    })
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let seconds = match &text[split..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => {
            return Err(format!(
                "duration {text:?} needs a number and a unit us, ms or s, as in 50ms"
            ));
        }
    };
    text[..split]
        .parse::<f64>()
        .ok()
        .and_then(|number| Duration::try_from_secs_f64(number * seconds).ok())
        .ok_or_else(|| format!("duration {text:?} has no number"))
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every => f.write_str("*"),
            Self::Nth(n) => write!(f, "{n}"),
            Self::From(n) => write!(f, "{n}+"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Rule {
        let plan = FaultPlan::parse(text).unwrap();
        assert_eq!(plan.rules.len(), 1);
        plan.rules[0].clone()
    }

    #[test]
    fn the_documented_example_parses() {
        let plan =
            FaultPlan::parse("LoadedExecutable_Execute@3=RESOURCE_EXHAUSTED;Client_Compile@*=delay:50ms")
                .unwrap();
        assert_eq!(
            plan.rules,
            [
                Rule {
                    slot: slot::PJRT_LoadedExecutable_Execute,
                    which: Which::Nth(3),
                    action: Action::Fail(Code::ResourceExhausted, String::new()),
                },
                Rule {
                    slot: slot::PJRT_Client_Compile,
                    which: Which::Every,
                    action: Action::Delay(Duration::from_millis(50)),
                },
            ]
        );
    }

    #[test]
    fn names_with_and_without_prefix_and_short() {
        for name in [
            "PJRT_LoadedExecutable_Execute",
            "LoadedExecutable_Execute",
            "Execute",
        ] {
            assert_eq!(
                one(&format!("{name}=INTERNAL")).slot,
                slot::PJRT_LoadedExecutable_Execute
            );
        }
        assert_eq!(one("Execute@2+=async:ABORTED").which, Which::From(2));
        assert_eq!(
            one("Execute=INTERNAL:why: not").action,
            Action::Fail(Code::Internal, "why: not".into())
        );
        assert!(FaultPlan::parse("").unwrap().rules.is_empty());
        assert_eq!(FaultPlan::parse(" ; Execute=INTERNAL ;").unwrap().rules.len(), 1);
    }

    #[test]
    fn every_table_entry_can_be_named() {
        for (slot, name) in SLOT_NAMES.iter().enumerate() {
            assert_eq!(one(&format!("{name}=delay:1us")).slot, slot);
        }
    }

    #[test]
    fn bad_rules_say_what_and_where() {
        for (text, part) in [
            ("Execute", "rule 1 (\"Execute\"): there is no '='"),
            (
                "Execute=INTERNAL;Nope=INTERNAL",
                "rule 2 (\"Nope=INTERNAL\"): \"Nope\" is not a PJRT function",
            ),
            ("Destroy=INTERNAL", "could be any of PJRT_Error_Destroy"),
            ("Execute@0=INTERNAL", "occurrence \"0\""),
            ("Execute@+3=INTERNAL", "occurrence \"+3\""),
            ("Execute@x=INTERNAL", "occurrence \"x\""),
            ("Execute=OOM", "\"OOM\" is neither"),
            ("Execute=delay:5", "needs a number and a unit"),
            ("Execute=delay:ms", "has no number"),
            ("Execute=delay:1.2.3ms", "has no number"),
            ("Client_Compile=async:INTERNAL", "promises nothing"),
            ("Error_Destroy=INTERNAL", "returns nothing"),
            ("=INTERNAL", "name is missing"),
        ] {
            let error = FaultPlan::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn delays_add_up_and_the_first_error_wins() {
        let plan =
            FaultPlan::parse("Execute=delay:1ms;Execute@2+=delay:2ms;Execute@2=ABORTED;Execute@2+=INTERNAL")
                .unwrap();
        let slot = slot::PJRT_LoadedExecutable_Execute;
        assert_eq!(plan.decide(slot, 1), (Duration::from_millis(1), None));
        let fail = |code| Some(Action::Fail(code, String::new()));
        let (delay, action) = plan.decide(slot, 2);
        assert_eq!(
            (delay, action.cloned()),
            (Duration::from_millis(3), fail(Code::Aborted))
        );
        assert_eq!(plan.decide(slot, 3).1.cloned(), fail(Code::Internal));
    }
}
