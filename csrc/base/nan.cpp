#include "base/nan.h"

#include <utility>

#include "base/error.h"

namespace onnx_native {
namespace {

thread_local NanMode current_mode = NanMode::standard;
thread_local NanDifferences* current_differences = nullptr;

}  // namespace

NanMode parse_nan_mode(std::string_view text) {
  if (text == "standard") return NanMode::standard;
  if (text == "exact") return NanMode::exact;
  if (text == "ignore") return NanMode::ignore;
  fail(ErrorKind::invalid_argument, "there is no treatment of NaN '", text,
       "': choose one of 'standard', 'exact', 'ignore'");
}

NanScope::NanScope(NanMode mode, NanDifferences* differences)
    : outer_mode_(std::exchange(current_mode, mode)),
      outer_differences_(std::exchange(current_differences, differences)) {}

NanScope::~NanScope() {
  current_mode = outer_mode_;
  current_differences = outer_differences_;
}

NanMode nan_mode() { return current_mode; }

void note_nan_difference(const std::string& operators) {
  if (current_differences) ++(*current_differences)[operators];
}

}  // namespace onnx_native
