//! What a program takes and gives.

use dtype::ElementType;
use pjrt_ffi::protos::xla::{HloModuleProto, Kind, ShapeProto};

use crate::index::Index;
use crate::shape::{element_type, leaves};

/// One array a program takes or gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayShape {
    /// `None` for an element type this build does not know.
    pub element_type: Option<ElementType>,
    /// The dimensions, upper bounds where dynamic.
    pub dims: Vec<i64>,
    /// For each dimension whether it is bounded dynamic.
    pub dynamic: Vec<bool>,
}

impl ArrayShape {
    fn of(shape: &ShapeProto) -> Self {
        // Older writers leave the flags out when none is set.
        let mut dynamic = shape.is_dynamic_dimension.clone();
        dynamic.resize(shape.dimensions.len(), false);
        Self {
            element_type: element_type(shape.element_type),
            dims: shape.dimensions.clone(),
            dynamic,
        }
    }

    /// The `PJRT_Buffer_Type` code, 0 (invalid) for an unknown element type.
    pub fn pjrt_code(&self) -> u32 {
        self.element_type.map_or(0, ElementType::to_pjrt)
    }
}

/// A result that shares its buffer with a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// Position among [`Signature::results`].
    pub output: usize,
    /// Position among [`Signature::parameters`].
    pub parameter: usize,
    /// The program cannot run unless the caller donates the parameter.
    pub must: bool,
}

/// Parameters and results of an entry computation, tuples opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// What it takes, in order.
    pub parameters: Vec<ArrayShape>,
    /// What it gives, in order.
    pub results: Vec<ArrayShape>,
    /// Results that take over a parameter's buffer.
    pub aliases: Vec<Alias>,
    /// Parameters donated with no result to take their place: the program may overwrite them. Sorted.
    pub donors: Vec<usize>,
}

impl Signature {
    /// Whether executing the program consumes this parameter unless told not to.
    pub fn is_donated(&self, parameter: usize) -> bool {
        self.donors.contains(&parameter) || self.aliases.iter().any(|a| a.parameter == parameter)
    }

    /// Every parameter [`Signature::is_donated`] is true for, sorted.
    pub fn donated(&self) -> Vec<usize> {
        (0..self.parameters.len())
            .filter(|&p| self.is_donated(p))
            .collect()
    }
}

/// Where each leaf of a list of shapes starts, so that `(parameter, shape index)` becomes one position.
fn position(shapes: &[ShapeProto], number: i64, path: &[i64]) -> Option<usize> {
    let number = usize::try_from(number).ok()?;
    let count = |s: &ShapeProto| {
        let mut out = Vec::new();
        leaves(s, &mut out);
        out.len()
    };
    let mut shape = shapes.get(number)?;
    let mut at: usize = shapes[..number].iter().map(count).sum();
    for &step in path {
        let step = usize::try_from(step).ok()?;
        let inner = shape.tuple_shapes.get(step)?;
        at += shape.tuple_shapes[..step].iter().map(count).sum::<usize>();
        shape = inner;
    }
    Some(at)
}

/// Reads shapes and donation off a module. Alias entries that point nowhere are left out.
pub fn signature(module: &HloModuleProto) -> Signature {
    let index = Index::new(module);
    let entry = index.entry().and_then(|c| c.proto.program_shape.as_ref());
    let Some(program) = module.host_program_shape.as_ref().or(entry) else {
        return Signature::default();
    };
    let open = |shapes: &[ShapeProto]| {
        let mut out = Vec::new();
        shapes.iter().for_each(|s| leaves(s, &mut out));
        out.into_iter().map(ArrayShape::of).collect::<Vec<_>>()
    };
    let result = program.result.as_slice();
    let aliases = module.input_output_alias.iter().flat_map(|a| &a.entries);
    let donors = module.buffer_donor.iter().flat_map(|d| &d.entries);
    let parameter = |number, path: &[i64]| position(&program.parameters, number, path);
    let mut donors: Vec<usize> = donors
        .filter_map(|d| parameter(d.parameter_number, &d.parameter_shape_index))
        .collect();
    donors.sort_unstable();
    donors.dedup();
    Signature {
        parameters: open(&program.parameters),
        results: open(result),
        aliases: aliases
            .filter_map(|a| {
                Some(Alias {
                    output: position(result, 0, &a.output_shape_index)?,
                    parameter: parameter(a.parameter_number, &a.parameter_shape_index)?,
                    must: a.kind == Kind::MustAlias as i32,
                })
            })
            .collect(),
        donors,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Build, f32s, tuple};
    use pjrt_ffi::protos::xla::hlo_buffer_donor_proto::BufferDonorEntryProto;
    use pjrt_ffi::protos::xla::hlo_input_output_alias_proto::AliasEntryProto;
    use pjrt_ffi::protos::xla::{HloBufferDonorProto, HloInputOutputAliasProto};

    #[test]
    fn tuples_open_and_aliases_point_at_leaves() {
        let mut b = Build::new();
        let mut dynamic = f32s(&[4, 8]);
        dynamic.is_dynamic_dimension = vec![true, false];
        let pair = tuple(vec![f32s(&[2]), f32s(&[3])]);
        let c = b.computation(|c| {
            let x = c.parameter(0, pair.clone());
            let y = c.parameter(1, dynamic.clone());
            c.op("tuple", tuple(vec![dynamic.clone(), pair.clone()]), &[y, x])
        });
        let mut module = b.module(c);
        module.input_output_alias = Some(HloInputOutputAliasProto {
            entries: vec![
                AliasEntryProto {
                    output_shape_index: vec![1, 1],
                    parameter_number: 0,
                    parameter_shape_index: vec![1],
                    kind: Kind::MustAlias as i32,
                },
                AliasEntryProto {
                    output_shape_index: vec![7],
                    ..Default::default()
                },
            ],
        });
        module.buffer_donor = Some(HloBufferDonorProto {
            entries: vec![BufferDonorEntryProto {
                parameter_number: 1,
                parameter_shape_index: vec![],
            }],
        });
        let s = signature(&module);
        assert_eq!(s.parameters.len(), 3);
        assert_eq!(s.parameters[2].dims, [4, 8]);
        assert_eq!(s.parameters[2].dynamic, [true, false]);
        assert_eq!(s.parameters[0].dynamic, [false]);
        assert_eq!(s.results[0].pjrt_code(), ElementType::F32.to_pjrt());
        let alias = Alias {
            output: 2,
            parameter: 1,
            must: true,
        };
        assert_eq!(s.aliases, [alias]);
        assert_eq!(s.donated(), [1, 2]);
        assert!(!s.is_donated(0));
    }

    #[test]
    fn no_program_shape_is_an_empty_signature() {
        assert_eq!(signature(&HloModuleProto::default()), Signature::default());
    }
}
