//! Host transfers of every element type, strides, edge shapes, copies between devices and memories.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::*;
use pjrt::{ElementType, HostArray, Placement, Shape, dense_strides, scatter_strided};
use proptest::prelude::*;

/// Bytes that are valid values of the type: narrow types use only their low bits, booleans 0 and 1.
fn pattern(element: ElementType, count: usize) -> Vec<u8> {
    let mask = match element {
        ElementType::Pred => 1u8,
        t if t.bits() == 2 => 3,
        t if t.bits() == 4 => 0xf,
        _ => 0xff,
    };
    let mut bytes: Vec<u8> = (0..count * element.host_bytes())
        .map(|i| (i as u8).wrapping_mul(37) & mask)
        .collect();
    // A signed narrow integer is a sign-extended byte on the host.
    if matches!(element, ElementType::S4 | ElementType::S2) {
        let sign = 1 << (element.bits() - 1);
        bytes
            .iter_mut()
            .filter(|b| **b & sign != 0)
            .for_each(|b| *b |= !mask);
    }
    bytes
}

/// Types that a CPU plugin's host transfer refuses, with its own text for it.
fn refused(element: ElementType) -> bool {
    let device = SIM.device(0).unwrap();
    let data = pattern(element, 2);
    SIM.buffer_from_host(&HostArray::new(element, &[2], &data), Placement::Device(&*device))
        .is_err()
}

#[test]
fn every_element_type_makes_the_round_trip() {
    for &element in ElementType::ALL {
        assert!(!refused(element), "{element} is refused");
        for dims in [&[][..], &[5], &[0], &[2, 0, 3], &[2, 3, 4]] {
            let shape = Shape::new(element, dims);
            let data = pattern(element, shape.elements());
            let buffer = put(element, dims, &data);
            assert_eq!(buffer.shape(), &shape);
            assert_eq!(get(&*buffer), data, "{shape}");
            assert_eq!(
                buffer.read().unwrap().wait().unwrap(),
                data,
                "{shape} by an asynchronous read"
            );
        }
    }
}

#[test]
fn large_arrays_make_the_round_trip() {
    let values: Vec<f32> = (0..1 << 20).map(|i| i as f32).collect();
    let buffer = put_f32(&[1 << 10, 1 << 10], &values);
    assert!(buffer.size_on_device().unwrap() >= 4 << 20);
    assert_eq!(get_f32(&*buffer), values);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn strides_say_where_elements_lie(
        dims in proptest::collection::vec(1i64..5, 0..4),
        gap in 1i64..3,
        order in any::<proptest::sample::Index>(),
        which in any::<proptest::sample::Index>(),
    ) {
        // Every permutation of the dimensions, with gaps, for a type of each width.
        let element = *which.get(&[ElementType::S8, ElementType::BF16, ElementType::F32, ElementType::F64, ElementType::C128]);
        let shape = Shape::new(element, &dims);
        let mut axes: Vec<usize> = (0..dims.len()).collect();
        axes.rotate_left(if dims.is_empty() { 0 } else { order.index(dims.len()) });
        let permuted: Vec<i64> = axes.iter().map(|a| dims[*a]).collect();
        let dense = dense_strides(&Shape::new(element, &permuted));
        let mut strides = vec![0; dims.len()];
        for (axis, stride) in axes.iter().zip(dense) {
            strides[*axis] = stride * gap;
        }
        let values = pattern(element, shape.elements());
        let mut host = vec![0u8; shape.host_bytes() * gap as usize];
        scatter_strided(&shape, &values, &mut host, &strides);
        let device = SIM.device(0).unwrap();
        let array = HostArray::new(element, &dims, &host).strided(&strides);
        let buffer = SIM.buffer_from_host(&array, Placement::Device(&*device)).unwrap();
        prop_assert_eq!(get(&*buffer), values);
        let mut back = vec![0u8; host.len()];
        buffer.copy_to_host_strided(&mut back, &strides).unwrap();
        prop_assert_eq!(back, host);
    }
}

#[test]
fn shared_bytes_live_until_the_plugin_is_done() {
    struct Watched(Vec<u8>, Arc<AtomicBool>);
    impl AsRef<[u8]> for Watched {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    impl Drop for Watched {
        fn drop(&mut self) {
            self.1.store(true, Ordering::SeqCst);
        }
    }
    let gone = Arc::new(AtomicBool::new(false));
    let values: Vec<f32> = (0..4096).map(|i| i as f32).collect();
    let array = HostArray::shared(
        ElementType::F32,
        &[4096],
        Arc::new(Watched(bytes(&values), gone.clone())),
    );
    let device = SIM.device(0).unwrap();
    let buffer = SIM.buffer_from_host(&array, Placement::Device(&*device)).unwrap();
    drop(array);
    assert_eq!(get_f32(&*buffer), values);
    drop(buffer);
    // The plugin frees them on a thread of its own.
    for _ in 0..200 {
        if gone.load(Ordering::SeqCst) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the shared bytes were never given back");
}

#[test]
fn buffers_move_between_devices_and_memories() {
    let buffer = put_f32(&[3], &[1.0, 2.0, 3.0]);
    let other = SIM.device(3).unwrap();
    let moved = buffer.copy_to_device(&*other).unwrap();
    assert_eq!(moved.device().unwrap().description().id, other.description().id);
    assert_eq!(get_f32(&*moved), [1.0, 2.0, 3.0]);
    let same = buffer.copy_to_device(&*SIM.device(0).unwrap()).unwrap();
    buffer.delete().unwrap();
    assert_eq!(
        get_f32(&*same),
        [1.0, 2.0, 3.0],
        "a copy onto the same device stands alone"
    );
    let host = other
        .memories()
        .unwrap()
        .into_iter()
        .find(|m| m.kind() == "pinned_host")
        .unwrap();
    let pinned = moved.copy_to_memory(&*host).unwrap();
    assert_eq!(pinned.memory().unwrap().kind(), "pinned_host");
    assert_eq!(get_f32(&*pinned), [1.0, 2.0, 3.0]);
    assert_eq!(other.default_memory().unwrap().kind(), "device");
}

#[test]
fn an_external_reference_pins_the_memory() {
    let buffer = put_f32(&[4], &[1.0, 2.0, 3.0, 4.0]);
    buffer.ready().unwrap().wait().unwrap();
    let pinned = buffer.clone().external_reference().unwrap();
    drop(buffer);
    // SAFETY: pinned, ready, four floats, and on the simulator the device's memory is the host's.
    let seen = unsafe { std::slice::from_raw_parts(pinned.address() as *const f32, 4) };
    assert_eq!(seen, [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn bad_host_arrays_are_refused_before_the_plugin() {
    let device = SIM.device(0).unwrap();
    let refuse = |array: HostArray<'_>, text: &str| {
        let error = SIM
            .buffer_from_host(&array, Placement::Device(&*device))
            .unwrap_err();
        assert_eq!(error.call(), Some("PJRT_Client_BufferFromHostBuffer"));
        assert!(error.to_string().contains(text), "{error}");
    };
    refuse(
        HostArray::new(ElementType::F32, &[3], &[0; 8]),
        "takes 12 bytes of host memory, 8 were given",
    );
    refuse(HostArray::new(ElementType::F64, &[2], &[0; 8]), "takes 16 bytes");
    refuse(HostArray::new(ElementType::F32, &[-2], &[]), "negative");
    refuse(HostArray::new(ElementType::F32, &[i64::MAX, 8], &[]), "too large");
    let error = put_f32(&[2], &[0.0; 2]).copy_to_host(&mut [0; 4]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("takes 8 bytes of host memory, 4 were given"),
        "{error}"
    );
}
