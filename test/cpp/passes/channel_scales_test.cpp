#include "base/weight.h"
#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class ChannelScalesTest : public PassTest {
 protected:
  Value* numbers(std::string_view name, const Ints& shape, const std::vector<double>& elements) {
    return graph_.add_initializer(name, make_tensor(DType::f32, shape, elements));
  }
  // A matrix of three rows and two columns.
  Value* matrix() { return numbers("w", {3, 2}, {1, 2, 3, 4, 5, 6}); }
  Value* gamma(const Ints& shape = {3}) { return numbers("gamma", shape, {10, 20, 30}); }
  // Returns the elements that the file has.
  static std::vector<double> written(const Value* value) {
    const TensorData data = current(*value->constant);
    std::vector<double> elements;
    for (int64_t i = 0; i < data.numel(); ++i) elements.push_back(data.number(i));
    return elements;
  }
  const onnx::Node& only(std::string_view op_type) {
    const onnx::Node* found = nullptr;
    for (const onnx::Node* node : graph_.nodes) found = node->op_type == op_type ? node : found;
    require(found, "no such node");
    return *found;
  }
  using Numbers = std::vector<double>;
};

TEST_F(ChannelScalesTest, ALinearLayerTakesItsScale) {
  Value* turned = op("Transpose", {matrix()}, {2, 3}, {{"perm", Ints{1, 0}}});
  Value* product = op("MatMul", {input("x", {batch_, 5, 2}), turned}, {batch_, 5, 3});
  Value* sum = op("Add", {numbers("b", {3}, {1, 1, 2}), product}, {batch_, 5, 3});
  result(op("Mul", {gamma(), sum}, {batch_, 5, 3}), "y");
  EXPECT_EQ(after(fold_channel_scales),
            "_0 = Transpose <perm: ints = [1, 0]> (w)\n_1 = MatMul (x, _0)\n"
            "y = Add (b, _1)\n");
  EXPECT_EQ(written(only("Transpose").inputs[0]), (Numbers{10, 20, 60, 80, 150, 180}));
  EXPECT_EQ(written(only("Add").inputs[0]), (Numbers{10, 20, 60}));
}

TEST_F(ChannelScalesTest, AProductThatIsTransposedTakesItsScale) {
  Value* w = numbers("w", {2, 3}, {1, 2, 3, 4, 5, 6});
  Value* product = op("MatMul", {input("x", {batch_, 5, 2}), w}, {batch_, 5, 3});
  Value* moved = op("Transpose", {product}, {batch_, 3, 5}, {{"perm", Ints{0, 2, 1}}});
  result(op("Div", {moved, gamma({1, 3, 1})}, {batch_, 3, 5}), "y");
  EXPECT_EQ(after(fold_channel_scales),
            "_0 = MatMul (x, w)\ny = Transpose <perm: ints = [0, 2, 1]> (_0)\n");
  const Numbers scaled = written(only("MatMul").inputs[1]);
  EXPECT_FLOAT_EQ(static_cast<float>(scaled[1]), 0.1F);
  EXPECT_FLOAT_EQ(static_cast<float>(scaled[5]), 0.2F);
}

TEST_F(ChannelScalesTest, AProductKeepsWhatWouldMakeItsWeightInfiniteOrZero) {
  Value* x = input("x", {batch_, 2});
  const auto product = [&](std::string_view weight) {
    return op("MatMul", {x, numbers(weight, {2, 3}, {1, 2, 3, 4, 5, 6})}, {batch_, 3});
  };
  result(op("Div", {product("u"), number(0)}, {batch_, 3}), "divided");
  result(op("Mul", {product("v"), number(0)}, {batch_, 3}), "zeros");
  result(op("Mul", {product("w"), number(1e30)}, {batch_, 3}), "large");
  const std::string before = nodes();
  EXPECT_EQ(after(fold_channel_scales), before);
}

TEST_F(ChannelScalesTest, AReshapedProductTakesOneNumber) {
  Value* product = op("Gemm", {input("x", {batch_, 2}), matrix(), numbers("b", {1}, {4})},
                      {batch_, 3}, {{"transB", 1}});
  Value* split = op("Reshape", {product, ints({-1, 3, 1})}, {batch_, 3, 1});
  result(op("Mul", {split, number(2)}, {batch_, 3, 1}), "y");
  EXPECT_EQ(after(fold_channel_scales),
            "_0 = Gemm <transB: int = 1> (x, w, b)\ny = Reshape (_0, _1)\n");
  EXPECT_EQ(written(only("Gemm").inputs[1]), (Numbers{2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(written(only("Gemm").inputs[2]), (Numbers{8, 8, 8}));
}

TEST_F(ChannelScalesTest, ConvolutionsTakeScaleAndShift) {
  Value* conv =
      op("Conv", {input("x", {batch_, 2, 7}), numbers("w", {3, 2, 1}, {1, 2, 3, 4, 5, 6})},
         {batch_, 3, 7});
  Value* scaled = op("Mul", {conv, gamma({3, 1})}, {batch_, 3, 7});
  result(op("Sub", {scaled, number(1)}, {batch_, 3, 7}), "y");
  EXPECT_EQ(after(fold_channel_scales), "y = Conv (x, w, _0)\n");
  EXPECT_EQ(written(only("Conv").inputs[1]), (Numbers{10, 20, 60, 80, 150, 180}));
  EXPECT_EQ(written(only("Conv").inputs[2]), (Numbers{-1, -1, -1}));
}

TEST_F(ChannelScalesTest, ATransposedConvolutionHasItsChannelsSecond) {
  Value* conv =
      op("ConvTranspose", {input("x", {batch_, 1, 7}), numbers("w", {1, 3, 2}, {1, 2, 3, 4, 5, 6})},
         {batch_, 3, 8});
  result(op("Mul", {conv, gamma({3, 1})}, {batch_, 3, 8}), "y");
  EXPECT_EQ(after(fold_channel_scales), "y = ConvTranspose (x, w)\n");
  EXPECT_EQ(written(only("ConvTranspose").inputs[1]), (Numbers{10, 20, 60, 80, 150, 180}));
}

TEST_F(ChannelScalesTest, ScalesOfScalesMultiply) {
  Value* product = op("Gemm", {input("x", {batch_, 2}), matrix()}, {batch_, 3}, {{"transB", 1}});
  Value* once = op("Mul", {product, gamma()}, {batch_, 3});
  result(op("Mul", {once, number(2)}, {batch_, 3}), "y");
  after(fold_channel_scales);
  EXPECT_EQ(graph_.nodes.size(), 1u);
  EXPECT_EQ(written(only("Gemm").inputs[1]), (Numbers{20, 40, 120, 160, 300, 360}));
}

TEST_F(ChannelScalesTest, AProductWithAnotherUseStays) {
  Value* product = op("Gemm", {input("x", {batch_, 2}), matrix()}, {batch_, 3}, {{"transB", 1}});
  result(op("Mul", {product, gamma()}, {batch_, 3}), "y");
  result(op("Relu", {product}, {batch_, 3}), "z");
  after(fold_channel_scales);
  EXPECT_FALSE(changed_);
}

TEST_F(ChannelScalesTest, AScaleWithMoreUsesEndsTheChain) {
  Value* product = op("Gemm", {input("x", {batch_, 2}), matrix()}, {batch_, 3}, {{"transB", 1}});
  Value* once = op("Mul", {product, number(2)}, {batch_, 3});
  result(op("Mul", {once, gamma()}, {batch_, 3}), "y");
  result(op("Relu", {once}, {batch_, 3}), "z");
  EXPECT_EQ(after(fold_channel_scales),
            "_0 = Gemm <transB: int = 1> (x, w)\ny = Mul (_0, gamma)\nz = Relu (_0)\n");
}

TEST_F(ChannelScalesTest, TheShapeOfAProductMayBeUsed) {
  Value* product = op("Gemm", {input("x", {batch_, 2}), matrix()}, {batch_, 3}, {{"transB", 1}});
  result(op("Mul", {product, gamma()}, {batch_, 3}), "y");
  result(op("Shape", {product}, {2}, {}, DType::i64), "z");
  EXPECT_EQ(after(fold_channel_scales), "y = Gemm <transB: int = 1> (x, w)\nz = Shape (y)\n");
}

TEST_F(ChannelScalesTest, ASharedWeightStays) {
  Value* w = matrix();
  result(
      op("Mul", {op("Gemm", {input("x", {batch_, 2}), w}, {batch_, 3}, {{"transB", 1}}), gamma()},
         {batch_, 3}),
      "y");
  result(op("Gather", {w, input("i", {batch_}, DType::i64)}, {batch_, 2}), "z");
  after(fold_channel_scales);
  EXPECT_FALSE(changed_);
}

TEST_F(ChannelScalesTest, AScaleOfAnotherAxisStays) {
  Value* product = op("MatMul", {input("x", {batch_, 3, 2}), numbers("w", {2, 3}, Numbers(6, 1))},
                      {batch_, 3, 3});
  result(op("Mul", {product, gamma({3, 1})}, {batch_, 3, 3}), "y");
  after(fold_channel_scales);
  EXPECT_FALSE(changed_);
}

TEST_F(ChannelScalesTest, AScaleThatBroadcastsTheProductStays) {
  Value* product = op("Gemm", {input("x", {1, 2}), matrix()}, {1, 3}, {{"transB", 1}});
  result(op("Mul", {product, numbers("g", {2, 3}, Numbers(6, 1))}, {2, 3}), "y");
  after(fold_channel_scales);
  EXPECT_FALSE(changed_);
}

TEST_F(ChannelScalesTest, TheBiasOfAPlainProductStays) {
  Value* product = op("MatMul", {input("x", {batch_, 5, 2}), numbers("w", {2, 3}, Numbers(6, 1))},
                      {batch_, 5, 3});
  result(op("Add", {product, gamma()}, {batch_, 5, 3}), "y");
  after(fold_channel_scales);
  EXPECT_FALSE(changed_);
}

TEST_F(ChannelScalesTest, NarrowFloatsStay) {
  Value* x = input("x", {batch_, 2}, DType::f16);
  Value* w = graph_.add_initializer("w", make_tensor(DType::f16, {3, 2}, Numbers(6, 1)));
  Value* product = op("Gemm", {x, w}, {batch_, 3}, {{"transB", 1}}, DType::f16);
  result(op("Mul", {product, number(2, DType::f16)}, {batch_, 3}, {}, DType::f16), "y");
  after(fold_channel_scales);
  EXPECT_FALSE(changed_);
}

}  // namespace
}  // namespace onnx_native::passes
