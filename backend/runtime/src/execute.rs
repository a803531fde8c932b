//! One execution: from a program's parameters to buffers, and the call of the plugin.

use std::sync::Arc;

use aten::ScalarKind;
use dtype::ElementType;
use pjrt::{Buffer, Executable, ExecuteOptions, HostArray, Placement};
use smallvec::SmallVec;

use crate::client::{DeviceState, Runtime};
use crate::program::Param;
use crate::storage::Dense;
use crate::{Error, Result};

/// The bits of a number.
pub(crate) type Bits = [u64; 2];

/// What a call gives for the parameters of its program; `node` is the position in the window.
pub(crate) trait Given {
    /// What a storage holds.
    fn dense(&self, slot: u32) -> Option<&Dense>;
    /// A number.
    fn scalar(&self, node: u32, i: u32) -> (ScalarKind, Bits);
    /// A tensor from host memory.
    fn host(&self, node: u32, i: u32) -> (Bits, ElementType);
    /// The storage offset of a tensor.
    fn offset(&self, node: u32, i: u32) -> i64;
    /// The storage offset of a written tensor.
    fn target_offset(&self, node: u32, k: u32) -> i64;
    /// A node's seed and first block.
    fn random(&self, node: u32) -> [u64; 3];
}

/// Runs a program; `keep` lists parameters that it must not consume. The inner error is the execution's own.
pub(crate) fn execute(
    runtime: &Runtime,
    state: &DeviceState,
    executable: &dyn Executable,
    params: &[Param],
    given: &impl Given,
    keep: SmallVec<[i64; 4]>,
) -> Result<pjrt::Result<Vec<Arc<dyn Buffer>>>> {
    let client = &*runtime.client;
    let number = |bits: Bits, element| state.scalars.get(client, &*state.device, (bits, element));
    let offset = |offset: i64| number([offset as u64, 0], ElementType::S64);
    let mut made: SmallVec<[Arc<dyn Buffer>; 4]> = SmallVec::new();
    for param in params {
        made.push(match *param {
            Param::Slot(_) => continue,
            Param::Scalar(n, i) => {
                let (kind, bits) = given.scalar(n, i);
                number(bits, kind.element())?
            }
            Param::Host(n, i) => {
                let (bits, element) = given.host(n, i);
                number(bits, element.stored())?
            }
            Param::Offset(n, i) => offset(given.offset(n, i))?,
            Param::TargetOffset(n, k) => offset(given.target_offset(n, k))?,
            Param::Random(n) => {
                let mut bytes = [0; 24];
                for (chunk, word) in bytes.chunks_exact_mut(8).zip(given.random(n)) {
                    chunk.copy_from_slice(&word.to_le_bytes());
                }
                client.buffer_from_host(
                    &HostArray::new(ElementType::U64, &[3], &bytes),
                    Placement::Device(&*state.device),
                )?
            }
        });
    }
    let mut made = made.iter();
    let mut arguments: SmallVec<[&dyn Buffer; 8]> = SmallVec::new();
    for param in params {
        let buffer = match *param {
            Param::Slot(s) => given.dense(s).map(|dense| &dense.data.buffer),
            _ => made.next(),
        };
        let lost = || Error::runtime("a storage lost its contents during the call");
        arguments.push(&**buffer.ok_or_else(lost)?);
    }
    let run = if keep.is_empty() {
        executable.execute(&[&arguments], &state.options)
    } else {
        let options = ExecuteOptions {
            keep,
            ..state.options.clone()
        };
        executable.execute(&[&arguments], &options)
    };
    Ok(run.map(pjrt::Execution::into_single))
}

/// The number of results is the program's.
pub(crate) fn expect(what: &dyn std::fmt::Display, got: usize, want: usize) -> Result<()> {
    if got == want {
        return Ok(());
    }
    Err(Error::runtime(format!("{what} gave {got} results, not {want}")))
}
