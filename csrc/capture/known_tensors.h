// Tensors of a recording whose elements follow from constants and weights.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/tensor_data.h"
#include "capture/decisions.h"
#include "capture/host.h"
#include "capture/memories.h"
#include "capture/module_tensors.h"

namespace onnx_native::capture {

// The elements of a tensor of the module on which a decision of the program depends.
struct KnownElements {
  std::string name;
  std::string source;  // user's source line
  TensorData data;
};

// Computes the elements of a recorded tensor by the recipe of its meta tensor, when the program
// asks for them. They are known if the program writes to none of the tensors of the recipe. The
// elements of the module's tensors that were read are kept: the recording is valid for these alone.
class KnownTensors {
 public:
  // A call on constants and weights alone, which can run.
  struct Recipe {
    c10::OperatorHandle op;
    std::vector<c10::IValue> arguments;  // with meta tensors in place of recorded ones
    size_t result;
    at::Tensor meta;
    bool uses_state;                               // an argument depends on tensors of the module
    std::vector<std::pair<Dim, int64_t>> counted;  // sizes in `arguments` that are counted
    at::Tensor value;
  };

  KnownTensors(Host& host, const ModuleTensors& module, Memories& memories, Decisions& decisions)
      : host_(host), module_(module), memories_(memories), decisions_(decisions) {}

  // Marks a tensor that the program made from numbers. It may write to the tensor.
  void add_literal(const at::Tensor& tensor) {
    literals_.try_emplace(tensor.unsafeGetTensorImpl(), tensor);
  }
  bool is_literal(const at::Tensor& tensor) const {
    return literals_.contains(tensor.unsafeGetTensorImpl());
  }
  void add(Recipe recipe);
  bool has_recipe(const at::Tensor& meta) const {
    return recipes_.contains(meta.unsafeGetTensorImpl());
  }
  // Returns true if the elements of a tensor follow from literals of the program alone.
  bool follows_from_literals(const at::Tensor& tensor) const;

  // Returns the elements of a tensor; nullopt if they are not known.
  std::optional<at::Tensor> elements(const at::Tensor& tensor);
  // Returns an argument with known tensors in place of recorded ones; nullopt if one is not known.
  std::optional<c10::IValue> argument(const c10::IValue& argument);
  // Returns the elements of the module that elements() read.
  const std::vector<KnownElements>& read() const { return read_; }
  // Frees the results of recipes.
  void clear() { recipes_.clear(); }

 private:
  std::optional<at::Tensor> result(const at::Tensor& meta);

  Host& host_;
  const ModuleTensors& module_;
  Memories& memories_;
  Decisions& decisions_;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> literals_;
  std::unordered_map<const c10::TensorImpl*, Recipe> recipes_;  // by the meta tensor
  std::vector<KnownElements> read_;
};

}  // namespace onnx_native::capture
