//! [`Executable`] and what goes with it.

use std::fmt::Debug;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::{Buffer, Device, Event, NamedValue, Result, Shape};

/// A program to compile.
#[derive(Copy, Clone, Debug)]
pub struct Program<'a> {
    /// Its text or bytes.
    pub code: &'a [u8],
    /// `mlir` (StableHLO text or bytecode) or `hlo`.
    pub format: &'a str,
}

impl<'a> Program<'a> {
    /// StableHLO, as text or bytecode.
    pub fn mlir(code: &'a str) -> Self {
        Self {
            code: code.as_bytes(),
            format: "mlir",
        }
    }
}

/// How to run a program once.
#[derive(Clone, Debug, Default)]
pub struct ExecuteOptions {
    /// Parameters that must not be donated although the program would.
    pub keep: SmallVec<[i64; 4]>,
    /// Ties together the launches of one step over several processes.
    pub launch_id: i32,
    /// Give an event for each device's completion (0.3 us each); outputs carry their own events anyway.
    pub completion_events: bool,
    /// Run a program compiled for one device, portably, on this one.
    pub device: Option<Arc<dyn Device>>,
}

/// What an execution gave, per device.
#[derive(Debug)]
pub struct Execution {
    /// `outputs[device][result]`.
    pub outputs: SmallVec<[Vec<Arc<dyn Buffer>>; 1]>,
    /// One a device when asked for, else empty.
    pub completion: Vec<Arc<dyn Event>>,
}

impl Execution {
    /// The outputs of a program that ran on one device.
    pub fn into_single(mut self) -> Vec<Arc<dyn Buffer>> {
        self.outputs.pop().unwrap_or_default()
    }
}

/// The optimized program of a compiled executable.
#[derive(Clone, Debug)]
pub struct OptimizedProgram {
    /// `hlo`, `hlo_with_config` or `mlir`.
    pub format: String,
    /// The program.
    pub code: Vec<u8>,
}

/// Memory that a program needs on each device, in bytes.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CompiledMemoryStats {
    /// Arguments.
    pub argument_bytes: i64,
    /// Results.
    pub output_bytes: i64,
    /// Results that live in donated arguments.
    pub alias_bytes: i64,
    /// Temporaries.
    pub temp_bytes: i64,
    /// Code.
    pub code_bytes: i64,
    /// The most that is live at once; `None` where the plugin does not tell.
    pub peak_bytes: Option<i64>,
    /// Arguments, results, temporaries and code that live in host memory.
    pub host_bytes: i64,
}

/// A compiled program; loaded on devices, unless it comes from an ahead-of-time client.
pub trait Executable: Debug + Send + Sync {
    /// The module's name.
    fn name(&self) -> &str;

    /// Replicas and partitions.
    fn devices_shape(&self) -> (usize, usize);

    /// Devices that it runs on, in the order of `execute`'s argument lists. Empty for an ahead-of-time one.
    fn devices(&self) -> Result<Vec<Arc<dyn Device>>>;

    /// Parameters of the optimized program on each device; `None` where the plugin cannot tell.
    fn parameters(&self) -> Result<Option<&[Shape]>>;

    /// Results on each device.
    fn results(&self) -> Result<&[Shape]>;

    /// Runs it: `arguments[device][parameter]`. Returns when the work is queued.
    fn execute(&self, arguments: &[&[&dyn Buffer]], options: &ExecuteOptions) -> Result<Execution>;

    /// A digest of the compiled program.
    fn fingerprint(&self) -> Result<Vec<u8>>;

    /// What the compiler says it costs: `flops`, `bytes accessed`, ...
    fn cost_analysis(&self) -> Result<Vec<(String, NamedValue)>>;

    /// Memory that it needs.
    fn memory_stats(&self) -> Result<CompiledMemoryStats>;

    /// Bytes of generated code.
    fn code_size(&self) -> Result<i64>;

    /// The program after optimization.
    fn optimized_program(&self) -> Result<OptimizedProgram>;

    /// Layouts of parameters and of results, in XLA's notation (`{1,0:T(8,128)}`).
    fn layouts(&self) -> Result<(Vec<String>, Vec<String>)>;

    /// Memory kind of each result.
    fn result_memory_kinds(&self) -> Result<Vec<String>>;

    /// Bytes for [`crate::Client::load`] on a machine with the same plugin and topology.
    fn serialize(&self) -> Result<Vec<u8>>;

    /// Frees the program; running it afterwards is an error.
    fn delete(&self) -> Result<()>;

    /// Whether it was deleted.
    fn is_deleted(&self) -> Result<bool>;
}
