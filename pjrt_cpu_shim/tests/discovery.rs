//! What happens when the CPU plugin is missing, is no plugin, or is the wrong one: always a typed error.

mod common;

use std::path::Path;
use std::process::Command;

use common::*;
use pjrt_ffi::*;

/// Both first calls of a client fail with this code and a text that holds all `parts`.
fn refused(code: u32, parts: &[&str]) {
    let initialize = call(
        slot::PJRT_Plugin_Initialize,
        &mut PJRT_Plugin_Initialize_Args::new(),
    )
    .unwrap_err();
    let create = Client::create_with(&[]).err().unwrap();
    assert_eq!(initialize, create);
    assert_eq!(create.code, code, "{create:?}");
    for part in parts {
        assert!(
            create.message.contains(part),
            "{part:?} is not in {}",
            create.message
        );
    }
}

const ADVICE: &str = "pip install fastatomstruct-xla-cpu";

#[test]
fn a_named_file_that_is_not_there() {
    in_child(
        "a_named_file_that_is_not_there",
        &[("TORCH_TPU_CPU_PLUGIN", "/nowhere/plugin.so")],
        || {
            refused(
                NOT_FOUND,
                &["TORCH_TPU_CPU_PLUGIN=/nowhere/plugin.so: no such file", ADVICE],
            );
        },
    );
}

/// Copies this test into `folder` and runs `name` there, with nothing in the environment that leads to a plugin.
fn from_folder(name: &str, folder: &Path, body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    std::fs::create_dir_all(folder).unwrap();
    let copy = folder.join("copied_test");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let output = Command::new(&copy)
        .args([name, "--exact", "--nocapture"])
        .current_dir(folder)
        .env(CHILD, "1")
        .env_remove("VIRTUAL_ENV")
        .env_remove("TORCH_TPU_CPU_PLUGIN")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn no_plugin_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join(".venv/lib/python3.11")).unwrap();
    from_folder("no_plugin_anywhere", &dir.path().join("deep/er"), || {
        let looked = ".venv/lib/python3.11/site-packages/fastatomstruct_xla_cpu/libpjrt_cpu.so";
        refused(
            NOT_FOUND,
            &["found none; looked at:", looked, ADVICE, "TORCH_TPU_CPU_PLUGIN"],
        );
    });
}

#[test]
fn the_wheel_beside_the_shim_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let site = dir.path().join("lib/python3.11/site-packages");
    std::fs::create_dir_all(site.join("fastatomstruct_xla_cpu")).unwrap();
    if std::env::var_os(CHILD).is_none() {
        let plugin = plugins()[0].canonicalize().unwrap();
        std::os::unix::fs::symlink(plugin, site.join("fastatomstruct_xla_cpu/libpjrt_cpu.so")).unwrap();
    }
    from_folder(
        "the_wheel_beside_the_shim_is_found",
        &site.join("torch_tpu"),
        || {
            let client = Client::create().unwrap();
            assert_eq!(client.devices.len(), 1);
            client.destroy();
        },
    );
}

#[test]
fn a_file_that_is_no_library() {
    let text = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    in_child(
        "a_file_that_is_no_library",
        &[("TORCH_TPU_CPU_PLUGIN", text)],
        || {
            refused(
                NOT_FOUND,
                &["Cargo.toml", "cannot be loaded", "not a shared library", ADVICE],
            );
        },
    );
}

#[test]
fn a_folder_is_no_file() {
    in_child(
        "a_folder_is_no_file",
        &[("TORCH_TPU_CPU_PLUGIN", env!("CARGO_MANIFEST_DIR"))],
        || {
            refused(NOT_FOUND, &["this is a directory", ADVICE]);
        },
    );
}

#[test]
fn a_bare_name_is_a_file_of_the_working_folder() {
    let name = "a_bare_name_is_a_file_of_the_working_folder";
    if std::env::var_os(CHILD).is_some() {
        Client::create().unwrap().destroy();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let plugin = plugins()[0].canonicalize().unwrap();
    std::os::unix::fs::symlink(plugin, dir.path().join("plain.so")).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .current_dir(dir.path())
        .env(CHILD, "1")
        .env("TORCH_TPU_CPU_PLUGIN", "plain.so")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn libtpu_is_refused_before_it_is_loaded() {
    // No ELF file and no plugin: only the name behind the link can be what is refused.
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("libtpu-1.so"), dir.path().join("cpu.so"));
    std::fs::write(&file, b"never read").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    in_child(
        "libtpu_is_refused_before_it_is_loaded",
        &[("TORCH_TPU_CPU_PLUGIN", link.to_str().unwrap())],
        || {
            refused(
                INVALID_ARGUMENT,
                &[
                    "libtpu-1.so",
                    "this is a TPU plugin, not a CPU plugin",
                    "python -m torch_tpu aot",
                ],
            );
        },
    );
}

#[test]
fn the_simulator_on_top_of_itself() {
    let own = std::env::current_exe().unwrap();
    in_child(
        "the_simulator_on_top_of_itself",
        &[("TORCH_TPU_CPU_PLUGIN", own.to_str().unwrap())],
        || {
            refused(INVALID_ARGUMENT, &["the simulator itself", ADVICE]);
        },
    );
}

/// Compiles a small library and runs the body on it as the CPU plugin.
fn on_library(name: &str, source: &str, body: impl FnOnce()) {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("fake.rs"), dir.path().join("libfake.so"));
    std::fs::write(&input, source).unwrap();
    let compiled = Command::new("rustc")
        .args(["--edition", "2024", "--crate-type", "cdylib", "-o"])
        .args([&output, &input])
        .status()
        .unwrap();
    assert!(compiled.success());
    in_child(name, &[("TORCH_TPU_CPU_PLUGIN", output.to_str().unwrap())], body);
}

#[test]
fn a_library_that_is_no_plugin() {
    on_library(
        "a_library_that_is_no_plugin",
        "#[unsafe(no_mangle)] pub extern \"C\" fn other() {}",
        || {
            refused(INVALID_ARGUMENT, &["exports no GetPjrtApi", ADVICE]);
        },
    );
}

#[test]
fn libtpu_under_another_name_is_refused_before_it_is_loaded() {
    // What libtpu exports, and an initializer that ends the process.
    let source = "#[unsafe(no_mangle)] pub extern \"C\" fn GetPjrtApi() -> *const usize { std::ptr::null() }
                  #[unsafe(no_mangle)] pub extern \"C\" fn TfTpu_Initialize() {}
                  extern \"C\" fn load() { std::process::abort() }
                  #[used] #[unsafe(link_section = \".init_array\")] static LOAD: extern \"C\" fn() = load;";
    let name = "libtpu_under_another_name_is_refused_before_it_is_loaded";
    on_library(name, source, || {
        refused(INVALID_ARGUMENT, &["libfake.so", "this is a TPU plugin"]);
    });
}

#[test]
fn another_major_version() {
    let source = "static TABLE: [usize; 200] = { let mut t = [0; 200]; t[0] = 1128; t[2] = 24; t[4] = 1 | 7 << 32; t };
                  #[unsafe(no_mangle)] pub extern \"C\" fn GetPjrtApi() -> *const usize { TABLE.as_ptr() }";
    on_library("another_major_version", source, || {
        refused(FAILED_PRECONDITION, &["PJRT API 1.7", "needs major version 0"]);
    });
}

#[test]
fn malformed_settings() {
    on_each_plugin(
        "malformed_settings",
        &[("TORCH_TPU_SIM_HBM_BYTES", "16GB")],
        || {
            refused(
                INVALID_ARGUMENT,
                &["TORCH_TPU_SIM_HBM_BYTES=\"16GB\"", "number of bytes"],
            );
        },
    );
}

#[test]
fn more_memory_than_statistics_can_tell() {
    let env = [("TORCH_TPU_SIM_HBM_BYTES", "18446744073709551615")];
    on_each_plugin("more_memory_than_statistics_can_tell", &env, || {
        refused(
            INVALID_ARGUMENT,
            &["18446744073709551615", "1 to 9223372036854775807"],
        );
    });
}

#[test]
fn no_memory_at_all() {
    on_each_plugin("no_memory_at_all", &[("TORCH_TPU_SIM_HBM_BYTES", "0")], || {
        refused(
            INVALID_ARGUMENT,
            &["TORCH_TPU_SIM_HBM_BYTES=\"0\"", "number of bytes from 1"],
        );
    });
}

#[test]
fn a_malformed_topology() {
    on_each_plugin(
        "a_malformed_topology",
        &[("TORCH_TPU_SIM_TOPOLOGY", "v6e:2y2")],
        || {
            refused(
                INVALID_ARGUMENT,
                &["TORCH_TPU_SIM_TOPOLOGY", "v6e:2y2", "v6e:2x2"],
            );
        },
    );
}

#[test]
fn a_null_argument_struct_is_refused() {
    on_each_plugin("a_null_argument_struct_is_refused", &[], || {
        // SAFETY: the table is whole; null is what is being tried.
        let error =
            unsafe { (*pjrt_cpu_shim::GetPjrtApi()).PJRT_Client_Create.unwrap()(std::ptr::null_mut()) };
        let error = failure(error).unwrap_err();
        assert_eq!(error.code, INVALID_ARGUMENT);
        assert!(error.message.contains("PJRT_Client_Create"), "{error:?}");
    });
}
