#include "fx/graph_reader.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "aten/asserted_counts.h"
#include "aten/autocast.h"
#include "aten/element_types.h"
#include "aten/op_facts.h"
#include "aten/scopes.h"
#include "aten/torch_tensor.h"
#include "aten/torch_types.h"
#include "fx/location.h"

namespace onnx_native::fx {
namespace {

using aten::Argument;
using List = aten::Argument::List;

std::string python_name(py::handle callee) {
  const py::object name = py::getattr(callee, "__name__", py::none());
  return name.is_none() ? py::repr(callee).cast<std::string>() : py::str(name).cast<std::string>();
}

CallTarget::Kind kind_of(const aten::HigherOrder& call) {
  switch (call.use) {
    case aten::HigherOrder::Use::inlined:
      return CallTarget::Kind::inlined;
    case aten::HigherOrder::Use::ordered:
      return CallTarget::Kind::ordered;
    case aten::HigherOrder::Use::dropped:
      return CallTarget::Kind::dropped;
  }
  return CallTarget::Kind::call;
}

CallTarget read_target(PyObject* callee) {
  const FxObjects& fx = FxObjects::get();
  CallTarget target;
  const py::handle handle(callee);
  if (callee == fx.getitem) {
    target.kind = CallTarget::Kind::getitem;
  } else if (is_a(callee, fx.op_overload)) {
    const py::object schema = handle.attr("_schema");
    const std::string name = schema.attr("name").cast<std::string>();
    const std::string overload = schema.attr("overload_name").cast<std::string>();
    target.key = overload.empty() ? name : name + "." + overload;
    target.schema = aten::find_schema(target.key);
    if (target.schema && aten::is_check(*target.schema)) target.kind = CallTarget::Kind::dropped;
  } else if (is_a(callee, fx.higher_order)) {
    target.key = "higher_order::" + python_name(callee);
    target.higher_order = aten::find_higher_order(target.key);
    if (target.higher_order) target.kind = kind_of(*target.higher_order);
  } else {
    target.key = "python::" + python_name(callee);
  }
  return target;
}

// A view of the elements of a list or tuple (borrowed).
struct Items {
  explicit Items(PyObject* sequence)
      : begin_(PySequence_Fast_ITEMS(sequence)), size_(PySequence_Fast_GET_SIZE(sequence)) {}
  PyObject** begin() const { return begin_; }
  PyObject** end() const { return begin_ + size_; }
  size_t size() const { return static_cast<size_t>(size_); }
  PyObject* operator[](size_t i) const { return begin_[i]; }

 private:
  PyObject** begin_;
  Py_ssize_t size_;
};

bool is_sequence(PyObject* object) { return PyList_Check(object) || PyTuple_Check(object); }

// Checks the result of a PyLong_As... function; throws ExportError(unsupported) on overflow.
template <class Number>
Number converted(Number number, PyObject* object) {
  if (number == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    fail(ErrorKind::unsupported, "the number ", py::repr(object).cast<std::string>(),
         " is too large");
  }
  return number;
}

int64_t integer(PyObject* object) { return converted(PyLong_AsLongLong(object), object); }
double floating(PyObject* object) { return converted(PyLong_AsDouble(object), object); }

// Converts an int; one beyond 64 bits, such as a size bound in an assertion, becomes a float.
Argument whole_number(PyObject* object) {
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0 ? Argument(number) : Argument(floating(object));
}

// Converts None, numbers, strings and torch's enumerations; returns nullopt for other objects.
std::optional<Argument> literal(PyObject* object) {
  if (object == Py_None) return Argument();
  if (PyBool_Check(object)) return Argument(object == Py_True);
  if (PyLong_Check(object)) return whole_number(object);
  if (PyFloat_Check(object)) return Argument(PyFloat_AS_DOUBLE(object));
  if (PyUnicode_Check(object)) return Argument(std::string(text(object)));
  if (PyComplex_Check(object)) {
    return Argument(
        std::complex<double>(PyComplex_RealAsDouble(object), PyComplex_ImagAsDouble(object)));
  }
  if (THPDtype_Check(object)) {
    const auto type = reinterpret_cast<THPDtype*>(object)->scalar_type;
    const std::optional<DType> dtype = aten::to_dtype(type);
    if (!dtype) fail(ErrorKind::unsupported, aten::no_element_type(type));
    return Argument(*dtype);
  }
  if (THPDevice_Check(object)) {
    return Argument(reinterpret_cast<THPDevice*>(object)->device.str());
  }
  if (THPLayout_Check(object)) {
    std::ostringstream name;
    name << reinterpret_cast<THPLayout*>(object)->layout;
    std::string lower = name.str();
    std::transform(lower.begin(), lower.end(), lower.begin(), ::tolower);
    return Argument(std::move(lower));
  }
  if (THPMemoryFormat_Check(object)) {
    return Argument(
        aten::memory_format_name(reinterpret_cast<THPMemoryFormat*>(object)->memory_format));
  }
  return std::nullopt;
}

// Maps the indices of a call's results to names, taken from the getitem nodes that read them.
std::map<int64_t, std::string> result_names(PyObject* fx_node, int64_t first) {
  const FxObjects& fx = FxObjects::get();
  std::map<int64_t, std::string> names;
  const py::object users = attribute(fx_node, fx.users);
  PyObject* user = nullptr;
  PyObject* unused = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(users.ptr(), &position, &user, &unused)) {
    const py::object target = attribute(user, fx.target);
    if (target.ptr() != fx.getitem) continue;
    const py::object args = attribute(user, fx.args);
    PyObject* index = PyTuple_GET_ITEM(args.ptr(), 1);
    if (!PyLong_Check(index)) continue;
    names.try_emplace(integer(index) - first, text(attribute(user, fx.name).ptr()));
  }
  return names;
}

}  // namespace

const CallTarget& ProgramReader::target(PyObject* callee) {
  const auto at = targets_.find(callee);
  if (at != targets_.end()) return at->second;
  return targets_.emplace(callee, read_target(callee)).first->second;
}

PyObject* ProgramReader::origin(const aten::Node& call) {
  for (; indexed_ < origins_.size(); ++indexed_) origin_of_.insert(origins_[indexed_]);
  const auto at = origin_of_.find(call.location);
  return at == origin_of_.end() ? nullptr : at->second;
}

Argument GraphReader::read(PyObject* graph_module, const Placeholder& placeholder) {
  const FxObjects& fx = FxObjects::get();
  const py::object graph = attribute(graph_module, fx.graph);
  const py::object nodes = attribute(graph.ptr(), fx.nodes);
  Argument outputs;
  // Copies the nodes to a list: FX's iterator restarts when advanced at its end, as pybind11 does.
  const auto list = py::reinterpret_steal<py::object>(PySequence_List(nodes.ptr()));
  if (!list) throw py::error_already_set();
  for (PyObject* node : Items(list.ptr())) {
    const py::object op = attribute(node, fx.op);
    const py::object name_object = attribute(node, fx.name);
    const std::string_view name = text(name_object.ptr());
    try {
      if (op.ptr() == fx.call_function) {
        const py::object meta = attribute(node, fx.meta);
        call(node, name, meta.ptr());
      } else if (op.ptr() == fx.placeholder) {
        Argument value = placeholder(node, name);
        environment_[node].argument = std::move(value);
      } else if (op.ptr() == fx.get_attr) {
        get_attribute(graph_module, node, name);
      } else if (op.ptr() == fx.output) {
        const py::object args = attribute(node, fx.args);
        outputs = argument(PyTuple_GET_ITEM(args.ptr(), 0));
      } else {
        fail(ErrorKind::invalid_program, "node ", name, " is a ", text(op.ptr()),
             "; a captured program contains only function calls");
      }
    } catch (ExportError& error) {
      const py::object meta = attribute(node, fx.meta);
      error.add_location(read_location(meta.ptr(), name));
      throw;
    }
  }
  return outputs;
}

void GraphReader::hold_wrapper(PyObject* node, std::string name, py::object tensor,
                               aten::ConstantKind kind) {
  environment_[node] = {.object = std::move(tensor), .name = std::move(name), .kind = kind};
}

// Reads export::access_subclass_inner_tensor(wrapper, attribute).
void GraphReader::read_part(PyObject* node, PyObject* args) {
  const auto wrapper = environment_.find(PyTuple_GET_ITEM(args, 0));
  if (wrapper == environment_.end() || wrapper->second.name.empty()) {
    fail(ErrorKind::unsupported, "a part of a tensor subclass that is not a weight of the module");
  }
  const Result& whole = wrapper->second;
  PyObject* attribute_name = PyTuple_GET_ITEM(args, 1);
  std::string name = whole.name + "." + std::string(text(attribute_name));
  py::object part = whole.object.attr(py::handle(attribute_name));
  const aten::ConstantKind kind = whole.kind;
  if (py::hasattr(part, "__tensor_flatten__")) {
    hold_wrapper(node, std::move(name), std::move(part), kind);
    return;
  }
  const auto [known, is_new] = parts_.try_emplace(name);
  if (is_new) {
    TensorData data = aten::tensor_data(THPVariable_Unpack(part.ptr()), name);
    known->second = graph_.add_constant(name, std::move(data), kind);
  }
  environment_[node].argument = known->second;
}

void GraphReader::get_attribute(PyObject* graph_module, PyObject* node, std::string_view name) {
  const FxObjects& fx = FxObjects::get();
  const std::string path = attribute(node, fx.target).cast<std::string>();
  py::object object = py::reinterpret_borrow<py::object>(graph_module);
  for (size_t start = 0; start <= path.size();) {
    const size_t dot = std::min(path.find('.', start), path.size());
    object = object.attr(path.substr(start, dot - start).c_str());
    start = dot + 1;
  }
  Result& result = environment_[node];
  if (THPVariable_Check(object.ptr())) {
    TensorData data = aten::literal_data(THPVariable_Unpack(object.ptr()), name);
    result.argument = graph_.add_constant(path, std::move(data));
  } else {
    result.object = std::move(object);
  }
}

void GraphReader::call(PyObject* node, std::string_view name, PyObject* meta) {
  const FxObjects& fx = FxObjects::get();
  const py::object callee = attribute(node, fx.target);
  const CallTarget& target = program_.target(callee.ptr());
  const py::object args = attribute(node, fx.args);
  if (target.key == aten::kAssertScalar && PyTuple_GET_SIZE(args.ptr()) > 0)
    aten::add_assertion(graph_, argument(PyTuple_GET_ITEM(args.ptr(), 0)), locate(name, meta));
  if (target.kind == CallTarget::Kind::dropped) return;
  if (target.key == "export::access_subclass_inner_tensor") {
    read_part(node, args.ptr());
    return;
  }
  if (target.kind == CallTarget::Kind::getitem) {
    Argument item = get_item(args.ptr());
    environment_[node].argument = std::move(item);
    return;
  }
  const py::object kwargs = attribute(node, fx.kwargs);
  if (target.kind == CallTarget::Kind::inlined) {
    Argument result = inline_call(name, meta, args.ptr(), target);
    environment_[node].argument = std::move(result);
    return;
  }
  if (target.kind == CallTarget::Kind::ordered) {
    Argument result = ordered_call(node, name, meta);
    environment_[node].argument = std::move(result);
    return;
  }
  PyObject* value = entry(meta, fx.val);
  if (value) {
    // A number that the capture specialized becomes a literal, and the call is dropped.
    if (PyLong_Check(value) || PyFloat_Check(value)) {
      environment_[node].argument = *literal(value);
      return;
    }
    if (is_a(value, fx.sym_int)) {
      if (const auto number = program_.types.dim_of(value).constant()) {
        environment_[node].argument = *number;
        return;
      }
    }
  }
  const Location* location = locate(name, meta);
  program_.add_origin(location, node);
  std::vector<Argument> call_arguments = arguments(args.ptr(), kwargs.ptr(), target);
  autocast(target, value, call_arguments, location);
  aten::Node* call = graph_.add_node(target.key, std::move(call_arguments), location);
  Argument result = results(call, node, name, value);
  environment_[node].argument = std::move(result);
}

const Location* GraphReader::locate(std::string_view name, PyObject* meta) {
  if (program_.within) return graph_.add_location(*program_.within);
  Location location = read_location(meta, name);
  if (program_.region) location = aten::within(*program_.region, std::move(location));
  return graph_.add_location(std::move(location));
}

// Reads with_effects(token, operator, *arguments), which returns a token and the operator's
// results. The token is dropped: the graph keeps its nodes in order without it.
Argument GraphReader::ordered_call(PyObject* node, std::string_view name, PyObject* meta) {
  const FxObjects& fx = FxObjects::get();
  const py::object args = attribute(node, fx.args);
  const py::object kwargs = attribute(node, fx.kwargs);
  const CallTarget& target = program_.target(PyTuple_GET_ITEM(args.ptr(), 1));
  List result{Argument()};
  if (target.kind == CallTarget::Kind::dropped) return result;
  const auto operands =
      py::reinterpret_steal<py::object>(PySequence_GetSlice(args.ptr(), 2, PY_SSIZE_T_MAX));
  const Location* location = locate(name, meta);
  program_.add_origin(location, node);
  aten::Node* call =
      graph_.add_node(target.key, arguments(operands.ptr(), kwargs.ptr(), target), location);
  PyObject* value = entry(meta, fx.val);
  py::object given;
  if (value && is_sequence(value))
    given = py::reinterpret_steal<py::object>(PySequence_GetSlice(value, 1, PY_SSIZE_T_MAX));
  Argument results = this->results(call, node, name, given.ptr(), /*first=*/1);
  if (auto* list = std::get_if<List>(&results.value)) {
    result.insert(result.end(), list->begin(), list->end());
  } else {
    result.push_back(std::move(results));
  }
  return result;
}

Argument GraphReader::get_item(PyObject* args) {
  const Argument sequence = argument(PyTuple_GET_ITEM(args, 0));
  const Argument index = argument(PyTuple_GET_ITEM(args, 1));
  const auto* list = sequence.get<List>();
  const auto* i = index.get<int64_t>();
  if (!list || !i) {
    fail(ErrorKind::unsupported, "operator.getitem needs a list of results and a constant index");
  }
  const int64_t size = static_cast<int64_t>(list->size());
  const int64_t position = *i < 0 ? *i + size : *i;
  if (position < 0 || position >= size) {
    fail(ErrorKind::invalid_program, "operator.getitem(", *i, ") is out of range for ", size,
         " results");
  }
  return (*list)[position];
}

GraphReader::Inlined GraphReader::inlined_arguments(PyObject* args, const CallTarget& target) {
  const FxObjects& fx = FxObjects::get();
  Inlined call;
  for (PyObject* item : Items(args)) {
    const bool is_node = !call.body && is_a(item, fx.node_type);
    const auto at = is_node ? environment_.find(item) : environment_.end();
    if (at != environment_.end() && at->second.object) {
      call.node = item;
      call.body = at->second.object;
    } else {
      (call.body ? call.operands : call.settings).push_back(argument(item));
    }
  }
  if (!call.body || !is_a(call.body.ptr(), fx.graph_module)) {
    fail(ErrorKind::unsupported, target.key, " has no body graph");
  }
  call.operands = aten::body_inputs(*target.higher_order, std::move(call.operands));
  return call;
}

// Saves the reader's state while it reads an inlined body, which does not see the outer values.
class GraphReader::InlinedScope {
 public:
  explicit InlinedScope(GraphReader& reader)
      : reader_(reader),
        environment_(std::exchange(reader.environment_, {})),
        region_(reader.program_.region),
        autocast_(reader.autocast_),
        autocast_device_(reader.autocast_device_) {}
  InlinedScope(const InlinedScope&) = delete;
  InlinedScope& operator=(const InlinedScope&) = delete;
  ~InlinedScope() {
    reader_.environment_ = std::move(environment_);
    reader_.program_.region = region_;
    reader_.autocast_ = autocast_;
    reader_.autocast_device_ = autocast_device_;
  }

 private:
  GraphReader& reader_;
  Environment environment_;
  const Location* region_;
  bool autocast_;
  std::string autocast_device_;
};

Argument GraphReader::inline_call(std::string_view name, PyObject* meta, PyObject* args,
                                  const CallTarget& target) {
  const Inlined call = inlined_arguments(args, target);
  const InlinedScope scope(*this);
  if (target.higher_order->is_region) {
    const auto subgraph = attribute(call.node, FxObjects::get().target).cast<std::string>();
    program_.region = graph_.add_location(aten::in_region(*locate(name, meta), subgraph));
  }
  if (const auto enabled = aten::autocast_of(*target.higher_order, call.settings)) {
    autocast_ = *enabled;
    autocast_device_ = aten::autocast_device(*target.higher_order, call.settings);
  }
  size_t next = 0;
  return read(call.body.ptr(), [&](PyObject*, std::string_view placeholder) {
    if (next >= call.operands.size()) {
      fail(ErrorKind::invalid_program, target.key, " has no operand for ", placeholder);
    }
    return call.operands[next++];
  });
}

std::vector<Argument> GraphReader::arguments(PyObject* args, PyObject* kwargs,
                                             const CallTarget& target) {
  const Items items(args);
  std::vector<Argument> result;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  Py_ssize_t position = 0;
  if (!target.schema) {
    result.reserve(items.size());
    for (PyObject* item : items) result.push_back(argument(item));
    while (PyDict_Next(kwargs, &position, &key, &value)) result.push_back(argument(value));
    return result;
  }
  const aten::Schema& schema = *target.schema;
  result = aten::default_arguments(schema);
  if (items.size() > result.size()) {
    fail(ErrorKind::invalid_program, target.key, " takes ", result.size(), " arguments, got ",
         items.size());
  }
  for (size_t i = 0; i < items.size(); ++i) {
    result[i] = argument(items[i], schema.arguments[i].type);
  }
  while (PyDict_Next(kwargs, &position, &key, &value)) {
    const int index = schema.index(text(key));
    if (index < 0) {
      fail(ErrorKind::invalid_program, target.key, " has no argument named ", text(key));
    }
    result[index] = argument(value, schema.arguments[index].type);
  }
  return result;
}

Argument GraphReader::argument(PyObject* object) {
  const FxObjects& fx = FxObjects::get();
  if (Py_TYPE(object) == fx.node_type) {
    const auto at = environment_.find(object);
    if (at == environment_.end()) {
      fail(ErrorKind::invalid_program, "the result of ",
           py::str(py::handle(object)).cast<std::string>(), " is used but was never computed");
    }
    if (!at->second.object) return at->second.argument;
    if (is_a(at->second.object.ptr(), fx.graph_module)) {
      return read_graph(program_, at->second.object.ptr(), autocast_);
    }
    fail(ErrorKind::unsupported, "cannot export an argument of type ",
         Py_TYPE(at->second.object.ptr())->tp_name);
  }
  if (is_sequence(object)) {
    const Items items(object);
    List list;
    list.reserve(items.size());
    for (PyObject* item : items) list.push_back(argument(item));
    return list;
  }
  if (std::optional<Argument> value = literal(object)) return std::move(*value);
  if (PyDict_Check(object)) {  // hints and options of higher-order operators; keys are dropped
    List list;
    PyObject* key = nullptr;
    PyObject* element = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(object, &position, &key, &element)) list.push_back(argument(element));
    return list;
  }
  if (is_a(object, fx.sym_int)) {
    if (const auto number = program_.types.dim_of(object).constant()) return *number;
  }
  fail(ErrorKind::unsupported, "cannot export an argument of type ", Py_TYPE(object)->tp_name, ": ",
       py::repr(object).cast<std::string>());
}

Argument GraphReader::argument(PyObject* object, const aten::SchemaType& type) {
  if (type.list) {
    if (!is_sequence(object)) {
      Argument value = argument(object);
      if (value.is_none() || value.get<List>()) return value;
      return List(std::max(type.fixed_size, 1), value);
    }
    const Items items(object);
    if (items.size() == 1 && type.fixed_size > 1) {
      return List(type.fixed_size, argument(items[0]));
    }
    if (type.kind != aten::TypeKind::floating) return argument(object);
    List list;
    for (PyObject* item : items) {
      list.push_back(PyLong_Check(item) ? Argument(floating(item)) : argument(item));
    }
    return list;
  }
  if (type.kind == aten::TypeKind::floating && PyLong_Check(object) && !PyBool_Check(object)) {
    return floating(object);
  }
  return argument(object);
}

Argument GraphReader::results(aten::Node* node, PyObject* fx_node, std::string_view name,
                              PyObject* value, int64_t first) {
  const aten::Schema* schema = node->schema;
  if (schema && schema->returns.empty()) return {};
  if (value && !is_sequence(value)) {
    if (value == Py_None && !schema) return {};
    return one_result(node, name, value);
  }
  const bool has_one = schema && schema->returns.size() == 1 && !schema->returns[0].type.list;
  if (!value && has_one) return one_result(node, name, nullptr);
  return several_results(node, fx_node, name, value, first);
}

Argument GraphReader::several_results(aten::Node* node, PyObject* fx_node, std::string_view name,
                                      PyObject* value, int64_t first) {
  const std::map<int64_t, std::string> names = result_names(fx_node, first);
  size_t size = node->schema ? node->schema->returns.size() : 0;
  if (value) {
    size = Items(value).size();
  } else if (!names.empty()) {
    size = std::max(size, static_cast<size_t>(std::max<int64_t>(names.rbegin()->first + 1, 0)));
  }
  List list;
  list.reserve(size);
  for (size_t i = 0; i < size; ++i) {
    const auto given = names.find(static_cast<int64_t>(i));
    list.push_back(one_result(node, given == names.end() ? concat(name, "__", i) : given->second,
                              value ? Items(value)[i] : nullptr));
  }
  return list;
}

// Adds a result, or a list of results, with the type of `value`; the type is unknown if it is null.
Argument GraphReader::one_result(aten::Node* node, std::string_view name, PyObject* value) {
  if (!value) return graph_.add_output(node, name, {});
  if (!is_sequence(value)) return graph_.add_output(node, name, program_.types.type_of(value));
  List list;
  const Items items(value);
  for (size_t i = 0; i < items.size(); ++i) {
    list.push_back(
        graph_.add_output(node, concat(name, "__", i), program_.types.type_of(items[i])));
  }
  return list;
}

void GraphReader::autocast(const CallTarget& target, PyObject* value,
                           std::vector<Argument>& arguments, const Location* location) {
  if (!target.schema || !value || (!autocast_ && !aten::runs_in_half(*target.schema))) return;
  if (is_sequence(value)) {
    if (Items(value).size() == 0) return;
    value = Items(value)[0];
  }
  const aten::Type result = program_.types.type_of(value);
  if (!autocast_device_.empty() && THPVariable_Check(value) &&
      py::handle(value).attr("device").attr("type").cast<std::string>() == autocast_device_) {
    aten::check_autocast(*target.schema, result, arguments, autocast_device_);
  }
  autocast_ = autocast_ || aten::shows_autocast(*target.schema, result, arguments);
  if (autocast_) aten::cast_for_autocast(graph_, *target.schema, result, arguments, location);
}

std::shared_ptr<aten::Graph> read_graph(ProgramReader& program, PyObject* graph_module,
                                        bool autocast) {
  auto graph = std::make_shared<aten::Graph>();
  GraphReader reader(program, *graph);
  reader.autocast_ = autocast;
  Argument outputs = reader.read(graph_module, [&](PyObject* node, std::string_view name) {
    const FxObjects& fx = FxObjects::get();
    const py::object meta = attribute(node, fx.meta);
    PyObject* value = entry(meta.ptr(), fx.val);
    return graph->add_input(name, value ? program.types.type_of(value) : aten::Type());
  });
  if (auto* list = std::get_if<List>(&outputs.value)) {
    graph->outputs = std::move(*list);
  } else {
    graph->outputs = {std::move(outputs)};
  }
  return graph;
}

}  // namespace onnx_native::fx
