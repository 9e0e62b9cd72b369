#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

TEST_F(PassTest, EqualNodesBecomeOne) {
  Value* x = input("x", {batch_, 4});
  Value* a = op("Softmax", {x}, {batch_, 4}, {{"axis", 1}});
  Value* b = op("Softmax", {x}, {batch_, 4}, {{"axis", 1}});
  Value* c = op("Relu", {a}, {batch_, 4});
  Value* d = op("Relu", {b}, {batch_, 4});
  result(op("Add", {c, d}, {batch_, 4}), "y");
  EXPECT_EQ(after(eliminate_common_subexpressions),
            "_0 = Softmax <axis: int = 1> (x)\n_1 = Relu (_0)\ny = Add (_1, _1)\n");
}

TEST_F(PassTest, EqualInitializersBecomeOneUnlessNamed) {
  Value* x = input("x", {2});
  Value* a = op("Add", {x, number(1)}, {2});
  Value* b = op("Add", {a, number(1)}, {2});
  Value* c = op("Add", {b, weight("a", {2})}, {2});
  result(op("Add", {c, weight("b", {2})}, {2}), "y");
  after(eliminate_common_subexpressions);
  EXPECT_EQ(graph_.initializers.size(), 3u);
}

TEST_F(PassTest, AResultKeepsItsName) {
  Value* x = input("x", {2});
  Value* a = op("Relu", {x}, {2});
  Value* b = op("Relu", {x}, {2});
  result(op("Neg", {a}, {2}), "z");
  result(b, "y");
  EXPECT_EQ(after(eliminate_common_subexpressions), "y = Relu (x)\nz = Neg (y)\n");
}

TEST_F(PassTest, DifferentOrRandomNodesStay) {
  Value* x = input("x", {batch_, 4});
  result(op("Softmax", {x}, {batch_, 4}, {{"axis", 0}}), "a");
  result(op("Softmax", {x}, {batch_, 4}, {{"axis", 1}}), "b");
  result(op("Bernoulli", {x}, {batch_, 4}), "c");
  result(op("Bernoulli", {x}, {batch_, 4}), "d");
  result(op("Sub", {x, graph_.outputs[0]}, {batch_, 4}), "e");
  result(op("Sub", {graph_.outputs[0], x}, {batch_, 4}), "f");
  after(eliminate_common_subexpressions);
  EXPECT_FALSE(changed_);
  EXPECT_EQ(graph_.nodes.size(), 6u);
}

TEST_F(PassTest, TwoEqualResultsBothStay) {
  Value* x = input("x", {2});
  result(op("Relu", {x}, {2}), "a");
  result(op("Relu", {x}, {2}), "b");
  EXPECT_EQ(after(eliminate_common_subexpressions), "a = Relu (x)\nb = Relu (x)\n");
}

}  // namespace
}  // namespace onnx_native::passes
