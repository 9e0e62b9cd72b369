// Branches and loops of a native capture, for Python: see onnx_native.recording._control_flow.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/recording.h"
#include "capture/region.h"

namespace onnx_native::plugin {

// The regions of one recording. They nest; the functions that end one are about the innermost.
class PyRegions {
 public:
  using Tensors = std::vector<at::Tensor>;
  using RegionPtr = std::shared_ptr<capture::Region>;

  explicit PyRegions(capture::Recording& recording) : recording_(recording) {}

  void begin() { open_.push_back(std::make_shared<capture::Region>(recording_)); }
  at::Tensor add_input(const at::Tensor& like, bool is_slice) {
    return open_.back()->add_input(like, is_slice);
  }
  at::Tensor add_growing_input(const at::Tensor& like, size_t axis, int64_t rows,
                               const std::optional<c10::SymInt>& size);
  std::vector<size_t> ragged_axes(const at::Tensor& tensor) const {
    return open_.back()->ragged_axes(tensor);
  }
  RegionPtr end(const py::list& results);
  RegionPtr end_with_condition(py::handle condition);
  // Discards a region that the program does not take.
  void discard() { open_.pop_back(); }
  // Discards a region that cannot be recorded, and notes the reason.
  void drop(const std::string& reason);

  // `choices` decides the data-dependent branches in order. The program fails at the first branch
  // without a choice; undecided() then returns its condition, a tensor or a SymBool. It returns
  // None if every branch had a choice. If `probes` is true, the recording keeps no refusals.
  void fork(std::vector<bool> choices, bool probes);
  py::object undecided();

  Tensors cond(py::handle condition, capture::Region& yes, capture::Region& no);
  Tensors while_loop(const Tensors& carried, capture::Region& condition, capture::Region& body);
  Tensors scan(const Tensors& init, const Tensors& xs, capture::Region& body,
               const std::vector<std::optional<size_t>>& axes);
  Tensors map(const Tensors& xs, capture::Region& body);

 private:
  RegionPtr take_innermost();

  capture::Recording& recording_;
  std::vector<RegionPtr> open_;
};

void bind_regions(py::module_& module);

}  // namespace onnx_native::plugin
