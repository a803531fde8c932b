//! Compiles the C++ half against the headers of one torch version, one object a file, each only when it changed.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::{env, fs};

/// The folder of the `torch` package: TORCH_TPU_TORCH_DIR, else the checkout's environment.
fn torch_dir() -> Result<PathBuf, Box<dyn Error>> {
    println!("cargo:rerun-if-env-changed=TORCH_TPU_TORCH_DIR");
    if let Some(dir) = env::var_os("TORCH_TPU_TORCH_DIR").filter(|d| !d.is_empty()) {
        return Ok(dir.into());
    }
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../..");
    let libs = fs::read_dir(root.join(".venv/lib"))
        .into_iter()
        .flatten()
        .flatten();
    let found = libs
        .map(|python| python.path().join("site-packages/torch"))
        .find(|torch| torch.join("include/ATen/ATen.h").exists());
    Ok(found.ok_or("torch's headers were not found: run tools/dev setup, or name the torch package's folder in TORCH_TPU_TORCH_DIR")?)
}

/// Whether the object is older than its source or anything that the source includes (make's rule in `depends`).
fn is_stale(object: &Path, depends: &Path) -> bool {
    let (Ok(made), Ok(rule)) = (
        fs::metadata(object).and_then(|m| m.modified()),
        fs::read_to_string(depends),
    ) else {
        return true;
    };
    let files = rule.split_once(':').map_or("", |(_, files)| files);
    files.split_whitespace().filter(|word| *word != "\\").any(|file| {
        fs::metadata(file)
            .and_then(|m| m.modified())
            .map_or(true, |changed| changed > made)
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let torch = torch_dir()?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed=csrc");
    println!("cargo:rerun-if-changed=src/lib.rs");
    println!("cargo:rerun-if-changed={}", torch.join("version.py").display());

    let mut build = cxx_build::bridge("src/lib.rs");
    build
        .std("c++20")
        .include("csrc")
        .flag("-isystem")
        .flag(torch.join("include"))
        .flag("-isystem")
        .flag(torch.join("include/torch/csrc/api/include"))
        .flag("-fvisibility=hidden")
        .flag_if_supported("-Wno-unused-parameter")
        .opt_level(2)
        .debug(false)
        .warnings(true);
    let compiler = build.get_compiler();

    let mut sources: Vec<PathBuf> = fs::read_dir("csrc")?.flatten().map(|f| f.path()).collect();
    sources.retain(|p| p.extension().is_some_and(|e| e == "cpp"));
    sources.sort();
    let jobs: usize = env::var("NUM_JOBS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1);
    let mut running: Vec<(PathBuf, Child)> = Vec::new();
    let mut objects = Vec::new();
    let finish = |(source, mut child): (PathBuf, Child)| -> Result<(), Box<dyn Error>> {
        match child.wait()?.success() {
            true => Ok(()),
            false => Err(format!("{} does not compile", source.display()).into()),
        }
    };
    for source in sources {
        let stem = source.file_stem().unwrap_or_default().to_owned();
        let object = out.join(&stem).with_extension("o");
        let depends = out.join(&stem).with_extension("d");
        if is_stale(&object, &depends) {
            // A failed compilation must not leave an object that looks fresh.
            let _ = fs::remove_file(&object);
            if running.len() >= jobs {
                finish(running.remove(0))?;
            }
            let mut command = compiler.to_command();
            command
                .arg("-c")
                .arg(&source)
                .arg("-o")
                .arg(&object)
                .arg("-MMD")
                .arg("-MF")
                .arg(&depends);
            running.push((source, command.spawn()?));
        }
        objects.push(object);
    }
    running.into_iter().try_for_each(finish)?;

    build
        .objects(objects)
        .cargo_metadata(false)
        .try_compile("torch_tpu_glue_cpp")?;
    println!("cargo:rustc-link-search=native={}", out.display());
    // Registrations are made by static constructors that nothing refers to.
    println!("cargo:rustc-link-lib=static:+whole-archive=torch_tpu_glue_cpp");
    println!("cargo:rustc-link-search=native={}", torch.join("lib").display());
    for library in ["torch_cpu", "c10", "stdc++"] {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
    Ok(())
}
