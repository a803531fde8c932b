//! Loading a plugin, its table and its extensions.

use std::collections::HashMap;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::LazyLock;

use parking_lot::Mutex;
use pjrt_ffi::*;

use super::pjrt_call;
use crate::named_value::{from_ffi, text};
use crate::{Code, Error, NamedValue, Result, platform};

/// The major version of the API that this crate is written against.
const API_MAJOR: i32 = 0;

/// An extension that a plugin offers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExtensionInfo {
    /// `PJRT_Extension_Type`.
    pub kind: u32,
    /// Its name, where this build knows it.
    pub name: Option<&'static str>,
    /// Size of its struct: entries past it are absent.
    pub struct_size: usize,
}

/// A loaded plugin. Lives for the rest of the process.
#[derive(Debug)]
pub struct Plugin {
    path: PathBuf,
    api: NonNull<PJRT_Api>,
    struct_size: usize,
    version: (i32, i32),
}

// SAFETY: the table is immutable after `GetPjrtApi`, and PJRT's functions may be called from any thread.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

static LOADED: LazyLock<Mutex<HashMap<PathBuf, &'static Plugin>>> = LazyLock::new(Mutex::default);

impl Plugin {
    /// Opens the plugin at `path` and initializes it, once a process. It stays loaded for good.
    pub fn load(path: impl AsRef<Path>) -> Result<&'static Self> {
        let path = path.as_ref();
        let load = |reason: String| Error::Load {
            path: path.to_owned(),
            reason,
        };
        let path = &path.canonicalize().map_err(|e| load(e.to_string()))?;
        platform::check_may_load(path)?;
        // Held over the whole load: a plugin initializes once.
        let mut loaded = LOADED.lock();
        if let Some(plugin) = loaded.get(path) {
            return Ok(plugin);
        }
        let plugin = Self::open(path)?;
        let mut args = PJRT_Plugin_Initialize_Args::new();
        pjrt_call!(&plugin, PJRT_Plugin_Initialize, &mut args)?;
        let plugin = Box::leak(Box::new(plugin));
        loaded.insert(path.clone(), plugin);
        Ok(plugin)
    }

    fn open(path: &Path) -> Result<Self> {
        use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
        let load = |reason: String| Error::Load {
            path: path.to_owned(),
            reason,
        };
        let not_a_plugin = |reason: &str| Error::NotAPlugin {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        // SAFETY: running the library's initializers is what the user asked for by naming it.
        let library =
            unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(|e| load(chain(&e)))?;
        // A plugin's threads and exit handlers outlive any handle: it is never closed.
        let library = std::mem::ManuallyDrop::new(library);
        type GetPjrtApi = unsafe extern "C" fn() -> *const PJRT_Api;
        // SAFETY: the symbol's type is fixed by the PJRT convention.
        let get = unsafe { library.get::<GetPjrtApi>(b"GetPjrtApi\0") };
        let get = get.map_err(|_| not_a_plugin("it does not export GetPjrtApi"))?;
        // SAFETY: as above.
        let api = NonNull::new(unsafe { get() }.cast_mut())
            .ok_or_else(|| not_a_plugin("GetPjrtApi returned null"))?;
        // SAFETY: every version starts with size, extensions and version (40 bytes); nothing past them is read here.
        let (struct_size, major, minor) = unsafe {
            let api = api.as_ptr();
            (
                (*api).struct_size,
                (*api).pjrt_api_version.major_version,
                (*api).pjrt_api_version.minor_version,
            )
        };
        if major != API_MAJOR {
            return Err(Error::ApiVersion {
                path: path.to_owned(),
                major,
                minor,
                ours: API_MAJOR,
            });
        }
        if struct_size <= VTABLE_OFFSET {
            return Err(not_a_plugin("its function table is empty"));
        }
        Ok(Self {
            path: path.to_owned(),
            api,
            struct_size,
            version: (major, minor),
        })
    }

    /// Where it was loaded from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Major and minor API version.
    pub fn api_version(&self) -> (i32, i32) {
        self.version
    }

    /// The raw table: whoever calls through it is outside this crate's guards.
    pub fn api(&self) -> *const PJRT_Api {
        self.api.as_ptr()
    }

    pub(crate) fn has(&self, offset: usize) -> bool {
        offset + size_of::<*const c_void>() <= self.struct_size
    }

    /// Its extensions, in the order of the chain.
    pub fn extensions(&self) -> Vec<ExtensionInfo> {
        let mut found = Vec::new();
        // SAFETY: the head follows the size in every version; nodes are static in the plugin.
        let mut at = unsafe { (*self.api.as_ptr()).extension_start };
        while let Some(node) = NonNull::new(at) {
            // SAFETY: as above.
            let base = unsafe { node.as_ref() };
            let kind = base.type_;
            found.push(ExtensionInfo {
                kind,
                name: extension_kind::name(kind),
                struct_size: base.struct_size,
            });
            at = base.next;
        }
        found
    }

    /// The layouts extension; check its size before an entry.
    pub(crate) fn layouts(&self) -> Result<NonNull<PJRT_Layouts_Extension>> {
        // SAFETY: the plugin's own chain (invariant 1).
        let found = unsafe { find_extension((*self.api.as_ptr()).extension_start, extension_kind::LAYOUTS) };
        found
            .map(NonNull::cast)
            .ok_or_else(|| self.unsupported("the Layouts extension"))
    }

    /// Versions and other facts that the plugin states.
    pub fn attributes(&self) -> Vec<(String, NamedValue)> {
        let mut args = PJRT_Plugin_Attributes_Args::new();
        // The 0.54 header states this struct's size without its last field.
        args.struct_size = size_of::<PJRT_Plugin_Attributes_Args>();
        match pjrt_call!(self, PJRT_Plugin_Attributes, &mut args) {
            // SAFETY: the plugin filled in the list and its length; it is static.
            Ok(()) => unsafe { from_ffi(args.attributes, args.num_attributes) },
            Err(_) => Vec::new(),
        }
    }

    pub(crate) fn unsupported(&self, call: &'static str) -> Error {
        let (major, minor) = self.version;
        Error::Unsupported {
            call,
            plugin: format!("{} (API {major}.{minor})", self.path.display()),
        }
    }

    pub(crate) fn call_slot<A>(&self, call: &'static str, slot: usize, args: *mut A) -> Result<()> {
        // SAFETY: the table is whole and lives for the process (invariant 1).
        let entry =
            unsafe { api_fn_at(self.api, slot_offset(slot)) }.ok_or_else(|| self.unsupported(call))?;
        // SAFETY: every entry but those of errors takes one argument struct and returns an error or null.
        let function = unsafe { std::mem::transmute::<NonNull<c_void>, PjrtFn<A>>(entry) };
        // SAFETY: invariants 2 and 3.
        self.check(call, unsafe { function(args) })
    }

    /// Takes over a returned error.
    #[inline]
    pub(crate) fn check(&self, call: &'static str, error: *mut PJRT_Error) -> Result<()> {
        match NonNull::new(error) {
            None => Ok(()),
            Some(error) => Err(self.take_error(call, error)),
        }
    }

    #[cold]
    fn take_error(&self, call: &'static str, error: NonNull<PJRT_Error>) -> Error {
        // SAFETY: the table has held these three entries since its first version, and the error is ours to free.
        unsafe {
            let api = &*self.api.as_ptr();
            let mut message = PJRT_Error_Message_Args::new();
            message.error = error.as_ptr();
            if let Some(get) = api.PJRT_Error_Message {
                get(&mut message);
            }
            let mut code = PJRT_Error_GetCode_Args::new();
            code.error = error.as_ptr();
            if let Some(get) = api.PJRT_Error_GetCode {
                // Asking for the code can fail itself; that second error is freed and the code stays unknown.
                if let Some(second) = NonNull::new(get(&mut code)) {
                    self.free_error(second);
                }
            }
            let message = text(message.message, message.message_size);
            self.free_error(error);
            Error::Plugin {
                call,
                code: Code::from_pjrt(code.code),
                message,
            }
        }
    }

    fn free_error(&self, error: NonNull<PJRT_Error>) {
        let mut args = PJRT_Error_Destroy_Args::new();
        args.error = error.as_ptr();
        // SAFETY: the error is live and freed once.
        unsafe {
            if let Some(destroy) = (*self.api.as_ptr()).PJRT_Error_Destroy {
                destroy(&mut args);
            }
        }
    }
}

/// An error with its causes on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut at = error.source();
    while let Some(cause) = at {
        text = format!("{text}: {cause}");
        at = cause.source();
    }
    text
}
