// Folds of MatMul, Gemm and Conv. Sums of floats are computed in float64 and rounded once, so they
// are at least as near to the exact result as those of any kernel. Sums of float64 depend on the
// kernel and stay.
#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "passes/folds.h"

namespace onnx_native::passes {
namespace {

using onnx::Node;
using Ints = std::vector<int64_t>;
using Result = std::optional<Elements>;

constexpr int64_t kMostProducts = 64;  // per element that a result may have

bool has_order(const Elements& x) { return x.dtype == DType::f64; }

int64_t product_of(const Ints& numbers, size_t from = 0) {
  return count_elements(Ints(numbers.begin() + static_cast<int64_t>(from), numbers.end()));
}

// Returns false if a result of so many elements, each a sum of `depth` products, takes long.
bool is_cheap(int64_t size, int64_t depth, int64_t limit) {
  int64_t products = 0;
  return size <= limit && !__builtin_mul_overflow(size, depth, &products) &&
         products / kMostProducts <= limit;
}

// The elements of a stack of matrices.
struct Matrices {
  const Elements& from;
  int64_t row_stride, column_stride;
};

// Appends the product of two matrices that start at these elements.
void append_product(const Matrices& x, int64_t start_x, const Matrices& y, int64_t start_y,
                    const Ints& sizes, Elements& result) {
  const auto append = [&](const auto& a, const auto& b, auto& to, auto zero) {
    for (int64_t row = 0; row < sizes[0]; ++row) {
      for (int64_t column = 0; column < sizes[1]; ++column) {
        auto sum = zero;
        for (int64_t i = 0; i < sizes[2]; ++i) {
          using Number = decltype(zero);
          const auto at_x = static_cast<size_t>(start_x + row * x.row_stride + i * x.column_stride);
          const auto at_y =
              static_cast<size_t>(start_y + i * y.row_stride + column * y.column_stride);
          sum += static_cast<Number>(a[at_x]) * static_cast<Number>(b[at_y]);
        }
        to.push_back(static_cast<typename std::decay_t<decltype(to)>::value_type>(sum));
      }
    }
  };
  if (result.floating()) {
    append(x.from.floats, y.from.floats, result.floats, 0.0);
  } else {
    append(x.from.integers, y.from.integers, result.integers, uint64_t{0});  // wraps
  }
}

// Returns the first element of each matrix of a stack that is broadcast to this shape.
Ints starts_of(const Elements& stack, const Ints& shape) {
  Ints strides(shape.size(), 0);
  const Ints own = strides_of(stack.shape);
  const size_t count = stack.shape.size() - 2;
  const size_t lead = shape.size() - count;
  for (size_t i = 0; i < count; ++i) strides[lead + i] = stack.shape[i] == 1 ? 0 : own[i];
  return strided_indices(shape, strides);
}

Result fold_matmul(const Node&, const FoldInputs& inputs, int64_t limit) {
  Elements x = *inputs[0];
  Elements y = *inputs[1];
  if (x.dtype != y.dtype || x.shape.empty() || y.shape.empty()) return std::nullopt;
  const bool is_row = x.shape.size() == 1;
  const bool is_column = y.shape.size() == 1;
  if (is_row) x.shape.insert(x.shape.begin(), 1);
  if (is_column) y.shape.push_back(1);
  const Ints sizes{*(x.shape.end() - 2), y.shape.back(), x.shape.back()};
  if (*(y.shape.end() - 2) != sizes[2] || (has_order(x) && sizes[2] > 0)) return std::nullopt;
  const auto batch = broadcast_shape(Ints(x.shape.begin(), x.shape.end() - 2),
                                     Ints(y.shape.begin(), y.shape.end() - 2));
  if (!batch) return std::nullopt;
  Elements result{x.dtype, *batch, {}, {}};
  result.shape.insert(result.shape.end(), {sizes[0], sizes[1]});
  if (!is_cheap(result.size(), sizes[2], limit)) return std::nullopt;
  const Ints starts_x = starts_of(x, *batch);
  const Ints starts_y = starts_of(y, *batch);
  for (size_t i = 0; i < starts_x.size(); ++i)
    append_product({x, sizes[2], 1}, starts_x[i], {y, sizes[1], 1}, starts_y[i], sizes, result);
  if (is_row) result.shape.erase(result.shape.end() - 2);
  if (is_column) result.shape.pop_back();
  return result;
}

Result fold_gemm(const Node& node, const FoldInputs& inputs, int64_t limit) {
  const Elements& x = *inputs[0];
  const Elements& y = *inputs[1];
  if (!x.floating() || has_order(x) || x.shape.size() != 2 || y.shape.size() != 2)
    return std::nullopt;
  const bool turns_x = node.attribute_int("transA", 0) != 0;
  const bool turns_y = node.attribute_int("transB", 0) != 0;
  const Ints sizes{x.shape[turns_x ? 1 : 0], y.shape[turns_y ? 0 : 1], x.shape[turns_x ? 0 : 1]};
  if (y.shape[turns_y ? 1 : 0] != sizes[2]) return std::nullopt;
  Elements result{x.dtype, {sizes[0], sizes[1]}, {}, {}};
  if (!is_cheap(result.size(), sizes[2], limit)) return std::nullopt;
  const auto matrix = [](const Elements& from, bool turns) {
    return turns ? Matrices{from, 1, from.shape[1]} : Matrices{from, from.shape[1], 1};
  };
  append_product(matrix(x, turns_x), 0, matrix(y, turns_y), 0, sizes, result);
  const double alpha = node.attribute_float("alpha", 1);
  for (double& value : result.floats) value *= alpha;
  if (inputs.size() < 3 || !inputs[2]) return result;
  if (broadcast_shape(inputs[2]->shape, result.shape) != result.shape) return std::nullopt;
  const Elements added = expanded(*inputs[2], result.shape);
  const double beta = node.attribute_float("beta", 1);
  for (size_t i = 0; i < result.floats.size(); ++i) result.floats[i] += beta * added.floats[i];
  return result;
}

// The elements of an image under each tap of a kernel, at each place of it: their offsets in one
// channel; -1 in the padding.
class Taps {
 public:
  // Sizes of one axis: of the image, the kernel and the result; then how the kernel moves.
  struct Axis {
    int64_t image, kernel, result, stride, dilation, padding;
  };
  explicit Taps(const std::vector<Axis>& axes) {
    places_ = taps_ = 1;
    offsets_ = {0};
    for (const Axis& axis : axes) add(axis);
  }
  int64_t places() const { return places_; }
  int64_t taps() const { return taps_; }
  int64_t offset(int64_t place, int64_t tap) const {
    return offsets_[static_cast<size_t>(place * taps_ + tap)];
  }

 private:
  void add(const Axis& axis) {
    Ints offsets;
    for (int64_t place = 0; place < places_ * axis.result; ++place) {
      for (int64_t tap = 0; tap < taps_ * axis.kernel; ++tap) {
        const int64_t before = offset(place / axis.result, tap / axis.kernel);
        const int64_t at =
            place % axis.result * axis.stride + tap % axis.kernel * axis.dilation - axis.padding;
        const bool is_inside = before >= 0 && at >= 0 && at < axis.image;
        offsets.push_back(is_inside ? before * axis.image + at : -1);
      }
    }
    places_ *= axis.result;
    taps_ *= axis.kernel;
    offsets_ = std::move(offsets);
  }

  int64_t places_, taps_;
  Ints offsets_;
};

std::optional<std::vector<Taps::Axis>> axes_of(const Node& node, const Elements& x,
                                               const Elements& weight) {
  const auto& shape = node.outputs[0]->shape;
  const auto sizes = shape ? constant_shape(*shape) : std::nullopt;
  const size_t rank = x.shape.size();
  if (!sizes || sizes->size() != rank || weight.shape.size() != rank || rank < 3)
    return std::nullopt;
  const Ints ones(rank - 2, 1);
  const Ints strides = node.attribute_ints("strides").value_or(ones);
  const Ints dilations = node.attribute_ints("dilations").value_or(ones);
  const Ints pads = node.attribute_ints("pads").value_or(Ints(2 * (rank - 2), 0));
  if (strides.size() != rank - 2 || dilations.size() != rank - 2 || pads.size() != 2 * (rank - 2))
    return std::nullopt;
  std::vector<Taps::Axis> axes;
  for (size_t i = 0; i < rank - 2; ++i)
    axes.push_back(
        {x.shape[i + 2], weight.shape[i + 2], (*sizes)[i + 2], strides[i], dilations[i], pads[i]});
  return axes;
}

Result fold_conv(const Node& node, const FoldInputs& inputs, int64_t limit) {
  const Elements& x = *inputs[0];
  const Elements& weight = *inputs[1];
  const auto axes = axes_of(node, x, weight);
  const int64_t groups = node.attribute_int("group", 1);
  if (!axes || has_order(x) || node.attribute_string("auto_pad", "NOTSET") != "NOTSET")
    return std::nullopt;
  const int64_t channels = weight.shape[1];  // of a group
  const int64_t results = weight.shape[0];
  if (groups < 1 || x.shape[1] != channels * groups || results % groups != 0) return std::nullopt;
  Elements result{x.dtype, {x.shape[0], results}, {}, {}};
  for (const Taps::Axis& axis : *axes) result.shape.push_back(axis.result);
  if (result.size() == 0 || !is_cheap(result.size(), product_of(weight.shape, 1), limit))
    return std::nullopt;
  const Taps taps(*axes);
  const int64_t pixels = product_of(x.shape, 2);
  for (int64_t image = 0; image < x.shape[0]; ++image) {
    for (int64_t channel = 0; channel < results; ++channel) {
      const int64_t first = image * x.shape[1] + channel / (results / groups) * channels;
      const auto bias =
          inputs.size() > 2 && inputs[2] ? inputs[2]->floats.at(static_cast<size_t>(channel)) : 0.0;
      for (int64_t place = 0; place < taps.places(); ++place) {
        double sum = bias;
        for (int64_t i = 0; i < channels; ++i) {
          for (int64_t tap = 0; tap < taps.taps(); ++tap) {
            const int64_t offset = taps.offset(place, tap);
            if (offset < 0) continue;
            sum += x.floats[static_cast<size_t>((first + i) * pixels + offset)] *
                   weight.floats[static_cast<size_t>((channel * channels + i) * taps.taps() + tap)];
          }
        }
        result.floats.push_back(sum);
      }
    }
  }
  return result;
}

}  // namespace

Fold find_product_fold(std::string_view op_type) {
  if (op_type == "MatMul") return fold_matmul;
  if (op_type == "Gemm") return fold_gemm;
  if (op_type == "Conv") return fold_conv;
  return nullptr;
}

}  // namespace onnx_native::passes
