//! The wrapped objects. Each method asks the hooks, then calls through.

use std::any::Any;
use std::sync::Arc;

use super::Hook;
use crate::{
    Buffer, Client, CompileOptions, CompiledMemoryStats, Device, Event, Executable, ExecuteOptions,
    Execution, ExternalReference, HostArray, HostRead, Memory, NamedValue, OptimizedProgram, Placement,
    Program, Result, Shape, Topology,
};

type Hooks = Arc<[Arc<dyn Hook>]>;

fn ask(hooks: &Hooks, call: &'static str) -> Result<()> {
    hooks.iter().try_for_each(|h| h.before(call))
}

/// Methods that ask the hooks and then call through.
macro_rules! through {
    ($kind:literal: $($name:ident($($arg:ident: $ty:ty),*) -> $ret:ty;)*) => {
        $(fn $name(&self $(, $arg: $ty)*) -> $ret {
            ask(&self.hooks, concat!($kind, "::", stringify!($name)))?;
            self.inner.$name($($arg),*)
        })*
    };
}

#[derive(Debug)]
pub(super) struct DecoratedClient {
    inner: Arc<dyn Client>,
    hooks: Hooks,
}

impl DecoratedClient {
    pub(super) fn new(inner: Arc<dyn Client>, hooks: Hooks) -> Self {
        Self { inner, hooks }
    }

    fn executable(&self, inner: Arc<dyn Executable>) -> Arc<dyn Executable> {
        Arc::new(DecoratedExecutable {
            inner,
            hooks: self.hooks.clone(),
        })
    }
}

impl Client for DecoratedClient {
    fn platform_name(&self) -> &str {
        self.inner.platform_name()
    }

    fn platform_version(&self) -> &str {
        self.inner.platform_version()
    }

    fn devices(&self) -> &[Arc<dyn Device>] {
        self.inner.devices()
    }

    fn memories(&self) -> &[Arc<dyn Memory>] {
        self.inner.memories()
    }

    through! { "Client":
        process_index() -> Result<i32>;
        topology() -> Result<Arc<dyn Topology>>;
        default_device_assignment(replicas: i32, partitions: i32) -> Result<Vec<i32>>;
    }

    fn compile(&self, program: &Program<'_>, options: &CompileOptions) -> Result<Arc<dyn Executable>> {
        ask(&self.hooks, "Client::compile")?;
        Ok(self.executable(self.inner.compile(program, options)?))
    }

    fn load(&self, serialized: &[u8]) -> Result<Arc<dyn Executable>> {
        ask(&self.hooks, "Client::load")?;
        Ok(self.executable(self.inner.load(serialized)?))
    }

    fn buffer_from_host(&self, array: &HostArray<'_>, to: Placement<'_>) -> Result<Arc<dyn Buffer>> {
        ask(&self.hooks, "Client::buffer_from_host")?;
        Ok(buffer(self.inner.buffer_from_host(array, to)?, &self.hooks))
    }

    fn attributes(&self) -> Vec<(String, NamedValue)> {
        self.inner.attributes()
    }

    fn close(&self) {
        self.inner.close();
    }
}

fn buffer(inner: Arc<dyn Buffer>, hooks: &Hooks) -> Arc<dyn Buffer> {
    Arc::new(DecoratedBuffer {
        inner,
        hooks: hooks.clone(),
    })
}

fn event(inner: Arc<dyn Event>, hooks: &Hooks) -> Arc<dyn Event> {
    Arc::new(DecoratedEvent {
        inner,
        hooks: hooks.clone(),
    })
}

#[derive(Debug)]
struct DecoratedExecutable {
    inner: Arc<dyn Executable>,
    hooks: Hooks,
}

impl Executable for DecoratedExecutable {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn devices_shape(&self) -> (usize, usize) {
        self.inner.devices_shape()
    }

    fn execute(&self, arguments: &[&[&dyn Buffer]], options: &ExecuteOptions) -> Result<Execution> {
        ask(&self.hooks, "Executable::execute")?;
        let done = self.inner.execute(arguments, options)?;
        let row = |row: Vec<Arc<dyn Buffer>>| row.into_iter().map(|b| buffer(b, &self.hooks)).collect();
        Ok(Execution {
            outputs: done.outputs.into_iter().map(row).collect(),
            completion: done
                .completion
                .into_iter()
                .map(|e| event(e, &self.hooks))
                .collect(),
        })
    }

    through! { "Executable":
        devices() -> Result<Vec<Arc<dyn Device>>>;
        parameters() -> Result<Option<&[Shape]>>;
        results() -> Result<&[Shape]>;
        fingerprint() -> Result<Vec<u8>>;
        cost_analysis() -> Result<Vec<(String, NamedValue)>>;
        memory_stats() -> Result<CompiledMemoryStats>;
        code_size() -> Result<i64>;
        optimized_program() -> Result<OptimizedProgram>;
        layouts() -> Result<(Vec<String>, Vec<String>)>;
        result_memory_kinds() -> Result<Vec<String>>;
        serialize() -> Result<Vec<u8>>;
        delete() -> Result<()>;
        is_deleted() -> Result<bool>;
    }
}

#[derive(Debug)]
struct DecoratedBuffer {
    inner: Arc<dyn Buffer>,
    hooks: Hooks,
}

impl Buffer for DecoratedBuffer {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }

    fn ready(&self) -> Result<Arc<dyn Event>> {
        ask(&self.hooks, "Buffer::ready")?;
        Ok(event(self.inner.ready()?, &self.hooks))
    }

    fn copy_to_device(&self, device: &dyn Device) -> Result<Arc<dyn Buffer>> {
        ask(&self.hooks, "Buffer::copy_to_device")?;
        Ok(buffer(self.inner.copy_to_device(device)?, &self.hooks))
    }

    fn copy_to_memory(&self, memory: &dyn Memory) -> Result<Arc<dyn Buffer>> {
        ask(&self.hooks, "Buffer::copy_to_memory")?;
        Ok(buffer(self.inner.copy_to_memory(memory)?, &self.hooks))
    }

    fn external_reference(self: Arc<Self>) -> Result<Box<dyn ExternalReference>> {
        ask(&self.hooks, "Buffer::external_reference")?;
        self.inner.clone().external_reference()
    }

    fn as_any(&self) -> &dyn Any {
        self.inner.as_any()
    }

    through! { "Buffer":
        logical_dims() -> Result<Vec<i64>>;
        device() -> Result<Arc<dyn Device>>;
        memory() -> Result<Arc<dyn Memory>>;
        size_on_device() -> Result<usize>;
        minor_to_major() -> Result<Vec<i64>>;
        is_on_cpu() -> Result<bool>;
        copy_to_host(dst: &mut [u8]) -> Result<()>;
        read() -> Result<Box<dyn HostRead>>;
        delete() -> Result<()>;
        is_deleted() -> Result<bool>;
    }
}

#[derive(Debug)]
struct DecoratedEvent {
    inner: Arc<dyn Event>,
    hooks: Hooks,
}

impl Event for DecoratedEvent {
    through! { "Event":
        is_ready() -> Result<bool>;
        wait() -> Result<()>;
        on_ready(then: Box<dyn FnOnce(Result<()>) + Send>) -> Result<()>;
    }
}
