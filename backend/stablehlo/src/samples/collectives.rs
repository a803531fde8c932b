//! Ops between devices: two replicas, or two partitions.

use super::{Samples, WIDER, sum};
use crate::ops::{Channel, ReplicaGroups};
use crate::{FunctionBuilder, Result, Value};

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
    let pair = ReplicaGroups::replicas(&[&[0, 1]]);
    for (from, to) in WIDER {
        let name = format!("{from} in {to}");
        s.add(
            "stablehlo.all_reduce",
            name.clone(),
            &format!("4x{from}"),
            |f, a| f.all_reduce_as(a, to, &pair, sum),
        )?;
        s.add("stablehlo.reduce_scatter", name, &format!("4x{from}"), |f, a| {
            Ok(vec![f.reduce_scatter_as(a[0], to, 0, &pair, sum)?])
        })?;
    }
    for ty in ["f32", "i1", "complex<f32>"] {
        s.add("stablehlo.cross-replica-sum", ty, &format!("4x{ty}"), |f, a| {
            Ok(vec![f.cross_replica_sum(a[0], &pair)?])
        })?;
    }
    s.add("stablehlo.cross-replica-sum", "everyone", "4xf32", |f, a| {
        Ok(vec![f.cross_replica_sum(a[0], &ReplicaGroups::replicas(&[]))?])
    })?;
    s.add(
        "stablehlo.collective_reduce",
        "two operands",
        "4xf32 3xf32",
        |f, a| f.collective_reduce(a, None, &pair, sum),
    )?;
    s.add("stablehlo.collective_reduce", "root", "4xf32 1xi32", |f, a| {
        f.collective_reduce(&a[..1], Some(a[1]), &pair, sum)
    })?;
    asynchronous(s, &pair)?;
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

type Started<'g> = (
    &'static str,
    &'static str,
    Box<dyn for<'a> Fn(&mut FunctionBuilder<'a>, &[Value]) -> Result<Vec<Value>> + 'g>,
);

fn asynchronous(s: &mut Samples, pair: &ReplicaGroups) -> Result<()> {
    let started: Vec<Started<'_>> = vec![
        (
            "all_gather",
            "16x128xf32",
            Box::new(|f, e| f.all_gather(e, 0, pair)),
        ),
        (
            "all_reduce",
            "16x128xf32",
            Box::new(|f, e| f.all_reduce(e, pair, sum)),
        ),
        (
            "all_to_all",
            "16x128xf32",
            Box::new(|f, e| f.all_to_all(e, 0, 0, pair)),
        ),
        (
            "collective_broadcast",
            "4xf32",
            Box::new(|f, e| Ok(vec![f.collective_broadcast(e[0], pair)?])),
        ),
        (
            "collective_permute",
            "16x128xf32",
            Box::new(|f, e| Ok(vec![f.collective_permute(e[0], &[[0, 1], [1, 0]], None)?])),
        ),
        (
            "collective_reduce",
            "4xf32",
            Box::new(|f, e| f.collective_reduce(e, None, pair, sum)),
        ),
        (
            "reduce_scatter",
            "16x128xf32",
            Box::new(|f, e| Ok(vec![f.reduce_scatter(e[0], 0, pair, sum)?])),
        ),
        (
            "slice",
            "4xf32",
            Box::new(|f, e| Ok(vec![f.slice(e[0], &[1], &[3], &[1])?])),
        ),
        (
            "dynamic_slice",
            "4xf32 i32",
            Box::new(|f, e| Ok(vec![f.dynamic_slice(e[0], &e[1..], &[2])?])),
        ),
        (
            "dynamic_update_slice",
            "4xf32 2xf32 i32",
            Box::new(|f, e| Ok(vec![f.dynamic_update_slice(e[0], e[1], &e[2..])?])),
        ),
    ];
    for (name, args, body) in &started {
        s.add("stablehlo.async_start", *name, args, |f, a| {
            let future = f.async_start(a, body)?;
            // Something to do meanwhile.
            let other = f.sine(a[0])?;
            Ok(vec![f.async_done(future)?, other])
        })?;
    }
    s.add("stablehlo.async_done", "two at a time", "16x128xf32", |f, a| {
        let first = f.async_start(a, |f, e| f.all_gather(e, 0, pair))?;
        let second = f.async_start(a, |f, e| f.all_reduce(e, pair, sum))?;
        let second = f.async_done(second)?;
        Ok(vec![f.async_done(first)?, second])
    })
}
