#include "readers/jit/reader.h"

#include <torch/csrc/jit/api/module.h>

#include <algorithm>

#include "readers/jit/interpreter.h"

namespace onnx_native::readers::jit {
namespace {

using aten::Argument;
using aten::Type;

Item literal(const Argument& argument) {
  if (argument.is_none()) return Item::none();
  if (const auto* number = argument.get<int64_t>()) return Dim(*number);
  if (const auto* number = argument.get<double>()) return c10::IValue(*number);
  if (const auto* flag = argument.get<bool>()) return c10::IValue(*flag);
  if (const auto* text = argument.get<std::string>()) return c10::IValue(*text);
  if (const auto* list = argument.get<Argument::List>()) {
    Items items;
    for (const Argument& element : *list) items.push_back(literal(element));
    return make_container(Container::Kind::list, std::move(items));
  }
  fail(ErrorKind::invalid_argument, "an input of a kind that is no number, string or list");
}

// The input as `type` wants it.
Item input(Interpreter& run, const InputSpec& spec, c10::TypePtr type) {
  if (const auto optional = type ? type->cast<c10::OptionalType>() : nullptr)
    type = optional->getElementType();
  Recorder& recorder = run.recorder();
  Type number;
  switch (spec.kind) {
    case InputSpec::Kind::tensor:
      if (spec.dtype == DType::undefined)
        fail(ErrorKind::invalid_argument, "the input ", spec.name, " has no dtype");
      return Item::Tensor{recorder.add_input(spec.name, Type::tensor(spec.dtype, spec.shape))};
    case InputSpec::Kind::integer:
      return *recorder.add_input(spec.name, Type::sym_int(Dim::symbol(spec.name)))->type.dim;
    case InputSpec::Kind::floating:
      number.kind = Type::Kind::sym_float;
      return Item::Number{recorder.add_input(spec.name, number)};
    case InputSpec::Kind::boolean:
      number.kind = Type::Kind::sym_bool;
      return Item::Number{recorder.add_input(spec.name, number)};
    case InputSpec::Kind::literal:
      return literal(spec.literal);
    default:
      break;
  }
  const bool is_tuple = type && type->kind() == c10::TypeKind::TupleType;
  const Container::Kind kind = spec.kind == InputSpec::Kind::mapping ? Container::Kind::dict
                               : is_tuple                            ? Container::Kind::tuple
                                                                     : Container::Kind::list;
  ContainerPtr container = make_container(kind, {}, type);
  for (size_t i = 0; i < spec.elements.size(); ++i) {
    c10::TypePtr element;
    if (is_tuple) element = type->containedType(i);
    if (kind == Container::Kind::list && type && type->containedTypeSize() > 0)
      element = type->containedType(0);
    if (kind == Container::Kind::dict)
      container->contents.keys.emplace_back(c10::IValue(spec.elements[i].name));
    container->items().push_back(input(run, spec.elements[i], element));
  }
  return container;
}

// What the method gives, flattened as pytrees are.
void flatten(Interpreter& run, const Item& item, std::vector<Argument>& outputs) {
  const Container* container = item.container();
  if (!container) {
    // A number that is known is no output of a model.
    const bool computed = item.tensor() || item.number() || item.get<Dim>();
    outputs.push_back(computed && !is_known(item) ? run.argument(item) : Argument());
    return;
  }
  if (container->kind == Container::Kind::object)
    fail(ErrorKind::unsupported, "a result that is an object");
  if (container->contents.stacked)
    fail(ErrorKind::unsupported, "a result that is a list of tensors whose length is not known");
  for (const Item& element : container->items()) flatten(run, element, outputs);
}

Items arguments(Interpreter& run, const torch::jit::Function& method, const ReadOptions& options) {
  const std::vector<c10::Argument>& wanted = method.getSchema().arguments();
  Items result;
  if (options.inputs.size() + 1 > wanted.size())
    fail(ErrorKind::invalid_argument, options.method, " takes ", wanted.size() - 1, " inputs, not ",
         options.inputs.size());
  for (size_t i = 1; i < wanted.size(); ++i) {
    if (i - 1 < options.inputs.size()) {
      result.push_back(input(run, options.inputs[i - 1], wanted[i].type()));
    } else if (wanted[i].default_value()) {
      result.push_back(run.item(*wanted[i].default_value(), wanted[i].name()));
    } else {
      fail(ErrorKind::invalid_argument, "nothing is given for the input ", wanted[i].name());
    }
  }
  return result;
}

}  // namespace

std::unique_ptr<aten::Graph> read(const torch::jit::Module& module, const ReadOptions& options,
                                  TypeInference& types) {
  Dim::restart_fresh();  // the same program gives the same names
  const std::optional<torch::jit::Method> method = module.find_method(options.method);
  if (!method) fail(ErrorKind::invalid_argument, "the module has no method ", options.method);
  auto owned = std::make_unique<aten::Graph>();
  const std::shared_ptr<aten::Graph> graph(owned.get(), [](aten::Graph*) {});
  Interpreter run(graph, types);
  const ContainerPtr self = run.object(module._ivalue(), "");
  Items given = arguments(run, method->function(), options);
  given.insert(given.begin(), self);
  for (const Item& result : run.run(method->function(), std::move(given), self.get()))
    flatten(run, result, graph->outputs);
  return owned;
}

}  // namespace onnx_native::readers::jit
