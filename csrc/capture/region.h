// Regions: parts of a recorded program that may run never or several times: branches and loops.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <unordered_set>
#include <vector>

#include "capture/recording.h"

namespace onnx_native::capture {

// Records the calls between its construction and end() into a graph of its own: it makes its frame
// the recording's. The first inputs of the graph are those of add_input(). Values of the enclosing
// graph that the region uses become the other inputs. Regions nest. Code outside must not use
// tensors that the region computes.
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
  const std::vector<aten::Value*>& captured() const { return frame_.captured(); }
  // Returns the graph. Its last inputs are the values in `captured`, a superset of captured().
  std::shared_ptr<aten::Graph> take(const std::vector<aten::Value*>& captured);

 private:
  bool is_own(const at::Tensor& tensor, std::unordered_set<const c10::StorageImpl*>& seen);
  void close();

  Recording& recording_;
  Frame frame_;
  bool is_open_ = true;
  std::vector<Result> results_;
  std::vector<aten::Value*> added_;  // inputs that are not captured
};

}  // namespace onnx_native::capture
