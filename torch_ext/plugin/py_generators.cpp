#include "plugin/py_generators.h"

#include <memory>
#include <string>
#include <vector>

#include "capture/generators.h"

namespace onnx_native::plugin {

void bind_generators(py::module_& module) {
  using capture::Generators;
  py::class_<Generators, std::shared_ptr<Generators>>(
      module, "Generators", "Knows which generators a program seeds while it runs.")
      .def(py::init<const std::vector<at::Generator>&, const std::vector<at::Generator>&>(),
           py::arg("known"), py::arg("of_devices"))
      .def("start", &Generators::start)
      .def("stop", &Generators::stop)
      .def("restart", &Generators::restart)
      .def("ignore_seeds", &Generators::ignore_seeds)
      .def("found", &Generators::found)
      .def("drawn", &Generators::drawn)
      .def(
          "watch",
          [](Generators& generators, const py::function& line) {
            generators.watch([line] {
              const py::gil_scoped_acquire gil;
              return line().cast<std::string>();
            });
          },
          py::arg("line"))
      .def("unwatch", &Generators::unwatch)
      .def("seeded_draw", &Generators::seeded_draw);
  module.def(
      "default_generators",
      [](const c10::Device& device) { return capture::default_generators(device.type()); },
      py::arg("device"));
}

}  // namespace onnx_native::plugin
