//! [`Topology`] and [`DeviceDescription`].

use std::fmt::Debug;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{CompileOptions, Executable, NamedValue, Program, Result};

/// What a device is and where it sits, whether or not it is there.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DeviceDescription {
    /// Id in the slice.
    pub id: i32,
    /// The process that owns it.
    pub process_index: i32,
    /// `TPU v6 lite`.
    pub kind: String,
    /// For messages.
    pub text: String,
    /// Coordinates, core, slice and what else the plugin tells.
    pub attributes: Vec<(String, NamedValue)>,
}

impl DeviceDescription {
    /// An attribute by name.
    pub fn attribute(&self, name: &str) -> Option<&NamedValue> {
        self.attributes.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// Position in the slice's mesh, where the plugin tells.
    pub fn coords(&self) -> Option<&[i64]> {
        match self.attribute("coords") {
            Some(NamedValue::Ints(c)) => Some(c),
            _ => None,
        }
    }
}

/// A slice of chips that programs can be compiled for, with or without the chips.
pub trait Topology: Debug + Send + Sync {
    /// `tpu`, `tpu_sim`, ...
    fn platform_name(&self) -> &str;

    /// The compiler's version text.
    fn platform_version(&self) -> &str;

    /// Its devices.
    fn devices(&self) -> &[DeviceDescription];

    /// What the plugin tells of it.
    fn attributes(&self) -> Result<Vec<(String, NamedValue)>>;

    /// A number that is equal for equal topologies.
    fn fingerprint(&self) -> Result<u64>;

    /// Bytes from which the plugin makes it again.
    fn serialize(&self) -> Result<Vec<u8>>;

    /// Compiles with no client; the result reports and serializes, and does not execute.
    fn compile(&self, program: &Program<'_>, options: &CompileOptions) -> Result<Arc<dyn Executable>>;
}
