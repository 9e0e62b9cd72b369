// Comparisons, logic, bit operations, and selection between tensors.

#include <cmath>
#include <string_view>
#include <unordered_set>

#include "base/weight.h"
#include "ops/families.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {
namespace {

using Comparison = Value (*)(Builder&, Value, Value);

void register_comparisons(OpTable& ops) {
  const auto compare = [&](const std::string& name, const std::string& alias, Comparison function) {
    for (const std::string overload : {".Tensor", ".Scalar"}) {
      ops.def("aten::" + name + overload, Promote::standard, function);
      ops.alias("aten::" + alias + overload, "aten::" + name + overload);
    }
  };
  compare("ne", "not_equal", not_equal);
  compare("lt", "less", less);
  compare("le", "less_equal", less_or_equal);
  compare("gt", "greater",
          [](Builder& b, Value self, Value other) { return less(b, other, self); });
  compare("ge", "greater_equal",
          [](Builder& b, Value self, Value other) { return less_or_equal(b, other, self); });
  ops.binary("aten::eq.Tensor", "Equal");
  ops.binary("aten::eq.Scalar", "Equal");
}

void register_logical(OpTable& ops) {
  const auto logical = [](const char* onnx_op) {
    return [onnx_op](Builder& b, Value self, Value other) {
      return b.op(onnx_op, {b.cast(self, DType::boolean), b.cast(other, DType::boolean)});
    };
  };
  ops.def("aten::logical_and", logical("And"));
  ops.def("aten::logical_or", logical("Or"));
  ops.def("aten::logical_xor", logical("Xor"));
  ops.def("aten::logical_not",
          [](Builder& b, Value self) { return b.Not(b.cast(self, DType::boolean)); });
}

enum class Direction { left, right };

// ONNX shifts only unsigned integers. A negative shift, or one by all bits, shifts everything out.
Value shift(Builder& b, Value self, Value other, Direction direction) {
  const DType dtype = self->dtype;
  const int64_t bits = 8 * item_size(dtype);
  const auto raw = [&](Value x, Value by) {
    const char* name = direction == Direction::left ? "LEFT" : "RIGHT";
    const Value shifted =
        b.op("BitShift", {b.cast(x, DType::u64), b.cast(by, DType::u64)}, {{"direction", name}});
    return b.cast(shifted, DType::i64);
  };
  const Value x = b.cast(self, DType::i64);
  const Value by = b.cast(other, DType::i64);
  const Value out = b.Or(b.Less(by, b.i64(0)), b.GreaterOrEqual(by, b.i64(bits)));
  if (direction == Direction::left) {
    const Value shifted = raw(x, b.where(out, b.i64(0), by));
    return b.cast(b.where(out, b.i64(0), shifted), dtype);
  }
  const Value steps = b.where(out, b.i64(bits - 1), by);
  if (!is_signed(dtype)) return b.cast(b.where(out, b.i64(0), raw(x, steps)), dtype);
  // ~(~x >> n) shifts in ones from the left.
  const Value negative = b.Less(x, b.i64(0));
  const auto flip = [&](Value v) { return b.where(negative, b.Sub(b.i64(-1), v), v); };
  return b.cast(flip(raw(flip(x), steps)), dtype);
}

// PyTorch's meta kernels accept floating-point numbers here, its other kernels do not.
void check_bits(const Builder& b, Value self) {
  b.check(!is_floating(self->dtype), "a bitwise operator takes integers or bools, not ",
          name(self->dtype));
}

// BitwiseNot is new in opset 18. The arithmetic works at all opsets.
Value bitwise_not(Builder& b, Value self) {
  check_bits(b, self);
  const DType dtype = self->dtype;
  if (dtype == DType::boolean) return b.Not(self);
  if (b.model().final_opset.value_or(b.opset()) >= 18) return b.op("BitwiseNot", {self});
  const int64_t bits = 8 * item_size(dtype);
  const int64_t ones = is_signed(dtype) || bits == 64 ? -1 : (int64_t{1} << bits) - 1;
  return b.cast(b.Sub(b.i64(ones), b.cast(self, DType::i64)), dtype);
}

void register_bitwise(OpTable& ops) {
  const auto bitwise = [&](const std::string& name, const char* logical, const char* onnx_op) {
    const auto lowering = [logical, onnx_op](Builder& b, Value self, Value other) {
      check_bits(b, self);
      return b.op(self->dtype == DType::boolean ? logical : onnx_op, {self, other});
    };
    for (const char* overload : {".Tensor", ".Scalar", ".Scalar_Tensor"}) {
      ops.def("aten::bitwise_" + name + overload, Promote::standard, lowering);
    }
    for (const char* overload : {".Tensor", ".Scalar"}) {
      ops.def("aten::__" + name + "__" + overload, Promote::standard, lowering);
    }
  };
  bitwise("and", "And", "BitwiseAnd");
  bitwise("or", "Or", "BitwiseOr");
  bitwise("xor", "Xor", "BitwiseXor");
  ops.def("aten::bitwise_not", bitwise_not);
  ops.def({"aten::bitwise_left_shift.Tensor", "aten::bitwise_left_shift.Tensor_Scalar",
           "aten::bitwise_left_shift.Scalar_Tensor", "aten::__lshift__.Tensor",
           "aten::__lshift__.Scalar"},
          Promote::standard, [](Builder& b, Value self, Value other) {
            return shift(b, self, other, Direction::left);
          });
  ops.def({"aten::bitwise_right_shift.Tensor", "aten::bitwise_right_shift.Tensor_Scalar",
           "aten::bitwise_right_shift.Scalar_Tensor", "aten::__rshift__.Tensor",
           "aten::__rshift__.Scalar"},
          Promote::standard, [](Builder& b, Value self, Value other) {
            return shift(b, self, other, Direction::right);
          });
}

bool has_no_negative_zero(const TensorData& data) {
  constexpr int64_t kMost = 4096;
  int64_t count = 1;
  for (const int64_t size : data.shape) count *= size;
  if (count > kMost) return false;
  for (int64_t i = 0; i < count; ++i) {
    const double number = data.number(i);
    if (number == 0 && std::signbit(number)) return false;
  }
  return true;
}

// Returns true if no element can be -0.0: the tensor consists of constants or integers.
bool has_no_negative_zero(const onnx::Value* x) {
  if (!is_floating(x->dtype)) return true;
  if (has_elements(x->constant)) return has_no_negative_zero(*x->constant);
  static const std::unordered_set<std::string_view> kKeep = {"Expand",  "Gather",    "Identity",
                                                             "Reshape", "Slice",     "Squeeze",
                                                             "Tile",    "Transpose", "Unsqueeze"};
  const onnx::Node* producer = x->producer;
  if (!producer) return false;
  if (producer->op_type == "Cast") return !is_floating(producer->inputs[0]->dtype);
  if (producer->op_type == "ConstantOfShape") {
    const auto* value = producer->attribute("value");
    const auto* data = value ? std::get_if<std::shared_ptr<TensorData>>(value) : nullptr;
    return !data || has_no_negative_zero(**data);
  }
  return kKeep.contains(producer->op_type) && has_no_negative_zero(producer->inputs[0]);
}

// ONNX Runtime's Where drops the sign of a zero in its second input but keeps it in its third.
Value chosen(Builder& b, Value condition, Value x, Value y) {
  const bool swapped = !has_no_negative_zero(x) && has_no_negative_zero(y);
  return swapped ? b.where(b.Not(condition), y, x) : b.where(condition, x, y);
}

void register_choices(OpTable& ops) {
  // The condition does not take part in promotion.
  ops.def({"aten::where.self", "aten::where.ScalarOther", "aten::where.ScalarSelf",
           "aten::where.Scalar"},
          [](Builder& b, Value condition, Ignored, Ignored, const Call& call) {
            const DType dtype = call.result_type_of({1, 2});
            return chosen(b, b.cast(condition, DType::boolean), argument_as(call, 1, dtype),
                          argument_as(call, 2, dtype));
          });
  ops.def({"aten::masked_fill.Scalar", "aten::masked_fill.Tensor"},
          [](Builder& b, Value self, Value mask, Ignored, const Call& call) {
            return chosen(b, b.cast(mask, DType::boolean), argument_as(call, 2, self->dtype), self);
          });
  ops.def({"aten::clamp", "aten::clip", "aten::clamp.Tensor", "aten::clip.Tensor"},
          Promote::standard,
          [](Builder& b, Value self, std::optional<Value> min, std::optional<Value> max) {
            return clamped(b, self, min, max);
          });
  ops.def({"aten::clamp_min", "aten::clamp_min.Tensor"}, Promote::standard,
          [](Builder& b, Value self, Value min) { return clamped(b, self, min, std::nullopt); });
  ops.def({"aten::clamp_max", "aten::clamp_max.Tensor"}, Promote::standard,
          [](Builder& b, Value self, Value max) { return clamped(b, self, std::nullopt, max); });
}

}  // namespace

void register_logic(OpTable& ops) {
  register_comparisons(ops);
  register_logical(ops);
  register_bitwise(ops);
  register_choices(ops);
}

}  // namespace onnx_native::ops
