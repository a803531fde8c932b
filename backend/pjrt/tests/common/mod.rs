//! What the integration tests share: the simulator, the v6e compiler, and programs that go through both.
#![allow(dead_code, unreachable_pub)] // each test binary uses a part

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Once};

use pjrt::aot::{AotClient, WorkerCommand};
use pjrt::plugin::PluginClient;
use pjrt::{
    Buffer, Client, CompileOptions, ElementType, Executable, ExecuteOptions, HostArray, Placement, Program,
};

/// The simulator, built beside the tests, set to a v6e:2x2 slice.
pub fn shim() -> PathBuf {
    static TOPOLOGY: Once = Once::new();
    // SAFETY: the shim reads it when it is loaded, which no test does but through here; nothing else writes.
    TOPOLOGY.call_once(|| unsafe { std::env::set_var("TORCH_TPU_SIM_TOPOLOGY", "v6e:2x2") });
    let path = std::env::current_exe()
        .unwrap()
        .with_file_name("libpjrt_cpu_shim.so");
    assert!(
        path.exists(),
        "{} is missing: cargo builds it with these tests",
        path.display()
    );
    path
}

/// `.venv` of the checkout, which `tools/dev setup` makes.
pub fn site_packages() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap();
    let lib = root.join(".venv/lib");
    let python =
        std::fs::read_dir(&lib).unwrap_or_else(|e| panic!("{}: {e}; run tools/dev setup", lib.display()));
    let python = python
        .flatten()
        .map(|e| e.path())
        .find(|p| p.join("site-packages").is_dir());
    python
        .unwrap_or_else(|| panic!("no site-packages in {}; run tools/dev setup", lib.display()))
        .join("site-packages")
}

/// The simulated slice, one client for the test binary.
pub static SIM: LazyLock<Arc<dyn Client>> = LazyLock::new(|| PluginClient::open(shim(), &[]).unwrap());

pub fn worker() -> WorkerCommand {
    WorkerCommand {
        program: env!("CARGO_BIN_EXE_pjrt_aot_worker").into(),
        arguments: vec![],
    }
}

pub fn libtpu() -> PathBuf {
    site_packages().join("libtpu/libtpu.so")
}

/// The v6e compiler, in its child process.
pub static V6E: LazyLock<Arc<AotClient>> =
    LazyLock::new(|| AotClient::new(worker(), &libtpu(), "v6e:1x1").unwrap());

/// Compiles for one simulated chip, and for a real one: every program of these tests is good for both.
pub fn compile(text: &str) -> Arc<dyn Executable> {
    V6E.compile(&Program::mlir(text), &CompileOptions::default())
        .unwrap_or_else(|e| panic!("v6e: {e}\n{text}"));
    compile_on_sim(text)
}

pub fn compile_on_sim(text: &str) -> Arc<dyn Executable> {
    SIM.compile(&Program::mlir(text), &CompileOptions::default())
        .unwrap_or_else(|e| panic!("sim: {e}\n{text}"))
}

/// `%r = op %a, %b` over tensors of one type.
pub fn binary(op: &str, ty: &str) -> String {
    format!(
        "module @{op} {{ func.func @main(%a: tensor<{ty}>, %b: tensor<{ty}>) -> tensor<{ty}> {{\n\
         %r = stablehlo.{op} %a, %b : tensor<{ty}>\n return %r : tensor<{ty}> }} }}"
    )
}

pub fn bytes<T: Copy>(values: &[T]) -> Vec<u8> {
    // SAFETY: plain numbers of the tests, read as their bytes.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) }.to_vec()
}

pub fn put(element: ElementType, dims: &[i64], data: &[u8]) -> Arc<dyn Buffer> {
    put_on(&**SIM, 0, element, dims, data)
}

pub fn put_on(
    client: &dyn Client,
    device: usize,
    element: ElementType,
    dims: &[i64],
    data: &[u8],
) -> Arc<dyn Buffer> {
    let device = client.device(device).unwrap();
    client
        .buffer_from_host(&HostArray::new(element, dims, data), Placement::Device(&*device))
        .unwrap()
}

pub fn put_f32(dims: &[i64], data: &[f32]) -> Arc<dyn Buffer> {
    put(ElementType::F32, dims, &bytes(data))
}

pub fn get(buffer: &dyn Buffer) -> Vec<u8> {
    let mut out = vec![0; buffer.shape().host_bytes()];
    buffer.copy_to_host(&mut out).unwrap();
    out
}

pub fn get_f32(buffer: &dyn Buffer) -> Vec<f32> {
    get(buffer)
        .chunks_exact(4)
        .map(|c| f32::from_ne_bytes(c.try_into().unwrap()))
        .collect()
}

pub fn run(executable: &dyn Executable, arguments: &[&dyn Buffer]) -> Vec<Arc<dyn Buffer>> {
    executable
        .execute(&[arguments], &ExecuteOptions::default())
        .unwrap()
        .into_single()
}
