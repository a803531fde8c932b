//! Arguments that would take the CPU plugin down are refused, and the process lives on.

mod common;

use std::ffi::c_void;

use common::raw::*;
use common::*;
use pjrt_ffi::*;

const WRONG: [(u32, &[i64], &str); 5] = [
    (F32, &[2, -1], "-1"),
    (F32, &[i64::MAX, 2], "overflows"),
    (F32, &[1 << 31, 1 << 31], "overflows"),
    (0, &[2], "element type 0"),
    (999, &[2], "element type 999"),
];

fn error_buffer(client: &Client, code: u32, element_type: u32, dims: &[i64]) -> Result<(), Failure> {
    let mut args = padded(ErrorBuffer::zeroed());
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

fn view(client: &Client, memory: *mut c_void, element_type: u32, dims: &[i64]) -> Result<(), Failure> {
    let mut args = padded(PJRT_Client_CreateViewOfDeviceBuffer_Args::new());
    args.args.client = client.raw;
    args.args.device_buffer_ptr = memory;
    (args.args.dims, args.args.num_dims) = (dims.as_ptr(), dims.len());
    args.args.element_type = element_type;
    args.args.device = client.devices[0];
    call(slot::PJRT_Client_CreateViewOfDeviceBuffer, &mut args)?;
    destroy(args.args.buffer);
    Ok(())
}

fn bitcast(buffer: *mut PJRT_Buffer, element_type: u32, dims: &[i64]) -> Result<(), Failure> {
    let mut args = padded(Bitcast::zeroed());
    args.args.buffer = buffer;
    args.args.element_type = element_type;
    (args.args.dims, args.args.num_dims) = (dims.as_ptr(), dims.len());
    call(slot::PJRT_Buffer_Bitcast, &mut args)?;
    destroy(args.args.out_buffer);
    Ok(())
}

#[test]
fn memory_seen_as_another_size() {
    on_each_plugin("memory_seen_as_another_size", &[], || {
        let client = Client::create().unwrap();
        let buffer = client.upload(0, &[1.0; 4]).unwrap();
        for (element_type, dims) in [(F32, &[5][..]), (F32, &[3]), (S32, &[2, 3]), (F32, &[])] {
            refused(
                bitcast(buffer, element_type, dims),
                "Buffer_Bitcast",
                "the buffer is f32[4] of 16 bytes",
            );
        }
        refused(
            bitcast(std::ptr::null_mut(), F32, &[4]),
            "Buffer_Bitcast",
            "is null",
        );
        delete(buffer);
        refused(bitcast(buffer, F32, &[4]), "Buffer_Bitcast", "was deleted");
        destroy(buffer);
        refused(
            view(&client, std::ptr::null_mut(), F32, &[4]),
            "CreateViewOfDeviceBuffer",
            "is null where 16 bytes",
        );
        let mut args = padded(StartTransfer::zeroed());
        args.args.client = client.raw;
        args.args.num_specs = 2;
        args.args.memory = client.memory(0, "device");
        let result = call(slot::PJRT_Client_CreateBuffersForAsyncHostToDevice, &mut args);
        refused(result, "CreateBuffersForAsyncHostToDevice", "shape_specs is null");
        assert_eq!(in_use(client.devices[0]), 0);
        client.destroy();
    });
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

                let mut args = padded(Uninitialized::zeroed());
                args.args.client = client.raw;
                (args.args.dims, args.args.num_dims) = (dims.as_ptr(), dims.len());
                args.args.element_type = element_type;
                args.args.memory = memory;
                let result = call(slot::PJRT_Client_CreateUninitializedBuffer, &mut args);
                refused(result, "CreateUninitializedBuffer", part);

                let mut args = padded(Alias::zeroed());
                args.args.client = client.raw;
                (args.args.dims, args.args.num_dims) = (dims.as_ptr(), dims.len());
                args.args.element_type = element_type;
                args.args.memory = memory;
                let result = call(slot::PJRT_Client_CreateAliasBuffer, &mut args);
                refused(result, "CreateAliasBuffer", part);

                let good = ShapeSpec::new(F32, &[2]);
                let specs = [good, ShapeSpec::new(element_type, dims)];
                let mut args = padded(StartTransfer::zeroed());
                args.args.client = client.raw;
                (args.args.specs, args.args.num_specs) = (specs.as_ptr(), specs.len());
                args.args.memory = memory;
                let result = call(slot::PJRT_Client_CreateBuffersForAsyncHostToDevice, &mut args);
                refused(result, "CreateBuffersForAsyncHostToDevice", part);
            }
            let mut memory = [0_f32; 4];
            let result = view(&client, memory.as_mut_ptr().cast(), element_type, dims);
            refused(result, "CreateViewOfDeviceBuffer", part);
            let buffer = client.upload(0, &[1.0; 4]).unwrap();
            refused(bitcast(buffer, element_type, dims), "Buffer_Bitcast", part);
            destroy(buffer);
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
