// Compares the runs of a program that is recorded more than once. The package restores the state of
// the program before each run, as far as it can. So two runs make the same calls until they take
// different ways.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <vector>

namespace onnx_native::capture {

class RunTrace {
 public:
  // Starts another run. `previous` is what an earlier recording called, if there was one.
  void begin(std::vector<uint64_t> previous);
  void begin() { begin(std::move(calls_)); }
  // Notes a call, whose arguments are on the stack, by its operator and the numbers and text.
  void note(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
  // Notes that the program took one of two ways.
  void note_choice() { calls_.push_back(kChoice); }
  const std::vector<uint64_t>& calls() const { return calls_; }
  // Returns true if two runs differ before they take a way, or before one of them ends.
  bool differs() const { return differs_ || differ(previous_, calls_); }

 private:
  static constexpr uint64_t kChoice = 0;
  static bool differ(const std::vector<uint64_t>& one, const std::vector<uint64_t>& other);

  std::vector<uint64_t> previous_;
  std::vector<uint64_t> calls_;
  bool differs_ = false;
};

}  // namespace onnx_native::capture
