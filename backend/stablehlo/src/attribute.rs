//! Attributes: the public value type, and the writer of an op's own properties.

use std::fmt::{self, Display, Write as _};

use crate::literal::decimal;

/// An attribute of a module, a function, an argument, an op, or a `backend_config` entry.
#[derive(Clone, PartialEq, Debug)]
pub enum Attribute {
    /// Present or absent, no value.
    Unit,
    /// `true` or `false`.
    Bool(bool),
    /// `3 : i32`.
    I32(i32),
    /// `3 : i64`.
    I64(i64),
    /// `0.5 : f32`.
    F32(f32),
    /// `0.5 : f64`.
    F64(f64),
    /// A quoted string.
    String(String),
    /// `@name`.
    Symbol(String),
    /// `array<i64: 1, 2>`.
    I64s(Vec<i64>),
    /// `[a, b]`.
    Array(Vec<Attribute>),
    /// `{a = 1 : i32}`, printed in the order given.
    Dictionary(Vec<(String, Attribute)>),
    /// MLIR text as it stands, for dialects the builder does not know.
    Raw(String),
}

impl Attribute {
    /// A string attribute.
    pub fn string(text: impl Into<String>) -> Self {
        Self::String(text.into())
    }

    /// MLIR text as it stands.
    pub fn raw(text: impl Into<String>) -> Self {
        Self::Raw(text.into())
    }
}

impl Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unit => f.write_str("unit"),
            Self::Bool(b) => write!(f, "{b}"),
            Self::I32(n) => write!(f, "{n} : i32"),
            Self::I64(n) => write!(f, "{n} : i64"),
            Self::F32(x) if x.is_finite() => write!(f, "{} : f32", decimal(f64::from(*x))),
            Self::F32(x) => write!(f, "0x{:08X} : f32", x.to_bits()),
            Self::F64(x) if x.is_finite() => write!(f, "{} : f64", decimal(*x)),
            Self::F64(x) => write!(f, "0x{:016X} : f64", x.to_bits()),
            Self::String(s) => Quoted(s).fmt(f),
            Self::Symbol(s) => SymbolName(s).fmt(f),
            Self::I64s(v) => I64s(v).fmt(f),
            Self::Array(items) => {
                f.write_str("[")?;
                for (i, a) in items.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    a.fmt(f)?;
                }
                f.write_str("]")
            }
            Self::Dictionary(entries) => {
                f.write_str("{")?;
                write_entries(f, entries.iter().map(|(k, v)| (k.as_str(), v)))?;
                f.write_str("}")
            }
            Self::Raw(text) => f.write_str(text),
        }
    }
}

/// `a = 1 : i32, b`.
pub(crate) fn write_entries<'x>(
    out: &mut impl fmt::Write,
    entries: impl Iterator<Item = (&'x str, &'x Attribute)>,
) -> fmt::Result {
    for (i, (key, value)) in entries.enumerate() {
        if i > 0 {
            out.write_str(", ")?;
        }
        write_key(out, key)?;
        if *value != Attribute::Unit {
            write!(out, " = {value}")?;
        }
    }
    Ok(())
}

fn write_key(out: &mut impl fmt::Write, key: &str) -> fmt::Result {
    if is_identifier(key) {
        out.write_str(key)
    } else {
        write!(out, "{}", Quoted(key))
    }
}

fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'$'))
}

/// A string in MLIR's quotes: what is not printable ASCII becomes `\XX`.
pub(crate) struct Quoted<'s>(pub(crate) &'s str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for &b in self.0.as_bytes() {
            match b {
                b'"' | b'\\' => {
                    f.write_char('\\')?;
                    f.write_char(b as char)?;
                }
                0x20..=0x7e => f.write_char(b as char)?,
                _ => write!(f, "\\{b:02X}")?,
            }
        }
        f.write_char('"')
    }
}

/// `@name`, quoted where it must be.
pub(crate) struct SymbolName<'s>(pub(crate) &'s str);

impl Display for SymbolName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('@')?;
        if is_identifier(self.0) {
            f.write_str(self.0)
        } else {
            Quoted(self.0).fmt(f)
        }
    }
}

/// `array<i64: 1, 2>`.
pub(crate) struct I64s<'s>(pub(crate) &'s [i64]);

impl Display for I64s<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("array<i64")?;
        for (i, n) in self.0.iter().enumerate() {
            f.write_str(if i == 0 { ": " } else { ", " })?;
            write!(f, "{n}")?;
        }
        f.write_str(">")
    }
}

/// `[1, 2]`.
pub(crate) struct List<'s>(pub(crate) &'s [i64]);

impl Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, n) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{n}")?;
        }
        f.write_str("]")
    }
}

/// `dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>`, for paddings, replica groups and pairs.
pub(crate) struct Matrix<'s, R>(pub(crate) &'s [R], pub(crate) usize);

impl<R: AsRef<[i64]>> Display for Matrix<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dense<")?;
        if !self.0.is_empty() && self.1 > 0 {
            f.write_str("[")?;
            for (i, row) in self.0.iter().enumerate() {
                if i > 0 {
                    f.write_str(", ")?;
                }
                f.write_str("[")?;
                for j in 0..self.1 {
                    if j > 0 {
                        f.write_str(", ")?;
                    }
                    // Short rows are filled with -1, as StableHLO does for uneven replica groups.
                    write!(f, "{}", row.as_ref().get(j).copied().unwrap_or(-1))?;
                }
                f.write_str("]")?;
            }
            f.write_str("]")?;
        }
        write!(f, "> : tensor<{}x{}xi64>", self.0.len(), self.1)
    }
}

/// An op's properties, written as text in a fixed order.
#[derive(Default)]
pub(crate) struct Props(String);

impl Props {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Any printable value.
    pub(crate) fn raw(mut self, key: &str, value: impl Display) -> Self {
        self.separate();
        // Writing to a String does not fail.
        let _ = write!(self.0, "{key} = {value}");
        self
    }

    fn separate(&mut self) {
        if !self.0.is_empty() {
            self.0.push_str(", ");
        }
    }

    pub(crate) fn unit(mut self, key: &str, set: bool) -> Self {
        if set {
            self.separate();
            self.0.push_str(key);
        }
        self
    }

    pub(crate) fn i64(self, key: &str, value: i64) -> Self {
        self.raw(key, format_args!("{value} : i64"))
    }

    pub(crate) fn i32(self, key: &str, value: i32) -> Self {
        self.raw(key, format_args!("{value} : i32"))
    }

    pub(crate) fn i64s(self, key: &str, values: &[i64]) -> Self {
        self.raw(key, I64s(values))
    }

    pub(crate) fn bools(self, key: &str, values: &[bool]) -> Self {
        let mut text = String::from("array<i1");
        for (i, b) in values.iter().enumerate() {
            text.push_str(if i == 0 { ": " } else { ", " });
            text.push_str(if *b { "true" } else { "false" });
        }
        text.push('>');
        self.raw(key, text)
    }

    pub(crate) fn string(self, key: &str, value: &str) -> Self {
        self.raw(key, Quoted(value))
    }

    /// `key = #stablehlo<kind VALUE>`.
    pub(crate) fn enumeration(self, key: &str, kind: &str, value: &str) -> Self {
        self.raw(key, format_args!("#stablehlo<{kind} {value}>"))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}
