//! How a lowering draws random bits: once, or round after round in a loop.

use dtype::ElementType;
use stablehlo::Value;

use crate::{Cx, Error, Produced, Result};

/// Rounds that [`Cx::random_while`] draws at most. The samplers reject three draws of four at worst.
pub(crate) const RANDOM_ROUNDS: u64 = 4096;

impl<'a> Cx<'_, 'a> {
    /// Random bits of an unsigned type, from the op's generator: block after block of Philox 4x32-10.
    pub fn random_bits(&mut self, dims: &[i64], element: ElementType) -> Result<Value> {
        let state = self.random_state()?;
        let bytes = dims.iter().product::<i64>().max(0) as u64 * element.host_bytes() as u64;
        self.produced.random_blocks += bytes.div_ceil(16);
        let (_, bits) =
            self.f
                .rng_bit_generator(state, dims, element, stablehlo::ops::RngAlgorithm::Philox)?;
        Ok(bits)
    }

    /// The generator's state behind the blocks that were drawn so far.
    fn random_state(&mut self) -> Result<Value> {
        let state = self.random.ok_or_else(|| {
            Error::Internal(format!("{} is not marked random in its entry", self.call.name))
        })?;
        self.advanced(state, self.produced.random_blocks)
    }

    fn advanced(&mut self, state: Value, blocks: u64) -> Result<Value> {
        if blocks == 0 {
            return Ok(state);
        }
        let step = self.f.constant(&[3i64], &[0u64, blocks, 0])?;
        Ok(self.f.add(state, step)?)
    }

    /// Draws round after round until nothing is pending, for samplers that reject. `pending` tells which elements still want
    /// a draw and is item 0 of the state that `round` takes and gives; `round` draws as a lowering does. Returns the last
    /// state: after 4096 rounds it ends with elements pending.
    ///
    /// The blocks of all these rounds are reserved, since how many a run needs is known to nobody before it: what is drawn
    /// behind the loop never meets them.
    pub fn random_while(
        &mut self,
        pending: Value,
        state: &[Value],
        round: impl FnOnce(&mut Cx<'_, 'a>, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        let generator = self.random_state()?;
        let first = [&[pending, generator], state].concat();
        let (call, inputs) = (self.call, self.inputs);
        let mut blocks = 0;
        let mut failed = None;
        let done = self.while_any(RANDOM_ROUNDS as i64, &first, |f, v| {
            let mut cx = Cx {
                f,
                call,
                inputs,
                random: Some(v[1]),
                produced: Produced::default(),
            };
            let drawn = (|| {
                let next = round(&mut cx, &[&v[..1], &v[2..]].concat())?;
                let Some((pending, rest)) = next.split_first() else {
                    return Err(Error::Internal("a round of a sampler gives no state".into()));
                };
                if !cx.produced.checks.is_empty() {
                    return Err(Error::Internal("a round of a sampler checks data".into()));
                }
                blocks = cx.produced.random_blocks;
                let generator = cx.advanced(v[1], blocks)?;
                Ok([&[*pending, generator], rest].concat())
            })();
            match drawn {
                Err(Error::Program(e)) => Err(e),
                Err(other) => {
                    failed = Some(other);
                    // Refused too, and then that error is forgotten.
                    Ok(Vec::new())
                }
                Ok(next) => Ok(next),
            }
        });
        if let Some(e) = failed {
            return Err(e);
        }
        let mut done = done?;
        self.produced.random_blocks += blocks * RANDOM_ROUNDS;
        done.remove(1);
        Ok(done)
    }
}
