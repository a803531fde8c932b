//! The body of a function under construction: values, ops, regions, locations.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::attribute::{Attribute, Props, write_entries};
use crate::module::Signature;
use crate::{Arena, Error, Result, Shape, TensorType, Type};
use dtype::ElementType;

/// A value of a function: the result of an op or a block argument. It means nothing in another function.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Value {
    pub(crate) function: u32,
    pub(crate) index: u32,
}

#[derive(Copy, Clone)]
pub(crate) struct ValueInfo<'a> {
    pub(crate) ty: Type<'a>,
    block: u32,
    /// The op, where that has one result.
    op: &'static str,
    /// Its operand, where there is one.
    of: Option<Value>,
    /// A transposition's order.
    order: &'a [i64],
}

/// A source position, printed as `loc("file":line:column)`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Location<'a> {
    pub(crate) file: &'a str,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

#[derive(Copy, Clone)]
pub(crate) struct Op<'a> {
    pub(crate) name: &'static str,
    pub(crate) operands: &'a [Value],
    pub(crate) properties: &'a str,
    pub(crate) attributes: &'a str,
    pub(crate) regions: &'a [Region<'a>],
    pub(crate) first_result: u32,
    pub(crate) result_count: u32,
    pub(crate) location: Option<&'a Location<'a>>,
}

#[derive(Copy, Clone)]
pub(crate) struct Region<'a> {
    pub(crate) first_argument: u32,
    pub(crate) argument_count: u32,
    pub(crate) ops: &'a [Op<'a>],
    pub(crate) results: &'a [Value],
}

struct OpenBlock<'a> {
    id: u32,
    /// The region may not use values from outside.
    isolated: bool,
    ops: Vec<Op<'a>>,
}

/// Builds one function. Each StableHLO op is a method of its name; chlo ops are `chlo_` and their name.
pub struct FunctionBuilder<'a> {
    pub(crate) arena: &'a Arena,
    id: u32,
    pub(crate) values: Vec<ValueInfo<'a>>,
    blocks: Vec<OpenBlock<'a>>,
    next_block: u32,
    pub(crate) signatures: FxHashMap<&'a str, Signature<'a>>,
    location: Option<&'a Location<'a>>,
    pub(crate) pending: Vec<(String, Attribute)>,
    pub(crate) result_attributes: Vec<(usize, (String, Attribute))>,
    /// Futures that no `async_done` has waited for.
    pub(crate) open_futures: Vec<u32>,
}

impl<'a> FunctionBuilder<'a> {
    pub(crate) fn new(arena: &'a Arena, id: u32, signatures: FxHashMap<&'a str, Signature<'a>>) -> Self {
        Self {
            arena,
            id,
            values: Vec::new(),
            blocks: Vec::new(),
            next_block: 0,
            signatures,
            location: None,
            pending: Vec::new(),
            result_attributes: Vec::new(),
            open_futures: Vec::new(),
        }
    }

    /// The arena the module lives in.
    pub const fn arena(&self) -> &'a Arena {
        self.arena
    }

    /// What a value was made of by an op of this name with one operand, such as `stablehlo.reshape`.
    pub fn operand_of(&self, op: &str, value: Value) -> Option<Value> {
        if value.function != self.id {
            return None;
        }
        let info = self.values.get(value.index as usize)?;
        info.of.filter(|_| info.op == op)
    }

    /// The name of the op that a value is the only result of, or nothing.
    pub fn op_of(&self, value: Value) -> &'static str {
        let info = self.values.get(value.index as usize);
        info.filter(|_| value.function == self.id)
            .map_or("", |info| info.op)
    }

    /// What a value was transposed from, and the permutation.
    pub fn transposed_of(&self, value: Value) -> Option<(Value, &'a [i64])> {
        let operand = self.operand_of("stablehlo.transpose", value)?;
        Some((operand, self.values.get(value.index as usize)?.order))
    }

    pub(crate) fn note_order(&mut self, value: Value, permutation: &[i64]) {
        let order = self.arena.alloc_slice_copy(permutation);
        if let Some(info) = self.values.get_mut(value.index as usize) {
            info.order = order;
        }
    }

    /// A tensor type in the module's arena.
    pub fn tensor(&self, dims: &(impl Shape + ?Sized), element: ElementType) -> Result<TensorType<'a>> {
        TensorType::new(self.arena, dims, element)
    }

    /// The type of a value of this function.
    pub fn ty(&self, value: Value) -> Result<Type<'a>> {
        self.lookup("value", value)
    }

    /// The tensor type of a value of this function.
    pub fn tensor_ty(&self, value: Value) -> Result<TensorType<'a>> {
        let ty = self.lookup("value", value)?;
        ty.tensor()
            .ok_or_else(|| Error::new("value", format!("{ty} is not a tensor")))
    }

    /// Following ops come from this source position, until it is set again.
    pub fn set_location(&mut self, file: &str, line: u32, column: u32) {
        let location = Location {
            file: self.arena.alloc_str(file),
            line,
            column,
        };
        self.location = Some(self.arena.alloc(location));
    }

    /// Following ops have no source position.
    pub fn clear_location(&mut self) {
        self.location = None;
    }

    /// Sets an attribute of the next op, such as `mhlo.sharding`.
    pub fn attribute(&mut self, name: impl Into<String>, value: Attribute) {
        self.pending.push((name.into(), value));
    }

    /// Sets an attribute of a result of the function.
    pub fn result_attribute(&mut self, result: usize, name: impl Into<String>, value: Attribute) {
        self.result_attributes.push((result, (name.into(), value)));
    }

    fn lookup(&self, op: &str, value: Value) -> Result<Type<'a>> {
        let info = self
            .values
            .get(value.index as usize)
            .filter(|_| value.function == self.id)
            .ok_or_else(|| Error::new(op, "a value belongs to another function"))?;
        // Blocks nest, so the search from the inside out ends at the first isolated one.
        for block in self.blocks.iter().rev() {
            if block.id == info.block {
                return Ok(info.ty);
            }
            if block.isolated {
                break;
            }
        }
        let outer = self.blocks.iter().any(|b| b.id == info.block);
        let rule = if outer {
            "a region of this kind may not use values from outside: pass them as operands"
        } else {
            "a value from a region that has ended is not visible here"
        };
        Err(Error::new(op, format!("{rule} (a value of type {})", info.ty)))
    }

    /// The type of operand `index`, named `name`.
    pub(crate) fn value_operand(
        &self,
        op: &'static str,
        index: usize,
        name: &'static str,
        value: Value,
    ) -> Result<Type<'a>> {
        let ty = self.lookup(op, value).map_err(|e| {
            let ty = self
                .values
                .get(value.index as usize)
                .map_or("unknown".to_owned(), |v| v.ty.to_string());
            Error::operand(op, index, name, ty, e.rule())
        })?;
        if matches!(ty, Type::Future(_)) && op != "stablehlo.async_done" {
            return Err(Error::operand(
                op,
                index,
                name,
                ty,
                "a future goes to async_done only",
            ));
        }
        Ok(ty)
    }

    /// Whether a value is of the innermost block.
    pub(crate) fn in_current_block(&self, value: Value) -> bool {
        let block = self.values.get(value.index as usize).map(|v| v.block);
        block == self.blocks.last().map(|b| b.id)
    }

    /// Adds a block argument or an op result.
    fn define(&mut self, ty: Type<'a>) -> u32 {
        let block = self.blocks.last().map_or(0, |b| b.id);
        self.values.push(ValueInfo {
            ty,
            block,
            op: "",
            of: None,
            order: &[],
        });
        (self.values.len() - 1) as u32
    }

    pub(crate) fn value(&self, index: u32) -> Value {
        Value {
            function: self.id,
            index,
        }
    }

    /// Appends an op; the first of its results' indices.
    pub(crate) fn emit_raw(
        &mut self,
        name: &'static str,
        operands: &[Value],
        props: &Props,
        regions: &[Region<'a>],
        results: &[Type<'a>],
    ) -> Result<u32> {
        for ty in results {
            ty.check(name)?;
        }
        let attributes = if self.pending.is_empty() {
            ""
        } else {
            let mut text = String::new();
            // Writing to a String does not fail.
            let _ = write_entries(&mut text, self.pending.iter().map(|(k, v)| (k.as_str(), v)));
            self.pending.clear();
            self.arena.alloc_str(&text)
        };
        let first_result = self.values.len() as u32;
        for ty in results {
            self.define(*ty);
        }
        let op = Op {
            name,
            operands: self.arena.alloc_slice_copy(operands),
            properties: self.arena.alloc_str(props.text()),
            attributes,
            regions: self.arena.alloc_slice_copy(regions),
            first_result,
            result_count: results.len() as u32,
            location: self.location,
        };
        match self.blocks.last_mut() {
            Some(block) => block.ops.push(op),
            None => return Err(Error::new(name, "the function has ended")),
        }
        Ok(first_result)
    }

    /// Appends an op with one result.
    pub(crate) fn emit(
        &mut self,
        name: &'static str,
        operands: &[Value],
        props: &Props,
        result: impl Into<Type<'a>>,
    ) -> Result<Value> {
        let index = self.emit_raw(name, operands, props, &[], &[result.into()])?;
        if let Some(info) = self.values.get_mut(index as usize) {
            info.op = name;
            info.of = <[Value; 1]>::try_from(operands).ok().map(|[operand]| operand);
        }
        Ok(self.value(index))
    }

    /// Appends an op with regions or several results.
    pub(crate) fn emit_many(
        &mut self,
        name: &'static str,
        operands: &[Value],
        props: &Props,
        regions: &[Region<'a>],
        results: &[Type<'a>],
    ) -> Result<Vec<Value>> {
        let first = self.emit_raw(name, operands, props, regions, results)?;
        Ok((0..results.len() as u32).map(|i| self.value(first + i)).collect())
    }

    /// Builds a region of `op` and gives its result types.
    pub(crate) fn region<F>(
        &mut self,
        op: &'static str,
        isolated: bool,
        arguments: &[Type<'a>],
        body: F,
    ) -> Result<(Region<'a>, SmallVec<[Type<'a>; 4]>)>
    where
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        // Attributes and locations set for `op` itself must not land on the first op of its region.
        let pending = std::mem::take(&mut self.pending);
        let location = self.location;
        self.next_block += 1;
        self.blocks.push(OpenBlock {
            id: self.next_block,
            isolated,
            ops: Vec::new(),
        });
        let first_argument = self.values.len() as u32;
        let mut values: SmallVec<[Value; 8]> = SmallVec::new();
        for ty in arguments {
            let index = self.define(*ty);
            values.push(self.value(index));
        }
        let returned = body(self, &values).and_then(|results| {
            let types = results
                .iter()
                .map(|v| self.lookup(op, *v))
                .collect::<Result<SmallVec<[Type<'a>; 4]>>>()?;
            if let Some(future) = types.iter().find(|t| matches!(t, Type::Future(_))) {
                let rule =
                    format!("a future does not leave its block: return what async_done gives, not {future}");
                return Err(Error::new(op, rule));
            }
            if let Some(&open) = self.open_futures.iter().find(|&&i| i >= first_argument) {
                let ty = self.values[open as usize].ty;
                return Err(Error::new(op, format!("no async_done waits for a future ({ty})")));
            }
            Ok((results, types))
        });
        // Those of a body that failed are gone with it.
        self.open_futures.retain(|&i| i < first_argument);
        let block = self.blocks.pop();
        self.pending = pending;
        self.location = location;
        let (results, types) = returned?;
        let ops = block.map_or(&[][..], |b| &*self.arena.alloc_slice_copy(&b.ops));
        let region = Region {
            first_argument,
            argument_count: arguments.len() as u32,
            ops,
            results: self.arena.alloc_slice_copy(&results),
        };
        Ok((region, types))
    }

    /// Builds a region whose results must have these types.
    pub(crate) fn typed_region<F>(
        &mut self,
        op: &'static str,
        region_name: &str,
        isolated: bool,
        arguments: &[Type<'a>],
        results: &[Type<'a>],
        body: F,
    ) -> Result<Region<'a>>
    where
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        let (region, types) = self.region(op, isolated, arguments, body)?;
        expect_types(op, region_name, &types, results)?;
        Ok(region)
    }

    pub(crate) fn function_body<F>(
        &mut self,
        arguments: &[Type<'a>],
        body: F,
    ) -> Result<(&'a [Op<'a>], &'a [Value])>
    where
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        let (region, _) = self.region("func.return", true, arguments, body)?;
        Ok((region.ops, region.results))
    }
}

/// Compares what a region returns with what its op needs.
pub(crate) fn expect_types(op: &str, region: &str, got: &[Type<'_>], want: &[Type<'_>]) -> Result<()> {
    if got.len() != want.len() {
        return Err(Error::new(
            op,
            format!(
                "region `{region}` must return {} values, returns {}",
                want.len(),
                got.len()
            ),
        ));
    }
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        if g != w {
            return Err(Error::new(
                op,
                format!("region `{region}`: result {i} must be {w}, is {g}"),
            ));
        }
    }
    Ok(())
}
