#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class OlderOpsetTest : public PassTest {
 protected:
  // Converts the model to `opset` and returns the nodes of the main graph as text.
  std::string in(int64_t opset) {
    model_.opset = 18;
    onnx::verify(model_, "building the test");
    express_in_opset(model_, opset);
    EXPECT_EQ(model_.opset, opset);
    onnx::verify(model_, "the pass");
    return nodes();
  }
  std::string error(int64_t opset) {
    try {
      in(opset);
    } catch (const ExportError& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported);
      return error.what();
    }
    return "no error";
  }
};

TEST_F(OlderOpsetTest, AxesBecomeAttributes) {
  Value* x = input("x", {batch_, 4});
  Value* sum = op("ReduceMax", {x, ints({1})}, {batch_}, {{"keepdims", int64_t{0}}});
  result(op("Unsqueeze", {sum, ints({0})}, {1, batch_}), "y");
  const std::string text = in(12);
  EXPECT_NE(text.find("ReduceMax <keepdims: int = 0, axes: ints = [1]> (x)"), std::string::npos)
      << text;
  EXPECT_NE(text.find("Unsqueeze <axes: ints = [0]>"), std::string::npos) << text;
}

TEST_F(OlderOpsetTest, AxesStayInputsWhereTheOpsetHasThem) {
  Value* x = input("x", {batch_, 4});
  result(op("ReduceSum", {x, ints({1})}, {batch_, 1}), "y");
  EXPECT_EQ(in(13).find("axes:"), std::string::npos);
}

TEST_F(OlderOpsetTest, LayerNormalizationIsComposed) {
  Value* x = input("x", {batch_, 4});
  result(op("LayerNormalization", {x, weight("w", {4}), weight("b", {4})}, {batch_, 4}), "y");
  const std::string text = in(16);
  EXPECT_EQ(text.find("LayerNormalization"), std::string::npos) << text;
  EXPECT_NE(text.find("ReduceMean <keepdims"), std::string::npos) << text;
  EXPECT_NE(text.find("y = Add"), std::string::npos) << text;
}

TEST_F(OlderOpsetTest, ScatteredSumsAreReducedUnderAMask) {
  Value* x = input("x", {4});
  Value* places = input("places", {batch_}, DType::i64);
  Value* updates = input("updates", {batch_});
  result(op("ScatterElements", {x, places, updates}, {4}, {{"reduction", std::string("add")}}),
         "y");
  const std::string text = in(15);
  EXPECT_EQ(text.find("ScatterElements"), std::string::npos) << text;
  EXPECT_NE(text.find("ReduceSum"), std::string::npos) << text;
}

TEST_F(OlderOpsetTest, ScatteredSumsStayWhereTheOpsetHasThem) {
  Value* x = input("x", {4});
  Value* places = input("places", {batch_, 1}, DType::i64);
  Value* updates = input("updates", {batch_});
  result(op("ScatterND", {x, places, updates}, {4}, {{"reduction", std::string("add")}}), "y");
  EXPECT_NE(in(16).find("y = ScatterND"), std::string::npos);
}

TEST_F(OlderOpsetTest, SumsScatteredInSeveralAxesNeedANewerOpset) {
  const std::vector<Dim> shape{2, 4};
  Value* places = input("places", shape, DType::i64);
  result(op("ScatterElements", {input("x", shape), places, input("updates", shape)}, shape,
            {{"reduction", std::string("add")}}),
         "y");
  EXPECT_NE(error(15).find("has no reduction add"), std::string::npos);
}

TEST_F(OlderOpsetTest, SoftmaxMovesItsAxisToTheEnd) {
  Value* x = input("x", {batch_, 3, 4});
  result(op("Softmax", {x}, {batch_, 3, 4}, {{"axis", int64_t{1}}}), "y");
  const std::string text = in(12);
  EXPECT_NE(text.find("Softmax <axis: int = 2>"), std::string::npos) << text;
  EXPECT_NE(text.find("y = Transpose"), std::string::npos) << text;
}

TEST_F(OlderOpsetTest, ShapeOfSomeAxesIsSliced) {
  Value* x = input("x", {batch_, 4});
  result(op("Shape", {x}, {1}, {{"start", int64_t{0}}, {"end", int64_t{1}}}, DType::i64), "y");
  const std::string text = in(14);
  EXPECT_NE(text.find("Shape (x)"), std::string::npos) << text;
  EXPECT_NE(text.find("y = Slice"), std::string::npos) << text;
}

TEST_F(OlderOpsetTest, ComparisonsAreTwoAtOpset11) {
  Value* x = input("x", {batch_, 4});
  result(op("GreaterOrEqual", {x, number(0)}, {batch_, 4}, {}, DType::boolean), "y");
  EXPECT_NE(in(12).find("GreaterOrEqual"), std::string::npos);
  model_.opset = 18;
  const std::string text = in(11);
  EXPECT_EQ(text.find("GreaterOrEqual"), std::string::npos) << text;
  EXPECT_NE(text.find("Greater (x"), std::string::npos) << text;
  EXPECT_NE(text.find("y = Or"), std::string::npos) << text;
}

TEST_F(OlderOpsetTest, ExtremaOfIntegersAreSelectedAtOpset11) {
  Value* x = input("x", {batch_, 4}, DType::i8);
  Value* y = input("y", {batch_, 4}, DType::i8);
  result(op("Max", {x, y}, {batch_, 4}, {}, DType::i8), "z");
  const std::string text = in(11);
  EXPECT_EQ(text.find("Max"), std::string::npos) << text;
  EXPECT_NE(text.find("Where"), std::string::npos) << text;
  EXPECT_NE(text.find("z = Cast"), std::string::npos) << text;
}

TEST_F(OlderOpsetTest, ExtremaOfFloatsStayAtOpset11) {
  Value* x = input("x", {batch_, 4});
  result(op("Max", {x, number(0)}, {batch_, 4}), "y");
  EXPECT_NE(in(11).find("y = Max"), std::string::npos);
}

TEST_F(OlderOpsetTest, EinsumIsAMatrixProductAtOpset11) {
  Value* x = input("x", {batch_, 3, 4});
  Value* y = input("y", {batch_, 4, 5});
  const std::string equation = "abc,acd->abd";
  result(op("Einsum", {x, y}, {batch_, 3, 5}, {{"equation", equation}}), "z");
  const std::string text = in(11);
  EXPECT_EQ(text.find("Einsum"), std::string::npos) << text;
  EXPECT_NE(text.find("MatMul"), std::string::npos) << text;
}

TEST_F(OlderOpsetTest, CompositionsOfCompositions) {
  Value* x = input("x", {batch_, 4});
  result(op("Trilu", {x}, {batch_, 4}), "y");
  const std::string text = in(11);  // by GreaterOrEqual, which opset 11 does not have either
  EXPECT_EQ(text.find("GreaterOrEqual"), std::string::npos) << text;
  EXPECT_NE(text.find("y = Where"), std::string::npos) << text;
}

TEST_F(OlderOpsetTest, VariablePowersOfIntegersAreAnErrorAtOpset11) {
  Value* x = input("x", {batch_, 4}, DType::i64);
  result(op("Pow", {x, x}, {batch_, 4}, {}, DType::i64), "y");
  EXPECT_NE(error(11).find("Pow cannot take i64 at opset 11"), std::string::npos) << error(11);
}

TEST_F(OlderOpsetTest, WhatCannotBeExpressedIsAnErrorThatNamesTheOpset) {
  Value* x = input("x", {batch_, 4}, DType::i32);
  result(op("BitwiseAnd", {x, x}, {batch_, 4}, {}, DType::i32), "y");
  EXPECT_NE(error(17).find("ONNX has no BitwiseAnd at opset 17"), std::string::npos);
}

TEST_F(OlderOpsetTest, ADtypeThatTheOpsetLacksIsAnError) {
  Value* x = input("x", {batch_, 4}, DType::i8);
  result(op("Add", {x, x}, {batch_, 4}, {}, DType::i8), "y");
  EXPECT_NE(error(13).find("Add cannot take i8 at opset 13"), std::string::npos) << error(13);
}

}  // namespace
}  // namespace onnx_native::passes
