//! torch's type promotion.

use ElementType::*;
use dtype::{Class, ElementType};

use crate::ScalarKind;

/// The type in which torch's CPU kernels compute: single for the narrower floats, else the type itself.
pub const fn compute_type(element: ElementType) -> ElementType {
    match element {
        F64 | F32 => element,
        C32 | BC32 => C64,
        other if other.is_float() => F32,
        other => other,
    }
}

/// `c10::promoteTypes`.
pub fn promote(a: ElementType, b: ElementType) -> ElementType {
    if a == b {
        return a;
    }
    let rank = |t: ElementType| match t.class() {
        Class::Boolean => 0,
        Class::Signed | Class::Unsigned => 1,
        Class::Float => 2,
        Class::Complex => 3,
    };
    if rank(a) < rank(b) {
        return promote(b, a);
    }
    // From here on a's class is the higher one, or the same.
    match (a.class(), b.class()) {
        // The complex type whose parts are the promoted parts.
        (Class::Complex, Class::Complex | Class::Float) => complex_of(promote(a.real(), b.real())),
        (Class::Float, Class::Float) => {
            let order = |t| match t {
                F64 => 3,
                F32 => 2,
                F16 | BF16 => 1,
                _ => 0,
            };
            match order(a).cmp(&order(b)) {
                std::cmp::Ordering::Greater => a,
                std::cmp::Ordering::Less => b,
                // Half with bfloat16, or two eight-bit types.
                std::cmp::Ordering::Equal => F32,
            }
        }
        (Class::Signed | Class::Unsigned, Class::Signed | Class::Unsigned) => integers(a, b),
        _ => a,
    }
}

/// The complex type with parts of this type.
pub const fn complex_of(part: ElementType) -> ElementType {
    match part {
        F64 => C128,
        F16 => C32,
        BF16 => BC32,
        _ => C64,
    }
}

/// u8 with a signed type is the next signed type that holds both; signed with signed the wider.
fn integers(a: ElementType, b: ElementType) -> ElementType {
    let (wide, narrow) = if a.bits() >= b.bits() { (a, b) } else { (b, a) };
    match (wide.class(), narrow.class()) {
        (Class::Signed, _) if wide.bits() > narrow.bits() => wide,
        (Class::Signed, Class::Signed) | (Class::Unsigned, Class::Unsigned) => wide,
        _ => match wide.bits().max(narrow.bits()) {
            8 => S16,
            16 => S32,
            _ => S64,
        },
    }
}

/// The result type of a dimensioned tensor and a Python number.
pub fn promote_with_scalar(tensor: ElementType, number: ScalarKind, default: ElementType) -> ElementType {
    match (number, tensor.class()) {
        (ScalarKind::Bool, _) => tensor,
        (ScalarKind::Int, Class::Boolean) => S64,
        (ScalarKind::Int, _) => tensor,
        (ScalarKind::Float, Class::Boolean | Class::Signed | Class::Unsigned) => default,
        (ScalarKind::Float, _) => tensor,
        (ScalarKind::Complex, Class::Complex) => tensor,
        (ScalarKind::Complex, Class::Float) => complex_of(tensor),
        (ScalarKind::Complex, _) if default == F64 => C128,
        (ScalarKind::Complex, _) => C64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_is_symmetric_and_as_in_torch() {
        for &a in ElementType::ALL {
            for &b in ElementType::ALL {
                assert_eq!(promote(a, b), promote(b, a), "{a} {b}");
            }
        }
        assert_eq!(promote(U8, S8), S16);
        assert_eq!(promote(S64, F16), F16);
        assert_eq!(promote(F16, BF16), F32);
        assert_eq!(promote(C64, F64), C128);
        assert_eq!(promote(C64, C128), C128);
        assert_eq!(promote(C32, F16), C32);
        assert_eq!(promote(F32, C32), C64);
        assert_eq!(promote(BC32, C32), C64);
        assert_eq!(promote(S64, BC32), BC32);
        assert_eq!(promote(Pred, U8), U8);
        assert_eq!(promote(S32, S64), S64);
    }
}
