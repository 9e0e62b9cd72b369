#include "readers/jit/reader.h"

#include <torch/csrc/jit/api/module.h>

#include <algorithm>

#include "readers/jit/open_list.h"

namespace onnx_native::readers::jit {
namespace {

using aten::Argument;
using aten::Type;

[[noreturn]] void does_not_fit(const InputSpec& spec, const c10::Type& type) {
  fail(ErrorKind::invalid_argument, "what is given for the input ", spec.name,
       " does not fit its type, which is ", type.annotation_str());
}

bool fits(InputSpec::Kind kind, const c10::Type& type) {
  switch (kind) {
    case InputSpec::Kind::tensor:
      return type.kind() == c10::TypeKind::TensorType || c10::TensorType::get()->isSubtypeOf(type);
    case InputSpec::Kind::integer:
      return c10::IntType::get()->isSubtypeOf(type);
    case InputSpec::Kind::floating:
      return c10::FloatType::get()->isSubtypeOf(type);
    case InputSpec::Kind::boolean:
      return c10::BoolType::get()->isSubtypeOf(type);
    case InputSpec::Kind::mapping:
      return type.kind() == c10::TypeKind::DictType;
    default:
      return type.kind() == c10::TypeKind::ListType || type.kind() == c10::TypeKind::TupleType;
  }
}

// A value that the program is read for; integers are floats where those are wanted.
Item literal(const InputSpec& spec, const c10::Type& type) {
  c10::IValue value;
  if (const auto* number = spec.literal.get<int64_t>()) {
    value = *number;
    if (type.kind() == c10::TypeKind::FloatType) value = static_cast<double>(*number);
  } else if (const auto* real = spec.literal.get<double>()) {
    value = *real;
  } else if (const auto* flag = spec.literal.get<bool>()) {
    value = *flag;
  } else if (const auto* text = spec.literal.get<std::string>()) {
    value = *text;
  }
  if (!value.type()->isSubtypeOf(type)) does_not_fit(spec, type);
  if (value.isInt()) return Dim(value.toInt());
  return value;
}

Item input(Interpreter& run, const InputSpec& spec, const c10::TypePtr& type);

Item container(Interpreter& run, const InputSpec& spec, const c10::TypePtr& type) {
  const bool is_tuple = type->kind() == c10::TypeKind::TupleType;
  const size_t types = type->containedTypeSize();
  if (is_tuple && types != spec.elements.size()) does_not_fit(spec, *type);
  const bool is_dict = spec.kind == InputSpec::Kind::mapping;
  ContainerPtr result = make_container(is_dict    ? Container::Kind::dict
                                       : is_tuple ? Container::Kind::tuple
                                                  : Container::Kind::list,
                                       {}, type);
  for (size_t i = 0; i < spec.elements.size(); ++i) {
    if (is_dict) result->contents.keys.emplace_back(c10::IValue(spec.elements[i].name));
    result->items().push_back(
        input(run, spec.elements[i], type->containedType(is_tuple ? i : types - 1)));
  }
  return result;
}

// An ONNX tensor has no strides: it is contiguous.
Item tensor_input(Recorder& recorder, const InputSpec& spec) {
  aten::Value* value = recorder.add_input(spec.name, Type::tensor(spec.dtype, spec.shape));
  recorder.layouts().set_contiguous(value);
  return Item::Tensor{value};
}

// The input as `type` wants it.
Item input(Interpreter& run, const InputSpec& spec, const c10::TypePtr& type) {
  if (const auto optional = type->cast<c10::OptionalType>();
      optional && (spec.kind != InputSpec::Kind::literal || !spec.literal.is_none()))
    return input(run, spec, optional->getElementType());
  if (spec.kind == InputSpec::Kind::literal) return literal(spec, *type);
  if (!fits(spec.kind, *type)) does_not_fit(spec, *type);
  Recorder& recorder = run.recorder();
  Type number;
  switch (spec.kind) {
    case InputSpec::Kind::tensor:
      if (spec.dtype == DType::undefined)
        fail(ErrorKind::invalid_argument, "the input ", spec.name, " has no dtype");
      return tensor_input(recorder, spec);
    case InputSpec::Kind::integer:
      return *recorder
                  .add_input(spec.name, Type::sym_int(Dim::symbol(spec.name, DimRange::integer())))
                  ->type.dim;
    case InputSpec::Kind::floating:
      number.kind = Type::Kind::sym_float;
      return Item::Number{recorder.add_input(spec.name, number)};
    case InputSpec::Kind::boolean:
      number.kind = Type::Kind::sym_bool;
      return Item::Number{recorder.add_input(spec.name, number)};
    default:
      return container(run, spec, type);
  }
}

// What the method gives, flattened as pytrees are.
void flatten(Interpreter& run, const Item& item, std::vector<Argument>& outputs) {
  if (item.maybe())
    fail(ErrorKind::unsupported, "a result that is ", describe(item),
         ": return a tensor in either case, and a flag beside it");
  const Container* container = item.container();
  if (!container) {
    if (const aten::Value* tensor = item.tensor();
        tensor && !tensor->type.shape && tensor->producer && !tensor->producer->schema)
      fail(ErrorKind::unsupported, "the rank of the result %", tensor->name,
           " depends on data: give it the same rank in all branches and steps");
    const bool is_value =
        item.tensor() || item.number() || item.get<Dim>() || item.boolean() || item.floating();
    outputs.push_back(is_value ? run.argument(item) : Argument());
    return;
  }
  if (container->kind == Container::Kind::object)
    fail(ErrorKind::unsupported, "a result that is an object");
  if (const OpenList* list = container->contents.open.get()) {
    const std::optional<int64_t> count = length(*list).constant();
    if (!count)
      fail(ErrorKind::unsupported,
           "a result that is a list whose length is not known: return torch.stack, torch.cat or "
           "torch.tensor of it");
    for (int64_t i = 0; i < *count; ++i) flatten(run, element(run, *list, Dim(i)), outputs);
    return;
  }
  for (const Item& element : container->items()) flatten(run, element, outputs);
}

// What the function is given, behind `self` where it is a method.
Items arguments(Interpreter& run, const torch::jit::Function& function, const ReadOptions& options,
                size_t first) {
  const std::vector<c10::Argument>& wanted = function.getSchema().arguments();
  Items result;
  if (options.inputs.size() + first > wanted.size())
    fail(ErrorKind::invalid_argument, function.name(), " takes ", wanted.size() - first,
         " inputs, not ", options.inputs.size());
  for (size_t i = first; i < wanted.size(); ++i) {
    if (i - first < options.inputs.size()) {
      result.push_back(input(run, options.inputs[i - first], wanted[i].type()));
    } else if (wanted[i].default_value()) {
      result.push_back(run.item(*wanted[i].default_value(), wanted[i].name()));
    } else {
      fail(ErrorKind::invalid_argument, "nothing is given for the input ", wanted[i].name(), ": ",
           wanted[i].type()->annotation_str(),
           "; what has no default needs a value, or a spec such as 'x:float32[batch,3]'");
    }
  }
  return result;
}

// Buffers that are other tensors at the end, or have another shape.
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

// `module` is what it is a method of, if of a module.
std::unique_ptr<aten::Graph> read(const torch::jit::Function& function,
                                  const torch::jit::Module* module, const ReadOptions& options,
                                  TypeInference& types) {
  Dim::restart_fresh();  // the same program gives the same names
  auto owned = std::make_unique<aten::Graph>();
  const std::shared_ptr<aten::Graph> graph(owned.get(), [](aten::Graph*) {});
  Interpreter run(graph, types);
  const ContainerPtr self = module ? run.object(module->_ivalue(), "") : nullptr;
  Items given = arguments(run, function, options, self ? 1 : 0);
  if (self) given.insert(given.begin(), self);
  for (const Item& result : run.run(function, std::move(given), self.get()))
    flatten(run, result, graph->outputs);
  if (self) record_buffers(*graph, *self);
  return owned;
}

}  // namespace

std::unique_ptr<aten::Graph> read(const torch::jit::Module& module, const ReadOptions& options,
                                  TypeInference& types) {
  const std::optional<torch::jit::Method> method = module.find_method(options.method);
  if (!method) fail(ErrorKind::invalid_argument, "the module has no method ", options.method);
  return read(method->function(), &module, options, types);
}

std::unique_ptr<aten::Graph> read(const torch::jit::Function& function, const ReadOptions& options,
                                  TypeInference& types) {
  return read(function, nullptr, options, types);
}

}  // namespace onnx_native::readers::jit
