//! while, if, case, call, composite, optimization_barrier.

use crate::attribute::{Attribute, Props, SymbolName};
use crate::builder::expect_types;
use crate::check::{Kinds, ensure};
use crate::{ElementType, Error, FunctionBuilder, Result, Type, Value};

/// A branch of `case`.
pub type Branch<'f, 'a> = Box<dyn FnOnce(&mut FunctionBuilder<'a>, &[Value]) -> Result<Vec<Value>> + 'f>;

impl<'a> FunctionBuilder<'a> {
    /// Repeats `body` while `cond` holds. Both take the carried values; regions may also use values from outside.
    pub fn while_<C, B>(&mut self, operands: &[Value], cond: C, body: B) -> Result<Vec<Value>>
    where
        C: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
        B: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        const OP: &str = "stablehlo.while";
        let types = self.types_of(OP, "operand", operands)?;
        let pred: Type<'a> = self.result(&[], ElementType::Pred).into();
        let first = self.typed_region(OP, "cond", false, &types, &[pred], cond)?;
        let second = self.typed_region(OP, "body", false, &types, &types, body)?;
        self.emit_many(OP, operands, &Props::new(), &[first, second], &types)
    }

    /// Runs one of two branches.
    pub fn if_<T, F>(&mut self, pred: Value, true_branch: T, false_branch: F) -> Result<Vec<Value>>
    where
        T: FnOnce(&mut Self) -> Result<Vec<Value>>,
        F: FnOnce(&mut Self) -> Result<Vec<Value>>,
    {
        const OP: &str = "stablehlo.if";
        let p = self.operand(OP, 0, "pred", pred)?;
        p.ranked(0)?;
        p.kinds(Kinds::BOOL)?;
        let (first, types) = self.region(OP, false, &[], |f, _| true_branch(f))?;
        let second = self.typed_region(OP, "false_branch", false, &[], &types, |f, _| false_branch(f))?;
        self.emit_many(OP, &[pred], &Props::new(), &[first, second], &types)
    }

    /// Runs the branch of this index, the last one when the index is out of range.
    pub fn case(&mut self, index: Value, branches: Vec<Branch<'_, 'a>>) -> Result<Vec<Value>> {
        const OP: &str = "stablehlo.case";
        let i = self.operand(OP, 0, "index", index)?;
        i.ranked(0)?;
        i.require(i.element == ElementType::S32, || {
            "the element type must be i32".into()
        })?;
        let mut regions = Vec::with_capacity(branches.len());
        let mut types: Option<Vec<Type<'a>>> = None;
        for (n, branch) in branches.into_iter().enumerate() {
            let (region, got) = self.region(OP, false, &[], branch)?;
            match &types {
                None => types = Some(got.to_vec()),
                Some(want) => expect_types(OP, &format!("branches[{n}]"), &got, want)?,
            }
            regions.push(region);
        }
        let types = types.ok_or_else(|| Error::new(OP, "needs at least one branch"))?;
        self.emit_many(OP, &[index], &Props::new(), &regions, &types)
    }

    /// Calls a function of the module, added before this one (`func.call`).
    pub fn call(&mut self, callee: &str, operands: &[Value]) -> Result<Vec<Value>> {
        const OP: &str = "func.call";
        let results = self.callee(OP, callee, operands)?;
        self.emit_many(
            OP,
            operands,
            &Props::new().raw("callee", SymbolName(callee)),
            &[],
            results,
        )
    }

    /// An op of one's own, with the function that says what it means.
    pub fn composite(
        &mut self,
        name: &str,
        operands: &[Value],
        decomposition: &str,
        attributes: &[(&str, Attribute)],
        version: i32,
    ) -> Result<Vec<Value>> {
        const OP: &str = "stablehlo.composite";
        let valid = name.split_once('.').is_some_and(|(dialect, op)| {
            let word = |w: &str| {
                w.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                    && w.chars()
                        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$'))
            };
            word(dialect) && word(op)
        });
        ensure(OP, valid, || {
            format!("the name {name:?} must be a dialect, a point, an op")
        })?;
        ensure(OP, version >= 0, || {
            format!("the version {version} must not be negative")
        })?;
        let results = self.callee(OP, decomposition, operands)?;
        let attributes =
            Attribute::Dictionary(attributes.iter().map(|(k, v)| ((*k).into(), v.clone())).collect());
        let props = Props::new()
            .string("name", name)
            .raw("composite_attributes", attributes)
            .raw("decomposition", SymbolName(decomposition))
            .i32("version", version);
        self.emit_many(OP, operands, &props, &[], results)
    }

    /// Passes values on; nothing that makes them is moved past it.
    pub fn optimization_barrier(&mut self, operands: &[Value]) -> Result<Vec<Value>> {
        const OP: &str = "stablehlo.optimization_barrier";
        let types = self.types_of(OP, "operand", operands)?;
        self.emit_many(OP, operands, &Props::new(), &[], &types)
    }

    pub(crate) fn types_of(
        &self,
        op: &'static str,
        name: &'static str,
        values: &[Value],
    ) -> Result<Vec<Type<'a>>> {
        values
            .iter()
            .enumerate()
            .map(|(i, v)| self.value_operand(op, i, name, *v))
            .collect()
    }

    /// Checks the operands against a function's arguments; its result types.
    fn callee(&self, op: &'static str, name: &str, operands: &[Value]) -> Result<&'a [Type<'a>]> {
        let signature = self.signatures.get(name).ok_or_else(|| {
            Error::new(
                op,
                format!("there is no function @{name} yet: add it before its callers"),
            )
        })?;
        ensure(op, signature.arguments.len() == operands.len(), || {
            format!(
                "@{name} takes {} operands, got {}",
                signature.arguments.len(),
                operands.len()
            )
        })?;
        for (i, (v, want)) in operands.iter().zip(signature.arguments).enumerate() {
            let got = self.value_operand(op, i, "operands", *v)?;
            if got != *want {
                return Err(Error::operand(
                    op,
                    i,
                    "operands",
                    got,
                    format!("@{name} takes {want} here"),
                ));
            }
        }
        Ok(signature.results)
    }
}
