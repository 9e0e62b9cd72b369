#include "passes/quantize_weights.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/device_weight.h"
#include "base/name_patterns.h"
#include "base/transposed.h"
#include "base/weight.h"
#include "onnx/infer.h"
#include "onnx/providers.h"
#include "onnx/typing.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Graph;
using onnx::Node;
using onnx::Value;
using Ints = std::vector<int64_t>;

constexpr int64_t kDequantizeOpset = 21;
constexpr std::array kParts{BlockPart::codes, BlockPart::scales, BlockPart::zero_points};

bool is_swap(const Node& node) {
  return node.is("Transpose") && node.inputs[0]->rank_or(-1) == 2 &&
         node.attribute_ints("perm").value_or(Ints{1, 0}) == Ints{1, 0};
}

// The operand of a product as a constant matrix.
struct Operand {
  const Value* weight = nullptr;
  bool is_turned = false;  // the product takes the transpose of the weight
};

// Looks through Transpose and Cast nodes, which a model that is not optimized has.
std::optional<Operand> operand_of(const Node& product) {
  Operand operand{product.inputs[1]};
  operand.is_turned = product.attribute_int("transB", 0) != 0;
  while (const Node* node = operand.weight->producer) {
    const bool widens = node->is("Cast") && is_floating(node->inputs[0]->dtype);
    if (!widens && !is_swap(*node)) return std::nullopt;
    operand.is_turned ^= !widens;
    operand.weight = node->inputs[0];
  }
  if (!operand.weight->is_constant() || !is_floating(operand.weight->dtype)) return std::nullopt;
  return operand;
}

// Returns the same elements with all axes but the first one as one.
TensorData flattened(const TensorData& data) {
  const Ints shape{data.shape[0], data.numel() / std::max<int64_t>(data.shape[0], 1)};
  Derivation derivation{{data},
                        [shape](std::span<const TensorData> now) -> std::optional<TensorData> {
                          TensorData view = now[0];
                          view.shape = shape;
                          return view;
                        }};
  derivation.stream = [](const TensorData& source, const Derivation::Sink& sink) {
    stream_current(source, sink);
  };
  return on_demand(data.dtype, shape, std::move(derivation));
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::ranges::any_of(
      patterns, [&name](const std::string& pattern) { return matches_name(pattern, name); });
}

bool is_quantizable(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

std::string joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : "+") + name;
  return text;
}

class WeightQuantizer {
 public:
  explicit WeightQuantizer(onnx::Model& model) : model_(model), settings_(model.quantization) {}

  QuantizedWeights run() {
    sweep(model_, [this](Rewrite& rewrite, Graph&, Node& node) {
      if (node.is("MatMul") || node.is("Gemm")) quantize_product(rewrite, node);
    });
    sweep(model_, [this](Rewrite& rewrite, Graph&, Node& node) {
      if (node.is("Gather")) quantize_embedding(rewrite, node);
    });
    return std::move(done_);
  }

 private:
  // The initializers of a matrix.
  struct Quantized {
    std::vector<Value*> values;  // codes, scales and perhaps zero points
    int64_t rows = 0;            // of the operand
    int64_t columns = 0;
  };

  bool has_contrib() const { return onnx::has_provider(model_.target); }

  // Returns why a node keeps its weight, whatever it computes; empty if that depends on the node.
  std::string common_reason(const Node& node, const Value& weight) const {
    const std::set<std::string> names = weight_names(*weight.constant);
    const auto is_buffer = [this](const std::string& each) {
      return model_.buffers.contains(each);
    };
    if (names.empty()) return "a constant, not a weight";
    if (std::ranges::all_of(names, is_buffer)) return "a buffer";
    if (is_left_out(model_, node, weight)) return "left out by name";
    if (weight.rank() != 2) return concat("a tensor with ", weight.rank(), " axes");
    if (!is_quantizable(weight.dtype)) return concat("has the dtype ", name(weight.dtype));
    return weight.constant->numel() == 0 ? "has no elements" : "";
  }

  // Returns why a product keeps its weight; empty if it is quantized.
  std::string reason_to_leave(const Node& product, const Value& weight) const {
    if (std::string reason = common_reason(product, weight); !reason.empty()) return reason;
    if (!is_quantizable(product.inputs[0]->dtype))
      return concat("multiplied by ", name(product.inputs[0]->dtype));
    if (product.inputs[0]->rank_or(0) < 2) return "multiplied by a vector";
    const bool is_plain = product.attribute_int("transA", 0) == 0 &&
                          product.attribute_float("alpha", 1) == 1 &&
                          product.attribute_float("beta", 1) == 1;
    return is_plain ? "" : "a scaled or transposed product";
  }

  void quantize_product(Rewrite& rewrite, Node& node) {
    const auto operand = operand_of(node);
    if (!operand) return;
    if (std::string reason = reason_to_leave(node, *operand->weight); !reason.empty())
      return leave(*operand->weight, std::move(reason));
    const Quantized& quantized = quantized_of(*operand, node.inputs[0]->dtype);
    Value* bias = node.is("Gemm") ? node.input(2) : nullptr;
    const auto product =
        has_contrib() ? packed_product(node, quantized) : product_of_dequantized(node, quantized);
    note(*operand->weight, has_contrib() ? "MatMulNBits" : "DequantizeLinear");
    rewrite.set_changed();
    if (!bias) {
      become(node, product);
      return;
    }
    Node* made = node.outputs[0]->graph->insert_node(node.position, product.op_type, product.inputs,
                                                     1, product.attributes, product.domain);
    made->location = node.location;
    onnx::Typing::set(*made->outputs[0], node.outputs[0]->dtype, node.outputs[0]->shape);
    become(node, {"Add", "", {made->outputs[0], bias}, {}});
  }

  // Returns why an embedding keeps its table; empty if it is quantized.
  std::string reason_to_keep(const Node& gather, const Value& table) const {
    if (std::string reason = common_reason(gather, table); !reason.empty()) return reason;
    if (!settings_.embeddings) return "an embedding";
    if (!has_contrib()) return "an embedding; the target has no operator for its blocks";
    const int64_t axis = gather.attribute_int("axis", 0);
    if (axis != 0 && axis != -2) return "columns are gathered";
    const int64_t size = table.constant->shape[1];
    return size % settings_.block_size == 0
               ? ""
               : concat("an embedding of ", size, " elements, which are no whole blocks");
  }

  void quantize_embedding(Rewrite& rewrite, Node& node) {
    const Value& table = *node.inputs[0];
    if (!table.is_constant() || !is_floating(table.dtype)) return;
    if (std::string reason = reason_to_keep(node, table); !reason.empty())
      return leave(table, std::move(reason));
    const bool is_tied = made_.contains(key_of(*table.constant, table.dtype));
    const Quantized quantized = quantized_of({&table, true}, table.dtype, !is_tied);
    std::vector<Value*> inputs{quantized.values[0], node.inputs[1], quantized.values[1]};
    if (is_tied) {
      const Ints rows{quantized.columns, -1};
      inputs[0] =
          insert_before(model_, node, "Reshape", {inputs[0], model_.graph->add_integers(rows)});
    }
    if (!settings_.symmetric) inputs.push_back(quantized.values[2]);
    note(table, "GatherBlockQuantized");
    rewrite.set_changed();
    become(node, {"GatherBlockQuantized",
                  onnx::kRuntimeDomain,
                  std::move(inputs),
                  {{"gather_axis", int64_t{0}},
                   {"quantize_axis", int64_t{1}},
                   {"block_size", settings_.block_size},
                   {"bits", settings_.bits}}});
    model_.domains.emplace(onnx::kRuntimeDomain, 1);
  }

  static std::string label_of(const Value& weight) {
    std::string label = joined(weight_names(*weight.constant));
    return label.empty() ? weight.name : label;
  }
  void leave(const Value& weight, std::string reason) {
    if (std::string label = label_of(weight); !label.empty())
      done_.left.emplace(std::move(label), std::move(reason));
  }
  void note(const Value& weight, const char* operation) {
    std::string& operations = done_.quantized[label_of(weight)];
    if (operations.find(operation) != std::string::npos) return;
    operations += (operations.empty() ? "" : ", ") + std::string(operation);
  }

  struct Operation {
    std::string op_type;
    std::string domain;
    std::vector<Value*> inputs;
    std::vector<onnx::Attribute> attributes;
  };

  static void become(Node& node, Operation operation) {
    node.op_type = std::move(operation.op_type);
    node.domain = std::move(operation.domain);
    node.inputs = std::move(operation.inputs);
    node.attributes = std::move(operation.attributes);
  }

  Operation packed_product(const Node& node, const Quantized& quantized) {
    Operation made{"MatMulNBits", onnx::kRuntimeDomain, {node.inputs[0]}, {}};
    made.inputs.insert(made.inputs.end(), quantized.values.begin(), quantized.values.end());
    made.attributes = {{"K", quantized.rows},
                       {"N", quantized.columns},
                       {"bits", settings_.bits},
                       {"block_size", settings_.block_size}};
    if (settings_.accuracy_level != 0)
      made.attributes.push_back({"accuracy_level", settings_.accuracy_level});
    model_.domains.emplace(onnx::kRuntimeDomain, 1);
    return made;
  }

  // Runtimes fuse the two nodes if nothing else reads the dequantized matrix. In a subgraph, ONNX
  // Runtime (1.31) fuses them too, and then does not find the initializers, which are outside. So
  // there the matrix is dequantized outside.
  Operation product_of_dequantized(const Node& node, const Quantized& quantized) {
    const std::vector<onnx::Attribute> attributes{{"axis", int64_t{0}},
                                                  {"block_size", settings_.block_size}};
    if (!node.outputs[0]->graph->outer()) {
      Value* matrix = insert_before(model_, node, "DequantizeLinear", quantized.values, attributes);
      return {"MatMul", "", {node.inputs[0], matrix}, {}};
    }
    Value*& matrix = outside_[quantized.values[0]];
    if (!matrix) {
      Graph& main = *model_.graph;
      Node* made =
          main.insert_node(main.nodes.begin(), "DequantizeLinear", quantized.values, 1, attributes);
      onnx::infer(*made, model_.opset);
      matrix = made->outputs[0];
    }
    return {"MatMul", "", {node.inputs[0], matrix}, {}};
  }

  // Where the elements of a matrix are, its shape, its strides and the dtypes of elements and
  // scales. Two tied weights have the same.
  using Key = std::tuple<const std::byte*, Ints, Ints, DType, DType>;
  static Key key_of(const TensorData& matrix, DType dtype) {
    const TensorData* memory = &matrix;
    while (const Derivation* conversion = conversion_of(*memory))
      memory = &conversion->sources.at(0);
    return {memory->data, memory->shape, memory->strides, matrix.dtype, dtype};
  }

  // The codes are one matrix if `is_flat`.
  const Quantized& quantized_of(const Operand& operand, DType dtype, bool is_flat = false) {
    const Value& weight = *operand.weight;
    const TensorData matrix = operand.is_turned != has_contrib()
                                  ? transposed_constant(*weight.constant)
                                  : *weight.constant;
    const auto [found, is_new] = made_.try_emplace(key_of(matrix, dtype), Quantized());
    if (is_new) found->second = quantize(weight, matrix, dtype, is_flat);
    return found->second;
  }

  Quantized quantize(const Value& weight, const TensorData& matrix, DType dtype, bool is_flat) {
    Quantized made;
    made.rows = matrix.shape[has_contrib() ? 1 : 0];
    made.columns = matrix.shape[has_contrib() ? 0 : 1];
    for (const BlockPart part : kParts) {
      if (part == BlockPart::zero_points && settings_.symmetric) continue;
      const auto& blocks = has_contrib() ? packed_blocks : column_blocks;
      TensorData data = blocks(matrix, settings_, part, dtype, label_of(weight));
      if (is_flat) data = flattened(data);
      Value* value = model_.graph->add_initializer(name_of(weight, part), std::move(data));
      value->named = weight.named;
      made.values.push_back(value);
    }
    return made;
  }

  // These are the names that ONNX Runtime's quantizer gives.
  std::string name_of(const Value& weight, BlockPart part) const {
    std::string name = weight.name;
    if (name.empty()) return "";
    if (part == BlockPart::scales) return name + "_scales";
    if (part == BlockPart::zero_points) return name + "_zero_points";
    return concat(name, "_Q", settings_.bits);
  }

  onnx::Model& model_;
  const WeightQuantization& settings_;
  std::map<Key, Quantized> made_;
  std::unordered_map<const Value*, Value*> outside_;  // by the codes
  QuantizedWeights done_;
};

}  // namespace

std::set<std::string> weight_names(const TensorData& data) {
  if (const Weight* weight = weight_of(data)) return {weight->name()};
  std::set<std::string> names;
  for (const TensorData& source : sources_of(data)) names.merge(weight_names(source));
  return names;
}

std::set<std::string> module_names(const onnx::Model& model) {
  std::set<std::string> names;
  onnx::for_each_graph(*model.graph, [&names](const Graph& graph) {
    for (const Node* node : graph.nodes) {
      if (!node->location) continue;
      const std::vector<std::string>& modules = node->location->module_names;
      names.insert(modules.begin(), modules.end());
    }
  });
  return names;
}

bool is_in_module(const Node& node, const std::vector<std::string>& patterns) {
  if (!node.location) return false;
  return std::ranges::any_of(node.location->module_names,
                             [&](const std::string& name) { return matches_any(patterns, name); });
}

bool is_left_out(const onnx::Model& model, const Node& node, const Value& weight) {
  const std::vector<std::string>& patterns = model.quantization.excluded;
  if (patterns.empty()) return false;
  return is_in_module(node, patterns) ||
         std::ranges::any_of(weight_names(*weight.constant),
                             [&](const std::string& name) { return matches_any(patterns, name); });
}

void check_quantization(const onnx::Model& model) {
  if (model.quantization.bits == 0) return;
  check_settings(model.quantization);
  if (model.quantization.excluded.empty()) return;
  std::set<std::string> names = module_names(model);
  onnx::for_each_graph(*model.graph, [&names](const Graph& graph) {
    for (const Value* value : graph.initializers) names.merge(weight_names(*value->constant));
  });
  check_patterns("the list of weights that stay as they are", model.quantization.excluded, names);
}

// The constant matrix of a product is stored in blocks of few bits: as MatMulNBits takes them where
// the target has it, otherwise for a DequantizeLinear before the product. The elements are
// quantized while the file is written, as ONNX Runtime's quantizer rounds them.
QuantizedWeights quantize_weights(onnx::Model& model) {
  if (model.quantization.bits == 0) return {};
  const int64_t opset = model.final_opset.value_or(model.opset);
  if (!onnx::has_provider(model.target) && opset < kDequantizeOpset)
    fail(ErrorKind::invalid_argument, "opset ", opset,
         " cannot dequantize weights in blocks; choose opset 21 or newer, or the target "
         "onnxruntime-cpu");
  QuantizedWeights done = WeightQuantizer(model).run();
  eliminate_dead_code(model);
  return done;
}

}  // namespace onnx_native::passes
