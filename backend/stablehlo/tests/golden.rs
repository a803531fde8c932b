//! Exact texts of a few programs. They feed cache keys: a change here is a change of every key.

use stablehlo::ElementType::{F32, S32};
use stablehlo::ops::{DotDimensions, DotOptions, Precision, ReplicaGroups};
use stablehlo::{Arena, Argument, Attribute, Module, Result, TensorType};

#[test]
fn reduction_with_location_and_attributes() -> Result<()> {
    let arena = Arena::new();
    let mut m = Module::new(&arena, "a b");
    m.devices(2, 1);
    m.foreign("sdy.mesh @mesh = <[\"x\"=2]>");
    let x = TensorType::new(&arena, &[2, 3], F32)?;
    let argument = Argument::new(x).donated().sharding("{replicated}");
    m.function("main", &[argument], |f, a| {
        let zero = f.scalar(0f32)?;
        f.set_location("step.py", 3, 4);
        f.attribute("mhlo.sharding", Attribute::string("{replicated}"));
        let r = f.reduce(&[a[0]], &[zero], &[1], |f, e| {
            f.clear_location();
            Ok(vec![f.add(e[0], e[1])?])
        })?;
        f.clear_location();
        f.all_reduce(&r, &ReplicaGroups::replicas(&[&[0, 1]]), |f, e| {
            Ok(vec![f.maximum(e[0], e[1])?])
        })
    })?;
    assert_eq!(
        m.text(),
        r#"module @"a b" attributes {mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%0: tensor<2x3xf32> {jax.buffer_donor = true, mhlo.sharding = "{replicated}"}) -> (tensor<2xf32>) {
    %1 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
    %5 = "stablehlo.reduce"(%0, %1) <{dimensions = array<i64: 1>}> ({
    ^bb0(%2: tensor<f32>, %3: tensor<f32>):
      %4 = "stablehlo.add"(%2, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%4) : (tensor<f32>) -> ()
    }) {mhlo.sharding = "{replicated}"} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32> loc("step.py":3:4)
    %9 = "stablehlo.all_reduce"(%5) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%6: tensor<f32>, %7: tensor<f32>):
      %8 = "stablehlo.maximum"(%6, %7) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%8) : (tensor<f32>) -> ()
    }) : (tensor<2xf32>) -> tensor<2xf32>
    "func.return"(%9) : (tensor<2xf32>) -> ()
  }
}
"#
    );
    assert_eq!(m.text(), m.to_string());
    Ok(())
}

#[test]
fn dot_and_bounded_dimension() -> Result<()> {
    let arena = Arena::new();
    let mut m = Module::new(&arena, "dot");
    let x = TensorType::new(&arena, &[4, 5], F32)?;
    let n = TensorType::new(&arena, &[0i64; 0], S32)?;
    m.function("main", &[x.into(), n.into()], |f, a| {
        let x = f.set_dimension_size(a[0], a[1], 0)?;
        let d = DotDimensions {
            lhs_contracting: vec![1],
            rhs_contracting: vec![1],
            ..DotDimensions::default()
        };
        let options = DotOptions {
            precision: [Precision::Highest; 2],
            ..DotOptions::default()
        };
        Ok(vec![f.dot_general(x, a[0], &d, &options)?])
    })?;
    let text = m.text();
    let line = text.lines().nth(3).unwrap();
    assert_eq!(
        line,
        "    %3 = \"stablehlo.dot_general\"(%2, %0) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], \
         rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, \
         precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : \
         (tensor<?x5xf32, #stablehlo.bounds<4, ?>>, tensor<4x5xf32>) -> tensor<?x4xf32, #stablehlo.bounds<4, ?>>"
    );
    Ok(())
}
