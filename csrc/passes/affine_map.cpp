#include "passes/affine_map.h"

#include <algorithm>
#include <utility>

namespace onnx_native::passes {
namespace {

using onnx::Node;
using onnx::Value;

constexpr int kMostValues = 200;  // that are looked at; cells have fewer

bool is_last_axis(const Node& node, int64_t otherwise) {
  const int64_t axis = node.attribute_int("axis", otherwise);
  return axis == -1 || axis == node.inputs[0]->rank_or(0) - 1;
}

// Returns the indices of the last axis that a part of a value has.
std::optional<IndexRange> last_range_of(const Value& part) {
  const Node& node = *part.producer;
  if (node.is("Split") && is_last_axis(node, 0)) {
    IndexRange range;
    for (const Value* output : node.outputs) {
      const auto size = output && output->shape ? output->dim(-1).constant() : std::nullopt;
      if (!size) return std::nullopt;
      range = {range.end, range.end + *size};
      if (output == &part) return range;
    }
  }
  if (!node.is("Slice") || node.inputs.size() < 4 || !node.inputs[0]->shape) return std::nullopt;
  const auto size = node.inputs[0]->dim(-1).constant();
  std::vector<int64_t> numbers;  // begin, end, axis, step
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const auto known = node.inputs[i] ? node.inputs[i]->known_integers() : std::nullopt;
    if (!known || known->size() != 1) return std::nullopt;
    numbers.push_back((*known)[0]);
  }
  const bool is_last = numbers[2] == -1 || numbers[2] == node.inputs[0]->rank() - 1;
  if (!size || !is_last || (numbers.size() > 3 && numbers[3] != 1)) return std::nullopt;
  for (const size_t i : {0, 1})
    numbers[i] = std::clamp<int64_t>(numbers[i] < 0 ? numbers[i] + *size : numbers[i], 0, *size);
  return IndexRange{numbers[0], std::max(numbers[0], numbers[1])};
}

// Reads affine maps of the steps of a Scan.
class AffineReader {
 public:
  using Map = std::optional<AffineMap>;

  explicit AffineReader(const Scan& scan) : scan_(scan) {}

  // Reads a value of a step.
  Map step(Value* value) {
    if (is_outside(value) || --left_ < 0) return std::nullopt;
    const Node* node = value->producer;
    if (!node) {
      Value* whole = scan_.sequence(value);
      return whole ? sequence(whole, false) : std::nullopt;
    }
    if (node->is("Identity")) return step(node->inputs[0]);
    if (const auto range = last_range_of(*value)) return columns(step(node->inputs[0]), *range);
    if (node->is("MatMul")) return step_product(*node, false);
    if (node->is("Gemm")) {
      if (node->attribute_int("transA", 0) != 0 || node->attribute_float("alpha", 1) != 1 ||
          node->attribute_float("beta", 1) != 1)
        return std::nullopt;
      Map map = step_product(*node, node->attribute_int("transB", 0) != 0);
      return node->input(2) ? sum(std::move(map), addend(node->inputs[2])) : map;
    }
    if (node->is("Add")) {
      Map first = addend(node->inputs[0]);
      return first ? sum(std::move(first), addend(node->inputs[1])) : std::nullopt;
    }
    return node->is("Mul") ? scaled(*node) : std::nullopt;
  }

 private:
  bool is_outside(const Value* value) const { return value->graph != &scan_.body; }

  // Reads a value that is added to others.
  Map addend(Value* value) { return is_outside(value) ? bias(value) : step(value); }

  static Map bias(Value* value) {
    const auto size = value->rank_or(0) == 1 ? value->dim(0).constant() : std::nullopt;
    if (!size) return std::nullopt;
    AffineMap map;
    map.biases.push_back({value, {0, *size}});
    return map;
  }

  static Map sum(Map a, Map b) {
    if (!a || !b || (a->scale && b->scale)) return std::nullopt;
    a->terms.insert(a->terms.end(), b->terms.begin(), b->terms.end());
    a->biases.insert(a->biases.end(), b->biases.begin(), b->biases.end());
    if (b->scale) std::tie(a->scale, a->scaled) = std::pair(b->scale, b->scaled);
    return a;
  }

  static Map columns(Map map, const IndexRange& range) {
    if (!map || map->scale) return std::nullopt;
    const auto narrow = [&range](IndexRange& each) {
      each = {each.begin + range.begin, each.begin + range.end};
    };
    for (AffineTerm& term : map->terms) narrow(term.weight.columns);
    for (BiasPart& each : map->biases) narrow(each.range);
    return map;
  }

  Map scaled(const Node& node) {
    for (const size_t i : {0, 1}) {
      const Value* scale = node.inputs[i];
      if (!scale->producer || !scale->producer->is("Sigmoid")) continue;
      if (Map inner = step(node.inputs[1 - i])) {
        AffineMap map;
        map.scale = scale;
        map.scaled = std::make_shared<const AffineMap>(std::move(*inner));
        return map;
      }
    }
    return std::nullopt;
  }

  Map step_product(const Node& node, bool is_transposed) {
    std::vector<std::pair<StepOperand, int64_t>> operands;
    if (!add_operands(node.inputs[0], operands)) return std::nullopt;
    return product(operands, node.inputs[1], is_transposed);
  }

  // Appends what a concatenation consists of, with sizes.
  bool add_operands(Value* value, std::vector<std::pair<StepOperand, int64_t>>& operands) {
    if (is_outside(value) || value->rank_or(0) != 2 || --left_ < 0) return false;
    const Node* node = value->producer;
    if (node && node->is("Identity")) return add_operands(node->inputs[0], operands);
    if (node && node->is("Concat") && is_last_axis(*node, 0))
      return std::ranges::all_of(node->inputs,
                                 [&](Value* input) { return add_operands(input, operands); });
    const std::optional<int64_t> size = value->dim(1).constant();
    if (!size) return false;
    Value* whole = scan_.sequence(value);
    if (!whole && !scan_.state(value) && !scaled_state(scan_, value)) return false;
    operands.push_back({{whole ? whole : value, whole != nullptr, false}, *size});
    return true;
  }

  Map product(const std::vector<std::pair<StepOperand, int64_t>>& operands, Value* weight,
              bool is_transposed) const {
    if (!is_outside(weight) || weight->rank_or(0) != 2) return std::nullopt;
    if (const Node* node = weight->producer; node && node->is("Transpose")) {
      const auto order = node->attribute_ints("perm");
      if (!order || *order == std::vector<int64_t>{1, 0}) {
        weight = node->inputs[0];
        is_transposed = !is_transposed;
      }
    }
    const auto rows = weight->dim(is_transposed ? 1 : 0).constant();
    const auto columns = weight->dim(is_transposed ? 0 : 1).constant();
    if (!rows || !columns) return std::nullopt;
    AffineMap map;
    int64_t row = 0;
    for (const auto& [operand, size] : operands) {
      map.terms.push_back({operand, {weight, is_transposed, {row, row + size}, {0, *columns}}});
      row += size;
    }
    return row == *rows ? Map(std::move(map)) : std::nullopt;
  }

  // Reads a product of a whole sequence.
  Map sequence(Value* value, bool swaps) {
    const Node* node = value->producer;
    if (!node || value->rank_or(0) != 3 || --left_ < 0) return std::nullopt;
    if (node->is("Identity")) return sequence(node->inputs[0], swaps);
    if (node->is("Transpose") && node->attribute_ints("perm") == std::vector<int64_t>{1, 0, 2})
      return sequence(node->inputs[0], !swaps);
    if (const auto range = last_range_of(*value))
      return columns(sequence(node->inputs[0], swaps), *range);
    if (node->is("Add")) {
      for (const size_t i : {0, 1})
        if (node->inputs[i]->rank_or(0) == 1)
          return sum(sequence(node->inputs[1 - i], swaps), bias(node->inputs[i]));
    }
    Value* operand = node->is("MatMul") ? node->inputs[0] : nullptr;
    if (!operand || operand->rank_or(0) != 3) return std::nullopt;
    const auto size = operand->dim(2).constant();
    return size ? product({{{operand, true, swaps}, *size}}, node->inputs[1], false) : std::nullopt;
  }

  const Scan& scan_;
  int left_ = kMostValues;
};

}  // namespace

std::optional<AffineMap> affine_map(const Scan& scan, Value* value) {
  return AffineReader(scan).step(value);
}

std::optional<ScaledState> scaled_state(const Scan& scan, const Value* value) {
  const Node* node = value->producer;
  if (!node || !node->is("Mul")) return std::nullopt;
  for (const size_t i : {0, 1}) {
    const Value* scale = node->inputs[i];
    if (scale->producer && scale->producer->is("Sigmoid") && scan.state(node->inputs[1 - i]))
      return ScaledState{scale, node->inputs[1 - i]};
  }
  return std::nullopt;
}

}  // namespace onnx_native::passes
