// Regions: parts of a recorded program that may run never or several times: branches and loops.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <optional>
#include <unordered_map>
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
    bool is_copy;    // its layout in eager is not known
    bool is_ragged;  // a size depends on data that the region reads
  };

  explicit Region(Recording& recording);
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  // Drops the graph of a region that has not ended.
  ~Region();

  // Adds an input with the type of a tensor, or of its slices along the first dimension.
  at::Tensor add_input(const at::Tensor& like, bool is_slice);
  // Returns the axes of a tensor whose sizes depend on data that the region reads.
  std::vector<size_t> ragged_axes(const at::Tensor& tensor) const;
  // How a loop-carried tensor grows: each iteration adds so many rows along an axis.
  struct Growth {
    size_t axis;
    int64_t rows;
  };
  // Adds an input like a tensor that grows. Its size along the axis is `size`, or a new symbol.
  at::Tensor add_growing_input(const at::Tensor& like, Growth growth,
                               const std::optional<Dim>& size);
  // Ends the region with its results. Copies a result that is from outside or aliases an earlier
  // result.
  void end(const std::vector<c10::IValue>& results);
  // Ends the region with a condition: a tensor of one element, or a condition on sizes.
  void end_with_condition(const c10::IValue& condition);

  const std::vector<Result>& results() const { return results_; }
  // Returns an input, of those that add_input() and add_growing_input() added.
  const aten::Value& input(size_t i) const { return *added_.at(i); }
  bool grows() const { return !growing_.empty(); }
  // Returns how an input grows; nullopt if it does not.
  std::optional<Growth> growth(size_t input) const {
    const auto at = growing_.find(input);
    return at == growing_.end() ? std::nullopt : std::optional(at->second);
  }
  // Returns the values of the enclosing graph that the region uses.
  const std::vector<aten::Value*>& captured() const { return frame_.captured(); }
  // Returns the graph. Its last inputs are the values in `captured`, a superset of captured().
  std::shared_ptr<aten::Graph> take(const std::vector<aten::Value*>& captured);

 private:
  bool is_own(const at::Tensor& tensor, std::unordered_set<const c10::StorageImpl*>& seen);
  void close();

  Recording& recording_;
  Frame frame_;
  size_t symbols_before_;
  bool is_open_ = true;
  std::vector<Result> results_;
  std::vector<aten::Value*> added_;             // inputs that are not captured
  std::unordered_map<size_t, Growth> growing_;  // by the number of the input
};

}  // namespace onnx_native::capture
