//! What a program takes, and whether given buffers are that.

use pjrt_ffi::protos::xla::{ProgramShapeProto, ShapeProto};
use pjrt_ffi::*;
use smallvec::SmallVec;

use crate::buffers::{self, Maker, array, bytes_of};
use crate::error::{Fail, ShimError};
use crate::hbm::Hbm;
use crate::inner;

const EXECUTE: &str = "PJRT_LoadedExecutable_Execute";

/// One array that a program takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// `PJRT_Buffer_Type`; 0 for a type of a newer plugin, which goes unchecked.
    element_type: u32,
    /// The dimensions, upper bounds where dynamic.
    dims: SmallVec<[i64; 6]>,
    /// Bit by dimension: the size is bounded, not fixed.
    dynamic: u64,
    on_host: bool,
}

/// The parameters in order, tuples opened; `None` when the program takes what is no array, which only the inner
/// plugin can judge.
pub(crate) fn parameters(program: &ProgramShapeProto) -> Option<Box<[Parameter]>> {
    let mut found = Vec::new();
    let known = program.parameters.iter().all(|shape| open(shape, &mut found));
    known.then(|| found.into_boxed_slice())
}

fn open(shape: &ShapeProto, found: &mut Vec<Parameter>) -> bool {
    // Codes of `xla.PrimitiveType`, and XLA's memory space for the host.
    const TUPLE: i32 = 13;
    const OPAQUE: i32 = 14;
    const TOKEN: i32 = 17;
    const HOST: i64 = 5;
    match shape.element_type {
        TUPLE => shape.tuple_shapes.iter().all(|shape| open(shape, found)),
        OPAQUE | TOKEN => false,
        code => {
            let flags = shape.is_dynamic_dimension.iter().take(64).enumerate();
            found.push(Parameter {
                element_type: hlo::element_type(code).map_or(0, dtype::ElementType::to_pjrt),
                dims: SmallVec::from_slice(&shape.dimensions),
                dynamic: flags.fold(0, |bits, (at, &dynamic)| bits | u64::from(dynamic) << at),
                on_host: shape
                    .layout
                    .as_ref()
                    .is_some_and(|layout| layout.memory_space == HOST),
            });
            true
        }
    }
}

impl Parameter {
    /// Whether a buffer of this shape may be given for it.
    #[inline]
    fn accepts(&self, element_type: u32, dims: &[i64]) -> bool {
        if self.element_type != element_type && self.element_type != 0 {
            return false;
        }
        *self.dims == *dims || (self.dynamic != 0 && self.accepts_bounded(dims))
    }

    #[cold]
    fn accepts_bounded(&self, dims: &[i64]) -> bool {
        let fits = |(at, (&want, &got)): (usize, (&i64, &i64))| {
            want == got || (at < 64 && self.dynamic >> at & 1 == 1 && (0..=want).contains(&got))
        };
        self.dims.len() == dims.len() && self.dims.iter().zip(dims).enumerate().all(fits)
    }

    /// Dense size in HBM; what lies on the host takes none.
    pub(crate) fn hbm_bytes(&self) -> u64 {
        if self.on_host {
            0
        } else {
            bytes_of(self.element_type, &self.dims)
        }
    }
}

/// Refuses the arguments of one device unless they are what `program` takes, where it takes them.
///
/// # Safety
/// `arguments` is null or points at `count` readable handles.
#[inline]
pub(crate) unsafe fn check(
    program: &str,
    parameters: &[Parameter],
    arguments: *const *mut PJRT_Buffer,
    count: usize,
    row: usize,
    hbm: Option<&'static Hbm>,
) -> Result<(), Fail> {
    // SAFETY: the caller vouches for it.
    let arguments = unsafe { inner::slice(arguments, count) };
    if arguments.len() != parameters.len() || count != parameters.len() {
        return Err(wrong_count(program, parameters.len(), count, arguments.len(), row).into());
    }
    for (at, (&argument, parameter)) in arguments.iter().zip(parameters).enumerate() {
        let fits = buffers::with_record(argument, |made, on| {
            parameter.accepts(made.element_type, &made.dims) && hbm.is_none_or(|hbm| std::ptr::eq(hbm, on))
        });
        if fits != Some(true) {
            examine(program, parameter, argument, at, row, hbm)?;
        }
    }
    Ok(())
}

#[cold]
fn wrong_count(program: &str, want: usize, count: usize, given: usize, row: usize) -> ShimError {
    if given != count && count == want {
        return ShimError::invalid(format!(
            "{EXECUTE}: argument_lists[{row}] is null; {program} takes {want} arguments"
        ));
    }
    ShimError::invalid(format!(
        "{EXECUTE}: {program} takes {want} arguments, {count} were given; pass one buffer for each parameter"
    ))
}

/// The slow way: for a buffer that has no record or does not fit.
#[cold]
fn examine(
    program: &str,
    parameter: &Parameter,
    argument: *mut PJRT_Buffer,
    at: usize,
    row: usize,
    hbm: Option<&'static Hbm>,
) -> Result<(), Fail> {
    let refuse = |what: String| {
        Err(ShimError::invalid(format!(
            "{EXECUTE}: argument {at} of device {row} for {program} {what}"
        ))
        .into())
    };
    if argument.is_null() {
        return refuse("is null; pass a live buffer".into());
    }
    let mut deleted = PJRT_Buffer_IsDeleted_Args::new();
    deleted.buffer = argument;
    inner::call(slot::PJRT_Buffer_IsDeleted, &mut deleted)?;
    if deleted.is_deleted {
        return refuse("was deleted or donated; pass a live buffer".into());
    }
    let given = buffers::shape_of(argument, Maker::Host)?;
    if !parameter.accepts(given.element_type, &given.dims) {
        return refuse(format!(
            "is {}, the program takes {}",
            array(given.element_type, &given.dims),
            array(parameter.element_type, &parameter.dims)
        ));
    }
    match (buffers::with_record(argument, |_, on| on), hbm) {
        (Some(on), Some(hbm)) if !std::ptr::eq(on, hbm) => {
            refuse("lies on another device; copy it to the device that runs the program".into())
        }
        // Buffers outside HBM are the inner plugin's to judge.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(element_type: i32, dims: &[i64], dynamic: &[bool]) -> ShapeProto {
        ShapeProto {
            element_type,
            dimensions: dims.to_vec(),
            is_dynamic_dimension: dynamic.to_vec(),
            ..Default::default()
        }
    }

    fn program(parameters: Vec<ShapeProto>) -> ProgramShapeProto {
        ProgramShapeProto {
            parameters,
            ..Default::default()
        }
    }

    const F32: (i32, u32) = (11, 11);

    #[test]
    fn tuples_open_and_tokens_are_left_to_the_plugin() {
        let tuple = ShapeProto {
            element_type: 13,
            tuple_shapes: vec![shape(F32.0, &[2], &[]), shape(4, &[], &[])],
            ..Default::default()
        };
        let found = parameters(&program(vec![tuple, shape(F32.0, &[3], &[])])).unwrap();
        let dims: Vec<&[i64]> = found.iter().map(|parameter| &*parameter.dims).collect();
        assert_eq!(dims, [&[2][..], &[], &[3]]);
        assert_eq!(found[0].hbm_bytes(), 8);
        assert_eq!(parameters(&program(vec![shape(17, &[], &[])])), None);
    }

    #[test]
    fn types_and_dims_must_agree_and_bounds_are_bounds() {
        let one =
            |dynamic: &[bool]| parameters(&program(vec![shape(F32.0, &[4, 3], dynamic)])).unwrap()[0].clone();
        let fixed = one(&[]);
        assert!(fixed.accepts(F32.1, &[4, 3]));
        assert!(!fixed.accepts(4, &[4, 3]), "an i32 of the same size");
        assert!(!fixed.accepts(F32.1, &[3, 4]));
        assert!(!fixed.accepts(F32.1, &[12]));
        let bounded = one(&[true, false]);
        assert!(bounded.accepts(F32.1, &[4, 3]) && bounded.accepts(F32.1, &[0, 3]));
        assert!(!bounded.accepts(F32.1, &[5, 3]) && !bounded.accepts(F32.1, &[4, 2]));
    }
}
