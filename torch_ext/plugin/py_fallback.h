// Lowerings that come from Python: the user's translation table, and PyTorch's own decompositions
// and ONNX functions for operators without an entry in the op table.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "fx/graph_reader.h"
#include "ops/engine/lower.h"

namespace onnx_native::plugin {

namespace py = pybind11;

// Finds lowerings outside the op table. The caller holds the GIL.
//
// preferred() looks up the user's translation table, a TranslationTable of
// onnx_native.lowerings._translation or None. It also handles calls that PyTorch's exporter
// decomposes into an operator of that table, and calls of ONNX operators that are newer than the
// model's opset.
//
// fallback() first tries PyTorch's decomposition of the operator, traced on the captured call's
// fake tensors and read into a graph, then the function of PyTorch's ONNX library, replayed into
// the Builder. Both are implemented in onnx_native.lowerings._fallbacks.
class PyLowerings final : public ops::ForeignLowerings {
 public:
  // `reader` maps calls to FX nodes and must outlive this object. `enabled` turns fallback() on.
  PyLowerings(fx::ProgramReader& reader, int64_t opset, bool enabled, py::object translations);

  const ops::Lowering* preferred(const aten::Node& node) override;
  const ops::Lowering* fallback(const aten::Node& node) override;

  // Maps each operator lowered by fallback() to "decomposition" or "function library".
  const std::map<std::string, std::string>& used() const override { return used_; }
  // Moves out the graphs of the decomposed calls.
  std::vector<std::shared_ptr<aten::Graph>> take_graphs() override { return std::move(graphs_); }

 private:
  using Found = std::unordered_map<const aten::Node*, std::optional<ops::Lowering>>;

  std::optional<ops::Lowering> make(const aten::Node& node);
  std::optional<ops::Lowering> translate(const aten::Node& node);
  // Returns a lowering that inlines `module`, PyTorch's decomposition of the call. Returns nullopt
  // if `module` is None or unreadable, has other outputs, or calls an operator without a lowering.
  std::optional<ops::Lowering> decomposed(const aten::Node& node, py::object module);
  // Reads and functionalizes a decomposition; returns nullptr when that throws ExportError.
  std::shared_ptr<aten::Graph> read(const aten::Node& node, const py::object& module);

  fx::ProgramReader& reader_;
  int64_t opset_;
  bool enabled_;
  py::object translations_;
  std::unordered_map<std::string, ops::Lowering> translated_;  // keyed by operator
  Found found_;
  Found preferred_;
  std::map<std::string, std::string> used_;
  std::vector<std::shared_ptr<aten::Graph>> graphs_;
  std::vector<py::object> kept_;  // graph modules that own the nodes in the reader's origins
};

}  // namespace onnx_native::plugin
