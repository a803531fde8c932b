//! Element types, shared by the PJRT and the StableHLO layer so that neither depends on the other.

use std::fmt;

macro_rules! element_types {
    (
        $($(#[$doc:meta])* $variant:ident = $code:literal, $mlir:literal, $bits:literal, $class:ident;)*
        { $($(#[$tdoc:meta])* $tvariant:ident = $tcode:literal, $tmlir:literal, $tbits:literal, $tclass:ident;)* }
    ) => {
        /// An array element type. Names follow PJRT; [`ElementType::mlir`] gives StableHLO's spelling.
        #[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(u32)]
        pub enum ElementType { $($(#[$doc])* $variant = $code,)* $($(#[$tdoc])* $tvariant = $tcode),* }

        impl ElementType {
            /// Every element type that XLA has, in PJRT code order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// StableHLO's spelling: `f32`, `bf16`, `ui8`, `complex<f32>`, `f8E4M3FN`.
            pub const fn mlir(self) -> &'static str {
                match self { $(Self::$variant => $mlir,)* $(Self::$tvariant => $tmlir),* }
            }

            /// Bits of one element as a value (4 for `S4`, 1 for `PRED`); see [`ElementType::host_bytes`] for storage.
            pub const fn bits(self) -> u32 {
                match self { $(Self::$variant => $bits,)* $(Self::$tvariant => $tbits),* }
            }

            /// What kind of number it is.
            pub const fn class(self) -> Class {
                match self { $(Self::$variant => Class::$class,)* $(Self::$tvariant => Class::$tclass),* }
            }

            /// From PJRT's `PJRT_Buffer_Type` code.
            pub const fn from_pjrt(code: u32) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)* _ => None }
            }

            /// From StableHLO's spelling.
            pub fn from_mlir(name: &str) -> Option<Self> {
                match name { $($mlir => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

/// The classes of the StableHLO specification.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// `i1`.
    Boolean,
    /// `i2` to `i64`.
    Signed,
    /// `ui2` to `ui64`.
    Unsigned,
    /// All floating-point types.
    Float,
    /// `complex<f32>` and `complex<f64>`; torch's complex types of two halves.
    Complex,
}

element_types! {
    /// Boolean, a byte on the host.
    Pred = 1, "i1", 1, Boolean;
    /// 8-bit signed.
    S8 = 2, "i8", 8, Signed;
    /// 16-bit signed.
    S16 = 3, "i16", 16, Signed;
    /// 32-bit signed.
    S32 = 4, "i32", 32, Signed;
    /// 64-bit signed.
    S64 = 5, "i64", 64, Signed;
    /// 8-bit unsigned.
    U8 = 6, "ui8", 8, Unsigned;
    /// 16-bit unsigned.
    U16 = 7, "ui16", 16, Unsigned;
    /// 32-bit unsigned.
    U32 = 8, "ui32", 32, Unsigned;
    /// 64-bit unsigned.
    U64 = 9, "ui64", 64, Unsigned;
    /// IEEE half.
    F16 = 10, "f16", 16, Float;
    /// IEEE single.
    F32 = 11, "f32", 32, Float;
    /// IEEE double.
    F64 = 12, "f64", 64, Float;
    /// bfloat16.
    BF16 = 13, "bf16", 16, Float;
    /// Two singles.
    C64 = 14, "complex<f32>", 64, Complex;
    /// Two doubles.
    C128 = 15, "complex<f64>", 128, Complex;
    /// 8-bit float with infinities.
    F8E5M2 = 16, "f8E5M2", 8, Float;
    /// 8-bit float, finite.
    F8E4M3FN = 17, "f8E4M3FN", 8, Float;
    /// 8-bit float, bias 11.
    F8E4M3B11FNUZ = 18, "f8E4M3B11FNUZ", 8, Float;
    /// 8-bit float, no negative zero.
    F8E5M2FNUZ = 19, "f8E5M2FNUZ", 8, Float;
    /// 8-bit float, no negative zero.
    F8E4M3FNUZ = 20, "f8E4M3FNUZ", 8, Float;
    /// 4-bit signed, a byte on the host.
    S4 = 21, "i4", 4, Signed;
    /// 4-bit unsigned, a byte on the host.
    U4 = 22, "ui4", 4, Unsigned;
    /// 2-bit signed, a byte on the host.
    S2 = 24, "i2", 2, Signed;
    /// 2-bit unsigned, a byte on the host.
    U2 = 25, "ui2", 2, Unsigned;
    /// 8-bit float, IEEE-like.
    F8E4M3 = 26, "f8E4M3", 8, Float;
    /// 8-bit float, IEEE-like.
    F8E3M4 = 27, "f8E3M4", 8, Float;
    /// 8-bit exponent only (a scale).
    F8E8M0FNU = 28, "f8E8M0FNU", 8, Float;
    /// 4-bit float, a byte on the host.
    F4E2M1FN = 29, "f4E2M1FN", 4, Float;
    // Torch's alone.
    {
    /// Two IEEE halves. No buffer and no value of a program has this type: see [`ElementType::stored`] and
    /// [`ElementType::computed`].
    C32 = 0x4000, "complex<f16>", 32, Complex;
    /// Two bfloat16, otherwise as `C32`.
    BC32 = 0x4001, "complex<bf16>", 32, Complex;
    }
}

impl ElementType {
    /// The `PJRT_Buffer_Type` code.
    pub const fn to_pjrt(self) -> u32 {
        self as u32
    }

    /// Bytes of one element in a host buffer: sub-byte types take a whole byte each.
    pub const fn host_bytes(self) -> usize {
        self.bits().div_ceil(8) as usize
    }

    /// `F16` to `F64`, `BF16` and the narrow floats.
    pub const fn is_float(self) -> bool {
        matches!(self.class(), Class::Float)
    }

    /// `C64` or `C128`; `C32` or `BC32`.
    pub const fn is_complex(self) -> bool {
        matches!(self.class(), Class::Complex)
    }

    /// Signed or unsigned, not boolean.
    pub const fn is_integer(self) -> bool {
        matches!(self.class(), Class::Signed | Class::Unsigned)
    }

    /// The part type of a complex type, itself otherwise.
    pub const fn real(self) -> Self {
        match self {
            Self::C64 => Self::F32,
            Self::C128 => Self::F64,
            Self::C32 => Self::F16,
            Self::BC32 => Self::BF16,
            other => other,
        }
    }

    /// Whether XLA has it: the types of [`ElementType::ALL`].
    pub const fn is_xla(self) -> bool {
        !matches!(self, Self::C32 | Self::BC32)
    }

    /// The type of a device buffer that holds such elements, of the same bytes: a complex number of two halves is a word,
    /// its real part the low half.
    pub const fn stored(self) -> Self {
        match self {
            Self::C32 | Self::BC32 => Self::U32,
            other => other,
        }
    }

    /// The type of a program's value that stands for such elements: halves are computed in singles.
    pub const fn computed(self) -> Self {
        match self {
            Self::C32 | Self::BC32 => Self::C64,
            other => other,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mlir())
    }
}

#[cfg(test)]
mod tests {
    use super::ElementType;

    #[test]
    fn codes_and_names_round_trip() {
        for &t in ElementType::ALL {
            assert_eq!(ElementType::from_pjrt(t.to_pjrt()), Some(t));
            assert_eq!(ElementType::from_mlir(t.mlir()), Some(t));
            assert_eq!(t.host_bytes(), (t.bits() as usize).max(8) / 8);
        }
        assert_eq!(ElementType::from_pjrt(0), None);
        assert_eq!(ElementType::from_mlir("float"), None);
    }

    #[test]
    fn complex_halves_stand_for_themselves_nowhere_in_xla() {
        for t in [ElementType::C32, ElementType::BC32] {
            assert_eq!(ElementType::from_pjrt(t.to_pjrt()), None);
            assert_eq!(ElementType::from_mlir(t.mlir()), None);
            assert!(!t.is_xla() && t.stored().is_xla() && t.computed().is_xla());
            assert_eq!(t.stored().host_bytes(), t.host_bytes());
            assert_eq!(t.computed().class(), t.class());
            assert_eq!(2 * t.real().bits(), t.bits());
        }
        assert!(
            ElementType::ALL
                .iter()
                .all(|t| t.stored() == *t && t.computed() == *t)
        );
    }
}
