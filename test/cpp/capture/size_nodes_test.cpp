#include "capture/size_nodes.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "aten/no_types.h"
#include "capture/frame.h"

namespace onnx_native::capture {
namespace {

struct SizeNodesTest : testing::Test {
  Decisions decisions{{{"n", {.example = 5, .range = DimRange::input_size(1, 64)}},
                       {"m", {.example = 7, .range = DimRange::input_size(1, 64)}}},
                      [] { return std::string("model.py:7"); }};
  LazyTypes types{[] { return std::make_unique<aten::NoTypes>(); }};
  MemoryLayouts layouts{decisions};
  Frame program{decisions, types, layouts};
  Dim n = decisions.symbol("n");
  Dim m = decisions.symbol("m");

  static aten::Value* add_input(Frame& frame, std::string_view name, Shape shape) {
    aten::Value* value = frame.add_input(name, aten::Type::tensor(DType::f32, std::move(shape)));
    frame.sizes().add_input(value);
    return value;
  }
  // Returns the graph with these sizes as its results.
  static std::string text(Frame& frame, const std::vector<Dim>& sizes) {
    for (const Dim& size : sizes) frame.graph().outputs.push_back(frame.sizes().size(size));
    return print(frame.graph());
  }
};

TEST_F(SizeNodesTest, ASizeIsReadOnceFromTheFirstTensorThatHasIt) {
  add_input(program, "x", {3, n});
  add_input(program, "y", {n});
  EXPECT_EQ(text(program, {n, n, 4}), R"(graph(%x: f32[3,n], %y: f32[n]) {
  %sym_size_int: sym_int(n) = aten::sym_size.int(%x, 1)
  return (%sym_size_int, %sym_size_int, 4)
}
)");
}

TEST_F(SizeNodesTest, PartsOfExpressionsAreComputedOnce) {
  add_input(program, "x", {n, m});
  EXPECT_EQ(text(program, {n * m * 2 + 1, n * m, Dim::floor_div(n * m, 3)}),
            R"(graph(%x: f32[n,m]) {
  %sym_size_int: sym_int(m) = aten::sym_size.int(%x, 1)
  %sym_size_int_1: sym_int(n) = aten::sym_size.int(%x, 0)
  %mul: sym_int(m*n) = python::mul(%sym_size_int, %sym_size_int_1)
  %mul_1: sym_int(2*m*n) = python::mul(%mul, 2)
  %add: sym_int(2*m*n + 1) = python::add(%mul_1, 1)
  %floordiv: sym_int((m*n)//3) = python::floordiv(%mul, 3)
  return (%add, %mul, %floordiv)
}
)");
}

TEST_F(SizeNodesTest, AnExpressionThatATensorHasIsRead) {
  add_input(program, "x", {n, n + 1});
  EXPECT_EQ(text(program, {n + 1, Dim::max(n, 3)}), R"(graph(%x: f32[n,n + 1]) {
  %sym_size_int: sym_int(n + 1) = aten::sym_size.int(%x, 1)
  %sym_size_int_1: sym_int(n) = aten::sym_size.int(%x, 0)
  %sym_max: sym_int(max(3, n)) = python::sym_max(3, %sym_size_int_1)
  return (%sym_size_int, %sym_max)
}
)");
}

TEST_F(SizeNodesTest, ASymbolFollowsFromItsMultiple) {
  add_input(program, "x", {n * 4});
  EXPECT_EQ(text(program, {n + 2}), R"(graph(%x: f32[4*n]) {
  %sym_size_int: sym_int(4*n) = aten::sym_size.int(%x, 0)
  %floordiv: sym_int(n) = python::floordiv(%sym_size_int, 4)
  %add: sym_int(n + 2) = python::add(%floordiv, 2)
  return (%add)
}
)");
}

TEST_F(SizeNodesTest, FloatsAndConditionsAreComputedOnce) {
  add_input(program, "x", {n});
  const NumberPtr half = make_call("python::truediv", {make_number(n), make_number(Dim(2))});
  const NumberPtr less = make_call("python::lt", {half, make_number(1.5)});
  program.graph().outputs = {program.sizes().number(*less), program.sizes().number(*half),
                             program.sizes().number(*make_number(2.5))};
  EXPECT_EQ(print(program.graph()), R"(graph(%x: f32[n]) {
  %sym_size_int: sym_int(n) = aten::sym_size.int(%x, 0)
  %truediv: sym_float = python::truediv(%sym_size_int, 2)
  %lt: sym_bool = python::lt(%truediv, 1.5)
  return (%lt, %truediv, 2.5)
}
)");
}

TEST_F(SizeNodesTest, ARegionComputesFromWhatItsInputsHaveAndCapturesTheRest) {
  add_input(program, "x", {n, m});
  Frame region(decisions, types, layouts, &program);
  add_input(region, "slice", {n});
  EXPECT_EQ(text(region, {n + m, m, m * 2}), R"(graph(%slice: f32[n], %sym_size_int: sym_int(m)) {
  %sym_size_int_1: sym_int(n) = aten::sym_size.int(%slice, 0)
  %add: sym_int(m + n) = python::add(%sym_size_int, %sym_size_int_1)
  %mul: sym_int(2*m) = python::mul(%sym_size_int, 2)
  return (%add, %sym_size_int, %mul)
}
)");
  EXPECT_EQ(text(program, {}), R"(graph(%x: f32[n,m]) {
  %sym_size_int: sym_int(m) = aten::sym_size.int(%x, 1)
  return ()
}
)");
  ASSERT_EQ(region.captured().size(), 1);
  EXPECT_EQ(region.captured()[0]->producer->op, "aten::sym_size.int");
}

TEST_F(SizeNodesTest, ReadResultsReadsTheSizesOfResultsAndNotOfInputs) {
  aten::Value* x = add_input(program, "x", {n});
  aten::Node* node = program.add_node("aten::nonzero", {x});
  const Dim count = Dim::fresh(DimRange::size());
  aten::Value* found =
      program.graph().add_output(node, "found", aten::Type::tensor(DType::i64, Shape{count, 1}));
  program.sizes().add_axis(count, found, 0);
  program.sizes().read_results();
  ASSERT_EQ(program.graph().nodes.size(), 2);
  EXPECT_EQ(program.graph().nodes[1]->arguments[0].as_value(), found);
}

TEST_F(SizeNodesTest, ASizeThatNoTensorHasIsRefused) {
  add_input(program, "x", {n});
  EXPECT_THROW(program.sizes().size(m), c10::Error);
  EXPECT_EQ(decisions.reason(), "no input has the size m (model.py:7)");
}

TEST_F(SizeNodesTest, ARegionRefusesAFloatThatIsReadFromATensor) {
  aten::Value* x = add_input(program, "x", {1});
  aten::Type type;
  type.kind = aten::Type::Kind::sym_float;
  aten::Value* item = program.graph().add_output(program.add_node("aten::item", {x}), "item", type);
  EXPECT_EQ(program.sizes().number(*make_number(item)).as_value(), item);
  Frame region(decisions, types, layouts, &program);
  EXPECT_THROW(region.sizes().number(*make_number(item)), c10::Error);
}

TEST(Frame, ValuesOfEnclosingGraphsBecomeInputsOnce) {
  Decisions decisions({}, [] { return std::string(); });
  LazyTypes types([] { return std::make_unique<aten::NoTypes>(); });
  MemoryLayouts layouts(decisions);
  Frame program(decisions, types, layouts);
  Frame branch(decisions, types, layouts, &program);
  Frame loop(decisions, types, layouts, &branch);
  program.set_value(3, program.add_input("x", aten::Type::tensor(DType::f32, Shape{2})));
  aten::Value* inner = loop.value(3);
  EXPECT_EQ(loop.value(3), inner);
  EXPECT_EQ(loop.captured(), std::vector{branch.value(3)});
  EXPECT_EQ(branch.captured(), std::vector{program.value(3)});
  EXPECT_EQ(loop.value(4), nullptr);
  EXPECT_EQ(print(loop.graph()), "graph(%x: f32[2]) {\n  return ()\n}\n");
}

}  // namespace
}  // namespace onnx_native::capture
