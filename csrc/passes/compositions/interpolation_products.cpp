#include "passes/compositions/interpolation_products.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace onnx_native::passes {
namespace {

using onnx::Node;

constexpr int64_t kRows = 2;            // the axis of an image's rows; the columns follow
constexpr int64_t kLargest = 1 << 20;   // elements of a matrix
constexpr double kCoefficient = -0.75;  // the default of cubic_coeff_a

// Returns the factors of the four elements around a place, for a fraction of the way from the
// second to the third.
std::array<double, 4> factors(const Node& node, double way) {
  if (node.attribute_string("mode", "") == "linear") return {0, 1 - way, way, 0};
  const double a = node.attribute_float("cubic_coeff_a", kCoefficient);
  const auto near = [a](double t) { return ((a + 2) * t - (a + 3)) * t * t + 1; };
  const auto far = [a](double t) { return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a; };
  return {far(1 + way), near(way), near(1 - way), far(2 - way)};
}

// Returns the size of an axis in the input and in the result; {0, 0} if one is not known.
std::array<int64_t, 2> sizes_of(const Node& node, int64_t axis) {
  const auto sizes = constant_shape({node.inputs[0]->dim(axis), node.outputs[0]->dim(axis)});
  return sizes ? std::array{sizes->front(), sizes->back()} : std::array<int64_t, 2>{};
}

// Returns how many times as many elements an axis has in the result.
double scale_of(const Node& node, int64_t axis) {
  const Value scales = node.input(2);
  if (scales && scales->constant->numel() > 0)
    return scales->constant->number(static_cast<size_t>(axis));
  const auto [from, to] = sizes_of(node, axis);
  return static_cast<double>(to) / static_cast<double>(from);
}

// Returns the place in the input of an element of the result.
double place_of(const Node& node, int64_t axis, int64_t i) {
  const auto [from, to] = sizes_of(node, axis);
  const std::string places = node.attribute_string("coordinate_transformation_mode", "half_pixel");
  const auto at = static_cast<double>(i);
  if (places == "asymmetric") return at / scale_of(node, axis);
  if (places == "pytorch_half_pixel" && to == 1) return 0;
  return (at + 0.5) / scale_of(node, axis) - 0.5;
}

// Returns the matrix that interpolates rows from its right side, or columns from its left side.
Value matrix(Builder& b, const Node& node, int64_t axis) {
  const auto [from, to] = sizes_of(node, axis);
  std::vector<double> elements(static_cast<size_t>(from * to), 0.0);
  for (int64_t i = 0; i < to; ++i) {
    const double place = place_of(node, axis, i);
    const double first = std::floor(place);
    const std::array<double, 4> parts = factors(node, place - first);
    for (size_t k = 0; k < parts.size(); ++k) {
      const auto source = static_cast<int64_t>(first) + static_cast<int64_t>(k) - 1;
      const int64_t column = std::clamp<int64_t>(source, 0, from - 1);
      const int64_t at = axis == kRows ? i * from + column : column * to + i;
      elements[static_cast<size_t>(at)] += parts[k];
    }
  }
  const std::vector<int64_t> shape = axis == kRows ? std::vector{to, from} : std::vector{from, to};
  return b.tensor(make_tensor(node.inputs[0]->dtype, shape, elements));
}

// Returns true if the products compute what the node does.
bool has_products(const Node& node) {
  const std::string mode = node.attribute_string("mode", "nearest");
  const std::string places = node.attribute_string("coordinate_transformation_mode", "half_pixel");
  const bool is_known =
      (mode == "linear" || mode == "cubic") &&
      (places == "half_pixel" || places == "pytorch_half_pixel" || places == "asymmetric");
  if (!is_known || node.attribute_int("antialias", 0) != 0 ||
      node.attribute_int("exclude_outside", 0) != 0 || node.attribute("axes") ||
      node.attribute_string("keep_aspect_ratio_policy", "stretch") != "stretch")
    return false;
  const Value x = node.inputs[0], y = node.outputs[0], scales = node.input(2);
  if (x->rank_or(-1) != kRows + 2 || y->rank_or(-1) != kRows + 2) return false;
  if (scales && !scales->is_constant()) return false;
  for (int64_t axis = 0; axis < kRows; ++axis) {
    if (x->dim(axis) != y->dim(axis)) return false;
  }
  return std::ranges::all_of(std::array{kRows, kRows + 1}, [&node](int64_t axis) {
    const auto [from, to] = sizes_of(node, axis);
    return from > 0 && to > 0 && from * to <= kLargest;
  });
}

}  // namespace

bool is_cubic_between_centers(const Node& node) {
  const std::string places = node.attribute_string("coordinate_transformation_mode", "half_pixel");
  return node.is("Resize") && node.attribute_string("mode", "nearest") == "cubic" &&
         (places == "half_pixel" || places == "pytorch_half_pixel");
}

Values interpolation_products(Builder& b, const Node& node) {
  if (!has_products(node)) return {};
  const Value rows = b.op("MatMul", {matrix(b, node, kRows), node.inputs[0]});
  return {b.op("MatMul", {rows, matrix(b, node, kRows + 1)})};
}

}  // namespace onnx_native::passes
