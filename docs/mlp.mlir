// Eight layers in a loop, then a projection and a softmax without its division.
module @mlp {
  func.func @main(%x: tensor<1024x2048xbf16>, %layers: tensor<8x2048x2048xbf16>, %out: tensor<2048x512xbf16>) -> tensor<1024x512xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %count = stablehlo.constant dense<8> : tensor<i32>
    %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %loop:2 = stablehlo.while(%i = %zero, %h = %x) : tensor<i32>, tensor<1024x2048xbf16>
      cond {
        %more = stablehlo.compare LT, %i, %count : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %more : tensor<i1>
      } do {
        %slice = stablehlo.dynamic_slice %layers, %i, %zero, %zero, sizes = [1, 2048, 2048] : (tensor<8x2048x2048xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2048x2048xbf16>
        %w = stablehlo.reshape %slice : (tensor<1x2048x2048xbf16>) -> tensor<2048x2048xbf16>
        %product = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<1024x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<1024x2048xbf16>
        %active = stablehlo.tanh %product : tensor<1024x2048xbf16>
        %next = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %next, %active : tensor<i32>, tensor<1024x2048xbf16>
      }
    %logits = stablehlo.dot_general %loop#1, %out, contracting_dims = [1] x [0] : (tensor<1024x2048xbf16>, tensor<2048x512xbf16>) -> tensor<1024x512xf32>
    %top = stablehlo.reduce(%logits init: %lowest) applies stablehlo.maximum across dimensions = [1] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<1024xf32>
    %wide = stablehlo.broadcast_in_dim %top, dims = [0] : (tensor<1024xf32>) -> tensor<1024x512xf32>
    %shifted = stablehlo.subtract %logits, %wide : tensor<1024x512xf32>
    %result = stablehlo.exponential %shifted : tensor<1024x512xf32>
    return %result : tensor<1024x512xf32>
  }
}
