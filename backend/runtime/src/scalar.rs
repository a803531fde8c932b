//! Numbers on the device: a number that was used before is there already.

use std::sync::Arc;

use dtype::ElementType;
use parking_lot::Mutex;
use pjrt::{Buffer, Client, Device, HostArray, Placement};
use rustc_hash::FxHashMap;

use crate::Result;

/// A cache that grew past this many numbers starts anew: a counter passes through it.
const LIMIT: usize = 4096;

/// The bits of a number and its type.
pub(crate) type Bits = ([u64; 2], ElementType);

/// Rank-0 buffers of one device by value.
#[derive(Debug, Default)]
pub struct ScalarCache {
    known: Mutex<FxHashMap<Bits, Arc<dyn Buffer>>>,
}

impl ScalarCache {
    /// The buffer of a number.
    pub(crate) fn get(
        &self,
        client: &dyn Client,
        device: &dyn Device,
        bits: Bits,
    ) -> Result<Arc<dyn Buffer>> {
        if let Some(found) = self.known.lock().get(&bits) {
            return Ok(found.clone());
        }
        let mut bytes = [0u8; 16];
        bytes[..8].copy_from_slice(&bits.0[0].to_le_bytes());
        bytes[8..].copy_from_slice(&bits.0[1].to_le_bytes());
        let array = HostArray::new(bits.1, &[], &bytes[..bits.1.host_bytes()]);
        let made = client.buffer_from_host(&array, Placement::Device(device))?;
        let mut known = self.known.lock();
        if known.len() >= LIMIT {
            known.clear();
        }
        known.insert(bits, made.clone());
        Ok(made)
    }
}
