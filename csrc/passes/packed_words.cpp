#include "passes/packed_words.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "base/weight.h"
#include "passes/elements.h"
#include "passes/evaluate.h"

namespace onnx_native::passes {
namespace {

using onnx::Node;
using onnx::Value;
using Ints = std::vector<int64_t>;
using Table = std::vector<Place>;
using Tables = std::vector<Table>;
using Known = std::optional<Dequantization>;

constexpr int64_t kLongestAxis = 1 << 20;  // places of one axis
constexpr int64_t kMostNumbers = 4096;     // elements of shifts and masks
constexpr int64_t kMostAdded = 64;

Place operator+(Place a, Place b) { return {a.element + b.element, a.bit + b.bit}; }
Place operator-(Place a, Place b) { return {a.element - b.element, a.bit - b.bit}; }

std::optional<Ints> sizes_of(const Value& value) {
  return value.shape ? constant_shape(*value.shape) : std::nullopt;
}

Ints sizes_of_axes(const Tables& axes) {
  Ints sizes;
  for (const Table& axis : axes) sizes.push_back(static_cast<int64_t>(axis.size()));
  return sizes;
}

// Returns the table of several axes in row-major order.
std::optional<Table> joined_table(std::span<const Table> axes) {
  Table all{Place{}};
  for (const Table& axis : axes) {
    if (static_cast<int64_t>(all.size() * axis.size()) > kLongestAxis) return std::nullopt;
    Table next;
    for (const Place outer : all) {
      for (const Place inner : axis) next.push_back(outer + inner);
    }
    all = std::move(next);
  }
  return all;
}

// Appends the tables of axes of these sizes. Returns false if the places are no such sums.
bool split_table(Table all, std::span<const int64_t> sizes, Tables& axes) {
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    const size_t rest = all.size() / static_cast<size_t>(sizes[i]);
    Table outer;
    Table inner;
    for (size_t j = 0; j < all.size(); j += rest) outer.push_back(all[j]);
    for (size_t j = 0; j < rest; ++j) inner.push_back(all[j] - all[0]);
    for (size_t j = 0; j < all.size(); ++j) {
      if (all[j] != outer[j / rest] + inner[j % rest]) return false;
    }
    axes.push_back(std::move(outer));
    all = std::move(inner);
  }
  axes.push_back(std::move(all));
  return true;
}

std::optional<Tables> reshaped(const Tables& from, const Ints& shape) {
  Tables axes;
  size_t i = 0;
  size_t j = 0;
  while (i < from.size() || j < shape.size()) {
    const size_t first = i;
    const size_t start = j;
    int64_t before = i < from.size() ? static_cast<int64_t>(from[i++].size()) : 1;
    int64_t after = j < shape.size() ? shape[j++] : 1;
    while (before != after) {
      if (before < after ? i == from.size() : j == shape.size()) return std::nullopt;
      if (before < after) {
        before *= static_cast<int64_t>(from[i++].size());
      } else {
        after *= shape[j++];
      }
    }
    const auto all = joined_table(std::span(from).subspan(first, i - first));
    if (!all) return std::nullopt;
    // Axes of size 1 at the end have no counterpart.
    if (j == start) {
      if (axes.empty()) return std::nullopt;
      for (Place& place : axes.back()) place = place + all->front();
    } else if (!split_table(*all, std::span(shape).subspan(start, j - start), axes)) {
      return std::nullopt;
    }
  }
  return axes;
}

std::optional<Tables> expanded_tables(const Tables& from, const Ints& shape) {
  if (from.size() > shape.size()) return std::nullopt;
  Tables axes;
  const size_t added = shape.size() - from.size();
  for (size_t i = 0; i < shape.size(); ++i) {
    Table axis = i < added ? Table(1) : from[i - added];
    const auto size = static_cast<size_t>(shape[i]);
    if (axis.size() == 1) axis.resize(size, Place(axis[0]));
    if (axis.size() != size) return std::nullopt;
    axes.push_back(std::move(axis));
  }
  return axes;
}

// Returns the elements of a constant, or of an expression of constants, of at most `most` elements.
std::optional<TensorData> small_elements(const Value& value, int64_t most) {
  const auto sizes = sizes_of(value);
  if (!sizes || count_elements(*sizes) > most) return std::nullopt;
  if (value.constant) {
    if (!has_elements(value.constant)) return std::nullopt;
    note_read(*value.constant);
    return current(*value.constant);
  }
  const Node* node = value.producer;
  if (!node) return std::nullopt;
  if (node->is("Cast") && is_integral(value.dtype) && is_integral(node->inputs[0]->dtype)) {
    return small_elements(*node->inputs[0], most);  // the numbers are small
  }
  if (!can_evaluate(*node)) return std::nullopt;
  std::vector<std::optional<TensorData>> inputs;
  std::vector<const TensorData*> addresses;
  for (const Value* input : node->inputs) {
    inputs.push_back(input ? small_elements(*input, most) : std::nullopt);
    if (input && !inputs.back()) return std::nullopt;
  }
  addresses.reserve(inputs.size());
  for (const auto& input : inputs) addresses.push_back(input ? &*input : nullptr);
  return evaluate(*node, addresses, most);
}

// Returns the elements of small integers; nullopt for another value.
std::optional<Ints> small_integers(const Value& value, int64_t most = kMostNumbers) {
  if (!is_integral(value.dtype)) return std::nullopt;
  const auto elements = small_elements(value, most);
  return elements ? std::optional(elements->integers()) : std::nullopt;
}

// Returns the indices that a Gather or GatherND takes along one axis.
std::optional<Ints> indices_of(const Node& node) {
  const Value& indices = *node.inputs[1];
  const bool is_nd = node.is("GatherND");
  const auto shape = sizes_of(indices);
  if (!shape || shape->size() != (is_nd ? 2 : 1)) return std::nullopt;
  if (is_nd && (shape->at(1) != 1 || node.attribute_int("batch_dims", 0) != 0)) return std::nullopt;
  return small_integers(indices, kLongestAxis);
}

std::optional<Tables> gathered(const Tables& from, const Node& node) {
  int64_t axis = node.attribute_int("axis", 0);
  if (axis < 0) axis += static_cast<int64_t>(from.size());
  const auto indices = indices_of(node);
  if (!indices || axis < 0 || axis >= static_cast<int64_t>(from.size())) return std::nullopt;
  Tables axes = from;
  const Table& all = from[static_cast<size_t>(axis)];
  Table& picked = axes[static_cast<size_t>(axis)];
  picked.clear();
  for (int64_t index : *indices) {
    if (index < 0) index += static_cast<int64_t>(all.size());
    if (index < 0 || index >= static_cast<int64_t>(all.size())) return std::nullopt;
    picked.push_back(all[static_cast<size_t>(index)]);
  }
  return axes;
}

std::optional<Tables> transposed_tables(const Tables& from, const Node& node) {
  Ints order(from.size());
  std::iota(order.rbegin(), order.rend(), 0);
  order = node.attribute_ints("perm").value_or(order);
  Tables axes;
  for (const int64_t axis : order) axes.push_back(from.at(static_cast<size_t>(axis)));
  return axes;
}

// Returns the places after an operator that only moves elements.
std::optional<Tables> moved(const Tables& from, const Node& node, const Ints& shape) {
  if (node.is("Transpose")) return transposed_tables(from, node);
  if (node.is("Expand")) return expanded_tables(from, shape);
  if (node.is_any({"Gather", "GatherND"})) return gathered(from, node);
  return reshaped(from, shape);
}

bool is_move(const Node& node) {
  return node.is_any({"Expand", "Flatten", "Gather", "GatherND", "Identity", "Reshape", "Squeeze",
                      "Transpose", "Unsqueeze"});
}

// Changes the places of all parts. Returns nullopt if the change does.
template <class Change>
Known with_axes(Dequantization value, const Change& change) {
  std::vector<Words*> parts{&value.codes};
  if (value.zeros) parts.push_back(&*value.zeros);
  if (value.scales) parts.push_back(&*value.scales);
  for (Words* part : parts) {
    auto axes = change(part->axes);
    if (!axes) return std::nullopt;
    part->axes = std::move(*axes);
  }
  return value;
}

Known broadcast(const Known& value, const Ints& shape) {
  if (!value) return std::nullopt;
  return with_axes(*value, [&](const Tables& axes) { return expanded_tables(axes, shape); });
}

Known constant_words(Value* value) {
  const Ints& shape = value->constant->shape;
  const bool is_number = is_integral(value->dtype) || is_floating(value->dtype);
  if (!is_number || std::ranges::any_of(shape, [](int64_t size) { return size > kLongestAxis; }))
    return std::nullopt;
  Tables axes(shape.size());
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    for (int64_t i = 0; i < shape[axis]; ++i) axes[axis].push_back({i * stride, 0});
    stride *= shape[axis];
  }
  return Dequantization{
      {.source = value, .axes = std::move(axes), .valid = 8 * item_size(value->dtype)}, {}, {}};
}

bool is_plain(const Known& value) { return value && !value->zeros && !value->scales; }

bool is_integer_words(const Known& value) {
  return is_plain(value) && is_integral(value->codes.source->dtype);
}

Known shifted(Known value, const Node& node, const Ints& shape) {
  const Value& by = *node.inputs[1];
  const auto steps = small_integers(by);
  value = broadcast(value, shape);
  if (!steps || steps->empty() || !is_integer_words(value) || value->codes.mask != 0 ||
      node.attribute_string("direction", "") != "RIGHT")
    return std::nullopt;
  Words& words = value->codes;
  const int64_t most = *std::ranges::max_element(*steps);
  if (*std::ranges::min_element(*steps) < 0 || most >= words.valid) return std::nullopt;
  // The steps differ along at most one axis.
  const Ints of_steps = *sizes_of(by);
  for (size_t axis = 0; axis < of_steps.size(); ++axis) {
    if (of_steps[axis] != static_cast<int64_t>(steps->size())) continue;
    Table& table = words.axes[shape.size() - of_steps.size() + axis];
    for (size_t i = 0; i < table.size(); ++i) {
      table[i].bit += (*steps)[steps->size() == 1 ? 0 : i];
    }
    words.valid -= most;
    words.is_cut = true;
    return value;
  }
  if (!of_steps.empty() || shape.empty()) return std::nullopt;
  for (Place& place : words.axes[0]) place.bit += most;
  words.valid -= most;
  words.is_cut = true;
  return value;
}

// Flips the elements, or flips them back. Signs are the same whatever a shift or a Cast does, and
// what broadcasts the elements in between also broadcasts the signs.
Known flipped(Known value, const Value& sign, const Ints& shape) {
  if (!is_integer_words(value) || value->codes.mask != 0) return std::nullopt;
  Words& words = value->codes;
  if (words.flip == &sign) {
    words.flip = nullptr;
    return broadcast(value, shape);
  }
  const bool is_first = !words.flip && sizes_of(sign) == shape;
  if (!is_first || sizes_of_axes(words.axes) != shape) return std::nullopt;
  words.flip = &sign;
  words.is_cut = true;
  return value;
}

// A combination with a constant that leaves the low bits.
Known with_high_bits(Known value, const Value& bits, const Ints& shape) {
  const auto masks = small_integers(bits);
  value = broadcast(value, shape);
  if (!masks || !is_integer_words(value) || value->codes.mask != 0) return std::nullopt;
  for (const int64_t mask : *masks) {
    const int zeros = std::countr_zero(static_cast<uint64_t>(mask));
    value->codes.valid = std::min<int64_t>(value->codes.valid, zeros);
  }
  value->codes.is_cut = true;
  return value;
}

Known masked_words(Known value, const Value& bits) {
  const auto mask = small_integers(bits, 1);
  if (!mask || mask->size() != 1 || !is_integer_words(value)) return std::nullopt;
  const auto low = static_cast<uint64_t>(mask->front());
  Words& words = value->codes;
  const bool is_low = low > 0 && low < 256 && std::has_single_bit(low + 1);
  if (!is_low || words.mask != 0 || words.flip ||
      static_cast<int64_t>(std::bit_width(low)) > words.valid)
    return std::nullopt;
  words.mask = mask->front();
  return value;
}

// The numbers that a dtype holds exactly.
struct Limits {
  int64_t lowest;
  int64_t highest;
};
Limits exact_in(DType dtype) {
  constexpr int64_t kWide = int64_t{1} << 24;  // of f32
  if (dtype == DType::bf16) return {-256, 256};
  if (dtype == DType::f16) return {-2048, 2048};
  if (is_floating(dtype) || item_size(dtype) > 2) return {is_signed(dtype) ? -kWide : 0, kWide};
  return {static_cast<int64_t>(lowest_value(dtype)), static_cast<int64_t>(max_value(dtype))};
}

// Returns true if a dtype holds the elements, which are masked.
bool holds(DType dtype, const Words& words) {
  const Limits exact = exact_in(dtype);
  return exact.lowest <= words.plus && words.mask + words.plus <= exact.highest;
}

// Returns true if a dtype holds all differences. Whatever is not masked must later fit 4 or 8 bits.
bool holds_difference(DType dtype, const Words& codes, const Words& zeros) {
  const bool is_narrow = codes.mask != 0 && codes.mask <= 15;
  const auto bounds = [is_narrow](const Words& words) {
    if (words.mask != 0) return Limits{words.plus, words.plus + words.mask};
    return is_narrow ? Limits{-8, 15} : Limits{-128, 255};
  };
  const Limits exact = exact_in(dtype);
  return exact.lowest <= bounds(codes).lowest - bounds(zeros).highest &&
         bounds(codes).highest - bounds(zeros).lowest <= exact.highest;
}

Known converted(Known value, const Node& node) {
  if (!value) return std::nullopt;
  const DType from = node.inputs[0]->dtype;
  const DType to = node.outputs[0]->dtype;
  const bool to_integer = is_integral(to) && item_size(to) > 0;
  if (is_floating(from)) return from == to ? value : std::nullopt;
  const bool to_float =
      to == DType::f32 || to == DType::f16 || to == DType::bf16 || to == DType::f64;
  if (value->scales || (!to_integer && !to_float)) return std::nullopt;
  if (value->zeros) {
    return holds_difference(to, value->codes, *value->zeros) ? value : std::nullopt;
  }
  Words& words = value->codes;
  if (words.mask != 0) return holds(to, words) ? value : std::nullopt;
  if (to_float && words.is_exact() && item_size(words.source->dtype) == 1) return value;
  if (to_float) return std::nullopt;
  const int64_t bits = 8 * item_size(to);
  words.is_cut |= bits < words.valid || is_signed(from) != is_signed(to);
  words.valid = std::min(words.valid, bits);
  return value;
}

Known increased(Known value, const Value& by, DType dtype) {
  const auto number = small_integers(by, 1);
  if (!number || number->size() != 1 || !is_integer_words(value) || value->codes.mask == 0)
    return std::nullopt;
  if (std::abs(number->front()) > kMostAdded) return std::nullopt;
  value->codes.plus += number->front();
  return holds(dtype, value->codes) ? value : std::nullopt;
}

bool is_exact(const Known& value) { return is_integer_words(value) && value->codes.is_exact(); }

Known difference(const Known& value, const Known& zeros, const Node& node, const Ints& shape) {
  if (!is_exact(value) || !is_exact(zeros) ||
      !holds_difference(node.outputs[0]->dtype, value->codes, zeros->codes))
    return std::nullopt;
  Known result = broadcast(value, shape);
  const Known subtracted = broadcast(zeros, shape);
  if (!result || !subtracted) return std::nullopt;
  result->zeros = subtracted->codes;
  return result;
}

Known scaled_words(const Known& value, const Known& scales, const Ints& shape) {
  if (!value || value->scales || !value->codes.is_exact() ||
      !is_integral(value->codes.source->dtype) || !is_plain(scales) ||
      !is_floating(scales->codes.source->dtype))
    return std::nullopt;
  Known result = broadcast(value, shape);
  const Known factors = broadcast(scales, shape);
  if (!result || !factors) return std::nullopt;
  result->scales = factors->codes;
  return result;
}

// Returns the value that both branches have.
Known either(const Known& a, const Known& b, const Ints& shape) {
  Known one = broadcast(a, shape);
  Known other = broadcast(b, shape);
  if (!is_integer_words(one) || !is_integer_words(other)) return std::nullopt;
  const int64_t valid = std::min(one->codes.valid, other->codes.valid);
  const bool is_cut = one->codes.is_cut || other->codes.is_cut;
  for (Known* each : {&one, &other}) {
    (*each)->codes.valid = valid;
    (*each)->codes.is_cut = is_cut;
  }
  return one->codes == other->codes ? one : std::nullopt;
}

}  // namespace

Place Words::place(int64_t row, int64_t column) const {
  return axes[0][static_cast<size_t>(row)] + axes[1][static_cast<size_t>(column)];
}

Known PackedWords::of(Value* value) {
  const auto known = known_.find(value);
  if (known != known_.end()) return known->second;
  return known_[value] = find(value);
}

Known PackedWords::find(Value* value) {
  if (value->is_constant()) return constant_words(value);
  const Node* node = value->producer;
  const auto shape = sizes_of(*value);
  if (!node || !node->domain.empty() || node->outputs.size() != 1 || !shape ||
      std::ranges::any_of(*shape, [](int64_t size) { return size <= 0 || size > kLongestAxis; }))
    return std::nullopt;
  if (is_move(*node)) {
    const Known from = of(node->inputs[0]);
    if (!from || from->codes.flip) return std::nullopt;
    return with_axes(*from, [&](const Tables& axes) { return moved(axes, *node, *shape); });
  }
  if (node->is("Cast")) return converted(of(node->inputs[0]), *node);
  if (node->is("BitShift")) return shifted(of(node->inputs[0]), *node, *shape);
  if (node->is("Sub")) {
    return difference(of(node->inputs[0]), of(node->inputs[1]), *node, *shape);
  }
  // Where(negative, -1 - x, x)
  const Node* inverse = node->is("Where") ? node->inputs[1]->producer : nullptr;
  if (inverse && inverse->is("Sub") && inverse->inputs[1] == node->inputs[2] &&
      small_integers(*inverse->inputs[0], 1) == Ints{-1}) {
    return flipped(of(node->inputs[2]), *node->inputs[0], *shape);
  }
  if (node->is("Where")) return either(of(node->inputs[1]), of(node->inputs[2]), *shape);
  if (!node->is_any({"Add", "BitwiseAnd", "BitwiseOr", "Mul"})) return std::nullopt;
  for (const size_t index : {0, 1}) {
    Value* operand = node->inputs[index];
    Value* other = node->inputs[1 - index];
    Known result;
    if (node->is("BitwiseAnd")) result = masked_words(broadcast(of(operand), *shape), *other);
    if (node->is("BitwiseOr")) result = with_high_bits(of(operand), *other, *shape);
    if (node->is("Add")) result = increased(broadcast(of(operand), *shape), *other, value->dtype);
    if (node->is("Mul")) result = scaled_words(of(operand), of(other), *shape);
    if (result) return result;
  }
  return std::nullopt;
}

TensorData picked(const Words& words, const TensorData& source, const Ints& rows, DType dtype) {
  std::vector<std::byte> from;
  from.reserve(static_cast<size_t>(source.nbytes()));
  source.stream([&from](std::span<const std::byte> piece) {
    from.insert(from.end(), piece.begin(), piece.end());
  });
  const size_t columns = words.axes[1].size();
  const auto size = static_cast<size_t>(item_size(dtype));
  std::vector<std::byte> to(rows.size() * columns * size);
  const auto copy = [&](auto word) {
    using Word = decltype(word);
    std::byte* at = to.data();
    for (const int64_t row : rows) {
      for (size_t column = 0; column < columns; ++column, at += size) {
        const Place place = words.place(row, static_cast<int64_t>(column));
        std::memcpy(&word, &from[static_cast<size_t>(place.element) * sizeof(Word)], sizeof(Word));
        auto bits = static_cast<uint64_t>(static_cast<int64_t>(word)) >> place.bit;
        if (words.mask != 0) bits &= static_cast<uint64_t>(words.mask);
        bits += static_cast<uint64_t>(words.plus);
        std::memcpy(at, &bits, size);  // little-endian
      }
    }
  };
  const bool is_signed_word = is_integral(source.dtype) && is_signed(source.dtype);
  switch (item_size(source.dtype)) {
    case 1:
      is_signed_word ? copy(int8_t{}) : copy(uint8_t{});
      break;
    case 2:
      is_signed_word ? copy(int16_t{}) : copy(uint16_t{});
      break;
    case 4:
      is_signed_word ? copy(int32_t{}) : copy(uint32_t{});
      break;
    default:
      copy(int64_t{});
  }
  return make_tensor(dtype, {static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns)},
                     std::move(to));
}

}  // namespace onnx_native::passes
