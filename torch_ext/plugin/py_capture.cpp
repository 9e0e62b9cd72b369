#include "plugin/py_capture.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/python_symnode.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "api/export.h"
#include "api/type_inference.h"
#include "aten/copy.h"
#include "aten/placeholder.h"
#include "base/weight.h"
#include "capture/recording.h"
#include "capture/symbolic_size.h"
#include "capture/way_calls.h"
#include "capture/ways.h"
#include "plugin/py_graph.h"
#include "plugin/py_host.h"
#include "plugin/py_regions.h"
#include "plugin/py_sizes.h"
#include "plugin/py_values.h"

namespace onnx_native::plugin {
namespace {

// A Python context that restores this thread's dispatch keys.
class KeptDispatchKeys {
 public:
  void enter() { kept_.emplace(c10::impl::tls_local_dispatch_key_set()); }
  void exit(const py::args&) { kept_.reset(); }

 private:
  std::optional<c10::impl::ForceDispatchKeyGuard> kept_;
};

capture::Symbol make_symbol(int64_t example, std::optional<int64_t> low,
                            std::optional<int64_t> high, capture::Symbol::Origin origin,
                            bool is_size) {
  return {
      .example = example,
      .range = is_size ? DimRange::input_size(low.value_or(0), high) : DimRange::integer(low, high),
      .origin = origin,
      .is_size = is_size};
}

bool is_same(const capture::Symbol& a, const capture::Symbol& b) {
  return a.example == b.example && a.range == b.range && a.origin == b.origin &&
         a.is_size == b.is_size;
}

class PyCapture {
 public:
  // `identities` maps the symbol of a data-dependent number to the size that replaces it. If
  // `small_numbers` is true, small numbers stand in for data-dependent sizes.
  PyCapture(std::vector<capture::ModuleTensor> state,
            std::map<std::string, capture::Symbol> symbols,
            const std::map<std::string, std::string>& identities,
            std::shared_ptr<capture::Generators> generators, bool small_numbers)
      : recording_(std::move(symbols), std::move(state), builtin_types, host_,
                   std::move(generators)),
        sizes_(recording_),
        regions_(recording_) {
    if (small_numbers) recording_.decisions().use_small_stand_ins();
    for (const auto& [symbol, size] : identities)
      recording_.decisions().identify(symbol, sizes_.parse(size));
  }

  at::Tensor add_input(const at::Tensor& example, const std::string& name,
                       const std::vector<std::variant<int64_t, std::string>>& sizes) {
    Shape shape;
    for (const std::variant<int64_t, std::string>& size : sizes) {
      const auto* text = std::get_if<std::string>(&size);
      shape.push_back(text ? sizes_.parse(*text) : Dim(std::get<int64_t>(size)));
    }
    return recording_.add_input(example, name, std::move(shape));
  }
  c10::SymInt add_integer(const std::string& name, const std::string& symbol) {
    return recording_.add_integer(name, sizes_.parse(symbol));
  }
  void start() {
    host_.start();
    active_.emplace(recording_);
  }
  void stop() { active_.reset(); }
  void enter(const std::string& path, const std::string& class_name) {
    host_.enter(path, class_name);
  }
  void leave() { host_.leave(); }
  void place(const Location& location) { host_.place(location); }

  PyRegions& regions() { return regions_; }
  PySizes& sizes() { return sizes_; }

  // Adds the flattened results of the program.
  void add_outputs(const py::list& outputs) {
    for (const c10::IValue& output : values_of(outputs)) recording_.add_output(output);
  }
  void add_mutation(const at::Tensor& buffer, const at::Tensor& value) {
    recording_.add_mutation(buffer, value);
  }
  void replace(const at::Tensor& tensor, const at::Tensor& contents) {
    recording_.replace(tensor, contents);
  }
  at::Tensor deep_copy(const at::Tensor& tensor) { return recording_.deep_copy(tensor); }
  void note_alias(const at::Tensor& tensor) { recording_.note_alias(tensor); }
  bool varies(const at::Tensor& tensor) const { return recording_.varies(tensor); }
  // Returns the number in a tensor. PyTorch's own conversion to Python accepts symbolic floats and
  // bools only if Python created them.
  py::object item(const at::Tensor& tensor) {
    const c10::Scalar number = [&] {
      recording_.set_takes_symbols(true);
      const auto after = c10::make_scope_exit([this] { recording_.set_takes_symbols(false); });
      return tensor.item();
    }();
    if (!number.isSymbolic()) return py::cast(number);
    const py::module_ torch = py::module_::import("torch");
    if (number.isFloatingPoint())
      return torch.attr("SymFloat")(py::cast(number.toSymFloat().toSymNodeImpl()));
    if (number.isBoolean()) return symbolic_bool(number.toSymBool());
    return py::cast(number.toSymInt());
  }
  bool runs_fake_kernel() const { return recording_.runs_fake_kernel(); }
  at::Tensor elements(const at::Tensor& tensor, bool shares_memory) {
    return recording_.elements(tensor, shares_memory);
  }
  // Returns the files and the line numbers of the program's lines that were recorded.
  std::vector<std::pair<std::string, int>> lines() const { return host_.lines().of_user(); }
  int64_t alive() const { return recording_.alive(); }
  // Ends the recording; returns false if it was refused.
  bool finish() {
    try {
      graph_ = recording_.finish();
    } catch (const c10::Error&) {  // reason() has the cause
    }
    return graph_ != nullptr;
  }
  void refuse_loop(py::handle count, const std::string& reason) {
    capture::Decisions& decisions = recording_.decisions();
    decisions.refuse_loop(capture::to_dim(count.cast<c10::SymInt>(), decisions), reason);
  }
  void note_refusal(const std::string& reason) { recording_.decisions().note_refusal(reason); }
  std::string reason() const { return recording_.decisions().reason(); }
  capture::RefusalKind refusal_kind() const { return recording_.decisions().refusal_kind(); }
  std::vector<size_t> read_inputs() const {
    return read_inputs_.value_or(recording_.read_inputs());
  }
  bool with_gradients() const { return recording_.decisions().with_gradients(); }
  const std::vector<capture::KnownElements>& known_elements() const {
    return recording_.known_elements();
  }
  std::vector<uint64_t> calls() { return recording_.decisions().runs().calls(); }
  void follow(std::vector<uint64_t> calls) {
    recording_.decisions().runs().begin(std::move(calls));
  }
  bool runs_differ() { return recording_.decisions().runs().differs(); }
  std::string text() const { return graph_ ? aten::print(*graph_) : ""; }
  py::object program(const py::object& builder) const {
    if (!graph_) fail(ErrorKind::invalid_argument, "the native capture has no graph");
    return build_program(*graph_, builder);
  }
  // Returns the program without writes: each one makes a new tensor. The recording has none then.
  // Its last results are what it writes to tensors of the module and to inputs: the names of these
  // tensors and the numbers of these inputs come with it.
  py::tuple functional_program(const py::object& builder) {
    const std::unique_ptr<aten::Graph> graph = take();
    aten::functionalize(*graph);
    py::list written;
    for (const aten::Mutation& mutation : graph->mutations) {
      graph->outputs.emplace_back(mutation.value);
      if (mutation.is_buffer) {
        written.append(mutation.target);
        continue;
      }
      const auto is_it = [&](const aten::Value* input) { return input->name == mutation.target; };
      written.append(std::ranges::find_if(graph->inputs, is_it) - graph->inputs.begin());
    }
    graph->mutations.clear();
    return py::make_tuple(build_program(*graph, builder, /*with_shapes=*/true), written);
  }
  std::unique_ptr<aten::Graph> take() {
    if (!graph_) fail(ErrorKind::invalid_argument, "the native capture has no graph");
    for (const TensorData& data : read_) note_read(data);
    for (const capture::KnownElements& known : recording_.known_elements()) note_read(known.data);
    return std::move(graph_);
  }
  // Makes the graph that of both recordings: this one where the program decides the guard as here,
  // the other one elsewhere, with these numbers for sizes that have no other value there. Returns
  // false if this graph has the calls of both.
  // Throws ExportError(unsupported) if one graph cannot hold both.
  bool join(PyCapture& other, size_t guard, const std::map<std::string, int64_t>& fixed) {
    if (!graph_ || !other.graph_)
      fail(ErrorKind::invalid_argument, "the native capture has no graph");
    const capture::Guard& by = recording_.decisions().guards().at(guard);
    const auto functional = [](const aten::Graph& graph, const capture::FixedSizes& sizes) {
      std::unique_ptr<aten::Graph> copy = aten::copy(
          graph, [&](const aten::Type& type) { return capture::with_sizes(type, sizes); });
      aten::functionalize(*copy);
      capture::drop_identities(*copy);
      return copy;
    };
    const std::unique_ptr<aten::Graph> there = functional(*other.graph_, {});
    const auto joined = [&](const aten::Graph& here, const auto& join) {
      return by.holds ? join(by, here, *there) : join(by, *there, here);
    };
    bool is_same = false;
    if (!fixed.empty()) {
      const std::unique_ptr<aten::Graph> here = functional(*graph_, fixed);
      capture::use_same_spelling(*here, *there);
      capture::use_same_spelling(*there, *here);
      try {
        is_same = joined(*here, capture::are_same_ways);
      } catch (const ExportError&) {  // their results differ
      }
    }
    if (!is_same) {
      const std::unique_ptr<aten::Graph> here = functional(*graph_, {});
      capture::use_same_spelling(*there, *here);
      std::unique_ptr<aten::Graph> both = joined(*here, capture::join_ways);
      is_same = !both;
      if (both) graph_ = std::move(both);
    }
    for (const capture::KnownElements& known : other.recording_.known_elements())
      read_.push_back(known.data);
    read_.insert(read_.end(), other.read_.begin(), other.read_.end());
    read_inputs_ = read_inputs();
    const std::vector<size_t> more = other.read_inputs();
    read_inputs_->insert(read_inputs_->end(), more.begin(), more.end());
    std::ranges::sort(*read_inputs_);
    read_inputs_->erase(std::unique(read_inputs_->begin(), read_inputs_->end()),
                        read_inputs_->end());
    return !is_same;
  }

 private:
  PythonHost host_;
  capture::Recording recording_;
  std::optional<capture::ActiveRecording> active_;
  PySizes sizes_;
  PyRegions regions_;
  std::unique_ptr<aten::Graph> graph_;
  std::vector<TensorData> read_;                    // elements that joined recordings know
  std::optional<std::vector<size_t>> read_inputs_;  // once recordings were joined
};

// Clears the sequence slots of a class and its subclasses. Python fills these slots when
// `__getitem__` or `__setitem__` is set and keeps them when the attribute is deleted. Tensors would
// remain sequences, and torch.tensor([tensor]) would fail. Skips subclasses that define either one.
void clear_sequence_slots(py::handle type) {
  if (PySequenceMethods* slots = reinterpret_cast<PyTypeObject*>(type.ptr())->tp_as_sequence) {
    slots->sq_item = nullptr;
    slots->sq_ass_item = nullptr;
  }
  for (py::handle subclass : type.attr("__subclasses__")()) {
    const py::object own = subclass.attr("__dict__");
    if (!own.contains("__getitem__") && !own.contains("__setitem__"))
      clear_sequence_slots(subclass);
  }
}

// Sets an attribute of a class that Python cannot change, such as torch.Size.
void set_attribute(const py::type& type, const std::string& name, const py::object& value) {
  auto* object = reinterpret_cast<PyTypeObject*>(type.ptr());
  if (PyDict_SetItemString(object->tp_dict, name.c_str(), value.ptr()) != 0)
    throw py::error_already_set();
  PyType_Modified(object);
}

// Binds the structures that a recording takes and returns.
void bind_structures(py::module_& module) {
  using aten::ConstantKind;
  using capture::Equation;
  using capture::Guard;
  using capture::KnownElements;
  using capture::ModuleTensor;
  using capture::RefusalKind;
  using capture::Symbol;
  py::enum_<RefusalKind>(module, "RefusalKind", "What a refused recording is about.")
      .value("CONTROL_FLOW", RefusalKind::control_flow)
      .value("LOOP", RefusalKind::loop)
      .value("PINNED_SIZE", RefusalKind::pinned_size)
      .value("FAILURE", RefusalKind::failure)
      .value("OTHER", RefusalKind::other);
  py::enum_<Symbol::Origin>(module, "Origin", "How the user left a size to the recording.")
      .value("DECLARED", Symbol::Origin::declared)
      .value("DYNAMIC", Symbol::Origin::dynamic)
      .value("NAMED", Symbol::Origin::named)
      .value("INFERRED", Symbol::Origin::inferred);
  py::class_<Symbol>(module, "Symbol", "The symbol of an input: a dynamic size, or an integer.")
      .def(py::init(&make_symbol), py::arg("example"), py::kw_only(), py::arg("low"),
           py::arg("high"), py::arg("origin"), py::arg("is_size"))
      .def_readonly("example", &Symbol::example)
      .def_property_readonly("lowest", &Symbol::lowest)
      .def_property_readonly("highest", [](const Symbol& symbol) { return symbol.range.high; })
      .def_readonly("is_size", &Symbol::is_size)
      .def(
          "with_example",
          [](Symbol symbol, int64_t example) {
            symbol.example = example;
            return symbol;
          },
          py::arg("example"))
      .def(
          "counted",
          [](Symbol symbol, int64_t example) {
            symbol.example = example;
            symbol.is_counted = true;
            return symbol;
          },
          py::arg("example"), "Returns the symbol for a recording whose loops have so many steps.")
      .def("__eq__", &is_same, py::arg("other"), py::is_operator())
      .attr("__hash__") = py::none();
  py::enum_<ConstantKind>(module, "ConstantKind", "What a tensor of the module is.")
      .value("PARAMETER", ConstantKind::parameter)
      .value("BUFFER", ConstantKind::buffer)
      .value("TEMPORARY_BUFFER", ConstantKind::temporary_buffer)
      .value("CONSTANT", ConstantKind::constant);
  py::class_<ModuleTensor>(module, "ModuleTensor", "A tensor of the module.")
      .def(py::init([](std::string name, at::Tensor tensor, ConstantKind kind, bool is_kept) {
             return ModuleTensor{std::move(name), std::move(tensor), kind, is_kept};
           }),
           py::arg("name"), py::arg("tensor"), py::arg("kind"), py::arg("is_kept"))
      .def_readonly("name", &ModuleTensor::name)
      .def_readonly("tensor", &ModuleTensor::tensor)
      .def_readonly("kind", &ModuleTensor::kind)
      .def_readonly("is_kept", &ModuleTensor::is_kept);
  py::class_<Location>(module, "Location", "Where a program calls an operator.")
      .def_readonly("source", &Location::source)
      .def_readonly("module", &Location::module_path);
  py::class_<Guard>(module, "Guard", "A condition under which the recording is valid.")
      .def_property_readonly("condition", &Guard::statement)
      .def_property_readonly("opposite",
                             [](Guard guard) {
                               guard.holds = !guard.holds;
                               return guard.statement();
                             })
      .def_readonly("source", &Guard::source);
  py::class_<Equation>(module, "Equation", "An equation of sizes that the program demands.")
      .def_readonly("symbol", &Equation::symbol)
      .def_property_readonly("value", [](const Equation& equation) { return equation.value.str(); })
      .def_readonly("source", &Equation::source)
      .def_readonly("is_loop", &Equation::is_loop)
      .def_readonly("is_branch", &Equation::is_branch);
  py::class_<KnownElements>(module, "KnownElements",
                            "A tensor of the module on whose elements a decision depends.")
      .def_readonly("name", &KnownElements::name)
      .def_readonly("source", &KnownElements::source);
}

}  // namespace

bool is_capture(py::handle source) { return py::isinstance<PyCapture>(source); }

std::unique_ptr<aten::Graph> take_graph(py::handle capture) {
  return capture.cast<PyCapture&>().take();
}

void bind_capture(py::module_& module) {
  module.def(
      "is_recorded",
      [](py::handle object) {
        if (THPVariable_Check(object.ptr()))
          return capture::recorded(THPVariable_Unpack(object.ptr())) != nullptr;
        return torch::is_symint(object) && capture::is_recorded(object.cast<c10::SymInt>());
      },
      py::arg("object"), "Whether a tensor or a size is one of a native capture.");
  module.def("meta_contradictions", &capture::MetaResults::contradictions,
             "Returns the calls whose types differ from those of PyTorch's own meta kernels.");
  module.def("memory_of", &capture::memory_of, py::arg("tensor"),
             "Identifies the memory of a recorded tensor, which its views share.");
  module.def(
      "example_strides",
      [](const at::Tensor& tensor) {
        const capture::RecordedTensor* known = capture::recorded(tensor);
        return (known ? known->meta() : tensor).strides().vec();
      },
      py::arg("tensor"), "Returns the strides of a tensor for the example, without guards.");
  module.def("clear_sequence_slots", &clear_sequence_slots, py::arg("type"),
             "Makes instances of a class no sequences after its items were set or deleted.");
  module.def("set_attribute", &set_attribute, py::arg("type"), py::arg("name"), py::arg("value"),
             "Sets an attribute of a class that Python cannot change.");
  module.def(
      "is_recorded_node",
      [](py::handle node) {
        return py::isinstance<c10::SymNodeImpl>(node) &&
               capture::is_recorded(node.cast<c10::SymNode>());
      },
      py::arg("node"), "Whether the node of a symbolic number is one of a native capture.");
  module.def("placeholder", &aten::make_placeholder, py::arg("like"),
             "Returns a CPU tensor with the dtype, sizes and strides of another, and no memory.");
  module.def(
      "text_of_size", [](py::handle size) { return capture::text_of(size.cast<c10::SymInt>()); },
      py::arg("size"), "Returns the expression of a size of a native capture.");
  py::class_<KeptDispatchKeys>(module, "KeptDispatchKeys", "Restores the dispatch keys on exit.")
      .def(py::init<>())
      .def("__enter__", &KeptDispatchKeys::enter)
      .def("__exit__", &KeptDispatchKeys::exit);
  bind_structures(module);
  bind_sizes(module);
  bind_regions(module);
  py::class_<PyCapture>(module, "Capture", "One recording of a program.")
      .def(py::init<std::vector<capture::ModuleTensor>, std::map<std::string, capture::Symbol>,
                    const std::map<std::string, std::string>&, std::shared_ptr<capture::Generators>,
                    bool>(),
           py::arg("state"), py::arg("symbols"), py::arg("identities"), py::arg("generators"),
           py::arg("small_numbers"))
      .def("add_input", &PyCapture::add_input, py::arg("example"), py::arg("name"),
           py::arg("sizes"))
      .def("add_integer", &PyCapture::add_integer, py::arg("name"), py::arg("symbol"))
      .def("item", &PyCapture::item, py::arg("tensor"))
      .def_property_readonly("regions", &PyCapture::regions)
      .def_property_readonly("sizes", &PyCapture::sizes)
      .def("replace", &PyCapture::replace, py::arg("tensor"), py::arg("contents"))
      .def("deep_copy", &PyCapture::deep_copy, py::arg("tensor"))
      .def("note_alias", &PyCapture::note_alias, py::arg("tensor"))
      .def("runs_fake_kernel", &PyCapture::runs_fake_kernel)
      .def("elements", &PyCapture::elements, py::arg("tensor"), py::arg("shares_memory"))
      .def("known_elements", &PyCapture::known_elements)
      .def("start", &PyCapture::start)
      .def("stop", &PyCapture::stop)
      .def("enter", &PyCapture::enter, py::arg("path"), py::arg("class_name"))
      .def("leave", &PyCapture::leave)
      .def("place", &PyCapture::place, py::arg("location"),
           "Makes this the location of the next calls.")
      .def("add_outputs", &PyCapture::add_outputs, py::arg("outputs"))
      .def("add_mutation", &PyCapture::add_mutation, py::arg("buffer"), py::arg("value"))
      .def("varies", &PyCapture::varies, py::arg("tensor"))
      .def("lines", &PyCapture::lines)
      .def("alive", &PyCapture::alive)
      .def("finish", &PyCapture::finish)
      .def("note_refusal", &PyCapture::note_refusal, py::arg("reason"),
           "Notes a reason for which finish() fails; refuse_loop() also raises.")
      .def("refuse_loop", &PyCapture::refuse_loop, py::arg("count"), py::arg("reason"))
      .def("reason", &PyCapture::reason)
      .def("refusal_kind", &PyCapture::refusal_kind)
      .def("read_inputs", &PyCapture::read_inputs)
      .def("with_gradients", &PyCapture::with_gradients)
      .def("calls", &PyCapture::calls, "Numbers that stand for what the program called.")
      .def("follow", &PyCapture::follow, py::arg("calls"),
           "Takes what an earlier recording of the same program called.")
      .def("runs_differ", &PyCapture::runs_differ,
           "Whether a run of the program called something else than another one.")
      .def("text", &PyCapture::text)
      .def("program", &PyCapture::program, py::arg("builder"))
      .def("functional_program", &PyCapture::functional_program, py::arg("builder"),
           "Returns the program without writes, and ends the recording.")
      .def("join", &PyCapture::join, py::arg("other"), py::arg("guard"), py::arg("fixed"),
           "Makes the graph that of both recordings, between which a guard of this one decides.");
}

}  // namespace onnx_native::plugin
