//! Printing: generic MLIR form, in one pass, the same text for the same program.

use std::fmt::{self, Display, Write};

use crate::attribute::{Attribute, Quoted, SymbolName, write_entries};
use crate::builder::{Op, Value};
use crate::module::{Function, Module};
use crate::{Dim, Type};

impl Display for Module<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One growing string is several times faster than many small writes through `Formatter`.
        let mut out = Printer(String::with_capacity(4096));
        out.module(self)?;
        f.write_str(&out.0)
    }
}

impl Module<'_> {
    /// The program as MLIR text.
    pub fn text(&self) -> String {
        let mut out = Printer(String::with_capacity(4096));
        // Writing to a String does not fail.
        let _ = out.module(self);
        out.0
    }
}

struct Printer(String);

impl Printer {
    fn module(&mut self, m: &Module<'_>) -> fmt::Result {
        write!(self.0, "module {}", SymbolName(&m.name))?;
        if !m.attributes.is_empty() {
            self.0.push_str(" attributes {");
            self.entries(&m.attributes)?;
            self.0.push('}');
        }
        self.0.push_str(" {\n");
        for text in &m.foreign {
            self.0.push_str("  ");
            self.0.push_str(text);
            self.0.push('\n');
        }
        for function in &m.functions {
            self.function(function)?;
        }
        self.0.push_str("}\n");
        Ok(())
    }

    fn entries(&mut self, entries: &[(String, Attribute)]) -> fmt::Result {
        write_entries(&mut self.0, entries.iter().map(|(k, v)| (k.as_str(), v)))
    }

    fn function(&mut self, f: &Function<'_>) -> fmt::Result {
        let visibility = if f.private { "private" } else { "public" };
        write!(self.0, "  func.func {visibility} {}(", SymbolName(f.name))?;
        for (i, argument) in f.arguments.iter().enumerate() {
            if i > 0 {
                self.0.push_str(", ");
            }
            self.id(i as u32);
            self.0.push_str(": ");
            self.ty(&argument.ty)?;
            self.attributes(&argument.attributes)?;
        }
        self.0.push_str(") -> (");
        for (i, value) in f.results.iter().enumerate() {
            if i > 0 {
                self.0.push_str(", ");
            }
            self.ty(&f.values[value.index as usize])?;
            self.attributes(&f.result_attributes[i])?;
        }
        self.0.push_str(") {\n");
        for op in f.ops {
            self.op(&f.values, op, 2)?;
        }
        self.terminator(&f.values, "func.return", f.results, 2)?;
        self.0.push_str("  }\n");
        Ok(())
    }

    fn attributes(&mut self, attributes: &[(String, Attribute)]) -> fmt::Result {
        if !attributes.is_empty() {
            self.0.push_str(" {");
            self.entries(attributes)?;
            self.0.push('}');
        }
        Ok(())
    }

    fn indent(&mut self, depth: usize) {
        for _ in 0..depth {
            self.0.push_str("  ");
        }
    }

    fn number(&mut self, n: u64) {
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        let mut rest = n;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.0.extend(digits[at..].iter().map(|&d| d as char));
    }

    fn id(&mut self, index: u32) {
        self.0.push('%');
        self.number(u64::from(index));
    }

    fn ids(&mut self, values: &[Value]) {
        for (i, v) in values.iter().enumerate() {
            if i > 0 {
                self.0.push_str(", ");
            }
            self.id(v.index);
        }
    }

    /// Static tensors, nearly all there is, without the formatting machinery.
    fn ty(&mut self, ty: &Type<'_>) -> fmt::Result {
        if let Type::Tensor(t) = ty {
            if t.quant.is_none() && t.is_static() {
                self.0.push_str("tensor<");
                for d in t.dims {
                    if let Dim::Static(n) = d {
                        self.number(n.unsigned_abs());
                        self.0.push('x');
                    }
                }
                self.0.push_str(t.element.mlir());
                self.0.push('>');
                return Ok(());
            }
        }
        write!(self.0, "{ty}")
    }

    fn types<'t>(&mut self, types: impl Iterator<Item = &'t Type<'t>>) -> fmt::Result {
        for (i, ty) in types.enumerate() {
            if i > 0 {
                self.0.push_str(", ");
            }
            self.ty(ty)?;
        }
        Ok(())
    }

    fn op(&mut self, values: &[Type<'_>], op: &Op<'_>, depth: usize) -> fmt::Result {
        self.indent(depth);
        let results = op.first_result..op.first_result + op.result_count;
        for i in results.clone() {
            if i > results.start {
                self.0.push_str(", ");
            }
            self.id(i);
        }
        if op.result_count > 0 {
            self.0.push_str(" = ");
        }
        self.0.push('"');
        self.0.push_str(op.name);
        self.0.push_str("\"(");
        self.ids(op.operands);
        self.0.push(')');
        if !op.properties.is_empty() {
            self.0.push_str(" <{");
            self.0.push_str(op.properties);
            self.0.push_str("}>");
        }
        if !op.regions.is_empty() {
            self.0.push_str(" (");
            for (i, region) in op.regions.iter().enumerate() {
                if i > 0 {
                    self.0.push_str(", ");
                }
                self.0.push_str("{\n");
                if region.argument_count > 0 {
                    self.indent(depth);
                    self.0.push_str("^bb0(");
                    for k in 0..region.argument_count {
                        if k > 0 {
                            self.0.push_str(", ");
                        }
                        let index = region.first_argument + k;
                        self.id(index);
                        self.0.push_str(": ");
                        self.ty(&values[index as usize])?;
                    }
                    self.0.push_str("):\n");
                }
                for inner in region.ops {
                    self.op(values, inner, depth + 1)?;
                }
                self.terminator(values, "stablehlo.return", region.results, depth + 1)?;
                self.indent(depth);
                self.0.push('}');
            }
            self.0.push(')');
        }
        if !op.attributes.is_empty() {
            self.0.push_str(" {");
            self.0.push_str(op.attributes);
            self.0.push('}');
        }
        self.0.push_str(" : (");
        self.types(op.operands.iter().map(|v| &values[v.index as usize]))?;
        self.0.push_str(") -> ");
        if op.result_count == 1 {
            self.ty(&values[op.first_result as usize])?;
        } else {
            self.0.push('(');
            self.types(results.map(|i| &values[i as usize]))?;
            self.0.push(')');
        }
        if let Some(l) = op.location {
            write!(self.0, " loc({}:{}:{})", Quoted(l.file), l.line, l.column)?;
        }
        self.0.push('\n');
        Ok(())
    }

    fn terminator(
        &mut self,
        values: &[Type<'_>],
        name: &str,
        results: &[Value],
        depth: usize,
    ) -> fmt::Result {
        self.indent(depth);
        self.0.push('"');
        self.0.push_str(name);
        self.0.push_str("\"(");
        self.ids(results);
        self.0.push_str(") : (");
        self.types(results.iter().map(|v| &values[v.index as usize]))?;
        self.0.push_str(") -> ()\n");
        Ok(())
    }
}
