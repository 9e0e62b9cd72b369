#include <unordered_set>

#include "aten/graph.h"

namespace onnx_native::aten {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, std::string_view stage) : graph_(graph), stage_(stage) {}

  void run() {
    for (const Value* input : graph_.inputs) make(*input, nullptr);
    for (const Constant& constant : graph_.constants) {
      make(*constant.value, nullptr);
      const Type& type = constant.value->type;
      if (type.dtype != constant.data.dtype || !type.shape ||
          type.shape->size() != constant.data.shape.size()) {
        error("the type of the constant %", constant.value->name, " does not match its data");
      }
    }
    for (const Node* node : graph_.nodes) {
      node_ = node;
      check(*node);
    }
    node_ = nullptr;
    for (const Argument& output : graph_.outputs) uses(output);
    for (const Mutation& mutation : graph_.mutations) {
      if (!mutation.value) error("the mutation of \"", mutation.target, "\" has no value");
      use(*mutation.value);
    }
  }

 private:
  template <class... Parts>
  [[noreturn]] void error(const Parts&... parts) const {
    std::string message = concat(stage_, ": ", parts...);
    if (node_) message += "\n  " + print(*node_, true);
    fail(ErrorKind::invalid_program, message);
  }

  void make(const Value& value, const Node* producer) {
    if (value.producer != producer) error("%", value.name, " has the wrong producer");
    if (!made_.insert(&value).second) error("%", value.name, " is defined twice");
    if (!names_.insert(value.name).second) error("two values are named %", value.name);
  }

  void use(const Value& value) const {
    if (!made_.contains(&value)) error("%", value.name, " is used before it is defined");
  }

  void uses(const Argument& argument) const {
    if (const Value* value = argument.as_value()) {
      use(*value);
    } else if (const auto* list = argument.get<Argument::List>()) {
      for (const Argument& item : *list) uses(item);
    } else if (const auto* sub_graph = argument.get<std::shared_ptr<Graph>>()) {
      verify(**sub_graph, stage_);
    }
  }

  void check(const Node& node) {
    for (const Argument& argument : node.arguments) uses(argument);
    if (node.schema) check_schema(node, *node.schema);
    for (const Value* output : node.outputs) make(*output, &node);
  }

  void check_schema(const Node& node, const Schema& schema) const {
    if (node.op != schema.key) error("the node has the schema of ", schema.key);
    if (schema.is_mutable()) error(node.op, " writes to its arguments");
    const size_t expected = schema.arguments.size();
    if (node.arguments.size() < expected) {
      error(node.op, " is missing the argument ", schema.arguments[node.arguments.size()].name);
    }
    if (node.arguments.size() > expected && !schema.varargs) error("too many arguments");
    for (size_t i = 0; i < expected; ++i) {
      const SchemaArgument& argument = schema.arguments[i];
      if (node.arguments[i].is_none() && !argument.type.optional && !argument.has_default &&
          argument.type.kind != TypeKind::other) {
        error("the argument ", argument.name, " is None");
      }
    }
    bool counted = true;
    for (const SchemaArgument& value : schema.returns) counted = counted && !value.type.list;
    if (counted && node.outputs.size() != schema.returns.size()) {
      error(node.op, " has ", schema.returns.size(), " results, not ", node.outputs.size());
    }
    for (size_t i = 0; counted && i < node.outputs.size(); ++i) {
      const Type::Kind kind = node.outputs[i]->type.kind;
      const TypeKind declared = schema.returns[i].type.kind;
      if (declared == TypeKind::tensor && kind != Type::Kind::tensor && kind != Type::Kind::none &&
          kind != Type::Kind::unknown) {
        error("%", node.outputs[i]->name, " must be a tensor according to its operator's schema");
      }
    }
  }

  const Graph& graph_;
  std::string_view stage_;
  const Node* node_ = nullptr;
  std::unordered_set<const Value*> made_;
  std::unordered_set<std::string_view> names_;
};

}  // namespace

void verify(const Graph& graph, std::string_view stage) { Verifier(graph, stage).run(); }

}  // namespace onnx_native::aten
