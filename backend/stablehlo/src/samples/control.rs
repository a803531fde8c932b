//! Control flow, calls, tuples, tokens, transfers.

use super::{Samples, parse, sum};
use crate::ops::{BackendConfig, Channel, CustomCall, Direction, OutputOperandAlias};
use crate::{Argument, Attribute, ElementType, Result};

pub(super) fn add(s: &mut Samples) -> Result<()> {
    s.add("stablehlo.while", "counted", "i32 4xf32", |f, a| {
        let one = f.scalar(1i32)?;
        let ten = f.scalar(10i32)?;
        f.while_(
            a,
            |f, v| Ok(vec![f.compare(v[0], ten, Direction::Lt)?]),
            |f, v| Ok(vec![f.add(v[0], one)?, f.multiply(v[1], v[1])?]),
        )
    })?;
    s.add("stablehlo.if", "two results", "i1 4xf32", |f, a| {
        f.if_(
            a[0],
            |f| Ok(vec![f.add(a[1], a[1])?, a[1]]),
            |f| Ok(vec![f.multiply(a[1], a[1])?, f.negate(a[1])?]),
        )
    })?;
    s.add("stablehlo.case", "three branches", "i32 4xf32", |f, a| {
        f.case(
            a[0],
            vec![
                Box::new(|_, _| Ok(vec![a[1]])),
                Box::new(|f, _| Ok(vec![f.sine(a[1])?])),
                Box::new(|f, _| Ok(vec![f.cosine(a[1])?])),
            ],
        )
    })?;
    s.add("stablehlo.optimization_barrier", "two", "4xf32 i32", |f, a| {
        f.optimization_barrier(a)
    })?;
    calls(s)?;
    s.add("stablehlo.tuple", "two", "4xf32 i32", |f, a| {
        let t = f.tuple(a)?;
        Ok(vec![f.get_tuple_element(t, 0)?, f.get_tuple_element(t, 1)?])
    })?;
    s.add("stablehlo.get_tuple_element", "nested", "4xf32 i32", |f, a| {
        let inner = f.tuple(a)?;
        let outer = f.tuple(&[inner, a[0]])?;
        let t = f.get_tuple_element(outer, 0)?;
        Ok(vec![f.get_tuple_element(t, 1)?])
    })?;
    transfers(s)
}

fn calls(s: &mut Samples) -> Result<()> {
    s.add_module("func.call", "private callee", |m, arena| {
        let x: Argument<'_> = parse(arena, "4xf32")?.into();
        m.private_function("double it", std::slice::from_ref(&x), |f, a| {
            Ok(vec![f.add(a[0], a[0])?])
        })?;
        m.function("main", &[x], |f, a| f.call("double it", a))
    })?;
    s.add_module("stablehlo.composite", "with attributes", |m, arena| {
        let x: Argument<'_> = parse(arena, "4xf32")?.into();
        m.private_function("decomposed", std::slice::from_ref(&x), |f, a| {
            Ok(vec![f.tanh(a[0])?])
        })?;
        m.function("main", &[x], |f, a| {
            let attributes = [
                ("approximate", Attribute::string("tanh")),
                ("n", Attribute::I64(3)),
            ];
            f.composite("torch.gelu", a, "decomposed", &attributes, 1)
        })
    })?;
    s.add_module("stablehlo.add", "argument attributes", |m, arena| {
        let x = parse(arena, "4xf32")?;
        let arguments = [
            Argument::new(x).aliasing_output(0).sharding("{replicated}"),
            Argument::new(x).donated(),
        ];
        m.attribute("mhlo.num_partitions", Attribute::I32(1));
        m.function("main", &arguments, |f, a| {
            f.attribute("mhlo.sharding", Attribute::string("{replicated}"));
            f.attribute("mhlo.frontend_attributes", Attribute::raw("{a = \"b\"}"));
            f.result_attribute(0, "jax.result_info", Attribute::string("result"));
            Ok(vec![f.add(a[0], a[1])?])
        })
    })?;
    const OP: &str = "stablehlo.custom_call";
    s.add(OP, "sharding annotation", "4xf32", |f, a| {
        let x = f.tensor_ty(a[0])?;
        let call = CustomCall::new("Sharding", vec![x.into()]);
        f.attribute("mhlo.sharding", Attribute::string("{replicated}"));
        f.custom_call(&call, a)
    })?;
    s.add(OP, "text configuration and layouts", "8x8xf32", |f, a| {
        let x = f.tensor_ty(a[0])?;
        let taus = f.tensor(&[8], ElementType::F32)?;
        let call = CustomCall {
            backend_config: BackendConfig::Text("".into()),
            operand_layouts: Some(vec![vec![0, 1]]),
            result_layouts: Some(vec![vec![0, 1], vec![0]]),
            output_operand_aliases: vec![OutputOperandAlias {
                output_tuple_indices: vec![0],
                operand_index: 0,
                operand_tuple_indices: vec![],
            }],
            ..CustomCall::new("Qr", vec![x.into(), taus.into()])
        };
        f.custom_call(&call, a)
    })?;
    s.add(OP, "dictionary configuration", "4xf32", |f, a| {
        let x = f.tensor_ty(a[0])?;
        let call = CustomCall {
            api_version: 4,
            has_side_effect: true,
            backend_config: BackendConfig::Dictionary(vec![
                ("scale".into(), Attribute::F32(0.5)),
                ("name".into(), Attribute::string("x")),
            ]),
            ..CustomCall::new("torch_tpu_not_registered", vec![x.into()])
        };
        f.custom_call(&call, a)
    })?;
    s.add_module(OP, "called computation", |m, arena| {
        let x: Argument<'_> = parse(arena, "f32")?.into();
        m.private_function("body", &[x.clone(), x], |f, a| sum(f, a))?;
        let v = parse(arena, "4xf32")?;
        m.function("main", &[v.into()], |f, a| {
            let call = CustomCall {
                called_computations: vec!["body".into()],
                ..CustomCall::new("torch_tpu_not_registered", vec![v.into()])
            };
            f.custom_call(&call, a)
        })
    })
}

fn transfers(s: &mut Samples) -> Result<()> {
    s.add("stablehlo.after_all", "two tokens", "4xf32", |f, a| {
        let first = f.after_all(&[])?;
        let second = f.create_token()?;
        f.after_all(&[first, second])?;
        Ok(vec![a[0]])
    })?;
    s.add("stablehlo.create_token", "alone", "4xf32", |f, a| {
        f.create_token()?;
        Ok(vec![a[0]])
    })?;
    s.add("stablehlo.infeed", "one tensor", "", |f, _| {
        let token = f.after_all(&[])?;
        let ty = f.tensor(&[4], ElementType::F32)?;
        let r = f.infeed(token, &[ty.into()], "")?;
        Ok(vec![r[0]])
    })?;
    s.add("stablehlo.outfeed", "one tensor", "4xf32", |f, a| {
        let token = f.after_all(&[])?;
        f.outfeed(&a[..1], token, "")?;
        Ok(vec![a[0]])
    })?;
    s.add("stablehlo.send", "to host", "4xf32", |f, a| {
        let token = f.after_all(&[])?;
        f.send(&a[..1], token, Channel::device_to_host(1), true, &[])?;
        Ok(vec![a[0]])
    })?;
    let handler = || {
        Attribute::raw(
            "{_xla_host_transfer_handler_name = \"tf_rendezvous\", _xla_host_transfer_rendezvous = \"x\"}",
        )
    };
    s.add("stablehlo.send", "to host, named handler", "4xf32", |f, a| {
        let token = f.after_all(&[])?;
        f.attribute("mhlo.frontend_attributes", handler());
        f.send(&a[..1], token, Channel::device_to_host(1), true, &[])?;
        Ok(vec![a[0]])
    })?;
    s.add("stablehlo.recv", "from host, named handler", "", |f, _| {
        let token = f.after_all(&[])?;
        let ty = f.tensor(&[4], ElementType::F32)?;
        f.attribute("mhlo.frontend_attributes", handler());
        let r = f.recv(token, &[ty.into()], Channel::host_to_device(1), true, &[])?;
        Ok(vec![r[0]])
    })?;
    s.add("stablehlo.recv", "from host", "", |f, _| {
        let token = f.after_all(&[])?;
        let ty = f.tensor(&[4], ElementType::F32)?;
        let r = f.recv(token, &[ty.into()], Channel::host_to_device(1), true, &[])?;
        Ok(vec![r[0]])
    })
}
