#include "passes/precision.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/half.h"
#include "onnx/infer.h"
#include "onnx/kernels.h"
#include "onnx/providers.h"
#include "onnx/schema.h"
#include "onnx/typing.h"
#include "passes/passes.h"
#include "passes/precision_roles.h"
#include "passes/quantize_weights.h"

namespace onnx_native::passes {
namespace {

using onnx::Graph;
using onnx::Node;
using onnx::Value;
using Role = PrecisionRole;

constexpr int64_t kSmallTable = 1024;  // elements of constants that may be stored twice
constexpr size_t kAttentionMask = 3;   // the input of Attention

// How the numbers of a float32 value fit into half precision.
enum class Reach {
  fits,   // rounding them is what a program in half precision does
  grows,  // they may be too large, or needed with all digits: sums, powers, integers
  wide,   // they are too large, as the float32 minimum of a mask is
};

// A float32 value of the program.
struct Info {
  bool is_half = false;  // it is computed in half precision
  Reach reach = Reach::fits;
};

struct ValueUse {
  Node* node;  // nullptr: an output of the graph
  size_t index;
};

std::vector<Graph*> bodies_of(const Node& node) {
  std::vector<Graph*> bodies;
  for (const onnx::Attribute& attribute : node.attributes)
    if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.value))
      bodies.push_back(body->get());
  return bodies;
}

bool is_large_constant(const Value& value) {
  return value.is_constant() && value.constant->numel() > kSmallTable;
}

bool is_attention_mask(const Node& node, size_t input) {
  return node.is("Attention") && input == kAttentionMask;
}

// Returns true for a constant with rows and columns, unlike the frequencies of a rotary embedding.
bool is_constant_matrix(const Value& value) {
  return value.is_constant() &&
         std::ranges::count_if(value.constant->shape, [](int64_t size) { return size > 1; }) > 1;
}

// Returns what a value is made of by conversions and changes of its layout.
const Value* stored_value(const Value* value) {
  while (value->producer &&
         value->producer->is_any({"Cast", "DequantizeLinear", "Reshape", "Transpose"}))
    value = value->producer->inputs[0];
  return value;
}

class PrecisionLowering {
 public:
  PrecisionLowering(onnx::Model& model, const PrecisionOptions& options)
      : model_(model),
        half_(dtype_of(options.precision)),
        keeps_io_(options.keep_io_types),
        float32_modules_(options.float32_modules),
        half_inputs_(options.half_inputs) {}

  PrecisionCounts run() {
    Graph& main = *model_.graph;
    const auto is_lowered = [&](const Value* input) {
      return !keeps_io_ || std::ranges::find(half_inputs_, input->name) != half_inputs_.end();
    };
    for (Value* input : main.inputs) declare(input, {.is_half = is_lowered(input)});
    find_float32_modules();
    decide(main);
    find_uses();
    for (auto graph = graphs_.rbegin(); graph != graphs_.rend(); ++graph) {
      std::for_each((*graph)->nodes.rbegin(), (*graph)->nodes.rend(), [this](const Node* node) {
        if (joins_island(*node)) stay_float32(*node);
      });
    }
    find_half_constants();
    PrecisionCounts counts = count();
    apply(main);
    for (Value* input : main.inputs)
      if (is_float(input) && is_lowered(input)) onnx::Typing::set_dtype(*input, half_);
    for (Value*& output : main.outputs) output = result(output);
    eliminate_dead_code(model_);
    return counts;
  }

 private:
  // --- What is known of values and nodes.

  // Returns true for the float32 tensors of the program.
  bool is_float(const Value* value) const { return value && infos_.contains(value); }
  bool is_half(const Node& node) const { return half_nodes_.contains(&node); }
  void declare(const Value* value, Info info) {
    const bool is_tensor = value && value->kind == onnx::ValueKind::tensor;
    if (is_tensor && value->dtype == DType::f32) infos_[value] = info;
  }
  Reach reach_of(const TensorData& constant) const {
    const Fit fit = fit_of(constant, half_);
    if (fit == Fit::overflows) return Reach::wide;
    return fit == Fit::imprecise ? Reach::grows : Reach::fits;
  }
  // Reads the elements of a constant when it is first asked for.
  Info info_of(const Value* value) {
    const auto found = infos_.find(value);
    if (found != infos_.end()) return found->second;
    Info info;
    if (value->is_constant()) info.reach = reach_of(*value->constant);
    declare(value, info);
    return info;
  }

  int64_t opset() const { return model_.final_opset.value_or(model_.opset); }
  // Returns true if the schema allows half precision there.
  bool allows(const Node& node, std::span<const onnx::SchemaParameter> formal, size_t i) const {
    if (!node.domain.empty()) return true;
    if (formal.empty()) return false;
    const uint32_t types = formal[std::min(i, formal.size() - 1)].types;
    return (types >> static_cast<int>(half_) & 1) != 0;
  }
  // Returns true if the input is half where the node computes in half precision.
  bool may_take_half(const Node& node, size_t i) const {
    if (!is_float(node.inputs[i]) || keeps_float32(node, i)) return false;
    if (!node.domain.empty()) return true;
    const onnx::OpSchema* schema = onnx::find_schema(node.op_type, opset());
    return schema && allows(node, schema->inputs, i);
  }
  bool takes_half(const Node& node, size_t i) const {
    return is_half(node) && may_take_half(node, i);
  }
  bool gives_half(const Node& node, size_t i) const {
    if (!node.domain.empty()) return true;
    const onnx::OpSchema* schema = onnx::find_schema(node.op_type, opset());
    return schema && allows(node, schema->outputs, i);
  }
  // Returns true if the runtime that the model is written for has a kernel in half precision; for
  // other tools, in float16, ONNX Runtime's CPU provider, which computes next to nothing in
  // bfloat16.
  bool has_half_kernel(const Node& node) const {
    const bool is_cpu = model_.target == Target::onnxruntime_cpu;
    if (onnx::has_provider(model_.target) && !is_cpu)
      return onnx::has_kernel_in(model_.target, node, opset(), half_);
    if ((half_ != DType::f16 && !is_cpu) || !node.domain.empty()) return true;
    return onnx::has_kernel(node.op_type, half_, opset());
  }
  // Returns true if the operator exists in half precision.
  bool may_be_half(const Node& node) const {
    if (!has_half_kernel(node)) return false;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (is_float(node.inputs[i])) return may_take_half(node, i);
    return gives_half(node, 0);
  }

  // --- Modules that the user wants in float32.

  void find_float32_modules() {
    if (float32_modules_.empty()) return;
    onnx::for_each_graph(*model_.graph, [this](const Graph& graph) {
      for (const Node* node : graph.nodes) {
        if (!is_in_module(*node, float32_modules_)) continue;
        for (const Value* input : node->inputs) {
          const Value* weight = input ? stored_value(input) : nullptr;
          if (weight && is_large_constant(*weight)) float32_weights_.insert(weight);
        }
        float32_nodes_.insert(node);
      }
    });
  }

  // Returns true if the node is of such a module, or shares a weight with one.
  bool is_kept(const Node& node) const {
    if (float32_nodes_.contains(&node)) return true;
    return !float32_weights_.empty() &&
           std::ranges::any_of(node.inputs, [this](const Value* input) {
             return input && float32_weights_.contains(stored_value(input));
           });
  }

  // --- Decisions, in the order of the program.

  void decide(Graph& graph) {
    graphs_.push_back(&graph);
    for (Node* node : graph.nodes) {
      for (const Value* input : node->inputs)
        if (input && input->is_constant()) info_of(input);
      decide(*node);
    }
    for (const Value* output : graph.outputs)
      if (output->is_constant()) info_of(output);
  }

  void decide(Node& node) {
    const Role role = precision_role(node);
    if (role == Role::control_flow) return decide_bodies(node);
    if (role == Role::indifferent) return decide_cast(node);
    if (node.is("DequantizeLinear")) return decide_dequantized(node);
    if (node.is("ConstantOfShape")) return decide_filled(node);
    const bool has_tensors = std::ranges::all_of(node.inputs, [](const Value* input) {
      return !input || input->kind == onnx::ValueKind::tensor;
    });
    const Reach reach = reach_of(node);
    if (!has_tensors) return finish(node, false, reach);
    switch (role) {
      case Role::product: {
        const bool half = reach == Reach::fits || (reach == Reach::grows && has_weight(node));
        return finish(node, half, reach == Reach::fits ? reach : Reach::grows);
      }
      case Role::elementwise:
        return finish(node, reach == Reach::fits, is_clipped(node) ? Reach::fits : reach);
      case Role::bounded:
        return finish(node, reach == Reach::fits, Reach::fits);
      case Role::normalized:
        return finish(node, false, Reach::fits);
      case Role::grows:
        return finish(node, false, std::max(reach, Reach::grows));
      default:
        return finish(node, false, reach);
    }
  }

  // Returns the furthest reach of what the node computes with.
  Reach reach_of(const Node& node) {
    Reach reach = Reach::fits;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (is_float(node.inputs[i]) && !is_attention_mask(node, i))
        reach = std::max(reach, info_of(node.inputs[i]).reach);
    }
    return reach;
  }

  // Returns true if an operand is a constant matrix, as it is or dequantized.
  static bool has_weight(const Node& node) {
    return std::ranges::any_of(node.inputs, [](const Value* input) {
      return input && is_constant_matrix(*stored_value(input));
    });
  }

  bool is_clipped(const Node& node) {
    const auto fits = [&](size_t i) {
      return node.input(i) && info_of(node.inputs[i]).reach == Reach::fits;
    };
    return node.is("Clip") && fits(1) && fits(2);
  }

  void finish(const Node& node, bool half, Reach reach) {
    const bool is_product = precision_role(node) == Role::product;
    if (half && is_kept(node)) {
      // Its results need not fit.
      half = false;
      if (float32_nodes_.contains(&node)) reach = std::max(reach, Reach::grows);
    }
    if (half && !may_be_half(node)) {
      half = false;
      if (is_product) missing_products_.insert(&node);
    }
    if (half) half_nodes_.insert(&node);
    if (half && is_product) reach = Reach::fits;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i]) continue;
      declare(node.outputs[i], {.is_half = half && gives_half(node, i), .reach = reach});
    }
  }

  // Integers need all of their digits; those of a byte fit.
  void decide_cast(const Node& node) {
    if (!node.is("Cast")) return;
    const DType from = node.inputs[0]->dtype;
    const bool grows = is_integral(from) && item_size(from) > 1;
    declare(node.outputs[0], {.reach = grows ? Reach::grows : Reach::fits});
  }

  // Activations that the program quantizes stay as they are up to the next quantization. A weight
  // whose scales have all their digits in half precision is dequantized to it.
  void decide_dequantized(const Node& node) {
    if (!stored_value(node.inputs[0])->is_constant()) return finish(node, false, Reach::wide);
    const Value* scale = node.inputs[1];
    const bool half = half_ == DType::f16 && is_float(scale) && scale->is_constant() &&
                      info_of(scale).reach == Reach::fits && is_normal_in(*scale->constant, half_);
    finish(node, half, Reach::fits);
  }

  void decide_filled(const Node& node) {
    if (node.outputs[0]->dtype != DType::f32) return;
    const TensorData* fill = fill_of(node);
    const Reach reach = fill ? reach_of(*fill) : Reach::fits;
    finish(node, reach == Reach::fits, reach);
  }

  static const TensorData* fill_of(const Node& node) {
    const onnx::AttributeValue* value = node.attribute("value");
    const auto* fill = value ? std::get_if<std::shared_ptr<TensorData>>(value) : nullptr;
    return fill ? fill->get() : nullptr;
  }

  // Loops and branches pass on float32 values. The values that a loop carries may be sums.
  void decide_bodies(const Node& node) {
    const std::vector<Graph*> bodies = bodies_of(node);
    const bool is_if = node.is("If");
    size_t carried = is_if ? 0 : node.inputs.size();
    if (node.is("Scan")) carried -= static_cast<size_t>(node.attribute_int("num_scan_inputs", 0));
    for (Graph* body : bodies) {
      for (size_t i = 0; i < body->inputs.size(); ++i)
        declare(body->inputs[i], {.reach = i < carried ? Reach::grows : Reach::fits});
      decide(*body);
    }
    const size_t first = node.is("Loop") ? 1 : 0;  // after the condition of the body
    const size_t states = is_if || carried < 2 * first ? 0 : carried - 2 * first;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      Reach reach = i < states ? Reach::grows : Reach::fits;
      for (const Graph* body : bodies) {
        const Value* output = body->outputs[i + first];
        if (is_float(output)) reach = std::max(reach, info_of(output).reach);
      }
      declare(node.outputs[i], {.reach = reach});
    }
  }

  // --- Decisions against the order of the program.

  void find_uses() {
    for (Graph* graph : graphs_) {
      for (Node* node : graph->nodes)
        for (size_t i = 0; i < node->inputs.size(); ++i)
          if (is_float(node->inputs[i])) uses_[node->inputs[i]].push_back({node, i});
      for (const Value* output : graph->outputs)
        if (is_float(output) && graph->outer())
          uses_[output].push_back({nullptr, 0});
        else if (is_float(output))
          model_outputs_.insert(output);
    }
  }

  // Returns true if the operator needs the input as float32.
  bool needs_float32(const ValueUse& use) const {
    if (!use.node || !is_half(*use.node)) {
      const bool is_indifferent = use.node && precision_role(*use.node) == Role::indifferent;
      return !is_indifferent || (use.node->is("Cast") && is_integral(use.node->outputs[0]->dtype));
    }
    return !may_take_half(*use.node, use.index);
  }

  // Returns true if all that reads the results is float32, so that rounding them would only cost
  // digits. A node with a weight stays half for the sake of the file's size.
  bool joins_island(const Node& node) const {
    const Role role = precision_role(node);
    if (!is_half(node) || (role != Role::elementwise && role != Role::bounded)) return false;
    const bool is_weight = node.is("DequantizeLinear");
    for (const Value* input : node.inputs)
      if (!is_weight && is_float(input) && is_large_constant(*input)) return false;
    bool needed = false;
    for (const Value* output : node.outputs) {
      if (!is_float(output)) continue;
      if (model_outputs_.contains(output)) return false;
      const auto uses = uses_.find(output);
      if (uses == uses_.end()) continue;
      for (const ValueUse& use : uses->second) {
        if (use.node && takes_half(*use.node, use.index)) return false;
        needed |= needs_float32(use);
      }
    }
    return needed;
  }

  void stay_float32(const Node& node) {
    half_nodes_.erase(&node);
    for (const Value* output : node.outputs)
      if (is_float(output)) infos_[output].is_half = false;
  }

  // Finds the large constants that are stored once, in half precision: those that an operator takes
  // so, and the weights of products that do not exist in half precision.
  void find_half_constants() {
    for (const auto& [value, uses] : uses_) {
      const auto is_taken = [this](const ValueUse& use) {
        return use.node &&
               (takes_half(*use.node, use.index) || missing_products_.contains(use.node));
      };
      if (is_large_constant(*value) && std::ranges::any_of(uses, is_taken))
        half_constants_.insert(value);
    }
  }

  PrecisionCounts count() const {
    PrecisionCounts counts{.dtype = half_};
    for (const Graph* graph : graphs_) {
      for (const Node* node : graph->nodes) {
        const Role role = precision_role(*node);
        const auto is_tensor = [this](const Value* value) { return is_float(value); };
        if (role == Role::indifferent || role == Role::control_flow) continue;
        if (is_half(*node)) {
          ++counts.half_nodes;
        } else if (std::ranges::any_of(node->inputs, is_tensor) ||
                   std::ranges::any_of(node->outputs, is_tensor)) {
          ++counts.float32_nodes[node->op_type];
        }
      }
    }
    return counts;
  }

  // --- The new graph.

  void apply(Graph& graph) {
    const std::vector<Node*> nodes(graph.nodes.begin(), graph.nodes.end());
    for (Node* node : nodes) {
      for (Graph* body : bodies_of(*node)) {
        apply(*body);
        for (Value*& output : body->outputs) output = as_float32(output);
      }
      const bool is_indifferent = precision_role(*node) == Role::indifferent;
      for (size_t i = 0; i < node->inputs.size() && !is_indifferent; ++i) {
        Value*& input = node->inputs[i];
        if (!is_float(input)) continue;
        if (!takes_half(*node, i)) {
          input = as_float32(input);
        } else {
          input = is_attention_mask(*node, i) ? as_half_mask(input) : as_half(input);
        }
      }
      for (Value* output : node->outputs)
        if (is_float(output) && infos_[output].is_half) onnx::Typing::set_dtype(*output, half_);
      if (is_half(*node) && node->is("ConstantOfShape")) fill_with_half(*node);
    }
  }

  void fill_with_half(Node& node) const {
    const TensorData* fill = fill_of(node);
    auto value = std::make_shared<TensorData>(
        fill ? in_half(*fill, half_) : make_tensor(half_, {1}, std::vector<double>{0}));
    std::erase_if(node.attributes, [](const auto& each) { return each.name == "value"; });
    node.attributes.push_back({"value", std::move(value)});
  }

  Value* as_float32(Value* value) {
    if (!is_float(value)) return value;
    const bool is_half =
        value->is_constant() ? half_constants_.contains(value) : infos_[value].is_half;
    if (!is_half) return value;
    Value*& made = float32_[value];
    if (!made) {
      Value* half = as_half(value);
      made = cast(half, *half, DType::f32);
    }
    return made;
  }

  Value* as_half(Value* value) {
    const Info info = info_of(value);
    if (!is_float(value) || info.is_half) return value;
    Value*& made = half_values_[value];
    if (made) return made;
    if (!value->is_constant()) return made = cast(exact_source(value), *value, half_);
    made = model_.graph->add_initializer(value->name, in_half(*value->constant, half_));
    made->named = std::exchange(value->named, false);
    value->name.clear();
    return made;
  }

  // Returns what the program casts to this value, if half precision holds it exactly; otherwise the
  // value.
  Value* exact_source(Value* value) const {
    const Node* producer = value->producer;
    if (!producer || !producer->is("Cast")) return value;
    const DType from = producer->inputs[0]->dtype;
    const bool is_exact = from == half_ || from == DType::boolean ||
                          (half_ == DType::f16 && is_integral(from) && item_size(from) == 1);
    return is_exact ? producer->inputs[0] : value;
  }

  // A mask of -3.4e38 becomes one of -65472, and not of infinities: those of a row that is masked
  // everywhere would make NaN. ONNX Runtime takes the lowest number, one unit below, for -inf.
  Value* as_half_mask(Value* value) {
    if (info_of(value).reach != Reach::wide) return as_half(value);
    Value*& made = half_masks_[value];
    if (made) return made;
    const auto limit = [this](double number) {
      return model_.graph->add_initializer("", make_tensor(DType::f32, {}, std::vector{number}));
    };
    const double unit = half_ == DType::f16 ? 0x1p-11 : 0x1p-8;  // in the last place, relative
    const double largest = max_value(half_) * (1 - unit);
    Value* clamped = insert(*value, "Clip", {value, limit(-largest), limit(largest)});
    return made = cast(clamped, *clamped, half_);
  }

  // Casts a value where `after` is defined.
  Value* cast(Value* value, const Value& after, DType dtype) {
    return insert(after, "Cast", {value}, {{"to", static_cast<int64_t>(dtype)}});
  }

  Value* insert(const Value& after, std::string_view op_type, std::vector<Value*> inputs,
                std::vector<onnx::Attribute> attributes = {}) {
    Graph& graph = *after.graph;
    const auto at = after.producer ? std::next(after.producer->position) : graph.nodes.begin();
    Node* node = graph.insert_node(at, op_type, std::move(inputs), 1, std::move(attributes));
    if (after.producer) node->location = after.producer->location;
    onnx::infer(*node, model_.opset);
    return node->outputs[0];
  }

  // Returns the output of the model, with its name.
  Value* result(Value* output) {
    if (!is_float(output)) return output;
    Value* made = keeps_io_ ? as_float32(output) : as_half(output);
    if (made == output || output->name.empty()) return made;
    made->name = std::exchange(output->name, "");
    made->named = std::exchange(output->named, false);
    return made;
  }

  onnx::Model& model_;
  DType half_;
  bool keeps_io_;
  const std::vector<std::string>& float32_modules_;
  const std::vector<std::string>& half_inputs_;
  std::unordered_set<const Node*> float32_nodes_;     // of these modules
  std::unordered_set<const Value*> float32_weights_;  // that these modules read
  std::vector<Graph*> graphs_;                        // outer ones first
  std::unordered_map<const Value*, Info> infos_;
  std::unordered_set<const Node*> half_nodes_;
  std::unordered_set<const Node*> missing_products_;  // in half precision
  std::unordered_map<const Value*, std::vector<ValueUse>> uses_;
  std::unordered_set<const Value*> model_outputs_;
  std::unordered_set<const Value*> half_constants_;
  std::unordered_map<const Value*, Value*> half_values_;  // of float32 ones
  std::unordered_map<const Value*, Value*> half_masks_;   // likewise, clamped
  std::unordered_map<const Value*, Value*> float32_;      // of half ones
};

}  // namespace

// A float32 program becomes one of float16 or bfloat16. Each operator has a role (the table of
// precision_roles.cpp). Products and operators on single elements compute in half precision, others
// in float32: normalizations, sums, exponentials. A value that may leave half's range, or whose
// digits matter, has operators on single elements in float32, up to one that ends it: a
// normalization, a sigmoid, or a product with a weight. What only float32 operators read is float32
// too, and so are modules that the user names. Weights are converted while the file is written.
// Casts are between the parts, one for each value and direction.
PrecisionCounts lower_precision(onnx::Model& model, const PrecisionOptions& options) {
  if (options.precision == Precision::program) return {};
  const int64_t opset = model.final_opset.value_or(model.opset);
  if (!onnx::find_schema("Cast", opset)->allows(0, dtype_of(options.precision)))
    fail(ErrorKind::unsupported, "ONNX has no bfloat16 at opset ", opset,
         "; choose opset 13 or newer, or float16");
  return PrecisionLowering(model, options).run();
}

}  // namespace onnx_native::passes
