//! Sizes of HLO shapes.

use dtype::ElementType;
use pjrt_ffi::protos::xla::ShapeProto;

/// `xla.PrimitiveType` codes that are not arrays.
const TUPLE: i32 = 13;
const OPAQUE: i32 = 14;
const TOKEN: i32 = 17;

/// The element type of an `xla.PrimitiveType` code; the vendored proto lacks the newest of them.
pub const fn element_type(code: i32) -> Option<ElementType> {
    Some(match code {
        1 => ElementType::Pred,
        2 => ElementType::S8,
        3 => ElementType::S16,
        4 => ElementType::S32,
        5 => ElementType::S64,
        6 => ElementType::U8,
        7 => ElementType::U16,
        8 => ElementType::U32,
        9 => ElementType::U64,
        10 => ElementType::F16,
        11 => ElementType::F32,
        12 => ElementType::F64,
        15 => ElementType::C64,
        16 => ElementType::BF16,
        18 => ElementType::C128,
        19 => ElementType::F8E5M2,
        20 => ElementType::F8E4M3FN,
        21 => ElementType::S4,
        22 => ElementType::U4,
        23 => ElementType::F8E4M3B11FNUZ,
        24 => ElementType::F8E5M2FNUZ,
        25 => ElementType::F8E4M3FNUZ,
        26 => ElementType::S2,
        27 => ElementType::U2,
        28 => ElementType::F8E4M3,
        29 => ElementType::F8E3M4,
        32 => ElementType::F4E2M1FN,
        33 => ElementType::F8E8M0FNU,
        _ => return None,
    })
}

/// The arrays of a shape in order, tuples opened.
pub(crate) fn leaves<'a>(shape: &'a ShapeProto, out: &mut Vec<&'a ShapeProto>) {
    match shape.element_type {
        TUPLE => shape.tuple_shapes.iter().for_each(|s| leaves(s, out)),
        OPAQUE | TOKEN => {}
        _ => out.push(shape),
    }
}

/// Elements of an array, or of all arrays of a tuple.
pub(crate) fn elements(shape: &ShapeProto) -> f64 {
    match shape.element_type {
        TUPLE => shape.tuple_shapes.iter().map(elements).sum(),
        OPAQUE | TOKEN => 0.0,
        _ => shape.dimensions.iter().map(|&d| d.max(0) as f64).product(),
    }
}

/// Bytes of an array, or of all arrays of a tuple; dense, without a device's padding.
pub(crate) fn bytes(shape: &ShapeProto) -> f64 {
    match shape.element_type {
        TUPLE => shape.tuple_shapes.iter().map(bytes).sum(),
        OPAQUE | TOKEN => 0.0,
        code => {
            let packed = shape.layout.as_ref().map_or(0, |l| l.element_size_in_bits);
            let bits = if packed > 0 {
                packed as f64
            } else {
                element_type(code).map_or(8.0, |t| f64::from(t.bits().max(8)))
            };
            (elements(shape) * bits / 8.0).ceil()
        }
    }
}

/// Bytes of an optional shape, zero when there is none.
pub(crate) fn bytes_of(shape: Option<&ShapeProto>) -> f64 {
    shape.map_or(0.0, bytes)
}

/// Elements of an optional shape, zero when there is none.
pub(crate) fn elements_of(shape: Option<&ShapeProto>) -> f64 {
    shape.map_or(0.0, elements)
}
