// Queries of tensors, and conversions between numbers and tensors.
#include <ATen/core/function_schema.h>

#include <algorithm>

#include "aten/default_dtype.h"
#include "aten/torch_types.h"
#include "base/scalar.h"
#include "readers/jit/open_list.h"

namespace onnx_native::readers::jit {
namespace {

using aten::Argument;
using aten::Type;

const Type& type_with_dtype(const Call& call, aten::Value* value) {
  if (value->type.is_tensor() && value->type.dtype != DType::undefined) return value->type;
  call.run.unsupported(concat(
      "the type of %", value->name, " is unknown: ",
      value->producer ? value->producer->op + " has no lowering" : "the input has no dtype"));
}

const Shape& known_shape(const Call& call, aten::Value* value) {
  const Type& type = type_with_dtype(call, value);
  if (!type.shape)
    call.run.unsupported(
        concat("cannot read the sizes of %", value->name, ": its rank is unknown"));
  return *type.shape;
}

std::optional<Items> size(const Call& call) {
  aten::Value* self = call.input(0).tensor();
  if (!self) return std::nullopt;
  const Shape& shape = known_shape(call, self);
  if (call.size() > 1) {
    const auto axis = call.input(1).integer();
    if (!axis) call.run.unsupported("the axis of size() must be a constant");
    const auto rank = static_cast<int64_t>(shape.size());
    const int64_t at = *axis < 0 ? *axis + rank : *axis;
    if (at < 0 || at >= rank)
      fail(ErrorKind::invalid_program, "size(", *axis, ") is out of range for a tensor of rank ",
           rank);
    return one(shape[static_cast<size_t>(at)]);
  }
  return one(make_container(Container::Kind::list, Items(shape.begin(), shape.end()),
                            c10::ListType::ofInts()));
}

std::optional<Items> rank(const Call& call) {
  aten::Value* self = call.input(0).tensor();
  if (!self) return std::nullopt;
  return one(Dim(static_cast<int64_t>(known_shape(call, self).size())));
}

std::optional<Items> tensor_length(const Call& call) {
  aten::Value* self = call.input(0).tensor();
  if (!self) return std::nullopt;
  const Shape& shape = known_shape(call, self);
  if (shape.empty()) fail(ErrorKind::invalid_program, "cannot take len() of a 0-d tensor");
  return one(shape[0]);
}

std::optional<Items> element_count(const Call& call) {
  aten::Value* self = call.input(0).tensor();
  if (!self) return std::nullopt;
  return one(onnx_native::numel(known_shape(call, self)));
}

std::optional<Items> dtype(const Call& call) {
  aten::Value* self = call.input(0).tensor();
  if (!self) return std::nullopt;
  return one(Dim(static_cast<int64_t>(aten::to_scalar_type(type_with_dtype(call, self).dtype))));
}

std::optional<Items> device(const Call& call) {
  if (!call.input(0).tensor()) return std::nullopt;
  return one(c10::IValue(c10::Device(c10::kCPU)));
}

std::optional<Items> layout(const Call& call) {
  if (!call.input(0).tensor()) return std::nullopt;
  return one(Dim(static_cast<int64_t>(c10::Layout::Strided)));
}

std::optional<Items> is_floating_point(const Call& call) {
  aten::Value* self = call.input(0).tensor();
  if (!self) return std::nullopt;
  return one(c10::IValue(onnx_native::is_floating(type_with_dtype(call, self).dtype)));
}

std::optional<Items> is_complex_tensor(const Call& call) {
  aten::Value* self = call.input(0).tensor();
  if (!self) return std::nullopt;
  return one(c10::IValue(onnx_native::is_complex(type_with_dtype(call, self).dtype)));
}

std::optional<Items> element_size(const Call& call) {
  aten::Value* self = call.input(0).tensor();
  if (!self) return std::nullopt;
  return one(Dim(item_size(type_with_dtype(call, self).dtype)));
}

// --- Numbers from tensors

// Returns the element of a constant float or bool tensor. Integers are folded as symbolic sizes.
std::optional<double> known_element(const Call& call, const aten::Value* tensor) {
  return call.run.recorder().types().element(*tensor);
}

std::optional<Items> item_of_tensor(const Call& call) {
  aten::Value* self = call.input(0).tensor();
  if (!self) return std::nullopt;
  if (const auto known = known_element(call, self))
    return one(self->type.dtype == DType::boolean ? c10::IValue(*known != 0) : c10::IValue(*known));
  return one(call.run.record_number("aten::item", {self}));
}

std::optional<Items> tensor_to_int(const Call& call) {
  aten::Value* self = call.input(0).tensor();
  if (!self) return std::nullopt;
  if (onnx_native::is_floating(type_with_dtype(call, self).dtype)) {
    const Item number = item_of_tensor(call)->front();
    return one(call.run.record_number("python::trunc", {call.run.argument(number)}));
  }
  if (self->type.dtype == DType::boolean)
    self = call.run.record_one("aten::to.dtype", {self, DType::i64}).tensor();
  return one(call.run.record_number("aten::item", {self}));
}

std::optional<Items> tensor_to_float(const Call& call) {
  aten::Value* self = call.input(0).tensor();
  if (!self) return std::nullopt;
  if (onnx_native::is_floating(type_with_dtype(call, self).dtype)) return item_of_tensor(call);
  const Item number = call.run.record_number("aten::item", {self});
  return one(call.run.record_number("python::sym_float", {call.run.argument(number)}));
}

std::optional<Items> tensor_to_bool(const Call& call) {
  aten::Value* self = call.input(0).tensor();
  if (!self) return std::nullopt;
  if (const auto known = known_element(call, self)) return one(c10::IValue(*known != 0));
  if (type_with_dtype(call, self).dtype != DType::boolean)
    self = call.run.record_one("aten::ne.Scalar", {self, int64_t{0}}).tensor();
  return one(call.run.record_number("aten::item", {self}));
}

// --- Tensors from numbers

DType dtype_argument(const Call& call, const Item& item, DType otherwise) {
  if (item.is_none()) return otherwise;
  const auto number = item.integer();
  if (!number) call.run.unsupported("the dtype must be a constant");
  const auto dtype = aten::to_dtype(static_cast<c10::ScalarType>(*number));
  if (!dtype) call.run.unsupported("ONNX has no element type for this dtype");
  return *dtype;
}

bool is_complex_number(const Item& item) {
  const auto* value = item.get<c10::IValue>();
  return value && value->isComplexDouble();
}

DType column_dtype(const OpenList::Column& column) {
  const DType dtype = column.values->type.dtype;
  return is_floating(dtype) ? aten::default_dtype() : dtype;
}

DType number_dtype(const Item& item) {
  if (const Container* list = item.container()) {
    if (const OpenList* open = list->contents.open.get()) return column_dtype(open->columns.at(0));
    DType dtype = list->items().empty() ? aten::default_dtype() : DType::boolean;
    for (const Item& element : list->items()) {
      const DType inner = number_dtype(element);
      if (is_floating(inner) || is_complex(inner) ||
          (inner == DType::i64 && dtype == DType::boolean))
        dtype = inner;
    }
    return dtype;
  }
  if (item.tensor()) return item.tensor()->type.dtype;
  if (item.get<Dim>()) return DType::i64;
  if (item.boolean()) return DType::boolean;
  if (is_complex_number(item)) return onnx_native::complex_dtype(aten::default_dtype());
  if (item.number() && item.number()->type.kind == Type::Kind::sym_bool) return DType::boolean;
  return aten::default_dtype();
}

Argument tensor_of(const Call& call, const Item& item, DType dtype) {
  if (const Container* list = item.container()) {
    if (list->contents.open)
      return call.run.record_one("aten::to.dtype", {table(call.run, *list->contents.open), dtype})
          .tensor();
    Argument::List elements;
    for (const Item& inner : list->items()) elements.push_back(tensor_of(call, inner, dtype));
    return call.run.record_one("aten::stack", {std::move(elements), int64_t{0}}).tensor();
  }
  if (item.tensor()) return call.run.record_one("aten::to.dtype", {item.tensor(), dtype}).tensor();
  return call.run.record_one("aten::scalar_tensor", {call.run.argument(item), dtype}).tensor();
}

using Numbers = std::vector<onnx_native::Scalar>;

onnx_native::Scalar number_of(const Call& call, const Item& item) {
  if (const auto truth = item.boolean()) return *truth;
  if (const auto integer = item.integer()) return *integer;
  if (const auto number = item.floating()) return *number;
  if (is_complex_number(item)) {
    const c10::complex<double> number = item.get<c10::IValue>()->toComplexDouble();
    return std::complex<double>(number.real(), number.imag());
  }
  call.run.unsupported("cannot make a tensor of these elements");
}

void flatten_numbers(const Call& call, const Item& item, Numbers& numbers) {
  if (const Container* list = item.container()) {
    for (const Item& inner : list->items()) flatten_numbers(call, inner, numbers);
  } else {
    numbers.push_back(number_of(call, item));
  }
}

// Returns a constant of a real dtype; integers are truncated, like in eager.
aten::Value* constant_of(const Call& call, DType dtype, const std::vector<int64_t>& shape,
                         const Numbers& numbers) {
  TensorData data;
  if (is_floating(dtype)) {
    std::vector<double> values;
    for (const onnx_native::Scalar& number : numbers) values.push_back(number.to_double());
    data = make_tensor(dtype, shape, std::span<const double>(values));
  } else {
    std::vector<int64_t> values;
    for (const onnx_native::Scalar& number : numbers)
      values.push_back(dtype == DType::boolean ? number.to_double() != 0
                                               : wrapped(number.to_int(), dtype));
    data = make_tensor(dtype, shape, std::span<const int64_t>(values));
  }
  return call.run.recorder().add_constant("lifted_tensor", std::move(data));
}

Argument complex_constant(const Call& call, DType dtype, const std::vector<int64_t>& shape,
                          const Numbers& numbers) {
  Numbers real, imaginary;
  for (const onnx_native::Scalar& number : numbers) {
    const auto* both = std::get_if<std::complex<double>>(&number.value);
    real.emplace_back(number.to_double());
    imaginary.emplace_back(both ? both->imag() : 0.0);
  }
  const DType part = real_dtype(dtype);
  return call.run
      .record_one("aten::complex",
                  {constant_of(call, part, shape, real), constant_of(call, part, shape, imaginary)})
      .tensor();
}

// torch.tensor(data, dtype, device, requires_grad)
std::optional<Items> new_tensor(const Call& call) {
  const Item& data = call.input(0);
  const DType dtype =
      dtype_argument(call, call.size() > 1 ? call.input(1) : Item::none(), number_dtype(data));
  if (!is_known(data)) {
    return one(Item::Tensor{tensor_of(call, data, dtype).as_value()});
  }
  std::vector<int64_t> shape;
  for (const Item* at = &data; const Container* list = at->container();) {
    shape.push_back(static_cast<int64_t>(list->items().size()));
    if (list->items().empty()) break;
    at = &list->items()[0];
  }
  Numbers numbers;
  flatten_numbers(call, data, numbers);
  if (onnx_native::is_complex(dtype))
    return one(Item::Tensor{complex_constant(call, dtype, shape, numbers).as_value()});
  if (std::ranges::any_of(numbers, &onnx_native::Scalar::is_complex))
    call.run.unsupported("a complex number has no value of a real dtype");
  aten::Value* value = constant_of(call, dtype, shape, numbers);
  return one(call.run.record_one("aten::lift_fresh_copy", {value}));
}

// torch.as_tensor(data, dtype, device)
std::optional<Items> as_tensor(const Call& call) {
  if (!call.input(0).tensor()) return new_tensor(call);
  if (call.size() < 2 || call.input(1).is_none()) return one(call.input(0));
  const DType dtype = dtype_argument(call, call.input(1), DType::undefined);
  return one(call.run.record_one("aten::to.dtype", {call.input(0).tensor(), dtype}));
}

// A number of a trace. Floats are doubles.
std::optional<Items> number_to_tensor(const Call& call) {
  const Item& number = call.input(0);
  if (number.tensor()) return one(number);
  const DType dtype = number_dtype(number);
  return one(
      Item::Tensor{tensor_of(call, number, is_floating(dtype) ? DType::f64 : dtype).as_value()});
}

// TorchScript's own overloads of x.to(...), "prim_*". The device is ignored; the dtype is optional.
std::optional<Items> convert(const Call& call) {
  const c10::FunctionSchema* schema = call.schema();
  if (!schema || !call.input(0).tensor()) return std::nullopt;
  const std::string& overload = schema->overload_name();
  if (!overload.starts_with("prim_")) return std::nullopt;
  if (overload == "prim_other")
    call.run.unsupported("TorchScript converts the tensor to uint8 here; name the dtype");
  Item result = call.input(0);
  const std::optional<int> dtype = schema->argumentIndexWithName("dtype");
  if (dtype && !call.input(*dtype).is_none()) {
    result = call.run.record_one(
        "aten::to.dtype",
        {result.tensor(), dtype_argument(call, call.input(*dtype), result.tensor()->type.dtype)});
  }
  const std::optional<int> copy = schema->argumentIndexWithName("copy");
  if (copy && call.input(*copy).boolean() != false)
    result = call.run.record_one("aten::clone", {result.tensor(), aten::Argument()});
  return one(std::move(result));
}

// x.cpu(), x.cuda(): a model has one device.
std::optional<Items> itself(const Call& call) { return one(call.input(0)); }

}  // namespace

void add_tensor_handlers(Handlers& handlers) {
  handlers["aten::size"].push_back(size);
  handlers["prim::shape"].push_back(size);
  handlers["aten::dim"].push_back(rank);
  handlers["prim::dim"].push_back(rank);
  handlers["aten::len"].push_back(tensor_length);
  handlers["aten::numel"].push_back(element_count);
  handlers["prim::numel"].push_back(element_count);
  handlers["prim::dtype"].push_back(dtype);
  handlers["prim::device"].push_back(device);
  handlers["prim::layout"].push_back(layout);
  handlers["aten::is_floating_point"].push_back(is_floating_point);
  handlers["aten::is_complex"].push_back(is_complex_tensor);
  handlers["aten::element_size"].push_back(element_size);
  handlers["prim::itemsize"].push_back(element_size);
  handlers["aten::item"].push_back(item_of_tensor);
  handlers["aten::ScalarImplicit"].push_back(item_of_tensor);
  handlers["aten::Int"].push_back(tensor_to_int);
  handlers["aten::IntImplicit"].push_back(tensor_to_int);
  handlers["aten::Float"].push_back(tensor_to_float);
  handlers["aten::FloatImplicit"].push_back(tensor_to_float);
  handlers["aten::Bool"].push_back(tensor_to_bool);
  handlers["aten::tensor"].push_back(new_tensor);
  handlers["aten::as_tensor"].push_back(as_tensor);
  handlers["prim::NumToTensor"].push_back(number_to_tensor);
  handlers["aten::to"].push_back(convert);
  handlers["aten::cpu"].push_back(itself);
  handlers["aten::cuda"].push_back(itself);
}

}  // namespace onnx_native::readers::jit
