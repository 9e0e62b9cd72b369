#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "onnx/graph.h"
#include "onnx/schema.h"

namespace onnx_native::onnx {
namespace {

AttributeKind kind_of(const AttributeValue& value) {
  static constexpr AttributeKind kKinds[] = {
      AttributeKind::integer,  AttributeKind::floating, AttributeKind::string,
      AttributeKind::integers, AttributeKind::floats,   AttributeKind::strings,
      AttributeKind::tensor,   AttributeKind::graph,    AttributeKind::integer};
  static_assert(std::size(kKinds) == std::variant_size_v<AttributeValue>);
  return kKinds[value.index()];
}

// Returns the number of values without absent trailing ones.
size_t given(const std::vector<Value*>& values) {
  size_t count = values.size();
  while (count > 0 && !values[count - 1]) --count;
  return count;
}

class Verifier {
 public:
  Verifier(const Model& model, std::string_view stage) : model_(model), stage_(stage) {
    for (const Function& function : model.functions) {
      function_domains_.insert(function.domain);
    }
  }

  // If `typed`, every value must have a dtype. In a function the dtypes depend on the call.
  void verify_graph(const Graph& graph, bool typed) {
    for (const Value* input : graph.inputs) {
      check(!input->producer, nullptr, "an input has a producer");
      define(graph, input, nullptr, typed);
    }
    for (const Value* constant : graph.initializers) {
      check(constant->constant, nullptr, "initializer ", constant->name, " has no elements");
      check(!constant->producer, nullptr, "initializer ", constant->name, " has a producer");
      check(constant->constant->dtype == constant->dtype, nullptr, "initializer ", constant->name,
            " is ", name(constant->dtype), " and its elements are ",
            name(constant->constant->dtype));
      // An input may have a default.
      const bool is_input = std::ranges::find(graph.inputs, constant) != graph.inputs.end();
      if (!is_input) define(graph, constant, nullptr, typed);
    }
    for (const Node* node : graph.nodes) {
      for (const Value* input : node->inputs) {
        check(!input || defined_.contains(input), node, "an input is used before it is defined");
      }
      for (const Attribute& attribute : node->attributes) {
        if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.value)) {
          check(*body && (*body)->outer() == &graph, node, "attribute ", attribute.name,
                " is not a subgraph of this graph");
          verify_graph(**body, typed);
        }
      }
      verify_node(*node, typed);
      for (const Value* output : node->outputs) {
        if (!output) continue;
        check(output->producer == node, node, "an output has another producer");
        define(graph, output, node, typed);
      }
    }
    for (const Value* output : graph.outputs) {
      check(output, nullptr, "graph ", graph.name, " has a null output");
      check(defined_.contains(output) && output->graph == &graph, nullptr, "graph ", graph.name,
            ": output ", output->name, " is not defined in the graph");
    }
    leave(graph);
  }

 private:
  template <class... Parts>
  void check(bool condition, const Node* node, const Parts&... parts) const {
    if (condition) return;
    const std::string where = node ? "\n  in " + print(*node) : "";
    fail(ErrorKind::internal, "the ONNX graph is invalid after ", stage_, ": ", parts..., where);
  }

  void define(const Graph& graph, const Value* value, const Node* node, bool typed) {
    check(value->graph == &graph, node, "value ", value->name, " belongs to another graph");
    check(!typed || value->dtype != DType::undefined, node, "value ", value->name, " has no dtype");
    check(!value->named || !value->name.empty(), node, "a named value has no name");
    check(defined_.insert(value).second, node, "value ", value->name, " is defined twice");
  }

  // The values of a graph are out of scope after it.
  void leave(const Graph& graph) {
    for (const Value* value : graph.inputs) defined_.erase(value);
    for (const Value* value : graph.initializers) defined_.erase(value);
    for (const Node* node : graph.nodes) {
      for (const Value* value : node->outputs) defined_.erase(value);
    }
  }

  void verify_node(const Node& node, bool typed) const {
    if (!node.domain.empty()) {
      check(model_.domains.contains(node.domain) || function_domains_.contains(node.domain), &node,
            "no operator set or function has the domain ", node.domain);
      return;
    }
    const OpSchema* schema = find_schema(node.op_type, model_.opset);
    if (!schema && model_.undefined_operators.contains(node.op_type)) return;
    check(schema && !schema->deprecated, &node, "opset ", model_.opset, " has no operator ",
          node.op_type);
    verify_count("inputs", given(node.inputs), schema->min_inputs, schema->max_inputs, node);
    verify_count("outputs", given(node.outputs), schema->min_outputs, schema->max_outputs, node);
    verify_attributes(node, *schema);
    std::unordered_map<std::string_view, const Value*> bound;
    verify_values("input", node.inputs, schema->inputs, node, typed, bound);
    verify_values("output", node.outputs, schema->outputs, node, typed, bound);
    if (node.op_type == "If") verify_branches(node, typed);
  }

  void verify_count(std::string_view what, size_t count, int min, int max, const Node& node) const {
    check(static_cast<int64_t>(count) >= min && static_cast<int64_t>(count) <= max, &node, "got ",
          count, " ", what, ", but opset ", model_.opset, " takes ", min, " to ", max);
  }

  void verify_attributes(const Node& node, const OpSchema& schema) const {
    for (const Attribute& attribute : node.attributes) {
      const auto known =
          std::ranges::find(schema.attributes, attribute.name, &SchemaAttribute::name);
      check(known != schema.attributes.end(), &node, "opset ", model_.opset, " has no attribute ",
            attribute.name);
      check(known->kind == kind_of(attribute.value), &node, "attribute ", attribute.name,
            " does not have the kind that its schema requires");
    }
    for (const SchemaAttribute& attribute : schema.attributes) {
      check(!attribute.required || node.attribute(attribute.name), &node, "attribute ",
            attribute.name, " is missing");
    }
  }

  void verify_values(std::string_view what, const std::vector<Value*>& values,
                     std::span<const SchemaParameter> parameters, const Node& node, bool typed,
                     std::unordered_map<std::string_view, const Value*>& bound) const {
    using Option = SchemaParameter::Option;
    const size_t count = given(values);
    for (size_t i = 0; i < count; ++i) {
      const SchemaParameter& parameter = parameters[std::min(i, parameters.size() - 1)];
      const Value* value = values[i];
      if (!value) {
        // An unused output may be omitted at any position.
        check(parameter.option == Option::optional || what == "output", &node, what, " ",
              parameter.name, " is missing");
        continue;
      }
      if (!typed || value->kind != ValueKind::tensor || value->dtype == DType::undefined) continue;
      check(((parameter.types >> static_cast<unsigned>(DType(value->dtype))) & 1) != 0, &node, what,
            " ", parameter.name, " cannot be ", name(value->dtype), " at opset ", model_.opset);
      if (parameter.type_parameter.empty()) continue;
      if (parameter.option == Option::variadic && !parameter.homogeneous) continue;
      const Value* other = bound.emplace(parameter.type_parameter, value).first->second;
      check(other->dtype == value->dtype, &node, what, " ", parameter.name, " is ",
            name(value->dtype), ", but a value of the same type parameter is ", name(other->dtype));
    }
  }

  void verify_branches(const Node& node, bool typed) const {
    for (const std::string_view branch : {"then_branch", "else_branch"}) {
      const auto& body = std::get<std::shared_ptr<Graph>>(*node.attribute(branch));
      check(body->inputs.empty(), &node, branch, " has inputs");
      check(body->outputs.size() == node.outputs.size(), &node, branch, " has ",
            body->outputs.size(), " outputs");
      for (size_t i = 0; typed && i < node.outputs.size(); ++i) {
        check(!node.outputs[i] || node.outputs[i]->dtype == body->outputs[i]->dtype, &node, branch,
              " has a result whose dtype differs from the node's");
      }
    }
  }

  const Model& model_;
  std::string_view stage_;
  std::unordered_set<std::string_view> function_domains_;
  std::unordered_set<const Value*> defined_;
};

}  // namespace

void verify(const Model& model, std::string_view stage) {
  Verifier verifier(model, stage);
  verifier.verify_graph(*model.graph, true);
  for (const Function& function : model.functions) verifier.verify_graph(*function.body, false);
}

}  // namespace onnx_native::onnx
