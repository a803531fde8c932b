use pjrt_ffi::protos::xla::stack_frame_index_proto::{FileLocation, StackFrame};
use pjrt_ffi::protos::xla::{OpMetadata, StackFrameIndexProto};

use super::*;
use crate::Module;
use crate::testing::{Build, counted_loop, f32s, i32, run_loop};

fn config(cycles: &str) -> String {
    format!(
        r#"{{"flag_configs":[],"window_config":{{"kernel_window_bounds":[],"estimated_cycles":"{cycles}"}}}}"#
    )
}

/// A dear fusion before, a cheap one in 7 rounds of 5, an uncosted copy and collective.
fn nested() -> HloModuleProto {
    let s = f32s(&[512, 512]);
    let mut b = Build::new();
    let add = b.scalar("add");
    let fused = b.computation(|c| {
        let x = c.parameter(0, s.clone());
        c.with("tanh", s.clone(), &[x], |i| {
            i.metadata = Some(OpMetadata {
                op_name: "jit(f)/tanh".to_owned(),
                stack_frame_id: 1,
                ..Default::default()
            });
        })
    });
    let inner = counted_loop(&mut b, s.clone(), Some(5), |c, x| {
        c.fusion(fused, s.clone(), &[x], &config("100"))
    });
    let outer = counted_loop(&mut b, s.clone(), Some(7), |c, x| {
        let limit = c.constant(0);
        let y = run_loop(c, inner, s.clone(), x, limit, "");
        c.fusion(fused, s.clone(), &[y], &config("18446744073709551615"))
    });
    let main = b.computation(|c| {
        let x = c.parameter(0, s.clone());
        let y = c.fusion(fused, s.clone(), &[x], &config("500"));
        let limit = c.constant(0);
        let z = run_loop(c, outer, s.clone(), y, limit, "");
        c.with("all-reduce", s.clone(), &[z], |i| {
            i.called_computation_ids = vec![add];
        })
    });
    let mut module = b.module(main);
    module.stack_frame_index = Some(StackFrameIndexProto {
        file_names: vec!["model.py".to_owned()],
        function_names: vec!["f".to_owned()],
        file_locations: vec![FileLocation {
            file_name_id: 1,
            function_name_id: 1,
            line: 42,
            column: 7,
        }],
        stack_frames: vec![StackFrame {
            file_location_id: 1,
            parent_frame_id: 0,
        }],
    });
    module
}

#[test]
fn nested_loops_multiply() {
    let module = nested();
    let r = report(&Input::of(&module).unwrap());
    assert_eq!(r.cost.estimated_cycles, 500 + 35 * 100);
    assert_eq!(r.cost.estimated_seconds, 4000.0 / 1.75e9);
    // The fusion with 2^64-1 and the collective; scalar counters are not gaps.
    assert_eq!(r.cost.uncosted_instructions, 2);
    assert_eq!(r.cost.unknown_trip_counts, 0);
    assert_eq!(r.top.len(), 2);
    let t = &r.top[0];
    assert_eq!((t.cycles, t.trip_count, t.total_cycles), (100, Some(35), 3500));
    assert_eq!(t.share, 0.875);
    assert_eq!(t.opcode, "fusion");
    assert_eq!(t.source, "jit(f)/tanh model.py:42");
    assert_eq!(r.top[1].trip_count, Some(1));
}

#[test]
fn the_plugins_figures_are_for_one_round_and_grow_by_the_others() {
    let module = nested();
    let once = crate::cost::analyze_once(&module);
    let all = crate::cost::analyze(&module);
    let properties = BTreeMap::from([
        ("flops".to_owned(), once.flops + 1000.0),
        ("bytes accessed".to_owned(), f64::NAN),
    ]);
    let r = report(&Input {
        properties,
        ..Input::of(&module).unwrap()
    });
    assert_eq!(r.cost.flops, all.flops + 1000.0);
    assert_eq!(r.cost.bytes_accessed, all.bytes_accessed);
    // One before, 35 in the inner loop, 7 after it.
    assert_eq!(r.cost.transcendentals, 43.0 * 512.0 * 512.0);
}

#[test]
fn an_unknown_loop_is_told() {
    let s = f32s(&[8]);
    let mut b = Build::new();
    let l = counted_loop(&mut b, s.clone(), None, |c, x| {
        c.with("negate", f32s(&[8]), &[x], |i| {
            i.backend_config = config("30").into_bytes();
        })
    });
    let main = b.computation(|c| {
        let x = c.parameter(0, s.clone());
        let limit = c.parameter(1, i32());
        run_loop(c, l, s.clone(), x, limit, "")
    });
    let module = b.module(main);
    let r = report(&Input::of(&module).unwrap());
    assert_eq!(r.cost.unknown_trip_counts, 1);
    assert_eq!(r.top[0].trip_count, None);
    assert_eq!(r.cost.estimated_cycles, 30);
    let text = r.to_string();
    assert!(text.contains("1 loop counted once"), "{text}");
    let json = serde_json::to_value(&r).unwrap();
    assert!(json["top"][0]["trip_count"].is_null());
}

#[test]
fn roofline_and_memory() {
    let module = Module::default();
    let properties = BTreeMap::from([("flops".to_owned(), 1e12), ("bytes accessed".to_owned(), 1e9)]);
    let r = report(&Input {
        properties,
        memory: MemoryStats {
            argument: 100,
            output: 60,
            alias: 50,
            temp: 7,
            code: 3,
            peak: 0,
        },
        hbm_bytes: Some(1000),
        compile_seconds: 1.5,
        serialized_bytes: 9,
        ..Input::of(&module).unwrap()
    });
    assert_eq!(r.cost.arithmetic_intensity, 1000.0);
    assert_eq!(r.cost.bound, Bound::Compute);
    assert!((r.cost.ridge_intensity - 559.756).abs() < 1e-3);
    assert_eq!(r.memory.peak_hbm_bytes, 117);
    assert_eq!(r.memory.limit_bytes, 1000);
    let empty = report(&Input::of(&module).unwrap());
    assert_eq!(empty.cost.bound, Bound::Memory);
    assert_eq!(empty.cost.arithmetic_intensity, 0.0);
}

#[test]
fn json_has_the_promised_fields() {
    let module = nested();
    let r = report(&Input::of(&module).unwrap());
    let json = serde_json::to_value(&r).unwrap();
    let keys = |at: &str| {
        let object = json.pointer(at).unwrap().as_object().unwrap();
        object.keys().cloned().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        keys(""),
        "chip compile_seconds cost memory serialized_bytes top topology"
    );
    assert_eq!(keys("/chip"), "clock_hz hbm_bandwidth hbm_bytes name peak_flops");
    assert_eq!(
        keys("/cost"),
        "arithmetic_intensity bound bytes_accessed estimated_cycles estimated_seconds flops ridge_intensity \
         transcendentals uncosted_instructions unknown_trip_counts"
    );
    assert_eq!(
        keys("/memory"),
        "alias_bytes argument_bytes code_bytes limit_bytes output_bytes peak_hbm_bytes temp_bytes"
    );
    assert_eq!(
        keys("/top/0"),
        "cycles name opcode share source total_cycles trip_count"
    );
    assert_eq!(json["cost"]["bound"], "memory");
    assert_eq!(serde_json::from_value::<Report>(json).unwrap(), r);
}

#[test]
fn the_table_names_the_dearest_and_where_it_comes_from() {
    let module = nested();
    let text = report(&Input::of(&module).unwrap()).to_string();
    for part in [
        "v6e:1x1 (TPU v6 lite, 1.75 GHz, 918.00 TFLOP/s bf16, 1.64 TB/s, 33.55 GB)",
        "4000 (2.286 us at the chip's clock)",
        "ridge at 560: memory bound",
        "2 instructions, not in the cycles",
        "87.5%",
        "jit(f)/tanh model.py:42",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

mod damaged {
    use super::*;
    use proptest::prelude::*;
    use prost::Message;

    proptest! {
        /// Whatever bytes a plugin hands out: an error or figures, never a panic or an endless walk.
        #[test]
        fn modules_are_read_without_a_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12)) {
            let mut bytes = nested().encode_to_vec();
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            if let Ok(module) = crate::module::parse(&bytes, "hlo") {
                let signature = crate::signature(&module);
                prop_assert!(signature.donated().len() <= signature.parameters.len());
                let r = report(&Input::of(&module).unwrap());
                prop_assert!(r.top.len() <= TOP);
                prop_assert!(r.cost.estimated_seconds.is_finite());
                prop_assert!(!r.to_string().is_empty());
            }
        }
    }
}
