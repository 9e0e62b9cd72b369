#include "aten/result_type.h"

#include <ATen/native/TypeProperties.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "aten/torch_types.h"

namespace onnx_native::aten {
namespace {

// `undefined` stands for an absent operand.
const std::vector<DType> kTensors = {DType::undefined, DType::boolean, DType::u8,  DType::i8,
                                     DType::i32,       DType::i64,     DType::f16, DType::bf16,
                                     DType::f32,       DType::f64,     DType::c64, DType::c128};
const std::vector<DType> kNumbers = {DType::undefined, DType::boolean, DType::i64, DType::f32,
                                     DType::c64};

at::Tensor tensor(DType dtype, at::IntArrayRef shape) {
  return at::ones(shape, to_scalar_type(dtype));
}

std::optional<DType> eager(DType dimensioned, DType zero_dim, DType number) {
  at::native::ResultTypeState state;
  if (dimensioned != DType::undefined)
    state = at::native::update_result_type_state(tensor(dimensioned, {1}), state);
  if (zero_dim != DType::undefined)
    state = at::native::update_result_type_state(tensor(zero_dim, {}), state);
  if (number != DType::undefined) {
    const at::Tensor wrapped = tensor(number, {});
    wrapped.unsafeGetTensorImpl()->set_wrapped_number(true);
    state = at::native::update_result_type_state(wrapped, state);
  }
  return to_dtype(at::native::result_type(state));
}

TEST(ResultType, EqualsEager) {
  for (const DType dimensioned : kTensors) {
    for (const DType zero_dim : kTensors) {
      for (const DType number : kNumbers) {
        ResultType result;
        if (dimensioned != DType::undefined) result.add_tensor(dimensioned, true);
        if (zero_dim != DType::undefined) result.add_tensor(zero_dim, false);
        if (number != DType::undefined) result.add_number(number);
        const std::string operands = std::string(name(dimensioned)) + ", " +
                                     std::string(name(zero_dim)) + ", " + std::string(name(number));
        const std::optional<DType> expected = eager(dimensioned, zero_dim, number);
        if (expected || result.get() == DType::undefined) {
          EXPECT_EQ(result.get(), expected.value_or(DType::undefined)) << operands;
        } else {
          // PyTorch 2.15 promotes bfloat16 and complex numbers to a 16-bit complex dtype, which
          // ONNX does not have.
          EXPECT_TRUE(dimensioned == DType::bf16 || zero_dim == DType::bf16) << operands;
          EXPECT_TRUE(is_complex(result.get())) << operands;
        }
      }
    }
  }
}

TEST(ResultType, TensorsOfOneKindPromote) {
  ResultType result;
  EXPECT_EQ(result.get(), DType::undefined);
  result.add_tensor(DType::i8, true);
  result.add_tensor(DType::u8, true);
  EXPECT_EQ(result.get(), DType::i16);
  result.add_tensor(DType::f64, false);
  EXPECT_EQ(result.get(), DType::f64);
}

}  // namespace
}  // namespace onnx_native::aten
