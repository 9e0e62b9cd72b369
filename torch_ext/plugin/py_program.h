// An exported program, as the Python package holds it.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/export.h"
#include "aten/example_sizes.h"
#include "plugin/fx_types.h"
#include "writer/writer.h"

namespace onnx_native::plugin {

// Owns the ATen graph (weights, locations) and the ONNX model over it.
class Program {
 public:
  // `source` is a torch.export.ExportedProgram, the path of a .pt2 file, or what read_script takes.
  // With `fallbacks`,
  // PyTorch helps with operators that the op table lacks. `translations` is the user's
  // onnx_native._translation.Table or None. With `metadata`, nodes say where they come from.
  // `hints` are the sizes of the example, by the names of the symbols.
  Program(py::handle source, SymbolNames symbol_names, const aten::Hints& hints,
          const ExportOptions& options, bool verify, bool fallbacks, py::object translations,
          bool metadata);

  std::vector<std::string> input_names() const;
  std::vector<std::string> output_names() const;
  // Bytes of all weights.
  int64_t weight_bytes() const;
  py::dict report() const;
  // [(target, input name, output name, initial value or None)] of what is updated in the model.
  py::list state() const;
  void save(const std::string& path, std::optional<bool> external_data) const;
  py::bytes serialize() const;
  // The model's bytes without its weights, and (name, number for `weight`) of these, in the order
  // in which they are referred to.
  py::tuple serialize_without_weights();
  // The elements that a weight has now.
  at::Tensor weight(size_t number) const;
  // Gives weights new elements, by the names that they have in the module; the names that the
  // program has. All or none: throws ExportError(invalid_argument) with the name of one that
  // differs in dtype or shape, or whose values decided how the model looks.
  std::vector<std::string> set_weights(const std::map<std::string, at::Tensor>& tensors);
  std::string text() const;
  int64_t opset() const { return model_->opset; }

 private:
  std::unique_ptr<aten::Graph> graph_;
  std::vector<std::shared_ptr<aten::Graph>> decomposed_;  // calls, as PyTorch decomposes them
  std::map<std::string, std::string> fallbacks_;          // operator -> the safety net it fell into
  std::unique_ptr<onnx::Model> model_;
  ExportReport report_;
  writer::Options writing_;
  std::vector<writer::Weight> weights_;  // those that `weight` numbers
};

void bind_program(py::module_& module);

}  // namespace onnx_native::plugin
