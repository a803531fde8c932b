//! Broken rules of futures, scans, grouped and named products, accuracies and wider accumulators: op, operand and rule are named.

use stablehlo::ElementType::{self, C64, F16, F32, S8, S32};
use stablehlo::ops::*;
use stablehlo::{Arena, Argument, FunctionBuilder, Module, Result, TensorType, Value};

type Body = for<'a> fn(&mut FunctionBuilder<'a>, &[Value]) -> Result<Vec<Value>>;

/// Arguments: 0 `4x5xf32`, 1 `3x5x7xf32`, 2 `3xi32`, 3 `5xf32`, 4 `f32`, 5 `2x3xi8`, 6 `i8`, 7 `2x1xi32`, 8 `2x3xi8`, 9 `i1`.
fn build(body: Body) -> Result<String> {
    let arena = Arena::new();
    let mut m = Module::new(&arena, "m");
    let types: [(&[i64], ElementType); 10] = [
        (&[4, 5], F32),
        (&[3, 5, 7], F32),
        (&[3], S32),
        (&[5], F32),
        (&[], F32),
        (&[2, 3], S8),
        (&[], S8),
        (&[2, 1], S32),
        (&[2, 3], S8),
        (&[], ElementType::Pred),
    ];
    let arguments: Vec<Argument<'_>> = types
        .iter()
        .map(|(d, e)| TensorType::new(&arena, *d, *e).unwrap().into())
        .collect();
    m.function("main", &arguments, body)?;
    Ok(m.text())
}

fn check(cases: &[(Body, &str)]) {
    for (body, want) in cases {
        assert_eq!(build(*body).unwrap_err().to_string(), *want);
    }
}

fn sum(f: &mut FunctionBuilder<'_>, e: &[Value]) -> Result<Vec<Value>> {
    Ok(vec![f.add(e[0], e[1])?])
}

fn gather(f: &mut FunctionBuilder<'_>, e: &[Value]) -> Result<Vec<Value>> {
    f.all_gather(e, 0, &ReplicaGroups::replicas(&[&[0, 1]]))
}

#[test]
fn futures() {
    check(&[
        (
            |f, a| {
                f.async_start(&a[..1], |f, e| Ok(vec![f.sine(e[0])?]))?;
                Ok(vec![])
            },
            "stablehlo.async_start: region `body` must be one collective or slice and return its one result",
        ),
        (
            |f, a| {
                f.async_start(&a[..1], |f, e| {
                    gather(f, e)?;
                    Ok(vec![e[0]])
                })?;
                Ok(vec![])
            },
            "stablehlo.async_start: region `body` must be one collective or slice and return its one result",
        ),
        (
            |f, a| {
                f.async_start(&a[..1], |f, _| gather(f, &a[..1]))?;
                Ok(vec![])
            },
            "stablehlo.all_gather: operand 0 `operands` (tensor<4x5xf32>): a region of this kind may not use values from outside: \
             pass them as operands (a value of type tensor<4x5xf32>)",
        ),
        (
            |f, a| {
                let x = f.async_start(&a[..1], gather)?;
                Ok(vec![f.negate(x)?])
            },
            "stablehlo.negate: operand 0 `operand` (!stablehlo.future<tensor<8x5xf32>>): a future goes to async_done only",
        ),
        (
            |f, a| {
                let x = f.async_start(&a[..1], gather)?;
                f.optimization_barrier(&[x])
            },
            "stablehlo.optimization_barrier: operand 0 `operand` (!stablehlo.future<tensor<8x5xf32>>): a future goes to async_done only",
        ),
        (
            |f, a| Ok(vec![f.async_start(&a[..1], gather)?]),
            "func.return: a future does not leave its block: return what async_done gives, not !stablehlo.future<tensor<8x5xf32>>",
        ),
        (
            |f, a| {
                f.async_start(&a[..1], gather)?;
                Ok(vec![a[0]])
            },
            "func.return: no async_done waits for a future (!stablehlo.future<tensor<8x5xf32>>)",
        ),
        (
            |f, a| {
                let x = f.async_start(&a[..1], gather)?;
                f.async_done(x)?;
                Ok(vec![f.async_done(x)?])
            },
            "stablehlo.async_done: operand 0 `future` (!stablehlo.future<tensor<8x5xf32>>): an earlier async_done has waited for it",
        ),
        (
            |f, a| {
                let x = f.async_start(&a[..1], gather)?;
                f.if_(a[9], |f| Ok(vec![f.async_done(x)?]), |_| Ok(vec![a[0]]))
            },
            "stablehlo.async_done: operand 0 `future` (!stablehlo.future<tensor<8x5xf32>>): must be waited for in the block that starts it",
        ),
        (
            |f, a| Ok(vec![f.async_done(a[0])?]),
            "stablehlo.async_done: operand 0 `future` (tensor<4x5xf32>): must be a future",
        ),
    ]);
    // A body that fails takes its futures with it.
    let text = build(|f, a| {
        let failed = f.if_(
            a[9],
            |f| {
                f.async_start(&a[..1], gather)?;
                f.sine(a[2]).map(|v| vec![v])
            },
            |_| Ok(vec![]),
        );
        assert!(failed.is_err());
        Ok(vec![a[0]])
    });
    assert!(!text.unwrap().contains("async_start"));
    // Nor is a future a type of anything else.
    let arena = Arena::new();
    let mut m = Module::new(&arena, "m");
    let t = TensorType::new(&arena, &[2], F32).unwrap();
    let e = m
        .function("main", &[stablehlo::Type::Future(t).into()], |_, _| Ok(vec![]))
        .unwrap_err();
    assert_eq!(
        e.to_string(),
        "func.func: only async_start gives a future, got !stablehlo.future<tensor<2xf32>>"
    );
}

#[test]
fn scans() {
    check(&[
        (
            |f, a| f.chlo_scan(&a[..1], &[], 0, false, None, sum),
            "chlo.scan: needs at least one input and one init, got 1 and 0",
        ),
        (
            |f, a| f.chlo_scan(&a[..1], &a[3..4], 2, false, None, sum),
            "chlo.scan: operand 0 `inputs` (tensor<4x5xf32>): dimension = 2 must be at least 0 and less than the rank",
        ),
        (
            |f, a| f.chlo_scan(&[a[0], a[1]], &a[3..4], 0, false, None, sum),
            "chlo.scan: operand 1 `inputs` (tensor<3x5x7xf32>): dimension 0 must equal that of the other inputs",
        ),
        (
            |f, a| f.chlo_scan(&a[..1], &a[3..4], 0, false, None, |_, _| Ok(vec![])),
            "chlo.scan: region `body` must return 1 carried values, returns 0",
        ),
        (
            |f, a| f.chlo_scan(&a[..1], &a[4..5], 0, false, None, |_, e| Ok(vec![e[0]])),
            "chlo.scan: region `body`: result 0 must be tensor<f32>, is tensor<5xf32>",
        ),
        (
            |f, a| f.chlo_scan(&a[..1], &a[4..5], 1, false, None, |_, e| Ok(vec![e[1], e[1]])),
            "chlo.scan: region `body`: result 0 must be a tensor of rank 1 or more, is tensor<f32>",
        ),
        (
            |f, a| {
                f.chlo_scan(&a[..1], &a[3..4], 0, false, None, |f, e| {
                    Ok(vec![f.add(e[0], a[3])?])
                })
            },
            "stablehlo.add: operand 1 `rhs` (tensor<5xf32>): a region of this kind may not use values from outside: \
             pass them as operands (a value of type tensor<5xf32>)",
        ),
    ]);
}

fn ragged(
    f: &mut FunctionBuilder<'_>,
    v: [Value; 3],
    change: impl FnOnce(&mut RaggedDotDimensions),
) -> Result<Vec<Value>> {
    let mut d = RaggedDotDimensions::grouped_matmul();
    change(&mut d);
    Ok(vec![f.chlo_ragged_dot(
        v[0],
        v[1],
        v[2],
        &d,
        &DotOptions::default(),
    )?])
}

#[test]
fn ragged_dots() {
    check(&[
        (
            |f, a| ragged(f, [a[0], a[1], a[3]], |_| {}),
            "chlo.ragged_dot: operand 2 `group_sizes` (tensor<5xf32>): the element type must be signed integer or unsigned integer",
        ),
        (
            |f, a| ragged(f, [a[0], a[1], a[7]], |_| {}),
            "chlo.ragged_dot: operand 1 `rhs` (tensor<3x5x7xf32>): dimension 0 must have an entry for each group of operand 2 `group_sizes` (tensor<2x1xi32>)",
        ),
        (
            |f, a| ragged(f, [a[0], a[1], a[2]], |d| d.rhs_group = None),
            "chlo.ragged_dot: operand 1 `rhs` (tensor<3x5x7xf32>): a group dimension is needed when the ragged one is neither batching nor contracting",
        ),
        (
            |f, a| ragged(f, [a[0], a[1], a[2]], |d| d.lhs_ragged = 1),
            "chlo.ragged_dot: operand 1 `rhs` (tensor<3x5x7xf32>): there is no group dimension when the ragged one is batching or contracting",
        ),
        (
            |f, a| ragged(f, [a[0], a[1], a[2]], |d| d.rhs_group = Some(1)),
            "chlo.ragged_dot: operand 1 `rhs` (tensor<3x5x7xf32>): rhs_group_dimensions = 1 must be neither batching nor contracting",
        ),
        (
            |f, a| ragged(f, [a[0], a[1], a[2]], |d| d.lhs_ragged = 2),
            "chlo.ragged_dot: operand 0 `lhs` (tensor<4x5xf32>): lhs_ragged_dimensions = 2 must be at least 0 and less than the rank",
        ),
    ]);
}

#[test]
fn elementwise_and_deprecated() {
    check(&[
        (
            |f, a| {
                let accuracy = ResultAccuracy::Tolerance {
                    atol: -1.0,
                    rtol: 0.0,
                    ulps: 1,
                };
                Ok(vec![f.tanh_with(a[0], accuracy)?])
            },
            "stablehlo.tanh: tolerances must be finite and not negative, got atol = -1, rtol = 0, ulps = 1",
        ),
        (
            |f, a| Ok(vec![f.fma(a[0], a[0], a[4])?]),
            "stablehlo.fma: operand 2 `c` (tensor<f32>): the shape must equal that of the other operands",
        ),
        (
            |f, a| Ok(vec![f.chlo_mulhi(a[0], a[0])?]),
            "chlo.mulhi: operand 0 `lhs` (tensor<4x5xf32>): the element type must be signed integer or unsigned integer",
        ),
        (
            |f, a| Ok(vec![f.chlo_constant_like(a[0], C64, 1)?]),
            "chlo.constant_like: the value must be real, got complex<f32>: make a complex number of two",
        ),
        (
            |f, a| Ok(vec![f.chlo_broadcast_select(a[9], a[0], a[2])?]),
            "chlo.broadcast_select: operand 2 `on_false` (tensor<3xi32>): the element type must equal that of operand 1 `on_true` (tensor<4x5xf32>)",
        ),
        (
            |f, a| Ok(vec![f.dot(a[1], a[3], [Precision::Default; 2], None)?]),
            "stablehlo.dot: operand 0 `lhs` (tensor<3x5x7xf32>): must have rank 1 or 2",
        ),
        (
            |f, a| Ok(vec![f.einsum(a[0], a[3], "ab,a->b", None)?]),
            "stablehlo.einsum: operand 1 `rhs` (tensor<5xf32>): einsum_config \"ab,a->b\": dimension 0 must equal those of the same label",
        ),
        (
            |f, a| Ok(vec![f.einsum(a[0], a[3], "ab, b->a", None)?]),
            "stablehlo.einsum: einsum_config \"ab, b->a\": \" b\" must be letters, with `...` at most once",
        ),
        (
            |f, a| Ok(vec![f.einsum(a[0], a[3], "ab,b->aa", None)?]),
            "stablehlo.einsum: einsum_config \"ab,b->aa\": the result \"aa\" must not repeat a label",
        ),
        (
            |f, a| Ok(vec![f.einsum(a[0], a[3], "ab,b->ac", None)?]),
            "stablehlo.einsum: einsum_config \"ab,b->ac\": the result \"ac\" must use labels of the operands",
        ),
        (
            |f, a| Ok(vec![f.einsum(a[0], a[3], "...b,b->b", None)?]),
            "stablehlo.einsum: einsum_config \"...b,b->b\": the result needs the `...` of the operands",
        ),
        (
            |f, a| Ok(vec![f.unary_einsum(a[0], "abc->a")?]),
            "stablehlo.unary_einsum: operand 0 `operand` (tensor<4x5xf32>): einsum_config \"abc->a\": \"abc\" must fit the rank",
        ),
        (
            |f, a| Ok(vec![f.broadcast(a[0], &[-1])?]),
            "stablehlo.broadcast: broadcast_sizes = [-1] must not be negative",
        ),
        (
            |f, a| Ok(vec![f.torch_index_select(a[0], a[2], 0, 1)?]),
            "stablehlo.torch_index_select: operand 0 `operand` (tensor<4x5xf32>): batch_dims = 1 must be at least 0 and at most dim = 0",
        ),
        (
            |f, a| {
                Ok(vec![f.cross_replica_sum(
                    a[0],
                    &ReplicaGroups::devices(&[&[0, 1]], 1),
                )?])
            },
            "stablehlo.cross-replica-sum: has neither channel nor global device ids: it sums over replicas",
        ),
        (
            |f, a| f.collective_reduce(&a[..1], Some(a[2]), &ReplicaGroups::replicas(&[&[0, 1]]), sum),
            "stablehlo.collective_reduce: operand 1 `root` (tensor<3xi32>): must be tensor<1xi32>, an entry for each operand",
        ),
    ]);
}

#[test]
fn wider_accumulators() {
    check(&[
        (
            |f, a| f.reduce_as(&a[5..6], &a[6..7], &[F32], &[0], sum),
            "stablehlo.reduce: operand 0 `inputs` (tensor<2x3xi8>): cannot be accumulated in f32",
        ),
        (
            |f, a| f.reduce_as(&a[..1], &a[4..5], &[F16], &[0], sum),
            "stablehlo.reduce: operand 0 `inputs` (tensor<4x5xf32>): cannot be accumulated in f16",
        ),
        (
            |f, a| f.reduce_as(&a[5..6], &a[6..7], &[], &[0], sum),
            "stablehlo.reduce: needs 1 accumulator types, one for each of `inputs`, got 0",
        ),
        (
            |f, a| f.reduce_as(&a[5..6], &a[6..7], &[S32], &[0], |_, _| Ok(vec![a[6]])),
            "stablehlo.reduce: a region of this kind may not use values from outside: pass them as operands (a value of type tensor<i8>)",
        ),
    ]);
    // The results are as wide as the accumulators.
    let text = build(|f, a| {
        let w = Window::new(&[1, 2]);
        let pair = ReplicaGroups::replicas(&[&[0, 1]]);
        let x = a[5];
        let scatter = ScatterDimensions {
            update_window_dims: vec![1],
            inserted_window_dims: vec![0],
            scatter_dims_to_operand_dims: vec![0],
            index_vector_dim: 1,
            ..ScatterDimensions::default()
        };
        let select =
            |f: &mut FunctionBuilder<'_>, e: &[Value]| Ok(vec![f.compare(e[0], e[1], Direction::Ge)?]);
        let source = f.slice(x, &[0, 0], &[2, 2], &[1, 1])?;
        let results = [
            f.reduce_as(&[x], &[a[6]], &[S32], &[0], sum)?[0],
            f.reduce_window_as(&[x], &[a[6]], &[S32], &w, sum)?[0],
            f.select_and_scatter_as(x, source, a[6], S32, &w, select, sum)?,
            f.scatter_as(&[x], a[7], &[a[8]], &[S32], &scatter, false, false, sum)?[0],
            f.all_reduce_as(&[x], S32, &pair, sum)?[0],
            f.reduce_scatter_as(x, S32, 0, &pair, sum)?,
        ];
        let types: Vec<String> = results.iter().map(|v| f.ty(*v).unwrap().to_string()).collect();
        assert_eq!(
            types,
            [
                "tensor<3xi32>",
                "tensor<2x2xi32>",
                "tensor<2x3xi32>",
                "tensor<2x3xi32>",
                "tensor<2x3xi32>",
                "tensor<1x3xi32>"
            ]
        );
        Ok(results.to_vec())
    });
    assert_eq!(
        text.unwrap().matches("\"stablehlo.add\"(").count(),
        6,
        "one region each"
    );
}
