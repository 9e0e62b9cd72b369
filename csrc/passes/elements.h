// Elements of small constants in the widest type of their kind, and arithmetic with them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/tensor_data.h"

namespace onnx_native::passes {

// Only the list of the dtype's kind is filled.
struct Elements {
  DType dtype = DType::undefined;
  std::vector<int64_t> shape;
  std::vector<double> floats;
  std::vector<int64_t> integers;  // and booleans

  bool floating() const { return is_floating(dtype); }
  int64_t size() const;
};

// Returns true for dtypes whose elements can be read and written.
bool has_elements(DType dtype);
Elements read_elements(const TensorData& data);
TensorData write_elements(Elements elements);

// Returns the number of elements of a shape, saturated at INT64_MAX.
int64_t count_elements(const std::vector<int64_t>& shape);
std::vector<int64_t> strides_of(const std::vector<int64_t>& shape);
// Returns the memory offsets of a strided tensor in row-major order.
std::vector<int64_t> strided_indices(const std::vector<int64_t>& shape,
                                     const std::vector<int64_t>& strides, int64_t start = 0);
// Returns the elements at `indices`, in a new shape.
Elements pick(const Elements& from, const std::vector<int64_t>& indices,
              std::vector<int64_t> shape);

std::optional<std::vector<int64_t>> broadcast_shape(const std::vector<int64_t>& a,
                                                    const std::vector<int64_t>& b);
Elements expanded(const Elements& from, const std::vector<int64_t>& shape);

// Applies an arithmetic operator or a comparison to broadcast operands. Returns nullopt if there is
// no such operator, or if ONNX does not define a result.
std::optional<Elements> binary(std::string_view op_type, const Elements& x, const Elements& y);

}  // namespace onnx_native::passes
