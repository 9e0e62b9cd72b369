#include "writer/messages.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <span>
#include <string_view>
#include <unordered_set>

#include "base/device_weight.h"
#include "base/packed.h"
#include "onnx/onnx_onnx_native_pb-ml.pb.h"
#include "writer/node_metadata.h"

namespace onnx_native::writer {
namespace {

namespace pb = ::onnx_native_pb;

// In bytes. Smaller tensors are copied into a message, larger ones are referenced.
constexpr int64_t kCopyBelow = 4096;

// {opset, IR version}: the first opset that needs each IR version (onnx.helper.VERSION_TABLE).
constexpr std::pair<int64_t, int64_t> kIrVersions[] = {
    {28, 14}, {25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9},
    {15, 8},  {12, 7},  {11, 6},  {10, 5},  {9, 4},   {1, 3},
};

// The first IR version in which functions have value_info.
constexpr int64_t kTypedFunctions = 10;

int64_t ir_version(const onnx::Model& model) {
  int64_t version = 3;
  for (const auto& [opset, ir] : kIrVersions) {
    if (model.opset >= opset) {
      version = ir;
      break;
    }
  }
  // IR version 4 allows initializers that are not inputs; version 8 adds functions.
  return std::max<int64_t>(version, model.functions.empty() ? 4 : 8);
}

void write_shape(const std::optional<Shape>& shape, bool names, pb::TypeProto_Tensor& type) {
  if (!shape) return;
  pb::TensorShapeProto* to = type.mutable_shape();
  for (const Dim& dim : *shape) {
    pb::TensorShapeProto_Dimension* written = to->add_dim();
    if (const auto size = dim.constant()) {
      written->set_dim_value(*size);
    } else if (names) {
      written->set_dim_param(dim.str());
    }
  }
}

void write_type(const onnx::Value& value, bool names, pb::TypeProto& type) {
  pb::TypeProto* element = &type;
  if (value.kind == onnx::ValueKind::sequence) {
    element = type.mutable_sequence_type()->mutable_elem_type();
  } else if (value.kind == onnx::ValueKind::optional) {
    element = type.mutable_optional_type()->mutable_elem_type();
  }
  element->mutable_tensor_type()->set_elem_type(static_cast<int>(DType(value.dtype)));
  write_shape(value.shape, names, *element->mutable_tensor_type());
}

void write_value_info(const onnx::Value& value, bool names, pb::ValueInfoProto& info) {
  require(!value.name.empty(), "cannot write a value without a name");
  info.set_name(value.name);
  if (value.dtype != DType::undefined) write_type(value, names, *info.mutable_type());
}

void write_raw(const TensorData& data, std::string& to) {
  to.reserve(to.size() + static_cast<size_t>(stored_bytes(data)));
  stream_current(data, [&to](std::span<const std::byte> piece) {
    to.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
}

// Writes all fields except the elements.
void write_tensor_header(const TensorData& data, std::string_view name, pb::TensorProto& tensor) {
  if (item_size(data.dtype) == 0 && !is_packed(data.dtype)) {
    fail(ErrorKind::unsupported, "cannot write the elements of the constant ", name);
  }
  for (const int64_t size : data.shape) tensor.add_dims(size);
  tensor.set_data_type(static_cast<int>(data.dtype));
  if (!name.empty()) tensor.set_name(std::string(name));
}

void write_external(const External& external, pb::TensorProto& tensor) {
  const auto add = [&tensor](const char* key, std::string value) {
    pb::StringStringEntryProto* entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(std::move(value));
  };
  add("location", external.location);
  add("offset", std::to_string(external.offset));
  add("length", std::to_string(external.length));
  tensor.set_data_location(pb::TensorProto::EXTERNAL);
}

void write_tensor(const TensorData& data, std::string_view name, const Place& place,
                  pb::TensorProto& tensor) {
  write_tensor_header(data, name, tensor);
  const auto external = place ? place(data) : std::nullopt;
  if (external) {
    write_external(*external, tensor);
  } else {
    write_raw(data, *tensor.mutable_raw_data());
  }
}

// Returns what the Gemm nodes of the graph transpose on their right side.
std::unordered_set<const onnx::Value*> transposed_by_gemm(const onnx::Graph& graph) {
  std::unordered_set<const onnx::Value*> weights;
  for (const onnx::Node* node : graph.nodes) {
    if (node->is("Gemm") && node->attribute_int("transB", 0) != 0) weights.insert(node->inputs[1]);
  }
  return weights;
}

class GraphEncoder {
 public:
  GraphEncoder(const Options& options, SizeNames names, const Place& place)
      : options_(options), node_metadata_(options), names_(names), place_(place) {}

  // Writes all fields except the initializers.
  void write_graph(const onnx::Graph& graph, pb::GraphProto& to) const {
    to.set_name(graph.name);
    for (const onnx::Node* node : graph.nodes) write_node(*node, *to.add_node());
    for (const onnx::Value* input : graph.inputs) write_interface(*input, *to.add_input());
    for (const onnx::Value* output : graph.outputs) write_interface(*output, *to.add_output());
    if (intermediates_) write_intermediates(graph, *to.mutable_value_info());
  }

  // Writes the main graph, and in value_info what the model says of its weights: initializers have
  // no metadata of their own. In files, the shape of a weight that a Gemm transposes stands at the
  // initializer alone: ONNX Runtime's quantizers turn such weights and keep value_info.
  void write_main_graph(const onnx::Graph& graph, pb::GraphProto& to) const {
    write_graph(graph, to);
    if (!options_.origin) return;
    write_metadata(options_.origin->graph, to);
    std::unordered_set<const onnx::Value*> turned;
    if (names_ != SizeNames::everywhere) turned = transposed_by_gemm(graph);
    for (const onnx::Value* weight : graph.initializers) {
      const bool is_input = std::ranges::find(graph.inputs, weight) != graph.inputs.end();
      if (is_input || !options_.origin->values.contains(weight)) continue;
      pb::ValueInfoProto& info = *to.add_value_info();
      write_interface(*weight, info);
      if (turned.contains(weight)) info.mutable_type()->mutable_tensor_type()->clear_shape();
    }
  }

  static void write_metadata(const Properties& metadata, auto& to) {
    for (const auto& [key, value] : metadata) {
      pb::StringStringEntryProto* entry = to.add_metadata_props();
      entry->set_key(key);
      entry->set_value(value);
    }
  }

  void write_function(const onnx::Function& function, bool typed, pb::FunctionProto& to) const {
    to.set_name(function.name);
    to.set_domain(function.domain);
    for (const onnx::Value* input : function.body->inputs) to.add_input(input->name);
    for (const onnx::Value* output : function.body->outputs) to.add_output(output->name);
    for (const std::string& attribute : function.attributes) to.add_attribute(attribute);
    // A FunctionProto has no initializers, so constants become Constant nodes.
    for (const onnx::Value* constant : function.body->initializers) {
      pb::NodeProto* node = to.add_node();
      node->set_op_type("Constant");
      node->add_output(constant->name);
      pb::AttributeProto* value = node->add_attribute();
      value->set_name("value");
      value->set_type(pb::AttributeProto::TENSOR);
      write_tensor(*constant->constant, "", nullptr, *value->mutable_t());
    }
    // ONNX Runtime renames values when it inlines functions, but not in the value_info of their
    // subgraphs, so that types would apply to other values of the model.
    GraphEncoder within = *this;
    within.intermediates_ = false;
    for (const onnx::Node* node : function.body->nodes) within.write_node(*node, *to.add_node());
    if (typed) write_intermediates(*function.body, *to.mutable_value_info());
  }

 private:
  void write_intermediates(const onnx::Graph& graph, auto& to) const {
    const std::unordered_set<const onnx::Value*> results(graph.outputs.begin(),
                                                         graph.outputs.end());
    for (const onnx::Node* node : graph.nodes) {
      for (const onnx::Value* output : node->outputs) {
        if (!output || output->dtype == DType::undefined || results.contains(output)) continue;
        write_value_info(*output, names_ == SizeNames::everywhere, *to.Add());
      }
    }
  }

  void write_node(const onnx::Node& node, pb::NodeProto& to) const {
    to.set_op_type(node.op_type);
    if (!node.domain.empty()) to.set_domain(node.domain);
    if (!node.name.empty()) to.set_name(node.name);
    write_names(node.inputs, *to.mutable_input());
    write_names(node.outputs, *to.mutable_output());
    for (const onnx::Attribute& attribute : node.attributes) {
      write_attribute(attribute, *to.add_attribute());
    }
    write_metadata(node.metadata, to);
    if (options_.metadata != Metadata::none && node.location)
      write_metadata(node_metadata_.of(*node.location), to);
  }

  void write_interface(const onnx::Value& value, pb::ValueInfoProto& to) const {
    write_value_info(value, true, to);
    if (!options_.origin) return;
    const auto found = options_.origin->values.find(&value);
    if (found != options_.origin->values.end()) write_metadata(found->second, to);
  }

  static void write_names(const std::vector<onnx::Value*>& values, auto& to) {
    size_t count = values.size();
    while (count > 0 && !values[count - 1]) --count;
    for (size_t i = 0; i < count; ++i) {
      require(!values[i] || !values[i]->name.empty(), "cannot write a value without a name");
      *to.Add() = values[i] ? values[i]->name : std::string();
    }
  }

  void write_attribute(const onnx::Attribute& attribute, pb::AttributeProto& to) const {
    to.set_name(attribute.name);
    std::visit([&](const auto& value) { write_attribute_value(value, to); }, attribute.value);
  }
  void write_attribute_value(int64_t value, pb::AttributeProto& to) const {
    to.set_type(pb::AttributeProto::INT);
    to.set_i(value);
  }
  void write_attribute_value(DType value, pb::AttributeProto& to) const {
    write_attribute_value(static_cast<int64_t>(value), to);
  }
  void write_attribute_value(double value, pb::AttributeProto& to) const {
    to.set_type(pb::AttributeProto::FLOAT);
    to.set_f(static_cast<float>(value));
  }
  void write_attribute_value(const std::string& value, pb::AttributeProto& to) const {
    to.set_type(pb::AttributeProto::STRING);
    to.set_s(value);
  }
  void write_attribute_value(const std::vector<int64_t>& values, pb::AttributeProto& to) const {
    to.set_type(pb::AttributeProto::INTS);
    for (const int64_t value : values) to.add_ints(value);
  }
  void write_attribute_value(const std::vector<double>& values, pb::AttributeProto& to) const {
    to.set_type(pb::AttributeProto::FLOATS);
    for (const double value : values) to.add_floats(static_cast<float>(value));
  }
  void write_attribute_value(const std::vector<std::string>& values, pb::AttributeProto& to) const {
    to.set_type(pb::AttributeProto::STRINGS);
    for (const std::string& value : values) to.add_strings(value);
  }
  void write_attribute_value(const std::shared_ptr<TensorData>& value,
                             pb::AttributeProto& to) const {
    to.set_type(pb::AttributeProto::TENSOR);
    write_tensor(*value, "", nullptr, *to.mutable_t());
  }
  void write_attribute_value(const std::shared_ptr<onnx::Graph>& value,
                             pb::AttributeProto& to) const {
    to.set_type(pb::AttributeProto::GRAPH);
    write_graph(*value, *to.mutable_g());
    for (const onnx::Value* constant : value->initializers) {
      write_tensor(*constant->constant, constant->name, place_, *to.mutable_g()->add_initializer());
    }
  }

  const Options& options_;
  NodeMetadata node_metadata_;
  SizeNames names_;            // of intermediate values
  bool intermediates_ = true;  // whether graphs list the types of their intermediate values
  const Place& place_;
};

// Returns all operator sets that the model needs, with their versions.
std::map<std::string, int64_t> opset_imports(const onnx::Model& model) {
  std::map<std::string, int64_t> imports = model.domains;
  imports[""] = model.opset;
  const auto add_domains_of = [&imports](onnx::Graph& graph) {
    onnx::for_each_graph(graph, [&imports](const onnx::Graph& part) {
      for (const onnx::Node* node : part.nodes) {
        if (!node->domain.empty()) imports.emplace(node->domain, 1);
      }
    });
  };
  add_domains_of(*model.graph);
  for (const onnx::Function& function : model.functions) {
    imports.emplace(function.domain, 1);
    add_domains_of(*function.body);
  }
  return imports;
}

void write_imports(const std::map<std::string, int64_t>& imports, auto& to) {
  for (const auto& [domain, version] : imports) {
    pb::OperatorSetIdProto* import = to.Add();
    import->set_domain(domain);
    import->set_version(version);
  }
}

// Returns the model without its graph.
pb::ModelProto model_message(const onnx::Model& model, const GraphEncoder& encoder) {
  pb::ModelProto to;
  to.set_ir_version(ir_version(model));
  to.set_producer_name("onnx_native");
  to.set_producer_version(model.producer_version.empty() ? ONNX_NATIVE_VERSION
                                                         : model.producer_version);
  const auto imports = opset_imports(model);
  write_imports(imports, *to.mutable_opset_import());
  GraphEncoder::write_metadata(model.metadata, to);
  for (const onnx::Function& function : model.functions) {
    pb::FunctionProto* message = to.add_functions();
    encoder.write_function(function, to.ir_version() >= kTypedFunctions, *message);
    write_imports(imports, *message->mutable_opset_import());
  }
  return to;
}

void append_varint(std::string& to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}

// Returns the tag and length of a length-delimited protobuf field.
std::string field_head(int number, int64_t length) {
  std::string head;
  append_varint(head, static_cast<uint64_t>(number) << 3 | 2);
  append_varint(head, static_cast<uint64_t>(length));
  return head;
}

std::string serialized(const auto& message) {
  std::string bytes;
  if (!message.SerializeToString(&bytes)) {
    fail(ErrorKind::invalid_argument, "the model exceeds 2 GiB without its weights");
  }
  return bytes;
}

// Encodes an initializer as a field of GraphProto. Elements inside the model are its last field, so
// that they can be streamed after the text.
Piece initializer_piece(const onnx::Value& value, const Place& place) {
  const TensorData& data = *value.constant;
  pb::TensorProto tensor;
  const auto external = place(data);
  write_tensor_header(data, value.name, tensor);
  if (external) {
    write_external(*external, tensor);
  } else if (const int64_t length = stored_bytes(data); length < kCopyBelow) {
    write_raw(data, *tensor.mutable_raw_data());
  } else {
    const std::string head = serialized(tensor);
    const std::string raw_head = field_head(pb::TensorProto::kRawDataFieldNumber, length);
    const auto whole = static_cast<int64_t>(head.size() + raw_head.size()) + length;
    return {field_head(pb::GraphProto::kInitializerFieldNumber, whole) + head + raw_head, &data};
  }
  const std::string bytes = serialized(tensor);
  return {field_head(pb::GraphProto::kInitializerFieldNumber, static_cast<int64_t>(bytes.size())) +
          bytes};
}

int64_t size_of(const Piece& piece) {
  return static_cast<int64_t>(piece.text.size()) + (piece.data ? stored_bytes(*piece.data) : 0);
}

}  // namespace

std::vector<const onnx::Value*> weights_of(const onnx::Model& model) {
  std::vector<const onnx::Value*> weights;
  onnx::for_each_graph(*model.graph, [&weights](const onnx::Graph& graph) {
    weights.insert(weights.end(), graph.initializers.begin(), graph.initializers.end());
  });
  return weights;
}

Encoding encode(const onnx::Model& model, const Options& options, SizeNames names,
                const Place& place) {
  const GraphEncoder encoder(options, names, place);
  pb::GraphProto graph;
  encoder.write_main_graph(*model.graph, graph);

  std::vector<Piece> graph_pieces;
  graph_pieces.push_back({serialized(graph)});
  for (const onnx::Value* value : model.graph->initializers) {
    Piece piece = initializer_piece(*value, place);
    // Append to the previous piece if it has no tensor data.
    if (!graph_pieces.back().data) {
      graph_pieces.back().text += piece.text;
      graph_pieces.back().data = piece.data;
    } else {
      graph_pieces.push_back(std::move(piece));
    }
  }
  int64_t graph_bytes = 0;
  for (const Piece& piece : graph_pieces) graph_bytes += size_of(piece);

  Encoding encoding;
  encoding.pieces.push_back({serialized(model_message(model, encoder)) +
                             field_head(pb::ModelProto::kGraphFieldNumber, graph_bytes)});
  std::ranges::move(graph_pieces, std::back_inserter(encoding.pieces));
  for (const Piece& piece : encoding.pieces) encoding.bytes += size_of(piece);
  return encoding;
}

}  // namespace onnx_native::writer
