// Types, symbolic sizes and tensors of a captured program, out of torch's objects.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "aten/graph.h"
#include "aten/torch_tensor.h"
#include "aten/torch_types.h"
#include "plugin/fx_objects.h"

namespace onnx_native::plugin {

// New names for torch.export's symbols: {"s77": "batch"}. Two symbols with one new name become one.
using SymbolNames = std::unordered_map<std::string, std::string>;

using aten::tensor_data;
using aten::to_dtype;
using aten::to_scalar_type;

// A tensor over the constant's memory.
at::Tensor to_tensor(const TensorData& data);

// Reads `meta["val"]`. Expressions are parsed once each.
class TypeReader {
 public:
  explicit TypeReader(SymbolNames names) : names_(std::move(names)) {}

  // The type of a tensor, a (symbolic) number, or None. Throws ExportError(unsupported) for dtypes
  // and layouts that ONNX cannot hold.
  aten::Type type_of(PyObject* value);
  // The expression of a torch.SymInt.
  Dim dim_of(PyObject* sym_int);

 private:
  aten::Type tensor_type(const at::Tensor& tensor);
  Dim node_dim(PyObject* sym_node);

  SymbolNames names_;
  std::unordered_map<PyObject*, Dim> dims_;  // by sympy expression
  std::unordered_map<std::string, Dim> texts_;
  std::vector<py::object> kept_;  // so that no other object takes a cached one's address
};

}  // namespace onnx_native::plugin
