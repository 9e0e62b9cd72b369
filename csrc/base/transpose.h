// Reads a matrix in memory in the order of its transpose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace onnx_native {

// Calls `sink` with consecutive pieces of a matrix in row-major order, where the elements of a
// column are adjacent in memory and those of a row are `step` elements apart. Copies blocks that
// fit the caches; needs memory for some rows only. `item_size` is 1, 2, 4 or 8 bytes.
void stream_transposed(const std::byte* from, int64_t rows, int64_t columns, int64_t step,
                       int64_t item_size,
                       const std::function<void(std::span<const std::byte>)>& sink);

}  // namespace onnx_native
