//! Arguments that would take the CPU plugin down are refused, and the process lives on.

mod common;

use std::ffi::c_void;

use common::*;
use pjrt_ffi::*;

const F32: u32 = 11;
const WRONG: [(u32, &[i64], &str); 5] = [
    (F32, &[2, -1], "-1"),
    (F32, &[i64::MAX, 2], "overflows"),
    (F32, &[1 << 31, 1 << 31], "overflows"),
    (0, &[2], "element type 0"),
    (999, &[2], "element type 999"),
];

/// `PJRT_Client_CreateUninitializedBuffer_Args`.
#[repr(C)]
struct Uninitialized {
    struct_size: usize,
    extension_start: usize,
    client: *mut PJRT_Client,
    dims: *const i64,
    num_dims: usize,
    element_type: u32,
    layout: *mut c_void,
    device: *mut PJRT_Device,
    memory: *mut PJRT_Memory,
    buffer: *mut PJRT_Buffer,
}

/// `PJRT_Client_CreateAliasBuffer_Args`.
#[repr(C)]
struct Alias {
    struct_size: usize,
    extension_start: usize,
    client: *mut PJRT_Client,
    memory: *mut PJRT_Memory,
    dims: *const i64,
    num_dims: usize,
    element_type: u32,
    layout: *mut c_void,
    alias_buffer: *mut PJRT_Buffer,
    callback: *mut c_void,
}

/// `PJRT_Client_CreateErrorBuffer_Args`.
#[repr(C)]
struct ErrorBuffer {
    struct_size: usize,
    extension_start: usize,
    client: *mut PJRT_Client,
    code: u32,
    message: *const u8,
    message_size: usize,
    dims: *const i64,
    num_dims: usize,
    element_type: u32,
    layout: *mut c_void,
    memory: *mut PJRT_Memory,
    buffer: *mut PJRT_Buffer,
}

fn refused(result: Result<(), Failure>, call: &str, part: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.code, INVALID_ARGUMENT, "{error:?}");
    assert!(
        error.message.contains(call) && error.message.contains(part),
        "{error:?} has no {part:?}"
    );
}

fn error_buffer(client: &Client, code: u32, element_type: u32, dims: &[i64]) -> Result<(), Failure> {
    // SAFETY: all fields of an argument struct may be zero.
    let mut args: Padded<ErrorBuffer> = padded(unsafe { std::mem::zeroed() });
    args.args.client = client.raw;
    args.args.code = code;
    args.args.message = b"why".as_ptr();
    args.args.message_size = 3;
    args.args.dims = dims.as_ptr();
    args.args.num_dims = dims.len();
    args.args.element_type = element_type;
    args.args.memory = client.memory(0, "device");
    call(slot::PJRT_Client_CreateErrorBuffer, &mut args)?;
    destroy(args.args.buffer);
    Ok(())
}

#[test]
fn impossible_shapes() {
    on_each_plugin("impossible_shapes", &[], || {
        let client = Client::create().unwrap();
        for (element_type, dims, part) in WRONG {
            for memory in ["device", "pinned_host"] {
                let memory = client.memory(0, memory);
                let mut args = PJRT_Client_BufferFromHostBuffer_Args::new();
                args.client = client.raw;
                args.data = [0_f32; 4].as_ptr().cast();
                args.type_ = element_type;
                (args.dims, args.num_dims) = (dims.as_ptr(), dims.len());
                args.memory = memory;
                let result = call(slot::PJRT_Client_BufferFromHostBuffer, &mut args);
                refused(result, "BufferFromHostBuffer", part);

                // SAFETY: all fields of an argument struct may be zero.
                let mut args: Padded<Uninitialized> = padded(unsafe { std::mem::zeroed() });
                args.args.client = client.raw;
                (args.args.dims, args.args.num_dims) = (dims.as_ptr(), dims.len());
                args.args.element_type = element_type;
                args.args.memory = memory;
                let result = call(slot::PJRT_Client_CreateUninitializedBuffer, &mut args);
                refused(result, "CreateUninitializedBuffer", part);

                // SAFETY: as above.
                let mut args: Padded<Alias> = padded(unsafe { std::mem::zeroed() });
                args.args.client = client.raw;
                (args.args.dims, args.args.num_dims) = (dims.as_ptr(), dims.len());
                args.args.element_type = element_type;
                args.args.memory = memory;
                let result = call(slot::PJRT_Client_CreateAliasBuffer, &mut args);
                refused(result, "CreateAliasBuffer", part);
            }
            let result = error_buffer(&client, INTERNAL, element_type, dims);
            refused(result, "CreateErrorBuffer", part);
        }
        assert_eq!(in_use(client.devices[0]), 0);
        destroy(client.upload(0, &[1.0; 4]).unwrap());
        client.destroy();
    });
}

#[test]
fn an_error_buffer_needs_an_error() {
    on_each_plugin("an_error_buffer_needs_an_error", &[], || {
        let client = Client::create().unwrap();
        error_buffer(&client, INTERNAL, F32, &[2]).unwrap();
        for code in [0, 17] {
            refused(
                error_buffer(&client, code, F32, &[2]),
                "CreateErrorBuffer",
                "is no error",
            );
        }
        client.destroy();
    });
}

#[test]
fn assignments_that_do_not_fit() {
    let env = [("TORCH_TPU_SIM_TOPOLOGY", "v6e:2x2")];
    on_each_plugin("assignments_that_do_not_fit", &env, || {
        let client = Client::create().unwrap();
        let mut room = [-1_i32; 16];
        let mut assign = |replicas: i32, partitions: i32| {
            let mut args = PJRT_Client_DefaultDeviceAssignment_Args::new();
            args.client = client.raw;
            args.num_replicas = replicas;
            args.num_partitions = partitions;
            args.default_assignment_size = room.len();
            args.default_assignment = room.as_mut_ptr();
            call(slot::PJRT_Client_DefaultDeviceAssignment, &mut args).map(|()| room[..4].to_vec())
        };
        let mut all = assign(2, 2).unwrap();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3]);
        for (replicas, partitions) in [
            (0, 1),
            (1, 0),
            (-1, -1),
            (5, 1),
            (2, 3),
            (i32::MAX, i32::MAX),
            (1 << 16, 1 << 16),
        ] {
            refused(
                assign(replicas, partitions).map(|_| ()),
                "DefaultDeviceAssignment",
                "do not fit 4 devices",
            );
        }
        client.destroy();
    });
}
