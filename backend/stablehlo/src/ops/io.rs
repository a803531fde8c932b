//! Tokens, infeed and outfeed, send and recv.

use super::collective::Channel;
use crate::attribute::{Matrix, Props};
use crate::check::ensure;
use crate::{FunctionBuilder, Result, Type, Value};

impl<'a> FunctionBuilder<'a> {
    /// A token that follows all the given ones; with none, a first token.
    pub fn after_all(&mut self, tokens: &[Value]) -> Result<Value> {
        const OP: &str = "stablehlo.after_all";
        for (i, t) in tokens.iter().enumerate() {
            self.token(OP, i, "inputs", *t)?;
        }
        self.emit(OP, tokens, &Props::new(), Type::Token)
    }

    /// A first token (deprecated in favour of `after_all`).
    pub fn create_token(&mut self) -> Result<Value> {
        self.emit("stablehlo.create_token", &[], &Props::new(), Type::Token)
    }

    /// Reads tensors from the host's feed: the values, then the token.
    pub fn infeed(&mut self, token: Value, results: &[Type<'a>], config: &str) -> Result<Vec<Value>> {
        const OP: &str = "stablehlo.infeed";
        self.token(OP, 0, "token", token)?;
        ensure(
            OP,
            results.iter().all(|t| t.tensor().is_some_and(|t| t.is_static())),
            || "results must be static tensors".into(),
        )?;
        let mut types = results.to_vec();
        types.push(Type::Token);
        self.emit_many(
            OP,
            &[token],
            &Props::new().string("infeed_config", config),
            &[],
            &types,
        )
    }

    /// Writes tensors to the host's feed.
    pub fn outfeed(&mut self, inputs: &[Value], token: Value, config: &str) -> Result<Value> {
        const OP: &str = "stablehlo.outfeed";
        self.operands(OP, 0, "inputs", inputs)?;
        self.token(OP, inputs.len(), "token", token)?;
        let all = [inputs, &[token]].concat();
        self.emit(
            OP,
            &all,
            &Props::new().string("outfeed_config", config),
            Type::Token,
        )
    }

    /// Sends tensors to the host, or to another device along one (source, target) pair list.
    pub fn send(
        &mut self,
        inputs: &[Value],
        token: Value,
        channel: Channel,
        is_host_transfer: bool,
        source_target_pairs: &[[i64; 2]],
    ) -> Result<Value> {
        const OP: &str = "stablehlo.send";
        self.operands(OP, 0, "inputs", inputs)?;
        self.token(OP, inputs.len(), "token", token)?;
        let props = transfer(OP, channel, is_host_transfer, 2, source_target_pairs)?;
        let all = [inputs, &[token]].concat();
        self.emit(OP, &all, &props, Type::Token)
    }

    /// Receives tensors: the values, then the token.
    pub fn recv(
        &mut self,
        token: Value,
        results: &[Type<'a>],
        channel: Channel,
        is_host_transfer: bool,
        source_target_pairs: &[[i64; 2]],
    ) -> Result<Vec<Value>> {
        const OP: &str = "stablehlo.recv";
        self.token(OP, 0, "token", token)?;
        ensure(
            OP,
            results.iter().all(|t| t.tensor().is_some_and(|t| t.is_static())),
            || "results must be static tensors".into(),
        )?;
        let props = transfer(OP, channel, is_host_transfer, 3, source_target_pairs)?;
        let mut types = results.to_vec();
        types.push(Type::Token);
        self.emit_many(OP, &[token], &props, &[], &types)
    }
}

/// Properties of send and recv; `host_kind` is the channel's kind for a host transfer.
fn transfer(op: &str, channel: Channel, host: bool, host_kind: i64, pairs: &[[i64; 2]]) -> Result<Props> {
    let kind = if host { host_kind } else { 1 };
    ensure(op, channel.kind == kind, || {
        format!(
            "is_host_transfer = {host} needs a channel of kind {kind}, got {}",
            channel.kind
        )
    })?;
    let props = Props::new()
        .raw("channel_handle", channel.text())
        .raw("is_host_transfer", host);
    // Older StableHLO has no such property, so it is left out when there are none.
    Ok(if pairs.is_empty() {
        props
    } else {
        props.raw("source_target_pairs", Matrix(pairs, 2))
    })
}
