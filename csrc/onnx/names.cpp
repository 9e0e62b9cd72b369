#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/weight.h"
#include "onnx/graph.h"

namespace onnx_native::onnx {
namespace {

constexpr int64_t kNamedElements = 4;  // the maximum number of elements in a constant's name

// Keeps names unique.
class Names {
 public:
  // Returns false if the name is taken.
  bool take(const std::string& name) { return taken_.insert(name).second; }
  // Returns the name itself if it is free, else with the first free number appended.
  std::string claim(const std::string& wanted) {
    if (take(wanted)) return wanted;
    int64_t& next = next_.try_emplace(wanted, 1).first->second;
    while (true) {
      std::string name = fmt::format("{}_{}", wanted, next++);
      if (take(name)) return name;
    }
  }

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int64_t> next_;
};

std::string element_text(const TensorData& data, int64_t i) {
  switch (data.dtype) {
    case DType::boolean:
      return data.integer(i) != 0 ? "True" : "False";
    case DType::u64:
      return fmt::format("{}", static_cast<uint64_t>(data.integer(i)));
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return fmt::format("{}", static_cast<float>(data.number(i)));
    case DType::f64:
      return fmt::format("{}", data.number(i));
    default:
      return fmt::format("{}", data.integer(i));
  }
}

// Returns "const_2_i64" or "const_[2,3]_i64" for a small constant that cannot change; else an empty
// text.
std::string name_of_elements(const TensorData& data) {
  const bool is_plain = is_integral(data.dtype) || data.dtype == DType::boolean ||
                        data.dtype == DType::f32 || data.dtype == DType::f64 ||
                        data.dtype == DType::f16 || data.dtype == DType::bf16;
  if (!is_plain || data.shape.size() > 1 || data.numel() > kNamedElements || can_change(data))
    return "";
  std::string elements;
  for (int64_t i = 0; i < data.numel(); ++i) {
    if (i > 0) elements += ',';
    elements += element_text(data, i);
  }
  if (data.shape.size() == 1) elements = "[" + elements + "]";
  return fmt::format("const_{}_{}", elements, name(data.dtype));
}

// Returns the name of the call that a node belongs to.
std::string call_of(const Node& node) {
  return node.location && !node.location->node.empty() ? node.location->node : "val";
}

class Naming {
 public:
  explicit Naming(Graph& graph) : graph_(graph) {}

  void run() {
    for_each_value([this](Value* value) {
      if (value->named && done_.insert(value).second) value->name = values_.claim(value->name);
    });
    for_each_value([this](Value* value) { take(*value); });
    for (Value* value : later_) value->name = values_.claim(value->name);
    for_each_graph(graph_, [this](Graph& part) { name_rest(part); });
    Names nodes;
    for_each_graph(graph_, [&nodes](Graph& part) {
      for (Node* node : part.nodes)
        node->name = nodes.claim(node->name.empty() ? node_name(*node) : node->name);
    });
  }

 private:
  // Outer graphs first, and in each graph its interface before the results of nodes.
  template <class Visit>
  void for_each_value(const Visit& visit) {
    for_each_graph(graph_, [&visit](Graph& part) {
      for (Value* value : part.inputs) visit(value);
      for (Value* value : part.outputs) visit(value);
      for (Value* value : part.initializers) visit(value);
    });
    for_each_graph(graph_, [&visit](Graph& part) {
      for (Node* node : part.nodes) {
        for (Value* value : node->outputs) {
          if (value) visit(value);
        }
      }
    });
  }

  // Takes the program's name of a value. Those that are taken come after all others, so that they
  // do not displace any.
  void take(Value& value) {
    if (value.name.empty() || !done_.insert(&value).second) return;
    if (!values_.take(value.name)) later_.push_back(&value);
  }

  void name_rest(Graph& part) {
    for (Value* value : part.initializers) {
      if (done_.contains(value)) continue;
      const std::string name = name_of_elements(*value->constant);
      if (name.empty()) continue;
      done_.insert(value);
      value->name = values_.claim(name);
    }
    for (Value* value : part.inputs) name_helper(*value, "x");
    for (Node* node : part.nodes) {
      for (Value* input : node->inputs) {
        if (input && input->constant) name_helper(*input, call_of(*node) + "_constant");
      }
      for (Value* output : node->outputs) {
        if (output) name_helper(*output, call_of(*node) + "_" + node->op_type);
      }
    }
    for (Value* value : part.initializers) name_helper(*value, "constant");
  }

  void name_helper(Value& value, const std::string& name) {
    if (done_.insert(&value).second) value.name = values_.claim(name);
  }

  // Returns "node_" and the program's name of the first result.
  static std::string node_name(const Node& node) {
    for (const Value* output : node.outputs) {
      if (!output) continue;
      return "node_" + (output->named ? call_of(node) : output->name);
    }
    return "node_" + node.op_type;
  }

  Graph& graph_;
  Names values_;
  std::unordered_set<const Value*> done_;
  std::vector<Value*> later_;
};

}  // namespace

void assign_names(Model& model) {
  Naming(*model.graph).run();
  for (Function& function : model.functions) Naming(*function.body).run();
}

}  // namespace onnx_native::onnx
