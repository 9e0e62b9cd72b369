#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "onnx/builder.h"
#include "onnx/infer.h"
#include "onnx/schema.h"
#include "onnx/typing.h"
#include "passes/compositions/compose.h"
#include "passes/compositions/importer_forms.h"
#include "passes/compositions/older_operators.h"
#include "passes/compositions/oldest_operators.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Graph;
using onnx::Node;

// The helpers that a rule needs to rewrite a node for `opset`.
class Older {
 public:
  Older(onnx::Model& model, int64_t opset) : builder_(model), opset_(opset) {}

  Builder& builder() { return builder_; }
  int64_t opset() const { return opset_; }

  template <class... Parts>
  void check(bool condition, const Node& node, const Parts&... parts) const {
    if (condition) return;
    Fault fault{.cause = concat(parts..., " at opset ", opset_, "; choose a newer opset"),
                .node = onnx::print(node)};
    if (node.location) fault.location = *node.location;
    throw ExportError(ErrorKind::unsupported, {std::move(fault)});
  }

  // Returns the elements of a constant integer input; throws if it is not constant.
  std::vector<int64_t> numbers(const Node& node, size_t input) const {
    const Value value = node.input(input);
    check(value->is_constant(), node, "input ", input, " of ", node.op_type, " must be a constant");
    return value->constant->integers();
  }
  void input_to_attribute(Node& node, size_t input, std::string_view name) const {
    if (!node.input(input)) return;
    node.attributes.push_back({std::string(name), numbers(node, input)});
    node.inputs.resize(input);
  }
  // Removes an attribute that has its default value; throws if it has another value.
  void drop_default(Node& node, std::string_view name, int64_t otherwise) const {
    check(node.attribute_int(name, otherwise) == otherwise, node, node.op_type, " has no ", name);
    drop(node, name);
  }
  void drop_default(Node& node, std::string_view name, std::string_view otherwise) const {
    check(node.attribute_string(name, otherwise) == otherwise, node, node.op_type, " has no ",
          name);
    drop(node, name);
  }
  static void drop(Node& node, std::string_view name) {
    std::erase_if(node.attributes, [name](const auto& each) { return each.name == name; });
  }

 private:
  Builder builder_;
  int64_t opset_;
};

// --- Operators whose inputs or attributes changed.

void axes(Node& node, Older& older) {
  Older::drop(node, "noop_with_empty_axes");
  older.input_to_attribute(node, 1, "axes");
}

void older_split(Node& node, Older& older) {
  const int64_t pieces = node.attribute_int("num_outputs", 0);
  Older::drop(node, "num_outputs");
  const int64_t axis = node.attribute_int("axis", 0);
  if (!node.input(1) && pieces > 0) {
    const auto size =
        node.inputs[0]->rank_or(-1) > 0 ? node.inputs[0]->dim(axis).constant() : std::nullopt;
    older.check(size && *size % pieces == 0, node, "Split cannot make pieces of unequal sizes");
  }
  if (older.opset() < 13) older.input_to_attribute(node, 1, "split");
}

void older_slice(Node& node, Older& older) {
  if (node.input(4)) {
    older.check(std::ranges::all_of(older.numbers(node, 4), [](int64_t n) { return n == 1; }), node,
                "Slice has no steps");
    node.inputs.resize(4);
  }
  if (node.input(3)) older.input_to_attribute(node, 3, "axes");
  node.inputs.resize(3);
  older.input_to_attribute(node, 2, "ends");
  older.input_to_attribute(node, 1, "starts");
}

// Shape with start or end becomes a slice of the whole shape.
void shape(Node& node, Older& older) {
  const auto rank = node.inputs[0]->rank_or(-1);
  const auto place = [&](std::string_view name, int64_t otherwise) {
    const int64_t axis = node.attribute_int(name, otherwise);
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  if (!node.attribute("start") && !node.attribute("end")) return;
  older.check(rank >= 0, node, "Shape cannot take some axes of a tensor of unknown rank");
  const int64_t start = place("start", 0);
  const int64_t end = place("end", rank);
  Graph& graph = *node.outputs[0]->graph;
  const Value whole = graph.insert_node(node.position, "Shape", {node.inputs[0]}, 1)->outputs[0];
  whole->producer->location = node.location;
  onnx::Typing::set(*whole, DType::i64, Shape{rank});
  Builder& b = older.builder();
  node.op_type = "Slice";
  node.attributes.clear();
  node.inputs = {whole, b.i64s({start}), b.i64s({end})};
  if (older.opset() < 10) older_slice(node, older);
}

// Without allowzero, a 0 in the new shape copies the input's size at that axis.
void older_reshape(Node& node, Older& older) {
  older.check(!needs_allowzero(node), node, "Reshape has no allowzero");
  Older::drop(node, "allowzero");
}

void older_resize(Node& node, Older& older) {
  older.drop_default(node, "antialias", 0);
  older.drop_default(node, "keep_aspect_ratio_policy", "stretch");
  older.check(!node.attribute("axes"), node, "Resize has no axes");
  if (older.opset() >= 13) return;
  // roi and scales are required inputs, but may be empty.
  for (size_t i = 1; i < 3; ++i) {
    if (node.input(i)) continue;
    node.inputs.resize(std::max(node.inputs.size(), i + 1));
    node.inputs[i] =
        older.builder().tensor(make_tensor(DType::f32, {0}, std::span<const double>()));
  }
}

void scatter(Node& node, Older& older) {
  const std::string reduction = node.attribute_string("reduction", "none");
  const bool newer = reduction == "min" || reduction == "max";
  older.check(older.opset() >= 16 ? !newer : reduction == "none", node, node.op_type,
              " has no reduction ", reduction);
  if (older.opset() < 16) Older::drop(node, "reduction");
}

// drop_default() says what the opset lacks where a composition did not apply.
void arg(Node& node, Older& older) { older.drop_default(node, "select_last_index", 0); }
void older_gather_nd(Node& node, Older& older) { older.drop_default(node, "batch_dims", 0); }
void training_mode(Node& node, Older& older) { older.drop_default(node, "training_mode", 0); }
void layout(Node& node, Older& older) { older.drop_default(node, "layout", 0); }

void quantization_axis(Node& node, Older& older) {
  older.check(node.inputs[1]->rank_or(-1) == 0, node, node.op_type, " takes only one scale");
  Older::drop(node, "axis");
}

// Before opset 16, RoiAlign has no mode attribute and uses "output_half_pixel".
void roi_align(Node& node, Older& older) {
  constexpr std::string_view kMode = "coordinate_transformation_mode";
  older.check(node.attribute_string(kMode, "half_pixel") == "output_half_pixel", node,
              "RoiAlign has no ", kMode);
  Older::drop(node, kMode);
}

// --- Before opset 11.

void older_clip(Node& node, Older& older) {
  constexpr std::string_view kNames[] = {"min", "max"};
  for (size_t i = 0; i < 2; ++i) {
    const Value limit = node.input(i + 1);
    if (!limit) continue;
    older.check(limit->is_constant(), node, "the limits of Clip must be constants");
    node.attributes.push_back({std::string(kNames[i]), limit->constant->number(0)});
  }
  node.inputs.resize(1);
}

void older_pad(Node& node, Older& older) {
  older.check(!node.input(3), node, "Pad has no axes");
  if (const Value value = node.input(2)) {
    older.check(value->is_constant(), node, "the value of Pad must be a constant");
    node.attributes.push_back({"value", value->constant->number(0)});
  }
  older.input_to_attribute(node, 1, "pads");
}

void older_top_k(Node& node, Older& older) {
  older.drop_default(node, "largest", 1);
  older.drop_default(node, "sorted", 1);
  if (older.opset() >= 10) return;
  const std::vector<int64_t> count = older.numbers(node, 1);
  older.check(count.size() == 1, node, "TopK takes one count");
  node.attributes.push_back({"k", count[0]});
  node.inputs.resize(1);
}

// Before opset 11, ONNX does not say which element is the nearest.
void upsample(Node& node, Older& older) {
  older.drop_default(node, "coordinate_transformation_mode", "asymmetric");
  older.drop_default(node, "nearest_mode", "floor");
  Older::drop(node, "cubic_coeff_a");
  older.check(node.inputs.size() == 3 && node.inputs[2], node, "Resize has no sizes");
  older.check(has_whole_scales(node), node, "Resize has no fractional scales");
  node.inputs = {node.inputs[0], node.inputs[2]};
  if (older.opset() < 10) node.op_type = "Upsample";
}

void scatter_elements(Node& node, Older& older) {
  scatter(node, older);
  node.op_type = "Scatter";
}

void older_depth_to_space(Node& node, Older& older) { older.drop_default(node, "mode", "DCR"); }

void pool(Node& node, Older& older) {
  older.drop_default(node, "ceil_mode", 0);
  const auto dilations = node.attribute_ints("dilations");
  older.check(!dilations || std::ranges::all_of(*dilations, [](int64_t n) { return n == 1; }), node,
              node.op_type, " has no dilations");
  Older::drop(node, "dilations");
}

// Counts the axes from the first one.
void count_axes(Node& node) {
  if (node.is_any({"LSTM", "GRU", "RNN", "OneHot", "If", "Loop", "Scan"})) return;
  const Value counted = node.is("Unsqueeze") ? node.outputs[0] : node.input(0);
  if (!counted || counted->rank_or(-1) < 0) return;
  const int64_t rank = counted->rank();
  const auto normalize = [&](int64_t& axis) {
    if (axis < 0) axis += rank;
  };
  for (onnx::Attribute& attribute : node.attributes) {
    if (attribute.name == "axis") normalize(std::get<int64_t>(attribute.value));
    if (attribute.name == "axes")
      std::ranges::for_each(std::get<std::vector<int64_t>>(attribute.value), normalize);
  }
}

// Slice of opset 10 has its axes as an input.
void count_axes_of_slice(Node& node, Older& older) {
  const Value axes = node.input(3);
  if (!axes || !axes->is_constant() || node.inputs[0]->rank_or(-1) < 0) return;
  std::vector<int64_t> numbers = axes->constant->integers();
  if (std::ranges::none_of(numbers, [](int64_t axis) { return axis < 0; })) return;
  for (int64_t& axis : numbers) axis = normalize_axis(axis, node.inputs[0]->rank());
  node.inputs[3] = older.builder().i64s(numbers);
}

struct Form {
  int64_t before;
  void (*write)(Node& node, Older& older);
};

const std::unordered_map<std::string_view, Form>& forms() {
  static const auto& table = *new std::unordered_map<std::string_view, Form>{
      {"ArgMax", {12, arg}},
      {"ArgMin", {12, arg}},
      {"BatchNormalization", {14, training_mode}},
      {"DequantizeLinear", {13, quantization_axis}},
      {"GRU", {14, layout}},
      {"GatherND", {12, older_gather_nd}},
      {"LSTM", {14, layout}},
      {"QuantizeLinear", {13, quantization_axis}},
      {"RNN", {14, layout}},
      {"ReduceL1", {18, axes}},
      {"ReduceL2", {18, axes}},
      {"ReduceLogSum", {18, axes}},
      {"ReduceLogSumExp", {18, axes}},
      {"ReduceMax", {18, axes}},
      {"ReduceMean", {18, axes}},
      {"ReduceMin", {18, axes}},
      {"ReduceProd", {18, axes}},
      {"ReduceSum", {13, axes}},
      {"ReduceSumSquare", {18, axes}},
      {"Reshape", {14, older_reshape}},
      {"Resize", {18, older_resize}},
      {"RoiAlign", {16, roi_align}},
      {"ScatterElements", {18, scatter}},
      {"ScatterND", {18, scatter}},
      {"Shape", {15, shape}},
      {"Split", {18, older_split}},
      {"Squeeze", {13, axes}},
      {"Unsqueeze", {13, axes}},
  };
  return table;
}

const std::unordered_map<std::string_view, Form>& oldest_forms() {
  static const auto& table = *new std::unordered_map<std::string_view, Form>{
      {"AveragePool", {10, pool}},
      {"Clip", {11, older_clip}},
      {"DepthToSpace", {11, older_depth_to_space}},
      {"MaxPool", {10, pool}},
      {"Pad", {11, older_pad}},
      {"Resize", {11, upsample}},
      {"ScatterElements", {11, scatter_elements}},
      {"Slice", {10, older_slice}},
      {"TopK", {11, older_top_k}},
  };
  return table;
}

bool makes(const onnx::OpSchema& schema, size_t output, DType dtype) {
  if (schema.outputs.empty()) return true;
  const uint32_t types = schema.outputs[std::min(output, schema.outputs.size() - 1)].types;
  const auto bit = static_cast<unsigned>(dtype);
  return types == 0 || (bit < 32 && (types >> bit & 1) != 0);
}

// Throws if the older opset does not have the operator, one of its attributes or a dtype.
void check_legal(const Node& node, const Older& older) {
  const onnx::OpSchema* schema = onnx::find_schema(node.op_type, older.opset());
  older.check(schema != nullptr, node, "ONNX has no ", node.op_type);
  for (const onnx::Attribute& attribute : node.attributes) {
    const auto known =
        std::ranges::find(schema->attributes, attribute.name, &onnx::SchemaAttribute::name);
    older.check(known != schema->attributes.end(), node, node.op_type, " has no ", attribute.name);
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Value input = node.inputs[i];
    older.check(!input || input->kind != onnx::ValueKind::tensor || schema->allows(i, input->dtype),
                node, node.op_type, " cannot take ",
                input ? name(input->dtype) : std::string_view());
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Value output = node.outputs[i];
    older.check(
        !output || output->kind != onnx::ValueKind::tensor || makes(*schema, i, output->dtype),
        node, node.op_type, " cannot return ", output ? name(output->dtype) : std::string_view());
  }
}

}  // namespace

// Lowerings and passes emit operators of opset 18 or newer. This pass rewrites them in the form of
// an older opset, and composes newer operators from older ones. A composition may use operators
// that are newer than the opset itself, or in a form that the target's importer does not take.
void express_in_opset(onnx::Model& model, int64_t opset) {
  const bool is_older = opset < model.opset;
  if (is_older || has_importer_forms(model.target)) {
    compose(model, [&](const Node& node) {
      const Composer composer = is_older ? composition(node, opset) : nullptr;
      return composer ? composer : importer_form(node, model.target, opset);
    });
  }
  if (!is_older) return;
  Older older(model, opset);
  const auto write = [&](Graph& graph) {
    for (Node* node : graph.nodes) {
      if (!node->domain.empty()) continue;
      for (const auto* table : {&oldest_forms(), &forms()}) {
        const auto form = table->find(node->op_type);
        if (form == table->end() || opset >= form->second.before) continue;
        form->second.write(*node, older);
        break;
      }
      if (opset < 11) count_axes(*node);
      older.check(opset >= 11 || !node->is("Loop") || node->inputs.size() > 2, *node,
                  "Loop needs a loop-carried value");
      if (opset == 10 && node->is("Slice")) count_axes_of_slice(*node, older);
      check_legal(*node, older);
    }
  };
  onnx::for_each_graph(*model.graph, write);
  for (onnx::Function& function : model.functions) onnx::for_each_graph(*function.body, write);
  eliminate_dead_code(model);
  model.opset = opset;
}

}  // namespace onnx_native::passes
