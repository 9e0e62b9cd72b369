// What mutations choose from: operators, and values for their arguments.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace onnx_native::fuzz {

using Random = std::minstd_rand;

// The operators of the table that PyTorch has schemas of: "aten::add.Tensor".
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
  // Most often a small one.
  int64_t integer();
  double real();
  // What operators take for modes.
  const char* word();
  // How many elements a list gets that should have `fixed` of them (0: any number).
  size_t length(int fixed);

 private:
  Random& random_;
};

}  // namespace onnx_native::fuzz
