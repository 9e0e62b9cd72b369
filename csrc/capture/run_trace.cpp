#include "capture/run_trace.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

namespace onnx_native::capture {
namespace {

class Hash {
 public:
  template <typename T>
  void add(const T& value) {
    hash_ = (hash_ ^ std::hash<T>()(value)) * 0x9E3779B97F4A7C15U;
  }
  // Lists of numbers, and a number that PyTorch made a tensor of, count too.
  void add_argument(const c10::IValue& value) {
    if (value.isInt()) add(value.toInt());
    if (value.isDouble()) add(value.toDouble());
    if (value.isBool()) add(value.toBool());
    if (value.isString()) add(value.toStringRef());
    if (value.isIntList()) {
      for (const int64_t each : value.toIntList()) add(each);
    }
    if (value.isTensor() && is_number(value.toTensor())) add(bytes(value.toTensor()));
  }
  uint64_t value() const { return std::max<uint64_t>(hash_, 1); }

 private:
  static bool is_number(const at::Tensor& tensor) {
    return tensor.defined() && tensor.unsafeGetTensorImpl()->is_wrapped_number() &&
           tensor.is_cpu() && tensor.has_storage();
  }
  static std::string_view bytes(const at::Tensor& tensor) {
    return {static_cast<const char*>(tensor.const_data_ptr()), tensor.itemsize()};
  }

  uint64_t hash_ = 0x243F6A8885A308D3U;
};

}  // namespace

void RunTrace::begin(std::vector<uint64_t> previous) {
  differs_ = differs();
  previous_ = std::move(previous);
  calls_.clear();
}

void RunTrace::note(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  Hash hash;
  hash.add(op.operator_name().name);
  const size_t count = op.schema().arguments().size();
  for (auto at = stack.end() - static_cast<std::ptrdiff_t>(count); at != stack.end(); ++at)
    hash.add_argument(*at);
  calls_.push_back(hash.value());
}

bool RunTrace::differ(const std::vector<uint64_t>& one, const std::vector<uint64_t>& other) {
  const auto [a, b] = std::ranges::mismatch(one, other);
  // The last call of a run that ended may be the one that ended it.
  const auto ends = [](const auto& calls, auto at) { return calls.end() - at <= 1; };
  return !ends(one, a) && !ends(other, b) && *a != kChoice && *b != kChoice;
}

}  // namespace onnx_native::capture
