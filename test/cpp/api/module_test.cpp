#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include <filesystem>
#include <string>

#include "onnx_native/jit.h"

namespace onnx_native {
namespace {

torch::jit::Module make_module() {
  torch::jit::Module module("Scaling");
  module.register_parameter("scale", at::ones({3}), /*is_buffer=*/false);
  module.define(R"(
    def forward(self, x: Tensor, shift: int = 1) -> Tensor:
      return torch.relu(x * self.scale + shift)

    def twice(self, x: Tensor) -> Tensor:
      return self.forward(self.forward(x))
  )");
  return module;
}

torch::jit::Module make_nested() {
  torch::jit::Module module("Nested");
  module.define(R"(
    def forward(self, xs: List[Tensor], state: Tuple[Tensor, Tensor], named: Dict[str, Tensor],
                scale: float, mode: str, mask: Optional[Tensor], sizes: Optional[List[int]]):
      x = torch.cat(xs) * scale + named["bias"]
      if mode == 'add':
        x = x + state[0] - state[1]
      if mask is not None:
        x = x * mask
      if sizes is not None:
        x = x.reshape(sizes)
      return x
  )");
  return module;
}

std::string module_error(const ExportOptions& options,
                         const torch::jit::Module& module = make_module()) {
  try {
    export_module(module, options);
  } catch (const ExportError& error) {
    EXPECT_EQ(name(error.kind()), name(ErrorKind::invalid_argument)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

size_t count(std::string_view text, std::string_view word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1))
    ++found;
  return found;
}

TEST(Module, TakesShapesFromSpecs) {
  const Program program =
      export_module(make_module(), {.inputs = {parse_input("x:float32[batch,3]")}});
  ASSERT_EQ(program.inputs().size(), 1U);
  EXPECT_EQ(program.inputs()[0].name, "x");
  ASSERT_EQ(program.outputs().size(), 1U);
  EXPECT_EQ(program.outputs()[0].dtype, DType::f32);
  EXPECT_EQ(program.outputs()[0].shape, (Shape{Dim::symbol("batch"), 3}));
  EXPECT_NE(program.text().find("float[3] scale"), std::string::npos) << program.text();
  program.check();
}

TEST(Module, WeightsLargerThanTheirMemoryAreErrors) {
  const std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> wrong = {
      {{4}, {1}}, {{3}, {2}}, {{2, 2}, {int64_t{1} << 62, int64_t{1} << 62}}};
  for (const auto& [sizes, strides] : wrong) {
    const at::Tensor scale = at::ones({3});
    torch::jit::Module module("Scaling");
    module.register_parameter("scale", scale, /*is_buffer=*/false);
    module.define("def forward(self, x: Tensor) -> Tensor:\n  return x * self.scale\n");
    scale.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
    try {
      export_module(module, {.inputs = {parse_input("x:float32[1]")}});
      ADD_FAILURE() << "no error";
    } catch (const ExportError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("the sizes of the constant tensor scale exceed its memory of 12 bytes"),
                std::string::npos)
          << text;
    }
  }
}

TEST(Module, SumsOfTensorsOfUnknownRankAreErrors) {
  torch::jit::Module module("Sum");
  module.define("def forward(self, x: Tensor) -> Tensor:\n  return torch.sum(x)\n");
  try {
    export_module(module, {.inputs = {parse_input("x:float32")}});
    ADD_FAILURE() << "no error";
  } catch (const ExportError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("aten::sum: the rank of a tensor is unknown"), std::string::npos) << text;
  }
}

TEST(Module, NumbersAreInputsToo) {
  const ExportOptions options{.inputs = {parse_input("x:float32[3]"), parse_input("n:int64[]")}};
  const Program program = export_module(make_module(), options);
  ASSERT_EQ(program.inputs().size(), 2U);
  EXPECT_EQ(program.inputs()[1].name, "n");
  EXPECT_EQ(program.inputs()[1].dtype, DType::i64);
  EXPECT_EQ(program.inputs()[1].shape, Shape());
  program.check();
}

TEST(Module, TakesListsTuplesDictsAndConstants) {
  const ExportOptions options{.inputs = {parse_input("xs:[float32[n,2], last:float32[m,2]]"),
                                         parse_input("state:(float32[2], float32[2])"),
                                         parse_input("named:{bias: float32[2], other: int64[]}"),
                                         parse_input("scale:2"), parse_input("mode:'add'"),
                                         parse_input("mask:none"), parse_input("sizes:[-1]")}};
  const Program program = export_module(make_nested(), options);
  std::vector<std::string> names;
  for (const auto& input : program.inputs()) names.push_back(input.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"xs_0", "last", "state_0", "state_1", "bias", "other"}));
  EXPECT_EQ(count(program.text(), "Sub"), 1U) << program.text();
  ASSERT_EQ(program.outputs().size(), 1U);
  EXPECT_EQ(program.outputs()[0].shape, (Shape{(Dim::symbol("n") + Dim::symbol("m")) * Dim(2)}));
  program.check();
}

TEST(Module, SaysWhichNestedInputDoesNotFit) {
  const auto error = [](std::string_view changed, size_t position) {
    ExportOptions options{.inputs = {parse_input("xs:[float32[n,2]]"),
                                     parse_input("state:(float32[2], float32[2])"),
                                     parse_input("named:{bias: float32[2]}"),
                                     parse_input("scale:2.5"), parse_input("mode:'add'"),
                                     parse_input("mask:float32[]"), parse_input("sizes:none")}};
    options.inputs[position] = parse_input(changed);
    return module_error(options, make_nested());
  };
  EXPECT_NE(error("xs:float32[2]", 0).find("xs does not match its type List[Tensor]"),
            std::string::npos);
  EXPECT_NE(error("state:(float32[2])", 1).find("state does not match its type"),
            std::string::npos);
  EXPECT_NE(error("state:[3, float32[2]]", 1).find("state_0 does not match its type"),
            std::string::npos);
  EXPECT_NE(error("named:float32[2]", 2).find("named does not match its type"), std::string::npos);
  EXPECT_NE(error("scale:'2'", 3).find("scale does not match its type"), std::string::npos);
  EXPECT_NE(error("mode:none", 4).find("mode does not match its type"), std::string::npos);
  EXPECT_NE(error("sizes:[2.5]", 6).find("sizes_0 does not match its type int"), std::string::npos);
}

TEST(Module, NumbersFitTheirTypes) {
  const auto error = [](const InputSpec& number) {
    return module_error({.inputs = {parse_input("x:float32[3]"), number}}, make_module());
  };
  for (const std::string_view wrong : {"n:float32[]", "n:bool[]", "n:int64[3]", "n:[int64[]]"})
    EXPECT_NE(error(parse_input(wrong)).find("n does not match its type int"), std::string::npos)
        << wrong;
  const InputSpec open{.name = "n"};  // the method's schema gives the type
  const Program program =
      export_module(make_module(), {.inputs = {parse_input("x:float32[3]"), open}});
  EXPECT_EQ(program.inputs()[1].dtype, DType::i64);
}

TEST(Module, DictsNeedKeys) {
  ExportOptions options{.inputs = {parse_input("xs:[float32[n,2]]"),
                                   parse_input("state:(float32[2], float32[2])"),
                                   parse_input("named:[float32[2]]")}};
  EXPECT_NE(module_error(options, make_nested()).find("named does not match its type"),
            std::string::npos);
}

TEST(Module, ExportsOtherMethods) {
  const ExportOptions options{.inputs = {parse_input("x:float32[2,3]")}, .method = "twice"};
  EXPECT_EQ(count(export_module(make_module(), options).text(), "Relu"), 2U);
}

TEST(Module, TakesExampleTensors) {
  const std::vector<InputSpec> specs = inputs_like({at::ones({2, 3})});
  ASSERT_EQ(specs.size(), 1U);
  EXPECT_EQ(specs[0].dtype, DType::f32);
  EXPECT_EQ(specs[0].shape, (Shape{2, 3}));
  EXPECT_EQ(export_module(make_module(), {.inputs = specs}).inputs()[0].name, "x");
}

TEST(Module, IsTheSameFromAFile) {
  const auto path = std::filesystem::path(testing::TempDir()) / "onnx_native_module_test.pt";
  make_module().save(path.string());
  const ExportOptions options{.inputs = {parse_input("x:float32[batch,3]")}};
  const std::string from_file = export_file(path, options).serialize(Metadata::none);
  std::filesystem::remove(path);
  EXPECT_EQ(from_file, export_module(make_module(), options).serialize(Metadata::none));
}

TEST(Module, KeepsWeightsThatAreReplacedAfterTheExport) {
  torch::jit::Module module = make_module();
  const Program program = export_module(module, {.inputs = {parse_input("x:float32[2,3]")}});
  const std::string before = program.serialize();
  at::Tensor scale = module.attr("scale").toTensor();
  scale.set_data(at::ones({1}, at::kDouble));
  EXPECT_EQ(program.serialize(), before);
}

TEST(Module, NamesAWeightWhoseMemoryIsGone) {
  torch::jit::Module module = make_module();
  const Program program = export_module(module, {.inputs = {parse_input("x:float32[2,3]")}});
  module.attr("scale").toTensor().storage().set_nbytes(4);
  try {
    program.serialize();
    FAIL() << "no error";
  } catch (const ExportError& error) {
    EXPECT_EQ(name(error.kind()), name(ErrorKind::invalid_argument));
    EXPECT_NE(std::string_view(error.what()).find("the memory of scale was released"),
              std::string_view::npos)
        << error.what();
  }
}

TEST(Module, SaysWhatDoesNotFit) {
  EXPECT_NE(module_error({}).find("input x"), std::string::npos);
  EXPECT_NE(module_error({.method = "thrice"}).find("no method thrice"), std::string::npos);
  const InputSpec x = parse_input("x:float32[2,3]");
  EXPECT_NE(module_error({.inputs = {x, x, x}}).find("takes 2 inputs, not 3"), std::string::npos);
}

}  // namespace
}  // namespace onnx_native
