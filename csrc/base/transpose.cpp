#include "base/transpose.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.h"

namespace onnx_native {
namespace {

// A piece has about kPieceBytes, but at least kLeastRun adjacent bytes of each column, so that
// memory is read by whole cache lines.
constexpr int64_t kPieceBytes = int64_t{1} << 16;
constexpr int64_t kLeastRun = 256;
constexpr int64_t kLineBytes = 64;

// A vector register.
template <class T>
struct Lanes {
  T values __attribute__((vector_size(16)));
};

template <class T>
constexpr size_t kLanes = 16 / sizeof(T);

// Returns the lower or upper halves of `a` and `b`, element by element in turn.
template <class T, bool upper, size_t... i>
Lanes<T> interleave(Lanes<T> a, Lanes<T> b, std::index_sequence<i...>) {
  constexpr size_t kCount = sizeof...(i), kFirst = upper ? kCount / 2 : 0;
  return {__builtin_shufflevector(a.values, b.values, (kFirst + i / 2 + i % 2 * kCount)...)};
}

// One round of the perfect shuffle; as many rounds as the logarithm of the lanes transpose a
// square.
template <class T, size_t... i>
void shuffle(std::array<Lanes<T>, kLanes<T>>& x, std::index_sequence<i...> lanes) {
  constexpr size_t kHalf = kLanes<T> / 2;
  x = {(i % 2 == 0 ? interleave<T, false>(x[i / 2], x[i / 2 + kHalf], lanes)
                   : interleave<T, true>(x[i / 2], x[i / 2 + kHalf], lanes))...};
}

// Transposes a square of kLanes x kLanes elements; strides in elements.
template <class T, size_t... i>
void transpose_square(const T* from, int64_t step, T* to, int64_t to_step,
                      std::index_sequence<i...> lanes) {
  std::array<Lanes<T>, kLanes<T>> x;
  (std::memcpy(&x[i], from + static_cast<int64_t>(i) * step, 16), ...);
  if constexpr (kLanes<T> >= 2) shuffle<T>(x, lanes);
  if constexpr (kLanes<T> >= 4) shuffle<T>(x, lanes);
  if constexpr (kLanes<T> >= 8) shuffle<T>(x, lanes);
  if constexpr (kLanes<T> >= 16) shuffle<T>(x, lanes);
  (std::memcpy(to + static_cast<int64_t>(i) * to_step, &x[i], 16), ...);
}

// to[r * columns + c] = from[c * step + r] for the rows and columns of one block.
template <class T>
void transpose_block(const T* from, int64_t step, T* to, int64_t columns, int64_t block_rows,
                     int64_t block_columns) {
  constexpr auto kSide = static_cast<int64_t>(kLanes<T>);
  const int64_t whole_rows = block_rows / kSide * kSide;
  const int64_t whole_columns = block_columns / kSide * kSide;
  for (int64_t r = 0; r < whole_rows; r += kSide) {
    for (int64_t c = 0; c < whole_columns; c += kSide) {
      transpose_square(from + c * step + r, step, to + r * columns + c, columns,
                       std::make_index_sequence<kLanes<T>>());
    }
  }
  for (int64_t r = 0; r < block_rows; ++r) {
    const int64_t first = r < whole_rows ? whole_columns : 0;
    for (int64_t c = first; c < block_columns; ++c) to[r * columns + c] = from[c * step + r];
  }
}

template <class T>
void stream(const T* from, int64_t rows, int64_t columns, int64_t step,
            const std::function<void(std::span<const std::byte>)>& sink) {
  constexpr int64_t kSize = sizeof(T), kLine = kLineBytes / kSize;
  const int64_t panel =
      std::min(rows, std::max(kPieceBytes / (columns * kSize), kLeastRun / kSize));
  const auto buffer = std::make_unique_for_overwrite<T[]>(static_cast<size_t>(panel * columns));
  for (int64_t top = 0; top < rows; top += panel) {
    const int64_t height = std::min(panel, rows - top);
    for (int64_t c = 0; c < columns; c += kLine) {
      for (int64_t r = 0; r < height; r += kLine) {
        transpose_block(from + c * step + top + r, step,
                        &buffer[static_cast<size_t>(r * columns + c)], columns,
                        std::min(kLine, height - r), std::min(kLine, columns - c));
      }
    }
    sink(std::as_bytes(std::span(buffer.get(), static_cast<size_t>(height * columns))));
  }
}

}  // namespace

void stream_transposed(const std::byte* from, int64_t rows, int64_t columns, int64_t step,
                       int64_t item_size,
                       const std::function<void(std::span<const std::byte>)>& sink) {
  if (rows == 0 || columns == 0) return;
  switch (item_size) {
    case 1:
      return stream(reinterpret_cast<const uint8_t*>(from), rows, columns, step, sink);
    case 2:
      return stream(reinterpret_cast<const uint16_t*>(from), rows, columns, step, sink);
    case 4:
      return stream(reinterpret_cast<const uint32_t*>(from), rows, columns, step, sink);
    case 8:
      return stream(reinterpret_cast<const uint64_t*>(from), rows, columns, step, sink);
    default:
      fail(ErrorKind::internal, "elements of ", item_size, " bytes cannot be transposed");
  }
}

}  // namespace onnx_native
