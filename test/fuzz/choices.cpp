#include "fuzz/choices.h"

#include "aten/schema.h"
#include "ops/engine/op_table.h"

namespace onnx_native::fuzz {

const std::vector<std::string>& operators() {
  static const std::vector<std::string>& names = *[] {
    auto* result = new std::vector<std::string>();
    for (const auto& [op, key] : ops::op_table().keys())
      if (aten::find_schema(op)) result->push_back(op);
    return result;
  }();
  return names;
}

int64_t Choices::integer() {
  static constexpr int64_t kOdd[] = {INT64_MAX, INT64_MIN, INT32_MAX, int64_t{1} << 40, 1 << 20};
  return one_in(16) ? of(kOdd) : static_cast<int64_t>(below(10)) - 3;
}

double Choices::real() {
  static constexpr double kReals[] = {0, 0.5, 1, 2, -1, 1e-6, 1e300, -7.25};
  return of(kReals);
}

const char* Choices::word() {
  static constexpr const char* kWords[] = {"none", "mean", "sum",     "floor", "trunc", "constant",
                                           "tanh", "amax", "reflect", "",      "ij",    "linear"};
  return of(kWords);
}

size_t Choices::length(int fixed) {
  return fixed > 0 && !one_in(5) ? static_cast<size_t>(fixed) : below(5);
}

}  // namespace onnx_native::fuzz
