//! Broken rules, one program each: the op, the operand and the rule must be named.

use stablehlo::ElementType::{self, F32, S32, U64};
use stablehlo::ops::*;
use stablehlo::{Arena, Argument, Dim, FunctionBuilder, Module, Number, Result, TensorType, Type, Value};

type Body = for<'a> fn(&mut FunctionBuilder<'a>, &[Value]) -> Result<Vec<Value>>;

/// Arguments: 0 `2x3xf32`, 1 `3xf32`, 2 `f32`, 3 `i32`, 4 `2x3xi32`, 5 `i1`, 6 `4x4xf32`, 7 `2x1xi32`.
fn message(body: Body) -> String {
    let arena = Arena::new();
    let mut m = Module::new(&arena, "m");
    let types: [(&[i64], ElementType); 8] = [
        (&[2, 3], F32),
        (&[3], F32),
        (&[], F32),
        (&[], S32),
        (&[2, 3], S32),
        (&[], ElementType::Pred),
        (&[4, 4], F32),
        (&[2, 1], S32),
    ];
    let arguments: Vec<Argument<'_>> = types
        .iter()
        .map(|(d, e)| TensorType::new(&arena, *d, *e).unwrap().into())
        .collect();
    m.function("main", &arguments, body).unwrap_err().to_string()
}

#[test]
fn every_family_names_op_operand_and_rule() {
    let cases: &[(Body, &str)] = &[
        (
            |f, a| Ok(vec![f.add(a[0], a[4])?]),
            "stablehlo.add: operand 1 `rhs` (tensor<2x3xi32>): the element type must equal that of operand 0 `lhs` (tensor<2x3xf32>)",
        ),
        (
            |f, a| Ok(vec![f.sine(a[3])?]),
            "stablehlo.sine: operand 0 `operand` (tensor<i32>): the element type must be float or complex",
        ),
        (
            |f, a| Ok(vec![f.and(a[2], a[2])?]),
            "stablehlo.and: operand 0 `lhs` (tensor<f32>): the element type must be boolean or signed integer or unsigned integer",
        ),
        (
            |f, a| {
                Ok(vec![f.compare_as(
                    a[0],
                    a[0],
                    Direction::Lt,
                    CompareType::Signed,
                )?])
            },
            "stablehlo.compare: operand 0 `lhs` (tensor<2x3xf32>): compare_type SIGNED does not fit the element type",
        ),
        (
            |f, a| Ok(vec![f.select(a[2], a[0], a[0])?]),
            "stablehlo.select: operand 0 `pred` (tensor<f32>): the element type must be boolean",
        ),
        (
            |f, a| Ok(vec![f.clamp(a[1], a[0], a[2])?]),
            "stablehlo.clamp: operand 0 `min` (tensor<3xf32>): the shape must equal that of operand 1 `operand` (tensor<2x3xf32>)",
        ),
        (
            |f, a| Ok(vec![f.bitcast_convert(a[0], U64)?]),
            "stablehlo.bitcast_convert: operand 0 `operand` (tensor<2x3xf32>): the last dimension must be 2 to be read as ui64",
        ),
        (
            |f, _| Ok(vec![f.constant(&[3], &[1i32, 2])?]),
            "stablehlo.constant: tensor<3xi32> takes 12 bytes, got 8",
        ),
        (
            |f, _| Ok(vec![f.full(&[3], ElementType::U8, Number::Int(256))?]),
            "stablehlo.constant: 256 does not fit in ui8 (0 to 255)",
        ),
        (
            |f, _| Ok(vec![f.iota(&[3], S32, 1)?]),
            "stablehlo.iota: iota_dimension = 1 must be a dimension of tensor<3xi32>",
        ),
        (
            |f, a| Ok(vec![f.broadcast_in_dim(a[1], &[2, 4], &[1])?]),
            "stablehlo.broadcast_in_dim: operand 0 `operand` (tensor<3xf32>): each dimension must be 1 or equal the result's, dimension 1 of tensor<2x4xf32>",
        ),
        (
            |f, a| Ok(vec![f.reshape(a[0], &[5])?]),
            "stablehlo.reshape: operand 0 `operand` (tensor<2x3xf32>): the number of elements must equal that of the result tensor<5xf32>",
        ),
        (
            |f, a| Ok(vec![f.reshape(a[0], &[-6])?]),
            "tensor type: a dimension must not be negative, got -6 in tensor<-6xf32>",
        ),
        (
            |f, a| Ok(vec![f.transpose(a[0], &[0, 0])?]),
            "stablehlo.transpose: operand 0 `operand` (tensor<2x3xf32>): permutation = [0, 0] must not repeat a dimension",
        ),
        (
            |f, a| Ok(vec![f.concatenate(&[a[0], a[6]], 0)?]),
            "stablehlo.concatenate: operand 1 `inputs` (tensor<4x4xf32>): dimension 1 must equal that of operand 0 `inputs` (tensor<2x3xf32>) everywhere but in dimension 0",
        ),
        (
            |f, a| Ok(vec![f.pad(a[1], a[2], &[-2], &[-2], &[0])?]),
            "stablehlo.pad: operand 0 `operand` (tensor<3xf32>): padding dimension 0 by -2, -2 and 0 between must give a size of 0 or more that fits",
        ),
        (
            |f, a| Ok(vec![f.slice(a[1], &[2], &[1], &[1])?]),
            "stablehlo.slice: operand 0 `operand` (tensor<3xf32>): dimension 0: 0 <= start 2 <= limit 1 <= the size must hold",
        ),
        (
            |f, a| Ok(vec![f.dynamic_slice(a[1], &[a[2]], &[1])?]),
            "stablehlo.dynamic_slice: operand 1 `start_indices` (tensor<f32>): the element type must be signed integer or unsigned integer",
        ),
        (
            |f, a| Ok(vec![f.set_dimension_size(a[1], a[2], 0)?]),
            "stablehlo.set_dimension_size: operand 1 `size` (tensor<f32>): the element type must be i32",
        ),
        (
            |f, a| {
                Ok(vec![f.gather(
                    a[0],
                    a[7],
                    &GatherDimensions {
                        start_index_map: vec![0, 1],
                        index_vector_dim: 1,
                        ..Default::default()
                    },
                    &[1, 1],
                    false,
                )?])
            },
            "stablehlo.gather: operand 1 `start_indices` (tensor<2x1xi32>): start_index_map has 2 entries, must have as many as an index vector",
        ),
        (
            |f, a| {
                f.scatter(
                    &[a[0]],
                    a[7],
                    &[a[1]],
                    &ScatterDimensions {
                        inserted_window_dims: vec![0],
                        update_window_dims: vec![1],
                        scatter_dims_to_operand_dims: vec![0],
                        index_vector_dim: 1,
                        ..Default::default()
                    },
                    false,
                    false,
                    |_, e| Ok(vec![e[1]]),
                )
            },
            "stablehlo.scatter: operand 2 `updates` (tensor<3xf32>): must have rank 2",
        ),
        (
            |f, a| {
                f.reduce(&[a[0]], &[a[2]], &[1], |f, e| {
                    Ok(vec![f.compare(e[0], e[1], Direction::Lt)?])
                })
            },
            "stablehlo.reduce: region `body`: result 0 must be tensor<f32>, is tensor<i1>",
        ),
        (
            |f, a| f.reduce(&[a[0]], &[a[2]], &[1], |_, _| Ok(vec![])),
            "stablehlo.reduce: region `body` must return 1 values, returns 0",
        ),
        (
            |f, a| f.reduce(&[a[0]], &[a[2]], &[1], |f, e| Ok(vec![f.add(e[0], a[2])?])),
            "stablehlo.add: operand 1 `rhs` (tensor<f32>): a region of this kind may not use values from outside: pass them as operands (a value of type tensor<f32>)",
        ),
        (
            |f, a| f.reduce(&[a[0]], &[a[3]], &[1], |_, e| Ok(vec![e[0]])),
            "stablehlo.reduce: operand 1 `init_values` (tensor<i32>): the element type must equal that of operand 0 `inputs` (tensor<2x3xf32>)",
        ),
        (
            |f, a| {
                f.reduce_window(
                    &[a[1]],
                    &[a[2]],
                    &Window {
                        strides: vec![0],
                        ..Window::new(&[2])
                    },
                    |_, e| Ok(vec![e[0]]),
                )
            },
            "stablehlo.reduce_window: operand 0 `inputs` (tensor<3xf32>): dimension 0: the stride 0 must be positive",
        ),
        (
            |f, a| {
                f.sort(&[a[0]], 2, true, |f, e| {
                    Ok(vec![f.compare(e[0], e[1], Direction::Lt)?])
                })
            },
            "stablehlo.sort: operand 0 `inputs` (tensor<2x3xf32>): dimension = 2 must be at least 0 and less than the rank",
        ),
        (
            |f, a| {
                Ok(vec![f.dot_general(
                    a[0],
                    a[6],
                    &DotDimensions::matmul(),
                    &DotOptions::default(),
                )?])
            },
            "stablehlo.dot_general: operand 1 `rhs` (tensor<4x4xf32>): dimension 0 must equal dimension 1 of operand 0 `lhs` (tensor<2x3xf32>)",
        ),
        (
            |f, a| {
                Ok(vec![f.convolution(
                    a[0],
                    a[6],
                    &ConvolutionDimensions::channels_first(0),
                    &ConvolutionOptions::new(0),
                )?])
            },
            "stablehlo.convolution: operand 1 `rhs` (tensor<4x4xf32>): the input features must be those of operand 0 `lhs` (tensor<2x3xf32>) divided by feature_group_count 1",
        ),
        (
            |f, a| Ok(vec![f.cholesky(a[0], true)?]),
            "stablehlo.cholesky: operand 0 `a` (tensor<2x3xf32>): the last two dimensions must be equal",
        ),
        (
            |f, a| {
                Ok(vec![f.triangular_solve(
                    a[6],
                    a[0],
                    true,
                    true,
                    true,
                    TransposeKind::NoTranspose,
                )?])
            },
            "stablehlo.triangular_solve: operand 1 `b` (tensor<2x3xf32>): dimension 0 must equal the size of operand 0 `a` (tensor<4x4xf32>)",
        ),
        (
            |f, a| Ok(vec![f.fft(a[0], FftType::Fft, &[3])?]),
            "stablehlo.fft: operand 0 `operand` (tensor<2x3xf32>): the element type must be complex for FFT",
        ),
        (
            |f, a| {
                Ok(vec![
                    f.rng_bit_generator(a[1], &[2], S32, RngAlgorithm::Philox)?.0,
                ])
            },
            "stablehlo.rng_bit_generator: operand 0 `initial_state` (tensor<3xf32>): the element type must be ui64",
        ),
        (
            |f, a| {
                Ok(vec![
                    f.batch_norm_inference(a[0], a[1], a[1], a[1], a[1], 0.0, 0)?,
                ])
            },
            "stablehlo.batch_norm_inference: operand 1 `scale` (tensor<3xf32>): must have one element a feature, as dimension 0 of operand 0 `operand` (tensor<2x3xf32>)",
        ),
        (
            |f, a| f.while_(&[a[3]], |_, v| Ok(vec![v[0]]), |_, v| Ok(vec![v[0]])),
            "stablehlo.while: region `cond`: result 0 must be tensor<i1>, is tensor<i32>",
        ),
        (
            |f, a| f.if_(a[5], |_| Ok(vec![a[0]]), |_| Ok(vec![a[1]])),
            "stablehlo.if: region `false_branch`: result 0 must be tensor<2x3xf32>, is tensor<3xf32>",
        ),
        (
            |f, a| f.case(a[3], vec![]),
            "stablehlo.case: needs at least one branch",
        ),
        (
            |f, a| f.call("nobody", a),
            "func.call: there is no function @nobody yet: add it before its callers",
        ),
        (
            |f, a| {
                f.custom_call(
                    &CustomCall {
                        backend_config: BackendConfig::Dictionary(vec![]),
                        ..CustomCall::new("x", vec![])
                    },
                    a,
                )
            },
            "stablehlo.custom_call: a dictionary as backend_config needs api_version 4, got 1",
        ),
        (
            |f, a| f.all_gather(&[a[0]], 0, &ReplicaGroups::replicas(&[&[0, 2]])),
            "stablehlo.all_gather: replica_groups [[0, 2]] must hold each id from 0 up, once",
        ),
        (
            |f, a| {
                Ok(vec![f.reduce_scatter(
                    a[1],
                    0,
                    &ReplicaGroups::replicas(&[&[0, 1]]),
                    |_, e| Ok(vec![e[0]]),
                )?])
            },
            "stablehlo.reduce_scatter: operand 0 `operand` (tensor<3xf32>): dimension 0 must be a multiple of 2, the devices of a group",
        ),
        (
            |f, a| Ok(vec![f.collective_permute(a[0], &[[0, 1], [1, 1]], None)?]),
            "stablehlo.collective_permute: source_target_pairs [[0, 1], [1, 1]]: targets must be distinct and not negative",
        ),
        (
            |f, a| Ok(vec![f.get_tuple_element(a[0], 0)?]),
            "stablehlo.get_tuple_element: operand 0 `operand` (tensor<2x3xf32>): must be a tuple",
        ),
        (
            |f, a| Ok(vec![f.outfeed(&[a[0]], a[1], "")?]),
            "stablehlo.outfeed: operand 1 `token` (tensor<3xf32>): must be a token",
        ),
        (
            |f, a| Ok(vec![f.uniform_dequantize(a[0])?]),
            "stablehlo.uniform_dequantize: operand 0 `operand` (tensor<2x3xf32>): must be quantized",
        ),
        (
            |f, a| Ok(vec![f.dynamic_reshape(a[0], a[1], &[Dim::Dynamic])?]),
            "stablehlo.dynamic_reshape: operand 1 `output_shape` (tensor<3xf32>): the element type must be signed integer or unsigned integer",
        ),
        (
            |f, a| Ok(vec![f.chlo_top_k(a[1], 4)?.0]),
            "chlo.top_k: operand 0 `operand` (tensor<3xf32>): k = 4 must be at least 0 and at most the last dimension",
        ),
        (
            |f, a| Ok(vec![f.chlo_broadcast_add(a[0], a[6])?]),
            "chlo.broadcast_add: operand 1 `rhs` (tensor<4x4xf32>): the shape does not broadcast with that of operand 0 `lhs` (tensor<2x3xf32>)",
        ),
        (
            |f, a| Ok(vec![f.broadcast_in_dim(a[2], &[i64::MAX, 3], &[])?]),
            "tensor type: the size of tensor<9223372036854775807x3xf32> in bytes does not fit in 63 bits",
        ),
    ];
    for (body, want) in cases {
        assert_eq!(message(*body), *want);
    }
}

#[test]
fn what_compilers_abort_on_is_refused() {
    let e = message(|f, a| f.all_to_all(&[a[6], a[0]], 0, 1, &ReplicaGroups::replicas(&[&[0, 1]])));
    assert!(
        e.contains("operand 1 `operands` (tensor<2x3xf32>): the shape must equal"),
        "{e}"
    );
    let e = message(|f, a| Ok(vec![f.rng(a[5], a[5], &[2], RngDistribution::Uniform)?]));
    assert!(
        e.starts_with("stablehlo.rng: operand 0 `a` (tensor<i1>): the element type must be"),
        "{e}"
    );
    let e = message(|f, _| Ok(vec![f.constant::<f32>(&[i64::MAX, i64::MAX, 0], &[])?]));
    assert!(e.contains("does not fit in 63 bits"), "{e}");
}

#[test]
fn values_do_not_leave_their_region_or_function() {
    let escaped = message(|f, a| {
        let mut inside = None;
        f.if_(
            a[5],
            |f| {
                inside = Some(f.add(a[0], a[0])?);
                Ok(vec![])
            },
            |_| Ok(vec![]),
        )?;
        Ok(vec![f.negate(inside.unwrap())?])
    });
    assert!(
        escaped.contains("a value from a region that has ended is not visible here"),
        "{escaped}"
    );

    let arena = Arena::new();
    let mut m = Module::new(&arena, "m");
    let x = TensorType::new(&arena, &[2], F32).unwrap();
    let mut stolen = None;
    m.function("first", &[x.into()], |_, a| {
        stolen = Some(a[0]);
        Ok(a.to_vec())
    })
    .unwrap();
    let e = m
        .function("second", &[x.into()], |f, _| Ok(vec![f.negate(stolen.unwrap())?]))
        .unwrap_err();
    assert_eq!(e.op(), "stablehlo.negate");
    assert_eq!(e.rule(), "a value belongs to another function");
}

#[test]
fn a_failed_function_leaves_the_module_usable() {
    let arena = Arena::new();
    let mut m = Module::new(&arena, "m");
    let x = TensorType::new(&arena, &[2], F32).unwrap();
    assert!(
        m.function("main", &[x.into()], |f, a| Ok(vec![f.transpose(a[0], &[1])?]))
            .is_err()
    );
    m.function("main", &[x.into()], |_, a| Ok(a.to_vec())).unwrap();
    let e = m.function("main", &[], |_, _| Ok(vec![])).unwrap_err();
    assert_eq!(e.to_string(), "func.func: there is already a function @main");
    let alias = Argument::new(x).aliasing_output(1);
    let e = m.function("other", &[alias], |_, a| Ok(a.to_vec())).unwrap_err();
    assert_eq!(
        e.to_string(),
        "func.func: @other: tf.aliasing_output = 1, but there are 1 results"
    );
    assert_eq!(m.text().matches("func.func").count(), 1);
}

#[test]
fn inferred_types() {
    let arena = Arena::new();
    let mut m = Module::new(&arena, "m");
    let image = TensorType::new(&arena, &[2, 6, 8, 9], F32).unwrap();
    let kernel = TensorType::new(&arena, &[4, 3, 3, 3], F32).unwrap();
    let any = TensorType::new(&arena, &[Dim::Dynamic, Dim::Bounded(5)], F32).unwrap();
    m.function("main", &[image.into(), kernel.into(), any.into()], |f, a| {
        let options = ConvolutionOptions {
            window_strides: vec![2, 1],
            padding: vec![[1, 1], [0, 0]],
            rhs_dilation: vec![1, 2],
            feature_group_count: 2,
            ..ConvolutionOptions::new(2)
        };
        let c = f.convolution(a[0], a[1], &ConvolutionDimensions::channels_first(2), &options)?;
        assert_eq!(f.ty(c)?.to_string(), "tensor<2x4x4x5xf32>");
        let p = f.slice(a[0], &[0, 1, 2, 0], &[2, 6, 8, 9], &[1, 2, 4, 9])?;
        assert_eq!(f.ty(p)?.to_string(), "tensor<2x3x2x1xf32>");
        let t = f.transpose(a[2], &[1, 0])?;
        assert_eq!(f.ty(t)?.to_string(), "tensor<?x?xf32, #stablehlo.bounds<5, ?>>");
        let s = f.tuple(&[c, t])?;
        assert!(matches!(f.ty(s)?, Type::Tuple(parts) if parts.len() == 2));
        Ok(vec![p])
    })
    .unwrap();
}
