#include "passes/scan.h"

#include <algorithm>
#include <functional>
#include <memory>

namespace onnx_native::passes {
namespace {

using onnx::Value;

constexpr const char* kSequences = "num_scan_inputs";

void erase_at(std::vector<Value*>& values, size_t i) {
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(i));
}

}  // namespace

std::optional<Scan> Scan::of(onnx::Node& node) {
  const auto* body = node.is("Scan") ? node.attribute("body") : nullptr;
  if (!body || node.attribute("scan_input_axes") || node.attribute("scan_input_directions"))
    return std::nullopt;
  return Scan(node, **std::get_if<std::shared_ptr<onnx::Graph>>(body));
}

Scan::Scan(onnx::Node& scan, onnx::Graph& steps)
    : node(scan),
      body(steps),
      states_(scan.inputs.size() - static_cast<size_t>(scan.attribute_int(kSequences, 0))) {
  note_inputs();
}

void Scan::note_inputs() {
  indices_.clear(), sequences_.clear();
  for (size_t i = 0; i < states_; ++i) indices_[body.inputs[i]] = i;
  for (size_t i = states_; i < node.inputs.size(); ++i) sequences_[body.inputs[i]] = node.inputs[i];
}

void Scan::note_count() {
  std::ranges::find(node.attributes, kSequences, &onnx::Attribute::name)->value =
      static_cast<int64_t>(node.inputs.size() - states_);
}

std::optional<size_t> Scan::state(const Value* value) const {
  const auto at = indices_.find(value);
  return at == indices_.end() ? std::nullopt : std::optional(at->second);
}

Value* Scan::sequence(const Value* value) const {
  const auto at = sequences_.find(value);
  return at == sequences_.end() ? nullptr : at->second;
}

Value* Scan::add_slices(Value* sequence, const Value& like) {
  Value* slice = body.add_input("", like.dtype, like.shape);
  node.inputs.push_back(sequence);
  sequences_[slice] = sequence;
  note_count();
  return slice;
}

void Scan::drop_unused_slices() {
  const onnx::UseCounts uses = onnx::count_uses(body);
  for (size_t i = node.inputs.size(); i-- > states_ && node.inputs.size() > states_ + 1;) {
    if (uses.contains(body.inputs[i])) continue;
    erase_at(node.inputs, i), erase_at(body.inputs, i);
  }
  note_inputs();
  note_count();
}

void Scan::drop_states(std::vector<size_t> states) {
  std::ranges::sort(states, std::greater<>());
  for (const size_t i : states) {
    erase_at(node.inputs, i), erase_at(node.outputs, i);
    erase_at(body.inputs, i), erase_at(body.outputs, i);
  }
  states_ -= states.size();
  note_inputs();
}

}  // namespace onnx_native::passes
