//! Slices by name: generations, devices, coordinates, attributes.
//!
//! Names, kinds, attribute names and types, debug strings and memory limits are those that libtpu 0.0.52 reports
//! for the same name (`v6e:2x2`). Two things differ on purpose: every device carries the attribute `simulated`,
//! and all devices belong to process 0, because one process drives the whole slice.

use std::fmt;

use crate::error::ShimError;

/// One TPU generation's facts.
#[derive(Debug, PartialEq)]
pub struct Generation {
    /// Name before the colon.
    pub name: &'static str,
    /// `device_kind` as libtpu reports it.
    pub kind: &'static str,
    /// Whether chips form a 2-D torus (else 3-D).
    pub flat: bool,
    /// PJRT devices a chip.
    pub devices_per_chip: usize,
    /// The `num_cores` attribute.
    pub num_cores: i64,
    /// HBM a device may use in a one-chip slice, in bytes.
    pub hbm_bytes: u64,
    /// Bytes of HBM that each further chip of the slice takes from every device.
    pub hbm_bytes_per_chip: u64,
}

/// Every generation that can be simulated.
pub const GENERATIONS: [Generation; 4] = [
    Generation {
        name: "v6e",
        kind: "TPU v6 lite",
        flat: true,
        devices_per_chip: 1,
        num_cores: 1,
        hbm_bytes: 33_546_042_880,
        hbm_bytes_per_chip: 512,
    },
    Generation {
        name: "v5e",
        kind: "TPU v5 lite",
        flat: true,
        devices_per_chip: 1,
        num_cores: 1,
        hbm_bytes: 16_909_336_064,
        hbm_bytes_per_chip: 512,
    },
    Generation {
        name: "v5p",
        kind: "TPU v5",
        flat: false,
        devices_per_chip: 1,
        num_cores: 2,
        hbm_bytes: 102_786_661_888,
        hbm_bytes_per_chip: 512,
    },
    Generation {
        name: "v4",
        kind: "TPU v4",
        flat: false,
        devices_per_chip: 2,
        num_cores: 1,
        hbm_bytes: 32_745_977_856,
        hbm_bytes_per_chip: 2048,
    },
];

/// Slices beyond this need more host threads than a simulation is worth.
pub const MAX_CHIPS: usize = 1024;

/// A parsed slice name.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// The generation.
    pub generation: &'static Generation,
    /// Chips along x, y, z.
    pub bounds: [usize; 3],
    /// HBM limit of each device in bytes.
    pub hbm_bytes: u64,
}

impl Topology {
    /// Parses `v6e:2x2`; `hbm_bytes` replaces the generation's own limit.
    pub fn parse(name: &str, hbm_bytes: Option<u64>) -> Result<Self, ShimError> {
        let bad = |why: String| {
            ShimError::invalid(format!(
                "topology {name:?}: {why}; write GENERATION:AxB or GENERATION:AxBxC, for example v6e:2x2, with a \
                 generation out of {}",
                GENERATIONS.map(|generation| generation.name).join(", ")
            ))
        };
        let Some((generation, bounds)) = name.split_once(':') else {
            return Err(bad("there is no ':' between generation and bounds".into()));
        };
        let Some(generation) = GENERATIONS.iter().find(|known| known.name == generation) else {
            return Err(bad(format!("generation {generation:?} is unknown")));
        };
        let mut parsed = [1_usize; 3];
        let parts: Vec<&str> = bounds.split('x').collect();
        if !(2..=3).contains(&parts.len()) {
            return Err(bad(format!("{bounds:?} has {} dimensions", parts.len())));
        }
        for (at, part) in parts.iter().enumerate() {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            match part.parse::<usize>() {
                Ok(value) if digits && (1..=MAX_CHIPS).contains(&value) => parsed[at] = value,
                _ => {
                    return Err(bad(format!(
                        "bound {part:?} is not a number from 1 to {MAX_CHIPS}"
                    )));
                }
            }
        }
        if generation.flat && parsed[2] != 1 {
            return Err(bad(format!("{} slices are two-dimensional", generation.name)));
        }
        if parsed[..2].iter().any(|&bound| bound != 1 && bound % 2 != 0) {
            return Err(bad(
                "odd bounds other than 1 do not divide into hosts of 2x2 chips".into(),
            ));
        }
        let chips = parsed.iter().product::<usize>();
        if chips > MAX_CHIPS {
            return Err(bad(format!(
                "{chips} chips are more than the {MAX_CHIPS} that can be simulated"
            )));
        }
        let own = generation.hbm_bytes - generation.hbm_bytes_per_chip * (chips as u64 - 1);
        Ok(Self {
            generation,
            bounds: parsed,
            hbm_bytes: hbm_bytes.unwrap_or(own),
        })
    }

    /// Number of PJRT devices.
    pub fn device_count(&self) -> usize {
        self.bounds.iter().product::<usize>() * self.generation.devices_per_chip
    }

    /// Chip coordinates and core of the device with this id: x runs fastest, cores before chips.
    pub fn place(&self, id: usize) -> ([i64; 3], i64) {
        let chip = id / self.generation.devices_per_chip;
        let [x, y, _] = self.bounds;
        let coords = [chip % x, chip / x % y, chip / (x * y)].map(|at| at as i64);
        (coords, (id % self.generation.devices_per_chip) as i64)
    }

    /// A self-contained form that [`Topology::deserialize`] reads.
    pub fn serialize(&self) -> Vec<u8> {
        format!("{MAGIC}{self} hbm_bytes={}\n", self.hbm_bytes).into_bytes()
    }

    /// Reads what [`Topology::serialize`] wrote.
    pub fn deserialize(bytes: &[u8]) -> Result<Self, ShimError> {
        let bad = || {
            ShimError::invalid(format!(
                "these {} bytes are not a serialized tpu_sim topology (other plugins' topologies do not fit)",
                bytes.len()
            ))
        };
        let text = std::str::from_utf8(bytes).map_err(|_| bad())?;
        let line = text
            .strip_prefix(MAGIC)
            .and_then(|rest| rest.strip_suffix('\n'))
            .ok_or_else(bad)?;
        let (name, limit) = line.split_once(" hbm_bytes=").ok_or_else(bad)?;
        Self::parse(name, Some(limit.parse().map_err(|_| bad())?))
    }

    /// FNV-1a of the serialized form: stable over processes and builds.
    pub fn fingerprint(&self) -> u64 {
        self.serialize()
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            })
    }
}

const MAGIC: &str = "tpu_sim.topology.1 ";

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.bounds;
        write!(f, "{}:{x}x{y}", self.generation.name)?;
        if self.generation.flat {
            Ok(())
        } else {
            write!(f, "x{z}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v6e_slices_have_libtpu_coordinates_and_limits() {
        let slice = Topology::parse("v6e:4x4", None).unwrap();
        assert_eq!(slice.device_count(), 16);
        assert_eq!(slice.place(2), ([2, 0, 0], 0));
        assert_eq!(slice.place(4), ([0, 1, 0], 0));
        assert_eq!(slice.hbm_bytes, 33_546_035_200);
        assert_eq!(
            Topology::parse("v6e:2x2", None).unwrap().hbm_bytes,
            33_546_041_344
        );
        assert_eq!(
            Topology::parse("v5p:2x2x2", None).unwrap().hbm_bytes,
            102_786_658_304
        );
        let v4 = Topology::parse("v4:2x2x1", None).unwrap();
        assert_eq!(
            (v4.device_count(), v4.place(3), v4.hbm_bytes),
            (8, ([1, 0, 0], 1), 32_745_971_712)
        );
    }

    #[test]
    fn bad_names_say_what_is_wrong() {
        for (name, part) in [
            ("v6e", "no ':'"),
            ("v9:2x2", "\"v9\" is unknown"),
            ("v6e:2", "1 dimensions"),
            ("v6e:2x2x2", "two-dimensional"),
            ("v6e:3x3", "odd bounds"),
            ("v6e:0x1", "\"0\" is not a number"),
            ("v6e:+2x2", "\"+2\" is not a number"),
            ("v6e:64x64", "4096 chips"),
            ("v6e:99999999999999999999x1", "is not a number"),
        ] {
            let error = Topology::parse(name, None).unwrap_err();
            assert!(error.message.contains(part), "{name}: {error}");
        }
    }

    #[test]
    fn serialized_form_round_trips_and_foreign_bytes_are_refused() {
        for name in ["v6e:1x1", "v5e:2x2", "v5p:2x2x1", "v4:2x2x4"] {
            let slice = Topology::parse(name, Some(1 << 20)).unwrap();
            assert_eq!(slice.to_string(), name);
            assert_eq!(Topology::deserialize(&slice.serialize()).unwrap(), slice);
        }
        assert!(Topology::deserialize(b"\x0a\x03tpu").is_err());
        let one = Topology::parse("v6e:1x1", None).unwrap();
        assert_ne!(
            one.fingerprint(),
            Topology::parse("v6e:2x2", None).unwrap().fingerprint()
        );
    }
}
