// Interpolations as products with constant matrices.
#pragma once

#include "onnx/builder.h"
#include "onnx/graph.h"

namespace onnx_native::passes {

// Returns true for a Resize by cubic polynomials between the centers of pixels.
bool is_cubic_between_centers(const onnx::Node& node);

// Computes a linear or cubic Resize of images of known sizes as a product with one matrix for each
// axis; returns nothing for another.
Values interpolation_products(Builder& b, const onnx::Node& node);

}  // namespace onnx_native::passes
