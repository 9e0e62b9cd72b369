#include "readers/jit/recorder.h"

#include <gtest/gtest.h>

#include "aten/no_types.h"
#include "base/error.h"

namespace onnx_native::readers::jit {
namespace {

struct RecorderTest : testing::Test {
  std::shared_ptr<aten::Graph> graph = std::make_shared<aten::Graph>();
  aten::NoTypes types;
  Recorder recorder{graph, types};
  Dim n = Dim::symbol("n");
  Dim m = Dim::symbol("m");

  void add_input(std::string_view name, Shape shape) {
    recorder.add_input(name, aten::Type::tensor(DType::f32, std::move(shape)));
  }
  // Returns the graph with these sizes as its results.
  std::string text(const std::vector<Dim>& sizes) {
    for (const Dim& size : sizes) graph->outputs.push_back(recorder.size(size));
    return print(*graph);
  }
};

TEST_F(RecorderTest, PartsOfExpressionsAreComputedOnce) {
  add_input("x", {n, m});
  EXPECT_EQ(text({n * m * 2 + 1, n * m, Dim::min(n, 3), 4}), R"(graph(%x: f32[n,m]) {
  %sym_size: sym_int(m) = aten::sym_size.int(%x, 1)
  %sym_size_1: sym_int(n) = aten::sym_size.int(%x, 0)
  %mul: sym_int(m*n) = python::mul(%sym_size, %sym_size_1)
  %mul_1: sym_int(2*m*n) = python::mul(%mul, 2)
  %add: sym_int(2*m*n + 1) = python::add(%mul_1, 1)
  %sym_min: sym_int(min(3, n)) = python::sym_min(3, %sym_size_1)
  return (%add, %mul, %sym_min, 4)
}
)");
}

TEST_F(RecorderTest, ABroadcastOfTwoSizesIsThatOfTheSecondIfTheFirstIsOne) {
  add_input("x", {n, m});
  EXPECT_EQ(text({Dim::broadcast(n, m)}), R"(graph(%x: f32[n,m]) {
  %sym_size: sym_int(m) = aten::sym_size.int(%x, 1)
  %eq: sym_bool = python::eq(%sym_size, 1)
  %sym_size_1: sym_int(n) = aten::sym_size.int(%x, 0)
  %sym_ite: sym_int(broadcast(m, n)) = python::sym_ite(%eq, %sym_size_1, %sym_size)
  return (%sym_ite)
}
)");
}

TEST_F(RecorderTest, ASymbolFollowsFromASizeThatIsLinearInIt) {
  add_input("x", {n * 4 + 3});
  EXPECT_EQ(text({n + 2}), R"(graph(%x: f32[4*n + 3]) {
  %sym_size: sym_int(4*n + 3) = aten::sym_size.int(%x, 0)
  %add: sym_int(4*n) = python::add(%sym_size, -3)
  %floordiv: sym_int(n) = python::floordiv(%add, 4)
  %add_1: sym_int(n + 2) = python::add(%floordiv, 2)
  return (%add_1)
}
)");
}

TEST_F(RecorderTest, ASubGraphTakesSizesFromOuterGraphs) {
  add_input("x", {n});
  Frame body = recorder.sub_graph(/*views_from_base=*/false);
  {
    const Recorder::Inside inside(recorder, body);
    body.graph->outputs.push_back(recorder.size(n * 2));
  }
  EXPECT_EQ(print(*body.graph), R"(graph(%sym_size: sym_int(n)) {
  %mul: sym_int(2*n) = python::mul(%sym_size, 2)
  return (%mul)
}
)");
  EXPECT_EQ(text({}), R"(graph(%x: f32[n]) {
  %sym_size: sym_int(n) = aten::sym_size.int(%x, 0)
  return ()
}
)");
}

TEST_F(RecorderTest, ASizeThatNoTensorHasIsAnError) {
  add_input("x", {n});
  EXPECT_THROW(recorder.size(m), ExportError);
}

}  // namespace
}  // namespace onnx_native::readers::jit
