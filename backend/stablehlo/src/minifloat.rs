//! Rounds an `f64` to the narrow floating-point types, ties to even.

use dtype::ElementType;

/// A narrow format: exponent bits, fraction bits, bias, and what it can hold besides finite numbers.
struct Format {
    fraction: u32,
    bias: i32,
    /// The bits of the greatest finite magnitude.
    max: u8,
    /// The bits past the range; saturates to `max` where there are none.
    infinity: Option<u8>,
    /// The bits of NaN; the format has none otherwise.
    nan: Option<u8>,
    /// The sign bit.
    sign: u8,
    /// Whether a negative zero exists.
    negative_zero: bool,
}

fn format(element: ElementType) -> Option<Format> {
    let f = |fraction, bias, max, infinity, nan, sign, negative_zero| {
        Some(Format {
            fraction,
            bias,
            max,
            infinity,
            nan,
            sign,
            negative_zero,
        })
    };
    match element {
        ElementType::F8E5M2 => f(2, 15, 0x7B, Some(0x7C), Some(0x7E), 0x80, true),
        ElementType::F8E4M3 => f(3, 7, 0x77, Some(0x78), Some(0x7C), 0x80, true),
        ElementType::F8E3M4 => f(4, 3, 0x6F, Some(0x70), Some(0x78), 0x80, true),
        ElementType::F8E4M3FN => f(3, 7, 0x7E, Some(0x7F), Some(0x7F), 0x80, true),
        ElementType::F8E4M3B11FNUZ => f(3, 11, 0x7F, Some(0x80), Some(0x80), 0x80, false),
        ElementType::F8E4M3FNUZ => f(3, 8, 0x7F, Some(0x80), Some(0x80), 0x80, false),
        ElementType::F8E5M2FNUZ => f(2, 16, 0x7F, Some(0x80), Some(0x80), 0x80, false),
        ElementType::F4E2M1FN => f(1, 1, 0x07, None, None, 0x08, true),
        _ => None,
    }
}

/// Appends the little-endian bytes of `x` in a floating-point element type.
pub(crate) fn write(element: ElementType, x: f64, out: &mut Vec<u8>) {
    match element {
        ElementType::F64 => out.extend_from_slice(&x.to_le_bytes()),
        ElementType::F32 => out.extend_from_slice(&(x as f32).to_le_bytes()),
        ElementType::F16 => out.extend_from_slice(&half::f16::from_f64(x).to_le_bytes()),
        ElementType::BF16 => out.extend_from_slice(&half::bf16::from_f64(x).to_le_bytes()),
        ElementType::F8E8M0FNU => out.push(scale(x)),
        narrow => match format(narrow) {
            Some(f) => out.push(round(&f, x)),
            // Only integer and complex types are left, and callers send none.
            None => out.extend_from_slice(&x.to_le_bytes()[..narrow.host_bytes().min(8)]),
        },
    }
}

/// A power of two with bias 127; NaN for what is not positive.
fn scale(x: f64) -> u8 {
    if x.is_nan() || x <= 0.0 {
        return 0xFF;
    }
    let e = x.log2().round().clamp(-127.0, 127.0);
    (e as i32 + 127) as u8
}

fn round(f: &Format, x: f64) -> u8 {
    let sign = if x.is_sign_negative() { f.sign } else { 0 };
    if x.is_nan() {
        return f.nan.unwrap_or(0);
    }
    let past = |max: u8| match f.infinity {
        // The formats without negative zero have one NaN, and it has no sign.
        Some(bits) if bits == f.sign => bits,
        Some(bits) => sign | bits,
        None => sign | max,
    };
    if x.is_infinite() {
        return past(f.max);
    }
    let magnitude = x.abs();
    let least = 1 - f.bias;
    let exponent = if magnitude == 0.0 {
        least
    } else {
        // An f64 subnormal is far below every narrow format, so its exponent field serves.
        (((magnitude.to_bits() >> 52) as i32) - 1023).max(least)
    };
    // In units of the last place at this exponent; scaling by a power of two is exact here.
    let units = magnitude * 2f64.powi(f.fraction as i32 - exponent);
    let rounded = units.round_ties_even() as i64;
    let one = 1i64 << f.fraction;
    let bits = rounded + i64::from(exponent - least) * one;
    if bits > i64::from(f.max) {
        return past(f.max);
    }
    if bits == 0 && !f.negative_zero {
        return 0;
    }
    sign | bits as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(element: ElementType, x: f64) -> u8 {
        let mut out = Vec::new();
        write(element, x, &mut out);
        out[0]
    }

    #[test]
    fn known_values() {
        use ElementType::*;
        assert_eq!(bits(F8E4M3FN, 1.0), 0x38);
        assert_eq!(bits(F8E4M3FN, 448.0), 0x7E);
        assert_eq!(bits(F8E4M3FN, f64::NAN), 0x7F);
        assert_eq!(bits(F8E4M3FN, -0.0), 0x80);
        assert_eq!(bits(F8E4M3FN, 2f64.powi(-9)), 0x01);
        assert_eq!(bits(F8E5M2, 1.0), 0x3C);
        assert_eq!(bits(F8E5M2, f64::NEG_INFINITY), 0xFC);
        assert_eq!(bits(F8E5M2, 1e9), 0x7C);
        assert_eq!(bits(F8E4M3FNUZ, 1.0), 0x40);
        assert_eq!(bits(F8E4M3FNUZ, -0.0), 0x00);
        assert_eq!(bits(F8E5M2FNUZ, f64::INFINITY), 0x80);
        assert_eq!(bits(F8E4M3B11FNUZ, 1.0), 0x58);
        assert_eq!(bits(F8E3M4, 1.0), 0x30);
        assert_eq!(bits(F8E4M3, 240.0), 0x77);
        assert_eq!(bits(F4E2M1FN, 6.0), 0x07);
        assert_eq!(bits(F4E2M1FN, -100.0), 0x0F);
        assert_eq!(bits(F8E8M0FNU, 1.0), 127);
        assert_eq!(bits(F8E8M0FNU, 0.0), 0xFF);
    }

    #[test]
    fn ties_go_to_even() {
        // Between 1.0 (even) and 1.125, and between 1.125 and 1.25 (even).
        assert_eq!(bits(ElementType::F8E4M3FN, 1.0625), 0x38);
        assert_eq!(bits(ElementType::F8E4M3FN, 1.1875), 0x3A);
    }
}
