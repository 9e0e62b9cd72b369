#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class EarlySlicesTest : public PassTest {
 protected:
  EarlySlicesTest() { model_.opset = 23; }

  Value* index(int64_t number) {
    return graph_.add_initializer("", make_tensor(DType::i64, {}, Ints{number}));
  }
  Value* gather(Value* data, int64_t number) {
    return op("Gather", {data, index(number)}, {data->dim(0), data->dim(2)}, {{"axis", 1}});
  }
  Value* product(Value* x, std::string_view name = "w") {
    return op("MatMul", {x, weight(name, {4, 4})}, {batch_, seq_, 4});
  }
  Value* x_ = input("x", {batch_, seq_, 4});
};

TEST_F(EarlySlicesTest, AProductOfOneRow) {
  result(gather(product(x_), 0), "y");
  EXPECT_EQ(after(slice_early),
            "_0 = Slice (x, _1, _2, _3, _4)\n"
            "_5 = MatMul (_0, w)\n"
            "y = Gather <axis: int = 1> (_5, _6)\n");
  const onnx::Node& slice = **graph_.nodes.begin();
  EXPECT_EQ(constant_input(slice.outputs[0], 1), Ints{0});
  EXPECT_EQ(constant_input(slice.outputs[0], 2), Ints{1});
  EXPECT_EQ(constant_input(slice.outputs[0], 3), Ints{1});
}

TEST_F(EarlySlicesTest, TheLastRowReachesToTheEnd) {
  result(gather(product(x_), -1), "y");
  after(slice_early);
  const onnx::Node& slice = **graph_.nodes.begin();
  EXPECT_EQ(constant_input(slice.outputs[0], 1), Ints{-1});
  EXPECT_EQ(constant_input(slice.outputs[0], 2), Ints{std::numeric_limits<int64_t>::max()});
}

TEST_F(EarlySlicesTest, AResidualIsSlicedOnce) {
  Value* norm = op("LayerNormalization", {x_, weight("scale", {4})}, *x_->shape, {{"axis", -1}});
  Value* sum = op("Add", {op("Gelu", {product(norm)}, *x_->shape), x_}, *x_->shape);
  Value* slice =
      op("Slice", {sum, ints({-1}), ints({1L << 40}), ints({1}), ints({1})}, {batch_, 1, 4});
  result(slice, "y");
  EXPECT_EQ(after(slice_early),
            "_0 = Slice (x, _1, _2, _3, _4)\n"
            "_5 = LayerNormalization <axis: int = -1> (_0, scale)\n"
            "_6 = MatMul (_5, w)\n"
            "_7 = Gelu (_6)\n"
            "y = Add (_7, _0)\n");
}

TEST_F(EarlySlicesTest, WhatIsBroadcastStaysWhole) {
  Value* biased = op("Add", {product(x_), input("bias", {1, 4})}, *x_->shape);
  Value* moved = op("Mul", {biased, input("place", {seq_, 4})}, *x_->shape);
  result(gather(moved, 2), "y");
  EXPECT_EQ(after(slice_early),
            "_0 = Slice (x, _1, _2, _3, _4)\n"
            "_5 = MatMul (_0, w)\n"
            "_6 = Add (_5, bias)\n"
            "_7 = Slice (place, _8, _9, _10, _11)\n"
            "_12 = Mul (_6, _7)\n"
            "y = Gather <axis: int = 1> (_12, _13)\n");
}

TEST_F(EarlySlicesTest, OnlyTheQueryOfAnAttentionIsSliced) {
  Value* y = op("Attention", {product(x_), product(x_, "k"), product(x_, "v")}, *x_->shape,
                {{"q_num_heads", 2}, {"kv_num_heads", 2}});
  result(gather(y, 0), "y");
  const std::string text = after(slice_early);
  EXPECT_NE(text.find("= MatMul (x, k)"), std::string::npos) << text;
  EXPECT_NE(text.find("= MatMul (x, v)"), std::string::npos) << text;
  EXPECT_EQ(text.find("= MatMul (x, w)"), std::string::npos) << text;
}

TEST_F(EarlySlicesTest, ACausalAttentionStays) {
  Value* y = op("Attention", {product(x_), product(x_, "k"), product(x_, "v")}, *x_->shape,
                {{"q_num_heads", 2}, {"kv_num_heads", 2}, {"is_causal", 1}});
  result(gather(y, 0), "y");
  after(slice_early);
  EXPECT_FALSE(changed_);
}

TEST_F(EarlySlicesTest, AnotherUseStays) {
  Value* y = product(x_);
  result(gather(y, 0), "y");
  result(y, "all");
  after(slice_early);
  EXPECT_FALSE(changed_);
}

TEST_F(EarlySlicesTest, DifferentRowsStay) {
  Value* y = product(x_);
  result(gather(y, 0), "y");
  result(gather(y, -1), "z");
  after(slice_early);
  EXPECT_FALSE(changed_);
}

TEST_F(EarlySlicesTest, ASliceOfColumnsStays) {
  Value* slice =
      op("Slice", {product(x_), ints({0}), ints({1}), ints({2}), ints({1})}, {batch_, seq_, 1});
  result(slice, "y");
  after(slice_early);
  EXPECT_FALSE(changed_);
}

TEST_F(EarlySlicesTest, WithoutAProductNothingMoves) {
  result(gather(op("Gelu", {x_}, *x_->shape), 0), "y");
  after(slice_early);
  EXPECT_FALSE(changed_);
}

TEST_F(EarlySlicesTest, MostOfTheRowsStay) {
  Value* slice = op("Slice", {product(x_), ints({1}), ints({1L << 40}), ints({1}), ints({1})},
                    {batch_, seq_ - 1, 4});
  result(slice, "y");
  after(slice_early);
  EXPECT_FALSE(changed_);
}

TEST_F(EarlySlicesTest, AnEmptySliceStays) {
  Value* slice =
      op("Slice", {product(x_), ints({-1}), ints({0}), ints({1}), ints({1})}, {batch_, 0, 4});
  result(slice, "y");
  after(slice_early);
  EXPECT_FALSE(changed_);
}

}  // namespace
}  // namespace onnx_native::passes
