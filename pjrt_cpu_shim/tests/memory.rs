//! Memory statistics, the limit, donation, and what does not count.

mod common;

use common::raw::*;
use common::*;
use pjrt_ffi::*;

const KIB: usize = 256;

#[test]
fn statistics_follow_every_buffer() {
    on_each_plugin(
        "statistics_follow_every_buffer",
        &[("TORCH_TPU_SIM_TOPOLOGY", "v6e:1x2")],
        || {
            let client = Client::create().unwrap();
            let device = client.devices[0];
            assert_eq!(in_use(device), 0);
            let a = client.upload(0, &[1.0; KIB]).unwrap();
            let b = client.upload(0, &[2.0; 2 * KIB]).unwrap();
            let now = stats(device);
            assert_eq!(
                (now.bytes_in_use, now.peak_bytes_in_use, now.num_allocs),
                (3072, 3072, 2)
            );
            assert_eq!((now.largest_alloc_size, now.bytes_limit), (2048, 33_546_042_368));
            assert!(now.peak_bytes_in_use_is_set && now.bytes_limit_is_set && now.num_allocs_is_set);
            assert!(!now.pool_bytes_is_set);
            destroy(b);
            assert_eq!(
                (stats(device).bytes_in_use, stats(device).peak_bytes_in_use),
                (1024, 3072)
            );

            let mut clear = PJRT_Device_ClearMemoryStats_Args::new();
            clear.device = device;
            call(slot::PJRT_Device_ClearMemoryStats, &mut clear).unwrap();
            assert_eq!(stats(device).peak_bytes_in_use, 1024);

            let executable = client.compile(&add(KIB, "")).unwrap();
            let (sum, event) = execute(executable, &[a, a], true).unwrap();
            await_event(event).unwrap();
            assert_eq!(in_use(device), 2048);
            assert_eq!(download(sum, KIB).unwrap(), [2.0; KIB]);

            let mut copy = PJRT_Buffer_CopyToDevice_Args::new();
            copy.buffer = sum;
            copy.dst_device = client.devices[1];
            call(slot::PJRT_Buffer_CopyToDevice, &mut copy).unwrap();
            ready(copy.dst_buffer).unwrap();
            assert_eq!((in_use(device), in_use(client.devices[1])), (2048, 1024));
            destroy(copy.dst_buffer);
            assert_eq!(in_use(client.devices[1]), 0);

            let mut delete = PJRT_Buffer_Delete_Args::new();
            delete.buffer = sum;
            call(slot::PJRT_Buffer_Delete, &mut delete).unwrap();
            assert_eq!(in_use(device), 1024, "delete gives the memory back");
            destroy(sum);
            assert_eq!(in_use(device), 1024, "and destroy gives nothing back twice");
            destroy(a);
            assert_eq!(in_use(device), 0);
            destroy_executable(executable);
            client.destroy();
        },
    );
}

#[test]
fn host_memory_costs_nothing() {
    on_each_plugin("host_memory_costs_nothing", &[], || {
        let client = Client::create().unwrap();
        for kind in ["pinned_host", "unpinned_host"] {
            let memory = client.memory(0, kind);
            let buffer = client
                .upload_to(std::ptr::null_mut(), memory, &[1.0; KIB])
                .unwrap();
            assert_eq!(in_use(client.devices[0]), 0, "{kind}");
            let mut copy = PJRT_Buffer_CopyToMemory_Args::new();
            copy.buffer = buffer;
            copy.dst_memory = client.memory(0, "device");
            call(slot::PJRT_Buffer_CopyToMemory, &mut copy).unwrap();
            ready(copy.dst_buffer).unwrap();
            assert_eq!(in_use(client.devices[0]), 1024, "{kind} to device");
            destroy(copy.dst_buffer);
            destroy(buffer);
        }
        assert_eq!(in_use(client.devices[0]), 0);
        client.destroy();
    });
}

#[test]
fn donated_arguments_make_room() {
    let env = [("TORCH_TPU_SIM_HBM_BYTES", "4096")];
    on_each_plugin("donated_arguments_make_room", &env, || {
        let client = Client::create().unwrap();
        let device = client.devices[0];
        let n = KIB + KIB / 2;
        let (a, b) = (
            client.upload(0, &vec![1.0; n]).unwrap(),
            client.upload(0, &vec![2.0; n]).unwrap(),
        );
        assert_eq!(in_use(device), 3072);
        // Of these a program alone fits, but not next to what else is held.
        let plain = client.compile(&add(KIB, "")).unwrap();
        let small = client.upload(0, &[1.0; KIB]).unwrap();
        let error = execute(plain, &[small, small], false).unwrap_err();
        assert_eq!(error.code, RESOURCE_EXHAUSTED);
        destroy(small);
        for donation in [" {tf.aliasing_output = 0 : i32}", " {jax.buffer_donor = true}"] {
            let fresh = client.upload(0, &[0.0; 1]).unwrap();
            destroy(fresh);
            let donating = client.compile(&add(n, donation)).unwrap();
            let copy = match donation.contains("donor") {
                // The first round used `a` up.
                true => client.upload(0, &vec![1.0; n]).unwrap(),
                false => a,
            };
            let (sum, _) = execute(donating, &[copy, b], false).unwrap();
            assert_eq!(in_use(device), 3072, "{donation}");
            assert_eq!(download(sum, n).unwrap(), vec![3.0; n]);
            // A used-up argument is refused as such, with room for another result and without.
            let error = execute(donating, &[copy, b], false).unwrap_err();
            assert_eq!(error.code, INVALID_ARGUMENT, "{error:?}");
            destroy(sum);
            assert_eq!(in_use(device), 1536);
            let error = execute(donating, &[copy, b], false).unwrap_err();
            assert_eq!(error.code, INVALID_ARGUMENT, "{error:?}");
            assert!(
                error.message.contains("donated") || error.message.contains("deleted"),
                "{error:?}"
            );
            assert_eq!(in_use(device), 1536, "a failed run leaves the account as it was");
            destroy(copy);
            destroy_executable(donating);
        }
        destroy(b);
        assert_eq!(in_use(device), 0);
        destroy_executable(plain);
        client.destroy();
    });
}

#[test]
fn what_never_fits_is_refused_by_the_compiler() {
    let env = [("TORCH_TPU_SIM_HBM_BYTES", "4096")];
    on_each_plugin("what_never_fits_is_refused_by_the_compiler", &env, || {
        let client = Client::create().unwrap();
        let n = KIB + KIB / 2;
        let error = client.compile(&add(n, "")).unwrap_err();
        assert_eq!(error.code, RESOURCE_EXHAUSTED, "{error:?}");
        for part in [
            "adder needs 4608 bytes (4.50 KiB) of 4096 bytes (4.00 KiB)",
            "3072 bytes (3.00 KiB) of arguments, 1536 bytes (1.50 KiB) of outputs and 0 bytes of temporaries",
            "Exceeded by 512 bytes",
        ] {
            assert!(
                error.message.contains(part),
                "{part:?} is not in {}",
                error.message
            );
        }
        // Where the output takes over a donated argument there is room; a program of just the limit fits.
        for fitting in [
            add(n, " {tf.aliasing_output = 0 : i32}"),
            add(KIB, ""),
            add(341, ""),
        ] {
            destroy_executable(client.compile(&fitting).unwrap());
        }
        assert_eq!(in_use(client.devices[0]), 0);
        client.destroy();
    });
}

#[test]
fn past_the_limit_the_error_says_who_holds_what() {
    let env = [("TORCH_TPU_SIM_HBM_BYTES", "10000")];
    on_each_plugin("past_the_limit_the_error_says_who_holds_what", &env, || {
        let client = Client::create().unwrap();
        let a = client.upload(0, &[1.0; KIB]).unwrap();
        let executable = client.compile(&add(KIB, "")).unwrap();
        let mut sums = Vec::new();
        let error = loop {
            match execute(executable, &[a, a], false) {
                Ok((sum, _)) => sums.push(sum),
                Err(error) => break error,
            }
        };
        assert_eq!(sums.len(), 8, "9 of 1024 bytes fit into 10000");
        assert_eq!(error.code, RESOURCE_EXHAUSTED);
        for part in [
            "to run adder (1024 bytes of outputs",
            "9216 bytes (9.00 KiB) of 10000 bytes (9.77 KiB) are in use",
            "8192 bytes (8.00 KiB) in 8 buffers f32[256] made by adder",
            "1024 bytes (1.00 KiB) in 1 buffer f32[256] from the host",
        ] {
            assert!(
                error.message.contains(part),
                "{part:?} is not in {}",
                error.message
            );
        }
        let error = client.upload(0, &[0.0; KIB]).unwrap_err();
        assert_eq!(error.code, RESOURCE_EXHAUSTED);
        assert!(
            error
                .message
                .contains("asked for 1024 bytes (1.00 KiB) for a buffer f32[256] from the host")
        );
        // What is freed can be used again.
        destroy(sums.pop().unwrap());
        destroy(client.upload(0, &[0.0; KIB]).unwrap());
        sums.into_iter().for_each(destroy);
        destroy(a);
        assert_eq!(in_use(client.devices[0]), 0);
        destroy_executable(executable);
        client.destroy();
    });
}

#[test]
fn a_short_argument_struct_is_filled_as_far_as_it_goes() {
    on_each_plugin("a_short_argument_struct_is_filled_as_far_as_it_goes", &[], || {
        let client = Client::create().unwrap();
        let mut args = PJRT_Device_MemoryStats_Args::new();
        args.device = client.devices[0];
        args.bytes_limit = -1;
        args.struct_size = std::mem::offset_of!(PJRT_Device_MemoryStats_Args, num_allocs);
        call(slot::PJRT_Device_MemoryStats, &mut args).unwrap();
        assert!(args.peak_bytes_in_use_is_set);
        assert_eq!(args.bytes_limit, -1, "past the caller's struct");
        args.struct_size = 24;
        let error = call(slot::PJRT_Device_MemoryStats, &mut args).unwrap_err();
        assert_eq!(error.code, INVALID_ARGUMENT);
        assert!(
            error.message.contains("struct_size must cover `bytes_in_use`"),
            "{error:?}"
        );
        client.destroy();
    });
}

#[test]
fn a_destroyed_client_leaves_no_memory_in_use() {
    on_each_plugin("a_destroyed_client_leaves_no_memory_in_use", &[], || {
        for _ in 0..3 {
            let client = Client::create().unwrap();
            assert_eq!(in_use(client.devices[0]), 0);
            let buffer = client.upload(0, &[1.0; KIB]).unwrap();
            assert_eq!(in_use(client.devices[0]), 1024);
            destroy(buffer);
            client.destroy();
        }
        let mut args = PJRT_Device_MemoryStats_Args::new();
        let error = call(slot::PJRT_Device_MemoryStats, &mut args).unwrap_err();
        assert_eq!(error.code, INVALID_ARGUMENT);
    });
}

#[test]
fn asynchronous_transfers_hold_memory_until_they_end() {
    let env = [("TORCH_TPU_SIM_HBM_BYTES", "4096")];
    on_each_plugin("asynchronous_transfers_hold_memory_until_they_end", &env, || {
        let client = Client::create().unwrap();
        let device = client.devices[0];
        let start = |dims: &[i64]| {
            let specs = dims
                .iter()
                .map(|dim| ShapeSpec::new(F32, std::slice::from_ref(dim)))
                .collect::<Vec<_>>();
            let mut args = padded(StartTransfer {
                client: client.raw,
                specs: specs.as_ptr(),
                num_specs: specs.len(),
                memory: client.memory(0, "device"),
                ..StartTransfer::zeroed()
            });
            call(slot::PJRT_Client_CreateBuffersForAsyncHostToDevice, &mut args).map(|()| args.args.manager)
        };
        let manager = start(&[256, 512]).unwrap();
        assert_eq!((in_use(device), stats(device).num_allocs), (3072, 2));
        let error = start(&[128, 256]).unwrap_err();
        assert_eq!(error.code, RESOURCE_EXHAUSTED);
        assert_eq!(
            in_use(device),
            3072,
            "a refused transfer takes nothing, not even for its buffers that fit"
        );

        let mut retrieve = padded(Retrieve {
            manager,
            index: 1,
            ..Retrieve::zeroed()
        });
        call(
            slot::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer,
            &mut retrieve,
        )
        .unwrap();
        let mut end = padded(EndTransfer {
            manager,
            ..EndTransfer::zeroed()
        });
        call(slot::PJRT_AsyncHostToDeviceTransferManager_Destroy, &mut end).unwrap();
        assert_eq!(in_use(device), 2048, "the buffer that nobody fetched is gone");
        destroy(retrieve.args.buffer);
        assert_eq!(in_use(device), 0);
        client.destroy();
    });
}

#[test]
fn uninitialized_buffers_count_and_views_do_not() {
    on_each_plugin("uninitialized_buffers_count_and_views_do_not", &[], || {
        let client = Client::create().unwrap();
        let device = client.devices[0];
        let dims = [16_i64, 16];
        let mut args = padded(Uninitialized {
            client: client.raw,
            dims: dims.as_ptr(),
            num_dims: 2,
            element_type: F32,
            device,
            memory: client.memory(0, "device"),
            ..Uninitialized::zeroed()
        });
        call(slot::PJRT_Client_CreateUninitializedBuffer, &mut args).unwrap();
        assert_eq!(in_use(device), 1024);

        let mut pointer = PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args::new();
        pointer.buffer = args.args.buffer;
        call(slot::PJRT_Buffer_OpaqueDeviceMemoryDataPointer, &mut pointer).unwrap();
        let mut view = padded(PJRT_Client_CreateViewOfDeviceBuffer_Args::new());
        view.args.client = client.raw;
        view.args.device_buffer_ptr = pointer.device_memory_ptr;
        view.args.dims = dims.as_ptr();
        view.args.num_dims = 2;
        view.args.element_type = F32;
        view.args.device = device;
        call(slot::PJRT_Client_CreateViewOfDeviceBuffer, &mut view).unwrap();
        assert_eq!(in_use(device), 1024);
        destroy(view.args.buffer);
        assert_eq!(in_use(device), 1024);
        destroy(args.args.buffer);
        assert_eq!(in_use(device), 0);
        client.destroy();
    });
}

#[test]
fn threads_and_devices_keep_separate_accounts() {
    let env = [("TORCH_TPU_SIM_TOPOLOGY", "v6e:2x2")];
    on_each_plugin("threads_and_devices_keep_separate_accounts", &env, || {
        let client = Client::create().unwrap();
        let executable = client.compile(&add(KIB, "")).unwrap() as usize;
        let first = client.upload(0, &[1.0; KIB]).unwrap() as usize;
        let kept: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(move || {
                        let executable = executable as *mut PJRT_LoadedExecutable;
                        let start = first as *mut PJRT_Buffer;
                        let mut last = start;
                        for _ in 0..500 {
                            let (next, _) = execute(executable, &[last, start], false).unwrap();
                            if last != start {
                                destroy(last);
                            }
                            last = next;
                        }
                        last as usize
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let now = stats(client.devices[0]);
        assert_eq!((now.bytes_in_use, now.num_allocs), (5 * 1024, 2001));
        assert!(
            (5 * 1024..=9 * 1024).contains(&now.peak_bytes_in_use),
            "{}",
            now.peak_bytes_in_use
        );
        for device in &client.devices[1..] {
            assert_eq!(in_use(*device), 0);
        }
        for buffer in kept {
            let buffer = buffer as *mut PJRT_Buffer;
            assert_eq!(download(buffer, KIB).unwrap(), [501.0; KIB]);
            destroy(buffer);
        }
        destroy(first as *mut PJRT_Buffer);
        assert_eq!(in_use(client.devices[0]), 0);
        destroy_executable(executable as *mut PJRT_LoadedExecutable);
        client.destroy();
    });
}

#[test]
fn a_run_on_four_devices_takes_memory_on_each() {
    let env = [
        ("TORCH_TPU_SIM_TOPOLOGY", "v6e:2x2"),
        ("TORCH_TPU_SIM_HBM_BYTES", "3000"),
    ];
    on_each_plugin("a_run_on_four_devices_takes_memory_on_each", &env, || {
        let client = Client::create().unwrap();
        let mut program = program_of_four();
        let mut compile = PJRT_Client_Compile_Args::new();
        compile.client = client.raw;
        compile.program = &mut program;
        // Four replicas, one partition.
        let options = [0x1a_u8, 4, 0x20, 4, 0x28, 1];
        compile.compile_options = options.as_ptr().cast();
        compile.compile_options_size = options.len();
        call(slot::PJRT_Client_Compile, &mut compile).unwrap();

        let inputs: Vec<_> = (0..4)
            .map(|at| client.upload(at, &[at as f32; KIB]).unwrap())
            .collect();
        let rows: Vec<*const *mut PJRT_Buffer> = inputs.iter().map(std::ptr::from_ref).collect();
        let run = || {
            let mut made = [std::ptr::null_mut(); 4];
            let outputs: Vec<*mut *mut PJRT_Buffer> = made.iter_mut().map(std::ptr::from_mut).collect();
            let mut options = padded(PJRT_ExecuteOptions::new());
            let mut args = PJRT_LoadedExecutable_Execute_Args::new();
            args.executable = compile.executable;
            args.options = (&raw mut options).cast();
            args.argument_lists = rows.as_ptr();
            args.num_devices = 4;
            args.num_args = 1;
            args.output_lists = outputs.as_ptr();
            call(slot::PJRT_LoadedExecutable_Execute, &mut args).map(|()| made)
        };
        let sums = run().unwrap();
        for (at, &sum) in sums.iter().enumerate() {
            assert_eq!(download(sum, KIB).unwrap(), [6.0; KIB]);
            assert_eq!(in_use(client.devices[at]), 2048);
        }
        // One full device stops the run, and the others get back what was taken for it.
        (0..3).for_each(|at| destroy(sums[at]));
        assert_eq!(run().unwrap_err().code, RESOURCE_EXHAUSTED);
        let now: Vec<i64> = client.devices.iter().map(|&device| in_use(device)).collect();
        assert_eq!(now, [1024, 1024, 1024, 2048]);
        destroy(sums[3]);
        inputs.into_iter().for_each(destroy);
        destroy_executable(compile.executable);
        client.destroy();
    });
}

fn program_of_four() -> PJRT_Program {
    program(
        "module @sum attributes {mhlo.num_replicas = 4 : i32} { func.func @main(%a: tensor<256xf32>) -> tensor<256xf32> {
           %0 = \"stablehlo.all_reduce\"(%a) ({
             ^bb0(%x: tensor<f32>, %y: tensor<f32>):
               %s = stablehlo.add %x, %y : tensor<f32>
               stablehlo.return %s : tensor<f32>
           }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : (tensor<256xf32>) -> tensor<256xf32>
           return %0 : tensor<256xf32> } }",
    )
}
