// Reads the types and symbolic sizes of a captured program from torch's objects.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "aten/graph.h"
#include "aten/strides.h"
#include "fx/objects.h"

namespace onnx_native::fx {

// New names for torch.export's symbols: {"s77": "batch"}. Symbols with one new name are merged.
using SymbolNames = std::unordered_map<std::string, std::string>;

// Reads the types in `meta["val"]`. Caches parsed expressions. The caller holds the GIL.
class TypeReader {
 public:
  explicit TypeReader(SymbolNames names) : names_(std::move(names)) {}

  // Sets the ranges of the symbols, the program's `range_constraints`.
  void set_ranges(py::dict ranges) { constraints_ = std::move(ranges); }
  // Returns the type of an input of the program. The symbols in its shape become input sizes; the
  // symbol of an integer becomes an integer without bounds.
  aten::Type input_type(PyObject* value);
  // Returns the type of a tensor, a (symbolic) number, or None. Throws ExportError(unsupported) for
  // a dtype or layout that ONNX does not have.
  aten::Type type_of(PyObject* value);
  // Returns the strides of a tensor in the example; nullopt if it was contiguous.
  std::optional<std::vector<aten::Stride>> scattered_strides(const at::Tensor& tensor);
  // Returns the expression of a torch.SymInt, or a fresh symbol if Dim cannot express it.
  Dim dim_of(PyObject* sym_int);

 private:
  // The value whose type is read; it determines the ranges of new symbols.
  enum class Reads { result, tensor_input, integer_input };

  aten::Type tensor_type(const at::Tensor& tensor);
  Shape dims(c10::SymIntArrayRef sizes);
  Dim node_dim(PyObject* sym_node, const DimRange& otherwise);
  std::optional<Dim> resolve(std::string_view name, py::handle expr, PyObject* sym_node);
  std::optional<Dim> declare(py::handle symbol, const std::string& name, PyObject* sym_node);
  // Returns the name of a symbol of the program in the graph.
  const std::string& name_of(const std::string& symbol) const;
  // Returns a fresh symbol. Its name differs from those of all symbols of the program.
  Dim opaque(PyObject* sym_node, const DimRange& range);

  SymbolNames names_;
  py::object constraints_ = py::dict();
  Reads reads_ = Reads::result;
  bool all_symbols_used_ = false;  // Dim::fresh() knows the names of all symbols of the program
  std::unordered_map<std::string, std::optional<Dim>> symbols_;  // nullopt: not an integer
  std::unordered_map<PyObject*, Dim> dims_;                      // keyed by SymPy expression
  std::unordered_map<std::string, Dim> texts_;
  std::vector<py::object> kept_;  // keeps the keys of dims_ alive, so that no address is reused
};

}  // namespace onnx_native::fx
