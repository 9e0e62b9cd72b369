#include "ops/engine/lower.h"

#include <gtest/gtest.h>

#include "ops/formulas/axes.h"

namespace onnx_native::ops {
namespace {

// Lowers one call and inspects its result or error.
class LowerTest : public testing::Test {
 protected:
  aten::Value* input(DType dtype, const Shape& shape) { return input_of(dtype, shape); }
  aten::Value* input_of(DType dtype, const std::optional<Shape>& shape) {
    aten::Value* value = graph.add_input("x", aten::Type::tensor(dtype, shape));
    Value lowered = model.graph->add_input(value->name, dtype, shape);
    builder.bind_sizes(lowered);
    lowerer.environment()[value] = lowered;
    return value;
  }
  Value lower(const std::string& op, std::vector<aten::Argument> arguments, DType dtype,
              const Shape& shape) {
    aten::Node* node = graph.add_node(op, std::move(arguments));
    aten::Value* result = graph.add_output(node, "y", aten::Type::tensor(dtype, shape));
    lowerer.lower(*node);
    return lowerer.environment().at(result).value;
  }
  std::string error_of(const std::string& op, std::vector<aten::Argument> arguments, DType dtype,
                       const Shape& shape) {
    try {
      lower(op, std::move(arguments), dtype, shape);
    } catch (const ExportError& error) {
      return error.what();
    }
    return "";
  }

  aten::Graph graph;
  onnx::Model model;
  Builder builder{model};
  OpTable table;
  Lowerer lowerer{builder, Lowerings(table)};
};

Value add(Builder& b, Value self, Value other) { return b.Add(self, other); }

TEST_F(LowerTest, ReportsSizesThatContradictTheRecord) {
  table.def("test::pad_one", [](Builder& b, Value x) { return b.op("Pad", {x, b.i64s({0, 1})}); });
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  aten::Value* x = input(DType::f32, {n});
  lower("test::pad_one", {x}, DType::f32, {n + 1});
  lower("test::pad_one", {x}, DType::f32, {m});  // may be equal
  EXPECT_TRUE(lowerer.contradictions().empty());
  const Value y = lower("test::pad_one", {x}, DType::f32, {n});
  ASSERT_EQ(lowerer.contradictions().size(), 1U);
  EXPECT_EQ(lowerer.contradictions()[0].cause,
            "dimension 0 of result 0 is computed as n + 1 but recorded as n");
  EXPECT_EQ(y->dim(0), n);
}

TEST_F(LowerTest, ANumberDoesNotWidenATensor) {
  table.def("test::add", Promote::standard, add);
  aten::Value* x = input(DType::f16, {2});
  EXPECT_EQ(lower("test::add", {x, 1.5}, DType::f16, {2})->dtype, DType::f16);
}

TEST_F(LowerTest, AFloatingNumberMakesIntegersFloat) {
  table.def("test::add", Promote::standard, add);
  aten::Value* x = input(DType::i64, {2});
  EXPECT_EQ(lower("test::add", {x, 1.5}, DType::f32, {2})->dtype, DType::f32);
}

TEST_F(LowerTest, AnOutputOfTheProgramThatTheLoweringDoesNotComputeIsAnError) {
  table.def("test::loss", [](Builder& b, Value x) { return Results{b.Neg(x), Lowered()}; });
  aten::Node* node = graph.add_node("test::loss", {input(DType::f32, {2})});
  graph.add_output(node, "loss", aten::Type::tensor(DType::f32, Shape{2}));
  aten::Value* reserve = graph.add_output(node, "reserve", aten::Type());
  lowerer.lower(*node);
  EXPECT_THROW(lowerer.lowered(reserve), ExportError);
}

TEST_F(LowerTest, AnArgumentThatIsNeitherATensorNorANumberIsAnError) {
  table.def("test::add", Promote::standard, add);
  aten::Value* text = graph.add_input("s", aten::Type::tensor(DType::f32, Shape{}));
  lowerer.environment()[text] = Lowered();  // as of a string in a damaged file
  const std::string error = error_of("test::add", {text, 1.5}, DType::f32, {});
  EXPECT_NE(error.find("neither a tensor nor a number"), std::string::npos) << error;
}

TEST_F(LowerTest, AZeroDimTensorDoesNotWidenWithinItsKind) {
  table.def("test::add", Promote::standard, add);
  aten::Value* x = input(DType::i32, {2});
  aten::Value* zero_dim = input(DType::i64, {});
  EXPECT_EQ(lower("test::add", {x, zero_dim}, DType::i32, {2})->dtype, DType::i32);
}

TEST_F(LowerTest, AWrongDtypeIsAnErrorNeverACast) {
  table.def("test::add", Promote::standard, add);
  aten::Value* x = input(DType::i32, {2});
  EXPECT_NE(error_of("test::add", {x, x}, DType::i64, {2})
                .find("result 0 is i32, but the program recorded i64"),
            std::string::npos);
}

TEST_F(LowerTest, AnArgumentThatMustBeConstantIsNamedInTheError) {
  table.def("test::rows", [](Builder& b, Value self, int64_t n) { return b.slice(self, 0, 0, n); });
  aten::Value* x = input(DType::f32, {Dim::symbol("batch")});
  aten::Value* size = graph.add_input("n", aten::Type::sym_int(Dim::symbol("batch")));
  lowerer.environment()[size] = Dim::symbol("batch");
  std::string error = error_of("test::rows", {x, size}, DType::f32, {Dim::symbol("batch")});
  EXPECT_NE(error.find("must be a constant integer"), std::string::npos) << error;
  EXPECT_NE(error.find("test::rows"), std::string::npos) << error;
}

TEST_F(LowerTest, AnAxisThatATensorHasNotIsAnErrorWithTheCallsPlace) {
  table.def("test::count", [](Builder& b, Value self, int64_t dim) { return b.size(self, dim); });
  table.def("test::rank", [](Builder& b, Value self) { return b.i64(self->rank()); });
  aten::Value* x = input(DType::f32, Shape{2});
  const std::string no_axis = error_of("test::count", {x, int64_t{5}}, DType::i64, {});
  EXPECT_NE(no_axis.find("test::count: dimension 5 is out of range for a 1-D tensor"),
            std::string::npos)
      << no_axis;
  const std::string no_rank =
      error_of("test::rank", {input_of(DType::f32, std::nullopt)}, DType::i64, {});
  EXPECT_NE(no_rank.find("test::rank: the rank of a tensor is unknown"), std::string::npos)
      << no_rank;
}

TEST_F(LowerTest, AnElementThatIsNotThereIsAnErrorWithTheCallsPlace) {
  table.def("test::second", [](Builder&, Value, Ints numbers) { return Dim(numbers.at(1)); });
  const std::string error = error_of(
      "test::second", {input(DType::f32, {2}), aten::Argument::List{int64_t{1}}}, DType::i64, {});
  EXPECT_NE(error.find("test::second: inconsistent arguments"), std::string::npos) << error;
}

TEST_F(LowerTest, PartsOfAShapeAreThereOrAnError) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(part_of(shape, 1), (Shape{3, 4}));
  EXPECT_EQ(part_of(shape, 0, -2), (Shape{2}));
  EXPECT_EQ(part_of(shape, 3), Shape());
  EXPECT_THROW(part_of(shape, -4), ExportError);
  EXPECT_THROW(part_of(shape, 0, 4), ExportError);
}

TEST_F(LowerTest, ADuplicateEntryThrows) {
  table.def("test::add", Promote::standard, add);
  EXPECT_THROW(table.def("test::add", Promote::standard, add), ExportError);
}

TEST_F(LowerTest, TheUsersEntryWins) {
  table.unary("test::f", "Exp");
  table.override_def("test::f",
                     bind(Promote::none, [](Builder& b, Value self) { return b.Neg(self); }));
  aten::Value* x = input(DType::f32, {2});
  EXPECT_EQ(lower("test::f", {x}, DType::f32, {2})->producer->op_type, "Neg");
}

TEST_F(LowerTest, AllMissingOperatorsAreReportedTogether) {
  aten::Value* x = input(DType::f32, {2});
  Location location;
  location.source = "model.py:42";
  location.module_path = "encoder.layer.0";
  for (const char* op : {"test::one", "test::two"}) {
    aten::Node* node = graph.add_node(op, {x}, graph.add_location(location));
    graph.outputs.emplace_back(
        graph.add_output(node, "y", aten::Type::tensor(DType::f32, Shape{2})));
  }
  try {
    check_operators(graph, Lowerings(table));
    FAIL();
  } catch (const ExportError& error) {
    std::string text = error.what();
    EXPECT_EQ(error.kind(), ErrorKind::unsupported_operator);
    EXPECT_NE(text.find("test::one has no ONNX lowering"), std::string::npos) << text;
    EXPECT_NE(text.find("test::two has no ONNX lowering"), std::string::npos) << text;
    EXPECT_NE(text.find("at model.py:42"), std::string::npos) << text;
    EXPECT_NE(text.find("in encoder.layer.0"), std::string::npos) << text;
    EXPECT_NE(text.find("hint:"), std::string::npos) << text;
  }
}

TEST_F(LowerTest, OnlyWhatOutputsNeedIsLive) {
  aten::Value* x = input(DType::f32, {2});
  aten::Node* unused = graph.add_node("test::unused", {x});
  graph.add_output(unused, "a", aten::Type::tensor(DType::f32, Shape{2}));
  EXPECT_TRUE(live_nodes(graph).empty());
}

}  // namespace
}  // namespace onnx_native::ops
