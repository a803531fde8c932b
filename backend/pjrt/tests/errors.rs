//! Bad input: each a typed error that names call and cause.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use common::*;
use pjrt::plugin::{Plugin, PluginClient};
use pjrt::{
    Client, Code, CompileOptions, ElementType, Error, ExecuteOptions, HostArray, NamedValue, Placement,
    Program,
};

fn refused<T>(result: pjrt::Result<T>) -> Error {
    match result {
        Ok(_) => panic!("this was expected to fail"),
        Err(error) => error,
    }
}

#[test]
fn no_such_plugin() {
    let error = refused(Plugin::load("/nowhere/libnothing.so"));
    assert!(
        matches!(error, Error::Load { .. }) && error.to_string().contains("/nowhere/libnothing.so"),
        "{error}"
    );
    assert_eq!(error.code(), Code::NotFound);
}

#[test]
fn a_file_that_is_no_library() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "not a library").unwrap();
    let error = refused(Plugin::load(file.path()));
    assert!(matches!(error, Error::Load { .. }), "{error}");
}

/// Builds a shared library from C, as somebody's broken plugin.
fn library(dir: &Path, source: &str) -> PathBuf {
    let (c, so) = (dir.join("p.c"), dir.join("p.so"));
    std::fs::write(&c, source).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&so)
        .arg(&c)
        .status()
        .unwrap();
    assert!(built.success());
    so
}

#[test]
fn a_library_that_is_no_plugin() {
    let dir = tempfile::tempdir().unwrap();
    let error = refused(Plugin::load(library(dir.path(), "int nothing;")));
    assert!(
        matches!(error, Error::NotAPlugin { .. }) && error.to_string().contains("GetPjrtApi"),
        "{error}"
    );
    let dir = tempfile::tempdir().unwrap();
    let error = refused(Plugin::load(library(
        dir.path(),
        "void *GetPjrtApi(void) { return 0; }",
    )));
    assert!(error.to_string().contains("returned null"), "{error}");
}

#[test]
fn another_major_version() {
    let dir = tempfile::tempdir().unwrap();
    let source = "static struct { long size; void *ext; long vsize; void *vext; int major, minor; void *entry[200]; } api\n\
        = { sizeof api, 0, 24, 0, 7, 3 }; void *GetPjrtApi(void) { return &api; }";
    let error = refused(Plugin::load(library(dir.path(), source)));
    assert!(
        matches!(
            error,
            Error::ApiVersion {
                major: 7,
                minor: 3,
                ours: 0,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_plugin_with_an_empty_table_lacks_calls_and_says_which() {
    let dir = tempfile::tempdir().unwrap();
    let source = "static struct { long size; void *ext; long vsize; void *vext; int major, minor; void *entry[200]; } api\n\
        = { 200, 0, 24, 0, 0, 54 }; void *GetPjrtApi(void) { return &api; }";
    let error = refused(Plugin::load(library(dir.path(), source)));
    assert!(
        matches!(
            error,
            Error::Unsupported {
                call: "PJRT_Plugin_Initialize",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn an_unknown_create_option_is_refused_by_name() {
    let options = [("no_such_option".to_owned(), NamedValue::Int(1))];
    let error = refused(PluginClient::open(shim(), &options));
    assert!(error.to_string().contains("no_such_option"), "{error}");
    assert_eq!(error.call(), Some("PJRT_Client_Create"));
}

#[test]
fn a_program_that_does_not_parse() {
    for text in [
        "",
        "this is not MLIR",
        "module { func.func @main() { return %x } }",
        "\0\0\0",
    ] {
        let error = refused(SIM.compile(&Program::mlir(text), &CompileOptions::default()));
        assert!(
            matches!(
                error,
                Error::Plugin {
                    call: "PJRT_Client_Compile",
                    ..
                }
            ),
            "{error}"
        );
    }
    let error = refused(V6E.compile(&Program::mlir("nonsense"), &CompileOptions::default()));
    assert!(
        matches!(
            error,
            Error::Plugin {
                call: "PJRT_Compile",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn an_unknown_flag_is_refused_by_name() {
    let options = CompileOptions::default().with("xla_no_such_flag", true);
    let error = refused(SIM.compile(&Program::mlir(&binary("add", "4xf32")), &options));
    assert!(error.to_string().contains("xla_no_such_flag"), "{error}");
}

#[test]
fn wrong_arguments_never_reach_the_plugin() {
    let add = compile(&binary("add", "4xf32"));
    let good = put_f32(&[4], &[1.0; 4]);
    let refuse = |arguments: &[&dyn pjrt::Buffer], text: &str| {
        let error = refused(add.execute(&[arguments], &ExecuteOptions::default()));
        assert_eq!(error.call(), Some("PJRT_LoadedExecutable_Execute"));
        assert!(error.to_string().contains(text), "{error}");
    };
    refuse(&[&*good], "1 arguments on device 0, add takes 2");
    refuse(&[&*good, &*good, &*good], "3 arguments on device 0, add takes 2");
    refuse(
        &[&*good, &*put_f32(&[2, 2], &[1.0; 4])],
        "argument 1 on device 0 of add is f32[2,2], the program takes f32[4]",
    );
    refuse(
        &[&*put(ElementType::S32, &[4], &[0; 16]), &*good],
        "is i32[4], the program takes f32[4]",
    );
    let two = refused(add.execute(
        &[&[&*good, &*good], &[&*good, &*good]],
        &ExecuteOptions::default(),
    ));
    assert!(
        two.to_string().contains("2 argument lists for the 1 devices"),
        "{two}"
    );
}

#[test]
fn a_deleted_buffer_used_again() {
    let buffer = put_f32(&[4], &[1.0; 4]);
    let add = compile(&binary("add", "4xf32"));
    buffer.delete().unwrap();
    buffer.delete().unwrap();
    assert!(buffer.is_deleted().unwrap());
    let device = SIM.device(1).unwrap();
    let errors = [
        refused(buffer.copy_to_host(&mut [0; 16])),
        refused(buffer.read()),
        refused(buffer.ready()),
        refused(buffer.copy_to_device(&*device)),
        refused(buffer.size_on_device()),
        refused(buffer.clone().external_reference()),
        refused(add.execute(&[&[&*buffer, &*buffer]], &ExecuteOptions::default())),
    ];
    for error in errors {
        assert!(matches!(error, Error::BufferDeleted { .. }), "{error:?}");
        assert!(
            error.call().is_some() && error.to_string().contains("f32[4]"),
            "{error}"
        );
    }
}

#[test]
fn a_device_that_is_not_there_or_not_ours() {
    let error = refused(SIM.device(4));
    assert!(
        matches!(error, Error::NoSuchDevice { .. }) && error.to_string().contains("4 (0 to 3)"),
        "{error}"
    );
    let other = PluginClient::open(shim(), &[]).unwrap();
    let device = other.device(0).unwrap();
    let array = HostArray::new(ElementType::F32, &[1], &[0; 4]);
    let error = refused(SIM.buffer_from_host(&array, Placement::Device(&*device)));
    assert!(matches!(error, Error::NoSuchDevice { .. }), "{error}");
    let foreign = put_on(&*other, 0, ElementType::F32, &[4], &[0; 16]);
    let ours = put_f32(&[4], &[0.0; 4]);
    let add = compile(&binary("add", "4xf32"));
    let error = refused(add.execute(&[&[&*ours, &*foreign]], &ExecuteOptions::default()));
    assert!(error.to_string().contains("belongs to another client"), "{error}");
    let error = refused(ours.copy_to_device(&*device));
    assert!(matches!(error, Error::NoSuchDevice { .. }), "{error}");
}

#[test]
fn a_client_dropped_with_work_in_flight() {
    let client = PluginClient::open(shim(), &[]).unwrap();
    let text = "module @loop { func.func @main(%a: tensor<64x64xf32>) -> tensor<64x64xf32> {\n\
        %i = stablehlo.constant dense<0> : tensor<i32>\n\
        %r:2 = stablehlo.while(%k = %i, %x = %a) : tensor<i32>, tensor<64x64xf32>\n\
        cond { %n = stablehlo.constant dense<2000> : tensor<i32>\n %c = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n stablehlo.return %c : tensor<i1> }\n\
        do { %one = stablehlo.constant dense<1> : tensor<i32>\n %k1 = stablehlo.add %k, %one : tensor<i32>\n\
        %d = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>\n\
        %t = stablehlo.tanh %d : tensor<64x64xf32>\n stablehlo.return %k1, %t : tensor<i32>, tensor<64x64xf32> }\n\
        return %r#1 : tensor<64x64xf32> } }";
    let slow = client
        .compile(&Program::mlir(text), &CompileOptions::default())
        .unwrap();
    V6E.compile(&Program::mlir(text), &CompileOptions::default())
        .unwrap();
    let a = put_on(
        &*client,
        0,
        ElementType::F32,
        &[64, 64],
        &bytes(&vec![0.5f32; 64 * 64]),
    );
    let out = slow
        .execute(&[&[&*a]], &ExecuteOptions::default())
        .unwrap()
        .into_single();
    let unread = slow.execute(&[&[&*a]], &ExecuteOptions::default()).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    out[0]
        .ready()
        .unwrap()
        .on_ready(Box::new(move |o| tell.send(o.is_ok()).unwrap()))
        .unwrap();
    let pending = out[0].read().unwrap();
    drop(client);
    drop(slow);
    drop(unread);
    drop(a);
    let value = get_f32(&*out[0])[0];
    drop(out);
    assert!(value.is_finite() && pending.wait().unwrap().len() == 64 * 64 * 4);
    assert!(told.recv_timeout(std::time::Duration::from_secs(60)).unwrap());
}

#[test]
fn a_closed_client_says_so() {
    let client = PluginClient::open(shim(), &[]).unwrap();
    let add = client
        .compile(
            &Program::mlir(&binary("add", "4xf32")),
            &CompileOptions::default(),
        )
        .unwrap();
    let x = put_on(&*client, 0, ElementType::F32, &[4], &[0; 16]);
    client.close();
    let device = client.device(0).unwrap();
    let array = HostArray::new(ElementType::F32, &[1], &[0; 4]);
    let errors = [
        refused(client.compile(&Program::mlir(""), &CompileOptions::default())),
        refused(client.load(&[])),
        refused(client.buffer_from_host(&array, Placement::Device(&*device))),
        refused(add.execute(&[&[&*x, &*x]], &ExecuteOptions::default())),
        refused(x.copy_to_device(&*device)),
    ];
    for error in errors {
        assert!(matches!(error, Error::ClientClosed { .. }), "{error}");
    }
}

#[test]
fn libtpu_is_not_loaded_where_there_is_no_tpu() {
    let start = std::time::Instant::now();
    let error = refused(Plugin::load(libtpu()));
    assert!(matches!(error, Error::NoTpu { .. }), "{error}");
    assert!(error.to_string().contains("TORCH_TPU_PLATFORM"), "{error}");
    assert!(start.elapsed().as_millis() < 1000);
}

#[test]
fn libtpu_is_known_under_any_name() {
    let elsewhere = site_packages().join("fastatomstruct_xla_cpu/libpjrt_cpu.so");
    assert!(!pjrt_ffi::is_libtpu(&elsewhere) && !pjrt_ffi::is_libtpu(&shim()));
    // A link that this process sees under another name, which is not resolved here.
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("plugin.so");
    std::os::unix::fs::symlink(libtpu(), &link).unwrap();
    assert!(pjrt_ffi::is_libtpu(&link), "by what it exports");

    // Loading would end the process.
    let copy = library(
        dir.path(),
        "#include <stdlib.h>\n__attribute__((constructor)) static void load(void) { abort(); }\n\
         void *GetPjrtApi(void) { return 0; } void GetLibtpuSdkApi(void) {}",
    );
    let error = refused(Plugin::load(copy));
    assert!(matches!(error, Error::NoTpu { .. }), "{error}");
}

#[test]
fn an_ahead_of_time_client_only_compiles() {
    let client: Arc<dyn Client> = V6E.clone();
    let add = client
        .compile(
            &Program::mlir(&binary("add", "4xf32")),
            &CompileOptions::default(),
        )
        .unwrap();
    let device = client.devices()[0].clone();
    let array = HostArray::new(ElementType::F32, &[1], &[0; 4]);
    let errors = [
        refused(add.execute(&[], &ExecuteOptions::default())),
        refused(client.load(&[])),
        refused(client.buffer_from_host(&array, Placement::Device(&*device))),
        refused(device.memory_stats()),
    ];
    for error in errors {
        assert!(
            matches!(&error, Error::CompileOnly { topology, .. } if topology == "v6e:1x1"),
            "{error}"
        );
        assert!(error.to_string().contains("TORCH_TPU_PLATFORM=sim"), "{error}");
    }
    assert!(client.addressable_devices().is_empty());
}
