#include "fx/reader.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "aten/placeholder.h"
#include "aten/shape_changes.h"
#include "aten/torch_tensor.h"

namespace onnx_native::fx {
namespace {

using aten::Argument;

// An input spec of torch.export's graph signature: the meaning of a placeholder.
struct ProgramInput {
  enum class Kind { user, constant, other };
  Kind kind = Kind::other;
  aten::ConstantKind constant = aten::ConstantKind::constant;
  bool literal = false;  // a number, string or None that the capture specialized
  std::string target;
};

// An output spec of torch.export's graph signature: the meaning of a result.
struct ProgramOutput {
  std::string kind;  // "USER_OUTPUT", "BUFFER_MUTATION" ...
  std::string target;
};

class Signature {
 public:
  explicit Signature(py::handle program) {
    const py::object signature = program.attr("graph_signature");
    const FxObjects& fx = FxObjects::get();
    for (const py::handle item : signature.attr("input_specs")) {
      const std::string kind = item.attr("kind").attr("name").cast<std::string>();
      ProgramInput spec;
      if (kind == "USER_INPUT") {
        spec.kind = ProgramInput::Kind::user;
      } else if (kind == "PARAMETER") {
        spec.kind = ProgramInput::Kind::constant;
        spec.constant = aten::ConstantKind::parameter;
      } else if (kind == "BUFFER") {
        const py::object persistent = item.attr("persistent");
        const bool is_temporary = persistent.is(py::bool_(false));
        spec.kind = ProgramInput::Kind::constant;
        spec.constant =
            is_temporary ? aten::ConstantKind::temporary_buffer : aten::ConstantKind::buffer;
      } else if (kind == "CONSTANT_TENSOR") {
        spec.kind = ProgramInput::Kind::constant;
      }
      spec.literal = is_a(item.attr("arg").ptr(), fx.constant_argument);
      const py::object target = item.attr("target");
      if (!target.is_none()) spec.target = target.cast<std::string>();
      inputs_.push_back(std::move(spec));
    }
    for (const py::handle item : signature.attr("output_specs")) {
      const std::string kind = item.attr("kind").attr("name").cast<std::string>();
      const py::object target = item.attr("target");
      outputs_.push_back(
          {.kind = kind, .target = target.is_none() ? "" : target.cast<std::string>()});
    }
  }

  bool updates(std::string_view buffer) const {
    return std::ranges::any_of(outputs_, [&](const ProgramOutput& output) {
      return output.target == buffer && output.kind != "USER_INPUT_MUTATION";
    });
  }

  const std::vector<ProgramInput>& inputs() const { return inputs_; }
  // Adds the output node's values to the graph's outputs and mutations. Throws
  // ExportError(invalid_program) when their number differs from the signature.
  void place_outputs(Argument outputs, aten::Graph& graph) const {
    auto* list = std::get_if<Argument::List>(&outputs.value);
    if (!list || list->size() != outputs_.size()) {
      fail(ErrorKind::invalid_program, "the program's outputs do not match its signature");
    }
    for (size_t i = 0; i < list->size(); ++i) {
      const auto& [kind, target] = outputs_[i];
      if (kind == "USER_OUTPUT") {
        graph.outputs.push_back(std::move((*list)[i]));
      } else if (kind == "BUFFER_MUTATION" || kind == "USER_INPUT_MUTATION" ||
                 kind == "PARAMETER_MUTATION") {
        graph.mutations.push_back({.target = target,
                                   .is_buffer = kind != "USER_INPUT_MUTATION",
                                   .value = (*list)[i].as_value()});
      }
    }
  }

 private:
  std::vector<ProgramInput> inputs_;
  std::vector<ProgramOutput> outputs_;
};

}  // namespace

std::unique_ptr<aten::Graph> read_exported_program(py::handle program, ProgramReader& reader) {
  const FxObjects& fx = FxObjects::get();
  Dim::restart_fresh();  // so that the same program always gets the same symbol names
  reader.types.set_ranges(program.attr("range_constraints"));
  auto graph = std::make_unique<aten::Graph>();
  const Signature signature(program);
  const py::dict state = program.attr("state_dict");
  const py::dict constants = program.attr("constants");
  GraphReader body(reader, *graph);
  size_t next = 0;
  // Tied weights without elements share one placeholder.
  std::unordered_map<const c10::TensorImpl*, at::Tensor> placeholders;

  const auto constant = [&](const ProgramInput& spec, PyObject* node) -> Argument {
    const py::object users = attribute(node, fx.users);
    if (PyDict_Size(users.ptr()) == 0 && !signature.updates(spec.target)) return {};
    const py::str key(spec.target);
    PyObject* tensor = entry(state.ptr(), key.ptr());
    if (!tensor) tensor = entry(constants.ptr(), key.ptr());
    if (!tensor || !THPVariable_Check(tensor)) {
      fail(ErrorKind::invalid_program, "the program holds no tensor for ", spec.target);
    }
    if (py::hasattr(tensor, "__tensor_flatten__")) {
      body.hold_wrapper(node, spec.target, py::reinterpret_borrow<py::object>(tensor),
                        spec.constant);
      return {};
    }
    at::Tensor held = THPVariable_Unpack(tensor);
    // A fake tensor that the program created is a bug in the capture and gets no placeholder.
    const bool is_made = spec.target.starts_with("lifted_tensor");
    if (aten::lacks_elements(held) && !is_made) {
      at::Tensor& made = placeholders[held.unsafeGetTensorImpl()];
      if (!made.defined()) made = aten::make_placeholder(held);
      held = made;
    }
    TensorData data = spec.constant == aten::ConstantKind::constant
                          ? aten::literal_data(held, spec.target)
                          : aten::tensor_data(held, spec.target);
    return graph->add_constant(spec.target, std::move(data), spec.constant);
  };
  const auto placeholder = [&](PyObject* node, std::string_view name) -> Argument {
    if (next >= signature.inputs().size()) {
      fail(ErrorKind::invalid_program, "the program's inputs do not match its signature");
    }
    const ProgramInput& spec = signature.inputs()[next++];
    const py::object meta = attribute(node, fx.meta);
    PyObject* value = entry(meta.ptr(), fx.val);
    switch (spec.kind) {
      case ProgramInput::Kind::other:  // a token or a script object
        return {};
      case ProgramInput::Kind::user: {
        if (spec.literal) return {};
        aten::Type type = value ? reader.types.input_type(value) : aten::Type();
        aten::Value* input = graph->add_input(name, std::move(type));
        if (value && THPVariable_Check(value)) {
          if (auto strides = reader.types.scattered_strides(THPVariable_Unpack(value)))
            graph->scattered_inputs.push_back({input, std::move(*strides)});
        }
        return input;
      }
      default:
        return constant(spec, node);
    }
  };
  const py::object graph_module = program.attr("graph_module");
  Argument outputs = body.read(graph_module.ptr(), placeholder);
  signature.place_outputs(std::move(outputs), *graph);
  aten::check_shape_changes(*graph);
  aten::mark_false_aliases(*graph);
  return graph;
}

}  // namespace onnx_native::fx
