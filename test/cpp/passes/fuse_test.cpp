#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

TEST_F(PassTest, MatMulWithABiasBecomesGemm) {
  Value* x = input("x", {batch_, 4});
  Value* product = op("MatMul", {x, weight("w", {4, 3})}, {batch_, 3});
  result(op("Add", {weight("b", {3}), product}, {batch_, 3}), "y");
  EXPECT_EQ(after(fuse), "y = Gemm (x, w, b)\n");
}

TEST_F(PassTest, ATransposedWeightBecomesTransB) {
  Value* x = input("x", {batch_, 4});
  Value* turned = op("Transpose", {weight("w", {3, 4})}, {4, 3}, {{"perm", Ints{1, 0}}});
  Value* product = op("MatMul", {x, turned}, {batch_, 3});
  result(op("Add", {product, weight("b", {3})}, {batch_, 3}), "y");
  EXPECT_EQ(after(fuse), "y = Gemm <transB: int = 1> (x, w, b)\n");
}

TEST_F(PassTest, TransposingTwiceIsNot) {
  Value* x = input("x", {4, batch_});
  Value* w = op("Transpose", {weight("w", {4, 3})}, {3, 4});
  result(op("Gemm", {op("Transpose", {x}, {batch_, 4}), w}, {batch_, 3}, {{"transB", 1}}), "y");
  EXPECT_EQ(after(fuse), "y = Gemm <transA: int = 1> (x, w)\n");
}

TEST_F(PassTest, MatMulOfHigherRankStays) {
  Value* x = input("x", {batch_, 2, 4});
  Value* turned = op("Transpose", {weight("w", {3, 4})}, {4, 3});
  Value* product = op("MatMul", {x, turned}, {batch_, 2, 3});
  result(op("Add", {product, weight("b", {3})}, {batch_, 2, 3}), "y");
  after(fuse);
  EXPECT_FALSE(changed_);
}

TEST_F(PassTest, AProductUsedTwiceStays) {
  Value* x = input("x", {batch_, 4});
  Value* product = op("MatMul", {x, weight("w", {4, 3})}, {batch_, 3});
  result(op("Add", {product, weight("b", {3})}, {batch_, 3}), "y");
  result(op("Relu", {product}, {batch_, 3}), "z");
  after(fuse);
  EXPECT_FALSE(changed_);
}

TEST_F(PassTest, ABiasThatWidensTheResultStays) {
  Value* x = input("x", {1, 4});
  Value* product = op("MatMul", {x, weight("w", {4, 3})}, {1, 3});
  result(op("Add", {product, weight("b", {5, 3})}, {5, 3}), "y");
  after(fuse);
  EXPECT_FALSE(changed_);
}

TEST_F(PassTest, IntegersStay) {
  Value* x = input("x", {2, 4}, DType::i32);
  Value* w = input("w", {4, 3}, DType::i32);
  Value* product = op("MatMul", {x, w}, {2, 3}, {}, DType::i32);
  result(op("Add", {product, ints({1, 2, 3}, DType::i32)}, {2, 3}, {}, DType::i32), "y");
  after(fuse);
  EXPECT_FALSE(changed_);
}

}  // namespace
}  // namespace onnx_native::passes
