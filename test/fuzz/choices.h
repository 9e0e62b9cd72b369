// Random choices of mutations: operators, and values for their arguments.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace onnx_native::fuzz {

using Random = std::minstd_rand;

// Returns the operators of the op table that have a PyTorch schema, such as "aten::add.Tensor".
const std::vector<std::string>& operators();

class Choices {
 public:
  explicit Choices(Random& random) : random_(random) {}

  bool one_in(uint32_t count) { return random_() % count == 0; }
  size_t below(size_t count) { return random_() % count; }
  template <class List>
  const auto& of(const List& list) {
    return std::data(list)[random_() % std::size(list)];
  }
  // Returns an integer in [-3, 6], or an extreme one in 1 of 16 cases.
  int64_t integer();
  double real();
  // Returns a mode string, such as "mean".
  const char* word();
  // Returns a length for a list of `fixed` elements (0: any length): usually `fixed`, else below 5.
  size_t length(int fixed);

 private:
  Random& random_;
};

}  // namespace onnx_native::fuzz
