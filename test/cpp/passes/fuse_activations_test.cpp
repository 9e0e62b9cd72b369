#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class ActivationTest : public PassTest {
 protected:
  Value* unary(std::string_view op_type, Value* a, Attributes attributes = {}) {
    return op(op_type, {a}, shape_, std::move(attributes), a->dtype);
  }
  Value* binary(std::string_view op_type, Value* a, Value* b) {
    return op(op_type, {a, b}, shape_, {}, a->dtype);
  }
  Value* constant(double value) { return number(value, x_->dtype); }
  Value* erf_gate(double root = 1.4142135623730951) {
    Value* erf = unary("Erf", binary("Div", x_, constant(root)));
    return binary("Add", erf, constant(1));
  }
  Value* tanh_gate(Value* cube) {
    Value* sum = binary("Add", x_, binary("Mul", constant(0.044715), cube));
    return binary("Add", constant(1), unary("Tanh", binary("Mul", sum, constant(0.79788456))));
  }
  Value* clipped(double high = 6) {
    return op("Clip", {binary("Add", x_, constant(3)), constant(0), constant(high)}, shape_);
  }

  const Shape shape_{batch_, 4};
  Value* x_ = input("x", shape_);
};

TEST_F(ActivationTest, GeluWithErf) {
  result(binary("Mul", binary("Mul", x_, constant(0.5)), erf_gate()), "y");
  EXPECT_EQ(after(fuse_gelu), "y = Gelu <approximate: string = \"none\"> (x)\n");
}

TEST_F(ActivationTest, GeluWithErfInAnotherOrder) {
  result(binary("Mul", binary("Mul", erf_gate(), x_), constant(0.5)), "y");
  EXPECT_EQ(after(fuse_gelu), "y = Gelu <approximate: string = \"none\"> (x)\n");
}

TEST_F(ActivationTest, GeluWithTanh) {
  Value* cube = binary("Pow", x_, constant(3));
  result(binary("Mul", constant(0.5), binary("Mul", x_, tanh_gate(cube))), "y");
  EXPECT_EQ(after(fuse_gelu), "y = Gelu <approximate: string = \"tanh\"> (x)\n");
}

TEST_F(ActivationTest, GeluWithTanhOfAProduct) {
  Value* square = binary("Mul", binary("Mul", x_, constant(0.044715)), x_);
  Value* bent =
      binary("Mul", binary("Mul", x_, constant(0.79788456)), binary("Add", constant(1), square));
  Value* gate = binary("Add", constant(1), unary("Tanh", bent));
  result(binary("Mul", binary("Mul", x_, constant(0.5)), gate), "y");
  EXPECT_EQ(after(fuse_gelu), "y = Gelu <approximate: string = \"tanh\"> (x)\n");
}

TEST_F(ActivationTest, AnotherConstantThanTheRootOfTwoStays) {
  result(binary("Mul", binary("Mul", x_, constant(0.5)), erf_gate(1.5)), "y");
  after(fuse_gelu);
  EXPECT_FALSE(changed_);
}

TEST_F(ActivationTest, AGateOfAnotherValueStays) {
  result(binary("Mul", binary("Mul", input("z", shape_), constant(0.5)), erf_gate()), "y");
  after(fuse_gelu);
  EXPECT_FALSE(changed_);
}

TEST_F(ActivationTest, AnotherUseOfTheGateStays) {
  Value* gate = erf_gate();
  result(binary("Mul", binary("Mul", x_, constant(0.5)), gate), "y");
  result(gate, "z");
  after(fuse_gelu);
  EXPECT_FALSE(changed_);
}

TEST_F(ActivationTest, GeluBeforeItsOpsetStays) {
  model_.final_opset = 19;
  result(binary("Mul", binary("Mul", x_, constant(0.5)), erf_gate()), "y");
  after(fuse_gelu);
  EXPECT_FALSE(changed_);
}

TEST_F(ActivationTest, GeluWithoutAKernelStays) {
  x_ = input("z", shape_, DType::f16);
  result(binary("Mul", binary("Mul", x_, constant(0.5)), erf_gate()), "y");
  after(fuse_gelu);
  EXPECT_FALSE(changed_);
}

TEST_F(ActivationTest, HardSwishWithClip) {
  result(binary("Div", binary("Mul", x_, clipped()), constant(6)), "y");
  EXPECT_EQ(after(fuse_hard_swish), "y = HardSwish (x)\n");
}

TEST_F(ActivationTest, HardSwishWithAFactor) {
  result(binary("Mul", x_, binary("Mul", clipped(), constant(1.0 / 6))), "y");
  EXPECT_EQ(after(fuse_hard_swish), "y = HardSwish (x)\n");
}

TEST_F(ActivationTest, HardSwishWithHardSigmoid) {
  Value* gate = unary("HardSigmoid", x_, {{"alpha", 1.0 / 6}, {"beta", 0.5}});
  result(binary("Mul", gate, x_), "y");
  EXPECT_EQ(after(fuse_hard_swish), "y = HardSwish (x)\n");
}

TEST_F(ActivationTest, HardSigmoidWithItsDefaultsStays) {
  result(binary("Mul", unary("HardSigmoid", x_), x_), "y");
  after(fuse_hard_swish);
  EXPECT_FALSE(changed_);
}

TEST_F(ActivationTest, AnotherBoundThanSixStays) {
  result(binary("Div", binary("Mul", x_, clipped(5)), constant(6)), "y");
  after(fuse_hard_swish);
  EXPECT_FALSE(changed_);
}

TEST_F(ActivationTest, MishWithSoftplus) {
  result(binary("Mul", unary("Tanh", unary("Softplus", x_)), x_), "y");
  EXPECT_EQ(after(fuse_mish), "y = Mish (x)\n");
}

TEST_F(ActivationTest, MishWithALogarithm) {
  Value* soft = unary("Log", binary("Add", constant(1), unary("Exp", x_)));
  result(binary("Mul", x_, unary("Tanh", soft)), "y");
  EXPECT_EQ(after(fuse_mish), "y = Mish (x)\n");
}

TEST_F(ActivationTest, TanhOfAnotherValueStays) {
  result(binary("Mul", input("z", shape_), unary("Tanh", unary("Softplus", x_))), "y");
  after(fuse_mish);
  EXPECT_FALSE(changed_);
}

}  // namespace
}  // namespace onnx_native::passes
