//! How long 100,000 ops take to build and to print: `cargo run --release -p stablehlo --example print_speed`.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use stablehlo::ElementType::F32;
use stablehlo::{Arena, Module, Result, TensorType};

fn main() -> Result<()> {
    const OPS: usize = 100_000;
    let start = Instant::now();
    let arena = Arena::new();
    let mut m = Module::new(&arena, "speed");
    let x = TensorType::new(&arena, &[128, 256], F32)?;
    m.function("main", &[x.into(), x.into()], |f, a| {
        let mut v = a[0];
        for i in 0..OPS {
            v = match i % 4 {
                0 => f.add(v, a[1])?,
                1 => f.multiply(v, v)?,
                2 => f.tanh(v)?,
                _ => {
                    let dims = f.tensor_ty(v)?.sizes().map(|s| s.to_vec()).unwrap_or_default();
                    f.reshape(v, &dims)?
                }
            };
        }
        Ok(vec![v])
    })?;
    let built = start.elapsed();
    let text = m.text();
    let printed = start.elapsed() - built;
    println!(
        "{OPS} ops: built in {:.1} ms, printed {:.1} MB in {:.1} ms",
        built.as_secs_f64() * 1e3,
        text.len() as f64 / 1e6,
        printed.as_secs_f64() * 1e3
    );
    Ok(())
}
