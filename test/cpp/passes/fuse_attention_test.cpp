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

TEST_F(AttentionTest, AMaskStays) {
  Value* mask = input("mask", {2, 1, 5, 7});
  Value* masked = op("Add", {scaled(scores(q_, transposed(k_))), mask}, {2, 3, 5, 7});
  result(attended(masked), "y");
  after(fuse_attention);
  EXPECT_FALSE(changed_);
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
