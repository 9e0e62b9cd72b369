#include <cmath>

#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class AttentionTest : public PassTest {
 protected:
  AttentionTest() { model_.opset = 23; }

  Value* transposed(Value* k, const Ints& order, Shape shape) {
    return op("Transpose", {k}, std::move(shape), {{"perm", order}});
  }
  Value* transposed(Value* k) { return transposed(k, {0, 1, 3, 2}, {2, 3, 8, 7}); }
  Value* scaled(Value* scores, double factor = 0.5) {
    return op("Mul", {scores, number(factor)}, {2, 3, 5, 7});
  }
  Value* scores(Value* q, Value* keys) { return op("MatMul", {q, keys}, {2, 3, 5, 7}); }
  Value* attended(Value* scores, int64_t axis = -1) {
    Value* weights = op("Softmax", {scores}, {2, 3, 5, 7}, {{"axis", axis}});
    return op("MatMul", {weights, v_}, {2, 3, 5, 8});
  }
  Value* plus(Value* scores, Value* addend) { return op("Add", {scores, addend}, {2, 3, 5, 7}); }
  Value* plain() { return scaled(scores(q_, transposed(k_))); }
  Value* mask(double closed, Shape shape = {2, 1, 5, 7}) {
    Value* open = input("open", shape, DType::boolean);
    return op("Where", {open, number(0), number(closed)}, std::move(shape));
  }
  void expect_unchanged(Value* y) {
    result(y, "y");
    after(fuse_attention);
    EXPECT_FALSE(changed_);
  }

  Value* q_ = input("q", {2, 3, 5, 8});
  Value* k_ = input("k", {2, 3, 7, 8});
  Value* v_ = input("v", {2, 3, 7, 8});
};

constexpr const char* kFused = "y = Attention <scale: float = 0.5> (q, k, v)\n";

TEST_F(AttentionTest, ScaledScores) {
  result(attended(scaled(scores(q_, transposed(k_)))), "y");
  EXPECT_EQ(after(fuse_attention), kFused);
}

TEST_F(AttentionTest, DividedScores) {
  Value* divided = op("Div", {scores(q_, transposed(k_)), number(2)}, {2, 3, 5, 7});
  result(attended(divided, 3), "y");
  EXPECT_EQ(after(fuse_attention), kFused);
}

TEST_F(AttentionTest, AScaledQuery) {
  Value* q = op("Mul", {number(0.5), q_}, {2, 3, 5, 8});
  result(attended(scores(q, transposed(k_))), "y");
  EXPECT_EQ(after(fuse_attention), kFused);
}

TEST_F(AttentionTest, KeysFromAnotherOrderOfAxes) {
  Value* k = input("apart", {2, 7, 3, 8});
  Value* keys = transposed(k, {0, 2, 3, 1}, {2, 3, 8, 7});
  result(attended(scores(q_, keys)), "y");
  EXPECT_EQ(after(fuse_attention),
            "_0 = Transpose <perm: ints = [0, 2, 1, 3]> (apart)\n"
            "y = Attention <scale: float = 1.0> (q, _0, v)\n");
}

constexpr double kLowest = -0x1.fffffep127;

TEST_F(AttentionTest, AMaskOfTheLowestNumber) {
  result(attended(plus(plain(), mask(kLowest))), "y");
  EXPECT_EQ(after(fuse_attention),
            "_0 = Where (open, _1, _2)\n"
            "y = Attention <scale: float = 0.5> (q, k, v, _0)\n");
}

TEST_F(AttentionTest, ANumberInThePlaceOfScores) {
  Value* open = input("open", {2, 1, 5, 7}, DType::boolean);
  Value* masked = op("Where", {open, plain(), number(kLowest)}, {2, 3, 5, 7});
  result(attended(masked), "y");
  EXPECT_EQ(after(fuse_attention),
            "_0 = Where (open, _1, _2)\n"
            "y = Attention <scale: float = 0.5> (q, k, v, _0)\n");
}

TEST_F(AttentionTest, ANumberInThePlaceOfScoresWhereAMaskIsTrue) {
  Value* closed = input("closed", {2, 1, 5, 7}, DType::boolean);
  Value* masked = op("Where", {closed, number(kLowest), plain()}, {2, 3, 5, 7});
  result(attended(masked), "y");
  EXPECT_EQ(after(fuse_attention),
            "_0 = Where (closed, _1, _2)\n"
            "y = Attention <scale: float = 0.5> (q, k, v, _0)\n");
}

TEST_F(AttentionTest, LayersShareTheSumOfABiasAndAMask) {
  Value* closed = mask(kLowest);
  Value* bias = weight("bias", {3, 5, 7});
  for (const char* name : {"y", "z"}) result(attended(plus(plus(plain(), bias), closed)), name);
  EXPECT_EQ(after(fuse_attention),
            "_0 = Where (open, _1, _2)\n"
            "_3 = Add (bias, _0)\n"
            "y = Attention <scale: float = 0.5> (q, k, v, _3)\n"
            "z = Attention <scale: float = 0.5> (q, k, v, _3)\n");
}

TEST_F(AttentionTest, ABiasOfZerosIsLeftOut) {
  const std::vector<double> zeros(105, 0.0);
  Value* bias = graph_.add_initializer("", make_tensor(DType::f32, {3, 5, 7}, zeros));
  result(attended(plus(plain(), bias)), "y");
  EXPECT_EQ(after(fuse_attention), kFused);
}

TEST_F(AttentionTest, AnUnknownMaskStays) {
  expect_unchanged(attended(plus(plain(), input("mask", {2, 1, 5, 7}))));
}

TEST_F(AttentionTest, AMaskOfInfinityStays) {
  expect_unchanged(attended(plus(plain(), mask(-INFINITY))));
}

TEST_F(AttentionTest, AMaskThatIsTheSameForAllQueries) {
  result(attended(plus(plain(), mask(kLowest, {2, 1, 1, 7}))), "y");
  EXPECT_EQ(after(fuse_attention),
            "_0 = Where (open, _1, _2)\n"
            "_3 = Concat <axis: int = 0> (_4, _5)\n"
            "_6 = Expand (_0, _3)\n"
            "y = Attention <scale: float = 0.5> (q, k, v, _6)\n");
}

TEST_F(AttentionTest, AMaskThatIsTheSameForAllKeysStays) {
  expect_unchanged(attended(plus(plain(), mask(kLowest, {2, 1, 5, 1}))));
}

TEST_F(AttentionTest, ASmallNumberInThePlaceOfScoresStays) {
  Value* open = input("open", {2, 1, 5, 7}, DType::boolean);
  expect_unchanged(attended(op("Where", {open, plain(), number(-1e4)}, {2, 3, 5, 7})));
}

TEST_F(AttentionTest, WeightsOverAnotherAxisStay) {
  result(attended(scaled(scores(q_, transposed(k_))), 2), "y");
  after(fuse_attention);
  EXPECT_FALSE(changed_);
}

TEST_F(AttentionTest, WeightsWithAnotherUseStay) {
  Value* y = attended(scaled(scores(q_, transposed(k_))));
  result(y, "y");
  result(y->producer->inputs[0], "weights");
  after(fuse_attention);
  EXPECT_FALSE(changed_);
}

TEST_F(AttentionTest, ANegativeScaleStays) {
  result(attended(scaled(scores(q_, transposed(k_)), -0.5)), "y");
  after(fuse_attention);
  EXPECT_FALSE(changed_);
}

TEST_F(AttentionTest, KeysThatBroadcastStay) {
  Value* keys = transposed(input("one", {1, 3, 7, 8}), {0, 1, 3, 2}, {1, 3, 8, 7});
  result(attended(scaled(scores(q_, keys))), "y");
  after(fuse_attention);
  EXPECT_FALSE(changed_);
}

TEST_F(AttentionTest, AnOpsetWithoutAKernelStays) {
  model_.opset = 25;
  result(attended(scaled(scores(q_, transposed(k_)))), "y");
  after(fuse_attention);
  EXPECT_FALSE(changed_);
}

}  // namespace
}  // namespace onnx_native::passes
