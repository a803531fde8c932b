//! What is worked out of an executable when it appears: what it takes, makes and needs.

use std::sync::Arc;

use pjrt_ffi::*;
use smallvec::SmallVec;

use crate::buffers::{self, Made, MadeRef, Maker, amount};
use crate::client::device_hbm;
use crate::error::{Code, Fail, ShimError};
use crate::hbm::Hbm;
use crate::inner::{self, Padded, bytes, slice};
use crate::program::{self, Taken};
use crate::signature::Parameter;

/// What is known of a loaded executable before it runs. Sizes are in bytes.
#[derive(Debug)]
pub(crate) struct Known {
    /// Counters of the device of each row of arguments.
    pub(crate) hbms: SmallVec<[Option<&'static Hbm>; 4]>,
    /// One for each output; `None` where it lies in host memory.
    pub(crate) outputs: SmallVec<[Option<(u64, MadeRef)>; 4]>,
    /// Sum over the outputs in HBM.
    pub(crate) output_bytes: u64,
    /// Their number and the largest of them.
    pub(crate) counted: (u64, u64),
    pub(crate) temp_bytes: u64,
    /// What it takes and uses up.
    pub(crate) taken: Taken,
    pub(crate) name: Arc<str>,
}

/// The `PJRT_Executable` of a loaded one, destroyed at the end.
pub(crate) struct Unloaded(pub(crate) *mut PJRT_Executable);

impl Unloaded {
    pub(crate) fn of(loaded: *mut PJRT_LoadedExecutable) -> Result<Self, Fail> {
        let mut args = PJRT_LoadedExecutable_GetExecutable_Args::new();
        args.loaded_executable = loaded;
        inner::call(slot::PJRT_LoadedExecutable_GetExecutable, &mut args)?;
        Ok(Self(args.executable))
    }
}

impl Drop for Unloaded {
    fn drop(&mut self) {
        let mut args = PJRT_Executable_Destroy_Args::new();
        args.executable = self.0;
        if let Err(error) = inner::call(slot::PJRT_Executable_Destroy, &mut args) {
            drop(error.into_shim_error());
        }
    }
}

/// Everything worth knowing of a fresh executable.
pub(crate) fn study(loaded: *mut PJRT_LoadedExecutable) -> Result<Known, Fail> {
    let mut devices = PJRT_LoadedExecutable_AddressableDevices_Args::new();
    devices.executable = loaded;
    inner::call(slot::PJRT_LoadedExecutable_AddressableDevices, &mut devices)?;
    // SAFETY: the executable owns the list.
    let hbms = unsafe { slice(devices.addressable_devices, devices.num_addressable_devices) }
        .iter()
        .map(|&device| device_hbm(device))
        .collect();

    let executable = Unloaded::of(loaded)?;
    let mut name = PJRT_Executable_Name_Args::new();
    name.executable = executable.0;
    inner::call(slot::PJRT_Executable_Name, &mut name)?;
    // SAFETY: the executable owns its name.
    let name: Arc<str> =
        String::from_utf8_lossy(unsafe { bytes(name.executable_name, name.executable_name_size) }).into();
    let outputs = outputs(executable.0, &name)?;
    let in_hbm = || outputs.iter().flatten().map(|(bytes, _)| *bytes);
    let mut stats = Padded::new(PJRT_Executable_GetCompiledMemoryStats_Args_V114::new());
    stats.args.executable = executable.0;
    // A plugin that keeps no such figures leaves scratch memory out of the account.
    let temp_bytes = match inner::call(slot::PJRT_Executable_GetCompiledMemoryStats, &mut stats) {
        Ok(()) => u64::try_from(stats.args.temp_size_in_bytes).unwrap_or(0),
        Err(error) => {
            drop(error.into_shim_error());
            0
        }
    };
    Ok(Known {
        hbms,
        output_bytes: in_hbm().sum(),
        counted: (in_hbm().count() as u64, in_hbm().max().unwrap_or(0)),
        temp_bytes,
        taken: program::taken(executable.0)?,
        outputs,
        name,
    })
}

type Outputs = SmallVec<[Option<(u64, MadeRef)>; 4]>;

fn outputs(executable: *mut PJRT_Executable, name: &Arc<str>) -> Result<Outputs, Fail> {
    let mut types = PJRT_Executable_OutputElementTypes_Args::new();
    types.executable = executable;
    inner::call(slot::PJRT_Executable_OutputElementTypes, &mut types)?;
    let mut dims = PJRT_Executable_OutputDimensions_Args::new();
    dims.executable = executable;
    inner::call(slot::PJRT_Executable_OutputDimensions, &mut dims)?;
    let mut kinds = PJRT_Executable_OutputMemoryKinds_Args::new();
    kinds.executable = executable;
    let kinds_known = match inner::call(slot::PJRT_Executable_OutputMemoryKinds, &mut kinds) {
        Ok(()) => true,
        Err(error) => {
            drop(error.into_shim_error());
            false
        }
    };
    // SAFETY: the executable owns the lists, which hold one entry for each output.
    unsafe {
        let ranks = slice(dims.dim_sizes, dims.num_outputs);
        let all = slice(dims.dims, ranks.iter().sum());
        let mut at = 0;
        let mut found = Outputs::new();
        for (output, (&rank, &element)) in ranks
            .iter()
            .zip(slice(types.output_types, types.num_output_types))
            .enumerate()
        {
            let made = Made::new(Maker::Executable(name.clone()), element, &all[at..at + rank]);
            at += rank;
            let on_host = kinds_known
                && output < kinds.num_outputs
                && bytes(
                    *kinds.memory_kinds.add(output),
                    *kinds.memory_kind_sizes.add(output),
                ) != b"device";
            found.push((!on_host).then(|| (made.bytes(), buffers::intern(made))));
        }
        Ok(found)
    }
}

/// Refuses a program that could not run on a chip with nothing else in its memory, as the TPU compiler does.
pub(crate) fn fits(known: &Known, limit: u64) -> Result<(), Fail> {
    let parameters = known.taken.parameters.as_deref().unwrap_or_default();
    let arguments = parameters
        .iter()
        .map(Parameter::hbm_bytes)
        .fold(0, u64::saturating_add);
    let aliased = known.taken.aliased_bytes;
    let needed = arguments
        .saturating_add(known.output_bytes)
        .saturating_add(known.temp_bytes)
        .saturating_sub(aliased);
    if needed <= limit {
        return Ok(());
    }
    let text = format!(
        "Ran out of memory on HBM: {} needs {} of {} on each simulated chip: {} of arguments, {} of outputs \
         and {} of temporaries, less {} of donated arguments that outputs take over. Exceeded by {}. Use smaller \
         shapes, donate arguments, or shard the program over more chips",
        known.name,
        amount(needed),
        amount(limit),
        amount(arguments),
        amount(known.output_bytes),
        amount(known.temp_bytes),
        amount(aliased),
        amount(needed - limit),
    );
    Err(ShimError::new(Code::ResourceExhausted, text).into())
}
