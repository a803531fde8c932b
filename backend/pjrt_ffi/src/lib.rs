//! The PJRT C API as raw declarations.
//!
//! `pjrt-sys` generates bindings from a header at API 0.54. Plugins in use are at 0.106 to 0.117, so what
//! came later is declared here by hand, as little as we call. Every table entry past a plugin's
//! `struct_size` is absent and every extension is optional: see [`api_has`] and [`find_extension`].
#![allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    missing_docs,
    unreachable_pub
)]

pub use pjrt_sys::*;

mod code;
mod extensions;
mod libtpu;
mod newer;
mod walk;

pub use code::Code;
pub use extensions::*;
pub use libtpu::is_libtpu;
pub use newer::*;
pub use walk::{api_fn_at, api_has, find_extension};
