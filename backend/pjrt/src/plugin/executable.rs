//! Executables of a plugin, loaded or not.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use dtype::ElementType;
use pjrt_ffi::*;
use smallvec::SmallVec;

use super::buffer::PluginBuffer;
use super::client::{ClientInner, own_device};
use super::event::PluginEvent;
use super::{Plugin, ask, pjrt_call, pjrt_destroy};
use crate::named_value::{from_ffi, slice, text};
use crate::{
    Buffer, CompiledMemoryStats, Device, Error, Event, Executable, ExecuteOptions, Execution, NamedValue,
    OptimizedProgram, Program, Result, Shape,
};

const EXECUTE: &str = "PJRT_LoadedExecutable_Execute";

/// A C view of a program; borrows it.
pub(crate) fn program(source: &Program<'_>) -> PJRT_Program {
    let mut program = PJRT_Program::new();
    // PJRT takes the code as mutable and does not write to it.
    program.code = source.code.as_ptr().cast_mut().cast();
    program.code_size = source.code.len();
    program.format = source.format.as_ptr().cast();
    program.format_size = source.format.len();
    program
}

/// The part that only a loaded executable has.
#[derive(Debug)]
struct Loaded {
    client: Arc<ClientInner>,
    raw: NonNull<PJRT_LoadedExecutable>,
    devices: usize,
    /// Kept here too: the CPU plugins go on running a program after its deletion.
    deleted: AtomicBool,
}

/// What the optimized program tells.
#[derive(Debug)]
struct Known {
    /// `None` where the plugin does not give the program.
    parameters: Option<Vec<Shape>>,
    results: Vec<Shape>,
    /// The same, for handing out.
    shared_results: Vec<Arc<Shape>>,
}

/// A compiled program of a plugin.
#[derive(Debug)]
pub(crate) struct PluginExecutable {
    plugin: &'static Plugin,
    raw: NonNull<PJRT_Executable>,
    loaded: Option<Loaded>,
    name: String,
    replicas: usize,
    partitions: usize,
    /// As the C API tells: bounds where dynamic, without saying so.
    bounds: Vec<Shape>,
    /// From the optimized program at the first use: the C API tells neither parameters nor what is dynamic.
    known: OnceLock<Known>,
}

// SAFETY: PJRT executables may be used from any thread.
unsafe impl Send for PluginExecutable {}
// SAFETY: as above.
unsafe impl Sync for PluginExecutable {}

impl PluginExecutable {
    /// Takes over an executable from `PJRT_Compile`.
    pub(crate) fn unloaded(plugin: &'static Plugin, raw: *mut PJRT_Executable) -> Result<Self> {
        let raw = NonNull::new(raw)
            .ok_or_else(|| Error::argument("PJRT_Compile", "the plugin returned nothing"))?;
        let mut this = Self {
            plugin,
            raw,
            loaded: None,
            name: String::new(),
            replicas: 1,
            partitions: 1,
            bounds: Vec::new(),
            known: OnceLock::new(),
        };
        this.read()?;
        Ok(this)
    }

    /// Takes over a loaded executable.
    pub(crate) fn loaded(client: &Arc<ClientInner>, raw: *mut PJRT_LoadedExecutable) -> Result<Self> {
        let nothing = || {
            Error::argument(
                "PJRT_LoadedExecutable_GetExecutable",
                "the plugin returned nothing",
            )
        };
        let raw = NonNull::new(raw).ok_or_else(nothing)?;
        let destroy_on_error = Unloader {
            client,
            raw: Some(raw),
        };
        let get = ask!(
            client.plugin,
            PJRT_LoadedExecutable_GetExecutable,
            loaded_executable = raw.as_ptr()
        )?;
        let mut this = Self::unloaded(client.plugin, get.executable)?;
        let list = ask!(
            client.plugin,
            PJRT_LoadedExecutable_AddressableDevices,
            executable = raw.as_ptr()
        )?;
        destroy_on_error.defuse();
        this.loaded = Some(Loaded {
            client: client.clone(),
            raw,
            devices: list.num_addressable_devices,
            deleted: AtomicBool::new(false),
        });
        Ok(this)
    }

    fn read(&mut self) -> Result<()> {
        let name = ask!(self.plugin, PJRT_Executable_Name, executable = self.raw.as_ptr())?;
        let replicas = ask!(
            self.plugin,
            PJRT_Executable_NumReplicas,
            executable = self.raw.as_ptr()
        )?;
        let partitions = ask!(
            self.plugin,
            PJRT_Executable_NumPartitions,
            executable = self.raw.as_ptr()
        )?;
        let types = ask!(
            self.plugin,
            PJRT_Executable_OutputElementTypes,
            executable = self.raw.as_ptr()
        )?;
        let dims = ask!(
            self.plugin,
            PJRT_Executable_OutputDimensions,
            executable = self.raw.as_ptr()
        )?;
        // SAFETY: texts and lists live as long as the executable; dims holds the sum of all ranks.
        unsafe {
            self.name = text(name.executable_name, name.executable_name_size);
            let ranks = slice(dims.dim_sizes, dims.num_outputs);
            let mut flat = slice(dims.dims, ranks.iter().sum());
            for (&code, &rank) in slice(types.output_types, types.num_output_types)
                .iter()
                .zip(ranks)
            {
                let call = "PJRT_Executable_OutputElementTypes";
                let unknown =
                    || Error::argument(call, format!("a result has the unknown element type {code}"));
                let (these, rest) = flat.split_at(rank);
                flat = rest;
                self.bounds.push(Shape::new(
                    ElementType::from_pjrt(code).ok_or_else(unknown)?,
                    these,
                ));
            }
        }
        (self.replicas, self.partitions) = (replicas.num_replicas, partitions.num_partitions);
        Ok(())
    }

    fn loaded_part(&self, call: &'static str) -> Result<&Loaded> {
        let topology = || format!("{} with no client", self.plugin.path().display());
        self.loaded.as_ref().ok_or_else(|| Error::CompileOnly {
            call,
            topology: topology(),
        })
    }

    fn known(&self) -> &Known {
        let read = || -> Result<(Vec<Shape>, Vec<Shape>)> {
            let program = self.optimized_program()?;
            let bad = |what: String| Error::Program {
                call: "PJRT_Executable_OptimizedProgram",
                what,
            };
            let module =
                hlo::module::parse(&program.code, &program.format).map_err(|e| bad(e.to_string()))?;
            let signature = hlo::signature(&module);
            let shapes = |list: &[hlo::ArrayShape]| list.iter().map(shape_of).collect::<Option<Vec<_>>>();
            let both = shapes(&signature.parameters).zip(shapes(&signature.results));
            both.ok_or_else(|| bad("a parameter or result has an unknown element type".into()))
        };
        self.known.get_or_init(|| {
            let read = read()
                .inspect_err(|error| tracing::debug!(%error, "arguments are checked by the plugin alone"));
            let (parameters, results) = read.ok().unzip();
            // The plugin's own list decides how many results there are.
            let results = results
                .filter(|r| r.len() == self.bounds.len())
                .unwrap_or_else(|| self.bounds.clone());
            let shared_results = results.iter().cloned().map(Arc::new).collect();
            Known {
                parameters,
                results,
                shared_results,
            }
        })
    }

    #[cold]
    fn wrong_argument(&self, device: usize, index: usize, given: &dyn Buffer, want: &Shape) -> Error {
        let what = format!(
            "argument {index} on device {device} of {} is {}, the program takes {want}",
            self.name,
            given.shape()
        );
        Error::Argument { call: EXECUTE, what }
    }

    /// The plugin's error, or a typed one when a dead argument explains it.
    #[cold]
    fn explain(&self, error: Error, arguments: &[&[&dyn Buffer]]) -> Error {
        for (index, argument) in arguments.iter().flat_map(|row| row.iter().enumerate()) {
            if argument.is_deleted().unwrap_or(false) {
                let what = format!("argument {index} ({}) of {}", argument.shape(), self.name);
                return Error::BufferDeleted { call: EXECUTE, what };
            }
        }
        error
    }

    fn check_rows(
        &self,
        loaded: &Loaded,
        arguments: &[&[&dyn Buffer]],
        options: &ExecuteOptions,
    ) -> Result<usize> {
        let devices = if options.device.is_some() {
            1
        } else {
            loaded.devices
        };
        if arguments.len() != devices {
            let what = format!(
                "{} argument lists for the {devices} devices of {}",
                arguments.len(),
                self.name
            );
            return Err(Error::argument(EXECUTE, what));
        }
        let count = arguments.first().map_or(0, |row| row.len());
        let want = self.known().parameters.as_ref().map_or(count, Vec::len);
        if let Some((device, row)) = arguments.iter().enumerate().find(|(_, row)| row.len() != want) {
            let what = format!(
                "{} arguments on device {device}, {} takes {want}",
                row.len(),
                self.name
            );
            return Err(Error::argument(EXECUTE, what));
        }
        Ok(count)
    }
}

/// Destroys a loaded executable unless defused.
struct Unloader<'c> {
    client: &'c Arc<ClientInner>,
    raw: Option<NonNull<PJRT_LoadedExecutable>>,
}

impl Unloader<'_> {
    fn defuse(mut self) {
        self.raw = None;
    }
}

impl Drop for Unloader<'_> {
    fn drop(&mut self) {
        if let Some(raw) = self.raw {
            let mut args = PJRT_LoadedExecutable_Destroy_Args::new();
            args.executable = raw.as_ptr();
            pjrt_destroy!(self.client.plugin, PJRT_LoadedExecutable_Destroy, &mut args);
        }
    }
}

impl Executable for PluginExecutable {
    fn name(&self) -> &str {
        &self.name
    }

    fn devices_shape(&self) -> (usize, usize) {
        (self.replicas, self.partitions)
    }

    fn devices(&self) -> Result<Vec<Arc<dyn Device>>> {
        let Some(loaded) = &self.loaded else {
            return Ok(Vec::new());
        };
        let list = ask!(
            self.plugin,
            PJRT_LoadedExecutable_AddressableDevices,
            executable = loaded.raw.as_ptr()
        )?;
        // SAFETY: the list lives as long as the executable.
        let raw = unsafe { slice(list.addressable_devices, list.num_addressable_devices) };
        raw.iter()
            .map(|d| {
                loaded
                    .client
                    .device(*d, "PJRT_LoadedExecutable_AddressableDevices")
            })
            .collect()
    }

    fn parameters(&self) -> Result<Option<&[Shape]>> {
        Ok(self.known().parameters.as_deref())
    }

    fn results(&self) -> Result<&[Shape]> {
        Ok(&self.known().results)
    }

    fn execute(&self, arguments: &[&[&dyn Buffer]], options: &ExecuteOptions) -> Result<Execution> {
        let loaded = self.loaded_part(EXECUTE)?;
        let client = &loaded.client;
        client.check_open(EXECUTE)?;
        if loaded.deleted.load(Ordering::Relaxed) {
            return Err(Error::argument(
                EXECUTE,
                format!("the program {} was deleted", self.name),
            ));
        }
        let count = self.check_rows(loaded, arguments, options)?;
        let known = self.known();

        let mut handles: SmallVec<[*mut PJRT_Buffer; 16]> = SmallVec::with_capacity(count * arguments.len());
        for (device, row) in arguments.iter().enumerate() {
            for (index, &given) in row.iter().enumerate() {
                let Some(buffer) = given
                    .as_any()
                    .downcast_ref::<PluginBuffer>()
                    .filter(|b| Arc::ptr_eq(&b.client, client))
                else {
                    let what = format!("argument {index} ({}) belongs to another client", given.shape());
                    return Err(Error::argument(EXECUTE, what));
                };
                if let Some(want) = known.parameters.as_ref().map(|k| &k[index])
                    && !want.accepts(buffer.shape())
                {
                    return Err(self.wrong_argument(device, index, given, want));
                }
                handles.push(buffer.raw());
            }
        }
        let devices = arguments.len();
        let results = known.shared_results.len();
        let rows: SmallVec<[*const *mut PJRT_Buffer; 4]> =
            (0..devices).map(|d| handles[d * count..].as_ptr()).collect();
        let mut outputs: SmallVec<[*mut PJRT_Buffer; 8]> =
            SmallVec::from_elem(std::ptr::null_mut(), results * devices);
        let base = outputs.as_mut_ptr();
        // In bounds, or one past the end where there are no results.
        let output_rows: SmallVec<[*mut *mut PJRT_Buffer; 4]> =
            (0..devices).map(|d| base.wrapping_add(d * results)).collect();
        let mut completion: SmallVec<[*mut PJRT_Event; 4]> = SmallVec::new();
        if options.completion_events {
            completion.resize(devices, std::ptr::null_mut());
        }

        let mut how = PJRT_ExecuteOptions_V114::new();
        how.launch_id = options.launch_id;
        how.non_donatable_input_indices = options.keep.as_ptr();
        how.num_non_donatable_input_indices = options.keep.len();
        let mut args = PJRT_LoadedExecutable_Execute_Args::new();
        args.executable = loaded.raw.as_ptr();
        args.options = (&raw mut how).cast();
        args.argument_lists = rows.as_ptr();
        args.num_devices = devices;
        args.num_args = count;
        args.output_lists = output_rows.as_ptr();
        if options.completion_events {
            args.device_complete_events = completion.as_mut_ptr();
        }
        if let Some(device) = &options.device {
            args.execute_device = own_device(client, &**device, EXECUTE)?.raw();
        }
        pjrt_call!(client.plugin, PJRT_LoadedExecutable_Execute, &mut args)
            .map_err(|e| self.explain(e, arguments))?;

        // Take over everything before anything can fail, so that nothing leaks.
        let done = completion.iter().filter_map(|e| PluginEvent::new(client, *e));
        let completion = done.map(|e| Arc::new(e) as Arc<dyn Event>).collect();
        let owned = outputs.iter().enumerate().map(|(i, &raw)| {
            let shape = known.shared_results[i % results].clone();
            PluginBuffer::adopt(client, raw, shape, EXECUTE).map(|b| Arc::new(b) as Arc<dyn Buffer>)
        });
        if devices == 1 {
            let row = owned.collect::<Result<Vec<_>>>()?;
            return Ok(Execution {
                outputs: SmallVec::from_buf([row]),
                completion,
            });
        }
        let mut all = owned.collect::<Result<Vec<_>>>()?.into_iter();
        let outputs = (0..devices)
            .map(|_| all.by_ref().take(results).collect())
            .collect();
        Ok(Execution { outputs, completion })
    }

    fn fingerprint(&self) -> Result<Vec<u8>> {
        let args = ask!(
            self.plugin,
            PJRT_Executable_Fingerprint,
            executable = self.raw.as_ptr()
        )?;
        // SAFETY: bytes with their length, owned by the executable.
        Ok(unsafe {
            slice(
                args.executable_fingerprint.cast::<u8>(),
                args.executable_fingerprint_size,
            )
        }
        .to_vec())
    }

    fn cost_analysis(&self) -> Result<Vec<(String, NamedValue)>> {
        let args = ask!(
            self.plugin,
            PJRT_Executable_GetCostAnalysis,
            executable = self.raw.as_ptr()
        )?;
        // SAFETY: the list lives as long as the executable.
        Ok(unsafe { from_ffi(args.properties, args.num_properties) })
    }

    fn memory_stats(&self) -> Result<CompiledMemoryStats> {
        let mut args = PJRT_Executable_GetCompiledMemoryStats_Args_V114::new();
        args.executable = self.raw.as_ptr();
        // A plugin fills in as much as it knows; a peak that it does not know stays at this value.
        args.peak_memory_in_bytes = -1;
        let older: *mut PJRT_Executable_GetCompiledMemoryStats_Args = (&raw mut args).cast();
        pjrt_call!(self.plugin, PJRT_Executable_GetCompiledMemoryStats, older)?;
        Ok(CompiledMemoryStats {
            argument_bytes: args.argument_size_in_bytes,
            output_bytes: args.output_size_in_bytes,
            alias_bytes: args.alias_size_in_bytes,
            temp_bytes: args.temp_size_in_bytes,
            code_bytes: args.generated_code_size_in_bytes,
            peak_bytes: (args.peak_memory_in_bytes >= 0).then_some(args.peak_memory_in_bytes),
            host_bytes: args.host_argument_size_in_bytes
                + args.host_output_size_in_bytes
                + args.host_temp_size_in_bytes
                + args.host_generated_code_size_in_bytes,
        })
    }

    fn code_size(&self) -> Result<i64> {
        let args = ask!(
            self.plugin,
            PJRT_Executable_SizeOfGeneratedCodeInBytes,
            executable = self.raw.as_ptr()
        )?;
        Ok(args.size_in_bytes)
    }

    fn optimized_program(&self) -> Result<OptimizedProgram> {
        let mut program = PJRT_Program::new();
        let mut args = PJRT_Executable_OptimizedProgram_Args::new();
        args.executable = self.raw.as_ptr();
        args.program = &mut program;
        // The first call states the size, the second fills a buffer of it.
        pjrt_call!(self.plugin, PJRT_Executable_OptimizedProgram, &mut args)?;
        let mut code = vec![0u8; program.code_size];
        program.code = code.as_mut_ptr().cast();
        pjrt_call!(self.plugin, PJRT_Executable_OptimizedProgram, &mut args)?;
        // SAFETY: text with its length, static in the plugin or owned by the executable.
        let format = unsafe { text(program.format, program.format_size) };
        Ok(OptimizedProgram { format, code })
    }

    fn layouts(&self) -> Result<(Vec<String>, Vec<String>)> {
        super::layouts::of_executable(self.plugin, self.raw)
    }

    fn result_memory_kinds(&self) -> Result<Vec<String>> {
        let args = ask!(
            self.plugin,
            PJRT_Executable_OutputMemoryKinds,
            executable = self.raw.as_ptr()
        )?;
        // SAFETY: lists and texts live as long as the executable.
        unsafe {
            let sizes = slice(args.memory_kind_sizes, args.num_outputs);
            let kinds = slice(args.memory_kinds, args.num_outputs);
            Ok(kinds
                .iter()
                .zip(sizes)
                .map(|(kind, size)| text(*kind, *size))
                .collect())
        }
    }

    fn serialize(&self) -> Result<Vec<u8>> {
        let args = ask!(
            self.plugin,
            PJRT_Executable_Serialize,
            executable = self.raw.as_ptr()
        )?;
        // SAFETY: the bytes live until their owner is given to the deleter, once.
        unsafe {
            let bytes = slice(args.serialized_bytes.cast::<u8>(), args.serialized_bytes_size).to_vec();
            if let Some(delete) = args.serialized_executable_deleter {
                delete(args.serialized_executable);
            }
            Ok(bytes)
        }
    }

    fn delete(&self) -> Result<()> {
        let loaded = self.loaded_part("PJRT_LoadedExecutable_Delete")?;
        if loaded.deleted.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let mut args = PJRT_LoadedExecutable_Delete_Args::new();
        args.executable = loaded.raw.as_ptr();
        pjrt_call!(self.plugin, PJRT_LoadedExecutable_Delete, &mut args)
    }

    fn is_deleted(&self) -> Result<bool> {
        Ok(self
            .loaded_part("PJRT_LoadedExecutable_IsDeleted")?
            .deleted
            .load(Ordering::Relaxed))
    }
}

impl Drop for PluginExecutable {
    fn drop(&mut self) {
        let mut args = PJRT_Executable_Destroy_Args::new();
        args.executable = self.raw.as_ptr();
        pjrt_destroy!(self.plugin, PJRT_Executable_Destroy, &mut args);
        if let Some(Loaded { client, raw, .. }) = self.loaded.take() {
            drop(Unloader {
                client: &client,
                raw: Some(raw),
            });
        }
    }
}

/// From the HLO reader's shape; `None` for an element type that this build does not know.
fn shape_of(hlo: &hlo::ArrayShape) -> Option<Shape> {
    let mut shape = Shape::new(hlo.element_type?, &hlo.dims);
    for (i, dynamic) in hlo.dynamic.iter().enumerate().take(64) {
        shape.dynamic |= u64::from(*dynamic) << i;
    }
    Some(shape)
}
