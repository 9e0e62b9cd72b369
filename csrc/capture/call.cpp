#include "capture/call.h"

#include <c10/core/WrapDimMinimal.h>

#include <optional>
#include <utility>

#include "aten/torch_types.h"
#include "capture/symbolic_size.h"

namespace onnx_native::capture {
namespace {

constexpr aten::OpFacts kNoFacts;

}  // namespace

Call::Call(Recording& called_in, const c10::OperatorHandle& called, c10::DispatchKeySet dispatched,
           const torch::jit::Stack& stack)
    : recording(called_in),
      op(called),
      keys(dispatched),
      key(aten::key_of(op.operator_name())),
      schema(aten::find_schema(key)),
      facts(schema ? aten::facts_of(*schema) : kNoFacts),
      reshapes(schema && op.hasTag(at::Tag::inplace_view) && aten::reshapes_in_place(*schema)) {
  const size_t count = op.schema().arguments().size();
  arguments.assign(stack.end() - static_cast<int64_t>(count), stack.end());
  recognize_sizes();
  for (c10::IValue& argument : arguments) {
    for_each_tensor(argument, [this](const at::Tensor&) { has_tensors = true; });
    // A fake kernel for meta tensors.
    if (recording.runs_fake_kernel() && argument.isDevice() && argument.toDevice().is_meta())
      argument = c10::Device(c10::kCPU);
    if (!is_wrapped_number(argument)) continue;
    c10::IValue symbol = recording.host().symbol_behind(argument.toTensor());
    if (!symbol.isNone()) argument = std::move(symbol);
  }
}

// Replaces numbers that stand for dynamic sizes.
void Call::recognize_sizes() {
  if (!schema || !decisions().recognizes_numbers()) return;
  const auto size_of = [this](int64_t number) {
    const std::optional<Dim> size = decisions().recognized(number);
    return size ? to_sym_int(*size, decisions()) : c10::SymInt(number);
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (schema->arguments[i].type.kind != aten::TypeKind::sym_int) continue;
    if (arguments[i].isInt()) {
      arguments[i] = size_of(arguments[i].toInt());
    } else if (arguments[i].isIntList()) {
      std::vector<c10::SymInt> sizes;
      for (const int64_t number : arguments[i].toIntVector()) sizes.push_back(size_of(number));
      arguments[i] = c10::IValue(c10::SymIntArrayRef(sizes));
    }
  }
}

bool Call::has_recorded() const {
  bool found = false;
  for (const c10::IValue& argument : arguments)
    for_each_tensor(argument, [&](const at::Tensor& tensor) { found = found || recorded(tensor); });
  return found;
}

bool Call::has_literals_only() const {
  bool literals = true;
  for (const c10::IValue& argument : arguments)
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      literals = literals && recording.known_tensors().follows_from_literals(tensor);
    });
  return literals;
}

size_t Call::cut_axis(size_t rank) const {
  const int index = schema->index("dim");
  const c10::IValue dim = index < 0 ? 0 : arguments[static_cast<size_t>(index)];
  return static_cast<size_t>(
      c10::maybe_wrap_dim(dim.isInt() ? dim.toInt() : 0, static_cast<int64_t>(rank)));
}

void Call::refuse(const std::string& reason, RefusalKind kind) const {
  decisions().refuse(key + ": " + reason, kind);
}

}  // namespace onnx_native::capture
