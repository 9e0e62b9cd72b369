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
