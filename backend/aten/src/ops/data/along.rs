//! What ops that index along one dimension have in common.

use stablehlo::Value;

use super::util::{Bounds, at_least_1d, indices};
use crate::{Cx, Dims, ErrorKind, Result};

/// `self`, the dimension and the indices, of rank 1 or more; the indices not yet checked.
pub(super) struct Along {
    pub(super) base: Value,
    pub(super) sizes: Dims,
    pub(super) dim: usize,
    pub(super) index: Value,
    pub(super) index_sizes: Dims,
}

impl Along {
    pub(super) fn of(cx: &mut Cx<'_, '_>) -> Result<Self> {
        let base = cx.tensor("self")?;
        let base = at_least_1d(cx, base)?;
        let sizes = cx.dims(base)?;
        let dim = cx.dim("dim", sizes.len())? as usize;
        let index = cx.tensor("index")?;
        let index = at_least_1d(cx, index)?;
        let index_sizes = cx.dims(index)?;
        Ok(Self {
            base,
            sizes,
            dim,
            index,
            index_sizes,
        })
    }

    pub(super) fn size(&self) -> i64 {
        self.sizes[self.dim]
    }

    /// The indices, refused outside; torch's words differ from op to op.
    pub(super) fn checked(
        &self,
        cx: &mut Cx<'_, '_>,
        negative: bool,
        kind: ErrorKind,
        text: &str,
    ) -> Result<Value> {
        let bounds = Bounds {
            size: self.size(),
            negative,
            kind,
            message: text,
        };
        indices(cx, self.index, &bounds, self.size())
    }

    pub(super) fn out_of_bounds(&self) -> String {
        format!(
            "index {{}} is out of bounds for dimension {} with size {}",
            self.dim,
            self.size()
        )
    }
}
