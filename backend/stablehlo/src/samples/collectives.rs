//! Ops between devices: two replicas, or two partitions.

use super::{Samples, sum};
use crate::Result;
use crate::ops::{Channel, ReplicaGroups};

pub(super) fn add(s: &mut Samples) -> Result<()> {
    s.add("stablehlo.partition_id", "alone", "", |f, _| {
        Ok(vec![f.partition_id()?])
    })?;
    s.add("stablehlo.replica_id", "alone", "", |f, _| {
        Ok(vec![f.replica_id()?])
    })?;
    s.add("stablehlo.all_reduce", "one replica", "4xf32", |f, a| {
        f.all_reduce(a, &ReplicaGroups::replicas(&[&[0]]), sum)
    })?;
    s.add("stablehlo.all_reduce", "everyone", "4xf32", |f, a| {
        f.all_reduce(a, &ReplicaGroups::replicas(&[]), sum)
    })?;
    for (name, devices, groups) in [
        ("2 replicas", (2, 1), ReplicaGroups::replicas(&[&[0, 1]])),
        ("2 partitions", (1, 2), ReplicaGroups::devices(&[&[0, 1]], 1)),
        (
            "partitions of a replica",
            (1, 2),
            ReplicaGroups {
                channel: Some(Channel::device(1)),
                partitions: 2,
                ..ReplicaGroups::replicas(&[&[0]])
            },
        ),
        ("2 groups", (4, 1), ReplicaGroups::replicas(&[&[0, 3], &[1, 2]])),
    ] {
        s.devices = devices;
        s.add("stablehlo.all_reduce", name, "4xf32", |f, a| {
            f.all_reduce(a, &groups, sum)
        })?;
        s.add("stablehlo.all_gather", name, "4x3xf32", |f, a| {
            f.all_gather(a, 1, &groups)
        })?;
        s.add("stablehlo.reduce_scatter", name, "4x3xf32", |f, a| {
            Ok(vec![f.reduce_scatter(a[0], 0, &groups, sum)?])
        })?;
        if !groups.use_global_device_ids && groups.channel.is_none() {
            s.add("stablehlo.all_to_all", name, "4x3xf32", |f, a| {
                f.all_to_all(a, 0, 1, &groups)
            })?;
            s.add("stablehlo.collective_broadcast", name, "4xf32", |f, a| {
                Ok(vec![f.collective_broadcast(a[0], &groups)?])
            })?;
        }
    }
    s.devices = (2, 1);
    s.add("stablehlo.collective_permute", "replicas", "4xf32", |f, a| {
        Ok(vec![f.collective_permute(a[0], &[[0, 1], [1, 0]], None)?])
    })?;
    s.add("stablehlo.all_reduce", "two operands", "4xf32 3xf32", |f, a| {
        f.all_reduce(a, &ReplicaGroups::replicas(&[&[0, 1]]), sum)
    })?;
    s.add(
        "stablehlo.all_gather",
        "two operands",
        "4x3xf32 2x2xi32",
        |f, a| f.all_gather(a, 0, &ReplicaGroups::replicas(&[&[0, 1]])),
    )?;
    s.devices = (1, 2);
    s.add("stablehlo.collective_permute", "partitions", "4xbf16", |f, a| {
        Ok(vec![f.collective_permute(
            a[0],
            &[[0, 1]],
            Some(Channel::device(1)),
        )?])
    })?;
    s.add("stablehlo.partition_id", "2 partitions", "", |f, _| {
        Ok(vec![f.partition_id()?])
    })?;
    s.devices = (3, 1);
    s.add("stablehlo.all_reduce", "uneven groups", "4xf32", |f, a| {
        f.all_reduce(a, &ReplicaGroups::replicas(&[&[0, 2], &[1]]), sum)
    })?;
    s.devices = (2, 1);
    s.add("stablehlo.send", "to device", "4xf32", |f, a| {
        let token = f.after_all(&[])?;
        let token = f.send(&a[..1], token, Channel::device(1), false, &[[0, 1]])?;
        let ty = f.ty(a[0])?;
        let r = f.recv(token, &[ty], Channel::device(1), false, &[[0, 1]])?;
        Ok(vec![r[0]])
    })?;
    s.add("stablehlo.recv", "from device", "4xf32", |f, a| {
        let token = f.after_all(&[])?;
        let ty = f.ty(a[0])?;
        let r = f.recv(token, &[ty], Channel::device(1), false, &[[0, 1]])?;
        f.send(&a[..1], r[1], Channel::device(1), false, &[[0, 1]])?;
        Ok(vec![r[0]])
    })?;
    s.devices = (1, 1);
    Ok(())
}
