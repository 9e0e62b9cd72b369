#include "readers/jit/reader.h"

#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <charconv>
#include <type_traits>
#include <variant>

#include "aten/default_dtype.h"
#include "readers/jit/open_list.h"

namespace onnx_native::readers::jit {
namespace {

using aten::Argument;
using aten::Type;

// An input spec and its name in the graph.
struct Given {
  const InputSpec& spec;
  std::string name;
};

[[noreturn]] void does_not_fit(const Given& given, const c10::Type& type) {
  fail(ErrorKind::invalid_argument, "the value given for the input ", given.name,
       " does not match its type ", type.annotation_str());
}

// Converts a constant input. An int becomes a float if the parameter is a float.
Item literal(const Given& given, const c10::Type& type) {
  c10::IValue value = std::visit(
      [](const auto& constant) -> c10::IValue {
        if constexpr (std::is_same_v<std::decay_t<decltype(constant)>, std::monostate>) {
          return {};
        } else {
          return constant;
        }
      },
      *given.spec.constant);
  if (value.isInt() && type.kind() == c10::TypeKind::FloatType)
    value = static_cast<double>(value.toInt());
  if (!value.type()->isSubtypeOf(type)) does_not_fit(given, type);
  if (value.isInt()) return Dim(value.toInt());
  return value;
}

Item input(Interpreter& run, const Given& given, const c10::TypePtr& type);

std::optional<Container::Kind> container_kind(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::DictType:
      return Container::Kind::dict;
    case c10::TypeKind::TupleType:
      return Container::Kind::tuple;
    case c10::TypeKind::ListType:
      return Container::Kind::list;
    default:
      return std::nullopt;
  }
}

// Parses a number that is the whole text.
template <class Number>
std::optional<Number> parsed(const std::string& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number)
                                                                  : std::nullopt;
}

// Converts the name of an element of a dict to its key.
Item key(const Given& given, const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::StringType:
      return c10::IValue(given.name);
    case c10::TypeKind::IntType:
      if (const auto number = parsed<int64_t>(given.name)) return Dim(*number);
      break;
    case c10::TypeKind::FloatType:
      if (const auto number = parsed<double>(given.name)) return c10::IValue(*number);
      break;
    case c10::TypeKind::BoolType:
      if (given.name == "True" || given.name == "False") return c10::IValue(given.name == "True");
      break;
    default:
      break;
  }
  fail(ErrorKind::invalid_argument, "the key ", given.name, " of a dict is no ",
       type.annotation_str(), "; keys are strings, ints, floats or bools");
}

Item read_container(Interpreter& run, const Given& given, const c10::TypePtr& type) {
  const std::vector<InputSpec>& elements = *given.spec.elements;
  const std::optional<Container::Kind> kind = container_kind(*type);
  if (!kind) does_not_fit(given, *type);
  const bool is_dict = kind == Container::Kind::dict;
  const bool is_tuple = kind == Container::Kind::tuple;
  const size_t types = type->containedTypeSize();
  if (is_tuple && types != elements.size()) does_not_fit(given, *type);
  ContainerPtr result = make_container(*kind, {}, type);
  for (size_t i = 0; i < elements.size(); ++i) {
    const std::string& own = elements[i].name;
    const Given element{elements[i], own.empty() ? concat(given.name, "_", i) : own};
    if (is_dict && own.empty()) does_not_fit(given, *type);
    if (is_dict) result->contents.keys.push_back(key(element, *type->containedType(0)));
    result->items().push_back(input(run, element, type->containedType(is_tuple ? i : types - 1)));
  }
  return result;
}

// ONNX tensors have no strides, so the input is contiguous.
Item tensor_input(Recorder& recorder, const Given& given) {
  if (given.spec.dtype == DType::undefined)
    fail(ErrorKind::invalid_argument, "the input ", given.name, " has no dtype");
  aten::Value* value =
      recorder.add_input(given.name, Type::tensor(given.spec.dtype, given.spec.shape));
  recorder.layouts().set_contiguous(value);
  return Item::Tensor{value};
}

Type::Kind number_kind(DType dtype) {
  if (dtype == DType::boolean) return Type::Kind::sym_bool;
  return is_floating(dtype) ? Type::Kind::sym_float : Type::Kind::sym_int;
}

// Returns the kind of number that a parameter of this type takes; nullopt if it takes no number.
std::optional<Type::Kind> number_kind(const c10::Type& type, DType given) {
  switch (type.kind()) {
    case c10::TypeKind::IntType:
      return Type::Kind::sym_int;
    case c10::TypeKind::FloatType:
      return Type::Kind::sym_float;
    case c10::TypeKind::BoolType:
      return Type::Kind::sym_bool;
    case c10::TypeKind::NumberType:
      return number_kind(given);
    default:
      return std::nullopt;
  }
}

Item number_input(Recorder& recorder, const Given& given, Type::Kind kind, const c10::Type& type) {
  const InputSpec& spec = given.spec;
  const bool fits = spec.dtype == DType::undefined || number_kind(spec.dtype) == kind;
  if (!fits || (spec.shape && !spec.shape->empty())) does_not_fit(given, type);
  if (kind == Type::Kind::sym_int) {
    const Dim number = Dim::symbol(given.name, DimRange::integer());
    return *recorder.add_input(given.name, Type::sym_int(number))->type.dim;
  }
  Type number;
  number.kind = kind;
  return Item::Number{recorder.add_input(given.name, number)};
}

// Returns true if an input spec can have this type.
bool can_be(const InputSpec& spec, const c10::Type& type) {
  if (const auto* either = type.castRaw<c10::UnionType>())
    return std::ranges::any_of(either->containedTypes(),
                               [&](const c10::TypePtr& one) { return can_be(spec, *one); });
  if (spec.constant) {
    const size_t kind = spec.constant->index();
    constexpr c10::TypeKind kKinds[] = {c10::TypeKind::NoneType, c10::TypeKind::BoolType,
                                        c10::TypeKind::IntType, c10::TypeKind::FloatType,
                                        c10::TypeKind::StringType};
    return kind < std::size(kKinds) && type.kind() == kKinds[kind];
  }
  if (spec.elements) {
    if (!container_kind(type)) return false;
    const bool is_tuple = type.kind() == c10::TypeKind::TupleType;
    const size_t types = type.containedTypeSize();
    if (is_tuple && types != spec.elements->size()) return false;
    for (size_t i = 0; i < spec.elements->size(); ++i) {
      if (!can_be((*spec.elements)[i], *type.containedType(is_tuple ? i : types - 1))) return false;
    }
    return true;
  }
  if (const auto kind = number_kind(type, spec.dtype))
    return spec.shape && spec.shape->empty() && number_kind(spec.dtype) == kind;
  return type.kind() == c10::TypeKind::TensorType;
}

// Converts an input spec to an Item of this type.
Item input(Interpreter& run, const Given& given, const c10::TypePtr& type) {
  const InputSpec& spec = given.spec;
  const bool is_none = spec.constant && spec.constant->index() == 0;
  if (const auto optional = type->cast<c10::OptionalType>(); optional && !is_none)
    return input(run, given, optional->getElementType());
  if (const auto either = type->cast<c10::UnionType>();
      either && type->kind() == c10::TypeKind::UnionType) {
    for (const c10::TypePtr& one : either->containedTypes()) {
      if (can_be(spec, *one)) return input(run, given, one);
    }
    does_not_fit(given, *type);
  }
  if (spec.constant) return literal(given, *type);
  if (spec.elements) return read_container(run, given, type);
  if (const auto kind = number_kind(*type, spec.dtype))
    return number_input(run.recorder(), given, *kind, *type);
  if (type->kind() != c10::TypeKind::TensorType && !c10::TensorType::get()->isSubtypeOf(*type))
    does_not_fit(given, *type);
  return tensor_input(run.recorder(), given);
}

// Returns a result without elements.
Argument result(Interpreter& run, const Item& item) {
  const auto* known = item.get<c10::IValue>();
  if (item.is_uninitialized() || item.is_none()) return {};
  if (known && known->isString()) return known->toStringRef();
  if (known && known->isComplexDouble()) {
    const c10::complex<double> number = known->toComplexDouble();
    const DType part = real_dtype(complex_dtype(aten::default_dtype()));
    const auto scalar = [&](double value) {
      return run.record_one("aten::scalar_tensor", {value, part}).tensor();
    };
    return run.record_one("aten::complex", {scalar(number.real()), scalar(number.imag())}).tensor();
  }
  if (known && !known->isBool() && !known->isDouble())
    fail(ErrorKind::unsupported, "cannot return ", describe(item), "; return tensors or numbers");
  return run.argument(item);
}

// Flattens a result in pytree order.
void flatten_result(Interpreter& run, const Item& item, std::vector<Argument>& outputs) {
  if (item.maybe())
    fail(ErrorKind::unsupported, "cannot return ", describe(item),
         "; return a tensor in both cases, and a flag with it");
  const Container* container = item.container();
  if (!container) {
    if (const aten::Value* tensor = item.tensor();
        tensor && !tensor->type.shape && tensor->producer && !tensor->producer->schema)
      fail(ErrorKind::unsupported, "the rank of the result %", tensor->name,
           " is data-dependent; give it the same rank in all branches and iterations");
    outputs.push_back(result(run, item));
    return;
  }
  if (container->kind == Container::Kind::object)
    fail(ErrorKind::unsupported, "cannot return an object; return its tensors");
  if (const OpenList* list = container->contents.open.get()) {
    const std::optional<int64_t> count = length(*list).constant();
    if (!count)
      fail(ErrorKind::unsupported,
           "cannot return a list of unknown length; return torch.stack, torch.cat or torch.tensor "
           "of it");
    for (int64_t i = 0; i < *count; ++i) flatten_result(run, element(run, *list, Dim(i)), outputs);
    return;
  }
  for (const Item& element : container->items()) flatten_result(run, element, outputs);
}

// Returns the arguments of a function without the first `first` ones, such as `self`.
Items arguments(Interpreter& run, const torch::jit::Function& function, const ReadOptions& options,
                size_t first) {
  const std::vector<c10::Argument>& wanted = function.getSchema().arguments();
  Items result;
  if (options.inputs.size() + first > wanted.size())
    fail(ErrorKind::invalid_argument, function.name(), " takes ", wanted.size() - first,
         " inputs, not ", options.inputs.size());
  for (size_t i = first; i < wanted.size(); ++i) {
    if (i - first < options.inputs.size()) {
      const InputSpec& spec = options.inputs[i - first];
      result.push_back(
          input(run, {spec, spec.name.empty() ? wanted[i].name() : spec.name}, wanted[i].type()));
    } else if (wanted[i].default_value()) {
      result.push_back(run.item(*wanted[i].default_value(), wanted[i].name()));
    } else {
      fail(ErrorKind::invalid_argument, "no value is given for the input ", wanted[i].name(),
           " of type ", wanted[i].type()->annotation_str(),
           "; an input without a default needs a value, or a spec such as 'x:float32[batch,3]'");
    }
  }
  return result;
}

// Records a mutation for each buffer that the program replaced or reshaped.
void record_buffers(aten::Graph& graph, const Container& object) {
  for (size_t slot = 0; slot < object.items().size(); ++slot) {
    const Item& item = object.items()[slot];
    const Container* inner = item.container();
    if (inner && inner->kind == Container::Kind::object) record_buffers(graph, *inner);
    const auto* type = object.type ? object.type->castRaw<c10::ClassType>() : nullptr;
    if (!item.tensor() || !type || !type->is_buffer(slot)) continue;
    const std::string& attribute = type->getAttributeName(slot);
    const std::string name = object.path.empty() ? attribute : object.path + "." + attribute;
    for (const aten::Constant& constant : graph.constants) {
      if (constant.value->name == name && constant.value != item.tensor())
        graph.mutations.push_back({.target = name, .is_buffer = true, .value = item.tensor()});
    }
  }
}

// Gives each call its name: that of its result, or of its operator if it has several.
void name_calls(aten::Graph& graph) {
  for (aten::Node* node : graph.nodes) {
    for (const aten::Argument& argument : node->arguments) {
      if (const auto* body = argument.get<std::shared_ptr<aten::Graph>>()) name_calls(**body);
    }
    if (!node->location) continue;
    Location location = *node->location;
    const std::string op = node->op.substr(node->op.rfind(':') + 1);
    location.node = node->outputs.size() == 1
                        ? node->outputs[0]->name
                        : graph.add_value(op.substr(0, op.find('.')), {})->name;
    node->location = graph.add_location(std::move(location));
  }
}

bool is_tuple(const Item& item) {
  return item.container() && item.container()->kind == Container::Kind::tuple;
}

// Runs a module as a call of it does: its forward, between its hooks.
Items run_hooked(Interpreter& run, const torch::jit::Function& forward, Items given,
                 const ContainerPtr& self) {
  const auto& type = self->type->expectRef<c10::ClassType>();
  const auto tuple = [](Items items) {
    return Item(make_container(Container::Kind::tuple, std::move(items)));
  };
  Item arguments = tuple(Items(given.begin() + 1, given.end()));
  for (const torch::jit::Function* hook : type.getForwardPreHooks()) {
    const Items changed = run.run(*hook, {self, arguments}, self.get());
    if (changed.empty() || changed[0].is_none()) continue;
    arguments = is_tuple(changed[0]) ? changed[0] : tuple(changed);
  }
  const Items& changed = arguments.container()->items();
  given.resize(1);
  given.insert(given.end(), changed.begin(), changed.end());
  Items results = run.run(forward, std::move(given), self.get());
  if (type.getForwardHooks().empty()) return results;
  Item result = results.empty() ? Item::none() : results[0];
  for (const torch::jit::Function* hook : type.getForwardHooks()) {
    const Items other = run.run(*hook, {self, arguments, result}, self.get());
    if (!other.empty() && !other[0].is_none()) result = other[0];
  }
  return {result};
}

// `module` is the owner of a method, else nullptr.
std::unique_ptr<aten::Graph> read_function(const torch::jit::Function& function,
                                           const torch::jit::Module* module,
                                           const ReadOptions& options, aten::TypeInference& types) {
  Dim::restart_fresh();  // the same program gives the same names
  auto owned = std::make_unique<aten::Graph>();
  const std::shared_ptr<aten::Graph> graph(owned.get(), [](aten::Graph*) {});
  Interpreter run(graph, types);
  const ContainerPtr self = module ? run.object(module->_ivalue(), "") : nullptr;
  Items given = arguments(run, function, options, self ? 1 : 0);
  if (self) given.insert(given.begin(), self);
  const Items results = self && options.method == "forward"
                            ? run_hooked(run, function, std::move(given), self)
                            : run.run(function, std::move(given), self.get());
  for (const Item& result : results) flatten_result(run, result, graph->outputs);
  if (self) record_buffers(*graph, *self);
  name_calls(*graph);
  return owned;
}

}  // namespace

std::unique_ptr<aten::Graph> read(const torch::jit::Module& module, const ReadOptions& options,
                                  aten::TypeInference& types) {
  const std::optional<torch::jit::Method> method = module.find_method(options.method);
  if (!method) fail(ErrorKind::invalid_argument, "the module has no method ", options.method);
  return read_function(method->function(), &module, options, types);
}

std::unique_ptr<aten::Graph> read(const torch::jit::Function& function, const ReadOptions& options,
                                  aten::TypeInference& types) {
  return read_function(function, nullptr, options, types);
}

}  // namespace onnx_native::readers::jit
