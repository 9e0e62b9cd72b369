// The results of PyTorch's meta kernels.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace onnx_native::capture {

// Calls operators on meta tensors, and remembers the types of their results: most meta kernels are
// in Python, and models call the same layers many times. It remembers results that do not share
// memory with other tensors, so that a remembered result is as good as a computed one.
class MetaResults {
 public:
  // Replaces the arguments on the stack by the results. The operator must be PyTorch's: a kernel of
  // a user may have side effects.
  void call(const c10::OperatorHandle& op, torch::jit::Stack& stack);
  // Gives the results of a meta kernel the strides of the device's kernel, which may choose others
  // where an argument is not contiguous. Runs that kernel on zeros. Returns false if the strides
  // are not known.
  bool take_eager_strides(const c10::OperatorHandle& op, c10::Device device,
                          const torch::jit::Stack& arguments, torch::jit::Stack& results);
  // Returns zeros with the sizes and strides of a meta tensor.
  static at::Tensor zeros_for(const at::Tensor& meta, c10::Device device);
  // Calls an operator on zeros, without a record and without effect on random numbers.
  static void call_on_zeros(const c10::OperatorHandle& op, torch::jit::Stack& stack);
  // Returns how many elements of memory a tensor spans.
  static int64_t span_of(at::IntArrayRef sizes, at::IntArrayRef strides);
  // Calls on zeros of more elements take too long.
  static constexpr int64_t kMostElements = int64_t{1} << 22;

  // Where ONNX_NATIVE_VERIFY is set to 1, calls run a second time by PyTorch's own kernels. Returns
  // the calls with other types, of this process.
  static std::vector<std::string> contradictions();

 private:
  void run(const c10::OperatorHandle& op, torch::jit::Stack& stack);
  struct Type {
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
    c10::ScalarType dtype;
  };
  using Storages = std::unordered_set<const c10::StorageImpl*>;
  static std::optional<std::vector<Type>> types_of(const torch::jit::Stack& results,
                                                   Storages taken);
  static at::Tensor tensor_of(const Type& type);
  using Strides = std::vector<std::vector<int64_t>>;  // of each result
  static std::optional<Strides> eager_strides(const c10::OperatorHandle& op, c10::Device device,
                                              const torch::jit::Stack& arguments,
                                              const std::vector<Type>& results);

  std::unordered_map<std::string, std::vector<Type>> types_;  // by operator, arguments and context
  std::unordered_map<std::string, std::optional<Strides>> strides_;  // likewise
};

}  // namespace onnx_native::capture
