//! What the environment asks for, read once when the plugin is loaded.

use crate::error::ShimError;
use crate::fault::FaultPlan;
use crate::topology::Topology;

/// Names the simulated slice, `v6e:1x1` when unset.
pub const TOPOLOGY_ENV: &str = "TORCH_TPU_SIM_TOPOLOGY";
/// Limits each device's HBM, in bytes; the generation's own figure when unset.
pub const HBM_ENV: &str = "TORCH_TPU_SIM_HBM_BYTES";
/// Makes calls fail, see [`crate::fault`].
pub const FAULT_ENV: &str = "TORCH_TPU_SIM_FAULT";

/// The environment's wishes.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) topology: Topology,
    pub(crate) hbm_bytes: Option<u64>,
    pub(crate) faults: FaultPlan,
}

impl Config {
    pub(crate) fn from_env() -> Result<Self, ShimError> {
        let hbm_bytes = match read(HBM_ENV)? {
            None => None,
            // Memory statistics carry the limit in an i64.
            Some(text) => match text.trim().parse::<u64>() {
                Ok(bytes) if (1..=i64::MAX as u64).contains(&bytes) => Some(bytes),
                _ => {
                    return Err(ShimError::invalid(format!(
                        "{HBM_ENV}={text:?}: not a number of bytes from 1 to {}, such as 1073741824",
                        i64::MAX
                    )));
                }
            },
        };
        let name = read(TOPOLOGY_ENV)?.unwrap_or_else(|| "v6e:1x1".to_owned());
        let topology = Topology::parse(&name, hbm_bytes)
            .map_err(|error| ShimError::new(error.code, format!("{TOPOLOGY_ENV}: {error}")))?;
        let faults = FaultPlan::parse(&read(FAULT_ENV)?.unwrap_or_default())
            .map_err(|error| ShimError::invalid(format!("{FAULT_ENV}: {error}")))?;
        Ok(Self {
            topology,
            hbm_bytes,
            faults,
        })
    }
}

fn read(name: &str) -> Result<Option<String>, ShimError> {
    match std::env::var(name) {
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => Ok(Some(text)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(ShimError::invalid(format!("{name}: the value is not UTF-8")))
        }
    }
}
