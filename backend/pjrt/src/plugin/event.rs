//! Events of a plugin.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_ffi::*;

use super::client::ClientInner;
use super::{ask, pjrt_call, pjrt_destroy};
use crate::{Event, Result};

/// An event handle and its client.
#[derive(Debug)]
pub(crate) struct PluginEvent {
    client: Arc<ClientInner>,
    raw: NonNull<PJRT_Event>,
}

// SAFETY: PJRT events may be used from any thread.
unsafe impl Send for PluginEvent {}
// SAFETY: as above.
unsafe impl Sync for PluginEvent {}

type Callback = Box<dyn FnOnce(Result<()>) + Send>;

/// What `on_ready` hands through C: the closure, and the client for reading the error.
struct Pending {
    then: Callback,
    client: Arc<ClientInner>,
}

unsafe extern "C" fn ready(error: *mut PJRT_Error, user: *mut c_void) {
    // SAFETY: `user` is the box that `on_ready` leaked, and PJRT calls back exactly once.
    let pending = unsafe { Box::from_raw(user.cast::<Pending>()) };
    let outcome = catch_unwind(AssertUnwindSafe(move || {
        let Pending { then, client } = *pending;
        then(client.plugin.check("PJRT_Event_OnReady", error));
        // Last: this may be the last owner of the client, and then destroys it.
        client.release_from_callback();
    }));
    if outcome.is_err() {
        tracing::error!("a callback on a PJRT event panicked");
    }
}

impl PluginEvent {
    /// Takes over `raw`; `None` for a null event.
    pub(crate) fn new(client: &Arc<ClientInner>, raw: *mut PJRT_Event) -> Option<Self> {
        NonNull::new(raw).map(|raw| Self {
            client: client.clone(),
            raw,
        })
    }
}

impl Event for PluginEvent {
    fn is_ready(&self) -> Result<bool> {
        let args = ask!(self.client.plugin, PJRT_Event_IsReady, event = self.raw.as_ptr())?;
        Ok(args.is_ready)
    }

    fn wait(&self) -> Result<()> {
        let mut args = PJRT_Event_Await_Args::new();
        args.event = self.raw.as_ptr();
        pjrt_call!(self.client.plugin, PJRT_Event_Await, &mut args)
    }

    fn on_ready(&self, then: Callback) -> Result<()> {
        let pending = Box::into_raw(Box::new(Pending {
            then,
            client: self.client.clone(),
        }));
        let mut args = PJRT_Event_OnReady_Args::new();
        args.event = self.raw.as_ptr();
        args.callback = Some(ready);
        args.user_arg = pending.cast();
        pjrt_call!(self.client.plugin, PJRT_Event_OnReady, &mut args).inspect_err(|_| {
            // SAFETY: the call failed, so PJRT never calls back and the box is still ours.
            drop(unsafe { Box::from_raw(pending) });
        })
    }
}

impl Drop for PluginEvent {
    fn drop(&mut self) {
        let mut args = PJRT_Event_Destroy_Args::new();
        args.event = self.raw.as_ptr();
        pjrt_destroy!(self.client.plugin, PJRT_Event_Destroy, &mut args);
    }
}

/// An event that has happened.
#[derive(Debug)]
pub(crate) struct Done;

impl Event for Done {
    fn is_ready(&self) -> Result<bool> {
        Ok(true)
    }

    fn wait(&self) -> Result<()> {
        Ok(())
    }

    fn on_ready(&self, then: Callback) -> Result<()> {
        then(Ok(()));
        Ok(())
    }
}
