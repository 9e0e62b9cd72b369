#include "onnx_native/callable.h"

#include <gtest/gtest.h>
#include <torch/nn.h>

#include <string>
#include <thread>

namespace onnx_native {
namespace {

template <class Callable, size_t N>
std::string refusal(Callable&& callable, const ExampleInput (&inputs)[N],
                    ErrorKind kind = ErrorKind::unsupported) {
  try {
    export_callable(callable, inputs);
  } catch (const ExportError& error) {
    EXPECT_EQ(name(error.kind()), name(kind)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

bool contains(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

TEST(CallableTest, AModuleKeepsTheNamesOfItsWeights) {
  torch::nn::Linear linear(4, 3);
  const Program program = export_callable(linear, {{"x", torch::randn({2, 4}), {"batch", 4}}});
  const TensorInfo input = program.inputs().at(0);
  EXPECT_EQ(input.name, "x");
  EXPECT_EQ(str(*input.shape), "[batch, 4]");
  EXPECT_EQ(str(*program.outputs().at(0).shape), "[batch, 3]");
  EXPECT_TRUE(contains(program.text(), "bias")) << program.text();
  EXPECT_TRUE(program.conditions().empty());
  program.check();
}

TEST(CallableTest, AFunctionReturnsTuplesAndVectors) {
  const auto function = [](const at::Tensor& x, const at::Tensor& y) {
    return std::tuple(x + y, std::vector<at::Tensor>{x * y, x - y}, at::Tensor());
  };
  const Program program = export_callable(
      function, {{"x", torch::ones({2, 3}), {"n", 3}}, {"y", torch::ones({2, 3}), {"n", 3}}},
      {.output_names = {"sum", "product", "difference"}});
  ASSERT_EQ(program.outputs().size(), 3);
  EXPECT_EQ(program.outputs()[2].name, "difference");
  EXPECT_EQ(str(*program.outputs()[1].shape), "[n, 3]");
}

TEST(CallableTest, ABranchOnASymbolicSizeIsACondition) {
  const auto function = [](const at::Tensor& x) {
    return x.sym_size(0) <= 8 ? x + 1 : x.reshape_symint({x.sym_size(0) * 2, -1});
  };
  EXPECT_EQ(export_callable(function, {{"x", torch::ones({5, 4}), {"n", 4}}}).conditions(),
            std::vector<std::string>{"n <= 8"});
  const Program large = export_callable(function, {{"x", torch::ones({9, 4}), {"n", 4}}});
  EXPECT_EQ(large.conditions(), std::vector<std::string>{"not (n <= 8)"});
  EXPECT_EQ(str(*large.outputs().at(0).shape), "[2*n, 2]");
}

TEST(CallableTest, ADynamicSizeReadAsANumberIsAnError) {
  const auto function = [](const at::Tensor& x) { return x.reshape({x.size(1), x.size(0)}); };
  EXPECT_TRUE(contains(refusal(function, {{"x", torch::ones({2, 3}), {2, "length"}}}),
                       "reads the dynamic size length as a number, by x.size(1); read "
                       "x.sym_size(1)"));
  EXPECT_EQ(str(*export_callable(function, {{"x", torch::ones({2, 3})}}).outputs()[0].shape),
            "[3, 2]");
}

TEST(CallableTest, RefusalsNameOperatorAndReason) {
  const auto reads = [](const at::Tensor& x) { return x * x.sum().item<double>(); };
  const std::string text = refusal(reads, {{"x", torch::ones({2})}});
  EXPECT_TRUE(contains(text, "aten::item")) << text;
  EXPECT_TRUE(contains(text, "depends on the elements of a tensor")) << text;
}

TEST(CallableTest, ErrorsOfTheCallerAreTold) {
  const auto function = [](const at::Tensor& x, const at::Tensor& y) { return x.matmul(y); };
  const auto x = torch::ones({2, 3});
  const auto error = [&](const ExampleInput& a, const ExampleInput& b) {
    return refusal(function, {a, b}, ErrorKind::invalid_argument);
  };
  EXPECT_TRUE(contains(error({"x", x, {"n"}}, {"y", x}), "has 2 dimensions, but 1 sizes"));
  EXPECT_TRUE(contains(error({"x", x, {4, 3}}, {"y", x}), "has the size 2, but 4 is given"));
  EXPECT_TRUE(contains(error({"x", x, {"n", "n"}}, {"y", x}), "equal names"));
  EXPECT_TRUE(contains(error({"x", x}, {"x", x}), "two example inputs"));
  EXPECT_TRUE(contains(error({"x", x, {{"n", 3, 8}, 3}}, {"y", x}), "not in its range"));
  const std::string text = refusal(function, {{"x", x}, {"y", x}});  // what follows is PyTorch's
  EXPECT_TRUE(contains(text, "cannot record the callable: aten::matmul: ")) << text;
  EXPECT_TRUE(contains(text, "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)")) << text;
  const auto throws = [](const at::Tensor&) -> at::Tensor { throw std::runtime_error("my error"); };
  EXPECT_TRUE(contains(refusal(throws, {{"x", x}}, ErrorKind::invalid_program),
                       "the callable fails on the example inputs: my error"));
}

TEST(CallableTest, SizesThatLayersOfTorchReadAsNumbersStayDynamic) {
  torch::nn::TransformerEncoderLayer layer(torch::nn::TransformerEncoderLayerOptions(8, 2));
  layer->eval();
  const Program program =
      export_callable(layer, {{"x", torch::ones({3, 2, 8}), {{"length", 1, 64}, "batch", 8}}});
  EXPECT_EQ(str(*program.outputs().at(0).shape), "[length, batch, 8]");
  EXPECT_TRUE(program.conditions().empty());

  torch::nn::LSTM lstm(torch::nn::LSTMOptions(8, 4).batch_first(true));
  const ExampleInput x{"x", torch::ones({2, 3, 8}), {"batch", "length", 8}};
  const Program recurrent = export_callable(lstm, {x});
  ASSERT_EQ(recurrent.outputs().size(), 3);
  EXPECT_EQ(str(*recurrent.outputs()[1].shape), "[1, batch, 4]");
  // The user's own code may still not read them.
  const auto reads = [&lstm](const at::Tensor& input) {
    return std::get<0>(lstm(input)) * input.size(1);
  };
  EXPECT_TRUE(contains(refusal(reads, {x}), "reads the dynamic size length as a number"));
}

TEST(CallableTest, NumbersThatLayersComputeFromSizesAreFollowedOrRefused) {
  const auto upsample = [](double factor) {
    return torch::nn::Upsample(torch::nn::UpsampleOptions().scale_factor({{factor, factor}}));
  };
  const ExampleInput x{"x", torch::ones({1, 2, 6, 6}), {1, 2, "h", "w"}};
  const Program doubled = export_callable(upsample(2), {x});
  EXPECT_EQ(str(*doubled.outputs().at(0).shape), "[1, 2, 2*h, 2*w]");
  EXPECT_TRUE(contains(refusal(upsample(1.5), {x}), "computes with dynamic sizes as numbers"));
}

TEST(CallableTest, CommonLayersAreExported) {
  torch::nn::Sequential model(torch::nn::Conv1d(torch::nn::Conv1dOptions(4, 8, 3).padding(1)),
                              torch::nn::BatchNorm1d(8), torch::nn::GELU(), torch::nn::MaxPool1d(2),
                              torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})),
                              torch::nn::Dropout(0.5), torch::nn::Softmax(1));
  model->eval();
  const Program program =
      export_callable(model, {{"x", torch::randn({2, 4, 32}), {"batch", 4, 32}}});
  EXPECT_EQ(str(*program.outputs().at(0).shape), "[batch, 8, 16]");
  EXPECT_TRUE(program.warnings().empty());
  model->train();
  const Program training = export_callable(model, {{"x", torch::randn({2, 4, 32})}});
  ASSERT_FALSE(training.warnings().empty());
  EXPECT_TRUE(contains(training.warnings().back(), "training mode"));
}

TEST(CallableTest, ThreadsExportAtOnce) {
  const auto text_of = [](int64_t width) {
    torch::nn::Sequential model(torch::nn::Linear(4, width), torch::nn::ReLU());
    return export_callable(model, {{"x", torch::randn({2, 4}), {"batch", 4}}}).text();
  };
  std::vector<std::string> texts(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < texts.size(); ++i)
    threads.emplace_back([&, i] { texts[i] = text_of(static_cast<int64_t>(i) + 2); });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_TRUE(contains(texts[i], concat("[batch, ", i + 2, "]"))) << texts[i];
}

}  // namespace
}  // namespace onnx_native
