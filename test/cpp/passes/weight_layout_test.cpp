#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class WeightLayoutTest : public PassTest {
 protected:
  Value* turned(Value* matrix, Shape shape, onnx::Graph* graph = nullptr) {
    return op("Transpose", {matrix}, std::move(shape), {{"perm", Ints{1, 0}}}, matrix->dtype,
              graph);
  }
  Value* numbered(std::string_view name, const Ints& shape, DType dtype = DType::f32) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    std::vector<double> numbers;
    for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<double>(i));
    return graph_.add_initializer(name, make_tensor(dtype, shape, numbers));
  }
};

TEST_F(WeightLayoutTest, AMatrixOfProductsIsStoredTransposed) {
  Value* x = input("x", {batch_, 2, 3});
  Value* w = numbered("fc.weight", {2, 3});
  result(op("MatMul", {x, turned(w, {3, 2})}, {batch_, 2, 2}), "y");
  EXPECT_EQ(after(lay_out_weights), "y = MatMul (x, \"fc.weight.T\")\n");
  const TensorData& view = initializer("fc.weight.T");
  EXPECT_EQ(view.shape, (Ints{3, 2}));
  EXPECT_EQ(view.integers(), (Ints{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(lay_out_weights(model_), 0);
}

TEST_F(WeightLayoutTest, TheModulesLayoutStaysIfAskedFor) {
  model_.weights = WeightLayout::module;
  Value* x = input("x", {batch_, 2, 3});
  result(op("MatMul", {x, turned(numbered("w", {2, 3}), {3, 2})}, {batch_, 2, 2}), "y");
  after(lay_out_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(WeightLayoutTest, AStackOfMatrices) {
  Value* x = input("x", {4, batch_, 3});
  Value* w = numbered("experts", {4, 2, 3});
  Value* t = op("Transpose", {w}, {4, 3, 2}, {{"perm", Ints{0, 2, 1}}});
  result(op("MatMul", {x, t}, {4, batch_, 2}), "y");
  EXPECT_EQ(after(lay_out_weights), "y = MatMul (x, \"experts.mT\")\n");
  EXPECT_EQ(initializer("experts.mT").integer(7), 9);
}

TEST_F(WeightLayoutTest, AStackOfWhichAProductSelectsOneMatrix) {
  Value* x = input("x", {batch_, 3});
  Value* which = input("which", {1}, DType::i64);
  Value* w = numbered("experts", {4, 2, 3});
  Value* t = op("Transpose", {w}, {4, 3, 2}, {{"perm", Ints{0, 2, 1}}});
  Value* one = op("Gather", {t, which}, {1, 3, 2});
  result(op("MatMul", {x, op("Squeeze", {one, ints({0})}, {3, 2})}, {batch_, 2}), "y");
  EXPECT_EQ(after(lay_out_weights),
            "_0 = Gather (\"experts.mT\", which)\n_1 = Squeeze (_0, _2)\ny = MatMul (x, _1)\n");
}

TEST_F(WeightLayoutTest, ASelectedMatrixWithAnotherUseStays) {
  Value* x = input("x", {batch_, 3});
  Value* which = input("which", {}, DType::i64);
  Value* t =
      op("Transpose", {numbered("experts", {4, 2, 3})}, {4, 3, 2}, {{"perm", Ints{0, 2, 1}}});
  Value* one = op("Gather", {t, which}, {3, 2});
  result(op("MatMul", {x, one}, {batch_, 2}), "y");
  result(op("Neg", {one}, {3, 2}), "z");
  after(lay_out_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(WeightLayoutTest, AnotherOrderOfAxesStays) {
  Value* x = input("x", {2, batch_, 4});
  Value* t = op("Transpose", {numbered("w", {4, 2, 3})}, {2, 4, 3}, {{"perm", Ints{1, 0, 2}}});
  result(op("MatMul", {x, t}, {2, batch_, 3}), "y");
  after(lay_out_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(WeightLayoutTest, AGemmAloneKeepsTheMatrix) {
  Value* x = input("x", {batch_, 3});
  result(op("Gemm", {x, numbered("w", {2, 3})}, {batch_, 2}, {{"transB", 1}}), "y");
  after(lay_out_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(WeightLayoutTest, ProductsShareOneMatrix) {
  Value* x = input("x", {batch_, 2, 2});
  Value* flat = input("flat", {batch_, 2});
  Value* w = numbered("w", {2, 2});
  Value* once = op("MatMul", {x, turned(w, {2, 2})}, {batch_, 2, 2});
  result(op("MatMul", {once, turned(w, {2, 2})}, {batch_, 2, 2}), "y");
  result(op("Gemm", {flat, w}, {batch_, 2}, {{"transB", 1}, {"alpha", 2.0}}), "z");
  result(op("Gemm", {w, flat}, {2, batch_}, {{"transB", 1}}), "u");
  EXPECT_EQ(after(lay_out_weights),
            "_0 = MatMul (x, \"w.T\")\ny = MatMul (_0, \"w.T\")\n"
            "z = Gemm <alpha: float = 2.0> (flat, \"w.T\")\n"
            "u = Gemm <transB: int = 1, transA: int = 1> (\"w.T\", flat)\n");
  EXPECT_EQ(graph_.initializers.size(), 1u);
}

TEST_F(WeightLayoutTest, GemmsThatShareAMatrixDoNotTransposeIt) {
  Value* x = input("x", {batch_, 2});
  Value* w = numbered("w", {2, 2});
  Value* once = op("Gemm", {x, w}, {batch_, 2}, {{"transB", 1}});
  result(op("Gemm", {once, w}, {batch_, 2}, {{"transB", 1}}), "y");
  EXPECT_EQ(after(lay_out_weights), "_0 = Gemm (x, \"w.T\")\ny = Gemm (_0, \"w.T\")\n");
}

TEST_F(WeightLayoutTest, AMatrixOfIntegerProducts) {
  Value* w = graph_.add_initializer(
      "w", make_tensor(DType::i8, {2, 3}, std::vector<int64_t>{1, -2, 3, -4, 5, 6}));
  Value* t = op("Transpose", {w}, {3, 2}, {{"perm", Ints{1, 0}}}, DType::i8);
  Value* x = input("x", {batch_, 3}, DType::i8);
  result(op("MatMulInteger", {x, t}, {batch_, 2}, {}, DType::i32), "y");
  EXPECT_EQ(after(lay_out_weights), "y = MatMulInteger (x, \"w.T\")\n");
}

TEST_F(WeightLayoutTest, AnEmbeddingThatSharesTheMatrixGathersColumns) {
  Value* ids = input("ids", {batch_, seq_}, DType::i64);
  Value* w = numbered("w", {5, 3});
  Value* rows = op("Gather", {w, ids}, {batch_, seq_, 3}, {{"axis", 0}});
  result(op("MatMul", {rows, turned(w, {3, 5})}, {batch_, seq_, 5}), "y");
  EXPECT_EQ(after(lay_out_weights),
            "_0 = Reshape (ids, _1)\n"
            "_2 = Expand (_0, _3)\n"
            "_4 = GatherElements <axis: int = 1> (\"w.T\", _2)\n"
            "_5 = Transpose <perm: ints = [1, 0]> (_4)\n"
            "_6 = Shape (ids)\n"
            "_7 = Concat <axis: int = 0> (_6, _8)\n"
            "_9 = Reshape <allowzero: int = 1> (_5, _7)\n"
            "y = MatMul (_9, \"w.T\")\n");
}

TEST_F(WeightLayoutTest, OneRowAndOlderOpsetsGatherItWithGather) {
  for (const bool is_one : {true, false}) {
    if (!is_one) model_.final_opset = 13;
    Value* ids = input("ids", is_one ? Shape{} : Shape{batch_}, DType::i64);
    Value* w = numbered("w", {5, 3});
    Value* rows = op("Gather", {w, ids}, is_one ? Shape{3} : Shape{batch_, 3}, {{"axis", 0}});
    result(op("MatMul", {rows, turned(w, {3, 5})}, is_one ? Shape{5} : Shape{batch_, 5}), "y");
    EXPECT_NE(after(lay_out_weights).find("Gather <axis: int = 1>"), std::string::npos);
    graph_.outputs.clear();
  }
}

TEST_F(WeightLayoutTest, AnEmbeddingAloneStays) {
  Value* ids = input("ids", {batch_, seq_}, DType::i64);
  result(op("Gather", {numbered("w", {5, 3}), ids}, {batch_, seq_, 3}), "y");
  after(lay_out_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(WeightLayoutTest, TiedInitializersOverTheSameMemoryGoTogether) {
  Value* ids = input("ids", {batch_, seq_}, DType::i64);
  Value* a = numbered("a", {5, 3});
  Value* b = graph_.add_initializer("b", *a->constant);
  Value* rows = op("Gather", {a, ids}, {batch_, seq_, 3});
  result(op("MatMul", {rows, turned(b, {3, 5})}, {batch_, seq_, 5}), "y");
  EXPECT_EQ(after(lay_out_weights),
            "_0 = Reshape (ids, _1)\n"
            "_2 = Expand (_0, _3)\n"
            "_4 = GatherElements <axis: int = 1> (\"a.T\", _2)\n"
            "_5 = Transpose <perm: ints = [1, 0]> (_4)\n"
            "_6 = Shape (ids)\n"
            "_7 = Concat <axis: int = 0> (_6, _8)\n"
            "_9 = Reshape <allowzero: int = 1> (_5, _7)\n"
            "y = MatMul (_9, \"b.T\")\n");
}

TEST_F(WeightLayoutTest, OtherUsesKeepTheMatrix) {
  Value* x = input("x", {batch_, 3, 3});
  Value* w = numbered("w", {3, 3});
  Value* product = op("MatMul", {x, turned(w, {3, 3})}, {batch_, 3, 3});
  result(op("Add", {product, w}, {batch_, 3, 3}), "y");
  after(lay_out_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(WeightLayoutTest, AProductWithTheMatrixAsItIsKeepsIt) {
  Value* x = input("x", {batch_, 3, 3});
  Value* w = numbered("w", {3, 3});
  Value* product = op("MatMul", {x, turned(w, {3, 3})}, {batch_, 3, 3});
  result(op("MatMul", {product, w}, {batch_, 3, 3}), "y");
  after(lay_out_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(WeightLayoutTest, ATransposeWithAnotherUseStays) {
  Value* x = input("x", {batch_, 3, 3});
  Value* t = turned(numbered("w", {3, 3}), {3, 3});
  result(op("MatMul", {x, t}, {batch_, 3, 3}), "y");
  result(op("Relu", {t}, {3, 3}), "z");
  after(lay_out_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(WeightLayoutTest, ATransposeThatIsAnOutputStays) {
  Value* x = input("x", {batch_, 3, 3});
  Value* t = turned(numbered("w", {3, 3}), {3, 3});
  result(op("MatMul", {x, t}, {batch_, 3, 3}), "y");
  result(t, "z");
  after(lay_out_weights);
  EXPECT_FALSE(changed_);
}

TEST_F(WeightLayoutTest, ACastMatrix) {
  Value* x = input("x", {batch_, 2, 3});
  Value* w = numbered("w", {2, 3}, DType::bf16);
  Value* wide = op("Cast", {w}, {2, 3}, {{"to", DType::f32}});
  result(op("MatMul", {x, turned(wide, {3, 2})}, {batch_, 2, 2}), "y");
  EXPECT_EQ(after(lay_out_weights), "_0 = Cast <to: int = 1> (\"w.T\")\ny = MatMul (x, _0)\n");
}

TEST_F(WeightLayoutTest, AMatrixThatIsCastAfterTheTranspose) {
  Value* x = input("x", {batch_, 2, 3});
  Value* t = turned(numbered("w", {2, 3}, DType::bf16), {3, 2});
  Value* wide = op("Cast", {t}, {3, 2}, {{"to", DType::f32}});
  result(op("MatMul", {x, wide}, {batch_, 2, 2}), "y");
  EXPECT_EQ(after(lay_out_weights), "_0 = Cast <to: int = 1> (\"w.T\")\ny = MatMul (x, _0)\n");
}

TEST_F(WeightLayoutTest, AQuantizedMatrix) {
  Value* x = input("x", {batch_, 2, 3});
  Value* w = numbered("w", {2, 3}, DType::i8);
  Value* scales = numbered("scales", {2});
  Value* plain = op("DequantizeLinear", {w, scales}, {2, 3}, {{"axis", 0}});
  result(op("MatMul", {x, turned(plain, {3, 2})}, {batch_, 2, 2}), "y");
  EXPECT_EQ(after(lay_out_weights),
            "_0 = DequantizeLinear <axis: int = 1> (\"w.T\", scales)\ny = MatMul (x, _0)\n");
}

TEST_F(WeightLayoutTest, AMatrixThatASubgraphUses) {
  Value* x = input("x", {batch_, 2, 3});
  Value* condition = input("condition", {}, DType::boolean);
  Value* w = numbered("w", {3, 3});
  auto then_body = std::make_shared<onnx::Graph>(&graph_);
  auto else_body = std::make_shared<onnx::Graph>(&graph_);
  Value* product = op("MatMul", {x, turned(w, {3, 3}, then_body.get())}, {batch_, 2, 3}, {},
                      DType::f32, then_body.get());
  then_body->outputs.push_back(product);
  else_body->outputs.push_back(op("Relu", {x}, {batch_, 2, 3}, {}, DType::f32, else_body.get()));
  result(op("If", {condition}, {batch_, 2, 3},
            {{"then_branch", then_body}, {"else_branch", else_body}}),
         "y");
  EXPECT_NE(after(lay_out_weights).find("MatMul (x, \"w.T\")"), std::string::npos);
  EXPECT_EQ(graph_.initializers.size(), 1u);
}

TEST_F(WeightLayoutTest, AMatrixThatASubgraphAlsoUsesOtherwiseStays) {
  Value* x = input("x", {batch_, 3, 3});
  Value* condition = input("condition", {}, DType::boolean);
  Value* w = numbered("w", {3, 3});
  result(op("MatMul", {x, turned(w, {3, 3})}, {batch_, 3, 3}), "y");
  auto then_body = std::make_shared<onnx::Graph>(&graph_);
  auto else_body = std::make_shared<onnx::Graph>(&graph_);
  then_body->outputs.push_back(op("Neg", {w}, {3, 3}, {}, DType::f32, then_body.get()));
  else_body->outputs.push_back(op("Relu", {w}, {3, 3}, {}, DType::f32, else_body.get()));
  result(op("If", {condition}, {3, 3}, {{"then_branch", then_body}, {"else_branch", else_body}}),
         "z");
  after(lay_out_weights);
  EXPECT_FALSE(changed_);
}

// Two models of one matrix: the first one stores it transposed.
class SharedLayoutTest : public WeightLayoutTest {
 protected:
  SharedLayoutTest() {
    onnx::Graph& graph = *first_.graph;
    Value* x = graph.add_input("x", DType::f32, Shape{batch_, 2, 3});
    Value* matrix = graph.add_initializer("w", matrix_);
    Value* product =
        op("MatMul", {x, turned(matrix, {3, 4}, &graph)}, {batch_, 2, 4}, {}, DType::f32, &graph);
    product->name = "y";
    product->named = true;
    graph.outputs = {product};
    lay_out_weights(first_);
    eliminate_dead_code(first_);
  }
  // Returns the nodes of the second model.
  std::string after_sharing() {
    onnx::Model* const models[] = {&first_, &model_};
    changed_ = share_layouts(models) != 0;
    onnx::verify(model_, "sharing");
    EXPECT_EQ(share_layouts(models), 0);
    return nodes();
  }

  const TensorData matrix_ = make_tensor(DType::f32, {4, 3}, std::vector<double>(12, 0.5));
  onnx::Model first_;
};

TEST_F(SharedLayoutTest, AnEmbeddingGathersColumns) {
  Value* ids = input("ids", {batch_}, DType::i64);
  Value* w = graph_.add_initializer("embedding.weight", matrix_);
  result(op("Gather", {w, ids}, {batch_, 3}), "y");
  EXPECT_NE(after_sharing().find("GatherElements <axis: int = 1> (\"embedding.weight.T\""),
            std::string::npos);
  EXPECT_EQ(initializer("embedding.weight.T").data, matrix_.data);
}

TEST_F(SharedLayoutTest, AGemmTakesTheTranspose) {
  Value* x = input("x", {batch_, 3});
  Value* w = graph_.add_initializer("w", matrix_);
  result(op("Gemm", {x, w}, {batch_, 4}, {{"transB", int64_t{1}}}), "y");
  EXPECT_EQ(after_sharing(), "y = Gemm (x, \"w.T\")\n");
}

TEST_F(SharedLayoutTest, AnotherUseTakesATranspose) {
  Value* x = input("x", {batch_, 4});
  Value* w = graph_.add_initializer("w", matrix_);
  result(op("MatMul", {x, op("Neg", {w}, {4, 3})}, {batch_, 3}), "y");
  EXPECT_EQ(after_sharing(),
            "val_Transpose = Transpose <perm: ints = [1, 0]> (\"w.T\")\n"
            "val_Neg = Neg (val_Transpose)\ny = MatMul (x, val_Neg)\n");
}

TEST_F(SharedLayoutTest, OtherMemoryStays) {
  Value* x = input("x", {batch_, 3});
  result(op("Gemm", {x, numbered("w", {4, 3})}, {batch_, 4}, {{"transB", int64_t{1}}}), "y");
  after_sharing();
  EXPECT_FALSE(changed_);
}

TEST_F(SharedLayoutTest, AnOutputStays) {
  Value* w = graph_.add_initializer("w", matrix_);
  graph_.outputs = {w};
  after_sharing();
  EXPECT_FALSE(changed_);
}

TEST_F(SharedLayoutTest, TheModulesLayoutStaysIfAskedFor) {
  model_.weights = WeightLayout::module;
  Value* x = input("x", {batch_, 3});
  Value* w = graph_.add_initializer("w", matrix_);
  result(op("Gemm", {x, w}, {batch_, 4}, {{"transB", int64_t{1}}}), "y");
  after_sharing();
  EXPECT_FALSE(changed_);
}

}  // namespace
}  // namespace onnx_native::passes
