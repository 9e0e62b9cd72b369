#include <cmath>
#include <limits>

#include "onnx/typing.h"
#include "passes/evaluate.h"
#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

TEST_F(PassTest, ConstantExpressionsFold) {
  Value* x = input("x", {6});
  Value* sum = op("Add", {ints({1, 2}), ints({3})}, {2}, {}, DType::i64);
  Value* shape = op("Concat", {sum, ints({7})}, {3}, {{"axis", 0}}, DType::i64);
  result(op("Expand", {x, shape}, {4, 5, 7}), "y");
  after(fold_constants);
  EXPECT_EQ(constant_input(graph_.outputs[0], 1), (Ints{4, 5, 7}));
  EXPECT_EQ(graph_.nodes.size(), 1u);
}

TEST_F(PassTest, KnownContentsFold) {
  Value* x = input("x", {batch_, 3, 4});
  Value* shape = op("Shape", {x}, {2}, {{"start", 1}}, DType::i64);
  onnx::Typing::set_contents(*shape, Shape{3, 4});
  result(op("Reshape", {x, shape}, {3, 4}), "y");
  after(fold_constants);
  EXPECT_EQ(constant_input(graph_.outputs[0], 1), (Ints{3, 4}));
}

TEST_F(PassTest, ATensorWithoutElementsIsAConstant) {
  Value* x = input("x", {batch_, 0, 3});
  Value* none = op("Slice", {input("y", {batch_, 4}), ints({0}), ints({0}), ints({0})}, {0, 4});
  Value* row = op("MatMul", {none, weight("w", {4, 2})}, {0, 2});
  result(op("Concat", {row, input("z", {5, 2})}, {5, 2}, {{"axis", 0}}), "joined");
  result(op("Relu", {x}, {batch_, 0, 3}), "of the batch");
  after(fold_constants);
  const Value* part = graph_.outputs[0]->producer->inputs[0];
  ASSERT_TRUE(part->is_constant());
  EXPECT_EQ(part->constant->shape, (Ints{0, 2}));
  EXPECT_EQ(graph_.nodes.size(), 2u);
}

TEST_F(PassTest, UnknownContentsAndResultsStay) {
  Value* x = input("x", {batch_, 3});
  Value* shape = op("Shape", {x}, {2}, {}, DType::i64);
  onnx::Typing::set_contents(*shape, Shape{batch_, 3});
  result(op("Add", {shape, ints({1})}, {2}, {}, DType::i64), "y");
  result(op("Add", {ints({1}), ints({1})}, {1}, {}, DType::i64), "z");
  after(fold_constants);
  EXPECT_FALSE(changed_);
}

TEST_F(PassTest, BigWeightsAreNotFolded) {
  Value* turned = op("Transpose", {weight("w", {64, 32})}, {32, 64});
  result(op("MatMul", {input("x", {2, 32}), turned}, {2, 64}), "y");
  after(fold_constants);
  EXPECT_FALSE(changed_);
}

TEST_F(PassTest, ASmallQuantizedMatrixStaysQuantized) {
  Value* matrix = graph_.add_initializer(
      "w", make_tensor(DType::i8, {2, 2}, std::vector<int64_t>{1, -2, 3, -4}));
  result(op("MatMul", {input("x", {batch_, 2}), op("Cast", {matrix}, {2, 2}, {{"to", 1}})},
            {batch_, 2}),
         "y");
  after(fold_constants);
  EXPECT_FALSE(changed_);
}

TEST_F(PassTest, ALargeResultFoldsBesideLargerWeights) {
  result(weight("other", {200, 1000}), "kept");
  Value* table = weight("table", {30, 4});
  Value* bias = op("Gather", {table, ints(Ints(900, 7))}, {900, 4}, {{"axis", 0}});
  Value* turned = op("Transpose", {bias}, {4, 900}, {{"perm", Ints{1, 0}}});
  result(op("Add", {input("x", {4, 900}), turned}, {4, 900}), "y");
  EXPECT_EQ(after(fold_constants), "y = Add (x, _0)\n");
}

TEST_F(PassTest, ALargeResultBesideSmallWeightsStays) {
  Value* table = weight("table", {30, 4});
  Value* bias = op("Gather", {table, ints(Ints(900, 7))}, {900, 4}, {{"axis", 0}});
  result(op("Add", {input("x", {900, 4}), bias}, {900, 4}), "y");
  after(fold_constants);
  EXPECT_FALSE(changed_);
}

TEST_F(PassTest, ALargeRepetitionStays) {
  result(weight("other", {200, 1000}), "kept");
  Value* wide = op("Expand", {weight("w", {64}), ints({64, 64})}, {64, 64});
  result(op("Add", {input("x", {64, 64}), wide}, {64, 64}), "y");
  after(fold_constants);
  EXPECT_FALSE(changed_);
}

TEST_F(PassTest, ALargeWeightIsNotCopied) {
  result(weight("other", {2000, 1000}), "kept");
  Value* shifted = op("Add", {weight("w", {200, 100}), number(1)}, {200, 100});
  result(op("Add", {input("x", {200, 100}), shifted}, {200, 100}), "y");
  after(fold_constants);
  EXPECT_FALSE(changed_);
}

TEST_F(PassTest, AConstantOperatorBecomesAnInitializer) {
  const Ints two{2};
  Value* two_tensor =
      op("Constant", {}, {1},
         {{"value", std::make_shared<TensorData>(make_tensor(DType::i64, {1}, two))}}, DType::i64);
  result(op("Squeeze", {input("x", {4, 5, 1}), two_tensor}, {4, 5}), "y");
  EXPECT_EQ(after(fold_constants), "y = Squeeze (x, _0)\n");
}

class EvaluateTest : public PassTest {
 protected:
  // Returns the elements of the operator applied to constants; empty if it is not folded.
  std::vector<double> run(std::string_view op_type, Values inputs, Attributes attributes = {},
                          Shape shape = {}) {
    Value* output = op(op_type, inputs, std::move(shape), std::move(attributes));
    std::vector<const TensorData*> data;
    for (const Value* input : inputs) data.push_back(input ? input->constant : nullptr);
    const auto folded = evaluate(*output->producer, data, 1024);
    std::vector<double> numbers;
    for (int64_t i = 0; folded && i < folded->numel(); ++i) numbers.push_back(folded->number(i));
    shape_ = folded ? folded->shape : Ints{-1};
    dtype_ = folded ? folded->dtype : DType::undefined;
    return numbers;
  }
  Value* matrix() {
    const std::vector<double> numbers{0, 1, 2, 3, 4, 5};
    return graph_.add_initializer("", make_tensor(DType::f32, {2, 3}, numbers));
  }
  using Numbers = std::vector<double>;

  Ints shape_;
  DType dtype_ = DType::undefined;
};

TEST_F(EvaluateTest, Arithmetic) {
  EXPECT_EQ(run("Sub", {ints({5, 7}), ints({2})}), (Numbers{3, 5}));
  EXPECT_EQ(run("Div", {ints({-7, 7}), ints({2})}), (Numbers{-3, 3}));
  EXPECT_EQ(run("Div", {ints({1}), ints({0})}), Numbers());
  EXPECT_EQ(run("Mul", {ints({100}, DType::i8), ints({2}, DType::i8)}), Numbers{-56});
  EXPECT_EQ(run("Max", {ints({1, 5}), ints({3}), ints({4, 4})}), (Numbers{4, 5}));
  EXPECT_EQ(run("Div", {number(1), number(3)})[0], static_cast<double>(1.0F / 3.0F));
  EXPECT_EQ(run("Sqrt", {number(2)})[0], static_cast<double>(std::sqrt(2.0F)));
  EXPECT_EQ(run("Neg", {ints({3})}), Numbers{-3});
  EXPECT_EQ(run("Reciprocal", {number(4)}), Numbers{0.25});
  EXPECT_EQ(run("Exp", {number(0)}), Numbers{1});
  EXPECT_EQ(run("Log", {number(1)}), Numbers{0});
  EXPECT_EQ(run("Sin", {number(0)}), Numbers{0});
  EXPECT_EQ(run("Cos", {number(0)}), Numbers{1});
  EXPECT_EQ(run("Pow", {number(3), number(2)}), Numbers{9});
  const Attributes fmod{{"fmod", 1}};
  EXPECT_EQ(run("Mod", {number(-5.5), number(2)}, fmod), Numbers{-1.5});
  EXPECT_EQ(run("Mod", {number(5.5), number(-2)}, fmod), Numbers{1.5});
  EXPECT_TRUE(std::isnan(run("Mod", {number(1), number(0)}, fmod).at(0)));
  EXPECT_EQ(run("Mod", {number(5.5), number(2)}), Numbers());  // needs fmod
  EXPECT_EQ(run("Mod", {ints({-5, 5}), ints({3})}), (Numbers{1, 2}));
}

TEST_F(EvaluateTest, Functions) {
  EXPECT_EQ(run("Relu", {matrix()}), (Numbers{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(run("Relu", {number(-2)}), Numbers{0});
  EXPECT_EQ(run("Relu", {ints({-2})}), Numbers());
  EXPECT_EQ(run("Round", {number(2.5)}), Numbers{2});
  EXPECT_EQ(run("Sign", {number(-2.5)}), Numbers{-1});
  EXPECT_EQ(run("Sign", {number(0)}), Numbers{0});
  EXPECT_TRUE(std::isnan(run("Sign", {number(NAN)}).at(0)));
  EXPECT_EQ(run("Sign", {ints({-7, 0, 7})}), (Numbers{-1, 0, 1}));
  EXPECT_EQ(run("Sigmoid", {number(0)}), Numbers{0.5});
  EXPECT_EQ(run("Tanh", {number(0)}), Numbers{0});
  EXPECT_EQ(run("Clip", {matrix(), number(1), number(3)}), (Numbers{1, 1, 2, 3, 3, 3}));
  EXPECT_EQ(run("Clip", {matrix(), nullptr, number(3)}), (Numbers{0, 1, 2, 3, 3, 3}));
  EXPECT_EQ(run("Clip", {ints({-7, 7}), ints({0})}), (Numbers{0, 7}));
}

TEST_F(EvaluateTest, ComparisonsAndLogic) {
  EXPECT_EQ(run("Less", {ints({1, 3}), ints({2})}), (Numbers{1, 0}));
  EXPECT_EQ(dtype_, DType::boolean);
  Value* mask = ints({1, 0}, DType::boolean);
  EXPECT_EQ(run("Not", {mask}), (Numbers{0, 1}));
  EXPECT_EQ(run("And", {mask, ints({1, 1}, DType::boolean)}), (Numbers{1, 0}));
  EXPECT_EQ(run("Where", {mask, ints({7}), ints({8, 9})}), (Numbers{7, 9}));
}

TEST_F(EvaluateTest, Casts) {
  EXPECT_EQ(run("Cast", {number(-2.7)}, {{"to", DType::i64}}), Numbers{-2});
  EXPECT_EQ(run("Cast", {number(NAN)}, {{"to", DType::i64}}), Numbers());
  EXPECT_EQ(run("Cast", {number(300)}, {{"to", DType::u8}}), Numbers());
  EXPECT_EQ(run("Cast", {ints({300})}, {{"to", DType::u8}}), Numbers{44});
  EXPECT_EQ(run("Cast", {ints({0, 2})}, {{"to", DType::boolean}}), (Numbers{0, 1}));
}

TEST_F(EvaluateTest, Indexing) {
  EXPECT_EQ(run("Gather", {matrix(), ints({2, -3})}, {{"axis", 1}}), (Numbers{2, 0, 5, 3}));
  EXPECT_EQ(run("Gather", {matrix(), ints({2})}, {{"axis", 0}}), Numbers());
  EXPECT_EQ(run("Transpose", {matrix()}), (Numbers{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(run("Concat", {matrix(), matrix()}, {{"axis", 1}}),
            (Numbers{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(run("Reshape", {matrix(), ints({3, -1})}, {}, {3, 2}), (Numbers{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(shape_, (Ints{3, 2}));
  EXPECT_EQ(run("Expand", {ints({1, 2}), ints({2, 1})}), (Numbers{1, 2, 1, 2}));
}

TEST_F(EvaluateTest, Slices) {
  Value* line = ints({0, 1, 2, 3, 4});
  EXPECT_EQ(run("Slice", {line, ints({1}), ints({100})}), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(run("Slice", {line, ints({-2}), ints({5})}), (Numbers{3, 4}));
  EXPECT_EQ(run("Slice", {line, ints({0}), ints({5}), ints({0}), ints({2})}), (Numbers{0, 2, 4}));
  EXPECT_EQ(run("Slice", {line, ints({-1}), ints({INT64_MIN}), ints({0}), ints({-2})}),
            (Numbers{4, 2, 0}));
  EXPECT_EQ(run("Slice", {matrix(), ints({1}), ints({3}), ints({-1})}), (Numbers{1, 2, 4, 5}));
}

TEST_F(EvaluateTest, Makers) {
  EXPECT_EQ(run("Range", {number(0, DType::i64), number(7, DType::i64), number(3, DType::i64)}),
            (Numbers{0, 3, 6}));
  EXPECT_EQ(run("Range", {number(0), number(1), number(0.1)}), Numbers());
  EXPECT_EQ(run("ConstantOfShape", {ints({2, 1})}), (Numbers{0, 0}));
  EXPECT_EQ(run("ConstantOfShape", {ints({2000})}), Numbers());
}

TEST_F(EvaluateTest, Reductions) {
  const Ints numbers{1, 2, 3, 4, 5, 6};
  Value* table = graph_.add_initializer("", make_tensor(DType::i64, {2, 3}, numbers));
  EXPECT_EQ(run("ReduceSum", {table, ints({0})}), (Numbers{5, 7, 9}));
  EXPECT_EQ(shape_, (Ints{1, 3}));
  EXPECT_EQ(run("ReduceProd", {table, ints({-1})}, {{"keepdims", 0}}), (Numbers{6, 120}));
  EXPECT_EQ(shape_, (Ints{2}));
  EXPECT_EQ(run("ReduceMax", {table}), Numbers{6});
  EXPECT_EQ(run("ReduceMin", {matrix(), ints({1})}), (Numbers{0, 3}));
  EXPECT_EQ(run("ReduceSum", {matrix()}), Numbers{15});
  EXPECT_EQ(run("ReduceMean", {matrix(), ints({1})}), (Numbers{1, 4}));
  EXPECT_EQ(run("ReduceSumSquare", {matrix(), ints({1})}), (Numbers{5, 50}));
  EXPECT_EQ(run("ReduceL2", {number(-3)}), Numbers{3});
  EXPECT_EQ(run("ReduceMean", {table}), Numbers());
  EXPECT_EQ(run("ReduceSum", {number(3, DType::f64)}), Numbers());  // depends on the order
  Value* none = graph_.add_initializer("", make_tensor(DType::f64, {2, 0}, Ints()));
  EXPECT_EQ(run("ReduceSum", {none, ints({1})}), (Numbers{0, 0}));
  EXPECT_EQ(run("ReduceProd", {none}), Numbers{1});
  EXPECT_EQ(run("ReduceMean", {none, ints({1})}), Numbers());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(run("ReduceMax", {none, ints({1})}), (Numbers{-kInfinity, -kInfinity}));
  EXPECT_EQ(run("ReduceMin", {none}), Numbers{kInfinity});
  Value* no_bytes = graph_.add_initializer("", make_tensor(DType::u8, {0}, Ints()));
  EXPECT_EQ(run("ReduceMin", {no_bytes}), Numbers{255});
  Value* no_truths = graph_.add_initializer("", make_tensor(DType::boolean, {0}, Ints()));
  EXPECT_EQ(run("ReduceMin", {no_truths}), Numbers{1});
  EXPECT_EQ(run("ReduceMax", {no_truths}), Numbers{0});
}

TEST_F(EvaluateTest, Products) {
  Value* table =
      graph_.add_initializer("", make_tensor(DType::i64, {2, 3}, Ints{1, 2, 3, 4, 5, 6}));
  Value* ones = ints({1, 1, 1});
  EXPECT_EQ(run("MatMul", {table, ones}), (Numbers{6, 15}));
  EXPECT_EQ(shape_, (Ints{2}));
  EXPECT_EQ(run("MatMul", {ints({1, 10}), table}), (Numbers{41, 52, 63}));
  EXPECT_EQ(shape_, (Ints{3}));
  EXPECT_EQ(run("MatMul", {ones, ones}), Numbers{3});
  EXPECT_EQ(shape_, Ints());
  Value* rows = graph_.add_initializer("", make_tensor(DType::i64, {2, 1, 2}, Ints{1, 0, 0, 2}));
  EXPECT_EQ(run("MatMul", {rows, table}), (Numbers{1, 2, 3, 8, 10, 12}));
  EXPECT_EQ(shape_, (Ints{2, 1, 3}));
  EXPECT_EQ(run("MatMul", {matrix(), matrix()}), Numbers());
  Value* turned =
      graph_.add_initializer("", make_tensor(DType::f32, {3, 2}, Numbers{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(run("MatMul", {matrix(), turned}), (Numbers{5, 14, 14, 50}));
  EXPECT_EQ(run("Gemm", {matrix(), matrix(), number(1)},
                {{"transB", 1}, {"alpha", 2.0F}, {"beta", 3.0F}}),
            (Numbers{13, 31, 31, 103}));
  EXPECT_EQ(run("Gemm", {matrix(), matrix()}, {{"transA", 1}}),
            (Numbers{9, 12, 15, 12, 17, 22, 15, 22, 29}));
  Value* many = graph_.add_initializer("", make_tensor(DType::f32, {1, 400}, Numbers(400, 1)));
  Value* wider = graph_.add_initializer("", make_tensor(DType::f32, {400, 400}, Numbers(160000)));
  EXPECT_EQ(run("MatMul", {many, wider}), Numbers());  // takes long
  Value* wide = graph_.add_initializer("", make_tensor(DType::f32, {2, 0}, Ints()));
  Value* high = graph_.add_initializer("", make_tensor(DType::f32, {0, 1}, Ints()));
  EXPECT_EQ(run("MatMul", {wide, high}), (Numbers{0, 0}));
  EXPECT_EQ(shape_, (Ints{2, 1}));
}

TEST_F(EvaluateTest, AFloatProductIsRoundedOnce) {
  // Sums in float32 would lose the ones.
  const Numbers terms{16777216, 1, 1, 1, -16777216};
  Value* row = graph_.add_initializer("", make_tensor(DType::f32, {1, 5}, terms));
  Value* ones = graph_.add_initializer("", make_tensor(DType::f32, {5, 1}, Numbers(5, 1)));
  EXPECT_EQ(run("MatMul", {row, ones}), Numbers{3});
  Value* wide = graph_.add_initializer("", make_tensor(DType::f64, {1, 1}, Numbers{2}));
  EXPECT_EQ(run("MatMul", {wide, wide}), Numbers());  // depends on the order
}

TEST_F(EvaluateTest, Convolutions) {
  Value* image = graph_.add_initializer("", make_tensor(DType::f32, {1, 2, 3, 3},
                                                        Numbers{1, 2, 3, 4, 5, 6, 7, 8, 9,  //
                                                                0, 1, 0, 1, 0, 1, 0, 1, 0}));
  Value* kernel = graph_.add_initializer(
      "", make_tensor(DType::f32, {1, 2, 2, 2}, Numbers{1, 0, 0, 1, 0, 10, 10, 0}));
  Value* bias = graph_.add_initializer("", make_tensor(DType::f32, {1}, Numbers{0.5}));
  EXPECT_EQ(run("Conv", {image, kernel, bias}, {}, {1, 1, 2, 2}), (Numbers{26.5, 8.5, 12.5, 34.5}));
  EXPECT_EQ(run("Conv", {image, kernel}, {{"pads", Ints{1, 0, 0, 0}}, {"strides", Ints{2, 1}}},
                {1, 1, 2, 2}),
            (Numbers{2, 13, 12, 34}));
  EXPECT_EQ(run("Conv", {image, kernel}, {{"dilations", Ints{2, 2}}}, {1, 1, 1, 1}), Numbers{10});
  Value* of_groups =
      graph_.add_initializer("", make_tensor(DType::f32, {2, 1, 1, 1}, Numbers{2, 3}));
  EXPECT_EQ(run("Conv", {image, of_groups}, {{"group", 2}, {"strides", Ints{2, 2}}}, {1, 2, 2, 2}),
            (Numbers{2, 6, 14, 18, 0, 0, 0, 0}));
  const Attributes same{{"auto_pad", std::string("SAME_UPPER")}};
  EXPECT_EQ(run("Conv", {image, kernel}, same, {1, 1, 3, 3}), Numbers());
}

}  // namespace
}  // namespace onnx_native::passes
