#include "passes/match.h"

#include "passes/pass_test.h"

namespace onnx_native::passes::match {
namespace {

class MatchTest : public PassTest {
 protected:
  using Value = onnx::Value;
  Value* x_ = input("x", {batch_, 4});
  Value* y_ = input("y", {batch_, 4});
  Value* two(std::string_view op_type, Value* a, Value* b) { return op_node(op_type, {a, b}); }
  Value* op_node(std::string_view op_type, Values inputs, Attributes attributes = {},
                 DType dtype = DType::f32) {
    return PassTest::op(op_type, std::move(inputs), {batch_, 4}, std::move(attributes), dtype);
  }
  Uses uses_{model_};
};

TEST_F(MatchTest, AVarIsTheSameValueEverywhere) {
  Var a;
  EXPECT_TRUE(matches(two("Mul", x_, x_), match::op("Mul", a, a)));
  EXPECT_EQ(a, x_);
  Var b;
  EXPECT_FALSE(matches(two("Mul", x_, y_), match::op("Mul", b, b)));
  EXPECT_EQ(b, nullptr);
}

TEST_F(MatchTest, OperandsOfACommutativeOperatorMatchInEitherOrder) {
  Value* sum = two("Add", op_node("Relu", {x_}), y_);
  Var a, b;
  EXPECT_TRUE(matches(sum, add(a, match::op("Relu", b))));
  EXPECT_EQ(a, y_);
  EXPECT_EQ(b, x_);
  Var c, d;
  EXPECT_FALSE(matches(sum, match::op("Add", c, match::op("Relu", d))));
}

TEST_F(MatchTest, ALaterFailureTriesTheOtherOrderOfAnEarlierPart) {
  // The first product binds (a, b) to (x, y), which the second one refutes.
  Value* sum = two("Add", two("Mul", x_, y_), two("Div", y_, x_));
  Var a, b;
  EXPECT_TRUE(matches(sum, match::op("Add", mul(a, b), match::op("Div", a, b))));
  EXPECT_EQ(a, y_);
  EXPECT_EQ(b, x_);
}

TEST_F(MatchTest, ALaterFailureTriesTheOtherSpellings) {
  Value* sum = two("Add", op_node("Relu", {op_node("Relu", {x_})}), x_);
  Var a;
  EXPECT_TRUE(matches(
      sum,
      match::op("Add", any_of(match::op("Relu", a), match::op("Relu", match::op("Relu", a))), a)));
  EXPECT_EQ(a, x_);
}

TEST_F(MatchTest, AProductMatchesInAnyOrderAndAssociation) {
  Value* half = number(0.5);
  Value* erf = op_node("Erf", {x_});
  for (Value* value : {two("Mul", half, two("Mul", x_, erf)), two("Mul", two("Mul", erf, half), x_),
                       two("Mul", two("Mul", x_, half), erf)}) {
    Var a;
    EXPECT_TRUE(matches(value, product(a, match::number(0.5), match::op("Erf", a))));
    EXPECT_EQ(a, x_);
  }
}

TEST_F(MatchTest, OnceRefusesASecondUse) {
  Value* relu = op_node("Relu", {x_});
  Value* once_used = op_node("Relu", {y_});
  Value* twice = two("Add", relu, relu);
  Value* sum = two("Add", once_used, twice);
  EXPECT_FALSE(matches(twice, add(once(uses_, any), any)));
  EXPECT_TRUE(matches(sum, add(once(uses_, match::op("Relu", any)), any)));
}

TEST_F(MatchTest, NumbersMatchUpToTheRoundingOfTheirDtype) {
  EXPECT_TRUE(matches(number(1.0 / 3.0), match::number(1.0 / 3.0)));
  EXPECT_FALSE(matches(number(0.3333), match::number(1.0 / 3.0)));
  EXPECT_TRUE(matches(number(1.0 / 3.0, DType::f16), match::number(1.0 / 3.0)));
  EXPECT_FALSE(matches(number(0.0), match::number(1.0 / 3.0)));
  EXPECT_FALSE(matches(x_, match::number(1.0)));
  EXPECT_FALSE(matches(weight("w", {3}), match::number(0.5)));
  Var epsilon;
  EXPECT_TRUE(matches(number(0.25), constant(epsilon)));
  EXPECT_EQ(to_number(*epsilon), 0.25);
}

TEST_F(MatchTest, AttributesMatchWithTheirDefaults) {
  Value* rows = op_node("Softmax", {x_}, {{"axis", 0}});
  Value* columns = op_node("Softmax", {x_});
  EXPECT_TRUE(matches(rows, match::op("Softmax", any).with("axis", 0, -1)));
  EXPECT_FALSE(matches(columns, match::op("Softmax", any).with("axis", 0, -1)));
  EXPECT_TRUE(matches(columns, match::op("Softmax", any).with("axis", -1, -1)));
}

TEST_F(MatchTest, ACastIsOptional) {
  Value* cast_value = op_node("Cast", {x_}, {{"to", 10}}, DType::f16);
  op_node("Relu", {cast_value}, {}, DType::f16);
  Var a, b, c;
  EXPECT_TRUE(matches(cast_value, cast(a)));
  EXPECT_EQ(a, x_);
  EXPECT_TRUE(matches(cast_value, maybe_cast(uses_, where(b, [](const Value& value) {
                                               return value.dtype == DType::f32;
                                             }))));
  EXPECT_EQ(b, x_);
  Value* to_integer = op_node("Cast", {x_}, {{"to", 7}}, DType::i64);
  EXPECT_FALSE(matches(to_integer, cast(c)));
}

TEST_F(MatchTest, OtherDomainsAndOtherOutputsDoNotMatch) {
  onnx::Node* foreign = graph_.add_node("Relu", {x_}, 1, {}, "com.example");
  onnx::Typing::set(*foreign->outputs[0], DType::f32, Shape{batch_, 4});
  EXPECT_FALSE(matches(foreign->outputs[0], match::op("Relu", any)));
  onnx::Node* top = graph_.add_node("TopK", {x_, ints({1})}, 2);
  EXPECT_TRUE(matches(top->outputs[0], match::op("TopK", any, integers({1}))));
  EXPECT_FALSE(matches(top->outputs[0], match::op("TopK", any, integers({2}))));
  EXPECT_FALSE(matches(top->outputs[1], match::op("TopK", any, any)));
}

}  // namespace
}  // namespace onnx_native::passes::match
