#include "base/transposed.h"

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/weight.h"

namespace onnx_native {
namespace {

using Ints = std::vector<int64_t>;

Ints swapped(Ints sizes) {
  std::swap(sizes.end()[-1], sizes.end()[-2]);
  return sizes;
}

Ints row_major_strides(const Ints& shape) {
  Ints strides(shape.size(), 1);
  for (size_t i = shape.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// Returns a copy whose elements are in memory, unscaled.
TensorData copied(const TensorData& data) {
  std::vector<std::byte> bytes;
  bytes.reserve(static_cast<size_t>(data.nbytes()));
  data.stream([&bytes](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  return make_tensor(data.dtype, data.shape, std::move(bytes));
}

}  // namespace

TensorData transposed_view(const TensorData& data) {
  TensorData view = data;
  view.shape = swapped(data.shape);
  view.strides = swapped(data.strides.empty() ? row_major_strides(data.shape) : data.strides);
  if (view.strides == row_major_strides(view.shape)) view.strides.clear();
  return view;
}

TensorData transposed_constant(const TensorData& data) {
  if (const Derivation* conversion = conversion_of(data)) {
    Derivation turned = *conversion;
    turned.sources = {transposed_constant(conversion->sources.at(0))};
    return on_demand(data.dtype, swapped(data.shape), std::move(turned));
  }
  Derivation derivation{{data}, [](std::span<const TensorData> now) -> std::optional<TensorData> {
                          return transposed_view(now[0].scale ? copied(now[0]) : now[0]);
                        }};
  if (data.scale || is_on_demand(data))
    return on_demand(data.dtype, swapped(data.shape), std::move(derivation));
  TensorData view = transposed_view(data);
  if (!weight_of(view)) derive(view, std::move(derivation));
  return view;
}

}  // namespace onnx_native
