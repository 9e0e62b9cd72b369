#include "capture/joined_sizes.h"

#include <algorithm>

#include "base/error.h"

namespace onnx_native::capture {

using aten::Argument;
using aten::Value;

void JoinedSizes::note(Value* value) {
  const auto note_symbols = [this](const Dim& size) {
    for (std::string& name : size.symbols()) symbols_.insert(std::move(name));
  };
  if (value->type.dim) {
    numbers_.try_emplace(value->type.dim->str(), value);
    note_symbols(*value->type.dim);
  }
  if (!value->type.shape) return;
  const Shape& shape = *value->type.shape;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const Dim& size = shape[axis];
    if (size.is_constant()) continue;
    note_symbols(size);
    axes_.try_emplace(size.str(), value, static_cast<int64_t>(axis));
    const std::vector<Dim::Term>& terms = size.terms();
    if (!value->producer && terms.size() == 1 && terms[0].factors.size() == 1)
      multiples_.try_emplace(Dim::of(terms[0].factors[0]).str(), size);
  }
}

bool JoinedSizes::knows(const Dim& dim) const {
  return std::ranges::all_of(dim.symbols(),
                             [this](const std::string& name) { return symbols_.contains(name); });
}

Value* JoinedSizes::size_call(std::string op, std::vector<Argument> arguments, const Dim& result) {
  const auto [at, inserted] = numbers_.try_emplace(result.str());
  if (!inserted) return at->second;
  std::string name = op.substr(op.rfind(':') + 1);
  if (name == "sym_size.int") name = "sym_size_int";
  aten::Node* made = graph_.add_node(std::move(op), std::move(arguments), location_);
  return at->second = graph_.add_output(made, name, aten::Type::sym_int(result));
}

Value* JoinedSizes::number(std::string op, std::vector<Argument> arguments, bool is_condition) {
  const std::string name = op.substr(op.rfind(':') + 1);
  aten::Type type;
  type.kind = is_condition ? aten::Type::Kind::sym_bool : aten::Type::Kind::sym_float;
  aten::Node* made = graph_.add_node(std::move(op), std::move(arguments), location_);
  return graph_.add_output(made, name, std::move(type));
}

std::optional<Argument> JoinedSizes::known_size(const Dim& dim) {
  const std::string text = dim.str();
  if (const auto at = numbers_.find(text); at != numbers_.end()) return at->second;
  if (outer_ && outer_->knows(dim)) {
    Value* outside = outer_->size(dim).as_value();
    return numbers_[text] = take_(outside);
  }
  const auto at = axes_.find(text);
  if (at == axes_.end()) return std::nullopt;
  return size_call("aten::sym_size.int", {at->second.first, at->second.second}, dim);
}

Argument JoinedSizes::symbol_size(const Dim& symbol) {
  const auto at = multiples_.find(symbol.str());
  if (at == multiples_.end())
    fail(ErrorKind::unsupported, "no tensor of both ways has the size ", symbol.str());
  return size_call("python::floordiv", {size(at->second), at->second.terms()[0].coefficient},
                   symbol);
}

Argument JoinedSizes::broadcast_size(const Dim::Factor& /*factor*/) {
  fail(ErrorKind::unsupported, "a size is that of a broadcast of two dynamic sizes");
}

}  // namespace onnx_native::capture
