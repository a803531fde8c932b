//! Whether a number fits a type: `c10::overflows`, which torch asks before it fills with a number.

use aten::ScalarKind;
use dtype::{Class, ElementType};

use crate::{Error, Result};

/// The range of an integer type as `i128`.
fn range(element: ElementType) -> (i128, i128) {
    let bits = element.bits();
    if element.class() == Class::Signed {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    }
}

fn greatest(element: ElementType) -> f64 {
    match element {
        ElementType::F32 | ElementType::C64 => f64::from(f32::MAX),
        ElementType::F16 | ElementType::C32 => 65504.0,
        ElementType::BF16 | ElementType::BC32 => 3.389_531_389_251_535_5e38,
        _ => f64::MAX,
    }
}

fn integer_fits(n: i128, element: ElementType) -> bool {
    let (low, high) = range(element);
    // An unsigned type takes the negative of what it holds, as two's complement.
    let low = if element.class() == Class::Unsigned {
        -high
    } else {
        low
    };
    (low..=high).contains(&n)
}

fn fits(kind: ScalarKind, bits: [u64; 2], element: ElementType) -> bool {
    let float = f64::from_bits(bits[0]);
    match (kind, element.class()) {
        (ScalarKind::Bool, _) | (_, Class::Boolean) => true,
        (ScalarKind::Int, Class::Signed | Class::Unsigned) => {
            integer_fits(i128::from(bits[0] as i64), element)
        }
        (ScalarKind::Int, _) => (bits[0] as i64 as f64).abs() <= greatest(element),
        (ScalarKind::Float, Class::Signed | Class::Unsigned) => {
            float.is_finite() && float.abs() < 1e20 && integer_fits(float as i128, element)
        }
        (ScalarKind::Float, _) => !float.is_finite() || float.abs() <= greatest(element),
        // A complex number into a real type: torch looks at the real part once the imaginary one is zero.
        (ScalarKind::Complex, Class::Complex) => {
            let imaginary = f64::from_bits(bits[1]);
            [float, imaginary]
                .iter()
                .all(|x| !x.is_finite() || x.abs() <= greatest(element))
        }
        (ScalarKind::Complex, _) => f64::from_bits(bits[1]) == 0.0 && fits(ScalarKind::Float, bits, element),
    }
}

/// The name of a type in torch's message.
fn name(element: ElementType) -> &'static str {
    match element {
        ElementType::U8 => "uint8_t",
        ElementType::S8 => "int8_t",
        ElementType::S16 => "int16_t",
        ElementType::S32 => "int",
        ElementType::S64 => "int64_t",
        ElementType::F16 => "at::Half",
        ElementType::BF16 => "at::BFloat16",
        ElementType::F32 => "float",
        ElementType::F64 => "double",
        ElementType::C32 => "c10::complex<c10::Half>",
        ElementType::BC32 => "c10::complex<c10::BFloat16>",
        ElementType::C64 => "c10::complex<float>",
        other => other.mlir(),
    }
}

/// torch's error for a number that does not fit.
pub(crate) fn check(kind: ScalarKind, bits: [u64; 2], element: ElementType) -> Result<()> {
    if fits(kind, bits, element) {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "value cannot be converted to type {} without overflow",
        name(element)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_torchs() {
        let int = |n: i64, e| fits(ScalarKind::Int, [n as u64, 0], e);
        let float = |x: f64, e| fits(ScalarKind::Float, [x.to_bits(), 0], e);
        assert!(int(255, ElementType::U8) && int(-255, ElementType::U8) && !int(256, ElementType::U8));
        assert!(int(-128, ElementType::S8) && !int(-129, ElementType::S8));
        assert!(!float(1e40, ElementType::F32) && float(f64::INFINITY, ElementType::F32));
        assert!(!float(f64::NAN, ElementType::S32) && float(-1.5, ElementType::S32));
        assert!(int(70000, ElementType::Pred) && !float(1e6, ElementType::F16));
    }
}
