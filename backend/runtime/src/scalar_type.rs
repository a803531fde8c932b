//! `c10::ScalarType` and element types.

use dtype::ElementType::{self, *};

use crate::{Error, Result};

/// torch's codes, by element type.
const CODES: &[(i8, ElementType)] = &[
    (0, U8),
    (1, S8),
    (2, S16),
    (3, S32),
    (4, S64),
    (5, F16),
    (6, F32),
    (7, F64),
    (8, C32),
    (9, C64),
    (10, C128),
    (11, Pred),
    (15, BF16),
    (23, F8E5M2),
    (24, F8E4M3FN),
    (25, F8E5M2FNUZ),
    (26, F8E4M3FNUZ),
    (27, U16),
    (28, U32),
    (29, U64),
    (44, F8E8M0FNU),
    (46, BC32),
];

static BY_CODE: [Option<ElementType>; 64] = {
    let mut table = [None; 64];
    let mut i = 0;
    while i < CODES.len() {
        table[CODES[i].0 as usize] = Some(CODES[i].1);
        i += 1;
    }
    table
};

/// The element type of a torch dtype; an error for those that have none (quantized, packed).
#[inline]
pub fn element(code: i8) -> Result<ElementType> {
    BY_CODE.get(code as usize).copied().flatten().ok_or_else(|| {
        Error::raised(
            glue_abi::ErrorKind::NotImplemented,
            format!(
                "tpu tensors cannot be of {}; supported are bool, (u)int8 to (u)int64, float8, float16, bfloat16, \
                 float32, float64, complex32, bcomplex32, complex64 and complex128",
                unsupported_name(code)
            ),
        )
    })
}

fn unsupported_name(code: i8) -> String {
    match code {
        12..=14 | 16 | 17 => "a quantized dtype".into(),
        45 => "dtype float4_e2m1fn_x2".into(),
        other => format!("the dtype with code {other}"),
    }
}

/// torch's code of an element type that came from [`element`].
pub fn code(element: ElementType) -> i8 {
    CODES.iter().find(|(_, e)| *e == element).map_or(-1, |(c, _)| *c)
}
