#include "capture/size_nodes.h"

#include <algorithm>
#include <variant>

#include "capture/frame.h"
#include "capture/node_names.h"

namespace onnx_native::capture {

using aten::Argument;
using aten::Value;

void SizeNodes::add_axis(const Dim& size, Value* tensor, size_t axis) {
  axes_.try_emplace(size.str(), tensor, static_cast<int64_t>(axis));
}

void SizeNodes::add_input(Value* tensor) {
  const Shape& shape = *tensor->type.shape;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis].is_constant()) continue;
    add_axis(shape[axis], tensor, axis);
    const std::vector<Dim::Term>& terms = shape[axis].terms();
    if (terms.size() == 1 && terms[0].factors.size() == 1)
      multiples_.try_emplace(Dim::of(terms[0].factors[0]).str(), shape[axis]);
  }
}

void SizeNodes::read_results() {
  std::vector<Dim> sizes;
  for (const auto& [text, place] : axes_) {
    const auto& [value, axis] = place;
    if (value->producer) sizes.push_back((*value->type.shape)[static_cast<size_t>(axis)]);
  }
  for (const Dim& size : sizes) known_size(size);
}

Value* SizeNodes::size_call(std::string op, std::vector<Argument> arguments, const Dim& result) {
  const auto [at, inserted] = sizes_.try_emplace(result.str());
  if (!inserted) return at->second;
  std::string name = op.substr(op.rfind(':') + 1);
  if (name == "sym_size.int") name = "sym_size_int";
  aten::Node* made = frame_.add_node(std::move(op), std::move(arguments));
  return at->second = frame_.graph().add_output(made, name, aten::Type::sym_int(result));
}

// Returns a size that is already computed, or that a tensor has.
std::optional<Argument> SizeNodes::known_size(const Dim& dim) {
  const std::string text = dim.str();
  if (const auto at = sizes_.find(text); at != sizes_.end()) return at->second;
  const auto at = axes_.find(text);
  if (at != axes_.end())
    return size_call("aten::sym_size.int", {at->second.first, at->second.second}, dim);
  // A symbol that the region knows is computed in it.
  const auto is_known = [this](const std::string& name) {
    return sizes_.contains(name) || axes_.contains(name);
  };
  if (!frame_.outer() || std::ranges::any_of(dim.symbols(), is_known)) return std::nullopt;
  return sizes_[text] = frame_.capture(frame_.outer()->sizes().size(dim).as_value());
}

// Computes a symbol that no tensor has as a size.
Argument SizeNodes::symbol_size(const Dim& symbol) {
  const std::string name = symbol.str();
  if (const NumberPtr computed = decisions_.definition(name)) {
    const auto& call = std::get<Number::Call>(computed->is);
    std::vector<Argument> arguments;
    for (const NumberPtr& operand : call.operands) arguments.push_back(number(*operand));
    Value* value = size_call(call.op, std::move(arguments), symbol);
    types_.get().define(*value);
    return value;
  }
  const auto at = multiples_.find(name);
  if (at == multiples_.end()) decisions_.refuse("no input has the size " + name);
  return size_call("python::floordiv", {size(at->second), at->second.terms()[0].coefficient},
                   symbol);
}

Argument SizeNodes::broadcast_size(const Dim::Factor& /*factor*/) {
  decisions_.refuse("a size is that of a broadcast of two dynamic sizes");
}

Argument SizeNodes::number(const Number& number) {
  if (const auto* known = std::get_if<double>(&number.is)) return *known;
  if (const auto* known = std::get_if<bool>(&number.is)) return *known;
  if (const auto* dim = std::get_if<Dim>(&number.is)) return size(*dim);
  if (const auto* value = std::get_if<Value*>(&number.is)) {
    if (frame_.outer())
      decisions_.refuse("a branch or loop uses a float that is read from a tensor");
    return *value;
  }
  const auto [at, inserted] = numbers_.try_emplace(str(number), nullptr);
  if (!inserted) return at->second;
  const auto& call = std::get<Number::Call>(number.is);
  std::vector<Argument> operands;
  for (const NumberPtr& operand : call.operands) operands.push_back(this->number(*operand));
  aten::Node* made = frame_.add_node(call.op, std::move(operands));
  aten::Type type;
  type.kind = is_condition(call.op) ? aten::Type::Kind::sym_bool : aten::Type::Kind::sym_float;
  return numbers_[str(number)] =
             frame_.graph().add_output(made, plain_name(call.op), std::move(type));
}

}  // namespace onnx_native::capture
