#include "passes/quantized_weights.h"

#include "base/packed.h"
#include "base/weight.h"
#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class QuantizedWeightsTest : public PassTest {
 protected:
  Value* matrix() {
    return graph_.add_initializer(
        "w", make_tensor(DType::i8, {2, 3}, std::vector<int64_t>{1, -2, 3, -4, 5, 6}));
  }
  Value* scales(const Ints& shape) {
    std::vector<double> numbers(static_cast<size_t>(shape.back()), 0.5);
    return graph_.add_initializer("s", make_tensor(DType::f32, shape, numbers));
  }
};

TEST_F(QuantizedWeightsTest, AScaledProductDequantizesItsMatrix) {
  Value* product =
      op("MatMul", {input("x", {batch_, 2}), op("Cast", {matrix()}, {2, 3}, {{"to", 1}})},
         {batch_, 3});
  result(op("Mul", {product, scales({3})}, {batch_, 3}), "y");
  EXPECT_EQ(after(fuse_quantized_weights),
            "_0 = DequantizeLinear <axis: int = 1> (w, s)\ny = MatMul (x, _0)\n");
}

TEST_F(QuantizedWeightsTest, AScaledMatrixIsDequantized) {
  Value* weight = op("Mul", {op("Cast", {matrix()}, {2, 3}, {{"to", 1}}), scales({3})}, {2, 3});
  result(op("MatMul", {input("x", {batch_, 2}), weight}, {batch_, 3}), "y");
  EXPECT_EQ(after(fuse_quantized_weights),
            "_0 = DequantizeLinear <axis: int = 1> (w, s)\ny = MatMul (x, _0)\n");
}

TEST_F(QuantizedWeightsTest, AProductWithAnotherUseStays) {
  Value* product =
      op("MatMul", {input("x", {batch_, 2}), op("Cast", {matrix()}, {2, 3}, {{"to", 1}})},
         {batch_, 3});
  result(op("Mul", {product, scales({3})}, {batch_, 3}), "y");
  result(op("Relu", {product}, {batch_, 3}), "z");
  after(fuse_quantized_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(QuantizedWeightsTest, ScalesOfRowsOfTheProductStay) {
  Value* product =
      op("MatMul", {input("x", {3, 2}), op("Cast", {matrix()}, {2, 3}, {{"to", 1}})}, {3, 3});
  result(op("Mul",
            {product, graph_.add_initializer(
                          "s", make_tensor(DType::f32, {3, 1}, std::vector<double>(3, 2)))},
            {3, 3}),
         "y");
  after(fuse_quantized_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(QuantizedWeightsTest, AGemmOfADequantizedMatrixIsSpelledOut) {
  Value* weight = op("DequantizeLinear", {matrix(), scales({3})}, {2, 3}, {{"axis", int64_t{1}}});
  result(op("Gemm", {input("x", {batch_, 2}), weight, input("c", {3})}, {batch_, 3}), "y");
  EXPECT_EQ(after(fuse_quantized_weights),
            "_0 = DequantizeLinear <axis: int = 1> (w, s)\n_1 = MatMul (x, _0)\n"
            "y = Add (_1, c)\n");
}

TEST_F(QuantizedWeightsTest, AGemmOfQuantizedActivationsStays) {
  Value* weight = op("DequantizeLinear", {matrix(), scales({3})}, {2, 3}, {{"axis", int64_t{1}}});
  Value* x =
      op("DequantizeLinear", {input("q", {batch_, 2}, DType::u8), input("t", {})}, {batch_, 2});
  result(op("Gemm", {x, weight}, {batch_, 3}), "y");
  after(fuse_quantized_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(QuantizedWeightsTest, AMatrixThatIsCastToFourBitsIsPacked) {
  model_.opset = 21;
  Value* narrow = op("Cast", {matrix()}, {2, 3}, {{"to", static_cast<int64_t>(kInt4)}}, kInt4);
  result(op("DequantizeLinear", {narrow, scales({3})}, {2, 3}, {{"axis", int64_t{1}}}), "y");
  EXPECT_EQ(after(pack_weights), "y = DequantizeLinear <axis: int = 1> (w, s)\n");
}

TEST_F(QuantizedWeightsTest, AProductOfSignedBytesBecomesOneOfUnsignedBytes) {
  Value* x = op("Cast", {input("x", {batch_, 2})}, {batch_, 2}, {{"to", 3}}, DType::i8);
  result(op("MatMulInteger", {x, matrix()}, {batch_, 3}, {}, DType::i32), "y");
  EXPECT_EQ(after(use_integer_products),
            "_0 = Add (x, _1)\n_2 = Cast <to: int = 2> (_0)\n"
            "y = MatMulInteger (_2, w, _3, _3)\n");
  EXPECT_EQ(current(initializer("w")).integers(), (Ints{129, 126, 131, 124, 133, 134}));
}

// A product with activations that are quantized by a scale which `scale` makes.
class DynamicProductTest : public QuantizedWeightsTest {
 protected:
  void add_product(Value* scale, int64_t most) {
    Value* zero = input("zero", {}, DType::u8);
    Value* q =
        op("QuantizeLinear", {input("x", {batch_, 2}), scale, zero}, {batch_, 2}, {}, DType::u8);
    Value* limit =
        graph_.add_initializer("limit", make_tensor(DType::u8, {}, std::vector<int64_t>{most}));
    q = op("Min", {q, limit}, {batch_, 2}, {}, DType::u8);
    Value* weight = op("DequantizeLinear", {matrix(), scales({3})}, {2, 3}, {{"axis", int64_t{1}}});
    result(
        op("MatMul", {op("DequantizeLinear", {q, scale, zero}, {batch_, 2}), weight}, {batch_, 3}),
        "y");
  }
};

TEST_F(DynamicProductTest, SevenBitsAreMultipliedByInt8) {
  add_product(input("scale", {}), 127);
  EXPECT_EQ(after(use_integer_products),
            "_0 = QuantizeLinear (x, scale, zero)\n_1 = Min (_0, limit)\n"
            "_2 = MatMulInteger (_1, w, zero)\n_3 = Mul (scale, s)\n"
            "_4 = Cast <to: int = 1> (_2)\ny = Mul (_4, _3)\n");
}

TEST_F(DynamicProductTest, EightBitsAreMultipliedByUint8) {
  add_product(input("scale", {}), 255);
  EXPECT_EQ(after(use_integer_products),
            "_0 = QuantizeLinear (x, scale, zero)\n_1 = Min (_0, limit)\n"
            "_2 = MatMulInteger (_1, w, zero, _3)\n_4 = Mul (scale, s)\n"
            "_5 = Cast <to: int = 1> (_2)\ny = Mul (_5, _4)\n");
}

TEST_F(DynamicProductTest, AProductOfAConstantScaleStays) {
  add_product(graph_.add_initializer("t", make_tensor(DType::f32, {}, std::vector<double>{0.5})),
              127);
  after(use_integer_products);
  EXPECT_FALSE(changed_);
}

TEST_F(QuantizedWeightsTest, ActivationsOfBytesAreShiftedAsWiderIntegers) {
  Value* x = input("x", {batch_, 2}, DType::i8);
  result(op("MatMulInteger", {x, matrix()}, {batch_, 3}, {}, DType::i32), "y");
  EXPECT_EQ(after(use_integer_products),
            "_0 = Cast <to: int = 6> (x)\n_1 = Add (_0, _2)\n_3 = Cast <to: int = 2> (_1)\n"
            "y = MatMulInteger (_3, w, _4, _4)\n");
}

TEST_F(QuantizedWeightsTest, AWeightThatSomethingElseUsesKeepsItsProduct) {
  Value* weight = matrix();
  Value* x = input("x", {batch_, 2}, DType::i8);
  result(op("MatMulInteger", {x, weight}, {batch_, 3}, {}, DType::i32), "y");
  result(op("Identity", {weight}, {2, 3}, {}, DType::i8), "z");
  after(use_integer_products);
  EXPECT_FALSE(changed_);
}

TEST_F(QuantizedWeightsTest, AProductWithZeroPointsStays) {
  Value* x = input("x", {batch_, 2}, DType::i8);
  result(
      op("MatMulInteger", {x, matrix(), input("zero", {}, DType::i8)}, {batch_, 3}, {}, DType::i32),
      "y");
  after(use_integer_products);
  EXPECT_FALSE(changed_);
}

}  // namespace
}  // namespace onnx_native::passes
