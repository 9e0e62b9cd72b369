#include "plugin/py_regions.h"

#include <utility>

#include "capture/control_flow.h"
#include "capture/symbolic_size.h"
#include "plugin/py_values.h"

namespace onnx_native::plugin {

at::Tensor PyRegions::add_growing_input(const at::Tensor& like, size_t axis, int64_t rows,
                                        const std::optional<c10::SymInt>& size) {
  std::optional<Dim> dim;
  if (size) dim = capture::to_dim(*size, recording_.decisions());
  return open_.back()->add_growing_input(like, {.axis = axis, .rows = rows}, dim);
}

PyRegions::RegionPtr PyRegions::end(const py::list& results) {
  open_.back()->end(values_of(results));
  return take_innermost();
}

PyRegions::RegionPtr PyRegions::end_with_condition(py::handle condition) {
  open_.back()->end_with_condition(value_of(condition));
  return take_innermost();
}

void PyRegions::drop(const std::string& reason) {
  recording_.decisions().note_refusal(reason);
  discard();
}

void PyRegions::fork(std::vector<bool> choices, bool probes) {
  recording_.decisions().fork(std::move(choices), probes);
}

py::object PyRegions::undecided() {
  if (at::Tensor condition = recording_.take_undecided(); condition.defined())
    return py::cast(std::move(condition));
  const capture::NumberPtr condition = recording_.decisions().take_undecided();
  if (!condition) return py::none();
  recording_.refuse_draws();
  return symbolic_bool(capture::to_sym_bool(condition, recording_.decisions()));
}

PyRegions::Tensors PyRegions::cond(py::handle condition, capture::Region& yes,
                                   capture::Region& no) {
  return capture::ControlFlow(recording_).cond(value_of(condition), yes, no);
}

PyRegions::Tensors PyRegions::while_loop(const Tensors& carried, capture::Region& condition,
                                         capture::Region& body) {
  return capture::ControlFlow(recording_).while_loop(carried, condition, body);
}

PyRegions::Tensors PyRegions::scan(const Tensors& init, const Tensors& xs, capture::Region& body,
                                   const std::vector<std::optional<size_t>>& axes) {
  return capture::ControlFlow(recording_).scan(init, xs, body, axes);
}

PyRegions::Tensors PyRegions::map(const Tensors& xs, capture::Region& body) {
  return capture::ControlFlow(recording_).map(xs, body);
}

PyRegions::RegionPtr PyRegions::take_innermost() {
  RegionPtr region = std::move(open_.back());
  open_.pop_back();
  return region;
}

void bind_regions(py::module_& module) {
  const py::class_<capture::Region, PyRegions::RegionPtr> region(
      module, "Region", "A branch, or the body of a loop.");
  // A region refers to its recording.
  const auto with_recording = py::keep_alive<0, 1>();
  py::class_<PyRegions>(module, "Regions", "The branches and loops of a recording.")
      .def("begin", &PyRegions::begin)
      .def("add_input", &PyRegions::add_input, py::arg("like"), py::arg("is_slice"))
      .def("add_growing_input", &PyRegions::add_growing_input, py::arg("like"), py::arg("axis"),
           py::arg("rows"), py::arg("size"),
           "Adds an input like a tensor to which each iteration adds rows along the axis.")
      .def("ragged_axes", &PyRegions::ragged_axes, py::arg("tensor"),
           "The axes of a tensor whose sizes depend on data that the innermost region reads.")
      .def("end", &PyRegions::end, py::arg("results"), with_recording)
      .def("end_with_condition", &PyRegions::end_with_condition, py::arg("condition"),
           with_recording)
      .def("discard", &PyRegions::discard)
      .def("drop", &PyRegions::drop, py::arg("reason"))
      .def("fork", &PyRegions::fork, py::arg("choices"), py::arg("probes"))
      .def("undecided", &PyRegions::undecided)
      .def("cond", &PyRegions::cond, py::arg("condition"), py::arg("yes"), py::arg("no"))
      .def("while_loop", &PyRegions::while_loop, py::arg("carried"), py::arg("condition"),
           py::arg("body"))
      .def("scan", &PyRegions::scan, py::arg("init"), py::arg("xs"), py::arg("body"),
           py::arg("axes"))
      .def("map", &PyRegions::map, py::arg("xs"), py::arg("body"));
}

}  // namespace onnx_native::plugin
