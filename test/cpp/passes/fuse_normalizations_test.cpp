#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class RmsNormalizationTest : public PassTest {
 protected:
  RmsNormalizationTest() { model_.opset = 23; }

  // Returns x / sqrt(mean(x * x) + epsilon) over `axis`.
  Value* normal(Value* x, Value* squares, int64_t axis = -1) {
    Shape reduced = *x->shape;
    reduced[axis < 0 ? reduced.size() - 1 : static_cast<size_t>(axis)] = 1;
    Value* mean = op("ReduceMean", {squares, ints({axis})}, reduced, {{"keepdims", 1}}, x->dtype);
    Value* shifted = op("Add", {mean, number(0.25, x->dtype)}, reduced, {}, x->dtype);
    Value* root = op("Sqrt", {shifted}, reduced, {}, x->dtype);
    inverse_ = op("Reciprocal", {root}, reduced, {}, x->dtype);
    return op("Mul", {x, inverse_}, *x->shape, {}, x->dtype);
  }
  Value* squared(Value* x) { return op("Mul", {x, x}, *x->shape, {}, x->dtype); }
  Value* half_weight() {
    return graph_.add_initializer("w", make_tensor(DType::f16, {4}, std::vector<double>(4, 0.5)));
  }

  const Shape shape_{batch_, seq_, 4};
  Value* inverse_ = nullptr;
};

constexpr const char* kFusedNormalization =
    "y = RMSNormalization <axis: int = -1, epsilon: float = 0.25> (x, w)\n";

TEST_F(RmsNormalizationTest, TheSpellingOfLlama) {
  Value* x = input("x", shape_);
  result(op("Mul", {weight("w", {4}), normal(x, squared(x))}, shape_), "y");
  EXPECT_EQ(after(fuse_rms_normalization), kFusedNormalization);
}

TEST_F(RmsNormalizationTest, APowerAndAQuotient) {
  Value* x = input("x", shape_);
  Value* square = op("Pow", {x, number(2)}, shape_);
  Value* mean = op("ReduceMean", {square, ints({2})}, {batch_, seq_, 1});
  Value* root = op("Sqrt", {op("Add", {number(0.25), mean}, {batch_, seq_, 1})}, {batch_, seq_, 1});
  result(op("Mul", {op("Div", {x, root}, shape_), weight("w", {4})}, shape_), "y");
  EXPECT_EQ(after(fuse_rms_normalization), kFusedNormalization);
}

TEST_F(RmsNormalizationTest, Float16ComputedInFloat32) {
  Value* x = input("x", shape_, DType::f16);
  Value* wide = op("Cast", {x}, shape_, {{"to", 1}});
  Value* narrow = op("Cast", {normal(wide, squared(wide))}, shape_, {{"to", 10}}, DType::f16);
  result(op("Mul", {half_weight(), narrow}, shape_, {}, DType::f16), "y");
  EXPECT_EQ(after(fuse_rms_normalization), kFusedNormalization);
}

TEST_F(RmsNormalizationTest, AWeightInFloat32KeepsTheCasts) {
  Value* x = input("x", shape_, DType::f16);
  Value* wide = op("Cast", {x}, shape_, {{"to", 1}});
  Value* scaled = op("Mul", {normal(wide, squared(wide)), weight("w", {4})}, shape_);
  result(op("Cast", {scaled}, shape_, {{"to", 10}}, DType::f16), "y");
  after(fuse_rms_normalization);
  EXPECT_TRUE(changed_);
  EXPECT_EQ(graph_.nodes.size(), 3);
}

TEST_F(RmsNormalizationTest, Float16ComputedInFloat16Stays) {
  Value* x = input("x", shape_, DType::f16);
  result(op("Mul", {half_weight(), normal(x, squared(x))}, shape_, {}, DType::f16), "y");
  after(fuse_rms_normalization);
  EXPECT_FALSE(changed_);
}

TEST_F(RmsNormalizationTest, AnotherUseOfTheQuotientStays) {
  Value* x = input("x", shape_);
  Value* quotient = normal(x, squared(x));
  result(op("Mul", {weight("w", {4}), quotient}, shape_), "y");
  result(quotient, "z");
  after(fuse_rms_normalization);
  EXPECT_FALSE(changed_);
}

TEST_F(RmsNormalizationTest, AnotherUseOfTheInverseStays) {
  Value* x = input("x", shape_);
  result(op("Mul", {weight("w", {4}), normal(x, squared(x))}, shape_), "y");
  result(inverse_, "z");
  after(fuse_rms_normalization);
  EXPECT_FALSE(changed_);
}

TEST_F(RmsNormalizationTest, AnotherAxisStays) {
  Value* x = input("x", {batch_, 4, 4});
  result(op("Mul", {weight("w", {4}), normal(x, squared(x), 1)}, {batch_, 4, 4}), "y");
  after(fuse_rms_normalization);
  EXPECT_FALSE(changed_);
}

TEST_F(RmsNormalizationTest, TheSquareOfAnotherValueStays) {
  Value* x = input("x", shape_);
  Value* other = input("other", shape_);
  result(op("Mul", {weight("w", {4}), normal(x, squared(other))}, shape_), "y");
  after(fuse_rms_normalization);
  EXPECT_FALSE(changed_);
}

TEST_F(RmsNormalizationTest, ACubeStays) {
  Value* x = input("x", shape_);
  Value* cube = op("Pow", {x, number(3)}, shape_);
  result(op("Mul", {weight("w", {4}), normal(x, cube)}, shape_), "y");
  after(fuse_rms_normalization);
  EXPECT_FALSE(changed_);
}

TEST_F(RmsNormalizationTest, AWeightOfAnotherShapeStays) {
  Value* x = input("x", shape_);
  result(op("Mul", {weight("w", {4, 1}), normal(x, squared(x))}, {batch_, 4, 4}), "y");
  after(fuse_rms_normalization);
  EXPECT_FALSE(changed_);
}

TEST_F(RmsNormalizationTest, Float64Stays) {
  Value* x = input("x", shape_, DType::f64);
  Value* w = graph_.add_initializer("w", make_tensor(DType::f64, {4}, std::vector<double>(4, 1)));
  result(op("Mul", {w, normal(x, squared(x))}, shape_, {}, DType::f64), "y");
  after(fuse_rms_normalization);
  EXPECT_FALSE(changed_);
}

TEST_F(RmsNormalizationTest, AnOlderOpsetTakesTheFormThatOnnxRuntimeFuses) {
  model_.opset = 22;
  Value* x = input("x", shape_);
  result(op("Mul", {weight("w", {4}), normal(x, squared(x))}, shape_), "y");
  after(fuse_rms_normalization);
  EXPECT_EQ(after(spell_means_of_squares),
            "_0 = Pow (x, _1)\n_2 = ReduceMean <keepdims: int = 1> (_0, _3)\n"
            "_4 = Add (_2, _5)\n_6 = Sqrt (_4)\n_7 = Div (x, _6)\ny = Mul (w, _7)\n");
  after(fuse_rms_normalization);
  EXPECT_FALSE(changed_);
}

TEST_F(RmsNormalizationTest, AnOlderOpsetWithAnotherUseOfTheInverseStays) {
  model_.opset = 22;
  Value* x = input("x", shape_);
  result(op("Mul", {weight("w", {4}), normal(x, squared(x))}, shape_), "y");
  result(inverse_, "z");
  after(fuse_rms_normalization);
  EXPECT_FALSE(changed_);
}

class ContribRmsNormalizationTest : public RmsNormalizationTest {
 protected:
  ContribRmsNormalizationTest() {
    model_.opset = 20;
    model_.target = Target::onnxruntime_cpu;
  }
};

constexpr const char* kContribFused =
    "y = SimplifiedLayerNormalization <axis: int = -1, epsilon: float = 0.25> (x, w)\n";

TEST_F(ContribRmsNormalizationTest, AnOlderOpset) {
  Value* x = input("x", shape_);
  result(op("Mul", {weight("w", {4}), normal(x, squared(x))}, shape_), "y");
  EXPECT_EQ(after(fuse_rms_normalization), kContribFused);
}

TEST_F(ContribRmsNormalizationTest, Float16ComputedInFloat32) {
  Value* x = input("x", shape_, DType::f16);
  Value* wide = op("Cast", {x}, shape_, {{"to", 1}});
  Value* narrow = op("Cast", {normal(wide, squared(wide))}, shape_, {{"to", 10}}, DType::f16);
  result(op("Mul", {half_weight(), narrow}, shape_, {}, DType::f16), "y");
  EXPECT_EQ(after(fuse_rms_normalization), kContribFused);
}

TEST_F(ContribRmsNormalizationTest, TheStandardOperatorFromOpset23On) {
  model_.opset = 23;
  Value* x = input("x", shape_);
  result(op("Mul", {weight("w", {4}), normal(x, squared(x))}, shape_), "y");
  EXPECT_EQ(after(fuse_rms_normalization), kFusedNormalization);
}

TEST_F(ContribRmsNormalizationTest, AnOpsetToRewriteForTakesStandardOperators) {
  model_.final_opset = 17;
  Value* x = input("x", shape_);
  result(op("Mul", {weight("w", {4}), normal(x, squared(x))}, shape_), "y");
  EXPECT_EQ(after(fuse_rms_normalization).find("SimplifiedLayerNormalization"), std::string::npos);
}

TEST_F(ContribRmsNormalizationTest, BFloat16HasNoKernel) {
  Value* x = input("x", shape_, DType::bf16);
  Value* wide = op("Cast", {x}, shape_, {{"to", 1}});
  Value* narrow = op("Cast", {normal(wide, squared(wide))}, shape_, {{"to", 16}}, DType::bf16);
  Value* w =
      graph_.add_initializer("w", make_tensor(DType::bf16, {4}, std::vector<double>(4, 0.5)));
  result(op("Mul", {w, narrow}, shape_, {}, DType::bf16), "y");
  EXPECT_EQ(after(fuse_rms_normalization).find("SimplifiedLayerNormalization"), std::string::npos);
}

TEST_F(ContribRmsNormalizationTest, AnotherUseOfTheInverseStays) {
  Value* x = input("x", shape_);
  result(op("Mul", {weight("w", {4}), normal(x, squared(x))}, shape_), "y");
  result(inverse_, "z");
  after(fuse_rms_normalization);
  EXPECT_FALSE(changed_);
}

TEST_F(ContribRmsNormalizationTest, TheSquareOfAnotherValueStays) {
  Value* x = input("x", shape_);
  Value* other = input("other", shape_);
  result(op("Mul", {weight("w", {4}), normal(x, squared(other))}, shape_), "y");
  after(fuse_rms_normalization);
  EXPECT_FALSE(changed_);
}

class LayerNormalizationTest : public RmsNormalizationTest {
 protected:
  Value* centered(Value* x, const Ints& axes = {-1}) {
    Value* mean = op("ReduceMean", {x, ints(axes)}, {batch_, seq_, 1}, {{"keepdims", 1}});
    return op("Sub", {x, mean}, shape_);
  }
  // Returns weight * (x - mean(x)) / sqrt(variance(x) + epsilon).
  Value* scaled(Value* x) {
    Value* difference = centered(x);
    return op("Mul", {normal(difference, squared(difference)), weight("w", {4})}, shape_);
  }
};

TEST_F(LayerNormalizationTest, AWeightAndABias) {
  Value* y = op("Add", {weight("b", {4}), scaled(input("x", shape_))}, shape_);
  result(y, "y");
  EXPECT_EQ(after(fuse_layer_normalization),
            "y = LayerNormalization <axis: int = -1, epsilon: float = 0.25> (x, w, b)\n");
}

TEST_F(LayerNormalizationTest, AWeightAlone) {
  result(scaled(input("x", shape_)), "y");
  EXPECT_EQ(after(fuse_layer_normalization),
            "y = LayerNormalization <axis: int = -1, epsilon: float = 0.25> (x, w)\n");
}

TEST_F(LayerNormalizationTest, AResidualIsNoBias) {
  Value* x = input("x", shape_);
  result(op("Add", {scaled(x), x}, shape_), "y");
  EXPECT_EQ(after(fuse_layer_normalization),
            "_0 = LayerNormalization <axis: int = -1, epsilon: float = 0.25> (x, w)\n"
            "y = Add (_0, x)\n");
}

TEST_F(LayerNormalizationTest, TheMeanOfAnotherValueStays) {
  Value* x = input("x", shape_);
  Value* mean = op("ReduceMean", {input("z", shape_), ints({-1})}, {batch_, seq_, 1});
  Value* difference = op("Sub", {x, mean}, shape_);
  Value* y = op("Mul", {normal(difference, squared(difference)), weight("w", {4})}, shape_);
  result(y, "y");
  after(fuse_layer_normalization);
  EXPECT_FALSE(changed_);
}

TEST_F(LayerNormalizationTest, AnOlderOpsetStays) {
  model_.final_opset = 16;
  result(scaled(input("x", shape_)), "y");
  after(fuse_layer_normalization);
  EXPECT_FALSE(changed_);
}

TEST_F(RmsNormalizationTest, APassIsSwitchedOffByItsName) {
  Value* x = input("x", shape_);
  result(op("Mul", {weight("w", {4}), normal(x, squared(x))}, shape_), "y");
  const std::vector<std::string> all{"rms_normalization", "neutral_arithmetic", "means_of_squares"};
  EXPECT_EQ(run(model_, {.disabled = all}), Changes{});
  const Changes changes = run(model_, {.verify_each = true});
  EXPECT_EQ(changes, (Changes{{"rms_normalization", 1}, {"dead_code", 8}}));
}

TEST_F(RmsNormalizationTest, TheNameOfAPassMustExist) {
  try {
    run(model_, {.disabled = {"rms"}});
    FAIL() << "no error";
  } catch (const ExportError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_NE(error.cause().find("no pass named rms; the passes are shapes, "), std::string::npos);
  }
}

}  // namespace
}  // namespace onnx_native::passes
