//! Named values: create options, attributes and cost properties.
#![allow(non_upper_case_globals)] // the names of the C header

use std::ffi::c_char;

use pjrt_ffi as ffi;
use serde::{Deserialize, Serialize};

/// The value of a `PJRT_NamedValue`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum NamedValue {
    /// A flag.
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// A single-precision number.
    Float(f32),
    /// Several integers, such as device coordinates.
    Ints(Vec<i64>),
    /// Text. Bytes that are not UTF-8 are replaced on reading.
    String(String),
}

impl NamedValue {
    /// As a number, where it is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(v) => Some(*v as f64),
            Self::Float(v) => Some(f64::from(*v)),
            _ => None,
        }
    }
}

/// C views of a list of options; borrows names and values, so it must not outlive them.
pub(crate) fn to_ffi(options: &[(String, NamedValue)]) -> Vec<ffi::PJRT_NamedValue> {
    use ffi::*;
    let one = |(name, value): &(String, NamedValue)| {
        let mut v = PJRT_NamedValue::new();
        v.name = name.as_ptr().cast();
        v.name_size = name.len();
        v.value_size = 1;
        match value {
            NamedValue::String(s) => {
                v.type_ = PJRT_NamedValue_Type_PJRT_NamedValue_kString;
                v.__bindgen_anon_1.string_value = s.as_ptr().cast();
                v.value_size = s.len();
            }
            NamedValue::Int(i) => {
                v.type_ = PJRT_NamedValue_Type_PJRT_NamedValue_kInt64;
                v.__bindgen_anon_1.int64_value = *i;
            }
            NamedValue::Ints(l) => {
                v.type_ = PJRT_NamedValue_Type_PJRT_NamedValue_kInt64List;
                v.__bindgen_anon_1.int64_array_value = l.as_ptr();
                v.value_size = l.len();
            }
            NamedValue::Float(x) => {
                v.type_ = PJRT_NamedValue_Type_PJRT_NamedValue_kFloat;
                v.__bindgen_anon_1.float_value = *x;
            }
            NamedValue::Bool(b) => {
                v.type_ = PJRT_NamedValue_Type_PJRT_NamedValue_kBool;
                v.__bindgen_anon_1.bool_value = *b;
            }
        }
        v
    };
    options.iter().map(one).collect()
}

/// Copies a plugin's list of named values. Entries of a type that this build does not know are left out.
///
/// # Safety
/// `values` points at `count` live entries.
pub(crate) unsafe fn from_ffi(
    values: *const ffi::PJRT_NamedValue,
    count: usize,
) -> Vec<(String, NamedValue)> {
    use ffi::*;
    if values.is_null() {
        return Vec::new();
    }
    // A newer plugin may use a longer struct: step by the size it states.
    let mut out = Vec::with_capacity(count);
    let mut at = values.cast::<u8>();
    for _ in 0..count {
        // SAFETY: the caller vouches for `count` entries; each states its own size.
        let v = unsafe { &*at.cast::<PJRT_NamedValue>() };
        let step = if v.struct_size >= size_of::<PJRT_NamedValue>() {
            v.struct_size
        } else {
            size_of::<PJRT_NamedValue>()
        };
        // SAFETY: the tag says which member of the union is live; name and strings carry their lengths.
        let value = unsafe {
            let u = &v.__bindgen_anon_1;
            match v.type_ {
                PJRT_NamedValue_Type_PJRT_NamedValue_kString => {
                    Some(NamedValue::String(text(u.string_value, v.value_size)))
                }
                PJRT_NamedValue_Type_PJRT_NamedValue_kInt64 => Some(NamedValue::Int(u.int64_value)),
                PJRT_NamedValue_Type_PJRT_NamedValue_kInt64List => Some(NamedValue::Ints(
                    slice(u.int64_array_value, v.value_size).to_vec(),
                )),
                PJRT_NamedValue_Type_PJRT_NamedValue_kFloat => Some(NamedValue::Float(u.float_value)),
                PJRT_NamedValue_Type_PJRT_NamedValue_kBool => Some(NamedValue::Bool(u.bool_value)),
                _ => None,
            }
        };
        if let Some(value) = value {
            // SAFETY: a name is `name_size` bytes.
            out.push((unsafe { text(v.name, v.name_size) }, value));
        }
        at = at.wrapping_add(step);
    }
    out
}

/// Copies `len` bytes of text.
///
/// # Safety
/// `data` is null or points at `len` bytes.
pub(crate) unsafe fn text(data: *const c_char, len: usize) -> String {
    // SAFETY: as the caller vouches.
    String::from_utf8_lossy(unsafe { slice(data.cast::<u8>(), len) }).into_owned()
}

/// `len` items at `data`, empty for null.
///
/// # Safety
/// `data` is null or points at `len` items that outlive `'a`.
pub(crate) unsafe fn slice<'a, T>(data: *const T, len: usize) -> &'a [T] {
    if data.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: not null, and the caller vouches for the length.
    unsafe { std::slice::from_raw_parts(data, len) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_value() -> impl Strategy<Value = NamedValue> {
        prop_oneof![
            any::<bool>().prop_map(NamedValue::Bool),
            any::<i64>().prop_map(NamedValue::Int),
            (-1e30f32..1e30).prop_map(NamedValue::Float),
            proptest::collection::vec(any::<i64>(), 0..5).prop_map(NamedValue::Ints),
            ".*".prop_map(NamedValue::String),
        ]
    }

    proptest! {
        #[test]
        fn named_values_survive_the_c_struct(list in proptest::collection::vec((".*", any_value()), 0..6)) {
            let list: Vec<(String, NamedValue)> = list;
            let c = to_ffi(&list);
            // SAFETY: `c` borrows `list`, both live here.
            prop_assert_eq!(unsafe { from_ffi(c.as_ptr(), c.len()) }, list);
        }
    }
}
