#include "ops/engine/onnx_call.h"

#include <algorithm>
#include <charconv>
#include <type_traits>

#include "aten/schema.h"
#include "onnx/builder.h"
#include "onnx/schema.h"

namespace onnx_native::ops {
namespace {

using List = aten::Argument::List;

constexpr std::string_view kNamespace = "onnx::";
constexpr std::string_view kOpset = ".opset";
constexpr int64_t kLastDType = 23;  // FLOAT4E2M1

// Throws for an argument that does not describe an ONNX node.
[[noreturn]] void wrong(const Call& call, size_t i) {
  fail(ErrorKind::invalid_program, "`", call.argument_name(i), "` does not describe an ONNX node");
}

const List& list_at(const Call& call, size_t i) {
  const auto* list = call.argument(i).get<List>();
  if (!list) wrong(call, i);
  return *list;
}

template <class T>
std::vector<T> items(const Call& call, size_t i) {
  std::vector<T> result;
  for (const aten::Argument& item : list_at(call, i)) {
    if (const auto* value = item.get<T>()) {
      result.push_back(*value);
    } else if (const auto* number = item.get<int64_t>()) {
      if constexpr (std::is_same_v<T, double>) result.push_back(static_cast<double>(*number));
    }
  }
  return result;
}

onnx::AttributeValue attribute(const Call& call, size_t i) {
  const aten::Argument& argument = call.argument(i);
  if (const auto* v = argument.get<int64_t>()) return *v;
  if (const auto* v = argument.get<bool>()) return int64_t{*v};
  if (const auto* v = argument.get<double>()) return *v;
  if (const auto* v = argument.get<std::string>()) return *v;
  if (const auto* v = argument.get<DType>()) return *v;
  const auto* list = argument.get<List>();
  if (!list || list->empty()) {
    fail(ErrorKind::unsupported, "argument `", call.argument_name(i),
         "` cannot be an ONNX attribute: it is empty or has no ONNX type");
  }
  if (list->front().get<std::string>()) return items<std::string>(call, i);
  if (list->front().get<double>()) return items<double>(call, i);
  return items<int64_t>(call, i);
}

// Returns true if the argument has its default value. ONNX has the same defaults.
bool is_default(const Call& call, size_t i) {
  const aten::Argument& argument = call.argument(i);
  const aten::Argument& other = aten::default_arguments(*call.node().schema)[i];
  const auto same = [&]<class T>(std::type_identity<T>) {
    return argument.get<T>() && other.get<T>() && *argument.get<T>() == *other.get<T>();
  };
  return argument.is_none() || same(std::type_identity<bool>()) ||
         same(std::type_identity<int64_t>()) || same(std::type_identity<double>()) ||
         same(std::type_identity<std::string>());
}

// Emits the node. `declared` holds the result dtypes if the program states them as ONNX numbers.
Results emit(const Call& call, std::string_view op_type, std::string_view domain, Values inputs,
             std::vector<onnx::Attribute> attributes, const std::vector<DType>& declared = {}) {
  Builder& b = call.builder();
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();
  const size_t count = call.node().outputs.size();
  Values values;
  if (domain.empty() && !onnx::find_schema(op_type, b.opset())) {
    // ONNX does not define this operator (yet): only the program knows its results.
    b.model().undefined_operators.emplace(op_type);
    onnx::Node* node = b.graph().add_node(op_type, std::move(inputs), count, std::move(attributes));
    node->location = call.node().location;
    values = node->outputs;
  } else {
    values = b.ops(op_type, count, std::move(inputs), std::move(attributes), domain);
  }
  for (size_t i = 0; i < count; ++i) {
    const aten::Type& recorded = call.result_type(i);
    if (values[i]->dtype != DType::undefined || !recorded.is_tensor()) continue;
    b.declare(values[i], i < declared.size() ? declared[i] : recorded.dtype, recorded.shape);
  }
  return {values.begin(), values.end()};
}

void check_opset(const Builder& b, std::string_view op_type, int64_t version) {
  b.check(version <= b.opset(), "this form of ", op_type, " requires opset ", version,
          "; the model has opset ", b.opset());
}

// Positional arguments become inputs, keyword arguments become attributes.
Results onnx_call(const Call& call) {
  std::string_view op_type = call.node().op;
  op_type = op_type.substr(kNamespace.size(), op_type.find(kOpset) - kNamespace.size());
  check_opset(call.builder(), op_type, onnx_call_opset(call.node().op));
  Values inputs;
  std::vector<onnx::Attribute> attributes;
  for (size_t i = 0; i < call.size(); ++i) {
    const aten::SchemaArgument& argument = call.node().schema->arguments[i];
    if (argument.kwarg_only) {
      if (!is_default(call, i)) attributes.push_back({argument.name, attribute(call, i)});
    } else if (argument.type.list) {
      for (const auto& tensor : call.optional_tensors(i))
        inputs.push_back(tensor.value_or(nullptr));
    } else {
      inputs.push_back(call.is_none(i) ? nullptr : call.tensor(i));
    }
  }
  return emit(call, op_type, "", std::move(inputs), std::move(attributes));
}

// Returns the result dtypes, which the program states as ONNX numbers.
std::vector<DType> declared_dtypes(const Call& call, size_t i) {
  std::vector<DType> dtypes;
  const auto add = [&](const aten::Argument& argument) {
    const auto* number = argument.get<int64_t>();
    if (!number || *number < 1 || *number > kLastDType) wrong(call, i);
    dtypes.push_back(static_cast<DType>(*number));
    call.builder().check(!is_complex(dtypes.back()),
                         "a result cannot be complex; declare a real one with a last axis of 2");
  };
  if (const auto* list = call.argument(i).get<List>()) {
    for (const aten::Argument& argument : *list) add(argument);
  } else {
    add(call.argument(i));
  }
  return dtypes;
}

// The arguments of torch.onnx.ops.symbolic.
enum SymbolicArgument : size_t {
  kInputs,
  kType,
  kDTypes,
  kShapes,
  kKeys,
  kKinds,
  kPlaces,
  kInts,
  kFloats,
  kStrings,
  kMetadataKeys,
  kMetadataValues,
  kDomain,
  kVersion
};

// Decodes the attributes of torch.onnx.ops.symbolic. Its schema has one list of values per kind of
// attribute; each attribute has a key, a kind and a range in that list.
class SymbolicAttributes {
 public:
  explicit SymbolicAttributes(const Call& call)
      : call_(call),
        keys_(items<std::string>(call, kKeys)),
        kinds_(items<std::string>(call, kKinds)),
        ints_(items<int64_t>(call, kInts)),
        floats_(items<double>(call, kFloats)),
        strings_(items<std::string>(call, kStrings)) {}

  std::vector<onnx::Attribute> read() const {
    std::vector<onnx::Attribute> attributes;
    for (size_t i = 0; i < keys_.size(); ++i) {
      const std::string& kind = kinds_.at(i);
      if (kind.starts_with('i')) attributes.push_back({keys_[i], value(i, ints_)});
      if (kind.starts_with('f')) attributes.push_back({keys_[i], value(i, floats_)});
      if (kind.starts_with('s')) attributes.push_back({keys_[i], value(i, strings_)});
    }
    return attributes;
  }

 private:
  // Returns the values of the attribute: one if its kind has one letter ("i"), else a list ("is").
  template <class T>
  onnx::AttributeValue value(size_t i, const std::vector<T>& values) const {
    const auto [begin, end] = range(i);
    if (begin < 0 || begin > end || end > std::ssize(values)) wrong(call_, kPlaces);
    if (kinds_[i].size() == 1) return values.at(static_cast<size_t>(begin));
    return std::vector<T>(values.begin() + begin, values.begin() + end);
  }

  std::pair<std::ptrdiff_t, std::ptrdiff_t> range(size_t i) const {
    const auto* place = list_at(call_, kPlaces).at(i).get<List>();
    const auto bound = [&](size_t k) {
      const auto* number = place ? place->at(k).get<int64_t>() : nullptr;
      if (!number) wrong(call_, kPlaces);
      return static_cast<std::ptrdiff_t>(*number);
    };
    return {bound(0), bound(1)};
  }

  const Call& call_;
  std::vector<std::string> keys_, kinds_;
  std::vector<int64_t> ints_;
  std::vector<double> floats_;
  std::vector<std::string> strings_;
};

// Adds the user's metadata_props to the node that made the results. Casts may follow the node.
void add_metadata(const Call& call, std::string_view op_type, const Results& results) {
  onnx::Node* node = results.empty() ? nullptr : results[0].value->producer;
  while (node && node->op_type != op_type) node = node->inputs.at(0)->producer;
  if (!node) return;
  const auto keys = items<std::string>(call, kMetadataKeys);
  const auto values = items<std::string>(call, kMetadataValues);
  for (size_t i = 0; i < keys.size(); ++i) node->metadata.emplace_back(keys[i], values.at(i));
}

// Lowers torch.onnx.ops.symbolic.
Results symbolic_call(const Call& call) {
  Values inputs;
  for (const auto& tensor : call.optional_tensors(kInputs)) {
    inputs.push_back(tensor.value_or(nullptr));
  }
  const std::string op_type = call.string(kType);
  const std::string domain = call.string(kDomain);
  const int64_t version = call.is_none(kVersion) ? 1 : call.integer(kVersion);
  if (domain.empty()) {
    check_opset(call.builder(), op_type, version);
  } else {
    int64_t& known = call.builder().model().domains[domain];
    known = std::max(known, version);
  }
  Results results = emit(call, op_type, domain, std::move(inputs), SymbolicAttributes(call).read(),
                         declared_dtypes(call, kDTypes));
  add_metadata(call, op_type, results);
  return results;
}

}  // namespace

int64_t onnx_call_opset(std::string_view op) {
  const size_t at = op.find(kOpset);
  if (!op.starts_with(kNamespace) || at == std::string_view::npos) return 0;
  int64_t opset = 0;
  std::from_chars(op.data() + at + kOpset.size(), op.data() + op.size(), opset);
  return opset;
}

const Lowering* find_onnx_call(std::string_view op) {
  static const Lowering node{.run = onnx_call, .parameters = {}};
  static const Lowering symbolic{.run = symbolic_call, .parameters = {}};
  if (onnx_call_opset(op) > 0) return &node;
  return op.starts_with("onnx_symbolic::_symbolic") ? &symbolic : nullptr;
}

}  // namespace onnx_native::ops
