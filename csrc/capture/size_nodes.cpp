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
  for (const Dim& size : sizes) find(size);
}

Value* SizeNodes::node(std::string op, std::vector<Argument> arguments, const Dim& result) {
  const auto [at, inserted] = sizes_.try_emplace(result.str());
  if (!inserted) return at->second;
  std::string name = op.substr(op.rfind(':') + 1);
  if (name == "sym_size.int") name = "sym_size_int";
  aten::Node* made = frame_.add_node(std::move(op), std::move(arguments));
  return at->second = frame_.graph().add_output(made, name, aten::Type::sym_int(result));
}

// Returns a size that is already computed, or that a tensor has.
std::optional<Argument> SizeNodes::find(const Dim& dim) {
  const std::string text = dim.str();
  if (const auto at = sizes_.find(text); at != sizes_.end()) return at->second;
  const auto at = axes_.find(text);
  if (at != axes_.end())
    return node("aten::sym_size.int", {at->second.first, at->second.second}, dim);
  // A symbol that the region knows is computed in it.
  const auto is_known = [this](const std::string& name) {
    return sizes_.contains(name) || axes_.contains(name);
  };
  if (!frame_.outer() || std::ranges::any_of(dim.symbols(), is_known)) return std::nullopt;
  return sizes_[text] = frame_.capture(frame_.outer()->sizes().size(dim).as_value());
}

Argument SizeNodes::call(std::string_view op, const Dim& result, const Dim& a, const Dim& b) {
  return node(std::string(op), {size(a), size(b)}, result);
}

// Computes a symbol that no tensor has as a size.
Argument SizeNodes::symbol(const Dim& symbol) {
  const std::string name = symbol.str();
  if (const NumberPtr computed = decisions_.definition(name)) {
    const auto& call = std::get<Number::Call>(computed->is);
    std::vector<Argument> arguments;
    for (const NumberPtr& operand : call.operands) arguments.push_back(number(*operand));
    Value* value = node(call.op, std::move(arguments), symbol);
    types_.get().define(*value);
    return value;
  }
  const auto at = multiples_.find(name);
  if (at == multiples_.end()) decisions_.refuse("no input has the size " + name);
  return call("python::floordiv", symbol, at->second, at->second.terms()[0].coefficient);
}

Argument SizeNodes::factor(const Dim::Factor& factor) {
  const auto& operands = factor.operands;
  const Dim dim = Dim::of(factor);
  if (auto known = find(dim)) return std::move(*known);
  switch (factor.kind) {
    case Dim::Atom::symbol:
      return symbol(dim);
    case Dim::Atom::floor_div:
      return call("python::floordiv", dim, operands[0], operands[1]);
    case Dim::Atom::mod:
      return call("python::mod", dim, operands[0], operands[1]);
    case Dim::Atom::max:
      return call("python::sym_max", dim, operands[0], operands[1]);
    case Dim::Atom::min:
      return call("python::sym_min", dim, operands[0], operands[1]);
    case Dim::Atom::broadcast:
      break;
  }
  decisions_.refuse("a size is that of a broadcast of two dynamic sizes");
}

Argument SizeNodes::term(const Dim::Term& term) {
  if (term.factors.empty()) return term.coefficient;
  Dim product = Dim::of(term.factors[0]);
  Argument result = factor(term.factors[0]);
  for (size_t i = 1; i < term.factors.size(); ++i) {
    product = product * Dim::of(term.factors[i]);
    result = node("python::mul", {result, factor(term.factors[i])}, product);
  }
  if (term.coefficient == 1) return result;
  return node("python::mul", {result, term.coefficient}, product * term.coefficient);
}

Argument SizeNodes::size(const Dim& dim) {
  if (const auto number = dim.constant()) return *number;
  if (auto known = find(dim)) return std::move(*known);
  const std::vector<Dim::Term>& terms = dim.terms();
  Argument result = term(terms[0]);
  Dim sum = Dim::from_terms({terms[0]});
  for (size_t i = 1; i < terms.size(); ++i) {
    const Argument next = term(terms[i]);
    sum = sum + Dim::from_terms({terms[i]});
    result = node("python::add", {result, next}, sum);
  }
  return result;
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
