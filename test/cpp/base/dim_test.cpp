#include "base/dim.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>

#include "base/dim_order.h"
#include "base/error.h"

namespace onnx_native {
namespace {

const Dim s0 = Dim::symbol("s0");
const Dim s1 = Dim::symbol("s1");

// Declares symbols: `zuf0` is a float, a single capital letter an integer, others are input sizes.
std::optional<Dim> symbol_of(std::string_view name) {
  if (name == "zuf0") return std::nullopt;
  const bool is_integer = name.size() == 1 && name[0] >= 'A' && name[0] <= 'Z';
  return Dim::symbol(name, is_integer ? DimRange::integer() : DimRange::input_size());
}

std::optional<Dim> parse_dim(std::string_view text) {
  return onnx_native::parse_dim(text, symbol_of);
}

std::string normalized(std::string_view text) {
  const auto dim = parse_dim(text);
  return dim ? dim->str() : "?";
}

TEST(Dim, NumberedSymbolsAreInOrder) {
  const Dim sum = Dim::symbol("u10") + Dim::symbol("u2") + Dim::symbol("u1");
  EXPECT_EQ(sum.str(), "u1 + u2 + u10");
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

TEST(Dim, ArithmeticKeepsSources) {
  const auto sources = [](const Dim& dim) {
    std::map<std::string, int64_t> found;
    dim.for_each_symbol([&](const Dim::Factor& symbol) { found[symbol.name] = symbol.source; });
    return found;
  };
  const Dim marked = s0.from_source(3);
  EXPECT_EQ(marked, s0);
  EXPECT_EQ(marked.hash(), s0.hash());
  const std::map<std::string, int64_t> kept{{"s0", 3}, {"s1", Dim::kNoSource}};
  EXPECT_EQ(sources(Dim::floor_div(marked * 4 + s1, 3) * 2), kept);
  const std::map<std::string, int64_t> all{{"s0", 5}, {"s1", 5}};
  EXPECT_EQ(sources(Dim::max(marked + 7, s1).from_source(5)), all);
  EXPECT_EQ(Dim(4).from_source(5), Dim(4));
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
  // Five halvings, as in ResNet, equal one division by 32.
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

TEST(Dim, BroadcastIsTheSizeThatIsNotOne) {
  const Dim data = Dim::symbol("u0", DimRange::size());
  const Dim pair = Dim::symbol("n", DimRange::input_size(2));
  EXPECT_EQ(Dim::broadcast(s0, s0), s0);
  EXPECT_EQ(Dim::broadcast(s0, 1), s0);
  EXPECT_EQ(Dim::broadcast(1, 1), Dim(1));
  EXPECT_EQ(Dim::broadcast(s0, 0), Dim(0));
  EXPECT_EQ(Dim::broadcast(s0, 5), Dim(5));
  EXPECT_EQ(Dim::broadcast(s0, s1 + 2), s1 + 2);
  EXPECT_EQ(Dim::broadcast(data, pair), pair);
  EXPECT_EQ(Dim::broadcast(s0, 2 * data), 2 * data);
  EXPECT_EQ(Dim::broadcast(s0, 6 * data * s1 - 3 * s1 + 2), 6 * data * s1 - 3 * s1 + 2);
  EXPECT_TRUE(Dim::broadcast(s0, 2 * data - 1).is_broadcast());
  EXPECT_EQ(Dim::broadcast(s0, Dim::min(s0, 64)), s0);
  EXPECT_EQ(Dim::broadcast(Dim::min(Dim::min(64, s0), s1 + 1), s0), s0);
  EXPECT_TRUE(Dim::broadcast(s0, Dim::min(s0, data)).is_broadcast());  // data may be 0
  EXPECT_TRUE(Dim::broadcast(s0, Dim::min(s1, 64)).is_broadcast());
  EXPECT_TRUE(Dim::broadcast(s0, 4 * data - 3).is_broadcast());
  EXPECT_EQ(Dim::broadcast(s1, s0).str(), "broadcast(s0, s1)");
  EXPECT_EQ(Dim::broadcast(Dim::broadcast(s1, s0), Dim::broadcast(s0, data)),
            Dim::broadcast(data, Dim::broadcast(s0, s1)));
  EXPECT_EQ(Dim::broadcast(Dim::broadcast(s1, s0), 3), Dim(3));
  EXPECT_EQ(parse_dim("2*broadcast(s0, s1, 1) + 1"), 2 * Dim::broadcast(s0, s1) + 1);
  EXPECT_FALSE(Dim::broadcast(s0, s1).known_positive(false));
  EXPECT_TRUE(Dim::broadcast(s0, s1).known_non_negative());
  EXPECT_FALSE((Dim::broadcast(s0, s1) - s0).known_non_negative());
  const Dim positive = Dim::symbol("p", DimRange::input_size(1, 4));
  const Dim other = Dim::symbol("q", DimRange::input_size(1, 9));
  EXPECT_EQ(Dim::broadcast(positive, other).range(), DimRange::integer(1, 9));
}

// Evaluates at all pairs of small sizes that broadcast, including 0.
TEST(Dim, BroadcastAtAllSizes) {
  const Dim size = Dim::broadcast(s0, s1 - 1) + Dim::min(Dim::broadcast(s1 - 1, s0), 3);
  for (int64_t a = 0; a < 6; ++a) {
    for (int64_t b : {int64_t{1}, a}) {
      for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)}) {
        const int64_t wanted = x == 1 ? y : x;
        const auto value = size.evaluate([&](std::string_view name) {
          return std::optional<int64_t>(name == "s0" ? x : y + 1);
        });
        EXPECT_EQ(value, wanted + std::min<int64_t>(wanted, 3)) << x << " and " << y;
        const Dim replaced = size.substitute(
            [&](std::string_view name) { return std::optional<Dim>(name == "s0" ? x : y + 1); });
        EXPECT_EQ(replaced, Dim(*value)) << x << " and " << y;
      }
    }
  }
}

TEST(Dim, Signs) {
  EXPECT_TRUE(s0.known_non_negative());
  EXPECT_FALSE((s0 - 1).known_non_negative());
  EXPECT_TRUE(s0.known_positive());
  EXPECT_FALSE(s0.known_positive(false));
  EXPECT_TRUE((s0 * s1 + 1).known_positive(false));
  EXPECT_TRUE((s0 - Dim::floor_div(s0, 2)).known_non_negative());
  EXPECT_FALSE((s0 - s1).known_non_negative());
  // 4 * ceil(s0 / 8) is an integer and at least s0 / 2.
  const Dim halves = Dim::floor_div(s0 + 1, 2);
  EXPECT_TRUE((4 * Dim::floor_div(s0 + 7, 8) - halves).known_non_negative());
  EXPECT_FALSE((4 * Dim::floor_div(s0 + 6, 8) - halves).known_non_negative());
  EXPECT_FALSE(Dim(0).known_positive());
  // A remainder is at most what is divided.
  EXPECT_TRUE(Dim::floor_div(s0 - Dim::mod(s0, 10) + 5, 10).known_non_negative());
  EXPECT_FALSE(Dim::floor_div(s0 - Dim::mod(s1, 10), 10).known_non_negative());
}

TEST(Dim, SizesThatMayBeEmpty) {
  EXPECT_FALSE(s0.may_be_empty());
  EXPECT_TRUE(Dim(0).may_be_empty());
  EXPECT_TRUE(Dim::fresh().may_be_empty());
  EXPECT_TRUE((s0 - Dim::min(s0, 2)).may_be_empty());
  EXPECT_TRUE(Dim::ceil_div(Dim::max(s0 - 2, 0), 2).may_be_empty());
  EXPECT_TRUE((s0 - 1).may_be_empty());
  EXPECT_TRUE((2 * Dim::fresh()).may_be_empty());
  EXPECT_FALSE((s0 - 2).may_be_empty());  // of a convolution, since a slice would end at 0
  EXPECT_FALSE(Dim::min(s0, 2).may_be_empty());
  EXPECT_FALSE((Dim::floor_div(s0 - 3, 2) + 1).may_be_empty());
}

TEST(Dim, RangesAreDeclared) {
  const Dim counted = Dim::fresh();
  EXPECT_TRUE(counted.known_non_negative());
  EXPECT_FALSE(counted.known_positive());
  EXPECT_TRUE((counted + 1).known_positive());
  EXPECT_TRUE(Dim::symbol("u0").known_positive());  // a symbol's name has no meaning
  EXPECT_TRUE(Dim::symbol("step7").known_positive());
  const Dim batch = Dim::symbol("batch", DimRange::input_size(3, 9));
  EXPECT_TRUE(batch.known_positive(false));
  EXPECT_TRUE((9 - batch).known_non_negative());
  EXPECT_EQ(Dim::max(batch, 2), batch);
  EXPECT_EQ(Dim::min(batch, 9), batch);
  EXPECT_EQ(Dim::mod(batch, 10), batch);
  const Dim n = Dim::fresh(DimRange::integer());
  EXPECT_FALSE(n.known_non_negative());
  EXPECT_FALSE((-n).known_non_negative());
  EXPECT_TRUE((n * n).known_non_negative());
  EXPECT_FALSE((n * n * n).known_non_negative());
  EXPECT_TRUE((n * n * n * n + 1).known_positive());
  const Dim k = Dim::symbol("k", DimRange::integer(-5, 7));
  EXPECT_TRUE((k + 5).known_non_negative());
  EXPECT_FALSE((k + 4).known_non_negative());
  EXPECT_TRUE((7 - k).known_non_negative());
  EXPECT_TRUE((49 - k * k).known_non_negative());
  EXPECT_EQ((2 * k - 1).range(), DimRange::integer(-11, 13));
  EXPECT_EQ(Dim::symbol("k"), k);  // a symbol is identified by its name
}

TEST(Dim, NegativeOperands) {
  const Dim n = Dim::symbol("n", DimRange::integer());
  const Dim m = Dim::symbol("m", DimRange::integer());
  EXPECT_EQ(Dim::max(n, 0).str(), "max(0, n)");
  EXPECT_EQ(Dim::min(n, 0).str(), "min(0, n)");
  EXPECT_EQ(Dim::max(0, Dim::max(n, -n)), Dim::max(n, -n));
  EXPECT_EQ(Dim::min(0, Dim::min(n, -n)), Dim::min(n, -n));
  EXPECT_EQ(Dim::max(s0, -s0), s0);
  EXPECT_EQ(Dim::floor_div(Dim::floor_div(n, 2), 3), Dim::floor_div(n, 6));
  // (n//m)//n rounds twice, and the directions depend on the signs.
  EXPECT_EQ(Dim::floor_div(Dim::floor_div(n, m), n).str(), "(n//m)//n");
  EXPECT_EQ(Dim::floor_div(Dim::floor_div(n, m), s0).str(), "n//(m*s0)");
  EXPECT_EQ(Dim::floor_div(Dim::mod(n, m), m).str(), "(n % m)//m");
  EXPECT_EQ(Dim::mod(n, n + 1).str(), "n % (n + 1)");
  EXPECT_EQ(Dim::mod(s0, s0 + 1), s0);
  EXPECT_EQ(Dim::mod(n, 2).range(), DimRange::integer(0, 1));
  EXPECT_EQ(Dim::mod(n, -3).range(), DimRange::integer(-2, 0));
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
  EXPECT_EQ(Dim::fresh(DimRange::size(), "n").str(), "n0");
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
  EXPECT_EQ(normalized("FloorDiv(Add(Symbol('s0', integer=True), Integer(-3)), Integer(2))"),
            "(s0 + 1)//2 - 2");
  EXPECT_EQ(normalized("Pow(Symbol('s0', integer=True), Integer(2))"), "s0**2");
  EXPECT_EQ(
      normalized(
          "Add(Symbol('a', integer=True), Symbol('b', integer=True), Symbol('c', integer=True))"),
      "a + b + c");
  EXPECT_EQ(normalized("Max(Integer(1), Symbol('s0', integer=True))"), "max(1, s0)");
  EXPECT_EQ(normalized("-(-s0//2)"), "(s0 + 1)//2");
  EXPECT_EQ(normalized("-2**2"), "-4");
  EXPECT_EQ(normalized("s0//2*s1"), "s1*(s0//2)");
  EXPECT_EQ(normalized(" 12 "), "12");
  EXPECT_EQ(normalized("Abs(N)"), "max(-N, N)");
  EXPECT_EQ(normalized("Abs(s0)"), "s0");
  EXPECT_EQ(normalized("((-N)//(-2))"), "N//2");
  EXPECT_EQ(normalized("PythonMod(N, -3)"), "-((2*N) % 3)");
  EXPECT_EQ(normalized("TruncToInt(IntTrueDiv(N, 2))"), "max(0, N//2) + min(0, (N + 1)//2)");
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
                           "Pow(Symbol('a', integer=True), Symbol('b', integer=True))",
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
  // Each power multiplies the previous expression 16 times.
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

TEST(Dim, OrderNearTheLimits) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(Dim::min(kMost, -1), Dim(-1));
  EXPECT_EQ(Dim::max(kLeast, 5), Dim(5));
  EXPECT_EQ(Dim::min(Dim::min(kMost, s0), kLeast), Dim(kLeast));
  EXPECT_EQ(Dim::min(kMost, Dim::min(s0, 7)), Dim::min(s0, 7));
  EXPECT_FALSE(known_greater(s0 - 5, kMost));
  EXPECT_FALSE(known_at_least(s0 + kLeast, 1));
  EXPECT_FALSE((s0 + kLeast).known_positive());
  EXPECT_TRUE(known_greater(kMost, kLeast));
  EXPECT_TRUE(known_at_least(s0, kLeast + 1));
  EXPECT_EQ(Dim::ceil_div(kLeast, 2), Dim(kLeast / 2));
  // The product of the divisors overflows to 0 in 64 bits.
  const Dim large = int64_t{1} << 40;
  EXPECT_EQ(Dim::floor_div(Dim::floor_div(s0, large), large).str(),
            "(s0//1099511627776)//1099511627776");
}

// A symbol, its declared range and its value.
struct Sample {
  std::string name;
  DimRange range;
  int64_t value;
};

// Random expressions over symbols whose values are within their ranges.
class RandomDims : public testing::Test {
 protected:
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  static int64_t floor_of(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  }

  Sample sample(std::string name) {
    switch (pick(6)) {
      case 0:
        return {std::move(name), DimRange::integer(), pick(41) - 20};
      case 1:
        return {std::move(name), DimRange::size(), pick(9)};
      case 2: {
        const int low = pick(15) - 10;
        const int high = low + pick(8);
        return {std::move(name), DimRange::integer(low, high), low + pick(high - low + 1)};
      }
      case 3: {
        const int most = pick(12) - 6;
        return {std::move(name), DimRange::integer(std::nullopt, most), most - pick(12)};
      }
      case 4:
        return {std::move(name), DimRange::input_size(2, 9), 2 + pick(8)};
      default:
        return {std::move(name), DimRange::input_size(), 1 + pick(9)};
    }
  }

  // Applies a random operation to two elements of the pool and adds the result.
  void step(std::vector<std::pair<Dim, int64_t>>& pool) {
    const auto [a, x] = pool[static_cast<size_t>(pick(static_cast<int>(pool.size())))];
    const auto [b, y] = pool[static_cast<size_t>(pick(static_cast<int>(pool.size())))];
    switch (pick(8)) {
      case 0:
        return void(pool.emplace_back(a + b, x + y));
      case 1:
        return void(pool.emplace_back(a - b, x - y));
      case 2:
        if (a.terms().size() < 4 && b.terms().size() < 4) pool.emplace_back(a * b, x * y);
        return;
      case 3:
        if (y != 0) pool.emplace_back(Dim::floor_div(a, b), floor_of(x, y));
        return;
      case 4:
        if (y != 0) pool.emplace_back(Dim::mod(a, b), x - y * floor_of(x, y));
        return;
      case 5:
        return void(pool.emplace_back(Dim::max(a, b), std::max(x, y)));
      case 6:
        if (y != 0) pool.emplace_back(Dim::ceil_div(a, b), -floor_of(-x, y));
        return;
      default:
        return void(pool.emplace_back(Dim::min(a, b), std::min(x, y)));
    }
  }

  std::mt19937 random_{7};
};

// The simplified form must evaluate to the operation's result, stay within its range, and print as
// text that parses back to the same value.
TEST_F(RandomDims, SimplificationKeepsTheValue) {
  for (int round = 0; round < 20000; ++round) {
    std::map<std::string, Sample, std::less<>> samples;
    std::vector<std::pair<Dim, int64_t>> pool;
    for (const char* name : {"a", "b", "c"}) {
      const Sample& made = samples.emplace(name, sample(name)).first->second;
      pool.emplace_back(Dim::symbol(name, made.range), made.value);
    }
    for (int i = 0; i < 3; ++i) {
      const int value = pick(13) - 5;
      pool.emplace_back(value, value);
    }
    for (int i = 0; i < 7; ++i) step(pool);
    const auto value_of = [&](std::string_view name) -> std::optional<int64_t> {
      return samples.find(name)->second.value;
    };
    const auto symbol = [&](std::string_view name) -> std::optional<Dim> {
      return Dim::symbol(name, samples.find(name)->second.range);
    };
    for (const auto& [dim, value] : pool) {
      std::string where = dim.str();
      for (const auto& [name, made] : samples) {
        where += concat("; ", name, " = ", made.value, " of [", made.range.low.value_or(-999), ", ",
                        made.range.high.value_or(999), "]");
      }
      ASSERT_EQ(dim.evaluate(value_of), value) << where;
      const auto parsed = onnx_native::parse_dim(dim.str(), symbol);
      ASSERT_TRUE(parsed) << where;
      ASSERT_EQ(parsed->evaluate(value_of), value) << where;
      const DimRange range = dim.range();
      ASSERT_LE(range.low.value_or(value), value) << where;
      ASSERT_GE(range.high.value_or(value), value) << where;
      if (dim.known_non_negative()) {
        ASSERT_GE(value, 0) << where;
      }
      if (dim.known_positive() || dim.known_positive(false)) {
        ASSERT_GT(value, 0) << where;
      }
    }
  }
}

// Uses constants near the limits of int64; the expected values are computed exactly in 128 bits.
TEST_F(RandomDims, LargeNumbersKeepTheValue) {
  using Wide = __int128;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  const std::vector<int64_t> constants = {kMost,     kLeast,      kMost - 1,   kLeast + 1,
                                          kMost / 2, kLeast / 2,  kMost / 3,   int64_t{1} << 32,
                                          -1,        -kMost / 4,  1'000'003,   2,
                                          -3,        kLeast + 99, kMost - 100, 1};
  const auto floor_of = [](Wide a, Wide b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  };
  for (int round = 0; round < 8000; ++round) {
    std::map<std::string, Sample, std::less<>> samples;
    std::vector<std::pair<Dim, Wide>> pool;
    for (const char* name : {"a", "b"}) {
      const Sample& made = samples.emplace(name, sample(name)).first->second;
      pool.emplace_back(Dim::symbol(name, made.range), made.value);
    }
    for (int i = 0; i < 3; ++i) {
      const int64_t value =
          constants[static_cast<size_t>(pick(static_cast<int>(constants.size())))];
      pool.emplace_back(value, value);
    }
    for (int i = 0; i < 5; ++i) {
      const auto [a, x] = pool[static_cast<size_t>(pick(static_cast<int>(pool.size())))];
      const auto [b, y] = pool[static_cast<size_t>(pick(static_cast<int>(pool.size())))];
      const int operation = pick(8);
      if (y == 0 && (operation == 3 || operation == 4 || operation == 6)) continue;
      const Wide values[] = {x + y,
                             x - y,
                             x * y,
                             y == 0 ? 0 : floor_of(x, y),
                             y == 0 ? 0 : x - y * floor_of(x, y),
                             std::max(x, y),
                             y == 0 ? 0 : -floor_of(-x, y),
                             std::min(x, y)};
      const Wide value = values[operation];
      if (value > kMost || value < kLeast) continue;
      const auto compute = [&a = a, &b = b, operation] {
        switch (operation) {
          case 0:
            return a + b;
          case 1:
            return a - b;
          case 2:
            return a * b;
          case 3:
            return Dim::floor_div(a, b);
          case 4:
            return Dim::mod(a, b);
          case 5:
            return Dim::max(a, b);
          case 6:
            return Dim::ceil_div(a, b);
          default:
            return Dim::min(a, b);
        }
      };
      pool.emplace_back(compute(), value);
    }
    const auto value_of = [&](std::string_view name) -> std::optional<int64_t> {
      return samples.find(name)->second.value;
    };
    for (const auto& [dim, wide] : pool) {
      const auto value = static_cast<int64_t>(wide);
      std::string where = dim.str();
      for (const auto& [name, made] : samples) where += concat("; ", name, " = ", made.value);
      ASSERT_EQ(dim.evaluate(value_of), value) << where;
      const DimRange range = dim.range();
      ASSERT_LE(range.low.value_or(value), value) << where;
      ASSERT_GE(range.high.value_or(value), value) << where;
      ASSERT_TRUE(value >= 0 || !dim.known_non_negative()) << where;
      ASSERT_TRUE(value > 0 || !(dim.known_positive() || dim.known_positive(false))) << where;
      for (const auto& [other, other_value] : pool) {
        ASSERT_TRUE(wide >= other_value || !known_at_least(dim, other)) << where << other.str();
        ASSERT_TRUE(wide > other_value || !known_greater(dim, other)) << where << other.str();
      }
    }
  }
}

}  // namespace
}  // namespace onnx_native
