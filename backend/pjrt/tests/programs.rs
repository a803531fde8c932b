//! Compiling and running: results, events, donation, several devices, reports, serialization.

mod common;

use std::sync::{Arc, mpsc};

use common::*;
use pjrt::{Buffer, Client, CompileOptions, ElementType, Error, ExecuteOptions, Program};

#[test]
fn a_program_runs_and_reports_itself() {
    let add = compile(&binary("add", "2x3xf32"));
    let x = put_f32(&[2, 3], &[1.0; 6]);
    let y = put_f32(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let out = run(&*add, &[&*x, &*y]);
    assert_eq!(get_f32(&*out[0]), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(add.devices_shape(), (1, 1));
    assert_eq!(add.results().unwrap()[0].to_string(), "f32[2,3]");
    let parameters: Vec<_> = add
        .parameters()
        .unwrap()
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(parameters, ["f32[2,3]", "f32[2,3]"]);
    assert!(!add.fingerprint().unwrap().is_empty());
    let cost = add.cost_analysis().unwrap();
    let flops = cost
        .iter()
        .find(|(n, _)| n == "flops")
        .and_then(|(_, v)| v.as_f64());
    assert_eq!(flops, Some(6.0), "{cost:?}");
    let memory = add.memory_stats().unwrap();
    assert_eq!((memory.argument_bytes, memory.output_bytes), (48, 24));
    let (parameters, results) = add.layouts().unwrap();
    assert_eq!((parameters.len(), results.len()), (2, 1));
    assert!(parameters[0].contains("1,0"), "{parameters:?}");
    // The CPU plugins do not tell memory kinds; the TPU's compiler does.
    let text = binary("add", "2x3xf32");
    let on_v6e = V6E
        .compile(&Program::mlir(&text), &CompileOptions::default())
        .unwrap();
    assert_eq!(on_v6e.result_memory_kinds().unwrap(), ["device"]);
    let program = add.optimized_program().unwrap();
    assert!(program.code.len() > 100 && program.format.starts_with("hlo"));
}

#[test]
fn a_program_may_have_no_arguments_no_results_and_scalars() {
    let none = compile("module @none { func.func @main() { return } }");
    assert!(run(&*none, &[]).is_empty());
    let constant = compile(
        "module @c { func.func @main() -> (tensor<f32>, tensor<0x3xf32>) {\n\
         %0 = stablehlo.constant dense<2.5> : tensor<f32>\n %1 = stablehlo.constant dense<0.0> : tensor<0x3xf32>\n\
         return %0, %1 : tensor<f32>, tensor<0x3xf32> } }",
    );
    let out = run(&*constant, &[]);
    assert_eq!(get_f32(&*out[0]), [2.5]);
    assert_eq!(out[1].shape().dims.as_slice(), [0, 3]);
    assert!(get_f32(&*out[1]).is_empty());
}

#[test]
fn events_tell_when_work_is_done() {
    let dot = compile(
        "module @dot { func.func @main(%a: tensor<256x256xf32>) -> tensor<256x256xf32> {\n\
         %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) \
         -> tensor<256x256xf32>\n return %0 : tensor<256x256xf32> } }",
    );
    let a = put_f32(&[256, 256], &vec![1.0; 256 * 256]);
    let options = ExecuteOptions {
        completion_events: true,
        ..Default::default()
    };
    let done = dot.execute(&[&[&*a]], &options).unwrap();
    assert_eq!(done.completion.len(), 1);
    done.completion[0].wait().unwrap();
    assert!(done.completion[0].is_ready().unwrap());
    let (tell, told) = mpsc::channel();
    let ready = done.outputs[0][0].ready().unwrap();
    ready
        .on_ready(Box::new(move |outcome| tell.send(outcome.is_ok()).unwrap()))
        .unwrap();
    assert!(told.recv_timeout(std::time::Duration::from_secs(10)).unwrap());
    let panicking = done.outputs[0][0].ready().unwrap();
    panicking
        .on_ready(Box::new(|_| panic!("a user's callback")))
        .unwrap();
    assert_eq!(
        get_f32(&*done.outputs[0][0])[0],
        256.0,
        "the client survives a panic in a callback"
    );
}

const DONATING: &str = "module @step { func.func @main(%a: tensor<64xf32> {tf.aliasing_output = 0 : i32}, \
    %b: tensor<64xf32>) -> tensor<64xf32> {\n %r = stablehlo.add %a, %b : tensor<64xf32>\n return %r : tensor<64xf32> } }";

#[test]
fn a_donated_argument_is_gone_and_its_use_is_a_typed_error() {
    let step = compile(DONATING);
    let (a, b) = (put_f32(&[64], &[1.0; 64]), put_f32(&[64], &[2.0; 64]));
    let kept = ExecuteOptions {
        keep: [0].into_iter().collect(),
        ..Default::default()
    };
    let out = step.execute(&[&[&*a, &*b]], &kept).unwrap().into_single();
    assert_eq!(get_f32(&*out[0])[0], 3.0);
    assert!(
        !a.is_deleted().unwrap(),
        "kept although the program would donate it"
    );
    let out = run(&*step, &[&*a, &*b]);
    assert_eq!(get_f32(&*out[0])[0], 3.0);
    assert!(a.is_deleted().unwrap() && !b.is_deleted().unwrap());
    let again = step
        .execute(&[&[&*a, &*b]], &ExecuteOptions::default())
        .unwrap_err();
    assert!(matches!(again, Error::BufferDeleted { .. }), "{again}");
    assert!(again.to_string().contains("argument 0 (f32[64])"), "{again}");
}

#[test]
fn a_program_survives_serialization() {
    let text = binary("multiply", "4xf32");
    let original = compile(&text);
    let blob = original.serialize().unwrap();
    let loaded = SIM.load(&blob).unwrap();
    let x = put_f32(&[4], &[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(get_f32(&*run(&*loaded, &[&*x, &*x])[0]), [1.0, 4.0, 9.0, 16.0]);
    let wrong = loaded.execute(&[&[&*x]], &ExecuteOptions::default()).unwrap_err();
    assert!(wrong.to_string().contains("1 arguments on device 0"), "{wrong}");
    loaded.delete().unwrap();
    assert!(loaded.is_deleted().unwrap());
    let gone = loaded
        .execute(&[&[&*x, &*x]], &ExecuteOptions::default())
        .unwrap_err();
    assert!(gone.to_string().contains("deleted"), "{gone}");
}

const SUM_OVER_4: &str = "module @psum attributes {mhlo.num_replicas = 4 : i32} { func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n\
    %0 = \"stablehlo.all_reduce\"(%a) ({\n ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n %s = stablehlo.add %x, %y : tensor<f32>\n\
    stablehlo.return %s : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : (tensor<2xf32>) -> tensor<2xf32>\n\
    return %0 : tensor<2xf32> } }";

#[test]
fn a_program_runs_on_all_devices_of_the_slice() {
    let options = CompileOptions::new(4, 1);
    let sum = SIM.compile(&Program::mlir(SUM_OVER_4), &options).unwrap();
    let slice = pjrt::aot::AotClient::new(worker(), &libtpu(), "v6e:2x2").unwrap();
    assert_eq!(
        slice
            .compile(&Program::mlir(SUM_OVER_4), &options)
            .unwrap()
            .devices_shape(),
        (4, 1)
    );
    assert_eq!(sum.devices().unwrap().len(), 4);
    let shards: Vec<Arc<dyn Buffer>> = (0..4)
        .map(|d| put_on(&**SIM, d, ElementType::F32, &[2], &bytes(&[d as f32, 1.0])))
        .collect();
    let rows: Vec<[&dyn Buffer; 1]> = shards.iter().map(|s| [&**s]).collect();
    let rows: Vec<&[&dyn Buffer]> = rows.iter().map(|r| r.as_slice()).collect();
    let done = sum
        .execute(
            &rows,
            &ExecuteOptions {
                completion_events: true,
                ..Default::default()
            },
        )
        .unwrap();
    assert_eq!((done.outputs.len(), done.completion.len()), (4, 4));
    for (d, row) in done.outputs.iter().enumerate() {
        assert_eq!(get_f32(&*row[0]), [6.0, 4.0]);
        assert_eq!(row[0].device().unwrap().description().id, d as i32);
    }
    let few = sum.execute(&rows[..2], &ExecuteOptions::default()).unwrap_err();
    assert!(
        few.to_string().contains("2 argument lists for the 4 devices"),
        "{few}"
    );
}

#[test]
fn devices_of_the_slice_look_like_a_v6e() {
    let coords: Vec<_> = SIM
        .devices()
        .iter()
        .map(|d| d.description().coords().unwrap().to_vec())
        .collect();
    assert_eq!(coords, [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]);
    let slice = pjrt::aot::AotClient::new(worker(), &libtpu(), "v6e:2x2").unwrap();
    for (simulated, real) in SIM.devices().iter().zip(slice.devices()) {
        let (s, r) = (simulated.description(), real.description());
        assert_eq!((s.id, &s.kind, s.coords()), (r.id, &r.kind, r.coords()));
        for (name, value) in &r.attributes {
            assert_eq!(s.attribute(name), Some(value), "attribute {name}");
        }
        assert_eq!(s.attribute("simulated"), Some(&pjrt::NamedValue::Int(1)));
    }
    assert_eq!(SIM.default_device_assignment(2, 2).unwrap().len(), 4);
    assert!(SIM.default_device_assignment(3, 2).is_err());
}

#[test]
fn memory_statistics_go_up_and_down() {
    let device = SIM.device(2).unwrap();
    let before = device.memory_stats().unwrap().bytes_in_use;
    let buffer = put_on(&**SIM, 2, ElementType::F32, &[1024], &bytes(&[0f32; 1024]));
    let during = device.memory_stats().unwrap();
    assert_eq!(during.bytes_in_use - before, 4096);
    assert!(
        during.peak_bytes_in_use.unwrap() >= during.bytes_in_use && during.bytes_limit.unwrap() > 30 << 30
    );
    drop(buffer);
    assert_eq!(device.memory_stats().unwrap().bytes_in_use, before);
    device.clear_memory_stats().unwrap();
    assert_eq!(device.memory_stats().unwrap().peak_bytes_in_use, Some(before));
}

#[test]
fn a_bounded_dynamic_result_tells_its_size() {
    let text = "module @dyn { func.func @main(%a: tensor<8xf32>, %n: tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<8>> {\n\
        %0 = \"stablehlo.set_dimension_size\"(%a, %n) <{dimension = 0 : i64}> : (tensor<8xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<8>>\n\
        return %0 : tensor<?xf32, #stablehlo.bounds<8>> } }";
    let cut = compile(text);
    let out = run(
        &*cut,
        &[
            &*put_f32(&[8], &[1.0; 8]),
            &*put(ElementType::S32, &[], &bytes(&[5i32])),
        ],
    );
    assert_eq!(out[0].logical_dims().unwrap(), [5], "{}", out[0].shape());
}

#[test]
fn topologies_compile_with_no_client() {
    let plugin = pjrt::plugin::Plugin::load(shim()).unwrap();
    let topology = pjrt::plugin::PluginTopology::by_name(plugin, "v6e:4x4", &[]).unwrap();
    use pjrt::Topology;
    assert_eq!(topology.devices().len(), 16);
    let again = pjrt::plugin::PluginTopology::deserialize(plugin, &topology.serialize().unwrap()).unwrap();
    assert_eq!(again.devices(), topology.devices());
    assert_eq!(again.fingerprint().unwrap(), topology.fingerprint().unwrap());
    let unloaded = topology
        .compile(
            &Program::mlir(&binary("add", "4xf32")),
            &CompileOptions::default(),
        )
        .unwrap();
    let error = unloaded.execute(&[], &ExecuteOptions::default()).unwrap_err();
    assert!(matches!(error, Error::CompileOnly { .. }), "{error}");
    let loaded = SIM.load(&unloaded.serialize().unwrap()).unwrap();
    let x = put_f32(&[4], &[1.0; 4]);
    assert_eq!(get_f32(&*run(&*loaded, &[&*x, &*x])[0]), [2.0; 4]);
    assert_eq!(SIM.topology().unwrap().devices().len(), 4);
    assert!(pjrt::plugin::PluginTopology::by_name(plugin, "v6e:3x7x9", &[]).is_err());
}
