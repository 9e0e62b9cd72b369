#include "base/dim.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>

#include "base/error.h"

namespace onnx_native {
namespace {

const Dim s0 = Dim::symbol("s0");
const Dim s1 = Dim::symbol("s1");

std::string normalized(std::string_view text) {
  const auto dim = parse_dim(text);
  return dim ? dim->str() : "?";
}

TEST(Dim, SumsAndProductsAreCanonical) {
  EXPECT_EQ(Dim(2) * (s0 + 1), 2 * s0 + 2);
  EXPECT_EQ((s0 + s1) * (s0 - s1), s0 * s0 - s1 * s1);
  EXPECT_EQ((s0 + 1 - s0).constant(), 1);
  EXPECT_EQ((s0 - s0).terms().size(), 0u);
  EXPECT_EQ((s1 + s0).hash(), (s0 + s1).hash());
  EXPECT_NE(s0, s1);
  EXPECT_TRUE((s0 + 0).is_symbol());
  EXPECT_FALSE((2 * s0).is_symbol());
}

TEST(Dim, PrintsValidPython) {
  EXPECT_EQ((2 * s0 + 1).str(), "2*s0 + 1");
  EXPECT_EQ((s1 - 3 * s0).str(), "-3*s0 + s1");
  EXPECT_EQ((s0 * s0 * s1 - 7).str(), "s0**2*s1 - 7");
  EXPECT_EQ(Dim::floor_div(s0 + 1, 2).str(), "(s0 + 1)//2");
  EXPECT_EQ((2 * Dim::floor_div(s0, 2) + 1).str(), "2*(s0//2) + 1");
  EXPECT_EQ((-Dim::floor_div(s0, 2)).str(), "-(s0//2)");
  EXPECT_EQ((s1 * Dim::mod(s0, s1)).str(), "s1*(s0 % s1)");
  EXPECT_EQ(Dim::max(s1, Dim::max(s0, 4)).str(), "max(4, s0, s1)");
  EXPECT_EQ(Dim::floor_div(s0, s0 + s1).str(), "s0//(s0 + s1)");
  EXPECT_EQ(Dim(0).str(), "0");
  EXPECT_EQ(Dim(-5).str(), "-5");
  EXPECT_EQ(str(Shape{s0, 4}), "[s0, 4]");
}

TEST(Dim, FloorDivision) {
  EXPECT_EQ(Dim::floor_div(2 * s0, 2), s0);
  EXPECT_EQ(Dim::floor_div(4 * s0 + 6, 2), 2 * s0 + 3);
  EXPECT_EQ(Dim::floor_div(2 * s0 + 3, 2), s0 + 1);
  EXPECT_EQ(Dim::floor_div(2 * s0 + 2, 4), Dim::floor_div(s0 + 1, 2));
  EXPECT_EQ(Dim::floor_div(2 * s0 + 1, 4), Dim::floor_div(s0, 2));
  EXPECT_EQ(Dim::floor_div(s0 * s1, s1), s0);
  EXPECT_EQ(Dim::floor_div(s0 * s1 + s1 + 3 * s1 * s1, s1), s0 + 1 + 3 * s1);
  EXPECT_EQ(Dim::floor_div(s0 * s1 + s0, s1 + 1), s0);
  EXPECT_EQ(Dim::floor_div(s0 * s1, 2 * s0), Dim::floor_div(s1, 2));
  EXPECT_EQ(Dim::floor_div(12 * s0, 24), Dim::floor_div(s0, 2));
  EXPECT_EQ(Dim::floor_div(Dim::floor_div(s0, 2), 3), Dim::floor_div(s0, 6));
  EXPECT_EQ(Dim::floor_div(Dim::floor_div(s0, 2) + 1, 3), Dim::floor_div(s0 + 2, 6));
  EXPECT_EQ(Dim::floor_div(s0 - 1, 2) + 1, Dim::floor_div(s0 + 1, 2));
  EXPECT_EQ(Dim::ceil_div(s0, 2), Dim::floor_div(s0 + 1, 2));
  EXPECT_EQ(Dim::ceil_div(s0 + 1, 1), s0 + 1);
  EXPECT_EQ(Dim::floor_div(Dim::mod(s0, 4), 4), Dim(0));
  EXPECT_EQ(Dim::floor_div(-7, 2), Dim(-4));
  EXPECT_EQ(Dim::floor_div(7, -2), Dim(-4));
  EXPECT_EQ(Dim::floor_div(s0, -2), Dim::floor_div(-s0, 2));
}

TEST(Dim, WhatConvolutionsAndReshapesCompute) {
  EXPECT_EQ(Dim::floor_div(s0 + 2 - 3, 1) + 1, s0);
  // Five halvings, as ResNet does, against one division by 32.
  Dim size = s0;
  for (int i = 0; i < 5; ++i) size = Dim::floor_div(size + 2 - 3, 2) + 1;
  EXPECT_EQ(size, Dim::floor_div(s0 + 31, 32));
  EXPECT_EQ(Dim::floor_div(numel({s0, s1, 768}), s0 * s1 * 12), Dim(64));
  EXPECT_EQ(Dim::floor_div(numel({s0, s1, 768}), s0 * s1), Dim(768));
}

TEST(Dim, Modulo) {
  EXPECT_EQ(Dim::mod(4 * s0, 2), Dim(0));
  EXPECT_EQ(Dim::mod(4 * s0 + 3, 2), Dim(1));
  EXPECT_EQ(Dim::mod(3 * s0 + 5, 2), Dim::mod(s0 + 1, 2));
  EXPECT_EQ(Dim::mod(2 * s0, 4), 2 * Dim::mod(s0, 2));
  EXPECT_EQ(Dim::mod(Dim::mod(s0, 8) + s1, 4), Dim::mod(s0 + s1, 4));
  EXPECT_EQ(Dim::mod(s0 * s1 + s0, s0), Dim(0));
  EXPECT_EQ(Dim::mod(-7, 4), Dim(1));
  EXPECT_EQ(Dim::mod(7, -4), Dim(-1));
}

TEST(Dim, MaximumAndMinimum) {
  EXPECT_EQ(Dim::max(3, 5), Dim(5));
  EXPECT_EQ(Dim::max(0, s0), s0);
  EXPECT_EQ(Dim::max(1, s0).str(), "max(1, s0)");
  EXPECT_EQ(Dim::max(1, s0 + 1), s0 + 1);
  EXPECT_EQ(Dim::max(s0, Dim::max(s1, s0)), Dim::max(s0, s1));
  EXPECT_EQ(Dim::max(s1, s0), Dim::max(s0, s1));
  EXPECT_EQ(Dim::max(3, Dim::max(s0, 5)), Dim::max(s0, 5));
  EXPECT_EQ(Dim::min(s0, s0 + s1), s0);
  EXPECT_EQ(Dim::min(0, s0), Dim(0));
  EXPECT_EQ(Dim::min(4, s0).str(), "min(4, s0)");
  EXPECT_EQ(Dim::max(0, s0 - Dim::min(s0, 4)), s0 - Dim::min(s0, 4));
  EXPECT_EQ(Dim::min(s0, Dim::floor_div(s0, 2)), Dim::floor_div(s0, 2));
}

TEST(Dim, Signs) {
  EXPECT_TRUE(s0.known_non_negative());
  EXPECT_FALSE((s0 - 1).known_non_negative());
  EXPECT_TRUE(s0.known_positive());
  EXPECT_FALSE(s0.known_positive(false));
  EXPECT_TRUE((s0 * s1 + 1).known_positive(false));
  EXPECT_TRUE((s0 - Dim::floor_div(s0, 2)).known_non_negative());
  EXPECT_FALSE((s0 - s1).known_non_negative());
  EXPECT_FALSE(Dim(0).known_positive());
  EXPECT_FALSE(Dim::symbol("u0").known_positive());
  EXPECT_TRUE((Dim::symbol("u0") + 1).known_positive());
  EXPECT_FALSE(Dim::fresh("step").known_positive());
  EXPECT_TRUE(Dim::symbol("u").known_positive());
}

TEST(Dim, SubstituteAndEvaluate) {
  const Dim dim = Dim::floor_div(s0 * s1 + 3, 2);
  EXPECT_EQ(dim.symbols(), (std::vector<std::string>{"s0", "s1"}));
  EXPECT_EQ(dim.substitute([](std::string_view name) -> std::optional<Dim> {
    return name == "s1" ? std::optional<Dim>(4) : std::nullopt;
  }),
            2 * s0 + 1);
  EXPECT_EQ(dim.evaluate([](std::string_view) { return 3; }), 6);
  EXPECT_EQ(dim.evaluate([](std::string_view) -> std::optional<int64_t> { return std::nullopt; }),
            std::nullopt);
}

TEST(Dim, FreshSymbolsAreNew) {
  Dim::restart_fresh();
  Dim::symbol("u1");
  EXPECT_EQ(Dim::fresh().str(), "u0");
  EXPECT_EQ(Dim::fresh().str(), "u2");
  EXPECT_EQ(Dim::fresh("n").str(), "n0");
}

TEST(ParseDim, PythonAndSympy) {
  EXPECT_EQ(normalized("2*s77 + 1"), "2*s77 + 1");
  EXPECT_EQ(normalized("((s3 + 3)//2)"), "(s3 + 1)//2 + 1");
  EXPECT_EQ(normalized("-s0 + _d1**2"), "_d1**2 - s0");
  EXPECT_EQ(normalized("Max(1, s0)"), "max(1, s0)");
  EXPECT_EQ(normalized("Min(u0, batch, 7)"), "min(7, batch, u0)");
  EXPECT_EQ(normalized("FloorDiv(a, b)"), "a//b");
  EXPECT_EQ(normalized("CeilDiv(a, 2)"), "(a + 1)//2");
  EXPECT_EQ(normalized("Mod(a, 3) - PythonMod(b, 2)"), "a % 3 - b % 2");
  EXPECT_EQ(normalized("floor(a/2 + 1/2)"), "(a + 1)//2");
  EXPECT_EQ(normalized("floor(s0*s1/s1)"), "s0");
  EXPECT_EQ(normalized("(s0*s1)/s1"), "s0");
  EXPECT_EQ(normalized("CeilToInt(IntTrueDiv(4*s0 + 1, 2))"), "2*s0 + 1");
  EXPECT_EQ(normalized("FloorToInt(IntTrueDiv(ToFloat(s0), 2))"), "s0//2");
  EXPECT_EQ(normalized("3*TruncToInt(IntTrueDiv(s0, s1))"), "3*(s0//s1)");
  EXPECT_EQ(normalized("Symbol('s77', positive=True, integer=True)"), "s77");
  EXPECT_EQ(normalized("Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(-1))"),
            "2*s0 - 1");
  EXPECT_EQ(normalized("Symbol('s77', positive=True, integer=True)"), "s77");
  EXPECT_EQ(normalized("Integer(-3)"), "-3");
  EXPECT_EQ(normalized("FloorDiv(Add(Symbol('s0'), Integer(-3)), Integer(2))"), "(s0 + 1)//2 - 2");
  EXPECT_EQ(normalized("Pow(Symbol('s0'), Integer(2))"), "s0**2");
  EXPECT_EQ(normalized("Add(Symbol('a'), Symbol('b'), Symbol('c'))"), "a + b + c");
  EXPECT_EQ(normalized("Max(Integer(1), Symbol('s0'))"), "max(1, s0)");
  EXPECT_EQ(normalized("-(-s0//2)"), "(s0 + 1)//2");
  EXPECT_EQ(normalized("-2**2"), "-4");
  EXPECT_EQ(normalized("s0//2*s1"), "s1*(s0//2)");
  EXPECT_EQ(normalized(" 12 "), "12");
}

TEST(ParseDim, RefusesWhatIsNoSize) {
  for (const char* text : {"",
                           "s0 +",
                           "s0/2",
                           "1.5",
                           "(s0",
                           "s0)",
                           "foo(s0)",
                           "s0 s1",
                           "2s0",
                           "+",
                           "zuf0",
                           "CeilToInt(zuf0)",
                           "IntTrueDiv(s0, 2)",
                           "TruncToInt(IntTrueDiv(s0 - 5, 2))",
                           "Symbol('zuf0')",
                           "Symbol(",
                           "Symbol('s",
                           "Symbol('')",
                           "Symbol('a b')",
                           "Integer()",
                           "Integer(1",
                           "Integer(1))",
                           "Integer(99999999999999999999)",
                           "Unknown(Integer(1))",
                           "Add()",
                           "Pow(Integer(2), Integer(99))",
                           "Pow(Symbol('a'), Symbol('b'))",
                           "Float('0.5')"}) {
    EXPECT_EQ(parse_dim(text), std::nullopt) << text;
  }
}

std::string repeated(std::string_view text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

TEST(ParseDim, RefusesWhatIsTooLarge) {
  for (const char* opening : {"Add(", "(", "-", "+", "floor(", "2**"}) {
    EXPECT_EQ(parse_dim(repeated(opening, 100000) + "1"), std::nullopt) << opening;
  }
  const std::string nine_powers = repeated("Pow(", 9) + "a+b" + repeated(", 16)", 9);
  EXPECT_EQ(parse_dim(nine_powers), std::nullopt);
  // A tower in which each floor has 16 of the one below it.
  EXPECT_EQ(parse_dim(repeated("FloorDiv(Pow(", 9) + "a" + repeated(", 16), b+1)", 9)),
            std::nullopt);
  std::string sum = "s0", most = "Max(s0";
  for (int i = 1; i < 5000; ++i) {
    sum += concat(" + s", i);
    most += concat(", s", i);
  }
  EXPECT_EQ(parse_dim(sum), std::nullopt);
  EXPECT_EQ(parse_dim(most + ")"), std::nullopt);
}

TEST(Dim, NumbersAtTheEdge) {
  const Dim least(std::numeric_limits<int64_t>::min());
  EXPECT_EQ(Dim::floor_div(s0, least).str(), "s0//(-9223372036854775808)");
  EXPECT_EQ(Dim::mod(s0, least).str(), "s0 % (-9223372036854775808)");
  EXPECT_EQ(Dim::floor_div(least, -1), least);
  Dim::floor_div(least * s0, Dim(-1) * s0 * s1);
}

// Random expressions: what the simplified form evaluates to is what its parts evaluate to, and the
// text parses back to the same.
TEST(Dim, SimplificationKeepsTheValue) {
  std::mt19937 random(7);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto floor_of = [](int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  };
  for (int round = 0; round < 20000; ++round) {
    const std::map<std::string, int64_t, std::less<>> sizes = {
        {"a", 1 + pick(9)}, {"b", 1 + pick(9)}, {"c", 1 + pick(20)}};
    std::vector<std::pair<Dim, int64_t>> pool;
    for (const auto& [name, size] : sizes) pool.emplace_back(Dim::symbol(name), size);
    for (int i = 0; i < 3; ++i) {
      const int value = pick(13) - 4;
      pool.emplace_back(value, value);
    }
    for (int step = 0; step < 7; ++step) {
      const auto [a, x] = pool[static_cast<size_t>(pick(static_cast<int>(pool.size())))];
      const auto [b, y] = pool[static_cast<size_t>(pick(static_cast<int>(pool.size())))];
      switch (pick(7)) {
        case 0:
          pool.emplace_back(a + b, x + y);
          break;
        case 1:
          pool.emplace_back(a - b, x - y);
          break;
        case 2:
          if (a.terms().size() < 4 && b.terms().size() < 4) pool.emplace_back(a * b, x * y);
          break;
        case 3:
          if (b.known_positive() || b.constant_or(0) != 0) {
            pool.emplace_back(Dim::floor_div(a, b), floor_of(x, y));
          }
          break;
        case 4:
          if (b.known_positive() || b.constant_or(0) != 0) {
            pool.emplace_back(Dim::mod(a, b), x - y * floor_of(x, y));
          }
          break;
        case 5:
          pool.emplace_back(Dim::max(a, b), std::max(x, y));
          break;
        default:
          pool.emplace_back(Dim::min(a, b), std::min(x, y));
          break;
      }
    }
    for (const auto& [dim, value] : pool) {
      const auto look_up = [&](std::string_view name) -> std::optional<int64_t> {
        return sizes.find(name)->second;
      };
      ASSERT_EQ(dim.evaluate(look_up), value) << dim.str();
      const auto parsed = parse_dim(dim.str());
      ASSERT_TRUE(parsed) << dim.str();
      ASSERT_EQ(parsed->evaluate(look_up), value) << dim.str();
      if (dim.known_non_negative()) {
        ASSERT_GE(value, 0) << dim.str();
      }
      if (dim.known_positive()) {
        ASSERT_GT(value, 0) << dim.str();
      }
    }
  }
}

}  // namespace
}  // namespace onnx_native
