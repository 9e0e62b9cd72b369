#include "onnx/schema.h"

#include <gtest/gtest.h>

namespace onnx_native::onnx {
namespace {

TEST(Schema, FindsTheNewestVersionThatTheOpsetHas) {
  ASSERT_NE(find_schema("Reshape", 20), nullptr);
  EXPECT_EQ(find_schema("Reshape", 20)->since_version, 19);
  EXPECT_EQ(find_schema("Reshape", 18)->since_version, 14);
  EXPECT_EQ(find_schema("Gelu", 19), nullptr);
  EXPECT_EQ(find_schema("Gelu", 20)->since_version, 20);
  EXPECT_EQ(find_schema("NoSuchOperator", 20), nullptr);
  EXPECT_EQ(find_schema("", 20), nullptr);
  EXPECT_EQ(find_schema("Abs", 20)->op_type, "Abs");
  EXPECT_EQ(find_schema("Xor", newest_opset())->op_type, "Xor");
  EXPECT_GE(newest_opset(), 24);
}

TEST(Schema, KnowsParametersAndAttributes) {
  const OpSchema* gemm = find_schema("Gemm", 13);
  ASSERT_NE(gemm, nullptr);
  EXPECT_EQ(gemm->min_inputs, 2);
  EXPECT_EQ(gemm->max_inputs, 3);
  ASSERT_EQ(gemm->inputs.size(), 3u);
  EXPECT_EQ(gemm->inputs[2].option, SchemaParameter::Option::optional);
  EXPECT_EQ(gemm->inputs[0].type_parameter, "T");
  EXPECT_TRUE(gemm->allows(0, DType::f32));
  EXPECT_FALSE(gemm->allows(0, DType::boolean));
  EXPECT_FALSE(gemm->allows(3, DType::f32));
  ASSERT_EQ(gemm->attributes.size(), 4u);
  EXPECT_EQ(gemm->attributes[0].name, "alpha");
  EXPECT_EQ(gemm->attributes[0].kind, AttributeKind::floating);
  EXPECT_TRUE(find_schema("Concat", 20)->allows(7, DType::i64));
  EXPECT_TRUE(find_schema("Concat", 20)->attributes[0].required);
}

}  // namespace
}  // namespace onnx_native::onnx
