#include "base/quantization.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "base/device_weight.h"
#include "base/error.h"
#include "base/half.h"
#include "base/packed.h"
#include "base/weight.h"

namespace onnx_native {
namespace {

using Sink = Derivation::Sink;

constexpr int64_t kSmallestBlock = 16;
constexpr size_t kCodeBytes = size_t{1} << 16;

void to_floats(std::span<const std::byte> elements, DType dtype, float* to) {
  if (dtype == DType::f32) {
    std::memcpy(to, elements.data(), elements.size());
    return;
  }
  const auto convert = [&](const auto& to_float) {
    for (size_t i = 0; i < elements.size() / sizeof(uint16_t); ++i) {
      uint16_t bits;
      std::memcpy(&bits, &elements[i * sizeof bits], sizeof bits);
      to[i] = to_float(bits);
    }
  };
  dtype == DType::f16 ? convert(f16_to_float) : convert(bf16_to_float);
}

// Calls `visit` with consecutive groups of `count` elements; the last group may have fewer.
void for_each_group(const TensorData& matrix, int64_t count,
                    const std::function<void(std::span<const float>)>& visit) {
  const auto item = static_cast<size_t>(item_size(matrix.dtype));
  const auto size = static_cast<size_t>(count);
  std::vector<float> group(size);
  std::vector<std::byte> rest;  // of a piece that ends within an element
  size_t filled = 0;
  const auto take = [&](std::span<const std::byte> piece) {
    while (piece.size() >= item) {
      const size_t taken = std::min(piece.size() / item, size - filled);
      to_floats(piece.first(taken * item), matrix.dtype, &group[filled]);
      piece = piece.subspan(taken * item);
      filled += taken;
      if (filled < size) continue;
      visit(group);
      filled = 0;
    }
    rest.assign(piece.begin(), piece.end());
  };
  stream_current(matrix, [&](std::span<const std::byte> piece) {
    while (!rest.empty() && !piece.empty()) {
      rest.push_back(piece[0]);
      piece = piece.subspan(1);
      if (rest.size() == item) take(std::exchange(rest, {}));
    }
    if (!piece.empty()) take(piece);
  });
  if (filled > 0) visit(std::span(group).first(filled));
}

struct Range {
  float lowest = std::numeric_limits<float>::max();
  float highest = std::numeric_limits<float>::lowest();
};

struct Block {
  float scale = 0;
  float reciprocal = 0;  // of the scale
  int zero_point = 0;
};

// How a matrix is quantized. ONNX Runtime's two quantizers round products with a different sign or
// order, which matters for ties only; all of this follows MlasQuantizeBlockwise and
// MlasQDQQuantizeBlockwise.
class Rounding {
 public:
  Rounding(const WeightQuantization& settings, DType scales, bool is_packed_form, std::string name)
      : settings_(settings),
        scales_(scales),
        is_packed_form_(is_packed_form),
        name_(std::move(name)) {}

  int64_t block_size() const { return settings_.block_size; }
  int64_t bits() const { return settings_.bits; }
  int middle() const { return is_signed() ? 0 : 1 << (settings_.bits - 1); }

  // Adds one element per range.
  void extend(std::span<Range> ranges, const float* elements) const {
    bool is_finite = true;
    for (size_t i = 0; i < ranges.size(); ++i) {
      const float element = elements[i];
      is_finite &= std::fabs(element) <= std::numeric_limits<float>::max();
      ranges[i].lowest = std::min(ranges[i].lowest, element);
      ranges[i].highest = std::max(ranges[i].highest, element);
    }
    if (!is_finite) fail_infinite();
  }
  Range range_of(std::span<const float> elements) const {
    std::array<float, kLanes> lowest, highest, zero{};
    lowest.fill(Range().lowest);
    highest.fill(Range().highest);
    for_each_lanes(elements, elements[0], [&](const std::array<float, kLanes>& lanes, size_t) {
      for (size_t i = 0; i < kLanes; ++i) {
        lowest[i] = std::min(lowest[i], lanes[i]);
        highest[i] = std::max(highest[i], lanes[i]);
        zero[i] += lanes[i] * 0.0F;  // NaN, unless the element is finite
      }
    });
    Range range;
    bool is_finite = true;
    for (size_t i = 0; i < kLanes; ++i) {
      range.lowest = std::min(range.lowest, lowest[i]);
      range.highest = std::max(range.highest, highest[i]);
      is_finite &= zero[i] == 0;
    }
    if (!is_finite) fail_infinite();
    return range;
  }

  Block block_of(const Range& range) const {
    Block block{.zero_point = middle()};
    const auto most = static_cast<float>((1 << settings_.bits) - 1);
    if (settings_.symmetric) {
      const float furthest =
          std::fabs(range.highest) > std::fabs(range.lowest) ? range.highest : range.lowest;
      block.scale = -furthest / static_cast<float>(1 << (settings_.bits - 1));
    } else {
      const float lowest = std::min(range.lowest, 0.0F), highest = std::max(range.highest, 0.0F);
      block.scale = (highest - lowest) / most;
      const float zero = block.scale == 0 ? lowest : 0.0F - lowest / block.scale;
      block.zero_point = static_cast<int>(std::round(std::clamp(zero, 0.0F, most)));
    }
    if (scales_ == DType::f16) block.scale = f16_to_float(float_to_f16(block.scale));
    if (!std::isfinite(block.scale)) fail_infinite();
    // Of scales below 2.9e-39, the reciprocal is infinite.
    const float reciprocal = block.scale == 0 ? 0.0F : 1.0F / block.scale;
    block.reciprocal = std::isfinite(reciprocal) ? reciprocal : 0.0F;
    return block;
  }

  // Rounds the elements of one block.
  void quantize(std::span<const float> elements, const Block& block, uint8_t* codes) const {
    const Limits limits = limits_of(block);
    for_each_lanes(elements, 0.0F, [&](const std::array<float, kLanes>& lanes, size_t start) {
      std::array<uint8_t, kLanes> rounded;
      for (size_t i = 0; i < kLanes; ++i) rounded[i] = code_of(lanes[i], block, limits);
      std::copy_n(rounded.data(), std::min(kLanes, elements.size() - start), &codes[start]);
    });
  }
  // Rounds elements of one block each.
  void quantize(std::span<const float> elements, std::span<const Block> blocks,
                uint8_t* codes) const {
    for (size_t i = 0; i < elements.size(); ++i)
      codes[i] = code_of(elements[i], blocks[i], limits_of(blocks[i]));
  }

  void append_scale(float scale, std::vector<std::byte>& to) const {
    const auto append = [&to](auto bits) {
      const auto* bytes = reinterpret_cast<const std::byte*>(&bits);
      to.insert(to.end(), bytes, bytes + sizeof bits);
    };
    if (scales_ == DType::f32) return append(scale);
    append(scales_ == DType::f16 ? float_to_f16(scale) : float_to_bf16(scale));
  }

 private:
  static constexpr size_t kLanes = 16;

  // Calls `visit` with 16 elements at a time, which compilers make vectors of, and the index of the
  // first one. The last ones are filled up.
  template <class Visit>
  static void for_each_lanes(std::span<const float> elements, float filler, const Visit& visit) {
    std::array<float, kLanes> lanes;
    for (size_t start = 0; start < elements.size(); start += kLanes) {
      const size_t count = std::min(kLanes, elements.size() - start);
      if (count < kLanes) lanes.fill(filler);
      std::copy_n(&elements[start], count, lanes.data());
      visit(lanes, start);
    }
  }

  // Holds what is added to a product before and after rounding, and the range of the codes.
  struct Limits {
    float before;
    int after, lowest, highest;
  };
  Limits limits_of(const Block& block) const {
    const int lowest = is_signed() ? -(1 << (settings_.bits - 1)) : 0;
    return {static_cast<float>(is_packed_form_ ? block.zero_point : 0),
            is_packed_form_ ? 0 : block.zero_point, lowest, lowest + (1 << settings_.bits) - 1};
  }
  // Rounds half away from zero, as roundf does.
  static uint8_t code_of(float element, const Block& block, const Limits& limits) {
    // Within some hundreds: the scale is that of the largest element.
    const float number = element * block.reciprocal + limits.before;
    const int whole = static_cast<int>(number);
    const float part = number - static_cast<float>(whole);
    int code = whole + limits.after;
    code += part >= 0.5F ? 1 : 0;
    code -= part <= -0.5F ? 1 : 0;
    code = code < limits.lowest ? limits.lowest : code;  // std::max would keep loops scalar
    code = code > limits.highest ? limits.highest : code;
    return static_cast<uint8_t>(code);
  }
  bool is_signed() const { return !is_packed_form_ && settings_.symmetric; }

  [[noreturn]] void fail_infinite() const {
    fail(ErrorKind::invalid_argument, name_,
         " has elements that are not finite, which cannot be quantized; leave it out");
  }

  WeightQuantization settings_;
  DType scales_;
  bool is_packed_form_;
  std::string name_;
};

// Passes on bytes, or codes of 4 bits, in large pieces.
class Pieces {
 public:
  Pieces(int64_t bits, const Sink& sink) : is_packed_(bits == 4), sink_(sink) {}

  void add(std::span<const uint8_t> codes) {
    if (is_packed_ && !is_odd_ && codes.size() % 2 == 0) {
      const size_t start = bytes.size();
      bytes.resize(start + codes.size() / 2);
      std::byte* to = &bytes[start];
      for (size_t i = 0; i < codes.size() / 2; ++i)
        to[i] = std::byte((codes[2 * i] & 0xF) | (codes[2 * i + 1] << 4));
    } else {
      for (const uint8_t code : codes) add(code);
    }
  }
  void add(uint8_t code) {
    if (!is_packed_) {
      bytes.push_back(std::byte{code});
    } else if (std::exchange(is_odd_, !is_odd_)) {
      bytes.back() |= std::byte{code} << 4;
    } else {
      bytes.push_back(std::byte{code} & std::byte{0xF});
    }
  }
  // Ends a byte; the missing half is `code`.
  void align(uint8_t code) {
    if (is_odd_) add(code);
  }
  void flush(size_t above) {
    if (bytes.size() <= above || is_odd_) return;
    sink_(bytes);
    bytes.clear();
  }
  void finish() {
    is_odd_ = false;
    flush(0);
  }

  std::vector<std::byte> bytes;

 private:
  bool is_packed_;
  const Sink& sink_;
  bool is_odd_ = false;
};

void stream_packed(const TensorData& matrix, const Rounding& rounding, BlockPart part,
                   const Sink& sink) {
  const auto size = static_cast<size_t>(rounding.block_size());
  Pieces pieces(rounding.bits(), sink);
  std::vector<uint8_t> codes(size);
  for_each_group(matrix, matrix.shape[1], [&](std::span<const float> row) {
    for (size_t start = 0; start < row.size(); start += size) {
      const auto elements = row.subspan(start, std::min(size, row.size() - start));
      const Block block = rounding.block_of(rounding.range_of(elements));
      if (part == BlockPart::scales) {
        rounding.append_scale(block.scale, pieces.bytes);
      } else if (part == BlockPart::zero_points) {
        pieces.add(static_cast<uint8_t>(block.zero_point));
      } else {
        std::fill(codes.begin(), codes.end(), uint8_t{0});
        rounding.quantize(elements, block, codes.data());
        pieces.add(codes);
      }
    }
    pieces.align(static_cast<uint8_t>(rounding.middle()));
    pieces.flush(kCodeBytes);
  });
  pieces.finish();
}

void stream_columns(const TensorData& matrix, const Rounding& rounding, BlockPart part,
                    const Sink& sink) {
  const auto columns = static_cast<size_t>(matrix.shape[1]);
  Pieces pieces(rounding.bits(), sink);
  std::vector<Range> ranges(columns);
  std::vector<Block> blocks(columns);
  std::vector<uint8_t> codes(columns);
  const int64_t count = matrix.shape[1] * std::min(rounding.block_size(), matrix.shape[0]);
  for_each_group(matrix, count, [&](std::span<const float> elements) {
    std::ranges::fill(ranges, Range());
    for (size_t i = 0; i < elements.size(); i += columns) rounding.extend(ranges, &elements[i]);
    std::ranges::transform(ranges, blocks.begin(),
                           [&](const Range& range) { return rounding.block_of(range); });
    for (const Block& block : blocks) {
      if (part == BlockPart::scales) rounding.append_scale(block.scale, pieces.bytes);
      if (part == BlockPart::zero_points) pieces.add(static_cast<uint8_t>(block.zero_point));
    }
    for (size_t i = 0; part == BlockPart::codes && i < elements.size(); i += columns) {
      rounding.quantize(elements.subspan(i, columns), blocks, codes.data());
      pieces.add(codes);
    }
    pieces.flush(kCodeBytes);
  });
  pieces.finish();
}

using Stream = void (*)(const TensorData&, const Rounding&, BlockPart, const Sink&);

TensorData streamed(const TensorData& matrix, Stream stream, const Rounding& rounding,
                    BlockPart part, DType dtype, const std::vector<int64_t>& shape) {
  Derivation derivation{.sources = {matrix}};
  derivation.stream = [=](const TensorData& source, const Sink& sink) {
    stream(source, rounding, part, sink);
  };
  derivation.compute = [=](std::span<const TensorData> now) -> std::optional<TensorData> {
    std::vector<std::byte> bytes;
    stream(now[0], rounding, part, [&bytes](std::span<const std::byte> piece) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    });
    return make_tensor(dtype, shape, std::move(bytes));
  };
  return on_demand(dtype, shape, std::move(derivation));
}

int64_t blocks_in(int64_t size, const WeightQuantization& settings) {
  return (size + settings.block_size - 1) / settings.block_size;
}

}  // namespace

int64_t parse_weight_bits(std::string_view text) {
  if (text == "none") return 0;
  if (text == "int4") return 4;
  if (text == "int8") return 8;
  fail(ErrorKind::invalid_argument, "weights cannot be quantized to '", text,
       "': choose one of 'none', 'int4', 'int8'");
}

void check_settings(const WeightQuantization& settings) {
  const int64_t size = settings.block_size;
  if (size < kSmallestBlock || (size & (size - 1)) != 0)
    fail(ErrorKind::invalid_argument, "a block of quantized weights cannot have ", size,
         " elements; choose a power of two, 16 or more");
  if (settings.accuracy_level < 0 || settings.accuracy_level > 4)
    fail(ErrorKind::invalid_argument, "there is no accuracy level ", settings.accuracy_level,
         "; choose 0 to 4");
}

TensorData packed_blocks(const TensorData& matrix, const WeightQuantization& settings,
                         BlockPart part, DType scales, const std::string& name) {
  const Rounding rounding(settings, scales, true, name);
  const int64_t rows = matrix.shape[0], blocks = blocks_in(matrix.shape[1], settings);
  const bool is_scale = part == BlockPart::scales;
  std::vector<int64_t> shape{rows, blocks};
  if (part == BlockPart::codes) shape.push_back(settings.block_size * settings.bits / 8);
  if (part == BlockPart::zero_points) shape[1] = (blocks * settings.bits + 7) / 8;
  return streamed(matrix, stream_packed, rounding, part, is_scale ? scales : DType::u8, shape);
}

TensorData column_blocks(const TensorData& matrix, const WeightQuantization& settings,
                         BlockPart part, DType scales, const std::string& name) {
  const Rounding rounding(settings, scales, false, name);
  DType dtype = settings.bits == 4 ? kUint4 : DType::u8;
  if (settings.symmetric) dtype = settings.bits == 4 ? kInt4 : DType::i8;
  if (part == BlockPart::scales) dtype = scales;
  std::vector<int64_t> shape = matrix.shape;
  if (part != BlockPart::codes) shape[0] = blocks_in(shape[0], settings);
  return streamed(matrix, stream_columns, rounding, part, dtype, shape);
}

}  // namespace onnx_native
