//! What a compiler refuses, measured.

use super::Target;

/// Op, variant, who refuses it, why.
pub(super) const REFUSED: &[(&str, &str, &[Target], &str)] = &[];

/// The refusals of one sample.
pub(super) fn find(op: &str, variant: &str) -> Vec<(Target, &'static str)> {
    REFUSED
        .iter()
        .filter(|(o, v, _, _)| *o == op && *v == variant)
        .flat_map(|(_, _, targets, why)| targets.iter().map(move |t| (*t, *why)))
        .collect()
}
