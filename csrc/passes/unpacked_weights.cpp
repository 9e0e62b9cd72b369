#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <tuple>

#include "base/packed.h"
#include "base/weight.h"
#include "passes/packed_words.h"
#include "passes/quantized_weights.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Graph;
using onnx::Node;
using onnx::Value;
using Ints = std::vector<int64_t>;

constexpr int64_t kBlockOpset = 21;
constexpr size_t kSmallestBlock = 2;

// The rows of a matrix that share zero points and scales.
struct Groups {
  Ints rows;    // all of them, group by group
  Ints firsts;  // of the groups
  int64_t size = 0;
};

// Returns nullopt if the groups differ in size.
std::optional<Groups> groups_of(const Dequantization& weight) {
  using Key = std::tuple<int64_t, int64_t, int64_t>;
  std::map<Key, size_t> indices;
  std::vector<Ints> members;
  const size_t count = weight.codes.axes[0].size();
  for (size_t row = 0; row < count; ++row) {
    const Place zero = weight.zeros ? weight.zeros->axes[0][row] : Place{};
    const Key key{weight.scales->axes[0][row].element, zero.element, zero.bit};
    const auto [found, is_new] = indices.try_emplace(key, members.size());
    if (is_new) members.emplace_back();
    members[found->second].push_back(static_cast<int64_t>(row));
  }
  Groups groups{.size = static_cast<int64_t>(members[0].size())};
  if (members[0].size() < kSmallestBlock) return std::nullopt;
  for (const Ints& rows : members) {
    if (rows.size() != members[0].size()) return std::nullopt;
    groups.firsts.push_back(rows[0]);
    groups.rows.insert(groups.rows.end(), rows.begin(), rows.end());
  }
  return groups;
}

struct Range {
  int64_t lowest = 0;
  int64_t highest = 0;

  bool is_in(DType dtype) const {
    return static_cast<double>(lowest) >= lowest_value(dtype) &&
           static_cast<double>(highest) <= max_value(dtype);
  }
};

// Returns the range of a matrix of integers of type T.
template <class T>
Range range_in(const TensorData& matrix) {
  Range range{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  matrix.stream([&range](std::span<const std::byte> piece) {
    for (size_t i = 0; i < piece.size(); i += sizeof(T)) {
      T element;
      std::memcpy(&element, &piece[i], sizeof(T));
      range.lowest = std::min<int64_t>(range.lowest, element);
      range.highest = std::max<int64_t>(range.highest, element);
    }
  });
  return range;
}

// Returns the range of the elements at these rows now.
Range current_range(const Words& words, const TensorData& source, const Ints& rows) {
  const bool is_byte = words.mask == 0 && words.plus == 0;
  if (is_byte && source.dtype == DType::i8) {
    return range_in<int8_t>(picked(words, source, rows, DType::i8));
  }
  if (is_byte && source.dtype == DType::u8) {
    return range_in<uint8_t>(picked(words, source, rows, DType::u8));
  }
  return range_in<int64_t>(picked(words, source, rows, DType::i64));
}

// Returns the range of the elements: what they can be if they are masked, else what they are.
std::optional<Range> range_of(const Words& words, const Ints& rows) {
  const TensorData& source = *words.source->constant;
  if (words.mask != 0 && words.plus == 0) return Range{0, words.mask};
  if (!has_elements(&source)) return std::nullopt;
  return current_range(words, current(source), rows);
}

// Returns the narrowest dtype that holds the codes and the zero points.
std::optional<DType> dtype_of(const Dequantization& weight, const Groups& groups) {
  auto range = range_of(weight.codes, groups.rows);
  if (range && weight.zeros) {
    const auto zeros = range_of(*weight.zeros, groups.firsts);
    if (!zeros) return std::nullopt;
    range = {std::min(range->lowest, zeros->lowest), std::max(range->highest, zeros->highest)};
  }
  if (!range) return std::nullopt;
  // Signed codes stay signed: other values of the same module may be negative.
  const bool is_unsigned = weight.codes.mask != 0 || !is_signed(weight.codes.source->dtype);
  const std::array unsigned_first{kUint4, kInt4, DType::u8, DType::i8};
  const std::array signed_first{kInt4, kUint4, DType::i8, DType::u8};
  // A file with bytes for what are now 4 bits would grow.
  const bool is_narrow = weight.codes.mask != 0 && weight.codes.mask <= max_value(kUint4);
  for (const DType dtype : is_unsigned ? unsigned_first : signed_first) {
    if (range->is_in(dtype) && (is_packed(dtype) || !is_narrow)) return dtype;
  }
  return std::nullopt;
}

// Returns the elements at these rows, which are computed whenever they are written.
TensorData elements_at(const Words& words, Ints rows, Ints shape, DType dtype) {
  const DType narrow = !is_packed(dtype) ? dtype : dtype == kInt4 ? DType::i8 : DType::u8;
  const bool always_fit =
      narrow == words.source->dtype || is_floating(dtype) || (words.mask != 0 && words.plus == 0);
  const auto compute = [words, rows = std::move(rows), narrow, shape,
                        always_fit](std::span<const TensorData> now) -> std::optional<TensorData> {
    if (!always_fit && !current_range(words, now[0], rows).is_in(narrow)) return std::nullopt;
    TensorData elements = picked(words, now[0], rows, narrow);
    elements.shape = shape;
    return elements;
  };
  TensorData elements = on_demand(narrow, shape, {{*words.source->constant}, compute});
  return is_packed(dtype) ? packed(elements, dtype) : elements;
}

class UnpackedWeights {
 public:
  explicit UnpackedWeights(onnx::Model& model)
      : model_(model), uses_(onnx::count_uses(*model.graph)) {}

  void dequantize(Rewrite& rewrite, Node& product) {
    const bool is_turned = product.is("Gemm") && (product.attribute_int("transA", 0) != 0 ||
                                                  product.attribute_int("transB", 0) != 0);
    Value* operand = product.inputs[1];
    if (is_turned || !operand->producer || operand->rank_or(-1) != 2) return;
    const auto found = made_.find(operand);
    const auto made = found == made_.end() ? make(operand) : found->second;
    made_[operand] = made;
    if (!made) return;
    product.inputs[1] = made->weight;
    if (made->rows) {
      product.inputs[0] = insert_before(model_, product, "Gather", {product.inputs[0], made->rows},
                                        {{"axis", int64_t{-1}}});
    }
    rewrite.set_changed();
  }

 private:
  struct Made {
    Value* weight = nullptr;
    Value* rows = nullptr;  // the order of its rows, unless it is that of the operand
  };

  std::optional<Made> make(Value* operand) {
    const auto weight = words_.of(operand);
    if (!weight || !weight->scales || weight->scales->source->dtype != operand->dtype) return {};
    if (operand->dtype == DType::f64) return std::nullopt;
    const auto groups = groups_of(*weight);
    // The pass quantized_weights handles whole bytes of one group without reading them.
    if (groups && groups->firsts.size() == 1 && weight->codes.mask == 0 && !weight->zeros)
      return {};
    const auto dtype = groups ? dtype_of(*weight, *groups) : std::nullopt;
    if (!dtype) return std::nullopt;
    const auto columns = static_cast<int64_t>(weight->codes.axes[1].size());
    const auto rows = static_cast<int64_t>(groups->rows.size());
    const auto count = static_cast<int64_t>(groups->firsts.size());
    // One scale per column needs no blocks.
    const Ints of_groups = count == 1 ? Ints{columns} : Ints{count, columns};
    std::vector<onnx::Attribute> attributes{{"axis", int64_t{count == 1}}};
    if (count > 1) attributes.push_back({"block_size", groups->size});
    std::vector<Value*> inputs{
        initializer(weight->codes, groups->rows, {rows, columns}, *dtype),
        initializer(*weight->scales, groups->firsts, of_groups, operand->dtype)};
    if (weight->zeros) {
      inputs.push_back(initializer(*weight->zeros, groups->firsts, of_groups, *dtype));
    }
    Made made{insert_before(model_, *operand->producer, "DequantizeLinear", std::move(inputs),
                            std::move(attributes))};
    if (!std::ranges::is_sorted(groups->rows)) made.rows = model_.graph->add_integers(groups->rows);
    return made;
  }

  Value* initializer(const Words& words, const Ints& rows, const Ints& shape, DType dtype) {
    Value* source = words.source;
    if (source->dtype == dtype && is_whole(words, rows, shape)) return source;
    const bool takes_name = uses_[source] == 1;
    Value* value = model_.graph->add_initializer(takes_name ? source->name : "",
                                                 elements_at(words, rows, shape, dtype));
    value->named = takes_name && source->named;
    if (takes_name) {
      source->named = false;
      source->name.clear();
    }
    return value;
  }

  // Returns true if the elements are those of the constant, in its order and shape.
  static bool is_whole(const Words& words, const Ints& rows, const Ints& shape) {
    if (words.source->constant->shape != shape || words.mask != 0 || words.plus != 0) return false;
    const auto columns = static_cast<int64_t>(words.axes[1].size());
    for (size_t row = 0; row < rows.size(); ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        const Place wanted{static_cast<int64_t>(row) * columns + column, 0};
        if (words.place(rows[row], column) != wanted) return false;
      }
    }
    return true;
  }

  onnx::Model& model_;
  std::unordered_map<const Value*, int64_t> uses_;
  PackedWords words_;
  std::unordered_map<const Value*, std::optional<Made>> made_;
};

}  // namespace

// A matrix (codes - zeros) * scales whose codes are bits of constant words, in groups of rows that
// share zeros and scales, becomes DequantizeLinear with blocks, of 4 bits where they suffice, as
// runtimes fuse it with the product. If groups are not consecutive, the columns of the other
// operand are reordered.
int64_t dequantize_unpacked_weights(onnx::Model& model) {
  if (std::min(model.opset, model.final_opset.value_or(model.opset)) < kBlockOpset) return 0;
  UnpackedWeights weights(model);
  return sweep(model, [&](Rewrite& rewrite, Graph&, Node& node) {
    if (node.is_any({"Gemm", "MatMul"})) weights.dequantize(rewrite, node);
  });
}

}  // namespace onnx_native::passes
