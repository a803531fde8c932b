//! The layouts extension: how parameters and results lie in device memory.

use std::ptr::NonNull;

use pjrt_ffi::*;

use super::Plugin;
use crate::Result;
use crate::named_value::slice;

/// An entry of the extension's struct, when the plugin's is long enough to have it.
macro_rules! entry {
    ($plugin:expr, $extension:expr, $field:ident) => {{
        let end = std::mem::offset_of!(PJRT_Layouts_Extension, $field) + size_of::<*const u8>();
        let name = concat!("PJRT_Layouts.", stringify!($field));
        // SAFETY: the base is there in every version; the entry is read only inside the struct's own size.
        let found = unsafe {
            if $extension.as_ref().base.struct_size >= end {
                (*$extension.as_ptr()).$field
            } else {
                None
            }
        };
        found.ok_or_else(|| $plugin.unsupported(name))
    }};
}

/// Text of each layout in the list, which stays the plugin's.
fn texts(plugin: &Plugin, layouts: &[*mut PJRT_Layouts_MemoryLayout]) -> Result<Vec<String>> {
    let extension = plugin.layouts()?;
    let serialize = entry!(plugin, extension, memory_layout_serialize)?;
    let one = |layout: &*mut PJRT_Layouts_MemoryLayout| {
        let mut args = PJRT_Layouts_MemoryLayout_Serialize_Args::new();
        args.layout = *layout;
        // SAFETY: the layout is live; the bytes live until their owner is given to the deleter, once.
        unsafe {
            plugin.check("PJRT_Layouts_MemoryLayout_Serialize", serialize(&mut args))?;
            let bytes = slice(args.serialized_bytes.cast::<u8>(), args.serialized_bytes_size);
            let text = String::from_utf8_lossy(bytes).into_owned();
            if let Some(delete) = args.serialized_layout_deleter {
                delete(args.serialized_layout);
            }
            Ok(text)
        }
    };
    layouts.iter().map(one).collect()
}

/// Layouts of an executable's parameters and results.
pub(crate) fn of_executable(
    plugin: &Plugin,
    raw: NonNull<PJRT_Executable>,
) -> Result<(Vec<String>, Vec<String>)> {
    let extension = plugin.layouts()?;
    let mut parameters = PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args::new();
    parameters.executable = raw.as_ptr();
    let get = entry!(plugin, extension, executable_get_parameter_layouts)?;
    // SAFETY: the executable is live, and so are the lists as long as it is.
    let parameters = unsafe {
        plugin.check(
            "PJRT_Layouts_PJRT_Executable_GetParameterLayouts",
            get(&mut parameters),
        )?;
        slice(parameters.layouts, parameters.num_parameters)
    };
    let mut results = PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args::new();
    results.executable = raw.as_ptr();
    let get = entry!(plugin, extension, executable_get_output_layouts)?;
    // SAFETY: as above.
    let results = unsafe {
        plugin.check("PJRT_Layouts_PJRT_Executable_GetOutputLayouts", get(&mut results))?;
        slice(results.layouts, results.num_outputs)
    };
    Ok((texts(plugin, parameters)?, texts(plugin, results)?))
}
