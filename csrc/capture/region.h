// Regions: parts of a recorded program that may run never or several times: branches and loops.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "capture/recording.h"

namespace onnx_native::capture {

// Records the calls between its construction and end() into a graph of its own. The first inputs
// of the graph are those of add_input(). Values of the enclosing graph that the region uses become
// the other inputs. Regions nest. A region must not write to memory from outside. Code outside must
// not use tensors that the region computes.
class Region {
 public:
  struct Result {
    aten::Value* value;
    at::Tensor meta;
    c10::Device device;
    bool is_copy;  // its layout in eager is not known
  };

  explicit Region(Recording& recording);
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  // Drops the graph of a region that has not ended.
  ~Region();

  // Adds an input with the type of a tensor, or of its slices along the first dimension.
  at::Tensor add_input(const at::Tensor& like, bool is_slice);
  // Ends the region with its results. Copies a result that is from outside or aliases an earlier
  // result.
  void end(const std::vector<c10::IValue>& results);
  // Ends the region with a condition: a tensor of one element, or a condition on sizes.
  void end_with_condition(const c10::IValue& condition);

  const std::vector<Result>& results() const { return results_; }
  // Returns the values of the enclosing graph that the region uses.
  const std::vector<aten::Value*>& captured() const { return captured_; }
  // Returns the graph. Its last inputs are the values in `captured`, a superset of captured().
  std::shared_ptr<aten::Graph> take(const std::vector<aten::Value*>& captured);

 private:
  friend class Recording;
  friend class RecordedCall;
  friend class ControlFlow;

  // Returns the input for a value of the enclosing graph.
  aten::Value* capture(aten::Value* outer);
  // Runs a function in the enclosing region.
  template <class Function>
  auto in_enclosing(const Function& function) {
    swap();
    try {
      auto result = function();
      swap();
      return result;
    } catch (...) {
      swap();
      throw;
    }
  }
  bool owns(const at::Tensor& meta) const {
    return storages_.contains(meta.storage().unsafeGetStorageImpl());
  }
  bool is_own(const at::Tensor& tensor, std::unordered_set<const c10::StorageImpl*>& seen);
  // Marks the memory of a tensor as made by the region.
  void own(const at::Tensor& meta) {
    if (storages_.insert(meta.storage().unsafeGetStorageImpl()).second) owned_.push_back(meta);
  }
  // Does the same for the result of a call. Does nothing for a view of an argument.
  void own_result(const at::Tensor& meta, const std::vector<c10::IValue>& arguments);
  void swap();
  void close();
  aten::Value* add_graph_input(const std::string& name, aten::Type type);

  Recording& recording_;
  Region* enclosing_;
  bool is_open_ = true;
  // The recording's state for the enclosing graph, or for this one while in_enclosing() runs.
  std::unique_ptr<aten::Graph> graph_ = std::make_unique<aten::Graph>();
  std::unordered_map<int64_t, aten::Value*> values_;
  std::unordered_map<std::string, std::pair<aten::Value*, int64_t>> input_axes_;
  std::unordered_map<std::string, Dim> multiples_;
  std::unordered_map<std::string, aten::Value*> sizes_;
  std::unordered_map<std::string, aten::Value*> numbers_;
  const Location* location_ = nullptr;
  std::vector<Result> results_;
  std::vector<aten::Value*> added_;  // inputs that are not captured
  std::vector<aten::Value*> captured_;
  std::unordered_map<const aten::Value*, aten::Value*> inputs_of_;  // by the captured value
  std::unordered_set<const c10::StorageImpl*> storages_;            // that the region made
  std::vector<at::Tensor> owned_;                                   // keep the storages alive
};

}  // namespace onnx_native::capture
