#include "fx/types.h"

#include <pybind11/gil_safe_call_once.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/python_symnode.h>

#include <sstream>
#include <utility>

#include "aten/element_types.h"
#include "aten/torch_types.h"

namespace onnx_native::fx {

const FxObjects& FxObjects::get() {
  // Not a static reference: its initializer runs Python and can release the GIL. Another thread
  // could then hold the GIL while it waits here for the initialization: a deadlock.
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<const FxObjects*> objects;
  return *objects.call_once_and_store_result([] { return new FxObjects(); }).get_stored();
}

namespace {

// Returns a bound of a torch.utils._sympy.value_ranges.ValueRanges, or nullopt if it is infinite or
// does not fit in 64 bits.
std::optional<int64_t> bound(py::handle number) {
  if (!number.attr("is_Integer").cast<bool>()) return std::nullopt;
  int overflow = 0;
  const py::int_ value(py::reinterpret_borrow<py::object>(number));
  const int64_t result = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  return overflow == 0 ? std::optional(result) : std::nullopt;
}

}  // namespace

std::optional<Dim> TypeReader::declare(py::handle symbol, const std::string& name,
                                       PyObject* sym_node) {
  if (!py::object(symbol.attr("is_integer")).equal(py::bool_(true))) return std::nullopt;
  PyObject* known = entry(constraints_.ptr(), symbol.ptr());
  const py::object all =
      known ? py::object() : py::handle(sym_node).attr("shape_env").attr("var_to_range");
  if (!known) known = entry(all.ptr(), symbol.ptr());
  DimRange range;
  if (known) {
    range.low = bound(py::handle(known).attr("lower"));
    range.high = bound(py::handle(known).attr("upper"));
  }
  if (reads_ == Reads::tensor_input) range = DimRange::captured_size(range);
  // torch.export records that an integer input is at least 0, and narrows the range by its own
  // decisions, but checks neither.
  if (reads_ == Reads::integer_input) range = DimRange::integer();
  return Dim::symbol(name_of(name), range);
}

const std::string& TypeReader::name_of(const std::string& symbol) const {
  const auto renamed = names_.find(symbol);
  return renamed == names_.end() ? symbol : renamed->second;
}

Dim TypeReader::opaque(PyObject* sym_node, const DimRange& range) {
  if (!all_symbols_used_) {
    all_symbols_used_ = true;
    const py::object all = py::handle(sym_node).attr("shape_env").attr("var_to_range");
    for (const py::handle symbol : all) Dim::symbol(name_of(std::string(py::str(symbol))));
  }
  return Dim::fresh(range);
}

std::optional<Dim> TypeReader::resolve(std::string_view name, py::handle expr, PyObject* sym_node) {
  const std::string key(name);
  if (const auto at = symbols_.find(key); at != symbols_.end()) return at->second;
  for (const py::handle symbol : expr.attr("free_symbols")) {
    const std::string free(text(py::str(symbol).ptr()));
    if (!symbols_.contains(free)) symbols_.emplace(free, declare(symbol, free, sym_node));
  }
  return symbols_[key];
}

Dim TypeReader::node_dim(PyObject* sym_node, const DimRange& otherwise) {
  const FxObjects& fx = FxObjects::get();
  // Looks up `_expr` first: it is a plain attribute that many nodes share; `expr` runs Python code.
  py::object raw = attribute(sym_node, fx.raw_expr);
  if (const auto at = dims_.find(raw.ptr()); at != dims_.end()) return at->second;
  const py::object expr = attribute(sym_node, fx.expr);
  const py::str printed(expr);
  const std::string key(text(printed.ptr()));
  auto [at, inserted] = texts_.try_emplace(key);
  if (inserted) {
    const std::optional<Dim> dim =
        parse_dim(key, [&](std::string_view name) { return resolve(name, expr, sym_node); });
    at->second = dim ? *dim : opaque(sym_node, otherwise);
  }
  dims_.emplace(raw.ptr(), at->second);
  kept_.push_back(std::move(raw));
  return at->second;
}

Dim TypeReader::dim_of(PyObject* sym_int) {
  const py::object node = attribute(sym_int, FxObjects::get().node);
  return node_dim(node.ptr(), DimRange::integer());
}

aten::Type TypeReader::input_type(PyObject* value) {
  reads_ = THPVariable_Check(value) ? Reads::tensor_input : Reads::integer_input;
  struct Leave {
    Reads& reads;
    ~Leave() { reads = Reads::result; }
  } leave{reads_};
  return type_of(value);
}

std::optional<std::vector<aten::Stride>> TypeReader::scattered_strides(const at::Tensor& tensor) {
  const Shape strides = dims(tensor.sym_strides());
  return aten::scattered_strides(tensor_type(tensor), strides);
}

Shape TypeReader::dims(c10::SymIntArrayRef sizes) {
  Shape shape;
  shape.reserve(sizes.size());
  for (const c10::SymInt& size : sizes) {
    if (const auto number = size.maybe_as_int()) {
      shape.emplace_back(*number);
    } else if (auto* node =
                   dynamic_cast<torch::impl::PythonSymNodeImpl*>(size.toSymNodeImplUnowned())) {
      shape.push_back(node_dim(node->getPyObj().ptr(), DimRange::size()));
    } else {
      shape.push_back(Dim::fresh());
    }
  }
  return shape;
}

aten::Type TypeReader::tensor_type(const at::Tensor& tensor) {
  const c10::ScalarType scalar_type = tensor.scalar_type();
  const std::optional<DType> dtype = aten::to_dtype(scalar_type);
  if (!dtype) {
    fail(ErrorKind::unsupported, aten::no_element_type(scalar_type));
  }
  if (tensor.layout() != c10::Layout::Strided) {
    std::ostringstream layout;
    layout << tensor.layout();
    fail(ErrorKind::unsupported, "ONNX has no tensors of layout ", layout.str());
  }
  aten::Type type = aten::Type::tensor(*dtype, dims(tensor.sym_sizes()));
  type.quantized = c10::isQIntType(scalar_type);
  return type;
}

aten::Type TypeReader::type_of(PyObject* value) {
  const FxObjects& fx = FxObjects::get();
  using Kind = aten::Type::Kind;
  if (PyType_IsSubtype(Py_TYPE(value), reinterpret_cast<PyTypeObject*>(THPVariableClass))) {
    return tensor_type(THPVariable_Unpack(value));
  }
  aten::Type type;
  if (value == Py_None) {
    type.kind = Kind::none;
  } else if (PyBool_Check(value) || is_a(value, fx.sym_bool)) {
    type.kind = Kind::sym_bool;
  } else if (PyLong_Check(value)) {
    return aten::Type::sym_int(Dim(static_cast<int64_t>(PyLong_AsLongLong(value))));
  } else if (is_a(value, fx.sym_int)) {
    return aten::Type::sym_int(dim_of(value));
  } else if (PyFloat_Check(value) || is_a(value, fx.sym_float)) {
    type.kind = Kind::sym_float;
  } else {
    type.kind = Kind::other;
  }
  return type;
}

}  // namespace onnx_native::fx
