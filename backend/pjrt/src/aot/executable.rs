//! What the ahead-of-time compiler made.

use std::sync::Arc;

use super::protocol::{Compiled, Failure};
use crate::shape::WireShape;
use crate::{
    Buffer, CompiledMemoryStats, Device, Error, Executable, ExecuteOptions, Execution, NamedValue,
    OptimizedProgram, Result, Shape,
};

/// A compiled program with all that it reports; cannot run.
#[derive(Debug)]
pub(crate) struct AotExecutable {
    topology: String,
    compiled: Compiled,
    parameters: Option<Vec<Shape>>,
    results: Vec<Shape>,
    cost: Vec<(String, NamedValue)>,
}

/// An error from the child as one of ours. Calls are a small fixed set, so their names are kept for good.
pub(super) fn from_failure(failure: &Failure) -> Error {
    use parking_lot::Mutex;
    use std::collections::HashSet;
    static CALLS: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut calls = CALLS.lock();
    let calls = calls.get_or_insert_default();
    let call = calls.get(failure.call.as_str()).copied().unwrap_or_else(|| {
        let name: &'static str = Box::leak(failure.call.clone().into_boxed_str());
        calls.insert(name);
        name
    });
    Error::Plugin {
        call,
        code: failure.code,
        message: failure.message.clone(),
    }
}

impl AotExecutable {
    pub(super) fn new(topology: &str, compiled: Compiled) -> Result<Self> {
        let bad = |what: &str| Error::Worker {
            what: format!("the child sent {what}"),
        };
        let shapes = |wire: &[WireShape]| -> Result<Vec<Shape>> {
            wire.iter()
                .map(|s| s.shape().ok_or_else(|| bad("an unknown element type")))
                .collect()
        };
        let parameters = compiled.parameters.as_deref().map(shapes).transpose()?;
        let results = shapes(&compiled.results)?;
        let cost =
            serde_json::from_str(&compiled.cost).map_err(|e| bad(&format!("a bad cost analysis: {e}")))?;
        Ok(Self {
            topology: topology.to_owned(),
            compiled,
            parameters,
            results,
            cost,
        })
    }

    fn refuse<T>(&self, call: &'static str) -> Result<T> {
        Err(Error::CompileOnly {
            call,
            topology: self.topology.clone(),
        })
    }
}

impl Executable for AotExecutable {
    fn name(&self) -> &str {
        &self.compiled.name
    }

    fn devices_shape(&self) -> (usize, usize) {
        (self.compiled.replicas, self.compiled.partitions)
    }

    fn devices(&self) -> Result<Vec<Arc<dyn Device>>> {
        Ok(Vec::new())
    }

    fn parameters(&self) -> Result<Option<&[Shape]>> {
        Ok(self.parameters.as_deref())
    }

    fn results(&self) -> Result<&[Shape]> {
        Ok(&self.results)
    }

    fn execute(&self, _: &[&[&dyn Buffer]], _: &ExecuteOptions) -> Result<Execution> {
        self.refuse("Executable::execute")
    }

    fn fingerprint(&self) -> Result<Vec<u8>> {
        Ok(self.compiled.fingerprint.clone())
    }

    fn cost_analysis(&self) -> Result<Vec<(String, NamedValue)>> {
        Ok(self.cost.clone())
    }

    fn memory_stats(&self) -> Result<CompiledMemoryStats> {
        Ok(self.compiled.memory)
    }

    fn code_size(&self) -> Result<i64> {
        Ok(self.compiled.code_size)
    }

    fn optimized_program(&self) -> Result<OptimizedProgram> {
        Ok(OptimizedProgram {
            format: self.compiled.program_format.clone(),
            code: self.compiled.program.clone(),
        })
    }

    fn layouts(&self) -> Result<(Vec<String>, Vec<String>)> {
        self.compiled.layouts.clone().map_err(|f| from_failure(&f))
    }

    fn result_memory_kinds(&self) -> Result<Vec<String>> {
        self.compiled.memory_kinds.clone().map_err(|f| from_failure(&f))
    }

    fn serialize(&self) -> Result<Vec<u8>> {
        Ok(self.compiled.serialized.clone())
    }

    fn delete(&self) -> Result<()> {
        self.refuse("Executable::delete")
    }

    fn is_deleted(&self) -> Result<bool> {
        Ok(false)
    }
}
