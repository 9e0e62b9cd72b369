#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class SingleTransposesTest : public PassTest {
 protected:
  SingleTransposesTest() { model_.target = Target::onnxruntime_cpu; }

  void transpose(const Shape& shape, const Ints& order) {
    Shape turned;
    for (const int64_t axis : order) turned.push_back(shape[static_cast<size_t>(axis)]);
    result(op("Transpose", {input("x", shape)}, turned, {{"perm", order}}), "y");
  }
  void expect_nothing() {
    after(reshape_single_axes);
    EXPECT_FALSE(changed_);
  }
};

TEST_F(SingleTransposesTest, AHeadOfOneQuery) {
  transpose({batch_, 1, 8, 32}, {0, 2, 1, 3});
  EXPECT_EQ(after(reshape_single_axes), "y = Reshape (x, _0)\n");
  EXPECT_EQ(constant_input(graph_.outputs[0], 1), (Ints{-1, 8, 1, 32}));
}

TEST_F(SingleTransposesTest, OtherAxesStay) {
  transpose({batch_, 2, 8, 1}, {0, 2, 1, 3});
  expect_nothing();
}

TEST_F(SingleTransposesTest, SeveralUnknownSizesStay) {
  transpose({batch_, 1, seq_, 32}, {0, 2, 1, 3});
  expect_nothing();
}

TEST_F(SingleTransposesTest, OtherTargetsStay) {  // tools look for the Transpose
  model_.target = Target::onnx;
  transpose({batch_, 1, 8, 32}, {0, 2, 1, 3});
  expect_nothing();
}

}  // namespace
}  // namespace onnx_native::passes
