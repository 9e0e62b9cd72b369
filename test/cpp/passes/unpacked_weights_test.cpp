#include "base/packed.h"
#include "base/weight.h"
#include "passes/pass_test.h"
#include "passes/quantized_weights.h"

namespace onnx_native::passes {
namespace {

class UnpackedWeightsTest : public PassTest {
 protected:
  UnpackedWeightsTest() { model_.opset = 21; }

  Value* constant(std::string_view name, DType dtype, const Ints& shape, const Ints& elements) {
    return graph_.add_initializer(name, make_tensor(dtype, shape, elements));
  }
  // Returns 4 x 2 integers of 4 bits: two rows in each word of 8 bits.
  Value* codes(const Ints& order = {0, 1}) {
    Value* words = constant("w", DType::u8, {2, 1, 2}, {0x21, 0x43, 0x65, 0x87});
    Value* shifts = constant("", DType::u8, {1, 2, 1}, {4 * order[0], 4 * order[1]});
    Value* shifted = op("BitShift", {words, shifts}, {2, 2, 2},
                        {{"direction", std::string("RIGHT")}}, DType::u8);
    Value* low =
        op("BitwiseAnd", {shifted, constant("", DType::u8, {}, {15})}, {2, 2, 2}, {}, DType::u8);
    Value* matrix = op("Reshape", {low, ints({4, 2})}, {4, 2}, {}, DType::u8);
    return op("Cast", {matrix}, {4, 2}, {{"to", int64_t{1}}});
  }
  Value* scales() {
    const std::vector<double> numbers{0.5, 1, 2, 4};
    return graph_.add_initializer("s", make_tensor(DType::f32, {2, 2}, numbers));
  }
  Value* scaled(Value* matrix, const Ints& groups) {
    Value* rows = op("Gather", {scales(), ints(groups)}, {4, 2}, {{"axis", int64_t{0}}});
    return op("Mul", {matrix, rows}, {4, 2});
  }
  void multiply(Value* weight) {
    result(op("MatMul", {input("x", {batch_, 4}), weight}, {batch_, 2}), "y");
  }
  // Returns the elements of the codes that DequantizeLinear reads.
  Ints dequantized() {
    for (const onnx::Node* node : graph_.nodes) {
      if (!node->is("DequantizeLinear")) continue;
      const TensorData packed = current(*node->inputs[0]->constant);
      EXPECT_EQ(packed.dtype, kUint4);
      Ints elements;
      for (const std::byte byte : packed.bytes()) {
        elements.push_back(std::to_integer<int64_t>(byte & std::byte{15}));
        elements.push_back(std::to_integer<int64_t>(byte >> 4));
      }
      return elements;
    }
    return {};
  }
};

TEST_F(UnpackedWeightsTest, ShiftedAndMaskedWordsAreDequantized) {
  multiply(scaled(codes(), {0, 0, 1, 1}));
  EXPECT_EQ(after(dequantize_unpacked_weights),
            "_0 = DequantizeLinear <axis: int = 0, block_size: int = 2> (w, s)\n"
            "y = MatMul (x, _0)\n");
  EXPECT_EQ(dequantized(), (Ints{1, 3, 2, 4, 5, 7, 6, 8}));
}

TEST_F(UnpackedWeightsTest, AnyOrderOfTheShiftsIsRead) {
  multiply(scaled(codes({1, 0}), {0, 0, 1, 1}));
  after(dequantize_unpacked_weights);
  EXPECT_EQ(dequantized(), (Ints{2, 4, 1, 3, 6, 8, 5, 7}));
}

TEST_F(UnpackedWeightsTest, RowsOfAGroupAreMadeNeighbors) {
  multiply(scaled(codes(), {1, 0, 1, 0}));
  after(dequantize_unpacked_weights);
  EXPECT_EQ(dequantized(), (Ints{1, 3, 5, 7, 2, 4, 6, 8}));
  const onnx::Node* product = graph_.outputs[0]->producer;
  ASSERT_TRUE(product->inputs[0]->producer->is("Gather"));
  EXPECT_EQ(constant_input(product->inputs[0], 1), (Ints{0, 2, 1, 3}));
  // The scales of the first row's group come first.
  const onnx::Node* dequantize = product->inputs[1]->producer;
  EXPECT_EQ(current(*dequantize->inputs[1]->constant).number(0), 2);
}

TEST_F(UnpackedWeightsTest, ZeroPointsAreSubtracted) {
  Value* zeros = constant("z", DType::i8, {2, 2}, {8, 7, 6, 5});
  Value* rows =
      op("Gather", {zeros, ints({0, 0, 1, 1})}, {4, 2}, {{"axis", int64_t{0}}}, DType::i8);
  Value* numbers = op("Cast", {rows}, {4, 2}, {{"to", int64_t{1}}});
  multiply(scaled(op("Sub", {codes(), numbers}, {4, 2}), {0, 0, 1, 1}));
  EXPECT_EQ(after(dequantize_unpacked_weights),
            "_0 = DequantizeLinear <axis: int = 0, block_size: int = 2> (w, s, z)\n"
            "y = MatMul (x, _0)\n");
}

TEST_F(UnpackedWeightsTest, GroupsOfDifferentSizesStay) {
  multiply(scaled(codes(), {0, 0, 0, 1}));
  after(dequantize_unpacked_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(UnpackedWeightsTest, ZeroPointsThatDoNotFitStay) {
  Value* zeros = constant("z", DType::i8, {1, 2}, {16, 7});
  Value* numbers = op("Cast", {zeros}, {1, 2}, {{"to", int64_t{1}}});
  multiply(scaled(op("Sub", {codes(), numbers}, {4, 2}), {0, 0, 1, 1}));
  after(dequantize_unpacked_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(UnpackedWeightsTest, OlderOpsetsHaveNoBlocks) {
  model_.opset = 20;
  multiply(scaled(codes(), {0, 0, 1, 1}));
  after(dequantize_unpacked_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(UnpackedWeightsTest, BitsBeyondTheWordStay) {
  Value* words = constant("w", DType::u8, {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  Value* shifted = op("BitShift", {words, constant("", DType::u8, {}, {6})}, {4, 2},
                      {{"direction", std::string("RIGHT")}}, DType::u8);
  Value* low =
      op("BitwiseAnd", {shifted, constant("", DType::u8, {}, {15})}, {4, 2}, {}, DType::u8);
  multiply(scaled(op("Cast", {low}, {4, 2}, {{"to", int64_t{1}}}), {0, 0, 1, 1}));
  after(dequantize_unpacked_weights);
  EXPECT_FALSE(changed_);
}

}  // namespace
}  // namespace onnx_native::passes
