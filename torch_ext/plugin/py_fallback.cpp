#include "plugin/py_fallback.h"

#include <utility>

#include "aten/visit.h"
#include "ops/engine/onnx_call.h"
#include "plugin/py_lowering.h"

namespace onnx_native::plugin {
namespace {

size_t count_values(const aten::Node& node) {
  size_t count = 0;
  for (const aten::Argument& argument : node.arguments) {
    aten::for_each_value(argument, [&](aten::Value*) { ++count; });
  }
  return count;
}

py::module_ fallbacks() { return py::module_::import("onnx_native.lowerings._fallbacks"); }

bool has_lowering(const std::string& op) { return ops::op_table().find(op) != nullptr; }

// Lowers the decomposition `graph` in place of `call`.
ops::Results inline_call(const aten::Graph& graph, const ops::Call& call) {
  ops::Results arguments;
  for (const aten::Argument& argument : call.node().arguments) {
    aten::for_each_value(argument,
                         [&](aten::Value* value) { arguments.push_back(call.lowered(value)); });
  }
  return call.inline_body(graph, arguments);
}

ops::Lowering lowering_of(py::function function) {
  const auto kept = std::make_shared<py::function>(std::move(function));
  return {.run = [kept](const ops::Call& call) { return run_on_arguments(*kept, call); },
          .parameters = {}};
}

bool takes_complex(const aten::Node& node) {
  bool found = false;
  for (const aten::Argument& argument : node.arguments) {
    aten::for_each_value(argument, [&](const aten::Value* value) {
      found = found || (value->type.is_tensor() && is_complex(value->type.dtype));
    });
  }
  return found;
}

}  // namespace

PyLowerings::PyLowerings(fx::ProgramReader& reader, int64_t opset, bool enabled,
                         py::object translations)
    : reader_(reader), opset_(opset), enabled_(enabled), translations_(std::move(translations)) {
  if (translations_.is_none()) return;
  for (const auto& [op, function] : translations_.attr("lowerings").cast<py::dict>()) {
    translated_.emplace(op.cast<std::string>(), lowering_of(function.cast<py::function>()));
  }
}

const ops::Lowering* PyLowerings::preferred(const aten::Node& node) {
  if (ops::onnx_call_opset(node.op) > opset_ && !has_lowering(node.op)) return fallback(node);
  if (translated_.empty()) return nullptr;
  const auto given = translated_.find(node.op);
  if (given != translated_.end()) return takes_complex(node) ? nullptr : &given->second;
  if (!node.schema) return nullptr;
  const bool inserted = preferred_.try_emplace(&node).second;
  if (inserted) {
    std::optional<ops::Lowering> lowering = translate(node);
    preferred_.at(&node) = std::move(lowering);
  }
  const std::optional<ops::Lowering>& lowering = preferred_.at(&node);
  return lowering ? &*lowering : nullptr;
}

std::optional<ops::Lowering> PyLowerings::translate(const aten::Node& node) {
  const py::gil_scoped_acquire acquired;
  PyObject* origin = reader_.origin(node);
  if (!origin) return std::nullopt;
  return decomposed(
      node, translations_.attr("decompose")(py::handle(origin), node.op, count_values(node)));
}

const ops::Lowering* PyLowerings::fallback(const aten::Node& node) {
  if (!enabled_) return nullptr;
  // The entry is empty while make() runs, so that a recursive lookup of this node finds nothing.
  const bool inserted = found_.try_emplace(&node).second;
  if (inserted) {
    std::optional<ops::Lowering> lowering = make(node);
    found_.at(&node) = std::move(lowering);
  }
  const std::optional<ops::Lowering>& lowering = found_.at(&node);
  return lowering ? &*lowering : nullptr;
}

std::optional<ops::Lowering> PyLowerings::make(const aten::Node& node) {
  const py::gil_scoped_acquire acquired;
  PyObject* origin = reader_.origin(node);
  if (!origin || !node.schema) return std::nullopt;
  py::object module = fallbacks().attr("decompose")(py::handle(origin), node.op, count_values(node),
                                                    py::cpp_function(&has_lowering));
  if (auto lowering = decomposed(node, std::move(module))) {
    used_[node.op] = "decomposition";
    return lowering;
  }
  const py::object function = fallbacks().attr("library_lowering")(py::handle(origin));
  if (function.is_none()) return std::nullopt;
  used_[node.op] = "function library";
  return lowering_of(function.cast<py::function>());
}

std::optional<ops::Lowering> PyLowerings::decomposed(const aten::Node& node, py::object module) {
  if (module.is_none()) return std::nullopt;
  const std::shared_ptr<aten::Graph> graph = read(node, module);
  if (!graph || graph->outputs.size() != node.outputs.size()) return std::nullopt;
  kept_.push_back(std::move(module));
  if (!ops::missing_operators(*graph, ops::Lowerings(ops::op_table(), this)).empty()) {
    return std::nullopt;
  }
  graphs_.push_back(graph);
  return ops::Lowering{.run = [graph](const ops::Call& call) { return inline_call(*graph, call); },
                       .parameters = {}};
}

std::shared_ptr<aten::Graph> PyLowerings::read(const aten::Node& node, const py::object& module) {
  std::shared_ptr<aten::Graph> graph;
  const Location* outer = std::exchange(reader_.within, node.location);
  try {
    graph = fx::read_graph(reader_, module.ptr());
    aten::functionalize(*graph);
    aten::verify(*graph, "decomposition");
  } catch (const ExportError&) {
    graph = nullptr;
  }
  reader_.within = outer;
  return graph;
}

}  // namespace onnx_native::plugin
