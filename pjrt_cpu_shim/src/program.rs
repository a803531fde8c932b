//! What the optimized program says: parameters and their donation, and the cost of a run.

use std::collections::hash_map::Entry;

use parking_lot::Mutex;
use pjrt_ffi::protos::xla::{
    HloBufferDonorProto, HloInputOutputAliasProto, HloModuleProto, HloModuleProtoWithConfig,
    ProgramShapeProto,
};
use pjrt_ffi::*;
use prost::Message;
use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;

use crate::entry::entries;
use crate::error::{Code, Fail, ShimError};
use crate::inner::{self, bytes};
use crate::named::{NamedValues, Value};
use crate::signature::{self, Parameter};

/// The fields of `HloModuleProto` that tell what is taken and donated; decoding skips the instructions.
#[derive(Clone, PartialEq, Message)]
struct Outline {
    #[prost(message, optional, tag = "4")]
    host_program_shape: Option<ProgramShapeProto>,
    #[prost(message, optional, tag = "8")]
    input_output_alias: Option<HloInputOutputAliasProto>,
    #[prost(message, optional, tag = "18")]
    buffer_donor: Option<HloBufferDonorProto>,
}

/// [`Outline`] inside `HloModuleProtoWithConfig`.
#[derive(Clone, PartialEq, Message)]
struct OutlineWithConfig {
    #[prost(message, optional, tag = "1")]
    hlo_module: Option<Outline>,
}

/// What a program takes.
#[derive(Debug)]
pub(crate) struct Taken {
    /// `None` where the inner plugin does not tell, or takes what is no array.
    pub(crate) parameters: Option<Box<[Parameter]>>,
    /// Parameters whose buffers a run uses up, in ascending order.
    pub(crate) donated: SmallVec<[usize; 4]>,
    /// Bytes of the parameters whose memory outputs take over.
    pub(crate) aliased_bytes: u64,
}

/// An optimized program in one of the formats plugins use.
struct Optimized {
    code: Vec<u8>,
    with_config: bool,
}

fn optimized(executable: *mut PJRT_Executable) -> Result<Optimized, Fail> {
    let mut program = PJRT_Program::new();
    let mut args = PJRT_Executable_OptimizedProgram_Args::new();
    args.executable = executable;
    args.program = &mut program;
    // The first call gives the size, the second fills the buffer.
    inner::call(slot::PJRT_Executable_OptimizedProgram, &mut args)?;
    let mut code = vec![0_u8; program.code_size];
    program.code = code.as_mut_ptr().cast();
    inner::call(slot::PJRT_Executable_OptimizedProgram, &mut args)?;
    // SAFETY: format names are static strings of the plugin.
    let with_config = match unsafe { bytes(program.format, program.format_size) } {
        b"hlo_with_config" => true,
        b"hlo" => false,
        other => {
            let text = String::from_utf8_lossy(other);
            return Err(ShimError::new(
                Code::Internal,
                format!("the CPU plugin gives its optimized program as {text:?}, not as HLO"),
            )
            .into());
        }
    };
    code.truncate(program.code_size);
    Ok(Optimized { code, with_config })
}

fn undecodable(error: &prost::DecodeError) -> Fail {
    ShimError::new(
        Code::Internal,
        format!("the CPU plugin's optimized program does not decode: {error}"),
    )
    .into()
}

/// What the program of `executable` takes.
pub(crate) fn taken(executable: *mut PJRT_Executable) -> Result<Taken, Fail> {
    let Optimized { code, with_config } = optimized(executable)?;
    let outline = if with_config {
        OutlineWithConfig::decode(code.as_slice()).map(|outer| outer.hlo_module.unwrap_or_default())
    } else {
        Outline::decode(code.as_slice())
    }
    .map_err(|error| undecodable(&error))?;
    let parameters = outline
        .host_program_shape
        .as_ref()
        .and_then(signature::parameters);
    // A tupled argument list has one parameter, and the index inside it is the argument.
    let argument = |number: i64, index: &[i64]| usize::try_from(*index.first().unwrap_or(&number)).ok();
    let in_order = |mut found: SmallVec<[usize; 4]>| {
        found.sort_unstable();
        found.dedup();
        found
    };
    let aliases = outline.input_output_alias.unwrap_or_default().entries;
    let aliased = in_order(
        aliases
            .iter()
            .filter_map(|entry| argument(entry.parameter_number, &entry.parameter_shape_index))
            .collect(),
    );
    let aliased_bytes = aliased
        .iter()
        .filter_map(|&at| parameters.as_ref()?.get(at))
        .map(Parameter::hbm_bytes)
        .sum();
    let donors = outline.buffer_donor.unwrap_or_default().entries;
    let donors = donors
        .iter()
        .filter_map(|entry| argument(entry.parameter_number, &entry.parameter_shape_index));
    Ok(Taken {
        donated: in_order(aliased.into_iter().chain(donors).collect()),
        aliased_bytes,
        parameters,
    })
}

/// Properties handed out, which live as long as their executable.
static COSTS: Mutex<FxHashMap<usize, NamedValues>> = Mutex::new(FxHashMap::with_hasher(FxBuildHasher));

/// Frees what was handed out for an executable that is going.
pub(crate) fn forget(executable: usize) {
    COSTS.lock().remove(&executable);
}

fn cost(executable: *mut PJRT_Executable) -> Result<NamedValues, Fail> {
    let Optimized { code, with_config } = optimized(executable)?;
    let module = if with_config {
        HloModuleProtoWithConfig::decode(code.as_slice()).map(|outer| outer.hlo_module.unwrap_or_default())
    } else {
        HloModuleProto::decode(code.as_slice())
    }
    .map_err(|error| undecodable(&error))?;
    let cost = hlo::cost::analyze(&module);
    let value = |name: &str, value: f64| (name.to_owned(), Value::Float(value as f32));
    Ok(NamedValues::new(vec![
        value("flops", cost.flops),
        value("transcendentals", cost.transcendentals),
        value("bytes accessed", cost.bytes_accessed),
    ]))
}

entries! {
    "PJRT_Executable_GetCostAnalysis" fn cost_analysis(args: PJRT_Executable_GetCostAnalysis_Args, upto properties) {
        let mut costs = COSTS.lock();
        let key = (*args).executable as usize;
        let values = match costs.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(cost((*args).executable)?),
        };
        let values = values.as_slice();
        (*args).properties = values.as_ptr();
        (*args).num_properties = values.len();
        Ok(())
    }
}
