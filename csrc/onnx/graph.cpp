#include "onnx/graph.h"

#include <algorithm>
#include <unordered_set>

#include "base/weight.h"
#include "onnx/typing.h"

namespace onnx_native::onnx {

void fail_unknown_rank() {
  fail(ErrorKind::unsupported, "the rank of a tensor is unknown; specify the sizes of the inputs");
}

void fail_out_of_range(int64_t axis, int64_t rank) {
  fail(ErrorKind::unsupported, "dimension ", axis, " is out of range for a ", rank, "-D tensor");
}

const AttributeValue* Node::attribute(std::string_view name) const {
  for (const Attribute& attribute : attributes) {
    if (attribute.name == name) return &attribute.value;
  }
  return nullptr;
}

bool Node::is_any(std::initializer_list<std::string_view> standard_ops) const {
  return domain.empty() && std::ranges::find(standard_ops, op_type) != standard_ops.end();
}

int64_t Node::attribute_int(std::string_view name, int64_t otherwise) const {
  const AttributeValue* value = attribute(name);
  if (!value) return otherwise;
  if (const auto* dtype = std::get_if<DType>(value)) return static_cast<int64_t>(*dtype);
  const auto* integer = std::get_if<int64_t>(value);
  require(integer, op_type, ": attribute ", name, " is not an integer");
  return *integer;
}

std::string Node::attribute_string(std::string_view name, std::string_view otherwise) const {
  const AttributeValue* value = attribute(name);
  if (!value) return std::string(otherwise);
  const auto* text = std::get_if<std::string>(value);
  require(text, op_type, ": attribute ", name, " is not a string");
  return *text;
}

double Node::attribute_float(std::string_view name, double otherwise) const {
  const AttributeValue* value = attribute(name);
  if (!value) return otherwise;
  const auto* number = std::get_if<double>(value);
  require(number, op_type, ": attribute ", name, " is not a float");
  return *number;
}

std::optional<std::vector<int64_t>> Node::attribute_ints(std::string_view name) const {
  const AttributeValue* value = attribute(name);
  if (!value) return std::nullopt;
  const auto* integers = std::get_if<std::vector<int64_t>>(value);
  require(integers, op_type, ": attribute ", name, " is not a list of integers");
  return *integers;
}

Graph::~Graph() = default;

Value* Graph::add_value(DType dtype, std::optional<Shape> shape) {
  auto value = std::make_unique<Value>();
  Typing::set(*value, dtype, std::move(shape));
  value->graph = this;
  values_.push_back(std::move(value));
  Value* added = values_.back().get();
  value_positions_.emplace(added, std::prev(values_.end()));
  return added;
}

Value* Graph::add_input(std::string_view name, DType dtype, std::optional<Shape> shape) {
  Value* value = add_value(dtype, std::move(shape));
  value->name = name;
  value->named = !name.empty() && !outer_;
  inputs.push_back(value);
  return value;
}

Value* Graph::add_initializer(std::string_view name, TensorData data) {
  if (outer_) return outer_->add_initializer(name, std::move(data));
  Value* value = add_value(data.dtype, Shape(data.shape.begin(), data.shape.end()));
  value->name = name;
  value->named = !name.empty();
  value->constant =
      constants_.emplace(value, std::make_unique<TensorData>(std::move(data))).first->second.get();
  if (is_integral(value->dtype) && value->rank() <= 1 &&
      value->constant->numel() <= kLargestContents && has_elements(value->constant)) {
    const std::vector<int64_t> elements = value->constant->integers();
    // A Dim cannot hold the upper half of uint64.
    const bool fit = value->dtype != DType::u64 ||
                     std::ranges::none_of(elements, [](int64_t element) { return element < 0; });
    if (fit) Typing::set_contents(*value, Shape(elements.begin(), elements.end()));
  }
  initializers.push_back(value);
  return value;
}

Value* Graph::add_integers(std::span<const int64_t> elements) {
  return add_initializer(
      "", make_tensor(DType::i64, {static_cast<int64_t>(elements.size())}, elements));
}

Node* Graph::add_node(std::string_view op_type, std::vector<Value*> inputs, size_t outputs,
                      std::vector<Attribute> attributes, std::string_view domain) {
  return insert_node(nodes.end(), op_type, std::move(inputs), outputs, std::move(attributes),
                     domain);
}

Node* Graph::insert_node(std::list<Node*>::iterator before, std::string_view op_type,
                         std::vector<Value*> inputs, size_t outputs,
                         std::vector<Attribute> attributes, std::string_view domain) {
  auto node = std::make_unique<Node>();
  node->op_type = op_type;
  node->domain = domain;
  node->inputs = std::move(inputs);
  node->attributes = std::move(attributes);
  for (size_t i = 0; i < outputs; ++i) {
    Value* output = add_value();
    output->producer = node.get();
    node->outputs.push_back(output);
  }
  Node* added = node.get();
  added->position = nodes.insert(before, added);
  node_storage_.emplace(added, std::move(node));
  return added;
}

void Graph::adopt_bodies(const Node& node) {
  for (const Attribute& attribute : node.attributes) {
    if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.value)) {
      (*body)->outer_ = this;
    }
  }
}

void Graph::take_over(Graph& from, std::list<Node*>::iterator before) {
  for (const auto& value : from.values_) value->graph = this;
  for (const Node* node : from.nodes) adopt_bodies(*node);
  nodes.splice(before, from.nodes);
  values_.splice(values_.end(), from.values_);
  value_positions_.merge(from.value_positions_);
  node_storage_.merge(from.node_storage_);
  constants_.merge(from.constants_);
  initializers.insert(initializers.end(), from.initializers.begin(), from.initializers.end());
  from.initializers.clear();
  inputs.insert(inputs.end(), from.inputs.begin(), from.inputs.end());
  from.inputs.clear();
}

void Graph::take_over(Graph& from, Node* node) {
  adopt_bodies(*node);
  nodes.splice(nodes.end(), from.nodes, node->position);
  node_storage_.insert(from.node_storage_.extract(node));
  for (Value* output : node->outputs) {
    if (!output || output->graph != &from) continue;
    output->graph = this;
    auto moved = from.value_positions_.extract(output);
    values_.splice(values_.end(), from.values_, moved.mapped());
    value_positions_.insert(std::move(moved));
  }
}

void Graph::erase_value(const Value* value) {
  const auto found = value_positions_.find(value);
  require(found != value_positions_.end(), "cannot erase a value that is not in the graph");
  constants_.erase(value);
  values_.erase(found->second);
  value_positions_.erase(found);
}

void Graph::erase(Node* node) {
  for (const Value* output : node->outputs) {
    if (output) erase_value(output);
  }
  nodes.erase(node->position);
  node_storage_.erase(node);
}

size_t Graph::erase_initializers(const std::function<bool(const Value&)>& unwanted) {
  const auto kept = std::stable_partition(initializers.begin(), initializers.end(),
                                          [&](const Value* value) { return !unwanted(*value); });
  const size_t erased = static_cast<size_t>(initializers.end() - kept);
  for (auto it = kept; it != initializers.end(); ++it) erase_value(*it);
  initializers.erase(kept, initializers.end());
  return erased;
}

void for_each_graph(Graph& graph, const std::function<void(Graph&)>& visit) {
  visit(graph);
  for (Node* node : graph.nodes) {
    for (const Attribute& attribute : node->attributes) {
      if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.value)) {
        for_each_graph(**body, visit);
      }
    }
  }
}

namespace {

// Reads each node once: in a large graph, most of the time is for memory.
void add_uses(const Graph& graph, std::unordered_map<const Value*, int64_t>& uses) {
  for (const Node* node : graph.nodes) {
    for (const Value* input : node->inputs) {
      if (input) ++uses[input];
    }
    for (const Attribute& attribute : node->attributes) {
      if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.value))
        add_uses(**body, uses);
    }
  }
  for (const Value* output : graph.outputs) ++uses[output];
}

}  // namespace

UseCounts count_uses(Graph& graph) {
  std::unordered_map<const Value*, int64_t> uses;
  uses.reserve(graph.nodes.size());
  add_uses(graph, uses);
  return uses;
}

void replace_uses(Graph& graph, const std::unordered_map<const Value*, Value*>& replacements) {
  if (replacements.empty()) return;
  std::unordered_map<const Value*, Value*> resolved;
  std::vector<const Value*> chain;
  const auto resolve = [&](Value*& use) {
    Value* target = use;
    chain.clear();
    while (true) {
      if (const auto known = resolved.find(target); known != resolved.end()) {
        target = known->second;
        break;
      }
      const auto next = replacements.find(target);
      if (next == replacements.end()) break;
      chain.push_back(target);
      require(chain.size() <= replacements.size(), "the replacements of values form a cycle");
      target = next->second;
    }
    for (const Value* link : chain) resolved[link] = target;
    use = target;
  };
  for_each_graph(graph, [&](Graph& part) {
    for (Node* node : part.nodes) {
      for (Value*& input : node->inputs) {
        if (input) resolve(input);
      }
    }
    for (Value*& output : part.outputs) resolve(output);
  });
}

}  // namespace onnx_native::onnx
