#include <numeric>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Node;
using onnx::Value;
using Ints = std::vector<int64_t>;

// Returns the bits that the dtype's values need: of an integer's magnitude or a float's
// significand.
int significant_bits(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return 1;
    case DType::f64:
      return 53;
    case DType::f32:
      return 24;
    case DType::f16:
      return 11;
    case DType::bf16:
      return 8;
    default:
      return is_integral(dtype) ? static_cast<int>(8 * item_size(dtype)) - is_signed(dtype) : 0;
  }
}

// Returns true if the other dtype represents every value of `from` exactly.
bool is_lossless(DType from, DType to) {
  if (from == to) return true;
  const int bits = significant_bits(from);
  if (bits == 0 || significant_bits(to) < bits || to == DType::boolean) return false;
  if (!is_floating(from)) return is_floating(to) || !is_signed(from) || is_signed(to);
  // f16 has less range than bf16, and bf16 has less precision than f16.
  return to == DType::f32 || to == DType::f64;
}

void clean_cast(Rewrite& rewrite, Node& node) {
  Value* output = node.outputs[0];
  if (rewrite.replace(output, node.inputs[0])) return;
  const Node* inner = node.inputs[0]->producer;
  if (!inner || !inner->is("Cast")) return;
  Value* source = inner->inputs[0];
  const DType between = node.inputs[0]->dtype;
  if (!is_lossless(source->dtype, between)) return;
  // ONNX does not define the cast of an out-of-range float to an unsigned integer.
  if (is_floating(between) && !is_floating(source->dtype) && is_integral(output->dtype) &&
      !is_signed(output->dtype)) {
    return;
  }
  if (rewrite.replace(output, source)) return;
  if (source->dtype == output->dtype) return;
  node.inputs[0] = source;
  rewrite.set_changed();
}

// CumSum of int32 elements that are widened to int64 and narrowed again is one of int32: sums wrap.
// Tools that keep int64 values as sizes, such as tract, take no int64 sums.
void narrow_sum(const onnx::Model& model, match::Uses& uses, Rewrite& rewrite, Node& node) {
  const Value* sum = node.inputs[0];
  const Node* inner = sum->producer;
  if (!inner || !inner->is("CumSum") || uses.of(sum) != 1) return;
  if (sum->dtype != DType::i64 || node.outputs[0]->dtype != DType::i32) return;
  const Node* widened = inner->inputs[0]->producer;
  if (!widened || !widened->is("Cast")) return;
  Value* source = widened->inputs[0];
  if (!is_lossless(source->dtype, DType::i32)) return;
  Value* terms = source;
  if (source->dtype != DType::i32) {
    constexpr int64_t kInt32 = 6;
    terms = insert_before(model, node, "Cast", {source}, {{"to", kInt32}});
  }
  Value* narrow =
      insert_before(model, node, "CumSum", {terms, inner->inputs[1]}, inner->attributes);
  rewrite.replace_all(node, node.outputs[0], narrow);
}

std::optional<Ints> permutation(const Node& node) {
  if (auto given = node.attribute_ints("perm")) return given;
  if (!node.inputs[0]->shape) return std::nullopt;
  Ints reversed(node.inputs[0]->shape->size());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return reversed;
}

bool is_identity(const Ints& permutation) {
  for (size_t i = 0; i < permutation.size(); ++i) {
    if (permutation[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

void clean_transpose(Rewrite& rewrite, Node& node) {
  auto order = permutation(node);
  if (!order) return;
  if (is_identity(*order) && rewrite.replace(node.outputs[0], node.inputs[0])) return;
  const Node* inner = node.inputs[0]->producer;
  if (!inner || !inner->is("Transpose")) return;
  const auto first = permutation(*inner);
  if (!first || first->size() != order->size()) return;
  for (int64_t& axis : *order) axis = (*first)[static_cast<size_t>(axis)];
  if (is_identity(*order) && rewrite.replace(node.outputs[0], inner->inputs[0])) return;
  node.inputs[0] = inner->inputs[0];
  node.attributes = {{"perm", std::move(*order)}};
  rewrite.set_changed();
}

}  // namespace

// Removes Identity, a Cast to the same dtype and a Transpose with the identity permutation. Merges
// two Casts if the first is lossless, and two Transposes. Narrows sums between a Cast and its
// inverse. Keeps an Identity between an input or initializer and a graph output.
int64_t clean_casts_and_transposes(onnx::Model& model) {
  match::Uses uses(model);
  return sweep(model, [&](Rewrite& rewrite, onnx::Graph&, Node& node) {
    if (!node.domain.empty()) return;
    if (node.op_type == "Identity") {
      rewrite.replace(node.outputs[0], node.inputs[0]);
    } else if (node.op_type == "Cast") {
      clean_cast(rewrite, node);
      narrow_sum(model, uses, rewrite, node);
    } else if (node.op_type == "Transpose") {
      clean_transpose(rewrite, node);
    }
  });
}

}  // namespace onnx_native::passes
