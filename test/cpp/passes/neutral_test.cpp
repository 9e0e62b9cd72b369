#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class NeutralTest : public PassTest {
 protected:
  // Returns what is left of op(x, y) on values of shape [batch, 4].
  std::string after_binary(std::string_view op_type, Value* x, Value* y) {
    result(op("Relu", {op(op_type, {x, y}, {batch_, 4}, {}, x->dtype)}, {batch_, 4}, {}, x->dtype),
           "y");
    return after(remove_neutral_arithmetic);
  }
  Value* x(DType dtype = DType::f32) { return input("x", {batch_, 4}, dtype); }
};

TEST_F(NeutralTest, TimesOneGoes) {
  EXPECT_EQ(after_binary("Mul", number(1), x()), "y = Relu (x)\n");
}

TEST_F(NeutralTest, DividedByOneGoes) {
  EXPECT_EQ(after_binary("Div", x(), number(1)), "y = Relu (x)\n");
}

TEST_F(NeutralTest, OneDividedStays) {
  after_binary("Div", number(1), x());
  EXPECT_FALSE(changed_);
}

TEST_F(NeutralTest, PlusZeroOfIntegersGoes) {
  EXPECT_EQ(after_binary("Add", x(DType::i32), ints({0}, DType::i32)), "y = Relu (x)\n");
}

TEST_F(NeutralTest, PlusZeroOfFloatsStays) {  // -0.0 + 0.0 is 0.0
  after_binary("Add", x(), number(0));
  EXPECT_FALSE(changed_);
}

TEST_F(NeutralTest, BoundsOfNarrowIntegersGo) {
  EXPECT_EQ(after_binary("Max", x(DType::i8), ints({-128}, DType::i8)), "y = Relu (x)\n");
}

TEST_F(NeutralTest, OtherBoundsStay) {
  after_binary("Min", x(DType::i8), ints({126}, DType::i8));
  EXPECT_FALSE(changed_);
}

TEST_F(NeutralTest, MinusZeroGoes) {
  EXPECT_EQ(after_binary("Sub", x(), number(0)), "y = Relu (x)\n");
}

TEST_F(NeutralTest, ZeroMinusStays) {
  after_binary("Sub", number(0), x());
  EXPECT_FALSE(changed_);
}

TEST_F(NeutralTest, AFactorThatWidensTheResultStays) {
  Value* narrow = input("x", {1, 4});
  Value* ones = graph_.add_initializer(
      "", make_tensor(DType::f32, {3, 1}, std::span<const double>(std::vector<double>(3, 1.0))));
  result(op("Mul", {narrow, ones}, {3, 4}), "y");
  after(remove_neutral_arithmetic);
  EXPECT_FALSE(changed_);
}

TEST_F(NeutralTest, AndTrueGoes) {
  Value* a = input("a", {4}, DType::boolean);
  Value* both = op("And", {ints({1}, DType::boolean), a}, {4}, {}, DType::boolean);
  result(op("Not", {both}, {4}, {}, DType::boolean), "y");
  EXPECT_EQ(after(remove_neutral_arithmetic), "y = Not (a)\n");
}

TEST_F(NeutralTest, WhereOfAConstantConditionIsOneOfThem) {
  Value* a = input("a", {4});
  Value* chosen = op("Where", {ints({0}, DType::boolean), number(2), a}, {4});
  result(op("Relu", {chosen}, {4}), "y");
  EXPECT_EQ(after(remove_neutral_arithmetic), "y = Relu (a)\n");
}

TEST_F(NeutralTest, WhereOfARepeatedConstantIsOneOfThem) {
  Value* a = input("a", {batch_, 4});
  Value* sizes = op("Shape", {a}, {2}, {}, DType::i64);
  Value* open = op("Expand", {ints({1}, DType::boolean), sizes}, {batch_, 4}, {}, DType::boolean);
  Value* closed = op("Not", {open}, {batch_, 4}, {}, DType::boolean);
  Value* chosen = op("Where", {closed, number(2), a}, {batch_, 4});
  result(op("Relu", {chosen}, {batch_, 4}), "y");
  EXPECT_EQ(after(remove_neutral_arithmetic), "y = Relu (a)\n");
}

TEST_F(NeutralTest, WhereOfANegationTakesTheOtherOneFirst) {
  Value* condition = input("c", {4}, DType::boolean);
  Value* negated = op("Not", {condition}, {4}, {}, DType::boolean);
  result(op("Where", {negated, input("a", {4}), number(2)}, {4}), "y");
  EXPECT_EQ(after(remove_neutral_arithmetic), "y = Where (c, _0, a)\n");
}

TEST_F(NeutralTest, WhereOfANegationKeepsNegativeZeros) {
  Value* condition = input("c", {4}, DType::boolean);
  Value* negated = op("Not", {condition}, {4}, {}, DType::boolean);
  result(op("Where", {negated, input("a", {4}), input("b", {4})}, {4}), "y");
  after(remove_neutral_arithmetic);
  EXPECT_FALSE(changed_);
}

TEST_F(NeutralTest, WhereThatWidensItsResultStays) {
  Value* a = input("a", {1});
  Value* chosen = op("Where", {ints({1, 1}, DType::boolean), a, number(2)}, {2});
  result(op("Relu", {chosen}, {2}), "y");
  after(remove_neutral_arithmetic);
  EXPECT_FALSE(changed_);
}

TEST_F(NeutralTest, TimesReciprocalIsADivision) {
  Value* a = x();
  Value* inverse = op("Reciprocal", {input("b", {batch_, 1})}, {batch_, 1});
  result(op("Mul", {inverse, a}, {batch_, 4}), "y");
  EXPECT_EQ(after(remove_neutral_arithmetic), "y = Div (x, b)\n");
}

TEST_F(NeutralTest, AReciprocalUsedTwiceStays) {
  Value* inverse = op("Reciprocal", {input("b", {batch_, 1})}, {batch_, 1});
  result(op("Mul", {x(), inverse}, {batch_, 4}), "y");
  result(op("Relu", {inverse}, {batch_, 1}), "z");
  after(remove_neutral_arithmetic);
  EXPECT_FALSE(changed_);
}

}  // namespace
}  // namespace onnx_native::passes
