//! What `python -m torch_tpu doctor` asks of Rust.

use std::path::{Path, PathBuf};

use pjrt::platform::{self, Platform};
use pjrt::plugin::PluginClient;
use pjrt::{Client, CompileOptions, ElementType, ExecuteOptions, HostArray, Placement, Program};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::locate::{libtpu, plugin_path, set};

/// Something that is wrong, and how to mend it.
fn problem(what: impl ToString, fix: &str) -> Value {
    json!({ "what": what.to_string(), "fix": fix })
}

/// Adds 1 and 2 on the first device.
fn smoke(client: &dyn Client) -> pjrt::Result<f32> {
    let text = "module @smoke { func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {\n\
                %r = stablehlo.add %a, %b : tensor<f32>\n return %r : tensor<f32> } }";
    let add = client.compile(&Program::mlir(text), &CompileOptions::default())?;
    let device = client.device(0)?;
    let put = |v: f32| {
        let bytes = v.to_ne_bytes();
        client.buffer_from_host(
            &HostArray::new(ElementType::F32, &[], &bytes),
            Placement::Device(&*device),
        )
    };
    let (one, two) = (put(1.0)?, put(2.0)?);
    let out = add
        .execute(&[&[&*one, &*two]], &ExecuteOptions::default())?
        .into_single();
    let mut bytes = [0; 4];
    match out.first() {
        Some(buffer) => buffer.copy_to_host(&mut bytes)?,
        None => return Ok(f32::NAN),
    }
    Ok(f32::from_ne_bytes(bytes))
}

/// How to mend a plugin that does not work: settings of the simulator come before its files.
fn plugin_fix(error: &str) -> &'static str {
    if error.contains("injected fault") {
        return "unset TORCH_TPU_SIM_FAULT: this failure was asked for by it";
    }
    if error.contains("TORCH_TPU_SIM_") {
        return "correct or unset the variable that this message names; docs/simulator.md has its grammar";
    }
    "reinstall the plugin named in this message, or name another in TORCH_TPU_PJRT_PLUGIN or TORCH_TPU_CPU_PLUGIN"
}

fn plugin_problem(what: impl ToString) -> Value {
    let what = what.to_string();
    problem(&what, plugin_fix(&what))
}

fn examine(plugin: &Path) -> Result<Value, Value> {
    let client = PluginClient::open(plugin, &[]).map_err(plugin_problem)?;
    let devices: Vec<Value> = client
        .devices()
        .iter()
        .map(|d| {
            let (description, memory) = (d.description(), d.memory_stats().ok());
            json!({
                "id": description.id,
                "kind": description.kind,
                "coords": description.coords(),
                "attributes": description.attributes.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
                "memory": memory,
            })
        })
        .collect();
    let (major, minor) = client.plugin().api_version();
    let extensions: Vec<String> = client
        .plugin()
        .extensions()
        .iter()
        .map(|e| e.name.map_or_else(|| format!("type {}", e.kind), str::to_owned))
        .collect();
    let sum = smoke(&*client).map_err(|e| plugin_problem(format!("the smoke run failed: {e}")))?;
    if sum != 3.0 {
        return Err(plugin_problem(format!("the smoke run gave {sum} for 1 + 2")));
    }
    Ok(json!({
        "platform_name": client.platform_name(),
        "platform_version": client.platform_version(),
        "api_version": format!("{major}.{minor}"),
        "extensions": extensions,
        "devices": devices,
        "smoke": "1 + 2 = 3",
    }))
}

/// The platform chosen and why, its plugin, devices and a smoke run, as JSON; `problems` lists what is wrong and how
/// to fix it. Never raises for what it examines. With `watch_stdin` the process ends when its standard input does: a
/// plugin that hangs does not outlive who started the child.
#[pyfunction]
#[pyo3(signature = (watch_stdin = false))]
pub(crate) fn doctor(py: Python<'_>, watch_stdin: bool) -> PyResult<String> {
    if watch_stdin {
        pjrt::aot::worker::end_with(std::io::stdin())?;
    }
    let mut problems = Vec::new();
    let choice = match platform::current() {
        Ok(choice) => Some(choice),
        Err(error) => {
            problems.push(problem(
                error,
                "unset TORCH_TPU_PLATFORM, or set it to auto or sim",
            ));
            None
        }
    };
    let plugin: Option<PathBuf> = choice.as_ref().and_then(|choice| {
        let found = match choice.platform {
            Platform::Sim => plugin_path(py),
            Platform::Tpu if set("TORCH_TPU_PJRT_PLUGIN").is_some() => plugin_path(py),
            Platform::Tpu => libtpu(py),
        };
        found
            .map_err(|e| problems.push(problem(e.value(py), "build or install what this message names")))
            .ok()
    });
    let examined = plugin
        .as_ref()
        .and_then(|path| py.detach(|| examine(path)).map_err(|p| problems.push(p)).ok());
    let report = json!({
        "platform": choice.as_ref().map(|c| c.platform.name()),
        "reason": choice.as_ref().map(|c| &c.reason),
        "plugin": plugin,
        "libtpu": libtpu(py).ok(),
        "client": examined,
        "problems": problems,
    });
    Ok(report.to_string())
}
