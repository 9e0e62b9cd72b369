// Types, symbolic sizes and tensors of a captured program, out of torch's objects.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "aten/graph.h"
#include "fx/objects.h"

namespace onnx_native::fx {

// New names for torch.export's symbols: {"s77": "batch"}. Two symbols with one new name become one.
using SymbolNames = std::unordered_map<std::string, std::string>;

// Reads `meta["val"]`. Expressions are parsed once each.
class TypeReader {
 public:
  explicit TypeReader(SymbolNames names) : names_(std::move(names)) {}

  // The ranges of a program's symbols: its `range_constraints`.
  void set_ranges(py::dict ranges) { constraints_ = std::move(ranges); }
  // The type of an input of the program, whose sizes are the symbols that are sizes of inputs.
  aten::Type input_type(PyObject* value);
  // The type of a tensor, a (symbolic) number, or None. Throws ExportError(unsupported) for dtypes
  // and layouts that ONNX cannot hold.
  aten::Type type_of(PyObject* value);
  // The expression of a torch.SymInt.
  Dim dim_of(PyObject* sym_int);

 private:
  aten::Type tensor_type(const at::Tensor& tensor);
  Dim node_dim(PyObject* sym_node, const DimRange& otherwise);
  std::optional<Dim> resolve(std::string_view name, py::handle expr, PyObject* sym_node);
  std::optional<Dim> declare(py::handle symbol, const std::string& name, PyObject* sym_node);

  SymbolNames names_;
  py::object constraints_ = py::dict();
  bool reads_input_ = false;
  std::unordered_map<std::string, std::optional<Dim>> symbols_;  // nullopt: a float
  std::unordered_map<PyObject*, Dim> dims_;                      // by sympy expression
  std::unordered_map<std::string, Dim> texts_;
  std::vector<py::object> kept_;  // so that no other object takes a cached one's address
};

}  // namespace onnx_native::fx
