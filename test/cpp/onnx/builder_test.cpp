#include "onnx/builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace onnx_native {
namespace {

const Dim kBatch = Dim::symbol("batch");
const Dim kSeq = Dim::symbol("seq");

class BuilderTest : public testing::Test {
 protected:
  Value input(const Shape& shape, DType dtype = DType::f32) {
    Value value =
        model.graph->add_input("x" + std::to_string(model.graph->inputs.size()), dtype, shape);
    b.bind_sizes(value);
    return value;
  }
  size_t nodes() const { return model.graph->nodes.size(); }
  std::vector<int64_t> target_of(Value reshaped) const {
    return reshaped->producer->inputs[1]->constant->integers();
  }

  onnx::Model model;
  Builder b{model};
};

TEST_F(BuilderTest, EqualConstantsAreOneInitializer) {
  EXPECT_EQ(b.i64(3), b.i64(3));
  EXPECT_NE(b.i64(3), b.i64s({3}));
  EXPECT_NE(b.scalar(DType::f32, 0.0), b.scalar(DType::f32, -0.0));
  EXPECT_EQ(nodes(), 0u);
}

TEST_F(BuilderTest, ReshapeKeepsSizesInPlaceWithoutComputingThem) {
  Value x = input({kBatch, kSeq, 768});
  Value heads = b.reshape(x, {kBatch, kSeq, 12, 64});
  EXPECT_EQ(target_of(heads), (std::vector<int64_t>{0, 0, 12, 64}));
  Value flat = b.reshape(x, {kBatch * kSeq, 768});
  EXPECT_EQ(target_of(flat), (std::vector<int64_t>{-1, 768}));
  EXPECT_EQ(*flat->shape, (Shape{kBatch * kSeq, 768}));
  EXPECT_EQ(nodes(), 2u);
}

TEST_F(BuilderTest, ReshapeOfAnEmptyBatchHasAnAnswer) {
  Value x = input({kBatch, kSeq * 2});
  Value y = b.reshape(x, {kBatch, kSeq, 2});
  EXPECT_FALSE(y->producer->inputs[1]->is_constant());  // [0, -1, 2] is ambiguous if batch is 0
}

TEST_F(BuilderTest, ReshapeToTheSameShapeIsNothing) {
  Value x = input({kBatch, 4});
  EXPECT_EQ(b.reshape(x, {kBatch, 4}), x);
  EXPECT_EQ(nodes(), 0u);
}

TEST_F(BuilderTest, ReshapeOfAnEmptyTensorAllowsZeros) {
  Value x = input({0, 4});
  Value y = b.reshape(x, {4, 0});
  EXPECT_EQ(y->producer->attribute_int("allowzero", 0), 1);
  EXPECT_EQ(target_of(y), (std::vector<int64_t>{4, 0}));
}

TEST_F(BuilderTest, SizesAreReadOnceAndComputedFromInputs) {
  Value x = input({kBatch, 2 * kSeq + 1});
  Value seq = b.dim_value(kSeq);  // (size - 1) / 2
  EXPECT_EQ(seq->producer->op_type, "Div");
  EXPECT_EQ(b.dim_value(kSeq), seq);
  EXPECT_EQ(seq->contents->front(), kSeq);
  size_t before = nodes();
  b.dim_value(2 * kSeq + 1);
  EXPECT_EQ(nodes(), before);
  EXPECT_EQ(x->rank(), 2);
}

TEST_F(BuilderTest, NeighboringSizesComeFromOneShape) {
  input({kBatch, kSeq});
  Value shape = b.shape_value({kBatch, kSeq, 8});
  EXPECT_EQ(shape->producer->op_type, "Concat");
  EXPECT_EQ(nodes(), 2u);  // Shape, Concat
  EXPECT_EQ(*shape->contents, (Shape{kBatch, kSeq, 8}));
}

TEST_F(BuilderTest, PartsOfShapesAreComputedInVectors) {
  input({kBatch, kSeq});
  b.shape_value({2 * kBatch, kSeq + 1});
  for (const char* op_type : {"Squeeze", "Unsqueeze"}) {
    EXPECT_TRUE(std::ranges::none_of(model.graph->nodes,
                                     [&](const auto& node) { return node->op_type == op_type; }));
  }
  EXPECT_EQ(b.dim_value(2 * kBatch)->producer->op_type, "Squeeze");  // computed once
  Value product = b.dim_value(3 * kBatch);
  EXPECT_EQ(product->producer->op_type, "Mul");
  EXPECT_EQ(product->rank(), 0);
}

TEST_F(BuilderTest, ASizeWithoutASourceIsAnError) {
  EXPECT_THROW(b.dim_value(Dim::symbol("nowhere")), ExportError);
}

// The smallest integer has no opposite, so that it cannot be subtracted instead.
TEST_F(BuilderTest, TheSmallestIntegerIsAFactor) {
  input({kBatch, kSeq});
  const Dim smallest = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(b.dim_value(kSeq - kBatch)->producer->op_type, "Sub");
  EXPECT_EQ(b.dim_value(kSeq + smallest * kBatch)->producer->op_type, "Add");
}

TEST_F(BuilderTest, SliceOfEverythingIsNothing) {
  Value x = input({kBatch, 8});
  EXPECT_EQ(b.slice(x, 0, 0, kBatch), x);
  EXPECT_EQ(b.slice(x, 1, -8, 100), x);
  Value y = b.slice(x, -1, 1, 3);
  EXPECT_EQ(*y->shape, (Shape{kBatch, 2}));
}

TEST_F(BuilderTest, PartsOfALongSplitHaveTheirSizes) {
  const Values parts = b.split(input({200, 3}), 0, Shape(200, 1));
  EXPECT_EQ(*parts.back()->shape, (Shape{1, 3}));
}

TEST_F(BuilderTest, ExpandAsksOnlyForWhatIsMissing) {
  Value x = input({kBatch, 1});
  Value y = b.expand(x, {kBatch, 5});
  EXPECT_EQ(y->producer->inputs[1]->constant->integers(), (std::vector<int64_t>{1, 5}));
  EXPECT_EQ(*y->shape, (Shape{kBatch, 5}));
}

TEST_F(BuilderTest, Bfloat16IsComputedInFloat32) {
  Value x = input({kBatch}, DType::bf16);
  Value y = b.Add(x, x);
  EXPECT_EQ(y->dtype, DType::bf16);
  EXPECT_EQ(y->producer->op_type, "Cast");
  EXPECT_EQ(y->producer->inputs[0]->producer->inputs[0]->dtype, DType::f32);
}

TEST_F(BuilderTest, ABranchGetsResultsOfItsOwn) {
  Value x = input({kBatch});
  Value condition = input({}, DType::boolean);
  Values y = b.if_else(
      condition, [&] { return Values{x}; }, [&] { return Values{b.Neg(x)}; });
  ASSERT_EQ(y.size(), 1u);
  EXPECT_EQ(*y[0]->shape, Shape{kBatch});
  EXPECT_EQ(nodes(), 1u);
}

}  // namespace
}  // namespace onnx_native
