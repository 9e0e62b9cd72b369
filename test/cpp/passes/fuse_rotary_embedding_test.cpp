#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class RotaryEmbeddingTest : public PassTest {
 protected:
  RotaryEmbeddingTest() { model_.opset = 23; }

  struct Table {
    Value* cos;
    Value* sin;
  };
  // Returns the cosines and sines of angles (batch, seq, half), each angle twice.
  Table tables(Value* angles, Value* second = nullptr) {
    const Dim batch = angles->dim(0);
    const int64_t size = 2 * *angles->dim(2).constant();
    const Shape shape{batch, seq_, size};
    Value* both = op("Concat", {angles, second ? second : angles}, shape, {{"axis", 2}});
    const auto table = [&](std::string_view function) {
      Value* scaled = op("Mul", {op(function, {both}, shape), number(2)}, shape);
      return op("Unsqueeze", {scaled, ints({1})}, {batch, 1, seq_, size});
    };
    return {table("Cos"), table("Sin")};
  }
  Value* slice(Value* x, int64_t start, int64_t end, int64_t step = 1) {
    Shape shape = *x->shape;
    shape.back() = (end - start + step - 1) / step;
    return op("Slice", {x, ints({start}), ints({end}), ints({-1}), ints({step})}, shape);
  }
  // Returns x * cos + concat(-x2, x1) * sin.
  Value* rotated(Value* x, Table table) {
    const Shape shape = *x->shape;
    const int64_t size = *shape.back().constant();
    Shape half = shape;
    half.back() = size / 2;
    Value* negative = op("Neg", {slice(x, size / 2, size)}, half);
    Value* turned = op("Concat", {negative, slice(x, 0, size / 2)}, shape, {{"axis", 3}});
    Value* real = op("Mul", {x, table.cos}, shape);
    return op("Add", {real, op("Mul", {turned, table.sin}, shape)}, shape);
  }

  // Returns the cosines and sines of angles (batch, seq, 4), each angle `times` times in a row.
  Table tables_of_neighbors(int64_t times) {
    Value* angles = input("angles", {batch_, seq_, 4});
    Value* single = op("Unsqueeze", {angles, ints({3})}, {batch_, seq_, 4, 1});
    Value* each = op("Expand", {single, ints({1, 1, 1, times})}, {batch_, seq_, 4, times});
    Value* both = op("Reshape", {each, ints({0, 0, -1})}, {batch_, seq_, 4 * times});
    const auto table = [&](std::string_view function) {
      Value* value = op(function, {both}, *both->shape);
      return op("Unsqueeze", {value, ints({1})}, {batch_, 1, seq_, 4 * times});
    };
    return {table("Cos"), table("Sin")};
  }
  // Fuses x * cos + (-x2, x1 of neighbors) * sin.
  std::string neighbors(Value* x, Table table) {
    const Shape half{batch_, 3, seq_, 4}, single{batch_, 3, seq_, 4, 1};
    Value* negative = op("Neg", {slice(x, 1, 8, 2)}, half);
    Value* odd = op("Unsqueeze", {negative, ints({-1})}, single);
    Value* even = op("Unsqueeze", {slice(x, 0, 8, 2), ints({4})}, single);
    Value* pairs = op("Concat", {odd, even}, {batch_, 3, seq_, 4, 2}, {{"axis", 4}});
    Value* turned = op("Reshape", {pairs, ints({0, 0, 0, 8})}, shape_);
    Value* real = op("Mul", {x, table.cos}, shape_);
    result(op("Add", {real, op("Mul", {turned, table.sin}, shape_)}, shape_), "y");
    return after(fuse_rotary_embedding);
  }

  const Shape shape_{batch_, 3, seq_, 8};
};

TEST_F(RotaryEmbeddingTest, RotateHalfWithACacheForEachSequence) {
  Value* x = input("x", shape_);
  result(rotated(x, tables(input("angles", {batch_, seq_, 4}))), "y");
  EXPECT_EQ(after(fuse_rotary_embedding),
            "_0 = Cos (angles)\n_1 = Mul (_0, _2)\n_3 = Sin (angles)\n_4 = Mul (_3, _5)\n"
            "y = RotaryEmbedding (x, _1, _4)\n");
}

TEST_F(RotaryEmbeddingTest, ACacheForAllSequencesIsExpandedOnce) {
  const Table table = tables(input("angles", {1, seq_, 4}));
  result(rotated(input("q", shape_), table), "y");
  result(rotated(input("k", {batch_, 1, seq_, 8}), table), "z");
  EXPECT_EQ(after(fuse_rotary_embedding),
            "_0 = Cos (angles)\n_1 = Mul (_0, _2)\n_3 = Sin (angles)\n_4 = Mul (_3, _5)\n"
            "_6 = Shape <start: int = 0, end: int = 1> (q)\n_7 = Concat <axis: int = 0> (_6, _8)\n"
            "_9 = Expand (_1, _7)\n"
            "_10 = Shape <start: int = 0, end: int = 1> (q)\n"
            "_11 = Concat <axis: int = 0> (_10, _12)\n_13 = Expand (_4, _11)\n"
            "y = RotaryEmbedding (q, _9, _13)\nz = RotaryEmbedding (k, _9, _13)\n");
}

TEST_F(RotaryEmbeddingTest, TheFirstElementsOfAHead) {
  Value* x = input("x", shape_);
  Value* first = rotated(slice(x, 0, 4), tables(input("angles", {batch_, seq_, 2})));
  result(op("Concat", {first, slice(x, 4, 8)}, shape_, {{"axis", -1}}), "y");
  EXPECT_EQ(after(fuse_rotary_embedding),
            "_0 = Cos (angles)\n_1 = Mul (_0, _2)\n_3 = Sin (angles)\n_4 = Mul (_3, _5)\n"
            "y = RotaryEmbedding <rotary_embedding_dim: int = 4> (x, _1, _4)\n");
}

TEST_F(RotaryEmbeddingTest, NoElementsAfterTheRotatedOnes) {
  Value* x = input("x", shape_);
  Value* all = rotated(x, tables(input("angles", {batch_, seq_, 4})));
  result(op("Concat", {all, slice(x, 8, 8)}, shape_, {{"axis", -1}}), "y");
  const std::string text = after(fuse_rotary_embedding);
  EXPECT_NE(text.find("y = RotaryEmbedding (x, "), std::string::npos) << text;
}

TEST_F(RotaryEmbeddingTest, Neighbors) {
  Value* x = input("x", shape_);
  EXPECT_EQ(neighbors(x, tables_of_neighbors(2)),
            "_0 = Cos (angles)\n_1 = Sin (angles)\n"
            "y = RotaryEmbedding <interleaved: int = 1> (x, _0, _1)\n");
}

TEST_F(RotaryEmbeddingTest, NeighborsWithTheTablesOfHalvesStay) {
  Value* x = input("x", shape_);
  neighbors(x, tables(input("angles", {batch_, seq_, 4})));
  EXPECT_FALSE(changed_);
}

TEST_F(RotaryEmbeddingTest, OtherElementsThanTheFirstStay) {
  Value* x = input("x", shape_);
  Value* last = rotated(slice(x, 4, 8), tables(input("angles", {batch_, seq_, 2})));
  result(op("Concat", {last, slice(x, 0, 4)}, shape_, {{"axis", -1}}), "y");
  EXPECT_NE(after(fuse_rotary_embedding).find("y = Concat"), std::string::npos);
}

TEST_F(RotaryEmbeddingTest, RealAndImaginaryPartsApart) {
  Value* x = input("x", shape_);
  const Shape half{batch_, 3, seq_, 4};
  const auto table = [&](std::string_view name) {
    return op("Unsqueeze", {input(name, {batch_, seq_, 4}), ints({1})}, {batch_, 1, seq_, 4});
  };
  Value* cos = table("cos");
  Value* sin = table("sin");
  onnx::Node* split = graph_.add_node("Split", {x}, 2, {{"axis", 3}, {"num_outputs", 2}});
  for (Value* part : split->outputs) onnx::Typing::set(*part, DType::f32, half);
  const auto times = [&](size_t i, Value* factor) {
    return op("Mul", {split->outputs[i], factor}, half);
  };
  Value* real = op("Sub", {times(0, cos), times(1, sin)}, half);
  Value* imaginary = op("Add", {times(1, cos), times(0, sin)}, half);
  result(op("Concat", {real, imaginary}, shape_, {{"axis", -1}}), "y");
  EXPECT_EQ(after(fuse_rotary_embedding), "y = RotaryEmbedding (x, cos, sin)\n");
}

TEST_F(RotaryEmbeddingTest, HeadsAfterTheSequence) {
  const Shape shape{batch_, seq_, 3, 8};
  Value* both =
      op("Concat", {input("angles", {seq_, 4}), graph_.inputs.back()}, {seq_, 8}, {{"axis", -1}});
  const auto table = [&](std::string_view function) {
    return op("Reshape", {op(function, {both}, {seq_, 8}), ints({1, -1, 1, 8})}, {1, seq_, 1, 8});
  };
  const Table wide{table("Cos"), table("Sin")};
  result(rotated(input("x", shape), wide), "y");
  const std::string text = after(fuse_rotary_embedding);
  EXPECT_NE(text.find("= Transpose <perm: ints = [0, 2, 1, 3]> (x)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("y = Transpose <perm: ints = [0, 2, 1, 3]> ("), std::string::npos) << text;
  EXPECT_EQ(text.find("Concat <axis: int = -1>"), std::string::npos) << text;  // half the table
}

TEST_F(RotaryEmbeddingTest, RowsOfALongerTable) {
  const Dim rows = Dim::min(seq_, 64);
  Value* cos = input("cos", {rows, 4});
  Value* both = op("Concat", {cos, cos}, {rows, 8}, {{"axis", 1}});
  result(rotated(input("x", shape_), {both, both}), "y");
  const std::string text = after(fuse_rotary_embedding);
  EXPECT_NE(text.find("y = RotaryEmbedding (x, "), std::string::npos) << text;
}

TEST_F(RotaryEmbeddingTest, FoldedTables) {
  Value* table = graph_.add_initializer(
      "", make_tensor(DType::f32, {2, 4}, std::vector<double>{1, 2, 1, 2, 3, 4, 3, 4}));
  Value* x = input("x", {batch_, 3, 2, 4});
  result(rotated(x, {table, table}), "y");
  const std::string text = after(fuse_rotary_embedding);
  EXPECT_NE(text.find("y = RotaryEmbedding (x, "), std::string::npos) << text;
}

TEST_F(RotaryEmbeddingTest, FoldedTablesWithOtherHalvesStay) {
  Value* table = graph_.add_initializer(
      "", make_tensor(DType::f32, {2, 4}, std::vector<double>{1, 2, 1, 2, 3, 4, 4, 3}));
  Value* x = input("x", {batch_, 3, 2, 4});
  result(rotated(x, {table, table}), "y");
  after(fuse_rotary_embedding);
  EXPECT_FALSE(changed_);
}

TEST_F(RotaryEmbeddingTest, ATableThatVariesAlongTheHeadsStays) {
  Value* angles = input("angles", {3, seq_, 4});
  Value* both = op("Concat", {angles, angles}, {3, seq_, 8}, {{"axis", 2}});
  Value* cos = op("Cos", {both}, {3, seq_, 8});
  result(rotated(input("x", shape_), {cos, op("Sin", {both}, {3, seq_, 8})}), "y");
  after(fuse_rotary_embedding);
  EXPECT_FALSE(changed_);
}

TEST_F(RotaryEmbeddingTest, AnglesThatDifferBetweenTheHalvesStay) {
  Value* angles = input("angles", {batch_, seq_, 4});
  Value* others = input("others", {batch_, seq_, 4});
  result(rotated(input("x", shape_), tables(angles, others)), "y");
  after(fuse_rotary_embedding);
  EXPECT_FALSE(changed_);
}

TEST_F(RotaryEmbeddingTest, TablesOfAnotherBatchStay) {
  Value* angles = input("angles", {Dim::symbol("other"), seq_, 4});
  result(rotated(input("x", shape_), tables(angles)), "y");
  EXPECT_EQ(after(fuse_rotary_embedding).find("RotaryEmbedding"), std::string::npos);
}

TEST_F(RotaryEmbeddingTest, TheOtherSignStays) {
  Value* x = input("x", shape_);
  const Table table = tables(input("angles", {batch_, seq_, 4}));
  const Shape half{batch_, 3, seq_, 4};
  Value* negative = op("Neg", {slice(x, 0, 4)}, half);
  Value* turned = op("Concat", {slice(x, 4, 8), negative}, shape_, {{"axis", 3}});
  Value* real = op("Mul", {x, table.cos}, shape_);
  result(op("Add", {real, op("Mul", {turned, table.sin}, shape_)}, shape_), "y");
  after(fuse_rotary_embedding);
  EXPECT_FALSE(changed_);
}

TEST_F(RotaryEmbeddingTest, AnotherUseOfAProductStays) {
  Value* y = rotated(input("x", shape_), tables(input("angles", {batch_, seq_, 4})));
  result(y, "y");
  result(y->producer->inputs[1], "z");
  after(fuse_rotary_embedding);
  EXPECT_FALSE(changed_);
}

TEST_F(RotaryEmbeddingTest, AnOlderOpsetStays) {
  model_.opset = 22;
  result(rotated(input("x", shape_), tables(input("angles", {batch_, seq_, 4}))), "y");
  after(fuse_rotary_embedding);
  EXPECT_FALSE(changed_);
}

class ContribRotaryEmbeddingTest : public RotaryEmbeddingTest {
 protected:
  ContribRotaryEmbeddingTest() {
    model_.opset = 20;
    model_.target = Target::onnxruntime_cpu;
  }
};

TEST_F(ContribRotaryEmbeddingTest, EachSequenceHasItsRowsOfTheCache) {
  const Table table = tables(input("angles", {batch_, seq_, 4}));
  result(rotated(input("q", shape_), table), "y");
  result(rotated(input("k", {batch_, 1, seq_, 8}), table), "z");
  EXPECT_EQ(after(fuse_rotary_embedding),
            "_0 = Cos (angles)\n_1 = Mul (_0, _2)\n_3 = Sin (angles)\n_4 = Mul (_3, _5)\n"
            "_6 = Shape <start: int = 0, end: int = 2> (_1)\n"
            "_7 = ReduceProd <keepdims: int = 0> (_6)\n_8 = Range (_9, _7, _10)\n"
            "_11 = Reshape (_8, _6)\n_12 = Reshape (_1, _13)\n_14 = Reshape (_4, _15)\n"
            "y = com.microsoft.RotaryEmbedding <num_heads: int = 3> (q, _11, _12, _14)\n"
            "z = com.microsoft.RotaryEmbedding <num_heads: int = 1> (k, _11, _12, _14)\n");
  EXPECT_EQ(model_.domains.at("com.microsoft"), 1);
}

TEST_F(ContribRotaryEmbeddingTest, ACacheForAllSequencesIsNotExpanded) {
  result(rotated(input("x", shape_), tables(input("angles", {1, seq_, 4}))), "y");
  EXPECT_EQ(after(fuse_rotary_embedding),
            "_0 = Cos (angles)\n_1 = Mul (_0, _2)\n_3 = Sin (angles)\n_4 = Mul (_3, _5)\n"
            "_6 = Reshape (_1, _7)\n_8 = Reshape (_4, _9)\n"
            "y = com.microsoft.RotaryEmbedding <num_heads: int = 3> (x, _10, _6, _8)\n");
}

TEST_F(ContribRotaryEmbeddingTest, TheFirstElementsOfAHead) {
  Value* x = input("x", shape_);
  Value* first = rotated(slice(x, 0, 4), tables(input("angles", {1, seq_, 2})));
  result(op("Concat", {first, slice(x, 4, 8)}, shape_, {{"axis", -1}}), "y");
  const std::string text = after(fuse_rotary_embedding);
  EXPECT_NE(text.find("y = com.microsoft.RotaryEmbedding <rotary_embedding_dim: int = 4, "
                      "num_heads: int = 3> (x, "),
            std::string::npos)
      << text;
}

TEST_F(ContribRotaryEmbeddingTest, Neighbors) {
  const std::string text = neighbors(input("x", shape_), tables_of_neighbors(2));
  EXPECT_NE(text.find("y = com.microsoft.RotaryEmbedding <interleaved: int = 1, "),
            std::string::npos)
      << text;
}

TEST_F(ContribRotaryEmbeddingTest, TheStandardOperatorFromOpset23On) {
  model_.opset = 23;
  result(rotated(input("x", shape_), tables(input("angles", {batch_, seq_, 4}))), "y");
  EXPECT_NE(after(fuse_rotary_embedding).find("y = RotaryEmbedding (x, "), std::string::npos);
  EXPECT_TRUE(model_.domains.empty());
}

TEST_F(ContribRotaryEmbeddingTest, AnUnknownNumberOfHeadsStays) {
  Value* x = input("x", {batch_, Dim::symbol("heads"), seq_, 8});
  result(rotated(x, tables(input("angles", {batch_, seq_, 4}))), "y");
  EXPECT_EQ(after(fuse_rotary_embedding).find("RotaryEmbedding"), std::string::npos);
  EXPECT_TRUE(model_.domains.empty());
}

TEST_F(ContribRotaryEmbeddingTest, ABatchThatMayBeEmptyStays) {
  const Dim batch = Dim::fresh();
  Value* x = input("x", {batch, 3, seq_, 8});
  result(rotated(x, tables(input("angles", {batch, seq_, 4}))), "y");
  EXPECT_EQ(after(fuse_rotary_embedding).find("RotaryEmbedding"), std::string::npos);
}

TEST_F(ContribRotaryEmbeddingTest, AnglesThatDifferBetweenTheHalvesStay) {
  Value* angles = input("angles", {batch_, seq_, 4});
  Value* others = input("others", {batch_, seq_, 4});
  result(rotated(input("x", shape_), tables(angles, others)), "y");
  after(fuse_rotary_embedding);
  EXPECT_FALSE(changed_);
}

TEST_F(ContribRotaryEmbeddingTest, TablesOfAnotherBatchStay) {
  Value* angles = input("angles", {Dim::symbol("other"), seq_, 4});
  result(rotated(input("x", shape_), tables(angles)), "y");
  EXPECT_EQ(after(fuse_rotary_embedding).find("RotaryEmbedding"), std::string::npos);
}

}  // namespace
}  // namespace onnx_native::passes
