//! Messages between [`super::AotClient`] and its child: a little-endian u64 length, then the message in postcard.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::shape::WireShape;
use crate::{Code, CompiledMemoryStats, DeviceDescription};

/// Refuses longer messages: a length like this is noise on the pipe.
const MESSAGE_LIMIT: u64 = 8 << 30;

#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Request {
    /// Load the compiler and make the topology.
    Open { plugin: String, topology: String },
    /// Compile for it.
    Compile {
        code: Vec<u8>,
        format: String,
        options: Vec<u8>,
    },
}

#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Reply {
    Opened(Box<Opened>),
    Compiled(Box<Compiled>),
    Failed(Failure),
}

#[derive(Serialize, Deserialize, Debug)]
pub(crate) struct Opened {
    pub(crate) platform_name: String,
    pub(crate) platform_version: String,
    pub(crate) devices: Vec<WireDevice>,
    /// JSON: named values are an untagged enum, which postcard cannot carry.
    pub(crate) attributes: String,
    pub(crate) fingerprint: u64,
    pub(crate) serialized: Vec<u8>,
}

/// A device description with its attributes as JSON.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) struct WireDevice {
    id: i32,
    process_index: i32,
    kind: String,
    text: String,
    attributes: String,
}

impl WireDevice {
    pub(crate) fn new(d: &DeviceDescription) -> serde_json::Result<Self> {
        let attributes = serde_json::to_string(&d.attributes)?;
        let (kind, text) = (d.kind.clone(), d.text.clone());
        Ok(Self {
            id: d.id,
            process_index: d.process_index,
            kind,
            text,
            attributes,
        })
    }

    pub(crate) fn description(self) -> serde_json::Result<DeviceDescription> {
        let attributes = serde_json::from_str(&self.attributes)?;
        let Self {
            id,
            process_index,
            kind,
            text,
            ..
        } = self;
        Ok(DeviceDescription {
            id,
            process_index,
            kind,
            text,
            attributes,
        })
    }
}

#[derive(Serialize, Deserialize, Debug)]
pub(crate) struct Compiled {
    pub(crate) name: String,
    pub(crate) replicas: usize,
    pub(crate) partitions: usize,
    pub(crate) parameters: Option<Vec<WireShape>>,
    pub(crate) results: Vec<WireShape>,
    /// JSON, as for attributes.
    pub(crate) cost: String,
    pub(crate) memory: CompiledMemoryStats,
    pub(crate) code_size: i64,
    pub(crate) fingerprint: Vec<u8>,
    pub(crate) program_format: String,
    pub(crate) program: Vec<u8>,
    pub(crate) layouts: Result<(Vec<String>, Vec<String>), Failure>,
    pub(crate) memory_kinds: Result<Vec<String>, Failure>,
    pub(crate) serialized: Vec<u8>,
    pub(crate) seconds: f64,
}

/// An error as it crosses the pipe.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) call: String,
    pub(crate) code: Code,
    pub(crate) message: String,
}

pub(crate) fn send<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    to.write_all(&(bytes.len() as u64).to_le_bytes())?;
    to.write_all(&bytes)?;
    to.flush()
}

/// The next message; `None` when the other side closed the pipe between messages.
pub(crate) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 8];
    match from.read_exact(&mut length) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u64::from_le_bytes(length);
    if length > MESSAGE_LIMIT {
        return Err(io::Error::other(format!(
            "a message of {length} bytes is past the limit of {MESSAGE_LIMIT}"
        )));
    }
    // Read as it comes: a false length must not allocate by itself.
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    postcard::from_bytes(&bytes).map(Some).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn noise_on_the_pipe_is_an_error(bytes in proptest::collection::vec(any::<u8>(), 8..64)) {
            let mut framed = ((bytes.len() - 8) as u64).to_le_bytes().to_vec();
            framed.extend(&bytes[8..]);
            let _ = receive::<Reply>(&mut framed.as_slice());
            let _ = receive::<Request>(&mut bytes.as_slice());
        }
    }

    #[test]
    fn messages_survive_the_pipe() {
        let mut pipe = Vec::new();
        send(
            &mut pipe,
            &Request::Open {
                plugin: "p".into(),
                topology: "v6e:1x1".into(),
            },
        )
        .unwrap();
        let mut from = pipe.as_slice();
        assert!(matches!(receive(&mut from).unwrap(), Some(Request::Open { .. })));
        assert!(receive::<Request>(&mut from).unwrap().is_none());
    }
}
