// x.tolist()
#include <ATen/core/jit_type.h>

#include "readers/jit/open_list.h"

namespace onnx_native::readers::jit {
namespace {

using aten::Type;
using Column = OpenList::Column;

struct Annotation {
  size_t rank = 0;
  c10::TypeKind element;
};

Annotation annotation(const c10::TypePtr& type) {
  Annotation result{.element = type->kind()};
  for (c10::TypePtr at = type; const auto list = at->cast<c10::ListType>(); ++result.rank) {
    at = list->getElementType();
    result.element = at->kind();
  }
  return result;
}

aten::Value* part(const Call& call, aten::Value* values, int64_t axis, int64_t index) {
  return call.run.record_tensor("aten::select.int", {values, axis, index});
}

Item number_in(const Call& call, aten::Value* value) {
  const std::optional<double> known = call.run.recorder().types().element(*value);
  if (!known) return call.run.record_number("aten::item", {value});
  return value->type.dtype == DType::boolean ? c10::IValue(*known != 0) : c10::IValue(*known);
}

Column column_of(aten::Value* values) {
  Column column{.type = {}, .values = values};
  switch (values->type.dtype) {
    case DType::boolean:
      column.type.kind = Type::Kind::sym_bool;
      break;
    case DType::i64:
      column.type = Type::sym_int(Dim::fresh(DimRange::integer()));
      break;
    default:
      column.type.kind = Type::Kind::sym_float;
  }
  return column;
}

// Returns the structure of each element of a list whose rows are on axis 0. Appends a column for
// each number in it.
Item row_of(const Call& call, aten::Value* values, const c10::TypePtr& type,
            std::vector<Column>& columns) {
  const Shape& shape = values->type.shape.value();
  if (shape.size() == 1) {
    columns.push_back(column_of(values));
    return {};
  }
  const std::optional<int64_t> width = shape[1].constant();
  if (!width || *width == 0)
    call.run.unsupported(
        "cannot export tolist() of a tensor with more than one dynamic size, or with a dynamic "
        "size before a size of 0");
  check_length(static_cast<size_t>(*width));
  Items items;
  for (int64_t i = 0; i < *width; ++i)
    items.push_back(row_of(call, part(call, values, 1, i), type->containedType(0), columns));
  return make_container(Container::Kind::list, std::move(items), type);
}

Item list_of(const Call& call, aten::Value* values, const c10::TypePtr& type) {
  const Shape& shape = values->type.shape.value();
  if (shape.empty()) return number_in(call, values);
  const c10::TypePtr element = type->containedType(0);
  ContainerPtr result = make_container(Container::Kind::list, {}, type);
  if (const std::optional<int64_t> length = shape[0].constant()) {
    check_length(static_cast<size_t>(*length));
    for (int64_t i = 0; i < *length; ++i)
      result->items().push_back(list_of(call, part(call, values, 0, i), element));
    return result;
  }
  OpenList list;
  list.element = row_of(call, values, element, list.columns);
  result->contents.open = std::make_shared<const OpenList>(std::move(list));
  return result;
}

std::optional<Items> to_list(const Call& call) {
  aten::Value* self = call.input(0).tensor();
  if (!self) return std::nullopt;
  if (!self->type.shape)
    call.run.unsupported(
        concat("cannot export tolist() of %", self->name, ": its rank is unknown"));
  const Annotation wanted = annotation(call.output_type());
  const DType dtype = self->type.dtype;
  const bool fits = wanted.element == c10::TypeKind::FloatType ? is_floating(dtype)
                    : wanted.element == c10::TypeKind::IntType ? dtype == DType::i64
                                                               : dtype == DType::boolean;
  if (wanted.rank != self->type.shape->size() || !fits)
    fail(ErrorKind::invalid_program, "tolist() of ", name(dtype), " of rank ",
         self->type.shape->size(), " does not give a ", call.output_type()->annotation_str());
  // The list has the elements from before later writes to the tensor, and floats are doubles.
  aten::Value* values = is_floating(dtype) && dtype != DType::f64
                            ? call.run.record_tensor("aten::to.dtype", {self, DType::f64})
                            : call.run.record_tensor("aten::clone", {self});
  return one(list_of(call, values, call.output_type()));
}

}  // namespace

void add_to_list_handlers(Handlers& handlers) { handlers["prim::tolist"].push_back(to_list); }

}  // namespace onnx_native::readers::jit
