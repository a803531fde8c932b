//! stablehlo
