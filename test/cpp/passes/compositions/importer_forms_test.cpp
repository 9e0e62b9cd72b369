#include <algorithm>
#include <numbers>

#include "onnx/importers.h"
#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class ImporterFormsTest : public PassTest {
 protected:
  // Writes the model for the target at this opset; returns the nodes as text.
  std::string for_target(Target target, int64_t opset = 18) {
    model_.opset = std::max<int64_t>(opset, 18);
    model_.target = target;
    onnx::verify(model_, "building the test");
    express_in_opset(model_, opset);
    onnx::verify(model_, "the pass");
    return nodes();
  }
};

TEST_F(ImporterFormsTest, OpenCvAddsOneAxisAtATime) {
  result(op("Unsqueeze", {input("x", {batch_, 4}), ints({-1, 0})}, {1, batch_, 4, 1}), "y");
  const std::string text = for_target(Target::opencv);
  EXPECT_NE(text.find("y = Unsqueeze (_0"), std::string::npos) << text;
  EXPECT_EQ(constant_input(graph_.outputs[0], 1), (Ints{3}));
}

TEST_F(ImporterFormsTest, OpenCvGetsClipForHardSigmoid) {
  result(op("HardSigmoid", {input("x", {batch_, 4})}, {batch_, 4}), "y");
  const std::string text = for_target(Target::opencv);
  EXPECT_EQ(text.find("HardSigmoid"), std::string::npos) << text;
  EXPECT_NE(text.find("y = Clip"), std::string::npos) << text;
}

TEST_F(ImporterFormsTest, OpenCvGetsTheHalfOfGeluLast) {
  const std::vector<Dim> shape{batch_, 4};
  Value* x = input("x", shape);
  Value* erf = op("Erf", {op("Div", {x, number(std::numbers::sqrt2)}, shape)}, shape);
  Value* half = op("Mul", {x, number(0.5)}, shape);
  result(op("Mul", {half, op("Add", {erf, number(1)}, shape)}, shape), "y");
  const std::string text = for_target(Target::opencv);
  const onnx::Node* last = graph_.outputs[0]->producer;
  EXPECT_EQ(last->inputs[1]->constant->number(0), 0.5) << text;
  EXPECT_EQ(last->inputs[0]->producer->inputs[0], x) << text;
  EXPECT_EQ(for_target(Target::opencv), text);
}

TEST_F(ImporterFormsTest, OpenCvScattersNoMoreElementsThanThereAre) {
  const std::vector<onnx::Attribute> adds{{"reduction", std::string("add")}};
  const auto scattered = [&](std::string_view name, const Dim& count) {
    Value* places = input(std::string(name) + "_places", {count}, DType::i64);
    Value* updates = input(std::string(name) + "_updates", {count});
    result(
        op("ScatterElements", {weight(std::string(name) + "_w", {4}), places, updates}, {4}, adds),
        name);
  };
  scattered("few", 3);
  scattered("many", 5);
  scattered("some", batch_);
  const std::string text = for_target(Target::opencv);
  EXPECT_NE(text.find("few = ScatterElements"), std::string::npos) << text;
  EXPECT_NE(text.find("many = Add"), std::string::npos) << text;
  EXPECT_NE(text.find("some = Add"), std::string::npos) << text;
}

TEST_F(ImporterFormsTest, OpenCvNormalizesImages) {
  Value* x = input("x", {batch_, 4, seq_});
  result(op("InstanceNormalization", {x, weight("w", {4}), weight("b", {4})}, {batch_, 4, seq_}),
         "y");
  const std::string text = for_target(Target::opencv);
  EXPECT_NE(text.find("y = Squeeze"), std::string::npos) << text;
}

TEST_F(ImporterFormsTest, OpenCvGetsOtherFormsOfIntegers) {
  Value* x = input("x", {batch_, 4}, DType::i64);
  result(op("Abs", {op("Sign", {x}, {batch_, 4}, {}, DType::i64)}, {batch_, 4}, {}, DType::i64),
         "y");
  const std::string text = for_target(Target::opencv);
  EXPECT_NE(text.find("y = Max ("), std::string::npos) << text;
  EXPECT_EQ(text.find("Sign"), std::string::npos) << text;
}

TEST_F(ImporterFormsTest, OpenCvTransformsAxis1) {
  Value* x = input("x", {batch_, 4, 8, 2});
  result(op("DFT", {x, nullptr, number(2, DType::i64)}, {batch_, 4, 8, 2}), "y");
  const std::string text = for_target(Target::opencv, 20);
  EXPECT_NE(text.find("y = Transpose <perm: ints = [0, 2, 1, 3]>"), std::string::npos) << text;
}

TEST_F(ImporterFormsTest, OpenCvTakesAbsOfFloats) {
  result(op("Abs", {input("x", {batch_, 4})}, {batch_, 4}), "y");
  EXPECT_EQ(for_target(Target::opencv), "y = Abs (x)\n");
}

TEST_F(ImporterFormsTest, OpenCvPoolsVolumesByReductions) {
  Value* x = input("x", {batch_, 4, seq_, 6, 7});
  result(op("GlobalAveragePool", {x}, {batch_, 4, 1, 1, 1}), "y");
  result(op("GlobalMaxPool", {input("z", {batch_, 4, 5, 5})}, {batch_, 4, 1, 1}), "image");
  const std::string text = for_target(Target::opencv);
  EXPECT_NE(text.find("y = ReduceMean <keepdims: int = 1> (x, _0)"), std::string::npos) << text;
  EXPECT_NE(text.find("image = GlobalMaxPool (z)"), std::string::npos) << text;
  EXPECT_EQ(constant_input(graph_.outputs[0], 1), (Ints{2, 3, 4}));
}

TEST_F(ImporterFormsTest, MnnPoolsVolumesByReductions) {
  Value* x = input("x", {batch_, 4, 5, 6, 7});
  result(op("GlobalMaxPool", {x}, {batch_, 4, 1, 1, 1}), "y");
  const std::string text = for_target(Target::mnn);
  EXPECT_NE(text.find("y = ReduceMax <keepdims: int = 1> (x, _0)"), std::string::npos) << text;
}

TEST_F(ImporterFormsTest, OpenCvRepeatsASingleRow) {
  const Attributes linear{{"mode", std::string("linear")}};
  Value* pixel = input("x", {2, 4, 1, 1});
  result(op("Resize", {pixel, nullptr, nullptr, ints({2, 4, 5, 6})}, {2, 4, 5, 6}, linear), "y");
  Value* row = input("row", {2, 4, 1, 3});
  result(op("Resize", {row, nullptr, nullptr, ints({2, 4, 5, 6})}, {2, 4, 5, 6}, linear), "z");
  Value* image = input("image", {2, 4, 2, 3});
  result(op("Resize", {image, nullptr, nullptr, ints({2, 4, 5, 6})}, {2, 4, 5, 6}, linear), "w");
  const std::string text = for_target(Target::opencv);
  EXPECT_NE(text.find("y = Expand (x, _0)"), std::string::npos) << text;
  EXPECT_NE(text.find(" = Expand (row, "), std::string::npos) << text;
  EXPECT_EQ(text.find("(row, \"\", "), std::string::npos) << text;
  EXPECT_NE(text.find("(image, \"\", \"\", "), std::string::npos) << text;
}

TEST_F(ImporterFormsTest, OpenCvChoosesTheConstantsOfConvolutions) {
  Value* x = input("x", {2, 4, 8, 8});
  Value* filters = weight("filters", {4, 4, 1, 1});
  Value* table = op("Relu", {weight("table", {2, 4, 8, 8})}, {2, 4, 8, 8});
  result(op("Conv", {table, filters}, {2, 4, 8, 8}), "y");
  result(op("Conv", {x, filters}, {2, 4, 8, 8}), "z");
  const std::string text = for_target(Target::opencv);
  const onnx::Node* chosen = graph_.outputs[0]->producer->inputs[0]->producer;
  EXPECT_EQ(chosen->op_type, "Where") << text;
  EXPECT_EQ(chosen->inputs[1], table);
  EXPECT_EQ(chosen->inputs[2], table);
  EXPECT_EQ(graph_.outputs[1]->producer->inputs[0], x);
  EXPECT_EQ(for_target(Target::opencv), text);
}

TEST_F(ImporterFormsTest, MnnGetsProductsForCubics) {
  const Attributes cubic{{"mode", std::string("cubic")}};
  const auto resized = [&](std::string_view name, const Dim& rows, const Attributes& attributes) {
    Value* x = input(std::string(name) + "_x", {batch_, 3, 4, 5});
    const Values inputs{x, nullptr, nullptr, input(std::string(name) + "_sizes", {4}, DType::i64)};
    result(op("Resize", inputs, {batch_, 3, rows, 6}, attributes), name);
  };
  resized("known", 8, cubic);
  resized("unknown", seq_, cubic);
  resized("linear", 8, {{"mode", std::string("linear")}});
  resized("corners", 8,
          {cubic[0], {"coordinate_transformation_mode", std::string("align_corners")}});
  const std::string text = for_target(Target::mnn);
  EXPECT_NE(text.find("known = MatMul (_"), std::string::npos) << text;
  for (const char* kept : {"unknown = Resize", "linear = Resize", "corners = Resize"})
    EXPECT_NE(text.find(kept), std::string::npos) << text;
}

TEST_F(ImporterFormsTest, MnnGetsSumsForNorms) {
  Value* x = input("x", {batch_, 4});
  result(op("ReduceL2", {x, ints({1})}, {batch_, 1}), "y");
  const std::string text = for_target(Target::mnn);
  EXPECT_NE(text.find("y = Sqrt"), std::string::npos) << text;
}

TEST_F(ImporterFormsTest, TractComparesPositionsByEqual) {
  Value* x = input("x", {batch_, 1}, DType::i64);
  Value* y = input("y", {1, seq_}, DType::i64);
  const auto compared = [&](const char* op_type, const char* name) {
    result(op(op_type, {x, y}, {batch_, seq_}, {}, DType::boolean), name);
  };
  compared("LessOrEqual", "a");
  compared("GreaterOrEqual", "b");
  compared("Less", "c");
  compared("Greater", "d");
  EXPECT_EQ(for_target(Target::tract),
            "_0 = Min (x, y)\n"
            "a = Equal (_0, x)\n"
            "_1 = Min (x, y)\n"
            "b = Equal (_1, y)\n"
            "_2 = Min (x, y)\n"
            "_3 = Equal (_2, y)\n"
            "c = Not (_3)\n"
            "_4 = Min (x, y)\n"
            "_5 = Equal (_4, x)\n"
            "d = Not (_5)\n");
}

TEST_F(ImporterFormsTest, OldOpsetsHaveNoMinOfIntegersForTract) {
  Value* x = input("x", {batch_, 1}, DType::i64);
  Value* y = input("y", {1, seq_}, DType::i64);
  result(op("Less", {x, y}, {batch_, seq_}, {}, DType::boolean), "z");
  EXPECT_EQ(for_target(Target::tract, 11), "z = Less (x, y)\n");
}

TEST_F(ImporterFormsTest, TractTakesOtherComparisons) {
  Value* less =
      op("Less", {input("x", {batch_}), input("y", {batch_})}, {batch_}, {}, DType::boolean);
  Value* x = input("i", {4}, DType::i64);
  result(less, "z");
  result(op("Less", {x, ints({2})}, {4}, {}, DType::boolean), "w");
  const std::string text = for_target(Target::tract);
  EXPECT_NE(text.find("z = Less (x, y)"), std::string::npos) << text;
  EXPECT_NE(text.find("w = Less (i, _0)"), std::string::npos) << text;
}

TEST_F(ImporterFormsTest, FormsAreInTheOpsetToo) {
  result(op("Unsqueeze", {input("x", {batch_, 4}), ints({0, 3})}, {1, batch_, 4, 1}), "y");
  const std::string text = for_target(Target::opencv, 12);
  EXPECT_NE(text.find("y = Unsqueeze <axes: ints = [3]>"), std::string::npos) << text;
}

TEST_F(ImporterFormsTest, OtherTargetsStay) {
  Value* x = input("x", {batch_, 4});
  result(op("HardSigmoid", {x}, {batch_, 4}), "y");
  EXPECT_EQ(for_target(Target::onnx), "y = HardSigmoid (x)\n");
}

TEST_F(ImporterFormsTest, OperatorsThatAnImporterDoesNotTake) {
  Value* x = input("x", {batch_, 4});
  result(op("IsNaN", {x}, {batch_, 4}, {}, DType::boolean), "y");
  for_target(Target::mnn);
  const auto found = onnx::untaken_operators(model_);
  ASSERT_EQ(found.size(), 1);
  EXPECT_NE(found[0].find(" does not take IsNaN"), std::string::npos) << found[0];
  model_.target = Target::onnx;
  EXPECT_TRUE(onnx::untaken_operators(model_).empty());
}

}  // namespace
}  // namespace onnx_native::passes
