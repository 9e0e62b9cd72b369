#include "base/target.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"

namespace onnx_native {
namespace {

template <class Option>
using Named = std::pair<std::string_view, Option>;

template <class Option, size_t count>
Option parse(const char* what, std::string_view text, const Named<Option> (&options)[count]) {
  std::string known;
  for (const auto& [name, option] : options) {
    if (name == text) return option;
    known += known.empty() ? "'" : ", '";
    known += std::string(name) + "'";
  }
  fail(ErrorKind::invalid_argument, "there is no ", what, " '", text, "': choose one of ", known);
}

constexpr Named<Target> kTargets[] = {{"onnx", Target::onnx},
                                      {"onnxruntime-cpu", Target::onnxruntime_cpu},
                                      {"onnxruntime-cuda", Target::onnxruntime_cuda},
                                      {"onnxruntime-webgpu", Target::onnxruntime_webgpu},
                                      {"opencv", Target::opencv},
                                      {"mnn", Target::mnn},
                                      {"tract", Target::tract}};
constexpr Named<WeightLayout> kLayouts[] = {{"runtime", WeightLayout::runtime},
                                            {"module", WeightLayout::module}};

}  // namespace

std::string_view name(Target target) {
  return std::ranges::find(kTargets, target, &Named<Target>::second)->first;
}

Target parse_target(std::string_view text) { return parse("target", text, kTargets); }

WeightLayout parse_weight_layout(std::string_view text) {
  return parse("layout of weights", text, kLayouts);
}

}  // namespace onnx_native
