//! From the bytes of `PJRT_Executable_OptimizedProgram` to a module.

use pjrt_ffi::protos::xla::HloModuleProto;
use prost::Message;

/// An HLO module; each computation refers to the others by id.
pub type Module = HloModuleProto;

/// Why bytes are not a module we can read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The plugin names a format other than the two we read.
    #[error(
        "the optimized program has format {0:?}; \"hlo\" and \"hlo_with_config\" can be read, so ask the plugin for one of those"
    )]
    Format(String),
    /// Not a protobuf message of that format.
    #[error("the optimized program ({bytes} bytes, format {format:?}) is not a valid HLO module: {source}")]
    Decode {
        /// The format that was asked for.
        format: String,
        /// How many bytes were given.
        bytes: usize,
        /// What the decoder says.
        source: prost::DecodeError,
    },
    /// A message of that format, but with no module or no entry computation in it.
    #[error("the optimized program (format {format:?}) holds no {missing}; it may be of another format")]
    Empty {
        /// The format that was asked for.
        format: String,
        /// What is not there.
        missing: &'static str,
    },
}

/// `xla.HloModuleProtoWithConfig`, which the vendored protos lack. The configuration is not read.
#[derive(Clone, PartialEq, Message)]
pub struct HloModuleProtoWithConfig {
    /// The module.
    #[prost(message, optional, tag = "1")]
    pub hlo_module: Option<HloModuleProto>,
    /// A serialized `xla.HloModuleConfigProto`.
    #[prost(bytes = "vec", tag = "2")]
    pub config: Vec<u8>,
}

/// Decodes `bytes` of the given PJRT program format, `"hlo"` or `"hlo_with_config"`.
///
/// ```
/// let error = hlo::module::parse(b"module {}", "mlir").unwrap_err();
/// assert!(error.to_string().contains("\"mlir\""));
/// ```
pub fn parse(bytes: &[u8], format: &str) -> Result<Module, Error> {
    let decode = |source| Error::Decode {
        format: format.to_owned(),
        bytes: bytes.len(),
        source,
    };
    let empty = |missing| Error::Empty {
        format: format.to_owned(),
        missing,
    };
    let module = match format {
        "hlo" => Module::decode(bytes).map_err(decode)?,
        "hlo_with_config" => HloModuleProtoWithConfig::decode(bytes)
            .map_err(decode)?
            .hlo_module
            .ok_or_else(|| empty("module"))?,
        other => return Err(Error::Format(other.to_owned())),
    };
    if crate::index::Index::new(&module).entry().is_none() {
        return Err(empty("entry computation"));
    }
    Ok(module)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Build, f32s};

    #[test]
    fn both_formats_give_the_same_module() {
        let mut b = Build::new();
        let c = b.computation(|c| {
            let a = c.parameter(0, f32s(&[2]));
            c.op("negate", f32s(&[2]), &[a])
        });
        let module = b.module(c);
        let with_config = HloModuleProtoWithConfig {
            hlo_module: Some(module.clone()),
            config: vec![8, 1],
        };
        assert_eq!(parse(&module.encode_to_vec(), "hlo").unwrap(), module);
        assert_eq!(
            parse(&with_config.encode_to_vec(), "hlo_with_config").unwrap(),
            module
        );
    }

    #[test]
    fn refuses_what_is_not_a_module() {
        assert!(matches!(
            parse(&[0xff; 9], "hlo"),
            Err(Error::Decode { bytes: 9, .. })
        ));
        assert!(matches!(
            parse(&[], "hlo_with_config"),
            Err(Error::Empty {
                missing: "module",
                ..
            })
        ));
        assert!(matches!(parse(&[], "hlo"), Err(Error::Empty { .. })));
    }
}
