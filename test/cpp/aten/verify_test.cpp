#include <gtest/gtest.h>

#include "aten/graph.h"

namespace onnx_native::aten {
namespace {

std::string verify_error(const Graph& graph) {
  try {
    verify(graph, "functionalize");
  } catch (const ExportError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_program);
    const std::string message = error.what();
    EXPECT_NE(message.find("functionalize: "), std::string::npos);
    return message;
  }
  return "no error";
}

std::unique_ptr<Graph> sample() {
  return parse(R"(graph(%x: f32[2]) {
  %1: f32[2] = aten::add.Tensor(%x, %x)
  %2: f32[2] = aten::relu(%1)
  return (%2)
})");
}

TEST(AtenVerify, AcceptsAFunctionalGraph) { EXPECT_EQ(verify_error(*sample()), "no error"); }

TEST(AtenVerify, RefusesWrites) {
  const auto graph = parse("graph(%x: f32[2]) {\n %1: f32[2] = aten::relu_(%x)\n return (%1)\n}");
  EXPECT_NE(verify_error(*graph).find("aten::relu_ writes to its arguments"), std::string::npos);
}

TEST(AtenVerify, RefusesUseBeforeMaking) {
  const auto graph = sample();
  std::swap(graph->nodes[0], graph->nodes[1]);
  EXPECT_NE(verify_error(*graph).find("%1 is used before it is defined"), std::string::npos);
}

TEST(AtenVerify, RefusesMissingArguments) {
  const auto graph = sample();
  graph->nodes[0]->arguments.resize(2);
  EXPECT_NE(verify_error(*graph).find("aten::add.Tensor is missing the argument alpha"),
            std::string::npos);
  graph->nodes[0]->arguments.push_back(int64_t{1});
  graph->nodes[1]->arguments[0] = Argument();
  EXPECT_NE(verify_error(*graph).find("the argument self is None"), std::string::npos);
}

TEST(AtenVerify, RefusesWrongResults) {
  const auto graph = sample();
  graph->add_output(graph->nodes[1], "more", Type::tensor(DType::f32, Shape{2}));
  EXPECT_NE(verify_error(*graph).find("aten::relu has 1 results, not 2"), std::string::npos);
}

TEST(AtenVerify, ChecksSubGraphs) {
  const auto graph = parse(R"(graph(%x: f32[2], %p: sym_bool) {
  %1: f32[2] = higher_order::cond(%p, graph(%a: f32[2]) {
    %b: f32[2] = aten::relu_(%a)
    return (%b)
  }, [%x])
  return (%1)
})");
  EXPECT_NE(verify_error(*graph).find("aten::relu_ writes to its arguments"), std::string::npos);
}

}  // namespace
}  // namespace onnx_native::aten
