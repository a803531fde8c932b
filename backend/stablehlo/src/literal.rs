//! Constants: from host values to `dense<...>` text, exact for every element type.

use std::fmt::Write as _;

use dtype::{Class, ElementType};

use crate::minifloat;

/// A Rust type with the host layout of an element type.
pub trait Element: Copy {
    /// The element type.
    const TYPE: ElementType;
    /// Appends the little-endian bytes of one element.
    fn write(self, out: &mut Vec<u8>);
}

macro_rules! elements {
    ($($rust:ty => $ty:ident),* $(,)?) => {$(
        impl Element for $rust {
            const TYPE: ElementType = ElementType::$ty;
            fn write(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

elements! {
    i8 => S8, i16 => S16, i32 => S32, i64 => S64,
    u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    f32 => F32, f64 => F64, half::f16 => F16, half::bf16 => BF16,
}

impl Element for bool {
    const TYPE: ElementType = ElementType::Pred;
    fn write(self, out: &mut Vec<u8>) {
        out.push(u8::from(self));
    }
}

/// A complex number: real part, imaginary part.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Complex<T>(pub T, pub T);

impl Element for Complex<f32> {
    const TYPE: ElementType = ElementType::C64;
    fn write(self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }
}

impl Element for Complex<f64> {
    const TYPE: ElementType = ElementType::C128;
    fn write(self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }
}

/// A number to be written in whatever element type is asked for.
#[derive(Copy, Clone, PartialEq, Debug)]
pub enum Number {
    /// `true` or `false`; 1 or 0.
    Bool(bool),
    /// Any integer.
    Int(i128),
    /// Any real.
    Float(f64),
    /// Real and imaginary part.
    Complex(f64, f64),
}

macro_rules! numbers {
    ($($rust:ty => $kind:ident($wide:ty)),*) => {$(
        impl From<$rust> for Number {
            fn from(n: $rust) -> Self {
                Self::$kind(<$wide>::from(n))
            }
        }
    )*};
}
numbers!(bool => Bool(bool), i32 => Int(i128), i64 => Int(i128), u64 => Int(i128), f32 => Float(f64), f64 => Float(f64));

impl Number {
    /// The bytes of one element, or why the number is not one.
    pub(crate) fn to_bytes(self, element: ElementType) -> Result<Vec<u8>, String> {
        let mut out = Vec::with_capacity(16);
        match element.class() {
            Class::Boolean => out.push(match self {
                Self::Bool(b) => u8::from(b),
                Self::Int(n @ 0..=1) => n as u8,
                _ => return Err(format!("{self:?} is not a boolean")),
            }),
            Class::Signed | Class::Unsigned => {
                let n = match self {
                    Self::Bool(b) => i128::from(b),
                    Self::Int(n) => n,
                    Self::Float(x) if x.fract() == 0.0 && x.abs() < 1e30 => x as i128,
                    _ => return Err(format!("{self:?} is not an integer")),
                };
                let (low, high) = integer_range(element);
                if n < low || n > high {
                    return Err(format!("{n} does not fit in {element} ({low} to {high})"));
                }
                out.extend_from_slice(&n.to_le_bytes()[..element.host_bytes()]);
            }
            Class::Float => {
                minifloat::write(element, self.real()?, &mut out);
            }
            Class::Complex => {
                let (re, im) = match self {
                    Self::Complex(re, im) => (re, im),
                    other => (other.real()?, 0.0),
                };
                minifloat::write(element.real(), re, &mut out);
                minifloat::write(element.real(), im, &mut out);
            }
        }
        Ok(out)
    }

    fn real(self) -> Result<f64, String> {
        match self {
            Self::Bool(b) => Ok(f64::from(u8::from(b))),
            Self::Int(n) => Ok(n as f64),
            Self::Float(x) => Ok(x),
            Self::Complex(..) => Err(format!("{self:?} is not a real number")),
        }
    }
}

/// The least and the greatest value of an integer type.
fn integer_range(element: ElementType) -> (i128, i128) {
    let bits = element.bits();
    if element.class() == Class::Signed {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    }
}

/// Checks that sub-byte and boolean elements hold values of their type.
pub(crate) fn check_bytes(element: ElementType, bytes: &[u8]) -> Result<(), String> {
    let bits = element.bits();
    if bits >= 8 {
        return Ok(());
    }
    let bad = bytes.iter().find(|&&b| match element.class() {
        Class::Signed => {
            let (low, high) = integer_range(element);
            !(low..=high).contains(&i128::from(b as i8))
        }
        _ => u32::from(b) >= 1 << bits,
    });
    match bad {
        Some(b) => Err(format!("byte 0x{b:02X} is not a value of {element}")),
        None => Ok(()),
    }
}

/// Past this many elements a constant is a hexadecimal blob.
const LIST_LIMIT: usize = 32;

/// `dense<...>` without its type. `bytes` holds whole elements, as many as `sizes` says.
pub(crate) fn dense(element: ElementType, sizes: &[i64], bytes: &[u8]) -> String {
    let width = element.host_bytes();
    let count = bytes.len() / width;
    let mut out = String::from("dense<");
    if count == 0 {
        // An empty list for any shape with no elements.
    } else if bytes.chunks_exact(width).all(|c| c == &bytes[..width]) {
        write_element(&mut out, element, &bytes[..width]);
    } else if count <= LIST_LIMIT || element == ElementType::Pred {
        // MLIR versions disagree about packing booleans in a blob, so they are always a list.
        write_list(&mut out, element, sizes, bytes);
    } else {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        out.reserve(bytes.len() * 2 + 5);
        out.push_str("\"0x");
        for b in bytes {
            out.push(DIGITS[usize::from(b >> 4)] as char);
            out.push(DIGITS[usize::from(b & 15)] as char);
        }
        out.push('"');
    }
    out.push('>');
    out
}

/// One real number as an attribute: `1.5 : f32`, `true`.
pub(crate) fn number(element: ElementType, bytes: &[u8]) -> String {
    let mut out = String::new();
    write_element(&mut out, element, bytes);
    if element != ElementType::Pred {
        // Writing to a String does not fail.
        let _ = write!(out, " : {}", element.mlir());
    }
    out
}

fn write_list(out: &mut String, element: ElementType, sizes: &[i64], bytes: &[u8]) {
    let Some((&n, rest)) = sizes.split_first() else {
        write_element(out, element, bytes);
        return;
    };
    out.push('[');
    let step = bytes.len() / usize::try_from(n).unwrap_or(1).max(1);
    for (i, part) in bytes.chunks_exact(step.max(1)).enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write_list(out, element, rest, part);
    }
    out.push(']');
}

fn write_element(out: &mut String, element: ElementType, bytes: &[u8]) {
    // Writing to a String does not fail.
    let _ = match element.class() {
        Class::Boolean => write!(out, "{}", bytes[0] != 0),
        Class::Signed => write!(
            out,
            "{}",
            little_endian(bytes, bytes[bytes.len() - 1] & 0x80 != 0)
        ),
        Class::Unsigned => write!(out, "{}", little_endian(bytes, false)),
        Class::Float => {
            write_float(out, element, bytes);
            Ok(())
        }
        Class::Complex => {
            let (re, im) = bytes.split_at(bytes.len() / 2);
            out.push('(');
            write_float(out, element.real(), re);
            out.push_str(", ");
            write_float(out, element.real(), im);
            out.push(')');
            Ok(())
        }
    };
}

fn little_endian(bytes: &[u8], negative: bool) -> i128 {
    let mut wide = if negative { [0xFF; 16] } else { [0; 16] };
    wide[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(wide)
}

/// Short decimals where they are exact, the bits otherwise.
fn write_float(out: &mut String, element: ElementType, bytes: &[u8]) {
    let value = match (element, bytes) {
        (ElementType::F32, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
        (ElementType::F64, &[a, b, c, d, e, f, g, h]) => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
        (ElementType::F16, &[a, b]) => half::f16::from_le_bytes([a, b]).to_f64(),
        (ElementType::BF16, &[a, b]) => half::bf16::from_le_bytes([a, b]).to_f64(),
        _ => f64::NAN,
    };
    if value.is_finite() {
        let text = decimal(value);
        if text.len() <= 10 {
            out.push_str(&text);
            return;
        }
    }
    out.push_str("0x");
    for b in bytes.iter().rev() {
        let _ = write!(out, "{b:02X}");
    }
}

/// A finite number in MLIR's grammar: digits, a point, digits, maybe an exponent; reads back exactly as an `f64`.
pub(crate) fn decimal(x: f64) -> String {
    let text = format!("{x:?}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if !mantissa.contains('.') => format!("{mantissa}.0e{exponent}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<T: Element>(sizes: &[i64], values: &[T]) -> String {
        let mut bytes = Vec::new();
        values.iter().for_each(|v| v.write(&mut bytes));
        dense(T::TYPE, sizes, &bytes)
    }

    #[test]
    fn lists_splats_and_blobs() {
        assert_eq!(text(&[2, 2], &[1i32, -2, 3, 4]), "dense<[[1, -2], [3, 4]]>");
        assert_eq!(text(&[2], &[u64::MAX, 0]), "dense<[18446744073709551615, 0]>");
        assert_eq!(text(&[3], &[true; 3]), "dense<true>");
        assert_eq!(text::<f32>(&[0, 4], &[]), "dense<>");
        assert_eq!(text(&[], &[1e-5f64]), "dense<1.0e-5>");
        assert_eq!(text(&[], &[0.1f32]), "dense<0x3DCCCCCD>");
        assert_eq!(
            text(&[2], &[f32::NAN, f32::INFINITY]),
            "dense<[0x7FC00000, 0x7F800000]>"
        );
        assert_eq!(text(&[], &[-0.0f32]), "dense<-0.0>");
        assert_eq!(text(&[], &[Complex(1.0f32, -2.0)]), "dense<(1.0, -2.0)>");
        assert_eq!(text(&[], &[half::bf16::from_f32(1.5)]), "dense<1.5>");
        let many: Vec<u8> = (0..40).collect();
        assert!(text(&[40], &many).starts_with("dense<\"0x00010203"));
    }

    #[test]
    fn numbers_fit_or_say_why() {
        assert_eq!(Number::Int(-8).to_bytes(ElementType::S4).unwrap(), [(-8i8) as u8]);
        let e = Number::Int(8).to_bytes(ElementType::S4).unwrap_err();
        assert_eq!(e, "8 does not fit in i4 (-8 to 7)");
        assert!(Number::Float(0.5).to_bytes(ElementType::S32).is_err());
        assert_eq!(
            Number::Float(2.0).to_bytes(ElementType::C64).unwrap(),
            [0, 0, 0, 64, 0, 0, 0, 0]
        );
        assert!(Number::Complex(1.0, 1.0).to_bytes(ElementType::F32).is_err());
    }

    #[test]
    fn sub_byte_values_are_checked() {
        assert!(check_bytes(ElementType::S4, &[0xF8, 7]).is_ok());
        assert!(check_bytes(ElementType::S4, &[8]).is_err());
        assert!(check_bytes(ElementType::U2, &[4]).is_err());
        assert!(check_bytes(ElementType::Pred, &[2]).is_err());
    }
}
