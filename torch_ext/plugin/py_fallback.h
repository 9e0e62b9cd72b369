// Lowerings that come from Python: the user's translation table, and what PyTorch itself knows of
// operators that the op table lacks.
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

// Two safety nets, in this order: PyTorch's decomposition of the single operator, traced on the
// captured call's fake tensors and read again; and the function of PyTorch's ONNX library for it,
// replayed into the Builder. Both start in onnx_native._fallbacks. Used with the GIL held.
//
// Before the op table comes the translation table, an onnx_native._translation.Table or None. It
// also has the calls that PyTorch's exporter would decompose into one that the table translates,
// and those of ONNX's own operators which are newer than the model's opset.
class PyLowerings final : public ops::ForeignLowerings {
 public:
  // `reader` knows which FX node each call was read from; it must outlive this object.
  PyLowerings(fx::ProgramReader& reader, int64_t opset, bool enabled, py::object translations);

  const ops::Lowering* preferred(const aten::Node& node) override;
  const ops::Lowering* fallback(const aten::Node& node) override;

  // The operators that fell into a net, and into which.
  const std::map<std::string, std::string>& used() const override { return used_; }
  // The decomposed calls.
  std::vector<std::shared_ptr<aten::Graph>> take_graphs() override { return std::move(graphs_); }

 private:
  using Found = std::unordered_map<const aten::Node*, std::optional<ops::Lowering>>;

  std::optional<ops::Lowering> make(const aten::Node& node);
  std::optional<ops::Lowering> translate(const aten::Node& node);
  // What a decomposition by PyTorch lowers to; nullopt where the call cannot be replaced by it.
  std::optional<ops::Lowering> decomposed(const aten::Node& node, py::object module);
  std::shared_ptr<aten::Graph> read(const aten::Node& node, const py::object& module);

  fx::ProgramReader& reader_;
  int64_t opset_;
  bool enabled_;
  py::object translations_;
  std::unordered_map<std::string, ops::Lowering> translated_;  // by operator
  Found found_;
  Found preferred_;
  std::map<std::string, std::string> used_;
  std::vector<std::shared_ptr<aten::Graph>> graphs_;
  std::vector<py::object> kept_;  // modules whose nodes the reader's origins point to
};

}  // namespace onnx_native::plugin
