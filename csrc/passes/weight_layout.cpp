#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/device_weight.h"
#include "base/transposed.h"
#include "base/weight.h"
#include "base/weight_names.h"
#include "onnx/typing.h"
#include "passes/passes.h"
#include "passes/quantize_weights.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Graph;
using onnx::Node;
using onnx::Value;
using Ints = std::vector<int64_t>;

// Returns true for a matrix, or a stack of matrices, of elements that products take.
bool may_be_weight(const Value& value) {
  const DType dtype = value.dtype;
  if (!is_floating(dtype) && dtype != DType::i8 && dtype != DType::u8) return false;
  return value.rank() >= 2 && value.constant->numel() > 0;
}

// Returns true for a Transpose of the last two axes.
bool is_matrix_transpose(const Node& node) {
  if (!node.is("Transpose")) return false;
  const auto perm = node.attribute_ints("perm");
  const int64_t rank = node.inputs[0]->rank_or(-1);
  if (!perm) return rank == 2;
  Ints swapped(perm->size());
  for (size_t i = 0; i < swapped.size(); ++i) swapped[i] = static_cast<int64_t>(i);
  std::swap(swapped.end()[-1], swapped.end()[-2]);
  return *perm == swapped;
}

bool converts(const Node& node) { return node.is("Cast") || node.is("DequantizeLinear"); }

// Returns true if the results are matrices, or parts of them, of the stack that is the first input.
bool selects(const Node& node) {
  return node.is("Gather") || node.is("Slice") || node.is("Split") || node.is("Squeeze") ||
         node.is("Unsqueeze");
}

// A node input, or an output of a graph (nullptr).
struct Use {
  Node* node;
  size_t index;
};

// The uses of matrices, of their transposes, and of what nodes convert or select from these.
class MatrixUses {
 public:
  explicit MatrixUses(Graph& main) {
    onnx::for_each_graph(main, [this](const Graph& graph) {
      for (const Value* value : graph.initializers) {
        if (may_be_weight(*value)) uses_[value];
      }
      for (Node* node : graph.nodes) add(*node);
      for (const Value* output : graph.outputs) add(output, {nullptr, 0});
    });
  }

  const std::vector<Use>& of(const Value* value) const { return uses_.at(value); }

 private:
  bool add(const Value* value, Use use) {
    const auto found = uses_.find(value);
    if (found == uses_.end()) return false;
    found->second.push_back(use);
    return true;
  }
  void add(Node& node) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!add(node.inputs[i], {&node, i}) || i != 0) continue;
      const bool is_turned = turned_.contains(node.inputs[0]);
      const bool turns = !is_turned && is_matrix_transpose(node);
      if (!turns && !converts(node) && !(is_turned && selects(node))) continue;
      for (const Value* output : node.outputs) {
        if (!output) continue;
        uses_[output];
        if (turns || is_turned) turned_.insert(output);
      }
    }
  }

  std::unordered_map<const Value*, std::vector<Use>> uses_;
  std::unordered_set<const Value*> turned_;  // transposes, and what follows from them
};

// Returns the attribute `axis` of a DequantizeLinear of a matrix with one scale per row, column or
// block, or nullopt.
std::optional<int64_t> quantized_axis(const Node& node) {
  if (node.inputs[1]->rank_or(-1) < 1 || node.inputs[0]->rank() != 2) return std::nullopt;
  const int64_t axis = node.attribute_int("axis", 1);
  return axis < 0 ? axis + 2 : axis;
}

// How the nodes of a model use a matrix.
struct Roles {
  std::vector<Node*> conversions;  // Cast, DequantizeLinear; their results have the other roles
  std::vector<Node*> transposes;   // only products use the results
  std::vector<Use> gemms;
  std::vector<Node*> gathers;  // of rows
  bool has_transposing_gemm = false;
  bool has_others = false;
};

bool is_product(const Use& use) {
  return use.node && use.index < 2 && use.node->is_any({"Gemm", "MatMul", "MatMulInteger"});
}

bool is_convertible(const Node& node) {
  if (node.is("Cast")) return true;
  if (!node.is("DequantizeLinear")) return false;
  if (node.attribute_int("block_size", 0) != 0) return node.inputs[0]->rank_or(-1) == 2;
  return node.inputs[1]->rank_or(-1) == 0 || quantized_axis(node);
}

bool gathers_rows(const Use& use) {
  if (!use.node->is("Gather") || use.index != 0) return false;
  const int64_t axis = use.node->attribute_int("axis", 0);
  return (axis == 0 || axis == -2) && use.node->inputs[1]->rank_or(-1) >= 0;
}

// Returns true if products use the transpose, converted or in parts, and nothing else does.
bool only_products_use(const Value* turned, const MatrixUses& uses) {
  const auto serves_product = [&uses](const Use& use) {
    if (is_product(use)) return true;
    if (!use.node || use.index != 0 || !(converts(*use.node) || selects(*use.node))) return false;
    return std::ranges::all_of(use.node->outputs, [&uses](const Value* output) {
      return !output || only_products_use(output, uses);
    });
  };
  return !uses.of(turned).empty() && std::ranges::all_of(uses.of(turned), serves_product);
}

void add_roles(const Value& value, const MatrixUses& uses, Roles& roles) {
  for (const Use& use : uses.of(&value)) {
    Node* node = use.node;
    if (!node) {
      roles.has_others = true;
      continue;
    }
    if (is_matrix_transpose(*node) && only_products_use(node->outputs[0], uses)) {
      roles.transposes.push_back(node);
    } else if (node->is("Gemm") && use.index < 2) {
      roles.gemms.push_back(use);
      roles.has_transposing_gemm |= use.index == 1 && node->attribute_int("transB", 0) != 0;
    } else if (value.rank() == 2 && gathers_rows(use)) {
      roles.gathers.push_back(node);
    } else if (use.index == 0 && is_convertible(*node)) {
      roles.conversions.push_back(node);
      add_roles(*node->outputs[0], uses, roles);
    } else {
      roles.has_others = true;
    }
  }
}

// Returns true if the transposed matrix serves all uses better. ORT's quantizers transpose the
// weight of a Gemm in place, so a Gemm with transB must not share it.
bool is_better_transposed(const Roles& roles) {
  if (roles.has_others) return false;
  const bool is_shared = roles.gemms.size() + roles.gathers.size() > 1;
  return !roles.transposes.empty() || (roles.has_transposing_gemm && is_shared);
}

template <class Sizes>
Sizes swapped(Sizes sizes) {
  std::swap(sizes.end()[-1], sizes.end()[-2]);
  return sizes;
}

Value* add_transposed(const Value& weight) {
  TensorData turned = transposed_constant(*weight.constant);
  Value* added =
      weight.graph->add_initializer(transposed_name(weight.name, weight.rank()), std::move(turned));
  added->named = weight.named;
  return added;
}

using Replacements = std::unordered_map<const Value*, Value*>;

// Replaces the uses of matrices by uses of their transposes.
class Turn {
 public:
  Turn(onnx::Model& model, Replacements& replacements)
      : model_(model), replacements_(replacements) {}

  // Makes products use the transposes, also through conversions, and embeddings gather columns.
  void apply(const std::vector<const Value*>& weights, const Roles& roles) {
    for (const Value* weight : weights) turned_[weight] = add_transposed(*weight);
    for (Node* node : roles.conversions) convert(*node);
    for (Node* node : roles.transposes) {
      replacements_[node->outputs[0]] = turned_.at(node->inputs[0]);
    }
    for (const Use& use : roles.gemms) turn_gemm(*use.node, use.index);
    if (keeps_tables(weights, roles)) return;
    for (Node* node : roles.gathers) gather(*node);
  }

  // Makes all uses take a Transpose of the transpose.
  void apply(const Value& weight) {
    Graph& graph = *weight.graph;
    Ints perm(static_cast<size_t>(weight.rank()));
    std::iota(perm.begin(), perm.end(), 0);
    const Node* node = graph.insert_node(graph.nodes.begin(), "Transpose", {add_transposed(weight)},
                                         1, {{"perm", swapped(std::move(perm))}});
    onnx::Typing::set(*node->outputs[0], weight.dtype, weight.known_shape());
    replacements_[&weight] = node->outputs[0];
  }

 private:
  void convert(const Node& node) {
    Value* output = node.outputs[0];
    std::vector<Value*> inputs = node.inputs;
    inputs[0] = turned_.at(inputs[0]);
    for (size_t i = 1; i < inputs.size(); ++i) inputs[i] = turned_parameter(node, inputs[i]);
    Node* made = output->graph->insert_node(node.position, node.op_type, std::move(inputs), 1,
                                            node.attributes);
    made->location = node.location;
    if (const auto axis = node.is("Cast") ? std::nullopt : quantized_axis(node)) {
      std::erase_if(made->attributes, [](const auto& each) { return each.name == "axis"; });
      made->attributes.push_back({"axis", 1 - *axis});
    }
    onnx::Typing::set(*made->outputs[0], output->dtype, swapped(output->known_shape()));
    turned_[output] = made->outputs[0];
  }

  // Returns the scales or zero points of blocks of the transposed matrix.
  Value* turned_parameter(const Node& node, Value* value) {
    if (value->rank_or(-1) != 2) return value;
    if (value->is_constant()) return add_transposed(*value);
    const Node* cast = value->producer;
    if (!cast || !cast->is("Cast") || !cast->inputs[0]->is_constant())
      return insert(node, "Transpose", {value}, {{"perm", Ints{1, 0}}});
    return insert(node, "Cast", {add_transposed(*cast->inputs[0])}, cast->attributes);
  }

  void turn_gemm(Node& node, size_t index) {
    const char* name = index == 0 ? "transA" : "transB";
    const bool was_set = node.attribute_int(name, 0) != 0;
    std::erase_if(node.attributes, [&](const auto& each) { return each.name == name; });
    if (!was_set) node.attributes.push_back({name, 1});
    node.inputs[index] = turned_.at(node.inputs[index]);
  }

  // Returns true if the products will have quantized weights of their own.
  bool keeps_tables(const std::vector<const Value*>& weights, const Roles& roles) const {
    if (model_.quantization.bits == 0 || roles.transposes.empty()) return false;
    return std::ranges::all_of(roles.transposes, [&](const Node* node) {
      return std::ranges::none_of(
          weights, [&](const Value* weight) { return is_left_out(model_, *node, *weight); });
    });
  }

  // Columns of the transpose are rows of the matrix. ONNX Runtime's Gather of columns takes up to
  // 40 times as long as its GatherElements.
  void gather(Node& node) {
    Value* table = turned_.at(node.inputs[0]);
    Value* indices = node.inputs[1];
    const auto size = table->dim(0).constant();
    const bool has_allowzero = model_.final_opset.value_or(model_.opset) >= 14;
    if (!size || !has_allowzero || indices->rank() == 0) return turn_result(node);
    Value* flat = insert(node, "Reshape", {indices, integers({1, -1})});
    Value* wide = insert(node, "Expand", {flat, integers({*size, 1})});
    Value* columns = insert(node, "GatherElements", {table, wide}, {{"axis", int64_t{1}}});
    Value* rows = insert(node, "Transpose", {columns}, {{"perm", Ints{1, 0}}});
    Value* sizes = insert(node, "Shape", {indices});
    sizes = insert(node, "Concat", {sizes, integers({*size})}, {{"axis", int64_t{0}}});
    node.op_type = "Reshape";
    node.inputs = {rows, sizes};
    node.attributes = {{"allowzero", int64_t{1}}};
  }

  void turn_result(Node& node) {
    Value* indices = node.inputs[1];
    Value* columns =
        insert(node, "Gather", {turned_.at(node.inputs[0]), indices}, {{"axis", int64_t{1}}});
    Ints perm;
    for (int64_t axis = 1; axis <= indices->rank(); ++axis) perm.push_back(axis);
    perm.push_back(0);
    node.op_type = "Transpose";
    node.inputs = {columns};
    node.attributes = {{"perm", std::move(perm)}};
  }

  Value* integers(const Ints& values) { return model_.graph->add_integers(values); }
  Value* insert(const Node& at, std::string_view op_type, std::vector<Value*> inputs,
                std::vector<onnx::Attribute> attributes = {}) {
    return insert_before(model_, at, op_type, std::move(inputs), std::move(attributes));
  }

  onnx::Model& model_;
  Replacements& replacements_;  // of results of Transpose nodes
  Replacements turned_;         // of weights and what is converted from them
};

// Initializers over the same memory, which is stored once: tied weights may have several names.
struct Matrix {
  std::vector<const Value*> weights;
  Roles roles;
};

std::vector<Matrix> find_matrices(Graph& main) {
  const MatrixUses uses(main);
  std::vector<Matrix> matrices;
  // By address and number of elements: a stack begins where its first part does.
  std::map<std::pair<const std::byte*, int64_t>, size_t> known;
  onnx::for_each_graph(main, [&](const Graph& graph) {
    for (const Value* value : graph.initializers) {
      if (!may_be_weight(*value)) continue;
      const std::pair memory(value->constant->data, value->constant->numel());
      const auto [found, is_new] = known.emplace(memory, matrices.size());
      if (is_new) matrices.emplace_back();
      Matrix& matrix = matrices[found->second];
      matrix.weights.push_back(value);
      add_roles(*value, uses, matrix.roles);
    }
  });
  return matrices;
}

// Where the elements of a matrix are, its shape and its strides.
using Layout = std::tuple<const std::byte*, Ints, Ints>;

Layout layout_of(const TensorData& data) { return {place_of(data), data.shape, data.strides}; }

bool is_in_memory(const TensorData& data) {
  return !data.scale && !is_on_demand(data) && has_elements(&data);
}

// The matrices that models store transposed.
std::set<Layout> transposes_in(std::span<onnx::Model* const> models) {
  std::set<Layout> found;
  for (const onnx::Model* model : models) {
    onnx::for_each_graph(*model->graph, [&found](const Graph& graph) {
      for (const Value* value : graph.initializers) {
        const TensorData& data = *value->constant;
        if (!data.strides.empty() && is_in_memory(data)) found.insert(layout_of(data));
      }
    });
  }
  return found;
}

int64_t turn_those_in(const std::set<Layout>& transposes, onnx::Model& model) {
  const auto is_elsewhere = [&](const Value* weight) {
    const TensorData& data = *weight->constant;
    return data.is_contiguous() && is_in_memory(data) &&
           std::ranges::count(model.graph->outputs, weight) == 0 &&
           transposes.contains(layout_of(transposed_view(data)));
  };
  Replacements replacements;
  Turn turn(model, replacements);
  int64_t changes = 0;
  for (const Matrix& matrix : find_matrices(*model.graph)) {
    const auto turned = std::ranges::count_if(matrix.weights, is_elsewhere);
    changes += turned;
    if (turned > 0 && turned == std::ssize(matrix.weights) && !matrix.roles.has_others) {
      turn.apply(matrix.weights, matrix.roles);
      continue;
    }
    for (const Value* weight : matrix.weights) {
      if (is_elsewhere(weight)) turn.apply(*weight);
    }
  }
  onnx::replace_uses(*model.graph, replacements);
  return changes;
}

}  // namespace

// A matrix that the model only uses transposed, in products, is stored transposed: MatMul(x,
// Transpose(w)) becomes MatMul(x, "w.T"). The initializer is a view of the same memory. An
// embedding that shares the matrix with products gathers columns instead of rows. A matrix of
// Gemm(transB=1) alone stays.
int64_t lay_out_weights(onnx::Model& model) {
  if (model.weights == WeightLayout::module) return 0;
  const std::vector<Matrix> matrices = find_matrices(*model.graph);
  Replacements replacements;
  Turn turn(model, replacements);
  int64_t changes = 0;
  for (const Matrix& matrix : matrices) {
    if (!is_better_transposed(matrix.roles)) continue;
    turn.apply(matrix.weights, matrix.roles);
    ++changes;
  }
  onnx::replace_uses(*model.graph, replacements);
  return changes;
}

// A matrix that one of the models stores transposed is stored so by all of them, if they have the
// runtime's layout. A model in which something else than products and embeddings uses the matrix
// gets a Transpose node.
int64_t share_layouts(std::span<onnx::Model* const> models) {
  const std::set<Layout> transposes = transposes_in(models);
  int64_t changes = 0;
  for (onnx::Model* model : models) {
    if (model->weights == WeightLayout::module) continue;
    const int64_t turned = turn_those_in(transposes, *model);
    if (turned == 0) continue;
    changes += turned;
    eliminate_dead_code(*model);
    onnx::assign_names(*model);
  }
  return changes;
}

}  // namespace onnx_native::passes
