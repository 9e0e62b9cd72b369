#include "readers/pt2/graph_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "aten/asserted_counts.h"
#include "aten/autocast.h"
#include "aten/guard.h"
#include "aten/op_facts.h"
#include "aten/refused_call.h"
#include "aten/scopes.h"
#include "aten/stack_trace.h"
#include "readers/pt2/symbols.h"
#include "readers/pt2/weights.h"

namespace onnx_native::readers::pt2 {
namespace {

using aten::Argument;
using List = aten::Argument::List;

// The limit on nested graphs and arguments.
constexpr int kDeepest = 50;

struct Deeper {
  explicit Deeper(int& depth) : depth(depth) {
    if (depth >= kDeepest) damaged("graphs or arguments are nested too deeply");
    ++depth;
  }
  ~Deeper() { --depth; }
  int& depth;
};

constexpr int64_t kStrided = 7;

// Reads an integer. One beyond 64 bits, such as a bound in an assertion, becomes a float.
Argument whole_number(const Json& value, const char* what) {
  const bool is_beyond = value.is_number() && !is_integer(value);
  if (is_beyond && std::abs(value.get<double>()) >= 0x1p63) return value.get<double>();
  return integer(value, what);
}

// "torch.ops.aten.add.Tensor" -> "aten::add.Tensor", "torch.ops.higher_order.cond" ->
// "higher_order::cond", "_operator.add" and "torch.sym_float" -> "python::...".
std::string key_of(std::string_view target) {
  constexpr std::string_view kOps = "torch.ops.";
  if (!target.starts_with(kOps))
    return "python::" + std::string(target.substr(target.rfind('.') + 1));
  target.remove_prefix(kOps.size());
  const size_t dot = target.find('.');
  if (dot == std::string_view::npos) damaged(concat("malformed operator name ", target));
  std::string key = concat(target.substr(0, dot), "::", target.substr(dot + 1));
  if (key.ends_with(".default")) key.resize(key.size() - std::string_view(".default").size());
  return key;
}

// Returns true for operators that the graph omits: assertions and dropped higher-order operators.
bool is_dropped(const std::string& op) {
  if (const aten::HigherOrder* call = aten::find_higher_order(op))
    return call->use == aten::HigherOrder::Use::dropped;
  const aten::Schema* schema = aten::find_schema(op);
  return schema && aten::is_check(*schema);
}

std::string layout_name(int64_t layout) {
  static constexpr std::array<const char*, 8> kNames = {
      "", "sparse", "sparsecsr", "sparsecsc", "sparsebsr", "sparsebsc", "mkldnn", "strided"};
  if (layout < 1 || layout > kStrided) damaged(concat("unknown layout ", layout));
  return kNames[static_cast<size_t>(layout)];
}

std::string memory_format_name(int64_t format) {
  static constexpr std::array<const char*, 5> kNames = {"", "contiguous_format", "channels_last",
                                                        "channels_last_3d", "preserve_format"};
  if (format < 1 || format > 4) damaged(concat("unknown memory format ", format));
  return kNames[static_cast<size_t>(format)];
}

std::string device_name(const Json& device) {
  std::string name = string(field(device, "type"), "device");
  if (const Json* index = optional_field(device, "index"))
    name = concat(name, ":", integer(*index, "device index"));
  return name;
}

template <class Make>
List list_of(const Json& values, const Make& make) {
  List result;
  for (const Json& value : list(values, "an argument")) result.push_back(make(value));
  return result;
}

// Converts an argument to the schema's type.
Argument conformed(Argument argument, const aten::SchemaType& type) {
  if (type.list) {
    auto* items = std::get_if<List>(&argument.value);
    if (!items) {
      if (argument.is_none()) return argument;
      return List(std::max(type.fixed_size, 1), argument);
    }
    if (items->size() == 1 && type.fixed_size > 1) return List(type.fixed_size, (*items)[0]);
    if (type.kind == aten::TypeKind::floating) {
      for (Argument& item : *items) {
        if (const auto* n = item.get<int64_t>()) item = static_cast<double>(*n);
      }
    }
    return argument;
  }
  if (type.kind == aten::TypeKind::floating) {
    if (const auto* n = argument.get<int64_t>()) return static_cast<double>(*n);
  }
  return argument;
}

// Reads an nn_module_stack: "L__self___layer,layer,torch.nn.Linear;..."
void read_modules(std::string_view stack, Location& location) {
  while (!stack.empty()) {
    const size_t end = std::min(stack.find(';'), stack.size());
    const std::string_view entry = stack.substr(0, end);
    stack.remove_prefix(std::min(end + 1, stack.size()));
    const size_t comma = entry.find(','), last = entry.rfind(',');
    if (comma == std::string_view::npos || comma == last || entry.starts_with("_empty_nn"))
      continue;
    aten::add_scope(location, entry.substr(0, comma), entry.substr(comma + 1, last - comma - 1),
                    entry.substr(last + 1));
  }
}

Location read_own_location(const Json& node, const std::string& name) {
  Location location;
  location.node = name;
  const Json* metadata = optional_field(node, "metadata");
  if (!metadata) return location;
  if (const Json* trace = optional_field(*metadata, "stack_trace"))
    aten::read_stack_trace(string(*trace, "stack_trace"), location);
  if (const Json* stack = optional_field(*metadata, "nn_module_stack"))
    read_modules(string(*stack, "nn_module_stack"), location);
  return location;
}

Location read_location(const Json& node, const std::string& name, const Location* region) {
  Location location = read_own_location(node, name);
  return region ? aten::within(*region, std::move(location)) : location;
}

// Calls visit(kind, value) for each result of a call; a list of tensors counts as several results.
template <class Visit>
void for_each_result(std::span<const Json> outputs, const Visit& visit) {
  for (const Json& output : outputs) {
    const auto [kind, value] = choice(output, "a result");
    if (kind == "as_tensors") {
      for (const Json& item : list(value, "results")) visit(std::string_view("as_tensor"), item);
    } else if (kind == "as_optional_tensors") {
      for (const Json& item : list(value, "results")) {
        const auto [item_kind, item_value] = choice(item, "a result");
        visit(item_kind, item_value);
      }
    } else {
      visit(kind, value);
    }
  }
}

// Flattens the results of a body.
void flatten(const Argument& argument, std::vector<Argument>& results) {
  if (const auto* items = argument.get<List>()) {
    for (const Argument& item : *items) flatten(item, results);
  } else {
    results.push_back(argument);
  }
}

// Returns the name in {"as_tensor": {"name": "x"}} or {"as_sym_int": {"as_name": "x"}}.
const std::string& name_of(std::string_view kind, const Json& value) {
  return string(kind == "as_tensor" ? field(value, "name") : choice(value, "a value").value,
                "a value's name");
}

}  // namespace

Dim Types::symbol(std::string_view name) {
  const auto [at, inserted] = symbols_.try_emplace(std::string(name));
  if (!inserted) return at->second;
  DimRange range;
  if (const Json* known = ranges_ ? optional_field(*ranges_, at->first.c_str()) : nullptr) {
    const auto bound = [&](const char* key) -> std::optional<int64_t> {
      const Json* value = optional_field(*known, key);
      if (!value || (value->is_number() && !is_integer(*value))) return std::nullopt;  // or larger
      return integer(*value, key);
    };
    range = DimRange::integer(bound("min_val"), bound("max_val"));
  }
  if (reads_ == Reads::tensor_input) range = DimRange::captured_size(range);
  // torch.export records that an integer input is at least 0, and narrows the range by its own
  // decisions, but checks neither.
  if (reads_ == Reads::integer_input) range = DimRange::integer();
  return at->second = Dim::symbol(name_of(at->first), range);
}

Dim Types::opaque(const DimRange& range) {
  if (!all_symbols_used_) {
    all_symbols_used_ = true;
    for (const std::string& symbol : symbols_of(program_)) Dim::symbol(name_of(symbol));
  }
  return Dim::fresh(range);
}

Dim Types::dim(const Json& sym_int) { return sized(sym_int, DimRange::integer()); }

Dim Types::sized(const Json& sym_int, const DimRange& otherwise) {
  const auto [kind, value] = choice(sym_int, "a size");
  if (kind == "as_int") return integer(value, "a size");
  if (kind != "as_expr") damaged("a size is not an expression");
  const std::string& text = string(field(value, "expr_str"), "expr_str");
  const auto [at, inserted] = dims_.try_emplace(text);
  if (inserted) {
    const std::optional<Dim> parsed =
        parse_dim(text, [this](std::string_view name) { return symbol(name); });
    at->second = parsed ? *parsed : opaque(otherwise);
    const Json* hint = optional_field(value, "hint");
    const Json* number = hint && hint->is_object() ? optional_field(*hint, "as_int") : nullptr;
    if (number && number->is_number_integer() && at->second.is_symbol())
      hints_.emplace(at->second.str(), number->get<int64_t>());
  }
  return at->second;
}

aten::Type Types::tensor(const Json& meta) {
  const int64_t layout = integer(field(meta, "layout"), "layout");
  if (layout != kStrided)
    fail(ErrorKind::unsupported, "ONNX has no tensors of layout ", layout_name(layout));
  return aten::Type::tensor(dtype_of(field(meta, "dtype")), dims(field(meta, "sizes"), "sizes"));
}

Shape Types::dims(const Json& sizes, const char* what) {
  Shape shape;
  for (const Json& size : list(sizes, what)) shape.push_back(sized(size, DimRange::size()));
  return shape;
}

void GraphReader::define(const std::string& name, Argument value) {
  environment_[name] = std::move(value);
}

Argument GraphReader::named(const std::string& name) const {
  const auto at = environment_.find(name);
  if (at == environment_.end()) damaged(concat(name, " is used but was never computed"));
  return at->second;
}

const Json& GraphReader::tensor_meta(const Json& value) const {
  return field(field(source_, "tensor_values"), name_of("as_tensor", value).c_str());
}

aten::Type GraphReader::type_of(std::string_view kind, const Json& value) {
  aten::Type type;
  if (kind == "as_tensor") {
    return types_.tensor(tensor_meta(value));
  }
  if (kind == "as_sym_int") {
    const auto [how, named] = choice(value, "a size");
    if (how == "as_int") return aten::Type::sym_int(integer(named, "a size"));
    const std::string& name = string(named, "name");
    return aten::Type::sym_int(types_.dim(field(field(source_, "sym_int_values"), name.c_str())));
  }
  if (kind == "as_sym_float") {
    type.kind = aten::Type::Kind::sym_float;
  } else if (kind == "as_sym_bool") {
    type.kind = aten::Type::Kind::sym_bool;
  } else if (kind == "as_none") {
    type.kind = aten::Type::Kind::none;
  } else {
    type.kind = aten::Type::Kind::other;
  }
  return type;
}

Argument GraphReader::symbolic(const Json& value, std::string_view literal) {
  const auto [kind, inner] = choice(value, "a symbolic number");
  if (kind == "as_name") return named(string(inner, "name"));
  if (kind != literal) damaged("a symbolic number is neither a name nor a literal");
  if (literal == "as_int") return whole_number(inner, "a number");
  if (literal == "as_bool") return boolean(inner, "a bool");
  return number(inner, "a number");
}

// The readers of all kinds of arguments, by the key that the archive gives them.
GraphReader::ArgumentReaders GraphReader::make_argument_readers() {
  using Read = ArgumentReaders::mapped_type;
  const auto list = [](Read read) -> Read {
    return [read = std::move(read)](GraphReader& reader, const Json& value) -> Argument {
      return list_of(value, [&](const Json& item) { return read(reader, item); });
    };
  };
  const Read tensor = [](GraphReader& reader, const Json& value) -> Argument {
    return reader.named(name_of("as_tensor", value));
  };
  const Read optional_tensor = [tensor](GraphReader& reader, const Json& value) -> Argument {
    const auto [kind, inner] = choice(value, "an argument");
    return kind == "as_tensor" ? tensor(reader, inner) : Argument();
  };
  const auto symbolic = [](std::string_view literal) -> Read {
    return [literal](GraphReader& reader, const Json& value) {
      return reader.symbolic(value, literal);
    };
  };
  const Read integer_ = [](GraphReader&, const Json& value) -> Argument {
    return whole_number(value, "an argument");
  };
  const Read float_ = [](GraphReader&, const Json& value) -> Argument {
    return number(value, "an argument");
  };
  const Read bool_ = [](GraphReader&, const Json& value) -> Argument {
    return boolean(value, "an argument");
  };
  const Read string_ = [](GraphReader&, const Json& value) -> Argument {
    return string(value, "an argument");
  };
  return {
      {"as_none", [](GraphReader&, const Json&) { return Argument(); }},
      {"as_tensor", tensor},
      {"as_tensors", list(tensor)},
      {"as_optional_tensor", optional_tensor},
      {"as_optional_tensors", list(optional_tensor)},
      {"as_nested_tensors", list(list(tensor))},
      {"as_int", integer_},
      {"as_ints", list(integer_)},
      {"as_int_lists", list(list(integer_))},
      {"as_float", float_},
      {"as_floats", list(float_)},
      {"as_float_lists", list(list(float_))},
      {"as_bool", bool_},
      {"as_bools", list(bool_)},
      {"as_string", string_},
      {"as_operator", string_},
      {"as_strings", list(string_)},
      {"as_sym_int", symbolic("as_int")},
      {"as_sym_ints", list(symbolic("as_int"))},
      {"as_sym_float", symbolic("as_float")},
      {"as_sym_floats", list(symbolic("as_float"))},
      {"as_sym_bool", symbolic("as_bool")},
      {"as_sym_bools", list(symbolic("as_bool"))},
      {"as_scalar_type", [](GraphReader&, const Json& v) -> Argument { return dtype_of(v); }},
      {"as_memory_format",
       [](GraphReader&, const Json& v) -> Argument {
         return memory_format_name(integer(v, "memory format"));
       }},
      {"as_layout",
       [](GraphReader&, const Json& v) -> Argument { return layout_name(integer(v, "layout")); }},
      {"as_device", [](GraphReader&, const Json& v) -> Argument { return device_name(v); }},
      {"as_complex",
       [](GraphReader&, const Json& v) -> Argument {
         return std::complex<double>(number(field(v, "real"), "real"),
                                     number(field(v, "imag"), "imag"));
       }},
      {"as_graph",
       [](GraphReader& reader, const Json& v) -> Argument {
         return reader.subgraph(field(v, "graph"));
       }},
      {"as_string_to_argument",
       [](GraphReader& reader, const Json& v) { return reader.options(v); }},
      {"as_custom_obj", [](GraphReader&, const Json& v) -> Argument {
         fail(ErrorKind::unsupported, "ONNX cannot represent script objects, here a ",
              string(field(v, "class_fqn"), "class_fqn"));
       }}};
}

// Reads the hints and options of a higher-order operator.
Argument GraphReader::options(const Json& value) {
  const auto* items = value.get_ptr<const Json::object_t*>();
  if (!items) damaged("the options are not an object");
  List result;
  for (const auto& [key, item] : *items) result.push_back(argument(item));
  return result;
}

Argument GraphReader::argument(const Json& json) {
  const Deeper deeper(depth_);
  const auto [kind, value] = choice(json, "an argument");
  static const ArgumentReaders readers = make_argument_readers();
  const auto reader = readers.find(kind);
  if (reader == readers.end())
    fail(ErrorKind::unsupported, "cannot export an argument of kind ", kind);
  return reader->second(*this, value);
}

std::shared_ptr<aten::Graph> GraphReader::subgraph(const Json& source) {
  auto graph = std::make_shared<aten::Graph>();
  GraphReader inner(types_, source, *graph, depth_);
  inner.autocast_ = autocast_;
  inner.region_ = region_;
  for (const Json& input : list(field(source, "inputs"), "inputs")) {
    const auto [kind, value] = choice(input, "an input");
    const std::string& name = name_of(kind, value);
    inner.define(name, graph->add_input(name, inner.type_of(kind, value)));
  }
  inner.read_nodes();
  graph->outputs = inner.outputs();
  return graph;
}

std::vector<Argument> GraphReader::outputs() {
  std::vector<Argument> result;
  for (const Json& output : list(field(source_, "outputs"), "outputs"))
    result.push_back(argument(output));
  return result;
}

void GraphReader::read_nodes() {
  for (const Json& node : list(field(source_, "nodes"), "nodes")) {
    try {
      read_node(node);
    } catch (ExportError& error) {
      const Json* name = optional_field(node, "name");
      error.add_location(
          read_own_location(node, name && name->is_string() ? name->get<std::string>() : "?"));
      throw;
    }
  }
}

void GraphReader::read_node(const Json& node) {
  const std::string op = key_of(string(field(node, "target"), "target"));
  if (is_dropped(op)) return assertion(node, op);
  const aten::HigherOrder* higher_order = aten::find_higher_order(op);
  if (higher_order && higher_order->use == aten::HigherOrder::Use::inlined)
    return inline_body(node, *higher_order);
  const Json::array_t& results = list(field(node, "outputs"), "outputs");
  // A call whose only result is a constant size adds no node.
  if (results.size() == 1) {
    const auto [kind, value] = choice(results[0], "a result");
    if (kind == "as_sym_int" && value.contains("as_name")) {
      if (const auto known = type_of(kind, value).dim->constant())
        return define(name_of(kind, value), *known);
    }
  }
  const Json* given = optional_field(node, "name");
  const std::string name = given ? string(*given, "name") : op;
  const Location* location = graph_.add_location(read_location(node, name, region_));
  const Json::array_t& inputs = list(field(node, "inputs"), "inputs");
  if (higher_order) {
    ordered_call(name, inputs, results, location);
  } else {
    call(op, name, inputs, results, location);
  }
}

// Throws if an assertion of torch.export pins a dynamic size. Its message contains the guard.
void GraphReader::check_assertion(const Json& message) const {
  const auto [kind, text] = choice(field(message, "arg"), "a message");
  if (kind != "as_string" || !text.is_string()) return;
  const std::string guard = aten::asserted_guard(text.get_ref<const std::string&>());
  for (const std::string& size : aten::pinned_sizes(guard)) {
    const std::string& name = types_.name_of(size);
    if (types_.hints().contains(name))
      fail(ErrorKind::unsupported, aten::describe_pin(guard, name));
  }
}

// Reads an assertion. The graph keeps those that the model checks.
void GraphReader::assertion(const Json& node, const std::string& op) {
  if (op != aten::kAssertScalar) return;
  const Json::array_t& inputs = list(field(node, "inputs"), "inputs");
  if (inputs.size() < 2) return;
  check_assertion(inputs[1]);
  aten::add_assertion(graph_, argument(field(inputs[0], "arg")),
                      graph_.add_location(read_location(node, op, region_)));
}

void GraphReader::call(const std::string& op, const std::string& name, std::span<const Json> inputs,
                       std::span<const Json> outputs, const Location* location) {
  const bool python = op.starts_with("python::") || op.starts_with("higher_order::");
  const aten::Schema* schema = python ? nullptr : aten::find_schema(op);
  std::vector<Argument> operands = arguments(inputs, schema, op);
  if (schema && (autocast_ || aten::runs_in_half(*schema))) {
    bool first = true;
    for_each_result(outputs, [&](std::string_view kind, const Json& value) {
      if (!std::exchange(first, false)) return;
      const aten::Type result = type_of(kind, value);
      if (kind == "as_tensor" && !autocast_device_.empty() &&
          string(field(field(tensor_meta(value), "device"), "type"), "device") == autocast_device_)
        aten::check_autocast(*schema, result, operands, autocast_device_);
      autocast_ = autocast_ || aten::shows_autocast(*schema, result, operands);
      if (autocast_) aten::cast_for_autocast(graph_, *schema, result, operands, location);
    });
  }
  aten::Node* node = graph_.add_node(op, std::move(operands), location);
  if (const auto message = autocast_ ? std::nullopt : aten::refusal(*node))
    aten::fail_refused(*node, *message);
  if (schema && schema->returns.empty()) return;
  size_t position = 0;
  for_each_result(outputs, [&](std::string_view kind, const Json& value) {
    add_result(node, kind, value, name, position++);
  });
}

// with_effects(token, operator, *arguments) returns a token and the operator's results. The graph
// keeps nodes in order, so it needs no tokens.
void GraphReader::ordered_call(const std::string& name, std::span<const Json> inputs,
                               std::span<const Json> outputs, const Location* location) {
  if (inputs.size() < 2 || outputs.empty()) damaged("with_effects has no operator");
  const auto [token, token_value] = choice(outputs[0], "a result");
  define(name_of(token, token_value), Argument());
  const auto [kind, target] = choice(field(inputs[1], "arg"), "an operator");
  if (kind != "as_operator") damaged("with_effects has no operator");
  const std::string op = key_of(string(target, "an operator"));
  if (is_dropped(op)) return;
  call(op, name, inputs.subspan(2), outputs.subspan(1), location);
}

std::vector<Argument> GraphReader::arguments(std::span<const Json> inputs,
                                             const aten::Schema* schema, const std::string& op) {
  std::vector<Argument> result;
  if (schema) result = aten::default_arguments(*schema);
  size_t position = 0;
  for (const Json& input : inputs) {
    const std::string& name = string(field(input, "name"), "an argument's name");
    Argument value = argument(field(input, "arg"));
    if (!schema) {
      result.push_back(std::move(value));
      continue;
    }
    const int index = name.empty() ? static_cast<int>(position) : schema->index(name);
    if (index < 0 || index >= static_cast<int>(result.size()))
      damaged(concat(op, " has no argument named ", name));
    result[static_cast<size_t>(index)] =
        conformed(std::move(value), schema->arguments[static_cast<size_t>(index)].type);
    ++position;
  }
  return result;
}

void GraphReader::add_result(aten::Node* node, std::string_view kind, const Json& value,
                             const std::string& name, size_t position) {
  const std::string unnamed = concat(name, "__", position);
  if (kind == "as_none") {
    graph_.add_output(node, unnamed, type_of(kind, value));
    return;
  }
  const std::string& given = name_of(kind, value);
  // torch.export's name for an unused result.
  const bool unused = given == concat(name, "_unused_", position);
  define(given, graph_.add_output(node, unused ? unnamed : given, type_of(kind, value)));
}

// Inlines the body; its inputs are the call's operands.
void GraphReader::inline_body(const Json& node, const aten::HigherOrder& call) {
  const Json* body = nullptr;
  std::string body_name;
  std::vector<Argument> operands, settings;
  for (const Json& input : list(field(node, "inputs"), "inputs")) {
    const auto [kind, value] = choice(field(input, "arg"), "an argument");
    if (kind == "as_graph" && !body) {
      body = &field(value, "graph");
      body_name = string(field(value, "name"), "a sub-graph's name");
    } else if (string(field(input, "name"), "an argument's name").empty()) {  // no hint or policy
      (body ? operands : settings).push_back(argument(field(input, "arg")));
    }
  }
  if (!body) fail(ErrorKind::unsupported, call.op, " has no body graph");
  operands = aten::body_inputs(call, std::move(operands));
  const Deeper deeper(depth_);
  GraphReader inner(types_, *body, graph_, depth_);
  inner.autocast_ = autocast_;
  inner.autocast_device_ = autocast_device_;
  if (const auto enabled = aten::autocast_of(call, settings)) {
    inner.autocast_ = *enabled;
    inner.autocast_device_ = aten::autocast_device(call, settings);
  }
  inner.region_ = region_;
  if (call.is_region) {
    const Json* name = optional_field(node, "name");
    const std::string call_name = name ? string(*name, "name") : std::string(call.op);
    const Location location = read_location(node, call_name, region_);
    inner.region_ = graph_.add_location(aten::in_region(location, body_name));
  }
  const Json::array_t& inputs = list(field(*body, "inputs"), "inputs");
  if (inputs.size() != operands.size())
    damaged(
        concat(call.op, " has ", operands.size(), " operands, but its body takes ", inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto [kind, value] = choice(inputs[i], "an input");
    inner.define(name_of(kind, value), operands[i]);
  }
  inner.read_nodes();
  std::vector<Argument> results;
  for (const Argument& result : inner.outputs()) flatten(result, results);
  size_t next = 0;
  for_each_result(list(field(node, "outputs"), "outputs"),
                  [&](std::string_view kind, const Json& value) {
                    if (next >= results.size())
                      damaged(concat(call.op, " returns too few results"));
                    if (kind != "as_none") define(name_of(kind, value), results[next]);
                    ++next;
                  });
}

}  // namespace onnx_native::readers::pt2
