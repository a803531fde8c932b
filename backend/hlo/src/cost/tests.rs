use pjrt_ffi::protos::xla::{ConvolutionDimensionNumbers, DotDimensionNumbers, Window, WindowDimension};

use super::{analyze, analyze_once};
use crate::testing::{Body, Build, counted_loop, f32s, i32, run_loop, shape};

fn dot(c: &mut Body, a: i64, b: i64, m: i64, n: i64) -> i64 {
    c.with("dot", f32s(&[m, n]), &[a, b], |i| {
        i.dot_dimension_numbers = Some(DotDimensionNumbers {
            lhs_contracting_dimensions: vec![1],
            rhs_contracting_dimensions: vec![0],
            ..Default::default()
        });
    })
}

#[test]
fn a_fusion_computes_inside_and_moves_only_at_its_edge() {
    let mut b = Build::new();
    let s = f32s(&[1024, 1024]);
    let inner = b.computation(|c| {
        let (x, y) = (c.parameter(0, s.clone()), c.parameter(1, s.clone()));
        let sum = c.op("add", s.clone(), &[x, y]);
        let t = c.op("tanh", s.clone(), &[sum]);
        c.op("multiply", s.clone(), &[t, y])
    });
    let main = b.computation(|c| {
        let (x, y) = (c.parameter(0, s.clone()), c.parameter(1, s.clone()));
        c.fusion(inner, s.clone(), &[x, y], "")
    });
    let cost = analyze(&b.module(main));
    // What libtpu's own analysis says of the same program.
    assert_eq!(cost.flops, 2_097_152.0);
    assert_eq!(cost.transcendentals, 1_048_576.0);
    assert_eq!(cost.bytes_accessed, 12_582_912.0);
    assert_eq!(cost.by_opcode["tanh"].transcendentals, 1_048_576.0);
    assert_eq!(cost.by_opcode["fusion"].bytes_accessed, 12_582_912.0);
}

#[test]
fn dot_reduce_and_collective() {
    let mut b = Build::new();
    let add = b.scalar("add");
    let main = b.computation(|c| {
        let x = c.parameter(0, shape(16, &[1024, 2048]));
        let y = c.parameter(1, shape(16, &[2048, 512]));
        let d = dot(c, x, y, 1024, 512);
        let zero = c.op("constant", f32s(&[]), &[]);
        let r = c.with("reduce", f32s(&[1024]), &[d, zero], |i| {
            i.called_computation_ids = vec![add];
        });
        c.with("all-reduce", f32s(&[1024]), &[r], |i| {
            i.called_computation_ids = vec![add];
        })
    });
    let cost = analyze(&b.module(main));
    assert_eq!(cost.by_opcode["dot"].flops, 2.0 * 1024.0 * 2048.0 * 512.0);
    assert_eq!(
        cost.by_opcode["dot"].bytes_accessed,
        2.0 * 1024.0 * 2048.0 + 2.0 * 2048.0 * 512.0 + 4.0 * 1024.0 * 512.0
    );
    assert_eq!(cost.by_opcode["reduce"].flops, 1024.0 * 511.0);
    assert_eq!(cost.by_opcode["all-reduce"].flops, 1024.0);
}

#[test]
fn convolution_leaves_padding_out() {
    let mut b = Build::new();
    let main = b.computation(|c| {
        let x = c.parameter(0, f32s(&[8, 32, 32, 64]));
        let k = c.parameter(1, f32s(&[3, 3, 64, 128]));
        c.with("convolution", f32s(&[8, 32, 32, 128]), &[x, k], |i| {
            let d = WindowDimension {
                size: 3,
                stride: 1,
                padding_low: 1,
                padding_high: 1,
                window_dilation: 1,
                base_dilation: 1,
                window_reversal: false,
            };
            i.window = Some(Window {
                dimensions: vec![d, d],
            });
            i.convolution_dimension_numbers = Some(ConvolutionDimensionNumbers {
                input_batch_dimension: 0,
                input_feature_dimension: 3,
                input_spatial_dimensions: vec![1, 2],
                kernel_input_feature_dimension: 2,
                kernel_output_feature_dimension: 3,
                kernel_spatial_dimensions: vec![0, 1],
                output_batch_dimension: 0,
                output_feature_dimension: 3,
                output_spatial_dimensions: vec![1, 2],
            });
        })
    });
    // libtpu's own figure for this program.
    assert_eq!(analyze(&b.module(main)).flops, 1_158_152_192.0);
}

#[test]
fn loops_count_as_often_as_they_run() {
    let s = f32s(&[512, 512]);
    let mut b = Build::new();
    let inner = counted_loop(&mut b, s.clone(), Some(5), |c, x| dot(c, x, x, 512, 512));
    let outer = counted_loop(&mut b, s.clone(), Some(7), |c, x| {
        let limit = c.constant(0);
        run_loop(c, inner, s.clone(), x, limit, "")
    });
    let main = b.computation(|c| {
        let x = c.parameter(0, s.clone());
        let limit = c.constant(0);
        run_loop(c, outer, s.clone(), x, limit, "")
    });
    let module = b.module(main);
    let one = 2.0 * 512.0_f64.powi(3);
    let cost = analyze(&module);
    assert_eq!(cost.by_opcode["dot"].flops, 35.0 * one);
    assert_eq!(cost.unknown_trip_counts, 0);
    // 7 and 7 times 5 counters; the conditions run once more than the bodies.
    assert_eq!(cost.by_opcode["add"].flops, 42.0);
    assert_eq!(cost.by_opcode["compare"].flops, 8.0 + 7.0 * 6.0);
    assert_eq!(analyze_once(&module).by_opcode["dot"].flops, one);
}

#[test]
fn a_limit_carried_through_two_loops_is_found() {
    let s = f32s(&[4]);
    let mut b = Build::new();
    let inner = counted_loop(&mut b, s.clone(), None, |c, x| c.op("negate", f32s(&[4]), &[x]));
    let outer = counted_loop(&mut b, s.clone(), Some(3), |c, x| {
        // The outer loop's own third element is the inner limit, as after loop-invariant code motion.
        let p = c.instructions[0].id;
        let limit = c.gte(p, 2, i32());
        run_loop(c, inner, s.clone(), x, limit, "")
    });
    let main = b.computation(|c| {
        let x = c.parameter(0, s.clone());
        let limit = c.constant(11);
        run_loop(c, outer, s.clone(), x, limit, "")
    });
    let cost = analyze(&b.module(main));
    assert_eq!(cost.by_opcode["negate"].flops, 3.0 * 11.0 * 4.0);
    assert_eq!(cost.unknown_trip_counts, 0);
}

#[test]
fn an_unknown_trip_count_is_told_and_a_stated_one_believed() {
    let s = f32s(&[4]);
    for (config, flops, unknown) in [
        ("", 4.0, 1),
        (r#"{"known_trip_count":{"n":"9"},"known_init_step":{}}"#, 36.0, 0),
        ("not json", 4.0, 1),
    ] {
        let mut b = Build::new();
        let l = counted_loop(&mut b, s.clone(), None, |c, x| c.op("negate", f32s(&[4]), &[x]));
        let main = b.computation(|c| {
            let x = c.parameter(0, s.clone());
            let limit = c.parameter(1, i32());
            run_loop(c, l, s.clone(), x, limit, config)
        });
        let cost = analyze(&b.module(main));
        assert_eq!(cost.by_opcode["negate"].flops, flops, "{config}");
        assert_eq!(cost.unknown_trip_counts, unknown, "{config}");
    }
}

#[test]
fn slices_and_in_place_updates_move_only_what_they_touch() {
    let mut b = Build::new();
    let (big, row) = (f32s(&[1024, 128]), f32s(&[1, 128]));
    let inner = b.computation(|c| {
        let x = c.parameter(0, big.clone());
        let table = c.parameter(1, f32s(&[64, 128]));
        let i = c.parameter(2, i32());
        let s = c.op("dynamic-slice", row.clone(), &[table, i, i]);
        c.op("dynamic-update-slice", big.clone(), &[x, s, i, i])
    });
    let main = b.computation(|c| {
        let x = c.parameter(0, big.clone());
        let table = c.parameter(1, f32s(&[64, 128]));
        let i = c.parameter(2, i32());
        c.fusion(inner, big.clone(), &[x, table, i], "")
    });
    // One row read, one written, the index.
    assert_eq!(analyze(&b.module(main)).bytes_accessed, 512.0 + 512.0 + 4.0);
}

#[test]
fn branches_count_at_their_most_and_cycles_end() {
    let s = f32s(&[8]);
    let mut b = Build::new();
    let cheap = b.computation(|c| {
        let x = c.parameter(0, s.clone());
        c.op("negate", s.clone(), &[x])
    });
    let dear = b.computation(|c| {
        let x = c.parameter(0, s.clone());
        c.op("exponential", s.clone(), &[x])
    });
    let main = b.computation(|c| {
        let x = c.parameter(0, s.clone());
        let which = c.constant(0);
        c.with("conditional", s.clone(), &[which, x, x], |i| {
            i.called_computation_ids = vec![cheap, dear];
        })
    });
    let cost = analyze(&b.module(main));
    assert_eq!((cost.flops, cost.transcendentals), (8.0, 8.0));
    assert_eq!(cost.bytes_accessed, 64.0);
    // A damaged module: a computation that calls itself, and one that is not there.
    let own = b.computation(|c| {
        let x = c.parameter(0, s.clone());
        c.with("call", s.clone(), &[x], |i| i.called_computation_ids = vec![4])
    });
    assert_eq!(own, 4);
    assert_eq!(analyze(&b.module(own)).flops, 0.0);
    let lost = b.computation(|c| c.fusion(99, s.clone(), &[12345], ""));
    assert_eq!(analyze(&b.module(lost)).bytes_accessed, 32.0);
}
