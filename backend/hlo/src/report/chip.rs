//! TPU generations and topology names.

use serde::{Deserialize, Serialize};

/// One device of a slice, as the compiler sees it: a whole chip, or one of its two cores on v4 and tpu7x.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chip {
    /// PJRT's device kind.
    pub name: String,
    /// The clock that `estimated_cycles` count.
    pub clock_hz: f64,
    /// Memory that programs can use.
    pub hbm_bytes: u64,
    /// Dense bf16 operations a second.
    pub peak_flops: f64,
    /// Bytes a second.
    pub hbm_bandwidth: f64,
}

struct Generation {
    /// What topology names start with.
    names: &'static [&'static str],
    kind: &'static str,
    clock_hz: f64,
    hbm_bytes: u64,
    peak_flops: f64,
    hbm_bandwidth: f64,
    devices_per_chip: u64,
}

/// Peak and bandwidth are Google's published figures, for v4 and tpu7x halved as a device there is half a
/// chip. Memory is libtpu 0.0.52's `device_memory_bytes_limit`. No clock is published for tpu7x: it is
/// the one at which four 256 x 256 units reach the published peak, as they do on v6e.
const GENERATIONS: &[Generation] = &[
    Generation {
        names: &["v6e"],
        kind: "TPU v6 lite",
        clock_hz: 1.75e9,
        hbm_bytes: 33_546_042_880,
        peak_flops: 918e12,
        hbm_bandwidth: 1.64e12,
        devices_per_chip: 1,
    },
    Generation {
        names: &["v5e", "v5litepod"],
        kind: "TPU v5 lite",
        clock_hz: 1.5e9,
        hbm_bytes: 16_909_334_528,
        peak_flops: 197e12,
        hbm_bandwidth: 819e9,
        devices_per_chip: 1,
    },
    Generation {
        names: &["v5p"],
        kind: "TPU v5",
        clock_hz: 1.75e9,
        hbm_bytes: 102_786_660_352,
        peak_flops: 459e12,
        hbm_bandwidth: 2.765e12,
        devices_per_chip: 1,
    },
    Generation {
        names: &["v4"],
        kind: "TPU v4",
        clock_hz: 1.05e9,
        hbm_bytes: 32_745_971_712,
        peak_flops: 137.5e12,
        hbm_bandwidth: 614e9,
        devices_per_chip: 2,
    },
    Generation {
        names: &["tpu7x", "v7x"],
        kind: "TPU7x",
        clock_hz: 2.2e9,
        hbm_bytes: 101_724_450_816,
        peak_flops: 1_153.5e12,
        hbm_bandwidth: 3.69e12,
        devices_per_chip: 2,
    },
];

/// A topology name taken apart: `v6e:2x4` is eight chips of a v6e.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// The name as given.
    pub name: String,
    /// Chips along each axis.
    pub axes: Vec<u64>,
    /// Chips in all.
    pub chips: u64,
    /// Devices in all.
    pub devices: u64,
    /// What each device can do.
    pub chip: Chip,
}

/// Why a topology name says nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TopologyError {
    /// No such chip.
    #[error(
        "topology {name:?} names no TPU generation we know; it starts with one of {known}, as in \"v6e:2x2\""
    )]
    Generation {
        /// The name as given.
        name: String,
        /// Generations there are.
        known: String,
    },
    /// The part after the colon is not a shape.
    #[error(
        "topology {name:?} has no chip grid; after the colon come two or three positive sizes, as in \"v6e:2x2\" or \"v5p:2x2x1\""
    )]
    Grid {
        /// The name as given.
        name: String,
    },
}

impl std::str::FromStr for Topology {
    type Err = TopologyError;

    /// ```
    /// let t: hlo::report::Topology = "v6e:2x4".parse()?;
    /// assert_eq!((t.chips, t.chip.name.as_str()), (8, "TPU v6 lite"));
    /// # Ok::<(), hlo::report::TopologyError>(())
    /// ```
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let (prefix, grid) = name.split_once(':').unwrap_or((name, ""));
        let generation = GENERATIONS
            .iter()
            .find(|g| g.names.contains(&prefix))
            .ok_or_else(|| TopologyError::Generation {
                name: name.to_owned(),
                known: GENERATIONS
                    .iter()
                    .map(|g| g.names[0])
                    .collect::<Vec<_>>()
                    .join(", "),
            })?;
        let axes: Option<Vec<u64>> = grid
            .split('x')
            .map(|n| n.parse().ok().filter(|&n| n > 0))
            .collect();
        let axes = axes.filter(|a| matches!(a.len(), 2 | 3));
        let chips = |a: &Vec<u64>| a.iter().try_fold(1_u64, |n, &a| n.checked_mul(a));
        let (axes, chips, devices) = axes
            .and_then(|a| {
                let chips = chips(&a)?;
                Some((a, chips, chips.checked_mul(generation.devices_per_chip)?))
            })
            .ok_or_else(|| TopologyError::Grid {
                name: name.to_owned(),
            })?;
        Ok(Self {
            name: name.to_owned(),
            axes,
            chips,
            devices,
            chip: Chip {
                name: generation.kind.to_owned(),
                clock_hz: generation.clock_hz,
                hbm_bytes: generation.hbm_bytes,
                peak_flops: generation.peak_flops,
                hbm_bandwidth: generation.hbm_bandwidth,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_give_chips_and_devices() {
        for (name, chips, devices) in [
            ("v6e:1x1", 1, 1),
            ("v6e:16x16", 256, 256),
            ("v5litepod:2x2", 4, 4),
            ("v5p:2x2x1", 4, 4),
            ("v4:2x2x1", 4, 8),
            ("tpu7x:2x2x1", 4, 8),
        ] {
            let t: Topology = name.parse().unwrap();
            assert_eq!((t.chips, t.devices), (chips, devices), "{name}");
        }
    }

    #[test]
    fn bad_names_say_what_is_wrong() {
        let generation = "v9:1x1".parse::<Topology>().unwrap_err().to_string();
        assert!(
            generation.contains("\"v9:1x1\"") && generation.contains("v6e, v5e"),
            "{generation}"
        );
        for name in [
            "v6e",
            "v6e:",
            "v6e:4",
            "v6e:0x2",
            "v6e:2x-1",
            "v6e:2x2x2x2",
            "v4:18446744073709551615x2",
        ] {
            let e = name.parse::<Topology>().unwrap_err();
            assert!(matches!(e, TopologyError::Grid { .. }), "{name}: {e}");
        }
    }
}
