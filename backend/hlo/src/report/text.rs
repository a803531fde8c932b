//! The report as a table for people.

use std::fmt;

use super::{Bound, Report};

/// A number with a decimal prefix: `33.5 G`.
struct Si(f64);

impl fmt::Display for Si {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = [(1e15, " P"), (1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
        match steps.iter().find(|(size, _)| self.0.abs() >= *size) {
            Some((size, prefix)) => write!(f, "{:.2}{prefix}", self.0 / size),
            None => write!(f, "{} ", self.0),
        }
    }
}

/// A time in the unit that suits it.
struct Seconds(f64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            s if s >= 1.0 => write!(f, "{s:.3} s"),
            s if s >= 1e-3 => write!(f, "{:.3} ms", s * 1e3),
            s => write!(f, "{:.3} us", s * 1e6),
        }
    }
}

/// `1 loop`, `2 loops`.
fn counted(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// At most `n` characters, the end kept: file and line stand there.
fn clip(s: &str, n: usize) -> String {
    let count = s.chars().count();
    if count <= n {
        return s.to_owned();
    }
    let tail: String = s.chars().skip(count + 1 - n).collect();
    format!("…{tail}")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (chip, cost, memory) = (&self.chip, &self.cost, &self.memory);
        writeln!(
            f,
            "{} ({}, {:.2} GHz, {}FLOP/s bf16, {}B/s, {}B)",
            self.topology,
            chip.name,
            chip.clock_hz / 1e9,
            Si(chip.peak_flops),
            Si(chip.hbm_bandwidth),
            Si(chip.hbm_bytes as f64)
        )?;
        writeln!(
            f,
            "compiled in {}, executable {}B",
            Seconds(self.compile_seconds),
            Si(self.serialized_bytes as f64)
        )?;
        writeln!(f, "\nCost of one execution on one device")?;
        let row = |f: &mut fmt::Formatter<'_>, name: &str, value: String| writeln!(f, "  {name:<22}{value}");
        let number = |n| Si(n).to_string().trim_end().to_owned();
        row(f, "flops", number(cost.flops))?;
        row(f, "transcendentals", number(cost.transcendentals))?;
        row(f, "bytes accessed", format!("{}B", Si(cost.bytes_accessed)))?;
        let cycles = format!(
            "{} ({} at the chip's clock)",
            cost.estimated_cycles,
            Seconds(cost.estimated_seconds)
        );
        row(f, "estimated cycles", cycles)?;
        let bound = match cost.bound {
            Bound::Memory => "memory",
            Bound::Compute => "compute",
        };
        let intensity = format!(
            "{:.2} FLOP/B, ridge at {:.0}: {bound} bound",
            cost.arithmetic_intensity, cost.ridge_intensity
        );
        row(f, "arithmetic intensity", intensity)?;
        if cost.uncosted_instructions > 0 {
            let n = cost.uncosted_instructions;
            row(
                f,
                "without an estimate",
                format!("{}, not in the cycles", counted(n, "instruction")),
            )?;
        }
        if cost.unknown_trip_counts > 0 {
            let n = cost.unknown_trip_counts;
            let told = format!(
                "{} counted once: all figures are lower bounds",
                counted(n, "loop")
            );
            row(f, "unknown trip counts", told)?;
        }
        writeln!(f, "\nMemory of one device")?;
        for (name, bytes) in [
            ("arguments", memory.argument_bytes),
            ("outputs", memory.output_bytes),
            ("of them aliased", memory.alias_bytes),
            ("temporaries", memory.temp_bytes),
            ("code", memory.code_bytes),
        ] {
            row(f, name, format!("{}B", Si(bytes as f64)))?;
        }
        let percent = 100.0 * super::ratio(memory.peak_hbm_bytes as f64, memory.limit_bytes as f64);
        let peak = format!(
            "{}B of {}B ({percent:.1} %)",
            Si(memory.peak_hbm_bytes as f64),
            Si(memory.limit_bytes as f64)
        );
        row(f, "peak", peak)?;
        if self.top.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nDearest instructions")?;
        writeln!(
            f,
            "  {:>6}  {:>14}  {:>12}  {:>7}  {:<36}source",
            "share", "total cycles", "cycles", "runs", "name"
        )?;
        for t in &self.top {
            let runs = t.trip_count.map_or("?".to_owned(), |n| n.to_string());
            writeln!(
                f,
                "  {:>5.1}%  {:>14}  {:>12}  {runs:>7}  {:<36}{}",
                t.share * 100.0,
                t.total_cycles,
                t.cycles,
                clip(&t.name, 34),
                clip(&t.source, 60)
            )?;
        }
        Ok(())
    }
}
