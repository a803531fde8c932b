//! How the shim's own table entries are written.

/// Defines table entries: each checks the argument struct, runs its body with `args` as a raw pointer, and turns a
/// failure or panic into an error object.
///
/// `upto` is the last field the body touches without asking [`crate::inner::has_field`].
macro_rules! entries {
    ($($(#[$doc:meta])* $pjrt:literal fn $name:ident($args:ident: $ty:ty, upto $field:ident) $body:block)*) => {$(
        $(#[$doc])*
        pub(crate) unsafe extern "C" fn $name($args: *mut $ty) -> *mut PJRT_Error {
            crate::error::guard($pjrt, || {
                if $args.is_null() || !crate::inner::has_field!($args, $ty, $field) {
                    return Err(crate::error::ShimError::invalid(format!(
                        "{}: the argument struct is null or too small (struct_size must cover `{}`)",
                        $pjrt,
                        stringify!($field)
                    ))
                    .into());
                }
                // SAFETY: the struct reaches past every field the body uses, and PJRT's contract makes the
                // pointers in it valid for the call.
                #[allow(unused_unsafe)]
                unsafe { $body }
            })
        }
    )*};
}
pub(crate) use entries;
