#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <tuple>

#include "api/torch_version.h"
#include "onnx_native/check.h"
#include "onnx_native/export.h"
#include "onnx_native/inspect.h"
#include "onnx_native/lowering.h"
#include "onnx_native/version.h"

namespace onnx_native {
namespace {

namespace fs = std::filesystem;

const fs::path kLinear = fs::path(ONNX_NATIVE_SOURCE_DIR) / "test/cpp/api/linear.pt2";

class ScratchFolder {
 public:
  ScratchFolder() { fs::create_directories(path_); }
  ~ScratchFolder() { fs::remove_all(path_); }
  fs::path operator/(const char* name) const { return path_ / name; }
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(path_), {}));
  }

 private:
  fs::path path_ = fs::path(testing::TempDir()) / "onnx_native_program_test";
};

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the message of the ExportError that `work` throws; fails unless it has this kind.
template <class Work>
std::string error_of(ErrorKind kind, const Work& work) {
  try {
    work();
  } catch (const ExportError& error) {
    EXPECT_EQ(name(error.kind()), name(kind)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(Program, TellsItsInputsAndOutputs) {
  const Program program = export_file(kLinear);
  EXPECT_EQ(program.opset(), 20);
  ASSERT_EQ(program.inputs().size(), 1U);
  const TensorInfo input = program.inputs()[0];
  EXPECT_EQ(input.name, "x");
  EXPECT_EQ(input.dtype, DType::f32);
  ASSERT_TRUE(input.shape);
  ASSERT_EQ(input.shape->size(), 2U);
  EXPECT_TRUE((*input.shape)[0].is_symbol());
  EXPECT_EQ((*input.shape)[1], Dim(2));
  ASSERT_EQ(program.outputs().size(), 1U);
  EXPECT_EQ(program.outputs()[0].shape->at(1), Dim(3));
  EXPECT_EQ(program.outputs()[0].shape->at(0), input.shape->at(0));
  ASSERT_EQ(program.warnings().size(), 1U);
  EXPECT_NE(program.warnings()[0].find("calls"), std::string::npos);
}

TEST(Program, TakesNamesAndState) {
  const Program program = export_file(
      kLinear, {.input_names = {"in"}, .output_names = {"out"}, .state = {.names = {"calls"}}});
  EXPECT_TRUE(program.warnings().empty());
  ASSERT_EQ(program.inputs().size(), 2U);
  EXPECT_EQ(program.inputs()[0].name, "in");
  EXPECT_EQ(program.outputs()[0].name, "out");
  ASSERT_EQ(program.state().size(), 1U);
  const StateTensor& state = program.state()[0];
  EXPECT_EQ(state.target, "calls");
  EXPECT_EQ(program.inputs()[state.input].name, "calls");
  EXPECT_EQ(program.outputs()[state.output].name, "calls_out");
  EXPECT_EQ(state.initial->integer(0), 0);
}

TEST(Program, ComputesInHalfPrecision) {
  const Program program = export_file(kLinear, {.precision = Precision::float16});
  EXPECT_EQ(program.inputs()[0].dtype, DType::f32);
  EXPECT_EQ(program.outputs()[0].dtype, DType::f32);
  EXPECT_NE(program.text().find("float16"), std::string::npos);
  program.check();
  const Program whole =
      export_file(kLinear, {.precision = Precision::bfloat16, .keep_io_types = false});
  EXPECT_EQ(whole.inputs()[0].dtype, DType::bf16);
  EXPECT_EQ(whole.outputs()[0].dtype, DType::bf16);
  whole.check();
}

TEST(Program, QuantizesWeights) {
  const Program program = export_file(kLinear, {.opset = 21, .quantization = {.bits = 4}});
  EXPECT_NE(program.text().find("DequantizeLinear"), std::string::npos);
  program.check();
  EXPECT_THROW(export_file(kLinear, {.quantization = {.bits = 4}}), ExportError);
}

TEST(Program, SavesWhatItSerializes) {
  const ScratchFolder folder;
  Program program = export_file(kLinear);
  const Program moved = std::move(program);
  int64_t written = 0;
  moved.save(folder / "m.onnx",
             {.metadata = Metadata::none, .progress = [&](int64_t bytes, int64_t total) {
                EXPECT_LE(bytes, total);
                written = bytes;
              }});
  EXPECT_EQ(content(folder / "m.onnx"), moved.serialize(Metadata::none));
  EXPECT_EQ(written, static_cast<int64_t>(fs::file_size(folder / "m.onnx")));
  EXPECT_LT(moved.serialize(Metadata::none).size(), moved.serialize(Metadata::full).size());
  EXPECT_NE(moved.text().find("Gemm"), std::string::npos);
}

TEST(Program, LeavesNoFileBehindAnError) {
  const ScratchFolder folder;
  const Program program = export_file(kLinear);
  error_of(ErrorKind::io, [&] { program.save(folder / "nowhere" / "m.onnx"); });
  EXPECT_EQ(folder.entries(), 0U);
}

TEST(Program, RefusesWhatIsNoProgram) {
  const ScratchFolder folder;
  error_of(ErrorKind::io, [&] { export_file(folder / "missing.pt2"); });
  std::ofstream(folder / "text.pt2") << "not an archive";
  error_of(ErrorKind::invalid_program, [&] { export_file(folder / "text.pt2"); });
  error_of(ErrorKind::invalid_argument, [&] { export_file(kLinear, {.opset = 99}); });
  const std::string message = error_of(ErrorKind::invalid_argument, [&] {
    export_file(kLinear, {.inputs = {parse_input("x:float32[2]")}});
  });
  EXPECT_NE(message.find("linear.pt2"), std::string::npos);
}

TEST(Program, UsesRegisteredLowerings) {
  register_lowering("aten::relu", [](Builder& b, Value self) { return b.Abs(self); });
  const std::string abs = export_file(kLinear).text();
  unregister_lowering("aten::relu");
  const std::string relu = export_file(kLinear).text();
  EXPECT_NE(abs.find("Abs"), std::string::npos) << abs;
  EXPECT_EQ(abs.find("Relu"), std::string::npos) << abs;
  EXPECT_NE(relu.find("Relu"), std::string::npos) << relu;
}

TEST(Check, AcceptsWhatIsExported) {
  const ScratchFolder folder;
  const Program program = export_file(kLinear);
  program.check();
  program.save(folder / "m.onnx");
  check_file(folder / "m.onnx");
}

TEST(Check, FindsWhatIsIllegal) {
  const ScratchFolder folder;
  register_lowering("aten::relu", [](Builder& b, Value self) {
    return b.op("LeakyRelu", {self}, {{"beta", 0.5}});
  });
  const Program program = export_file(kLinear);
  unregister_lowering("aten::relu");
  std::string message = error_of(ErrorKind::internal, [&] { program.check(); });
  EXPECT_NE(message.find("Unrecognized attribute: beta"), std::string::npos) << message;
  program.save(folder / "m.onnx");
  message = error_of(ErrorKind::invalid_program, [&] { check_file(folder / "m.onnx"); });
  EXPECT_NE(message.find("Unrecognized attribute: beta"), std::string::npos) << message;
}

TEST(Check, RefusesWhatIsNoModel) {
  const ScratchFolder folder;
  std::ofstream(folder / "m.onnx") << "not a model";
  error_of(ErrorKind::invalid_program, [&] { check_file(folder / "m.onnx"); });
  error_of(ErrorKind::invalid_program, [&] { check_file(folder / "missing.onnx"); });
}

TEST(Inspect, ListsOperatorsAndText) {
  const std::vector<OperatorUse> operators = list_operators(kLinear);
  ASSERT_EQ(operators.size(), 2U);
  EXPECT_EQ(operators[0].op, "aten::linear");
  EXPECT_EQ(operators[0].calls, 1);
  EXPECT_TRUE(operators[0].supported);
  EXPECT_EQ(operators[1].op, "aten::relu");
  const std::string text = aten_text(kLinear);
  EXPECT_NE(text.find("aten::linear(%x, %linear.weight, %linear.bias)"), std::string::npos) << text;
}

TEST(InputSpec, ReadsNamesDtypesAndSizes) {
  const InputSpec image = parse_input("x:float32[batch, 3,224,224]");
  EXPECT_EQ(image.name, "x");
  EXPECT_EQ(image.dtype, DType::f32);
  ASSERT_TRUE(image.shape);
  EXPECT_EQ(*image.shape, (Shape{Dim::symbol("batch"), 3, 224, 224}));
  EXPECT_EQ(parse_input("n:int64[]").shape, Shape());
  EXPECT_EQ(parse_input("flag:bool").shape, std::nullopt);
  EXPECT_EQ(parse_input("a:b:bfloat16[0]").name, "a:b");
}

TEST(InputSpec, ReadsConstants) {
  using Constant = InputSpec::Constant;
  const auto constant = [](const char* text) { return parse_input(text).constant; };
  EXPECT_EQ(constant("n:3"), Constant(int64_t{3}));
  EXPECT_EQ(constant("s:-2.5e-1"), Constant(-0.25));
  EXPECT_EQ(constant("on: true"), Constant(true));
  EXPECT_EQ(constant("m:none"), Constant());
  EXPECT_EQ(constant("mode:'a, b: (c'"), Constant(std::string("a, b: (c")));
}

TEST(InputSpec, ReadsListsTuplesAndDicts) {
  const InputSpec spec = parse_input("a:[float32[n, 2], (1, b: int64), {k: {}, l:bool[]}]");
  EXPECT_EQ(spec.name, "a");
  ASSERT_TRUE(spec.elements);
  ASSERT_EQ(spec.elements->size(), 3U);
  const auto& [tensor, tuple, dict] =
      std::tie((*spec.elements)[0], (*spec.elements)[1], (*spec.elements)[2]);
  EXPECT_EQ(tensor.shape, (Shape{Dim::symbol("n"), 2}));
  EXPECT_EQ(tensor.name, "");
  EXPECT_EQ((*tuple.elements)[0].constant, InputSpec::Constant(int64_t{1}));
  EXPECT_EQ((*tuple.elements)[1].name, "b");
  EXPECT_EQ((*tuple.elements)[1].shape, std::nullopt);
  EXPECT_EQ((*dict.elements)[0].name, "k");
  EXPECT_TRUE((*dict.elements)[0].elements->empty());
  EXPECT_EQ((*dict.elements)[1].dtype, DType::boolean);
}

TEST(InputSpec, SaysWhatIsWrong) {
  const auto error = [](const char* text) {
    return error_of(ErrorKind::invalid_argument, [text] { parse_input(text); });
  };
  EXPECT_NE(error("x").find("no ':'"), std::string::npos);
  EXPECT_NE(error("x[2]:float32").find("no ':'"), std::string::npos);
  EXPECT_NE(error(":float32[2]").find("the name is missing"), std::string::npos);
  EXPECT_NE(error("x:float[2]").find("no dtype 'float'"), std::string::npos);
  EXPECT_NE(error("x:float32[2").find("no ']'"), std::string::npos);
  EXPECT_NE(error("x:float32[2,,3]").find("the size ''"), std::string::npos);
  EXPECT_NE(error("x:float32[2] 3").find("'3' after its end"), std::string::npos);
  EXPECT_NE(error("x:[float32[2]").find("no ']' at its end"), std::string::npos);
  EXPECT_NE(error("x:{float32[2]}").find("no key"), std::string::npos);
  EXPECT_NE(error("x:'mean").find("no ' at the end"), std::string::npos);
  EXPECT_NE(
      error(("x:" + std::string(1000, '[')).c_str()).find("the brackets are nested too deeply"),
      std::string::npos);
  EXPECT_NE(error("x:float32[-2]").find("the size '-2'"), std::string::npos);
  EXPECT_NE(error("x:float32[99999999999999999999]").find("the size '9"), std::string::npos);
}

TEST(Version, RefusesAnotherPyTorch) {
  EXPECT_EQ(torch_version_problem(), "");
  const uint64_t other = (uint64_t{9} << 56) | (uint64_t{7} << 48);
  EXPECT_NE(torch_version_problem(other).find("PyTorch 9.7 is running"), std::string::npos);
  EXPECT_EQ(version(), ONNX_NATIVE_VERSION);
}

}  // namespace
}  // namespace onnx_native
