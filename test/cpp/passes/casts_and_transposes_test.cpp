#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class CastTest : public PassTest {
 protected:
  Value* cast(Value* value, DType to) {
    return op("Cast", {value}, *value->shape, {{"to", to}}, to);
  }
  std::string chain(DType from, DType between, DType to) {
    result(cast(cast(input("x", {2}, from), between), to), "y");
    // Adds a consumer after the casts, so that the pass may remove the last one.
    Value* last = graph_.outputs[0];
    last->named = false;
    last->name.clear();
    graph_.outputs.clear();
    result(op("Unsqueeze", {last, ints({0})}, {1, 2}, {}, to), "y");
    std::string text = after(clean_casts_and_transposes);
    return text.substr(0, text.rfind("y = "));
  }
};

TEST_F(CastTest, ToItsOwnDtypeGoes) { EXPECT_EQ(chain(DType::f32, DType::f32, DType::f32), ""); }
TEST_F(CastTest, WidenedAndBackGoes) { EXPECT_EQ(chain(DType::f16, DType::f32, DType::f16), ""); }
TEST_F(CastTest, WideningsJoin) {
  EXPECT_EQ(chain(DType::boolean, DType::i64, DType::f32), "_0 = Cast <to: int = 1> (x)\n");
}
TEST_F(CastTest, ALossyCastStays) {
  EXPECT_EQ(chain(DType::f32, DType::f16, DType::f32),
            "_0 = Cast <to: int = 10> (x)\n_1 = Cast <to: int = 1> (_0)\n");
}
TEST_F(CastTest, SignsAreNotLost) {
  EXPECT_EQ(chain(DType::i32, DType::u8, DType::i32),
            "_0 = Cast <to: int = 2> (x)\n_1 = Cast <to: int = 6> (_0)\n");
}
TEST_F(CastTest, IntegersBeyondAFloatsPrecisionStay) {
  EXPECT_EQ(chain(DType::i32, DType::f32, DType::i32),
            "_0 = Cast <to: int = 1> (x)\n_1 = Cast <to: int = 6> (_0)\n");
}
TEST_F(CastTest, BoolIsATruthValue) {
  EXPECT_EQ(chain(DType::f32, DType::boolean, DType::f32),
            "_0 = Cast <to: int = 9> (x)\n_1 = Cast <to: int = 1> (_0)\n");
}

class NarrowSumTest : public CastTest {
 protected:
  // Returns the nodes of a running sum of int64, from one dtype and to another.
  std::string sum(DType from, DType to, bool is_used_twice = false) {
    Value* widened = cast(input("x", {4}, from), DType::i64);
    Value* sum = op("CumSum", {widened, number(0, DType::i64)}, {4}, {}, DType::i64);
    result(op("Abs", {cast(sum, to)}, {4}, {}, to), "y");
    if (is_used_twice) result(op("Neg", {sum}, {4}, {}, DType::i64), "z");
    return after(clean_casts_and_transposes);
  }
};

TEST_F(NarrowSumTest, OfTruthValues) {
  const std::string text = sum(DType::boolean, DType::i32);
  EXPECT_NE(text.find("Cast <to: int = 6> (x)"), std::string::npos) << text;
  EXPECT_EQ(text.find("to: int = 7"), std::string::npos) << text;
}
TEST_F(NarrowSumTest, OfInt32) {
  const std::string text = sum(DType::i32, DType::i32);
  EXPECT_EQ(text.find("Cast"), std::string::npos) << text;
  EXPECT_NE(text.find("CumSum (x"), std::string::npos) << text;
}
TEST_F(NarrowSumTest, NotToFloats) {
  const std::string text = sum(DType::boolean, DType::f32);
  EXPECT_NE(text.find("Cast <to: int = 7> (x)"), std::string::npos) << text;
}
TEST_F(NarrowSumTest, NotIfTheWideSumIsUsed) {
  const std::string text = sum(DType::boolean, DType::i32, true);
  EXPECT_NE(text.find("Cast <to: int = 7> (x)"), std::string::npos) << text;
}

TEST_F(PassTest, TransposesJoin) {
  Value* x = input("x", {2, 3, 4});
  Value* a = op("Transpose", {x}, {3, 4, 2}, {{"perm", Ints{1, 2, 0}}});
  Value* b = op("Transpose", {a}, {4, 3, 2}, {{"perm", Ints{1, 0, 2}}});
  Value* c = op("Transpose", {a}, {2, 3, 4}, {{"perm", Ints{2, 0, 1}}});
  result(op("Relu", {b}, {4, 3, 2}), "y");
  result(op("Relu", {c}, {2, 3, 4}), "z");
  EXPECT_EQ(after(clean_casts_and_transposes),
            "_0 = Transpose <perm: ints = [2, 1, 0]> (x)\ny = Relu (_0)\nz = Relu (x)\n");
}

TEST_F(PassTest, ATransposeThatMovesSomethingStays) {
  Value* x = input("x", {2, 2});
  result(op("Relu", {op("Transpose", {x}, {2, 2})}, {2, 2}), "y");
  after(clean_casts_and_transposes);
  EXPECT_FALSE(changed_);
}

TEST_F(PassTest, IdentityGoesAndResultsKeepTheirNames) {
  Value* x = input("x", {2});
  Value* a = op("Identity", {op("Relu", {x}, {2})}, {2});
  result(op("Identity", {a}, {2}), "y");
  EXPECT_EQ(after(clean_casts_and_transposes), "y = Relu (x)\n");
}

TEST_F(PassTest, IdentityBetweenInputAndResultStays) {
  Value* x = input("x", {2});
  result(op("Identity", {x}, {2}), "y");
  result(op("Identity", {weight("w", {2})}, {2}), "z");
  EXPECT_EQ(after(clean_casts_and_transposes), "y = Identity (x)\nz = Identity (w)\n");
}

TEST_F(PassTest, OneValueAsTwoResultsKeepsAnIdentity) {
  Value* x = input("x", {2});
  Value* a = op("Relu", {x}, {2});
  result(a, "y");
  result(op("Identity", {a}, {2}), "z");
  EXPECT_EQ(after(clean_casts_and_transposes), "y = Relu (x)\nz = Identity (y)\n");
}

}  // namespace
}  // namespace onnx_native::passes
