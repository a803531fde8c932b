//! What MLIR text says of itself before it is compiled: the module's attributes, the dialects it uses.
//!
//! Only as much of MLIR is read as this takes: tokens, nesting, attribute dictionaries. What is malformed ends the
//! reading early; the compiler says what is wrong with it, and where.

use std::iter::Peekable;

/// A token, with where it begins and ends in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Token<'t> {
    kind: Kind<'t>,
    start: usize,
    end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind<'t> {
    /// A keyword, name, number, or anything with a sigil.
    Word(&'t str),
    /// What stands between quotes, escapes as written.
    Text(&'t str),
    Arrow,
    Mark(char),
}

/// The tokens of a text; comments and blanks are none.
#[derive(Clone, Debug)]
struct Tokens<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Tokens<'t> {
    fn of(text: &'t str) -> Peekable<Self> {
        Self { text, at: 0 }.peekable()
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with("//") {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }
}

impl<'t> Iterator for Tokens<'t> {
    type Item = Token<'t>;

    fn next(&mut self) -> Option<Token<'t>> {
        self.skip_blanks();
        let (start, rest) = (self.at, &self.text[self.at..]);
        let first = rest.chars().next()?;
        let negative = first == '-' && rest[1..].starts_with(|c: char| c.is_ascii_digit());
        let (kind, length) = if first == '"' {
            let length = quoted(rest)?;
            (Kind::Text(&rest[1..length - 1]), length)
        } else if rest.starts_with("->") {
            (Kind::Arrow, 2)
        } else if in_word(first) || negative {
            let length = rest[1..].find(|c| !in_word(c)).map_or(rest.len(), |end| end + 1);
            (Kind::Word(&rest[..length]), length)
        } else {
            (Kind::Mark(first), first.len_utf8())
        };
        self.at += length;
        Some(Token {
            kind,
            start,
            end: self.at,
        })
    }
}

fn in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_.$@#!%^".contains(c)
}

/// Length of the quoted text that `rest` starts with, quotes included; `None` when it does not end.
fn quoted(rest: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// How a token changes the nesting.
fn step(kind: Kind<'_>) -> i32 {
    match kind {
        Kind::Mark('(' | '[' | '{' | '<') => 1,
        Kind::Mark(')' | ']' | '}' | '>') => -1,
        _ => 0,
    }
}

/// An attribute of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleAttribute<'t> {
    /// Its name, dialect included: `mhlo.num_replicas`.
    pub name: &'t str,
    /// Its value as written, type included: `4 : i32`; empty for a unit attribute.
    pub value: &'t str,
}

impl ModuleAttribute<'_> {
    /// The value of an integer attribute.
    pub fn integer(&self) -> Option<i64> {
        let mut tokens = Tokens::of(self.value);
        let Kind::Word(number) = tokens.next()?.kind else {
            return None;
        };
        let number = match number.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16).ok()?,
            None => number.parse().ok()?,
        };
        let rest: Vec<_> = tokens.map(|token| token.kind).collect();
        match rest[..] {
            [] | [Kind::Mark(':'), Kind::Word(_)] => Some(number),
            _ => None,
        }
    }
}

/// The attributes of the module that `text` holds, in order: of `module attributes {...}`, or of the generic form
/// `"builtin.module"() ({...}) {...}`. None where the module goes without saying.
pub fn module_attributes(text: &str) -> Vec<ModuleAttribute<'_>> {
    let mut tokens = Tokens::of(text);
    let mut depth = 0;
    while let Some(token) = tokens.next() {
        depth += step(token.kind);
        match token.kind {
            _ if depth != 0 => {}
            Kind::Word("module" | "builtin.module") => return custom_form(text, &mut tokens),
            Kind::Text("builtin.module") => return generic_form(text, &mut tokens),
            // A function at the top: the module around it is implied.
            Kind::Word("func.func") | Kind::Text("func.func") => break,
            _ => {}
        }
    }
    Vec::new()
}

fn custom_form<'t>(text: &'t str, tokens: &mut Peekable<Tokens<'t>>) -> Vec<ModuleAttribute<'t>> {
    // A name may be quoted: `@"a b"`.
    let named = tokens.next_if(|token| matches!(token.kind, Kind::Word(word) if word.starts_with('@')));
    if named.is_some_and(|token| token.kind == Kind::Word("@")) {
        tokens.next();
    }
    match tokens.next_if(|token| token.kind == Kind::Word("attributes")) {
        Some(_) => dictionary(text, tokens),
        None => Vec::new(),
    }
}

fn generic_form<'t>(text: &'t str, tokens: &mut Peekable<Tokens<'t>>) -> Vec<ModuleAttribute<'t>> {
    // Operands, properties and the region come first, each in brackets of its own.
    while tokens
        .next_if(|token| matches!(token.kind, Kind::Mark('(' | '<')))
        .is_some()
    {
        let mut depth = 1;
        while depth > 0 {
            let Some(token) = tokens.next() else {
                return Vec::new();
            };
            depth += step(token.kind);
        }
    }
    dictionary(text, tokens)
}

/// Reads `{name = value, ...}`.
fn dictionary<'t>(text: &'t str, tokens: &mut Peekable<Tokens<'t>>) -> Vec<ModuleAttribute<'t>> {
    let mut found = Vec::new();
    if tokens.next_if(|token| token.kind == Kind::Mark('{')).is_none() {
        return found;
    }
    while let Some(token) = tokens.next() {
        let (Kind::Word(name) | Kind::Text(name)) = token.kind else {
            break;
        };
        let has_value = tokens.next_if(|token| token.kind == Kind::Mark('=')).is_some();
        let mut value: Option<(usize, usize)> = None;
        let mut depth = 0;
        let last = loop {
            let Some(token) = tokens.next() else { break true };
            match token.kind {
                Kind::Mark(',') if depth == 0 => break false,
                Kind::Mark('}') if depth == 0 => break true,
                kind => depth += step(kind),
            }
            value = Some((value.map_or(token.start, |(start, _)| start), token.end));
        };
        let value = value
            .filter(|_| has_value)
            .map_or("", |(start, end)| &text[start..end]);
        found.push(ModuleAttribute { name, value });
        if last {
            break;
        }
    }
    found
}

/// Whether the program says how it is sharded in Shardy's terms: its operations and attributes, or what they become
/// on their way through StableHLO. Comments and other texts do not count.
pub fn uses_shardy(text: &str) -> bool {
    let shardy = |name: &str| name.starts_with("sdy.") || name.starts_with("xla.sdy.");
    Tokens::of(text).any(|token| match token.kind {
        Kind::Word(word) => shardy(word.trim_start_matches('#')) || word.starts_with("@xla.sdy."),
        Kind::Text(text) => shardy(text),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(&str, &str)> {
        module_attributes(text)
            .iter()
            .map(|one| (one.name, one.value))
            .collect()
    }

    const REPLICAS: (&str, &str) = ("mhlo.num_replicas", "4 : i32");

    #[test]
    fn attributes_are_found_wherever_they_stand() {
        for text in [
            "module attributes {mhlo.num_replicas = 4 : i32} {}",
            "module @m attributes {mhlo.num_replicas = 4 : i32} { sdy.mesh @mesh = <[\"x\"=4]> func.func @main() }",
            "module\n@m // attributes {mhlo.num_replicas = 2}\nattributes\n{\n mhlo.num_replicas = 4 : i32 }{}",
            "builtin.module @\"a {b\" attributes {\"mhlo.num_replicas\" = 4 : i32} {}",
            "#loc = loc(\"module attributes {\":1:2)\n!t = tensor<2xf32>\nmodule attributes {mhlo.num_replicas = 4 : i32} {}",
            "#map = affine_map<(d0) -> (d0)>\nmodule attributes {mhlo.num_replicas = 4 : i32} {}",
            "\"builtin.module\"() <{sym_name = \"m\"}> ({ \"func.func\"() ({}) {x = 1} : () -> () }) {mhlo.num_replicas = 4 : i32} : () -> ()",
        ] {
            assert_eq!(pairs(text), [REPLICAS], "{text}");
        }
    }

    #[test]
    fn values_nest_and_hold_texts_and_comments() {
        let text = "module attributes {jax.uses = [1, {a = \"}, \\\" mhlo.num_partitions = 9\"}], unit, // , x = 1\n\
                    d = dense<[1, 2]> : tensor<2xi64>, #x = #y.z<a = (i32) -> i32, b>, mhlo.num_replicas = 4 : i32} {\n\
                    module attributes {mhlo.num_partitions = 7 : i32} {} }";
        let found = pairs(text);
        let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["jax.uses", "unit", "d", "#x", "mhlo.num_replicas"]);
        assert_eq!(found[1].1, "");
        assert_eq!(found[2].1, "dense<[1, 2]> : tensor<2xi64>");
        assert_eq!(found[3].1, "#y.z<a = (i32) -> i32, b>");
        assert_eq!(found[4], REPLICAS);
    }

    #[test]
    fn what_belongs_to_no_module_does_not_count() {
        for text in [
            "",
            "// module attributes {mhlo.num_replicas = 4 : i32}",
            "module @m { func.func @main() attributes {mhlo.num_replicas = 4 : i32} {} }",
            "func.func @main() attributes {mhlo.num_replicas = 4 : i32} {}",
            "module",
            "module attributes",
            "module attributes {",
            "\"builtin.module\"() ({",
            "\"unended",
            "module @\u{e9} attributes {\u{e9}\u{e9}",
        ] {
            assert_eq!(pairs(text), [], "{text}");
        }
    }

    #[test]
    fn integers_are_read_with_and_without_a_type() {
        let integer = |value| ModuleAttribute { name: "n", value }.integer();
        assert_eq!(integer("4 : i32"), Some(4));
        assert_eq!(integer("0x10"), Some(16));
        assert_eq!(integer("-4:i32"), Some(-4));
        for value in ["", "\"4\"", "4 : i32 : i32", "4 5", "true", "4.5 : f32", "[4]"] {
            assert_eq!(integer(value), None, "{value}");
        }
    }

    #[test]
    fn shardy_is_seen_in_code_alone() {
        for text in [
            "sdy.mesh @m = <[]>",
            "\"sdy.mesh\"()",
            "{a = #sdy.sharding<@m, [{}]>}",
            "{xla.sdy.meshes = \"\"}",
            "custom_call @xla.sdy.X",
        ] {
            assert!(uses_shardy(text), "{text}");
        }
        for text in ["// sdy.mesh", "loc(\"a/sdy.py\")", "@sdy.mesh", ""] {
            assert!(!uses_shardy(text), "{text}");
        }
    }
}
