//! Writes every sample to a folder, for compiling by hand: `cargo run -p stablehlo --example dump_samples -- FOLDER`.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("which folder?")?);
    fs::create_dir_all(&folder)?;
    let all = stablehlo::samples::samples()?;
    // One line a sample: file, replicas, partitions, op, variant, who is known to refuse it.
    let mut index = String::new();
    for (i, s) in all.iter().enumerate() {
        let file = format!("{i:04}.mlir");
        fs::write(folder.join(&file), &s.program)?;
        let refused: Vec<_> = s.refused.iter().map(|(t, _)| format!("{t:?}")).collect();
        writeln!(
            index,
            "{file}\t{}\t{}\t{}\t{}\t{}",
            s.replicas,
            s.partitions,
            s.op,
            s.variant,
            refused.join(",")
        )?;
    }
    fs::write(folder.join("index.tsv"), index)?;
    println!("{} samples", all.len());
    Ok(())
}
