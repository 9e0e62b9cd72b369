#include "onnx/graph.h"

#include <gtest/gtest.h>

#include "onnx/typing.h"

namespace onnx_native::onnx {
namespace {

class GraphTest : public testing::Test {
 protected:
  Value* op(Graph& graph, std::string_view op_type, std::vector<Value*> inputs,
            std::vector<Attribute> attributes = {}) {
    Value* output =
        graph.add_node(op_type, std::move(inputs), 1, std::move(attributes))->outputs[0];
    onnx::Typing::set(*output, DType::f32, shape_);
    return output;
  }
  std::string error() const {
    try {
      verify(model_, "lowering");
    } catch (const ExportError& error) {
      return error.what();
    }
    return "";
  }
  void expect_error(const std::string& part) const {
    EXPECT_NE(error().find(part), std::string::npos) << error();
  }

  const Shape shape_{Dim::symbol("batch"), 2};
  Model model_;
  Graph& graph_ = *model_.graph;
  Value* x_ = graph_.add_input("x", DType::f32, shape_);
};

TEST_F(GraphTest, AxesThatATensorHasNotAreErrors) {
  const auto error_of = [](const auto& ask) -> std::string {
    try {
      ask();
    } catch (const ExportError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(x_->dim(-2), Dim::symbol("batch"));
  EXPECT_EQ(x_->dim(1), Dim(2));
  for (const int64_t axis : {int64_t{2}, int64_t{-3}, INT64_MIN, INT64_MAX}) {
    EXPECT_EQ(error_of([&] { x_->dim(axis); }), "[unsupported]: dimension " + std::to_string(axis) +
                                                    " is out of range for a 2-D tensor");
  }
  const Value* unknown = graph_.add_input("y", DType::f32, std::nullopt);
  const std::string no_rank =
      "[unsupported]: the rank of a tensor is unknown; specify the sizes of the inputs";
  EXPECT_EQ(error_of([&] { unknown->dim(0); }), no_rank);
  EXPECT_EQ(error_of([&] { unknown->rank(); }), no_rank);
  EXPECT_EQ(unknown->rank_or(-1), -1);
  EXPECT_EQ(x_->rank_or(-1), 2);
}

TEST_F(GraphTest, GivesUniqueNamesAndKeepsTheUsers) {
  Value* a = op(graph_, "Relu", {x_});
  a->name = "out";
  Value* b = op(graph_, "Relu", {a});
  b->name = "out";
  b->named = true;
  Value* c = op(graph_, "Relu", {b});
  graph_.outputs = {b, c};
  for (int round = 0; round < 2; ++round) {  // the names are stable
    assign_names(model_);
    EXPECT_EQ(x_->name, "x");
    EXPECT_EQ(b->name, "out");
    EXPECT_EQ(a->name, "out_1");
    EXPECT_EQ(c->name, "val_Relu");
    EXPECT_EQ(a->producer->name, "node_out_1");
  }
}

TEST_F(GraphTest, NamesHelpersForTheirCallAndConstantsForTheirElements) {
  const Location call{.node = "linear"};
  Value* turned = op(graph_, "Relu", {x_});
  Value* helper = op(graph_, "Relu", {turned});
  Value* y = op(graph_, "Relu", {helper});
  for (const Value* value : {turned, helper, y}) value->producer->location = &call;
  y->name = "linear";
  Value* other = op(graph_, "Relu", {y});
  other->name = "linear_Relu";  // the program's name comes before a helper's
  const std::vector<int64_t> two_numbers{2, -3};
  Value* sizes = graph_.add_integers(two_numbers);
  Value* again = graph_.add_integers(two_numbers);
  const std::vector<double> number{0.5};
  Value* half = graph_.add_initializer("", make_tensor(DType::f32, {}, number));
  const std::vector<int64_t> many(5, 1);
  Value* large = graph_.add_integers(many);
  other->producer->inputs.push_back(large);
  other->producer->location = &call;
  graph_.outputs = {other};
  assign_names(model_);
  EXPECT_EQ(turned->name, "linear_Relu_1");
  EXPECT_EQ(helper->name, "linear_Relu_2");
  EXPECT_EQ(y->name, "linear");
  EXPECT_EQ(y->producer->name, "node_linear");
  EXPECT_EQ(other->name, "linear_Relu");
  EXPECT_EQ(sizes->name, "const_[2,-3]_i64");
  EXPECT_EQ(again->name, "const_[2,-3]_i64_1");
  EXPECT_EQ(half->name, "const_0.5_f32");
  EXPECT_EQ(large->name, "linear_constant");
}

TEST_F(GraphTest, AClashDoesNotDisplaceOtherNames) {
  Value* weight = graph_.add_initializer("add", make_tensor(DType::f32, {1}, std::vector{1.0}));
  Value* first = op(graph_, "Relu", {x_});
  first->name = "add";
  Value* second = op(graph_, "Relu", {first});
  second->name = "add_1";
  graph_.outputs = {second};
  assign_names(model_);
  EXPECT_EQ(weight->name, "add");
  EXPECT_EQ(second->name, "add_1");
  EXPECT_EQ(first->name, "add_2");
}

TEST_F(GraphTest, ReplacesThroughChainsSubGraphsAndOutputs) {
  Value* a = op(graph_, "Identity", {x_});
  Value* b = op(graph_, "Identity", {a});
  Value* condition = graph_.add_input("c", DType::boolean, Shape{});
  auto body = std::make_shared<Graph>(&graph_);
  Value* inner = op(*body, "Relu", {b});
  body->outputs = {inner};
  Value* choice = op(graph_, "If", {condition}, {{"then_branch", body}, {"else_branch", body}});
  graph_.outputs = {choice, b};
  EXPECT_EQ(count_uses(graph_)[b], 3);
  replace_uses(graph_, {{b, a}, {a, x_}});
  EXPECT_EQ(inner->producer->inputs[0], x_);
  EXPECT_EQ(graph_.outputs[1], x_);
  graph_.erase(b->producer);
  EXPECT_EQ(graph_.nodes.size(), 2u);
}

TEST_F(GraphTest, ErasesInitializersInOneSweep) {
  const double one = 1;
  const auto tensor = [&one] { return make_tensor(DType::f32, {}, std::span(&one, 1)); };
  Value* a = graph_.add_initializer("a", tensor());
  graph_.add_initializer("b", tensor());
  Value* c = graph_.add_initializer("c", tensor());
  EXPECT_EQ(graph_.erase_initializers([](const Value& value) { return value.name == "b"; }), 1u);
  EXPECT_EQ(graph_.initializers, (std::vector<Value*>{a, c}));
  EXPECT_EQ(c->constant->number(0), 1.0);
}

TEST_F(GraphTest, PrintsOnnxText) {
  const std::vector<double> numbers{1, 2.5};
  Value* w = graph_.add_initializer("0.weight", make_tensor(DType::f32, {2}, numbers));
  Value* big =
      graph_.add_initializer("big", make_tensor(DType::f32, {2, 16}, std::vector<double>(32, 1.0)));
  Value* y = op(graph_, "Add", {x_, w});
  Value* z = op(graph_, "Foo", {y, nullptr, big},
                {{"axis", 1}, {"f", 0.5}, {"perm", std::vector<int64_t>{1, 0}}, {"mode", "up"}});
  z->producer->domain = "my.domain";
  z->name = "z";
  graph_.outputs = {z};
  model_.domains["my.domain"] = 1;
  EXPECT_EQ(print(model_),
            "<opset_import: [\"\" : 20, \"my.domain\" : 1]>\n"
            "main_graph (float[batch, 2] x) => (float[batch, 2] z)\n"
            "<float[2] \"0.weight\" = {1.0, 2.5}, float[2, 16] big> {\n"
            "  _0 = Add (x, \"0.weight\")\n"
            "  z = my.domain.Foo <axis: int = 1, f: float = 0.5, perm: ints = [1, 0], "
            "mode: string = \"up\"> (_0, \"\", big)\n"
            "}\n");
}

TEST_F(GraphTest, VerifyAcceptsALegalGraph) {
  graph_.outputs = {op(graph_, "Softmax", {op(graph_, "Relu", {x_})}, {{"axis", -1}})};
  EXPECT_EQ(error(), "");
}

TEST_F(GraphTest, VerifyNamesTheStageAndTheNode) {
  graph_.outputs = {op(graph_, "Gelu", {x_})};
  model_.opset = 19;
  expect_error("after lowering: opset 19 has no operator Gelu\n  in _0 = Gelu (x)");
}

TEST_F(GraphTest, VerifyFindsUsesBeforeDefinitions) {
  Value* a = op(graph_, "Relu", {x_});
  Value* b = op(graph_, "Relu", {a});
  graph_.outputs = {b};
  graph_.nodes.reverse();
  expect_error("an input is used before it is defined");
}

TEST_F(GraphTest, VerifyFindsValuesOfSiblingSubGraphs) {
  Value* condition = graph_.add_input("c", DType::boolean, Shape{});
  auto then_body = std::make_shared<Graph>(&graph_);
  Value* inner = op(*then_body, "Relu", {x_});
  then_body->outputs = {inner};
  auto else_body = std::make_shared<Graph>(&graph_);
  else_body->outputs = {op(*else_body, "Relu", {inner})};
  graph_.outputs = {
      op(graph_, "If", {condition}, {{"then_branch", then_body}, {"else_branch", else_body}})};
  expect_error("an input is used before it is defined");
}

TEST_F(GraphTest, VerifyChecksDtypes) {
  Value* flag = graph_.add_input("c", DType::boolean, shape_);
  graph_.outputs = {op(graph_, "Add", {x_, flag})};
  expect_error("input B cannot be bool at opset 20");
}

TEST_F(GraphTest, VerifyChecksThatTypesAgree) {
  Value* whole = graph_.add_input("i", DType::i64, shape_);
  graph_.outputs = {op(graph_, "Add", {x_, whole})};
  expect_error("input B is i64, but a value of the same type parameter is f32");
}

TEST_F(GraphTest, VerifyChecksAttributesAndCounts) {
  Value* a = op(graph_, "Relu", {x_}, {{"axis", 1}});
  graph_.outputs = {a};
  expect_error("opset 20 has no attribute axis");
  a->producer->attributes.clear();
  a->producer->inputs.push_back(x_);
  expect_error("got 2 inputs, but opset 20 takes 1 to 1");
  a->producer->op_type = "Concat";
  expect_error("attribute axis is missing");
  a->producer->attributes = {{"axis", 1.0}};
  expect_error("attribute axis does not have the kind");
  a->producer->attributes = {{"axis", 1}};
  EXPECT_EQ(error(), "");
}

TEST_F(GraphTest, VerifyWantsEveryValueTyped) {
  graph_.outputs = {graph_.add_node("Relu", {x_}, 1)->outputs[0]};
  expect_error("has no dtype");
}

}  // namespace
}  // namespace onnx_native::onnx
