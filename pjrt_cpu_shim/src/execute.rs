//! Executables: compiling, loading, and running under the memory limit.
//!
//! What a run takes and costs is worked out when an executable appears, so that running one is a table look-up for each
//! buffer and a few counters.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use pjrt_ffi::*;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::buffers;
use crate::client::{self, device_hbm};
use crate::descriptions::topology_of;
use crate::entry::entries;
use crate::error::{Fail, ShimError};
use crate::hbm::Hbm;
use crate::inner::{self, Padded, has_field, slice};
use crate::known::{Known, Unloaded, fits, study};
use crate::program;
use crate::signature;

static LOADED: RwLock<FxHashMap<usize, Arc<Known>>> = RwLock::new(FxHashMap::with_hasher(FxBuildHasher));

/// Loaded executables of hidden clients, by the `PJRT_Executable` that the caller has in their place.
static BEHIND: Mutex<FxHashMap<usize, usize>> = Mutex::new(FxHashMap::with_hasher(FxBuildHasher));

fn destroy_loaded(loaded: *mut PJRT_LoadedExecutable) -> Result<(), Fail> {
    let mut args = PJRT_LoadedExecutable_Destroy_Args::new();
    args.executable = loaded;
    inner::call(slot::PJRT_LoadedExecutable_Destroy, &mut args)
}

/// Enters a fresh executable that `fit` accepts into the table. Any other is destroyed, and so is one whose figures
/// are unknown: it could not be accounted for.
fn enter(
    loaded: *mut PJRT_LoadedExecutable,
    fit: impl FnOnce(&Known) -> Result<(), Fail>,
) -> Result<(), Fail> {
    let studied = study(loaded).and_then(|known| fit(&known).map(|()| known));
    match studied {
        Ok(known) => {
            LOADED.write().insert(loaded as usize, Arc::new(known));
            Ok(())
        }
        Err(error) => {
            destroy_loaded(loaded)?;
            Err(error)
        }
    }
}

/// Counts changes of [`LOADED`] that make a cached entry stale.
static EPOCH: AtomicU64 = AtomicU64::new(0);

const CACHED: usize = 16;

/// An executable that this thread ran lately, and the epoch in which its entry was valid.
type Recent = Option<(usize, u64, Arc<Known>)>;

thread_local! {
    static RECENT: Cell<[Recent; CACHED]> = const { Cell::new([const { None }; CACHED]) };
}

/// Calls `run` with what is known of `loaded`; the usual case touches no lock and no reference count.
#[inline]
fn with_known<R>(loaded: *mut PJRT_LoadedExecutable, run: impl FnOnce(&Known) -> R) -> Option<R> {
    let key = loaded as usize;
    let place = (key >> 6) % CACHED;
    // A thread that is going down has no cache any more.
    let cached = RECENT.try_with(|recent| take(recent, place)).ok().flatten();
    let epoch = EPOCH.load(Ordering::Acquire);
    let entry = match cached {
        Some((cached_key, cached_epoch, known)) if cached_key == key && cached_epoch == epoch => known,
        _ => LOADED.read().get(&key).cloned()?,
    };
    let result = run(&entry);
    let _ = RECENT.try_with(|recent| put(recent, place, (key, epoch, entry)));
    Some(result)
}

fn take(recent: &Cell<[Recent; CACHED]>, place: usize) -> Recent {
    // SAFETY: the cell is this thread's own and the reference ends before anything else can run.
    unsafe { (&mut *recent.as_ptr())[place].take() }
}

fn put(recent: &Cell<[Recent; CACHED]>, place: usize, entry: (usize, u64, Arc<Known>)) {
    // SAFETY: as in `take`; dropping the old entry frees plain memory and calls nothing.
    unsafe { (&mut *recent.as_ptr())[place] = Some(entry) };
}

/// Which arguments this run uses up: the program's donations less those the caller forbids.
///
/// # Safety
/// `args` is the caller's valid argument struct.
unsafe fn donated<'a>(
    known: &'a Known,
    args: *const PJRT_LoadedExecutable_Execute_Args,
) -> impl Iterator<Item = usize> + Clone + 'a {
    // SAFETY: the caller vouches for `args`; `options` is checked before its last fields are read.
    let (kept, count): (&[i64], usize) = unsafe {
        let options = (*args).options;
        let kept = if options.is_null()
            || !has_field!(options, PJRT_ExecuteOptions, num_non_donatable_input_indices)
        {
            &[]
        } else {
            slice(
                (*options).non_donatable_input_indices,
                (*options).num_non_donatable_input_indices,
            )
        };
        (kept, (*args).num_args)
    };
    known
        .taken
        .donated
        .iter()
        .copied()
        .filter(move |&index| index < count && !kept.contains(&(index as i64)))
}

/// Runs an executable under the memory limit.
///
/// # Safety
/// `args` is the caller's valid argument struct.
unsafe fn run(known: &Known, args: *mut PJRT_LoadedExecutable_Execute_Args) -> Result<(), Fail> {
    // SAFETY: the caller vouches for `args` and what it points at.
    unsafe {
        let rows = (*args).num_devices;
        let chosen = if has_field!(args, PJRT_LoadedExecutable_Execute_Args, execute_device)
            && !(*args).execute_device.is_null()
        {
            Some(device_hbm((*args).execute_device))
        } else {
            None
        };
        let hbm = |row: usize| chosen.unwrap_or_else(|| known.hbms.get(row).copied().flatten());
        let undo = |rows: usize| {
            (0..rows)
                .filter_map(hbm)
                .for_each(|hbm| hbm.release(known.output_bytes))
        };
        // Before the memory: a wrong call is wrong at the limit too.
        if let Some(parameters) = &known.taken.parameters {
            if chosen.is_none() && rows != known.hbms.len() || chosen.is_some() && rows != 1 {
                return Err(wrong_rows(known, rows, chosen.is_some()).into());
            }
            for row in 0..rows {
                let arguments = if (*args).argument_lists.is_null() || (*args).num_args == 0 {
                    std::ptr::null()
                } else {
                    *(*args).argument_lists.add(row)
                };
                signature::check(
                    &known.name,
                    parameters,
                    arguments,
                    (*args).num_args,
                    row,
                    hbm(row),
                )?;
            }
        }
        for row in 0..rows {
            let Some(hbm) = hbm(row) else { continue };
            let freed = if known.taken.donated.is_empty() || (*args).argument_lists.is_null() {
                0
            } else {
                let arguments = *(*args).argument_lists.add(row);
                donated(known, args)
                    .map(|index| buffers::freeable(*arguments.add(index), hbm))
                    .sum()
            };
            if !hbm.take(known.output_bytes, known.temp_bytes, freed) {
                undo(row);
                return Err(refuse(known, hbm, freed).into());
            }
        }
        if let Err(error) = inner::call(slot::PJRT_LoadedExecutable_Execute, args) {
            undo(rows);
            return Err(error);
        }
        for row in 0..rows {
            let Some(hbm) = hbm(row) else { continue };
            if !known.taken.donated.is_empty() {
                let arguments = *(*args).argument_lists.add(row);
                donated(known, args).for_each(|index| buffers::remove(*arguments.add(index)));
            }
            hbm.count(known.counted.0, known.counted.1);
            let made = *(*args).output_lists.add(row);
            for (at, output) in known.outputs.iter().enumerate() {
                if let Some((bytes, shape)) = output {
                    buffers::insert(*made.add(at), hbm, *bytes, shape.clone());
                }
            }
        }
        Ok(())
    }
}

#[cold]
fn wrong_rows(known: &Known, rows: usize, chosen: bool) -> ShimError {
    let devices = if chosen { 1 } else { known.hbms.len() };
    let why = if chosen {
        " where execute_device is set"
    } else {
        ""
    };
    ShimError::invalid(format!(
        "PJRT_LoadedExecutable_Execute: num_devices is {rows}, {} runs on {devices}{why}",
        known.name
    ))
}

#[cold]
fn refuse(known: &Known, hbm: &'static Hbm, freed: u64) -> ShimError {
    let purpose = format!(
        "to run {} ({} bytes of outputs and {} of temporaries; its donated arguments free {freed})",
        known.name, known.output_bytes, known.temp_bytes
    );
    buffers::exhausted(hbm, known.output_bytes + known.temp_bytes, &purpose)
}

/// Serializes `executable` and loads it into `client`.
fn reload(
    client: *mut PJRT_Client,
    executable: *mut PJRT_Executable,
) -> Result<*mut PJRT_LoadedExecutable, Fail> {
    let mut serialized = PJRT_Executable_Serialize_Args::new();
    serialized.executable = executable;
    inner::call(slot::PJRT_Executable_Serialize, &mut serialized)?;
    let mut load = Padded::new(PJRT_Executable_DeserializeAndLoad_Args::new());
    load.args.client = client;
    load.args.serialized_executable = serialized.serialized_bytes;
    load.args.serialized_executable_size = serialized.serialized_bytes_size;
    let loaded = inner::call(slot::PJRT_Executable_DeserializeAndLoad, &mut load);
    if let Some(free) = serialized.serialized_executable_deleter {
        // SAFETY: the plugin's deleter on what the plugin made, once.
        unsafe { free(serialized.serialized_executable) };
    }
    loaded.map(|()| load.args.loaded_executable)
}

entries! {
    "PJRT_Client_Compile" fn compile(args: PJRT_Client_Compile_Args, upto executable) {
        inner::call(slot::PJRT_Client_Compile, args)?;
        enter((*args).executable, |known| {
            let limits = known.hbms.iter().flatten().map(|hbm| hbm.stats().limit);
            limits.min().map_or(Ok(()), |limit| fits(known, limit))
        })
    }
    "PJRT_Executable_DeserializeAndLoad"
    fn deserialize_and_load(args: PJRT_Executable_DeserializeAndLoad_Args, upto loaded_executable) {
        inner::call(slot::PJRT_Executable_DeserializeAndLoad, args)?;
        enter((*args).loaded_executable, |_| Ok(()))
    }
    "PJRT_Client_Load" fn load(args: PJRT_Client_Load_Args, upto loaded_executable) {
        // The executable may belong to a hidden client, which the inner plugin's own loading does not foresee.
        let loaded = reload((*args).client, (*args).executable)?;
        enter(loaded, |_| Ok(()))?;
        (*args).loaded_executable = loaded;
        Ok(())
    }
    "PJRT_Compile" fn compile_for_topology(args: PJRT_Compile_Args, upto executable) {
        let topology = topology_of((*args).topology)?;
        let client = if (*args).client.is_null() { client::hidden(topology.device_count())? } else { (*args).client };
        let mut compile = PJRT_Client_Compile_Args::new();
        compile.client = client;
        compile.program = (*args).program;
        compile.compile_options = (*args).compile_options;
        compile.compile_options_size = (*args).compile_options_size;
        inner::call(slot::PJRT_Client_Compile, &mut compile)?;
        let fit = study(compile.executable).and_then(|known| fits(&known, topology.hbm_bytes));
        match fit.and_then(|()| Unloaded::of(compile.executable)) {
            Ok(executable) => {
                // What it says of itself it asks the loaded one, which has to stay.
                (*args).executable = std::mem::ManuallyDrop::new(executable).0;
                BEHIND.lock().insert((*args).executable as usize, compile.executable as usize);
                Ok(())
            }
            Err(error) => {
                destroy_loaded(compile.executable)?;
                Err(error)
            }
        }
    }
    "PJRT_Executable_Destroy" fn executable_destroy(args: PJRT_Executable_Destroy_Args, upto executable) {
        let key = (*args).executable as usize;
        program::forget(key);
        let loaded = BEHIND.lock().remove(&key);
        inner::call(slot::PJRT_Executable_Destroy, args)?;
        loaded.map_or(Ok(()), |loaded| destroy_loaded(loaded as *mut PJRT_LoadedExecutable))
    }
    "PJRT_LoadedExecutable_Destroy" fn destroy(args: PJRT_LoadedExecutable_Destroy_Args, upto executable) {
        LOADED.write().remove(&((*args).executable as usize));
        EPOCH.fetch_add(1, Ordering::Release);
        inner::call(slot::PJRT_LoadedExecutable_Destroy, args)
    }
    "PJRT_LoadedExecutable_Execute" fn execute(args: PJRT_LoadedExecutable_Execute_Args, upto device_complete_events) {
        with_known((*args).executable, |known| run(known, args)).unwrap_or_else(|| {
            Err(ShimError::invalid("PJRT_LoadedExecutable_Execute: the executable is null or was destroyed").into())
        })
    }
}
