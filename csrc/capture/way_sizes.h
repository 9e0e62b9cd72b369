// Sizes in two ways of a program, of which each is taken for some sizes of the inputs.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "base/dim.h"
#include "capture/decisions.h"

namespace onnx_native::capture {

// Finds the expression that is right in both ways: where the condition of a guard is true, and
// where it is false. For n <= 512, the sizes n and 512 are min(n, 512).
class WaySizes {
 public:
  explicit WaySizes(const Guard& guard);

  // Returns an expression that equals `yes` where the condition holds, and `no` where it does not.
  std::optional<Dim> join(const Dim& yes, const Dim& no) const;
  std::optional<Shape> join(const Shape& yes, const Shape& no) const;

 private:
  // These facts hold on one of the ways.
  struct Facts {
    std::optional<Dim> zero;                     // equals 0
    std::unordered_map<std::string, Dim> known;  // symbols, with what replaces them
  };
  static Facts facts(const Guard& guard, bool truth);
  static bool are_equal(const Dim& a, const Dim& b, const Facts& facts);

  Facts yes_;
  Facts no_;
};

}  // namespace onnx_native::capture
