//! Channels to pixels and back: pixel_shuffle, pixel_unshuffle, channel_shuffle.

use crate::layout::channels_last_as_self;
use crate::{Cx, Lowered, OpDef};

fn pixel_shuffle(cx: &mut Cx<'_, '_>) -> Lowered {
    let v = cx.tensor("self")?;
    let r = cx.int("upscale_factor")?;
    let (dims, out) = (cx.dims(v)?, &cx.out(0)?.dims);
    let n = dims.len();
    let leading: i64 = dims[..n - 3].iter().product();
    let split = [leading, out[n - 3], r, r, dims[n - 2], dims[n - 1]];
    let v = cx.reshape(v, &split)?;
    let v = cx.f.transpose(v, &[0, 1, 4, 2, 5, 3])?;
    Ok(cx.reshape(v, out)?.into())
}

fn pixel_unshuffle(cx: &mut Cx<'_, '_>) -> Lowered {
    let v = cx.tensor("self")?;
    let r = cx.int("downscale_factor")?;
    let (dims, out) = (cx.dims(v)?, &cx.out(0)?.dims);
    let n = dims.len();
    let leading: i64 = dims[..n - 3].iter().product();
    let split = [leading, dims[n - 3], out[n - 2], r, out[n - 1], r];
    let v = cx.reshape(v, &split)?;
    let v = cx.f.transpose(v, &[0, 1, 3, 5, 2, 4])?;
    Ok(cx.reshape(v, out)?.into())
}

fn channel_shuffle(cx: &mut Cx<'_, '_>) -> Lowered {
    let v = cx.tensor("self")?;
    let groups = cx.int("groups")?;
    let dims = cx.dims(v)?;
    let pixels: i64 = dims[2..].iter().product();
    let v = cx.reshape(v, &[dims[0], groups, dims[1] / groups, pixels])?;
    let v = cx.f.transpose(v, &[0, 2, 1, 3])?;
    Ok(cx.reshape(v, &dims)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("pixel_shuffle", pixel_shuffle).amend(channels_last_as_self),
    OpDef::new("pixel_unshuffle", pixel_unshuffle).amend(channels_last_as_self),
    OpDef::new("channel_shuffle", channel_shuffle).amend(channels_last_as_self),
    OpDef::new("native_channel_shuffle", channel_shuffle).amend(channels_last_as_self),
];
