#include <gtest/gtest.h>

#include <limits>

#include "aten/graph.h"

namespace onnx_native::aten {
namespace {

void expect_round_trip(const std::string& text) { EXPECT_EQ(print(*parse(text)), text); }

std::string parse_error(std::string_view text) {
  try {
    parse(text);
  } catch (const ExportError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  return "no error";
}

TEST(AtenText, CallsWithConstantsAndMutations) {
  expect_round_trip(R"(graph(%x: f32[batch,8]) constants(%w: f32[4,8] parameter, %n.m: i64[]) {
  %1: f32[batch,4] = aten::linear(%x, %w, None)
  %2: f32[batch,4] = aten::add.Tensor(%1, %1, alpha=2)
  %3: f32[2,batch] = aten::max_pool2d(%2, [3, 3], [], [0, 0], [1, 1], False)
  mutate "n.m" = %3
  mutate input "x" = %2
  return (%2, None, 3)
}
)");
}

TEST(AtenText, SymbolicSizesAndSeveralResults) {
  expect_round_trip(R"(graph(%x: f32[s0,2*s1 + 1], %n: sym_int(s0)) {
  %a: f32[s0], %b: i64[s0] = aten::max.dim(%x, 1, False)
  %s: sym_int(2*s1 + 1) = aten::sym_size.int(%x, 1)
  %c: f32[s0 + 1,max(1, s0)], %d: tensor, %e: f32, %f: tensor[s0], %g: quantized i8[2] = my::op([%n, [%s, 1]])
  return (%a, [%b, %c])
}
)");
}

TEST(AtenText, Literals) {
  expect_round_trip(R"(graph(%x: f32[2], %k: sym_float, %t: sym_bool, %o: other, %"a b": unknown) {
  %1: none = my::op(True, False, None, -3, 0.5, 1e-05, 1.0, inf, -inf, nan, complex(1.0, -2.5), "a\"b\nc", f32, i64, [], [1, None])
  %2: f32[2] = aten::to.dtype(%x, f16, False, False, None)
  return (%"a b")
}
)");
}

TEST(AtenText, SubGraphs) {
  expect_round_trip(R"(graph(%x: f32[2], %p: sym_bool) {
  %1: f32[2] = higher_order::cond(%p, graph(%a: f32[2]) {
    %b: f32[2] = aten::relu(%a)
    return (%b)
  }, graph(%a: f32[2]) {
    return (%a)
  }, [%x])
  return (%1)
}
)");
}

TEST(AtenText, DefaultsAreFilledIn) {
  const auto graph = parse(R"(graph(%x: f32[2]) {
  %1: f32[2] = aten::add.Tensor(%x, %x)
  %2: f32[2] = aten::zeros_like(%1, dtype=f32)  # a comment
  return (%2)
})");
  EXPECT_EQ(print(*graph->nodes[0]), "%1: f32[2] = aten::add.Tensor(%x, %x, alpha=1)");
  EXPECT_EQ(print(*graph->nodes[1], true),
            "%2: f32[2] = aten::zeros_like(%1: f32[2], dtype=f32, layout=None, device=None, "
            "pin_memory=None, memory_format=None)");
}

TEST(AtenText, ErrorsNameTheLine) {
  EXPECT_EQ(parse_error("graph() {\n  %1: f32[2] = aten::relu(%x)\n  return ()\n}"),
            std::string(ExportError(ErrorKind::invalid_argument,
                                    "graph text, line 2: %x is used before it is defined")
                            .what()));
  EXPECT_NE(parse_error("graph(%x: f33[2]) {\n return ()}").find("line 1: not a type: \"f33\""),
            std::string::npos);
  EXPECT_NE(parse_error("graph(%x: f32) {\n%1: f32 = aten::mm(%x)\nreturn ()\n}")
                .find("is missing the argument mat2"),
            std::string::npos);
  EXPECT_NE(
      parse_error("graph(%x: f32) {\n%x: f32 = aten::relu(%x)\nreturn ()\n}").find("defined twice"),
      std::string::npos);
  EXPECT_NE(parse_error("graph(%x: f32) {\n%1: f32 = aten::relu(%x, beta=1)\nreturn ()\n}")
                .find("takes no argument beta"),
            std::string::npos);
}

TEST(AtenGraph, NamesAreUnique) {
  Graph graph;
  EXPECT_EQ(graph.add_value("x", {})->name, "x");
  EXPECT_EQ(graph.add_value("x_1", {})->name, "x_1");
  EXPECT_EQ(graph.add_value("x", {})->name, "x_2");
  EXPECT_EQ(graph.add_value("x", {})->name, "x_3");
}

TEST(AtenSchema, FactsOfTheDispatcher) {
  const Schema* add = find_schema("aten::add.Tensor");
  ASSERT_NE(add, nullptr);
  EXPECT_EQ(add, find_schema("aten::add.Tensor"));
  EXPECT_EQ(add->index("alpha"), 2);
  EXPECT_TRUE(add->arguments[2].kwarg_only);
  EXPECT_EQ(add->arguments[2].type.kind, TypeKind::scalar);
  EXPECT_FALSE(add->is_mutable() || add->is_view());
  EXPECT_TRUE(find_schema("aten::add_.Tensor")->is_mutable());
  EXPECT_TRUE(find_schema("aten::add.out")->arguments[3].is_out);
  EXPECT_TRUE(find_schema("aten::split.Tensor")->is_view());
  EXPECT_TRUE(find_schema("aten::relu")->overload.empty());
  const Schema* index = find_schema("aten::index.Tensor");
  EXPECT_TRUE(index->arguments[1].type.list && index->arguments[1].type.optional_elements);
  EXPECT_EQ(find_schema("aten::max_pool2d")->arguments[1].type.fixed_size, 2);
  EXPECT_EQ(find_schema("aten::expand")->arguments[1].type.kind, TypeKind::sym_int);
  EXPECT_EQ(find_schema("aten::nothing"), nullptr);
}

}  // namespace
}  // namespace onnx_native::aten
