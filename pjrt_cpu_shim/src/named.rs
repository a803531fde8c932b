//! `PJRT_NamedValue` arrays: ours to hand out, the caller's to read.

use pjrt_ffi::*;

use crate::inner::{bytes, slice};

const TEXT: u32 = PJRT_NamedValue_Type_PJRT_NamedValue_kString;
const INT: u32 = PJRT_NamedValue_Type_PJRT_NamedValue_kInt64;
const INTS: u32 = PJRT_NamedValue_Type_PJRT_NamedValue_kInt64List;
const FLOAT: u32 = PJRT_NamedValue_Type_PJRT_NamedValue_kFloat;
const BOOL: u32 = PJRT_NamedValue_Type_PJRT_NamedValue_kBool;

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Int(i64),
    Ints(Box<[i64]>),
    Float(f32),
    Bool(bool),
    Text(String),
}

/// Named values in the C form; the array stays where it is for as long as this lives.
pub(crate) struct NamedValues {
    values: Box<[PJRT_NamedValue]>,
    /// What `values` points into.
    backing: Box<[(String, Value)]>,
}

impl std::fmt::Debug for NamedValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.backing.fmt(f)
    }
}

// SAFETY: the pointers lead into `backing`, which is never changed.
unsafe impl Send for NamedValues {}
// SAFETY: as above.
unsafe impl Sync for NamedValues {}

impl NamedValues {
    pub(crate) fn new(entries: Vec<(String, Value)>) -> Self {
        let backing = entries.into_boxed_slice();
        let values = backing
            .iter()
            .map(|(name, value)| {
                let mut raw = PJRT_NamedValue::new();
                raw.name = name.as_ptr().cast();
                raw.name_size = name.len();
                raw.value_size = 1;
                match value {
                    Value::Int(value) => {
                        raw.type_ = INT;
                        raw.__bindgen_anon_1.int64_value = *value;
                    }
                    Value::Ints(values) => {
                        raw.type_ = INTS;
                        raw.__bindgen_anon_1.int64_array_value = values.as_ptr();
                        raw.value_size = values.len();
                    }
                    Value::Float(value) => {
                        raw.type_ = FLOAT;
                        raw.__bindgen_anon_1.float_value = *value;
                    }
                    Value::Bool(value) => {
                        raw.type_ = BOOL;
                        raw.__bindgen_anon_1.bool_value = *value;
                    }
                    Value::Text(text) => {
                        raw.type_ = TEXT;
                        raw.__bindgen_anon_1.string_value = text.as_ptr().cast();
                        raw.value_size = text.len();
                    }
                }
                raw
            })
            .collect();
        Self { values, backing }
    }

    pub(crate) fn as_slice(&self) -> &[PJRT_NamedValue] {
        &self.values
    }
}

/// Reads the caller's named values.
///
/// # Safety
/// `values` is null or points at `count` well-formed named values.
pub(crate) unsafe fn read(values: *const PJRT_NamedValue, count: usize) -> Vec<(String, Value)> {
    // SAFETY: the caller vouches for the array and what each value points at.
    unsafe {
        slice(values, count)
            .iter()
            .map(|raw| {
                let name = String::from_utf8_lossy(bytes(raw.name, raw.name_size)).into_owned();
                let of = raw.__bindgen_anon_1;
                let value = match raw.type_ {
                    INT => Value::Int(of.int64_value),
                    INTS => Value::Ints(slice(of.int64_array_value, raw.value_size).into()),
                    FLOAT => Value::Float(of.float_value),
                    BOOL => Value::Bool(of.bool_value),
                    _ => Value::Text(
                        String::from_utf8_lossy(bytes(of.string_value, raw.value_size)).into_owned(),
                    ),
                };
                (name, value)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_round_trips() {
        let entries = vec![
            ("a".to_owned(), Value::Int(-3)),
            ("b".to_owned(), Value::Ints([1, 2, 3].into())),
            ("c".to_owned(), Value::Float(1.5)),
            ("d".to_owned(), Value::Bool(true)),
            ("e".to_owned(), Value::Text("text".into())),
            (String::new(), Value::Text(String::new())),
        ];
        let values = NamedValues::new(entries.clone());
        let raw = values.as_slice();
        // SAFETY: `values` is alive.
        assert_eq!(unsafe { read(raw.as_ptr(), raw.len()) }, entries);
    }
}
