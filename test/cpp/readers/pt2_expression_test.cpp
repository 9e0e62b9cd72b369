#include <gtest/gtest.h>

#include <string>

#include "readers/pt2/expression.h"

namespace onnx_native::readers::pt2 {
namespace {

std::string parsed(std::string_view text) {
  const auto dim = parse_expression(text);
  return dim ? dim->str() : "nothing";
}

TEST(Pt2Expression, SymbolsAndNumbers) {
  EXPECT_EQ(parsed("Symbol('s77', positive=True, integer=True)"), "s77");
  EXPECT_EQ(parsed("Symbol('u0', integer=True)"), "u0");
  EXPECT_EQ(parsed("Integer(-3)"), "-3");
}

TEST(Pt2Expression, Functions) {
  EXPECT_EQ(parsed("Add(Mul(Integer(2), Symbol('s0')), Integer(1))"), "2*s0 + 1");
  EXPECT_EQ(parsed("FloorDiv(Add(Symbol('s0'), Integer(-3)), Integer(2))"), "(s0 + 1)//2 - 2");
  EXPECT_EQ(parsed("Pow(Symbol('s0'), Integer(2))"), "s0**2");
  EXPECT_EQ(parsed("Add(Symbol('a'), Symbol('b'), Symbol('c'))"), "a + b + c");
  EXPECT_EQ(parsed("Max(Integer(1), Symbol('s0'))"), "max(1, s0)");
}

TEST(Pt2Expression, WhatIsNone) {
  for (const char* text :
       {"", "s77", "Symbol('zuf0')", "Symbol(", "Symbol('s", "Symbol('')", "Integer()", "Integer(1",
        "Integer(1))", "Integer(99999999999999999999)", "Unknown(Integer(1))", "Add()",
        "Pow(Integer(2), Integer(99))", "Pow(Symbol('a'), Symbol('b'))", "Float('0.5')"}) {
    EXPECT_EQ(parsed(text), "nothing") << text;
  }
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "Add(";
  EXPECT_EQ(parsed(deep), "nothing");
}

}  // namespace
}  // namespace onnx_native::readers::pt2
