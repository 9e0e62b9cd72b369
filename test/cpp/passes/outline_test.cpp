#include <deque>

#include "onnx/typing.h"
#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class OutlineTest : public PassTest {
 protected:
  // Places the node of `value` in modules, given as {"encoder", "my.Encoder"} from the outside in.
  Value* at(std::initializer_list<std::pair<const char*, const char*>> modules, Value* value,
            int64_t call = 0) {
    Location& location = locations_.emplace_back();
    location.module_names = {""};
    location.class_names = {"my.Model"};
    for (const auto& [name, type] : modules) {
      location.module_names.emplace_back(name);
      location.class_names.emplace_back(type);
    }
    location.calls.assign(location.module_names.size(), call);
    value->producer->location = &location;
    return value;
  }
  Value* unary(std::string_view op_type, Value* x) { return op(op_type, {x}, *x->shape); }
  Value* add(Value* x, Value* y) { return op("Add", {x, y}, *x->shape); }

  std::string outlined(const ModuleFunctions& modules) {
    onnx::verify(model_, "building the test");
    unseen_ = outline_modules(model_, modules);
    onnx::assign_names(model_);
    onnx::verify(model_, "outlining");
    return nodes();
  }
  // Returns "domain.name( inputs ): operators => number of outputs" for each function.
  std::vector<std::string> functions() const {
    std::vector<std::string> result;
    for (const onnx::Function& function : model_.functions) {
      std::string text = function.domain + "." + function.name + "(";
      for (const Value* input : function.body->inputs) text += " " + input->name;
      text += " ):";
      for (const onnx::Node* node : function.body->nodes) text += " " + node->op_type;
      result.push_back(text + " => " + std::to_string(function.body->outputs.size()));
    }
    return result;
  }

  std::deque<Location> locations_;
  std::vector<std::string> unseen_;
};

using Texts = std::vector<std::string>;
const ModuleFunctions kAll{.all = true, .classes = {}};

TEST_F(OutlineTest, OneBodyServesCallsOfOneStructure) {
  Value* x = input("x", {batch_, 4});
  for (const char* layer : {"layers.0", "layers.1"}) {
    Value* w = weight(std::string(layer) + ".weight", {4});
    Value* y = at({{layer, "my.Layer"}}, add(x, w));
    x = at({{layer, "my.Layer"}}, op("Mul", {y, number(2.0)}, {batch_, 4}));
  }
  result(at({}, unary("Relu", x)), "y");
  EXPECT_EQ(outlined({.all = false, .classes = {"my.Layer"}}),
            "val_Layer = my.Layer (x, \"layers.0.weight\")\n"
            "val_Layer_1 = my.Layer (val_Layer, \"layers.1.weight\")\n"
            "y = Relu (val_Layer_1)\n");
  EXPECT_EQ(functions(), Texts{"my.Layer( input_0 weight ): Add Mul => 1"});
  EXPECT_EQ(model_.functions[0].body->initializers.size(), 1u);
  EXPECT_TRUE(unseen_.empty());
}

TEST_F(OutlineTest, NothingChosenNothingDone) {
  Value* x = input("x", {4});
  result(at({{"a", "my.Layer"}}, unary("Exp", x)), "y");
  EXPECT_EQ(outlined({.all = false, .classes = {"Layer2", "er"}}), "y = Exp (x)\n");
  EXPECT_EQ(unseen_, (Texts{"Layer2", "er"}));
}

TEST_F(OutlineTest, RegionsAreAlwaysFunctions) {
  Value* x = input("x", {4});
  for (const char* call : {"invoke_subgraph", "invoke_subgraph_1"}) {
    x = at({{call, "pkg.torch.__subgraph__.repeated_subgraph0"}}, unary("Exp", x));
  }
  result(x, "y");
  outlined({});
  EXPECT_EQ(functions(), Texts{"pkg.torch.__subgraph__.repeated_subgraph0( input_0 ): Exp => 1"});
  EXPECT_EQ(graph_.nodes.size(), 2u);
}

TEST_F(OutlineTest, AnotherConstantIsAnotherBody) {
  Value* x = input("x", {4});
  x = at({{"a", "my.Scale"}}, op("Mul", {x, number(2.0)}, {4}));
  x = at({{"b", "my.Scale"}}, op("Mul", {x, number(3.0)}, {4}));
  x = at({{"c", "my.Scale"}}, op("Mul", {x, number(2.0)}, {4}));
  result(x, "y");
  EXPECT_EQ(outlined(kAll),
            "val_Scale = my.Scale (x)\nval_Scale_1 = my.Scale_1 (val_Scale)\n"
            "y = my.Scale (val_Scale_1)\n");
}

TEST_F(OutlineTest, CallsOfOneModuleAreApart) {
  Value* x = input("x", {4});
  x = at({{"a", "my.Layer"}}, unary("Exp", x));
  x = at({{"a", "my.Layer"}}, unary("Exp", x), 1);
  result(x, "y");
  EXPECT_EQ(outlined(kAll), "val_Layer = my.Layer (x)\ny = my.Layer (val_Layer)\n");
}

TEST_F(OutlineTest, FunctionsCallFunctions) {
  Value* x = input("x", {4});
  for (const char* outer : {"a", "b"}) {
    const std::string inner = std::string(outer) + ".act";
    x = at({{outer, "my.Block"}}, unary("Neg", x));
    x = at({{outer, "my.Block"}, {inner.c_str(), "my.Act"}}, unary("Exp", x));
    x = at({{outer, "my.Block"}}, unary("Neg", x));
  }
  result(x, "y");
  EXPECT_EQ(outlined(kAll), "val_Block = my.Block (x)\ny = my.Block (val_Block)\n");
  EXPECT_EQ(functions(),
            (Texts{"my.Act( input_0 ): Exp => 1", "my.Block( input_0 ): Neg Act Neg => 1"}));
  const onnx::Node* call = *std::next(model_.functions[1].body->nodes.begin());
  EXPECT_EQ(call->name, "act");
  EXPECT_EQ(call->location->module_names, Texts{"act"});
}

TEST_F(OutlineTest, NodesOfTheModelBetweenGoInside) {
  Value* x = input("x", {4});
  Value* before = at({{"a", "my.Layer"}}, unary("Exp", x));
  Value* apart = at({}, unary("Sin", x));
  Value* between = at({}, unary("Neg", before));
  Value* later = at({}, add(between, apart));
  result(at({{"a", "my.Layer"}}, add(between, apart)), "y");
  result(later, "z");
  EXPECT_EQ(outlined(kAll),
            "val_Sin = Sin (x)\nval_Layer, y = my.Layer (x, val_Sin)\n"
            "z = Add (val_Layer, val_Sin)\n");
  EXPECT_EQ(functions(), Texts{"my.Layer( input_0 input_1 ): Exp Neg Add => 2"});
}

TEST_F(OutlineTest, AnotherCallBetweenMakesTwoParts) {
  Value* x = input("x", {4});
  Value* before = at({{"a", "my.Layer"}}, unary("Exp", x));
  Value* between = at({{"b", "my.Other"}}, unary("Neg", before));
  result(at({{"a", "my.Layer"}}, add(between, before)), "y");
  EXPECT_EQ(outlined(kAll),
            "val_Layer = my.Layer (x)\nval_Other = my.Other (val_Layer)\n"
            "y = my.Layer_1 (val_Other, val_Layer)\n");
}

TEST_F(OutlineTest, InterleavedCallsComeApart) {
  Value* x = input("x", {4});
  Value* a = at({{"a", "my.Layer"}}, unary("Exp", x));
  Value* b = at({{"b", "my.Layer"}}, unary("Exp", a));
  Value* also = at({{"a", "my.Layer"}}, unary("Neg", a));
  result(at({{"b", "my.Layer"}}, add(b, b)), "y");
  result(also, "z");
  outlined(kAll);
  EXPECT_EQ(graph_.nodes.size(), 2u);
}

TEST_F(OutlineTest, SizesThatModulesShareAreOutside) {
  Value* x = input("x", {batch_, 4});
  Value* shape = at({{"a", "my.Layer"}}, op("Shape", {x}, {2}, {}, DType::i64));
  onnx::Typing::set_contents(*shape, Shape{batch_, Dim(4)});
  Value* y = at({{"a", "my.Layer"}}, op("Expand", {weight("w", {4}), shape}, {batch_, 4}));
  result(at({{"b", "my.Layer"}}, op("Expand", {weight("v", {4}), shape}, {batch_, 4})), "y");
  result(y, "z");
  EXPECT_EQ(outlined(kAll),
            "val_Shape = Shape (x)\nz = my.Layer (val_Shape, w)\ny = my.Layer (val_Shape, v)\n");
}

TEST_F(OutlineTest, SubGraphsTakeTheirOuterValuesAlong) {
  Value* x = input("x", {4});
  Value* c = input("c", {}, DType::boolean);
  const auto layer = [&](const char* name, Value* from) {
    Value* inner = at({{name, "my.Layer"}}, unary("Exp", from));
    const auto branch = [&](std::string_view op_type) {
      auto body = std::make_shared<onnx::Graph>(&graph_);
      body->outputs = {
          at({{name, "my.Layer"}}, op(op_type, {inner, from}, {4}, {}, DType::f32, body.get()))};
      return body;
    };
    return at({{name, "my.Layer"}},
              op("If", {c}, {4}, {{"then_branch", branch("Add")}, {"else_branch", branch("Mul")}}));
  };
  result(layer("b", layer("a", x)), "y");
  EXPECT_EQ(outlined(kAll), "val_Layer = my.Layer (x, c)\ny = my.Layer (val_Layer, c)\n");
  EXPECT_EQ(functions(), Texts{"my.Layer( input_0 input_1 ): Exp If => 1"});
}

TEST_F(OutlineTest, CallsInSubGraphs) {
  Value* x = input("x", {4});
  Value* c = input("c", {}, DType::boolean);
  const auto branch = [&](const char* name) {
    auto body = std::make_shared<onnx::Graph>(&graph_);
    Value* y = op("Exp", {x}, {4}, {}, DType::f32, body.get());
    body->outputs = {at({{name, "my.Layer"}}, y)};
    return body;
  };
  result(at({}, op("If", {c}, {4}, {{"then_branch", branch("a")}, {"else_branch", branch("b")}})),
         "y");
  outlined(kAll);
  EXPECT_EQ(functions(), Texts{"my.Layer( input_0 ): Exp => 1"});
  EXPECT_EQ(graph_.nodes.size(), 1u);
}

TEST_F(OutlineTest, SharedNodesBelongToTheCommonModule) {
  Value* x = input("x", {4});
  Value* one = at({{"a", "my.Layer"}}, unary("Exp", x));
  Value* two = at({{"b", "my.Layer"}}, unary("Exp", x));
  result(at({{"a", "my.Layer"}}, unary("Neg", one)), "y");
  result(at({{"b", "my.Layer"}}, op("Neg", {unary("Sin", two)}, {4})), "z");
  eliminate_common_subexpressions(model_);
  outlined(kAll);
  EXPECT_EQ(graph_.nodes.front()->op_type, "Exp");
}

TEST_F(OutlineTest, BodiesKeepWhatHoldsForAllCalls) {
  Value* small = input("small", {batch_, 4});
  Value* large = input("large", {batch_, 8});
  result(at({{"a", "my.Layer"}}, unary("Exp", small)), "y");
  result(at({{"b", "my.Layer"}}, unary("Exp", large)), "z");
  outlined(kAll);
  ASSERT_EQ(model_.functions.size(), 1u);
  EXPECT_FALSE(model_.functions[0].body->inputs[0]->shape);
  EXPECT_EQ(model_.functions[0].body->inputs[0]->dtype, DType::f32);
}

}  // namespace
}  // namespace onnx_native::passes
