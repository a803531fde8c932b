//! Random op sequences with random arguments: no panic, and what is accepted has a consistent type.

use proptest::prelude::*;
use stablehlo::ElementType::{self, F32, S32, U64};
use stablehlo::ops::*;
use stablehlo::{Arena, Argument, Dim, Error, FunctionBuilder, Module, Result, TensorType, Type, Value};

/// One step: which op, which values, and a pool of numbers for its attributes.
#[derive(Clone, Debug)]
struct Step {
    op: usize,
    values: [usize; 3],
    numbers: Vec<i64>,
    element: usize,
    flag: bool,
}

fn number() -> impl Strategy<Value = i64> {
    prop_oneof![
        20 => -1i64..5,
        1 => Just(i64::MAX),
        1 => Just(i64::MIN),
        1 => Just(i64::MAX / 2),
        1 => any::<i64>(),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    (
        0usize..62,
        any::<[usize; 3]>(),
        prop::collection::vec(number(), 0..5),
        any::<usize>(),
        any::<bool>(),
    )
        .prop_map(|(op, values, numbers, element, flag)| Step {
            op,
            values,
            numbers,
            element,
            flag,
        })
}

fn first_of(values: Vec<Value>) -> Result<Value> {
    // The ops tried here give at least one result when they are accepted.
    Ok(values[0])
}

fn body(f: &mut FunctionBuilder<'_>, e: &[Value], s: &Step) -> Result<Vec<Value>> {
    match s.values[2] % 4 {
        0 => Ok(vec![e[0]]),
        1 => Ok(vec![f.add(e[0], e[1 % e.len()])?]),
        2 => Ok(vec![f.compare(e[0], e[1 % e.len()], Direction::Lt)?]),
        _ => Ok(e.to_vec()),
    }
}

fn apply(f: &mut FunctionBuilder<'_>, pool: &[Value], s: &Step) -> Result<Value> {
    let v = |i: usize| pool[s.values[i] % pool.len()];
    let (a, b, c) = (v(0), v(1), v(2));
    let n = &s.numbers;
    let at = |i: usize| n.get(i).copied().unwrap_or(1);
    let rotated: Vec<i64> = n.iter().rev().copied().collect();
    let rank = f.tensor_ty(a).map(|t| t.rank()).unwrap_or(0);
    let fill = |value: i64| vec![value; rank];
    let element = ElementType::ALL[s.element % ElementType::ALL.len()];
    let dims: Vec<Dim> = n
        .iter()
        .enumerate()
        .map(|(i, &d)| match (s.element >> i) % 5 {
            0 => Dim::Bounded(d),
            1 => Dim::Dynamic,
            _ => Dim::Static(d),
        })
        .collect();
    let groups = ReplicaGroups {
        groups: n.iter().map(|&g| vec![g]).chain([rotated.clone()]).collect(),
        channel: s.flag.then_some(Channel::device(at(0))),
        use_global_device_ids: s.element % 2 == 0,
        partitions: at(1),
    };
    let pairwise = ReplicaGroups::replicas(&[&[0, 1]]);
    let groups = if s.flag { &pairwise } else { &groups };
    Ok(match s.op {
        0 => f.add(a, b)?,
        1 => f.subtract(a, b)?,
        2 => f.and(a, b)?,
        3 => f.complex(a, b)?,
        4 => f.sine(a)?,
        5 => f.abs(a)?,
        6 => f.compare_as(
            a,
            b,
            Direction::ALL[s.element % 6],
            CompareType::ALL[s.element % CompareType::ALL.len()],
        )?,
        7 => f.select(a, b, c)?,
        8 => f.clamp(a, b, c)?,
        9 => f.convert(a, element)?,
        10 => f.bitcast_convert(a, element)?,
        11 => f.reduce_precision(a, at(0) as i32, at(1) as i32)?,
        12 => f.full(&dims, element, at(0))?,
        13 => f.iota(n, element, at(0))?,
        14 => f.broadcast_in_dim(a, &dims, &rotated)?,
        15 => f.reshape(a, &dims)?,
        16 => f.transpose(a, n)?,
        17 => f.reverse(a, n)?,
        18 => f.concatenate(&[a, b], at(0))?,
        19 => f.pad(a, b, n, &rotated, &fill(at(0)))?,
        20 => f.slice(a, n, &rotated, &fill(at(0)))?,
        21 => f.dynamic_slice(a, &vec![b; rank], n)?,
        22 => f.dynamic_update_slice(a, b, &vec![c; rank])?,
        23 => f.get_dimension_size(a, at(0))?,
        24 => f.set_dimension_size(a, b, at(0))?,
        25 => {
            let d = GatherDimensions {
                offset_dims: n.clone(),
                collapsed_slice_dims: n.iter().take(1).copied().collect(),
                start_index_map: rotated.iter().take(1).copied().collect(),
                index_vector_dim: at(0),
                operand_batching_dims: if s.flag { vec![at(1)] } else { vec![] },
                start_indices_batching_dims: if s.flag { vec![at(2)] } else { vec![] },
            };
            f.gather(a, b, &d, &fill(at(3)), s.flag)?
        }
        26 => {
            let d = ScatterDimensions {
                update_window_dims: n.clone(),
                inserted_window_dims: n.iter().take(1).copied().collect(),
                scatter_dims_to_operand_dims: rotated.iter().take(1).copied().collect(),
                index_vector_dim: at(0),
                ..ScatterDimensions::default()
            };
            first_of(f.scatter(&[a], b, &[c], &d, s.flag, s.flag, |f, e| body(f, e, s))?)?
        }
        27 => first_of(f.reduce(&[a], &[b], n, |f, e| body(f, e, s))?)?,
        28 => f.map(&[a, b], |f, e| body(f, e, s))?,
        29 => {
            let w = Window {
                strides: fill(at(0)),
                base_dilations: fill(at(1)),
                window_dilations: fill(at(2)),
                padding: vec![[at(3), at(0)]; rank],
                ..Window::new(n)
            };
            first_of(f.reduce_window(&[a], &[b], &w, |f, e| body(f, e, s))?)?
        }
        30 => f.select_and_scatter(
            a,
            b,
            c,
            &Window::new(n),
            |f, e| body(f, e, s),
            |f, e| body(f, e, s),
        )?,
        31 => first_of(f.sort(&[a, b], at(0), s.flag, |f, e| body(f, e, s))?)?,
        32 => {
            let d = DotDimensions {
                lhs_contracting: n.clone(),
                rhs_contracting: rotated.clone(),
                lhs_batching: if s.flag { vec![at(0)] } else { vec![] },
                rhs_batching: if s.flag { vec![at(1)] } else { vec![] },
            };
            let options = DotOptions {
                element: s.flag.then_some(element),
                ..DotOptions::default()
            };
            f.dot_general(a, b, &d, &options)?
        }
        33 => {
            let spatial = rank.saturating_sub(2);
            let mut d = ConvolutionDimensions::channels_first(spatial);
            if s.flag {
                d.output_feature = at(0);
            }
            let options = ConvolutionOptions {
                window_strides: vec![at(1); spatial],
                padding: vec![[at(2), at(3)]; spatial],
                lhs_dilation: vec![at(0); spatial],
                feature_group_count: at(4),
                ..ConvolutionOptions::new(spatial)
            };
            f.convolution(a, b, &d, &options)?
        }
        34 => f.cholesky(a, s.flag)?,
        35 => f.triangular_solve(a, b, s.flag, s.flag, s.flag, TransposeKind::Adjoint)?,
        36 => f.fft(a, FftType::ALL[s.element % 4], n)?,
        37 => f.rng(a, b, n, RngDistribution::Uniform)?,
        38 => f.rng_bit_generator(a, n, element, RngAlgorithm::Philox)?.1,
        39 => f.batch_norm_inference(a, b, c, b, c, 1e-5, at(0))?,
        40 => first_of(f.while_(&[a], |f, e| body(f, e, s), |f, e| body(f, e, s))?)?,
        41 => first_of(f.if_(a, |f| body(f, &[b, c], s), |_| Ok(vec![c]))?)?,
        42 => first_of(f.all_gather(&[a], at(0), groups)?)?,
        43 => f.reduce_scatter(a, at(0), groups, |f, e| body(f, e, s))?,
        44 => first_of(f.all_to_all(&[a, b], at(0), at(1), groups)?)?,
        45 => f.chlo_top_k(a, at(0))?.1,
        46 => f.chlo_broadcast_add(a, b)?,
        47 => f.fma(a, b, c)?,
        48 => f.chlo_broadcast_select(a, b, c)?,
        49 => f.chlo_constant_like(a, element, at(0))?,
        50 => {
            let d = RaggedDotDimensions {
                dot: DotDimensions {
                    lhs_contracting: n.clone(),
                    rhs_contracting: rotated.clone(),
                    ..DotDimensions::default()
                },
                lhs_ragged: at(0),
                rhs_group: s.flag.then_some(at(1)),
            };
            f.chlo_ragged_dot(a, b, c, &d, &DotOptions::default())?
        }
        51 => first_of(f.chlo_scan(&[a], &[b], at(0), s.flag, None, |f, e| body(f, e, s))?)?,
        52 => f.dot(a, b, [Precision::Default; 2], s.flag.then_some(element))?,
        53 => {
            let configs = [
                "ab,bc->ac",
                "a,b->ab",
                "...a,a->...",
                "aa,b->b",
                "...,...->",
                "a.b,c->",
                ",->",
                "ab",
            ];
            f.einsum(a, b, configs[s.element % configs.len()], None)?
        }
        54 => f.unary_einsum(
            a,
            ["ab->ba", "...a->...", "aa->a", "a", "->", "...->"][s.element % 6],
        )?,
        55 => f.broadcast(a, n)?,
        56 => f.torch_index_select(a, b, at(0), at(1))?,
        57 => f.cross_replica_sum(a, groups)?,
        58 => first_of(f.collective_reduce(&[a], s.flag.then_some(b), groups, |f, e| body(f, e, s))?)?,
        59 => first_of(f.reduce_as(&[a], &[b], &[element], n, |f, e| body(f, e, s))?)?,
        60 => {
            let future = f.async_start(&[a], |f, e| f.all_gather(e, at(0), groups))?;
            f.async_done(future)?
        }
        _ => f.dynamic_broadcast_in_dim(a, b, &dims, &rotated)?,
    })
}

/// What must hold of any accepted tensor type.
fn consistent(ty: &Type<'_>) -> std::result::Result<(), TestCaseError> {
    if let Type::Tensor(t) = ty {
        prop_assert!(t.dims.iter().all(|d| d.limit().is_none_or(|n| n >= 0)), "{}", t);
        let bytes = t
            .dims
            .iter()
            .filter_map(|d| d.limit())
            .filter(|&n| n != 0)
            .try_fold(t.element.host_bytes() as i64, i64::checked_mul);
        prop_assert!(bytes.is_some(), "{}", t);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn random_programs(steps in prop::collection::vec(step(), 1..40)) {
        let build = || -> (String, usize, std::result::Result<(), TestCaseError>) {
            let arena = Arena::new();
            let mut m = Module::new(&arena, "fuzz");
            let shapes: [(&[i64], ElementType); 8] = [
                (&[2, 3], F32), (&[3], F32), (&[], F32), (&[], S32), (&[2, 3, 4], S32), (&[3], U64),
                (&[], ElementType::Pred), (&[2, 2], ElementType::C64),
            ];
            let arguments: Vec<Argument<'_>> = shapes
                .iter()
                .map(|(d, e)| TensorType::new(&arena, *d, *e).unwrap().into())
                .collect();
            let mut accepted = 0;
            let mut checked = Ok(());
            m.function("main", &arguments, |f, a| {
                let mut pool = a.to_vec();
                for s in &steps {
                    match apply(f, &pool, s) {
                        Ok(v) => {
                            accepted += 1;
                            let ty = f.ty(v)?;
                            checked = checked.clone().and_then(|()| consistent(&ty));
                            pool.push(v);
                        }
                        Err(e) => {
                            let e: Error = e;
                            // An error names something and says something.
                            assert!(!e.op().is_empty() && !e.rule().is_empty());
                        }
                    }
                }
                Ok(vec![pool[pool.len() - 1]])
            })
            .unwrap();
            (m.text(), accepted, checked)
        };
        let (text, accepted, checked) = build();
        checked?;
        // Deterministic; and refused ops leave nothing behind, but regions of `map` and `rng` may add constants.
        prop_assert_eq!(&build().0, &text);
        prop_assert!(text.matches(" = \"").count() >= accepted);
    }
}
