//! The same client over the CPU plugins themselves, with no simulator between.

mod common;

use common::*;
use pjrt::plugin::PluginClient;
use pjrt::{Client, CompileOptions, ElementType, Error, NamedValue, Program};

const PLUGINS: [&str; 2] = [
    "fastatomstruct_xla_cpu/libpjrt_cpu.so",
    "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
];

#[test]
fn the_client_drives_every_cpu_plugin_unchanged() {
    for plugin in PLUGINS {
        let options = [("cpu_device_count".to_owned(), NamedValue::Int(2))];
        let client = PluginClient::open(site_packages().join(plugin), &options).unwrap();
        assert_eq!(
            (client.platform_name(), client.devices().len()),
            ("cpu", 2),
            "{plugin}"
        );
        assert!(
            client.attributes().iter().any(|(name, _)| name == "xla_version"),
            "{plugin}"
        );
        let extensions: Vec<_> = client
            .plugin()
            .extensions()
            .iter()
            .filter_map(|e| e.name)
            .collect();
        assert!(
            extensions.contains(&"Layouts") && extensions.contains(&"FFI"),
            "{plugin}: {extensions:?}"
        );
        let text = binary("add", "4xf32");
        let add = client
            .compile(&Program::mlir(&text), &CompileOptions::default())
            .unwrap();
        let x = put_on(
            &*client,
            0,
            ElementType::F32,
            &[4],
            &bytes(&[1f32, 2.0, 3.0, 4.0]),
        );
        assert_eq!(get_f32(&*run(&*add, &[&*x, &*x])[0]), [2.0, 4.0, 6.0, 8.0]);
        let again = client.load(&add.serialize().unwrap()).unwrap();
        assert_eq!(get_f32(&*run(&*again, &[&*x, &*x])[0]), [2.0, 4.0, 6.0, 8.0]);
        assert_eq!(add.layouts().unwrap().0.len(), 2);
        assert!(client.topology().unwrap().devices().len() >= 2);
        // What the CPU plugins lack is a typed error that names the call.
        let error = client.device(0).unwrap().memory_stats().unwrap_err();
        assert!(
            matches!(
                error,
                Error::Plugin {
                    call: "PJRT_Device_MemoryStats",
                    ..
                }
            ),
            "{error}"
        );
        assert!(add.cost_analysis().is_err());
        V6E.compile(&Program::mlir(&text), &CompileOptions::default())
            .unwrap();
    }
}
