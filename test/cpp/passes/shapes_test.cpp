#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class ShapesTest : public PassTest {
 protected:
  // Adds an input that stands for a computed shape with unknown elements.
  Value* computed(int64_t size) {
    return input("shape" + std::to_string(graph_.inputs.size()), {size}, DType::i64);
  }
  Value* relu(Value* value) { return op("Relu", {value}, *value->shape); }
};

TEST_F(ShapesTest, WhatKeepsTheShapeGoes) {
  Value* x = input("x", {batch_, 4});
  Value* a = op("Reshape", {x, computed(2)}, {batch_, 4});
  Value* b = op("Expand", {a, computed(2)}, {batch_, 4});
  Value* c = op("Slice", {b, computed(1), computed(1)}, {batch_, 4});
  result(relu(c), "y");
  EXPECT_EQ(after(simplify_shapes), "y = Relu (x)\n");
}

TEST_F(ShapesTest, OperandsWithoutElementsGo) {
  Value *x = input("x", {batch_, 4}), *empty = weight("w", {3, 0});
  result(relu(op("Concat", {empty, x, empty}, {batch_, 4}, {{"axis", int64_t{-1}}})), "y");
  EXPECT_EQ(after(simplify_shapes), "y = Relu (x)\n");
}

TEST_F(ShapesTest, OneOfTheOperandsWithoutElementsStays) {
  Value* empty = input("x", {batch_, 0});
  Value* none = op("Concat", {empty, empty}, {batch_, 0}, {{"axis", int64_t{1}}});
  result(relu(none), "y");
  EXPECT_EQ(after(simplify_shapes), "y = Relu (x)\n");
}

TEST_F(ShapesTest, OperandsThatMayHaveElementsStay) {
  Value *x = input("x", {batch_, 4}), *other = input("other", {batch_, seq_});
  Value* empty = input("rows", {0, 4});
  Value* joined = op("Concat", {x, other}, {batch_, seq_ + 4}, {{"axis", int64_t{1}}});
  result(relu(joined), "y");
  result(relu(op("Concat", {empty, empty}, {0, 8}, {{"axis", int64_t{1}}})), "z");
  after(simplify_shapes);
  EXPECT_FALSE(changed_);
}

TEST_F(ShapesTest, AReversingSliceStays) {
  Value* x = input("x", {batch_, 4});
  result(relu(op("Slice", {x, ints({-1}), ints({-5}), ints({1}), ints({-1})}, {batch_, 4})), "y");
  after(simplify_shapes);
  EXPECT_FALSE(changed_);
}

TEST_F(ShapesTest, ReshapesJoin) {
  Value* x = input("x", {2, 3, 4});
  Value* a = op("Reshape", {x, ints({6, 4})}, {6, 4});
  Value* b = op("Unsqueeze", {a, ints({0})}, {1, 6, 4});
  Value* c = op("Reshape", {b, ints({2, 12})}, {2, 12});
  result(relu(c), "y");
  EXPECT_EQ(after(simplify_shapes), "_0 = Reshape (x, _1)\ny = Relu (_0)\n");
  EXPECT_EQ(constant_input(graph_.nodes.front()->outputs[0], 1), (Ints{2, 12}));
}

TEST_F(ShapesTest, ACopiedSizeOfAnotherInputIsStated) {
  Value* x = input("x", {2, 3, batch_});
  Value* a = op("Reshape", {x, ints({6, -1})}, {6, batch_});
  result(op("Reshape", {a, ints({0, 0, 1})}, {6, batch_, 1}), "y");
  EXPECT_EQ(after(simplify_shapes), "y = Reshape (x, _0)\n");
  EXPECT_EQ(constant_input(graph_.outputs[0], 1), (Ints{6, -1, 1}));
}

TEST_F(ShapesTest, ACopiedSizeKeepsItsReshape) {
  Value* x = input("x", {batch_, seq_, 4});
  Value* a = op("Reshape", {x, computed(2)}, {seq_, Dim(4) * batch_});
  result(relu(op("Reshape", {a, ints({0, 0, 1})}, {seq_, Dim(4) * batch_, 1})), "y");
  after(simplify_shapes);
  EXPECT_FALSE(changed_);
}

TEST_F(ShapesTest, UnsqueezesJoin) {
  Value* x = input("x", {batch_, seq_});
  Value* a = op("Unsqueeze", {x, ints({-1})}, {batch_, seq_, 1});
  result(op("Unsqueeze", {a, ints({1})}, {batch_, 1, seq_, 1}), "y");
  EXPECT_EQ(after(simplify_shapes), "y = Unsqueeze (x, _0)\n");
  EXPECT_EQ(constant_input(graph_.outputs[0], 1), (Ints{1, 3}));
}

TEST_F(ShapesTest, ASqueezeThatRestoresTheShapeGoes) {
  Value* x = input("x", {batch_, 4});
  Value* a = op("Unsqueeze", {x, ints({1})}, {batch_, 1, 4});
  result(relu(op("Squeeze", {a, ints({1})}, {batch_, 4})), "y");
  EXPECT_EQ(after(simplify_shapes), "y = Relu (x)\n");
}

TEST_F(ShapesTest, AReshapeThenUnsqueezeIsOneReshape) {
  Value* x = input("x", {batch_, 8});
  Value* a = op("Reshape", {x, ints({0, 4, 2})}, {batch_, 4, 2});
  result(op("Unsqueeze", {a, ints({0})}, {1, batch_, 4, 2}), "y");
  EXPECT_EQ(after(simplify_shapes), "y = Reshape (x, _0)\n");
  EXPECT_EQ(constant_input(graph_.outputs[0], 1), (Ints{1, -1, 4, 2}));
}

TEST_F(ShapesTest, AnUnsqueezeOfAUsedReshapeStays) {
  Value* x = input("x", {batch_, 8});
  Value* a = op("Reshape", {x, ints({0, 4, 2})}, {batch_, 4, 2});
  result(relu(a), "y");
  result(op("Unsqueeze", {a, ints({0})}, {1, batch_, 4, 2}), "z");
  after(simplify_shapes);
  EXPECT_FALSE(changed_);
}

TEST_F(ShapesTest, OneUnknownSizeIsInferred) {
  Value* x = input("x", {batch_, 3, 4});
  result(op("Reshape", {x, computed(2)}, {batch_, 12}), "y");
  after(simplify_shapes);
  EXPECT_EQ(constant_input(graph_.outputs[0], 1), (Ints{-1, 12}));
}

TEST_F(ShapesTest, UnknownSizesOfTheInputAreCopied) {
  Value* x = input("x", {batch_, seq_, 12});
  result(op("Reshape", {x, computed(4)}, {batch_, seq_, 3, 4}), "y");
  after(simplify_shapes);
  EXPECT_EQ(constant_input(graph_.outputs[0], 1), (Ints{0, 0, 3, 4}));
}

TEST_F(ShapesTest, TwoUnknownSizesStayComputed) {
  Value* x = input("x", {batch_ * seq_, 12});
  result(op("Reshape", {x, computed(3)}, {batch_, seq_, 12}), "y");
  after(simplify_shapes);
  EXPECT_FALSE(changed_);
}

TEST_F(ShapesTest, AZeroSizeStaysComputed) {
  Value* x = input("x", {batch_, 0});
  result(op("Reshape", {x, computed(3)}, {0, batch_, 2}), "y");
  after(simplify_shapes);
  EXPECT_FALSE(changed_);
}

TEST_F(ShapesTest, ExpandKeepsUnknownSizesByOnes) {
  Value* x = input("x", {batch_, 1});
  result(op("Expand", {x, computed(3)}, {2, batch_, 5}), "y");
  after(simplify_shapes);
  EXPECT_EQ(constant_input(graph_.outputs[0], 1), (Ints{2, 1, 5}));
}

TEST_F(ShapesTest, ExpandToAnUnknownSizeStaysComputed) {
  Value* x = input("x", {1, 4});
  result(op("Expand", {x, computed(2)}, {batch_, 4}), "y");
  after(simplify_shapes);
  EXPECT_FALSE(changed_);
}

class IfTest : public PassTest {
 protected:
  std::shared_ptr<onnx::Graph> branch(std::string_view op_type, Value* value) {
    auto body = std::make_shared<onnx::Graph>(&graph_);
    Value* own = op("Exp", {value}, *value->shape, {}, DType::f32, body.get());
    body->outputs = {op(op_type, {own}, *value->shape, {}, DType::f32, body.get())};
    return body;
  }
  Value* choice(Value* condition, Value* value) {
    return op("If", {condition}, *value->shape,
              {{"then_branch", branch("Relu", value)}, {"else_branch", branch("Neg", value)}});
  }
};

TEST_F(IfTest, AConstantConditionChoosesTheBranch) {
  Value* x = input("x", {2});
  Value* same = op("Reshape", {x, ints({2})}, {2});
  result(choice(number(0, DType::boolean), same), "y");
  EXPECT_EQ(after(simplify_shapes), "_0 = Exp (x)\ny = Neg (_0)\n");
}

TEST_F(IfTest, NestedChoicesAreMade) {
  Value* x = input("x", {2});
  Value* yes = number(1, DType::boolean);
  auto outer = [&] {
    auto body = std::make_shared<onnx::Graph>(&graph_);
    auto inner_then = std::make_shared<onnx::Graph>(body.get());
    inner_then->outputs = {op("Abs", {x}, {2}, {}, DType::f32, inner_then.get())};
    auto inner_else = std::make_shared<onnx::Graph>(body.get());
    inner_else->outputs = {op("Exp", {x}, {2}, {}, DType::f32, inner_else.get())};
    body->outputs = {op("If", {yes}, {2},
                        {{"then_branch", inner_then}, {"else_branch", inner_else}}, DType::f32,
                        body.get())};
    return body;
  };
  result(op("If", {yes}, {2}, {{"then_branch", outer()}, {"else_branch", outer()}}), "y");
  after(simplify_shapes);
  EXPECT_EQ(after(simplify_shapes), "y = Abs (x)\n");
}

TEST_F(IfTest, AnUnknownConditionStays) {
  Value* x = input("x", {2});
  result(choice(input("c", {}, DType::boolean), x), "y");
  after(simplify_shapes);
  EXPECT_FALSE(changed_);
}

// A Resize of (batch, 3, height, width) to computed sizes.
class ResizeTest : public PassTest {
 protected:
  const Dim height_ = Dim::symbol("height");
  const Dim width_ = Dim::symbol("width");

  Value* resized(const Shape& sizes, Attributes attributes = {}) {
    Value* x = input("x", {batch_, 3, height_, width_});
    Value* lengths = input("lengths", {4}, DType::i64);
    Value* computed = op("Abs", {lengths}, {4}, {}, DType::i64);
    onnx::Typing::set_contents(*computed, sizes);
    return op("Resize", {x, nullptr, nullptr, computed}, sizes, std::move(attributes));
  }
};

TEST_F(ResizeTest, WholeMultiplesBecomeScales) {
  Value* y = resized({batch_, 3, height_ * Dim(2), width_ * Dim(4)});
  result(y, "y");
  EXPECT_EQ(after(simplify_shapes), "y = Resize (x, \"\", _0)\n");
  const TensorData& scales = *graph_.outputs[0]->producer->inputs[2]->constant;
  EXPECT_EQ(scales.number(0), 1);
  EXPECT_EQ(scales.number(2), 2);
  EXPECT_EQ(scales.number(3), 4);
}

TEST_F(ResizeTest, OtherSizesStay) {
  result(resized({batch_, 3, height_ * Dim(2) + Dim(1), width_}), "y");
  after(simplify_shapes);
  EXPECT_FALSE(changed_);
}

TEST_F(ResizeTest, SmallerSizesStay) {
  result(resized({batch_, 3, Dim::floor_div(height_, 2), width_}), "y");
  after(simplify_shapes);
  EXPECT_FALSE(changed_);
}

TEST_F(ResizeTest, SizesWithAPolicyStay) {
  result(resized({batch_, 3, height_ * Dim(2), width_ * Dim(2)},
                 {{"keep_aspect_ratio_policy", "not_larger"}}),
         "y");
  after(simplify_shapes);
  EXPECT_FALSE(changed_);
}

}  // namespace
}  // namespace onnx_native::passes
