//! Compile options as a typed message, encoded the same way every time.

use std::collections::BTreeMap;

use pjrt_ffi::protos::xla as proto;
use prost::Message;

/// The value of an entry of `env_option_overrides`.
#[derive(Clone, PartialEq, Debug)]
pub enum OptionValue {
    /// Text.
    String(String),
    /// A flag.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A double.
    Double(f64),
}

impl From<bool> for OptionValue {
    fn from(v: bool) -> Self {
        Self::Bool(v)
    }
}

impl From<&str> for OptionValue {
    fn from(v: &str) -> Self {
        Self::String(v.to_owned())
    }
}

impl From<i64> for OptionValue {
    fn from(v: i64) -> Self {
        Self::Int(v)
    }
}

/// What to compile for. `Default` is one replica, one partition, no overrides.
#[derive(Clone, PartialEq, Debug)]
pub struct CompileOptions {
    /// The message itself, for anything without a shorthand here. Its `env_option_overrides` stay empty.
    pub message: proto::CompileOptionsProto,
    /// `env_option_overrides`: XLA flags by name. Plugins refuse unknown names by name.
    pub overrides: BTreeMap<String, OptionValue>,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self::new(1, 1)
    }
}

impl CompileOptions {
    /// For `replicas` x `partitions` devices.
    pub fn new(replicas: i64, partitions: i64) -> Self {
        let build = proto::ExecutableBuildOptionsProto {
            num_replicas: replicas,
            num_partitions: partitions,
            ..Default::default()
        };
        let message = proto::CompileOptionsProto {
            executable_build_options: Some(build),
            ..Default::default()
        };
        Self {
            message,
            overrides: BTreeMap::new(),
        }
    }

    /// XLA's build options.
    pub fn build(&mut self) -> &mut proto::ExecutableBuildOptionsProto {
        self.message
            .executable_build_options
            .get_or_insert_with(Default::default)
    }

    /// One program for all partitions, split by the sharding annotations; `shardy` reads `sdy` ones.
    pub fn spmd(mut self, shardy: bool) -> Self {
        let build = self.build();
        build.use_spmd_partitioning = true;
        build.use_shardy_partitioner = shardy;
        self
    }

    /// Sets an XLA flag for this compile only.
    pub fn with(mut self, name: &str, value: impl Into<OptionValue>) -> Self {
        self.overrides.insert(name.to_owned(), value.into());
        self
    }

    /// Runs on exactly these devices: `ids[replica][partition]`.
    pub fn on_devices(mut self, ids: &[Vec<i64>]) -> Self {
        let partitions = ids.first().map_or(0, Vec::len);
        let computation_devices = (0..partitions)
            .map(|p| proto::device_assignment_proto::ComputationDevice {
                replica_device_ids: ids.iter().filter_map(|replica| replica.get(p).copied()).collect(),
            })
            .collect();
        self.build().device_assignment = Some(proto::DeviceAssignmentProto {
            replica_count: ids.len() as i32,
            computation_count: partitions as i32,
            computation_devices,
        });
        self
    }

    /// Replicas and partitions, as the build options say.
    pub fn devices(&self) -> (i64, i64) {
        let build = self.message.executable_build_options.as_ref();
        build.map_or((1, 1), |b| (b.num_replicas.max(1), b.num_partitions.max(1)))
    }

    /// The bytes of a `CompileOptionsProto`. Equal options give equal bytes: they go into cache keys.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.message.encode_to_vec();
        // prost's map is a HashMap with an order of its own; one message an entry, in name order, merges to the same.
        for (name, value) in &self.overrides {
            use proto::option_override_proto::Value;
            let value = match value.clone() {
                OptionValue::String(v) => Value::StringField(v),
                OptionValue::Bool(v) => Value::BoolField(v),
                OptionValue::Int(v) => Value::IntField(v),
                OptionValue::Double(v) => Value::DoubleField(v),
            };
            let entry = proto::OptionOverrideProto { value: Some(value) };
            let one = proto::CompileOptionsProto {
                env_option_overrides: [(name.clone(), entry)].into(),
                ..Default::default()
            };
            bytes.extend(one.encode_to_vec());
        }
        bytes
    }

    /// Reads what [`CompileOptions::encode`] wrote, or any `CompileOptionsProto`.
    pub fn decode(bytes: &[u8]) -> Result<Self, prost::DecodeError> {
        use proto::option_override_proto::Value;
        let mut message = proto::CompileOptionsProto::decode(bytes)?;
        let overrides = message.env_option_overrides.drain().filter_map(|(name, entry)| {
            let value = match entry.value? {
                Value::StringField(v) => OptionValue::String(v),
                Value::BoolField(v) => OptionValue::Bool(v),
                Value::IntField(v) => OptionValue::Int(v),
                Value::DoubleField(v) => OptionValue::Double(v),
            };
            Some((name, value))
        });
        let overrides = overrides.collect();
        Ok(Self { message, overrides })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_default_is_the_well_known_six_bytes() {
        assert_eq!(CompileOptions::default().encode(), [0x1a, 4, 0x20, 1, 0x28, 1]);
    }

    fn any_option() -> impl Strategy<Value = OptionValue> {
        prop_oneof![
            any::<bool>().prop_map(OptionValue::Bool),
            any::<i64>().prop_map(OptionValue::Int),
            ".*".prop_map(OptionValue::String),
            (-1e300f64..1e300).prop_map(OptionValue::Double),
        ]
    }

    proptest! {
        #[test]
        fn options_round_trip_and_ignore_insertion_order(
            list in proptest::collection::vec(("[a-z_]{1,12}", any_option()), 0..8),
            replicas in 1i64..64, partitions in 1i64..64,
        ) {
            let mut forward = CompileOptions::new(replicas, partitions);
            forward.overrides.extend(list.clone());
            let mut again = CompileOptions::new(replicas, partitions);
            for (name, _) in list.iter().rev() {
                again.overrides.insert(name.clone(), forward.overrides[name].clone());
            }
            prop_assert_eq!(forward.encode(), again.encode());
            prop_assert_eq!(CompileOptions::decode(&forward.encode()).unwrap(), forward);
        }

        #[test]
        fn decoding_noise_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = CompileOptions::decode(&bytes);
        }
    }
}
