#include "writer/writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <numeric>

#include "base/weight.h"
#include "onnx/onnx_onnx_native_pb-ml.pb.h"
#include "onnx/typing.h"

namespace onnx_native::writer {
namespace {

namespace fs = std::filesystem;
namespace pb = ::onnx_native_pb;
using onnx::Value;

TensorData scalar(double value, std::vector<int64_t> shape = {}) {
  return make_tensor(DType::f32, std::move(shape), std::span<const double>(&value, 1));
}

class LiveWeight final : public onnx_native::Weight {
 public:
  explicit LiveWeight(const TensorData& data)
      : onnx_native::Weight("live", data.data), elements_(data) {}
  const std::byte* data() const override { return elements_.data; }

 private:
  TensorData elements_;
};

class WriterTest : public testing::Test {
 protected:
  WriterTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    std::vector<double> numbers(64 * 64);
    std::iota(numbers.begin(), numbers.end(), 0.0);
    weight_ = make_tensor(DType::f32, {64, 64}, numbers);

    onnx::Graph& graph = *model_.graph;
    Value* x = graph.add_input("x", DType::f32, Shape{Dim::symbol("batch"), 64});
    Value* w = graph.add_initializer("layer.weight", weight_);
    Value* tied = graph.add_initializer("tied.weight", weight_);
    Value* bias = graph.add_initializer("bias", scalar(0.5, {1}));
    const Shape shape{Dim::symbol("batch"), 64};
    Value* h = node("MatMul", {x, w}, shape);
    h = node("MatMul", {h, tied}, shape);
    h = node("Add", {h, bias}, shape);
    h->name = "y";
    h->named = true;
    graph.outputs = {h};
    graph.nodes.front()->location = &location_;
    location_.source = "model.py:42";
    location_.code = "x = self.layer(x)";
    location_.node = "linear";
    location_.module_names = {"", "layer"};
    location_.class_names = {"Model", "Linear", "aten.linear.default"};
    onnx::assign_names(model_);
  }
  ~WriterTest() override { fs::remove_all(folder_); }

  Value* node(std::string_view op_type, std::vector<Value*> inputs, const Shape& shape) {
    Value* output = model_.graph->add_node(op_type, std::move(inputs), 1)->outputs[0];
    onnx::Typing::set(*output, DType::f32, shape);
    return output;
  }
  static std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static pb::ModelProto parse(const std::string& bytes) {
    pb::ModelProto proto;
    EXPECT_TRUE(proto.ParseFromString(bytes));
    return proto;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_))
      names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }
  std::string weight_bytes() const {
    return {reinterpret_cast<const char*>(weight_.data), static_cast<size_t>(weight_.nbytes())};
  }
  static std::string external(const pb::TensorProto& tensor, std::string_view key) {
    for (const auto& entry : tensor.external_data()) {
      if (entry.key() == key) return entry.value();
    }
    return "";
  }

  const fs::path folder_ =
      fs::temp_directory_path() / ("onnx_native_writer_test." + std::to_string(getpid()));
  Location location_;
  TensorData weight_;
  onnx::Model model_;
};

TEST_F(WriterTest, WritesWeightsInside) {
  save(model_, folder_ / "m.onnx");
  EXPECT_EQ(files(), std::vector<std::string>{"m.onnx"});
  const std::string bytes = read(folder_ / "m.onnx");
  EXPECT_EQ(bytes, serialize(model_));
  const pb::ModelProto proto = parse(bytes);
  EXPECT_EQ(proto.ir_version(), 9);
  EXPECT_EQ(proto.producer_name(), "onnx_native");
  ASSERT_EQ(proto.opset_import_size(), 1);
  EXPECT_EQ(proto.opset_import(0).version(), 20);
  const pb::GraphProto& graph = proto.graph();
  ASSERT_EQ(graph.initializer_size(), 3);
  EXPECT_EQ(graph.initializer(0).name(), "layer.weight");
  EXPECT_EQ(graph.initializer(0).raw_data(), weight_bytes());
  EXPECT_EQ(graph.initializer(1).raw_data(), weight_bytes());
  EXPECT_EQ(graph.initializer(2).raw_data().size(), 4u);
  EXPECT_EQ(graph.input(0).type().tensor_type().shape().dim(0).dim_param(), "batch");
  EXPECT_EQ(graph.input(0).type().tensor_type().shape().dim(1).dim_value(), 64);
  EXPECT_EQ(graph.value_info_size(), 2);
  for (const auto& size : graph.value_info(0).type().tensor_type().shape().dim()) {
    EXPECT_FALSE(size.has_dim_param());
  }
  EXPECT_EQ(graph.node_size(), 3);
}

TEST_F(WriterTest, WritesNodesOriginUnderPyTorchsKeys) {
  const pb::ModelProto proto = parse(serialize(model_));
  std::map<std::string, std::string> metadata;
  for (const auto& entry : proto.graph().node(0).metadata_props()) {
    metadata[entry.key()] = entry.value();
  }
  const std::map<std::string, std::string> expected{
      {"namespace", ": Model/layer: Linear/linear: aten.linear.default"},
      {"pkg.torch.onnx.class_hierarchy", "['Model', 'Linear', 'aten.linear.default']"},
      {"pkg.torch.onnx.name_scopes", "['', 'layer', 'linear']"},
      {"pkg.torch.onnx.stack_trace", "File \"model.py\", line 42\n    x = self.layer(x)"}};
  EXPECT_EQ(metadata, expected);
  EXPECT_EQ(
      parse(serialize(model_, {.metadata = Metadata::none})).graph().node(0).metadata_props_size(),
      0);
}

TEST_F(WriterTest, WritesSharedExternalWeightsOnce) {
  int64_t last = 0;
  int64_t total = 0;
  const auto progress = [&](int64_t written, int64_t all) {
    EXPECT_GE(written, last);
    last = written;
    total = all;
  };
  save(model_, folder_ / "m.onnx", {.external_data = true, .progress = progress});
  EXPECT_EQ(last, total);
  EXPECT_EQ(files(), (std::vector<std::string>{"m.onnx", "m.onnx.data"}));
  EXPECT_EQ(read(folder_ / "m.onnx.data"), weight_bytes());
  const pb::GraphProto graph = parse(read(folder_ / "m.onnx")).graph();
  for (const int i : {0, 1}) {
    const pb::TensorProto& tensor = graph.initializer(i);
    EXPECT_EQ(tensor.data_location(), pb::TensorProto::EXTERNAL);
    EXPECT_EQ(external(tensor, "location"), "m.onnx.data");
    EXPECT_EQ(external(tensor, "offset"), "0");
    EXPECT_EQ(external(tensor, "length"), "16384");
    EXPECT_FALSE(tensor.has_raw_data());
  }
  EXPECT_TRUE(graph.initializer(2).has_raw_data());
}

TEST_F(WriterTest, RefersToWeightsThatAFileHasAlready) {
  TensorData live = weight_;
  live.owner = as_owner(std::make_shared<LiveWeight>(weight_));
  model_.graph->add_initializer("live", live);
  TensorData transposed = live;
  transposed.strides = {1, 64};
  model_.graph->add_initializer("transposed", transposed);
  const std::pair<std::string, int64_t> place("model.safetensors", 1234);
  save(model_, folder_ / "m.onnx",
       {.external_data = true,
        .places = {{"live", place}, {"transposed", place}, {"layer.weight", place}},
        .progress = {}});
  const pb::GraphProto graph = parse(read(folder_ / "m.onnx")).graph();
  EXPECT_EQ(external(graph.initializer(3), "location"), "model.safetensors");
  EXPECT_EQ(external(graph.initializer(3), "offset"), "1234");
  EXPECT_EQ(external(graph.initializer(3), "length"), "16384");
  // In another layout, and not a weight of the module.
  EXPECT_EQ(external(graph.initializer(4), "location"), "m.onnx.data");
  EXPECT_EQ(external(graph.initializer(0), "location"), "m.onnx.data");
}

TEST_F(WriterTest, AlignsExternalWeights) {
  const std::vector<double> numbers(300, 1.5);
  model_.graph->add_initializer("a", make_tensor(DType::f32, {300}, numbers));
  model_.graph->add_initializer("b", make_tensor(DType::f64, {300}, numbers));
  save(model_, folder_ / "m.onnx", {.external_data = true});
  const pb::GraphProto graph = parse(read(folder_ / "m.onnx")).graph();
  EXPECT_EQ(external(graph.initializer(3), "offset"), "16384");
  EXPECT_EQ(external(graph.initializer(4), "offset"), "20480");
  EXPECT_EQ(fs::file_size(folder_ / "m.onnx.data"), 20480u + 2400u);
}

TEST_F(WriterTest, GathersStridedWeights) {
  TensorData transposed = weight_;
  transposed.strides = {1, 64};
  model_.graph->add_initializer("transposed", transposed);
  const std::string inside = parse(serialize(model_)).graph().initializer(3).raw_data();
  float second;
  std::memcpy(&second, inside.data() + 4, 4);
  EXPECT_EQ(second, 64.0F);
  save(model_, folder_ / "m.onnx", {.external_data = true});
  EXPECT_EQ(read(folder_ / "m.onnx.data"), weight_bytes() + inside);
}

TEST_F(WriterTest, SeveralModelsShareADataFile) {
  TensorData transposed = weight_;
  transposed.strides = {1, 64};
  onnx::Model other;
  other.graph->add_initializer("same", weight_);
  other.graph->add_initializer("transposed", transposed);
  save_together({{&model_, folder_ / "a.onnx", {}}, {&other, folder_ / "b.onnx", {}}}, folder_);
  EXPECT_EQ(files(), (std::vector<std::string>{"a+b.data", "a.onnx", "b.onnx"}));
  const pb::GraphProto first = parse(read(folder_ / "a.onnx")).graph();
  const pb::GraphProto second = parse(read(folder_ / "b.onnx")).graph();
  for (const pb::TensorProto* weight : {&first.initializer(0), &second.initializer(0)}) {
    EXPECT_EQ(external(*weight, "location"), "a+b.data");
    EXPECT_EQ(external(*weight, "offset"), "0");
  }
  EXPECT_EQ(external(second.initializer(1), "offset"), "16384");
  EXPECT_EQ(fs::file_size(folder_ / "a+b.data"), 2u * 16384u);
}

TEST_F(WriterTest, EqualConstantsComputedFromOneWeightShareAPlace) {
  const auto weight = std::make_shared<LiveWeight>(weight_);
  TensorData live = weight_;
  live.owner = as_owner(weight);
  const auto times = [&live](double factor) {
    return derived(DType::f32, {64, 64},
                   {{live}, [factor](std::span<const TensorData> now) {
                      std::vector<double> numbers(64 * 64);
                      for (int64_t i = 0; i < 64 * 64; ++i) numbers[i] = now[0].number(i) * factor;
                      return std::optional(make_tensor(DType::f32, {64, 64}, numbers));
                    }});
  };
  onnx::Model first, second;
  first.graph->add_initializer("twice", times(2));
  second.graph->add_initializer("twice", times(2));
  second.graph->add_initializer("thrice", times(3));
  save_together({{&first, folder_ / "a.onnx", {}}, {&second, folder_ / "b.onnx", {}}}, folder_);
  const pb::GraphProto graph = parse(read(folder_ / "b.onnx")).graph();
  EXPECT_EQ(external(graph.initializer(0), "offset"), "0");
  EXPECT_EQ(external(graph.initializer(1), "offset"), "16384");
  EXPECT_EQ(fs::file_size(folder_ / "a+b.data"), 2u * 16384u);
}

TEST_F(WriterTest, WritesShards) {
  const std::vector<double> numbers(300, 1.5);
  model_.graph->add_initializer("a", make_tensor(DType::f64, {300}, numbers));
  model_.graph->add_initializer("b", make_tensor(DType::f32, {300}, numbers));
  save(model_, folder_ / "m.onnx", {.external_data = true, .shard_bytes = 6000});
  EXPECT_EQ(files(), (std::vector<std::string>{"m.onnx", "m.onnx-00001-of-00002.data",
                                               "m.onnx-00002-of-00002.data"}));
  const pb::GraphProto graph = parse(read(folder_ / "m.onnx")).graph();
  const auto place = [&graph](int i) {
    return external(graph.initializer(i), "location") + ":" +
           external(graph.initializer(i), "offset");
  };
  EXPECT_EQ(place(0), "m.onnx-00001-of-00002.data:0");
  EXPECT_EQ(place(1), place(0));
  EXPECT_EQ(place(3), "m.onnx-00002-of-00002.data:0");
  EXPECT_EQ(place(4), "m.onnx-00002-of-00002.data:4096");
  save(model_, folder_ / "m.onnx", {.external_data = false});
  EXPECT_EQ(files(), std::vector<std::string>{"m.onnx"});
  EXPECT_THROW(save(model_, folder_ / "m.onnx", {.external_data = true, .shard_bytes = 0}),
               ExportError);
}

TEST_F(WriterTest, ADeviceSharesNoDataFile) {
  EXPECT_THROW(save_together({{&model_, "/dev/null", {}}}, folder_), ExportError);
  EXPECT_TRUE(files().empty());
}

TEST_F(WriterTest, LeavesWeightsToTheCaller) {
  std::vector<Weight> weights;
  const pb::GraphProto graph = parse(serialize_without_weights(model_, weights)).graph();
  ASSERT_EQ(weights.size(), 2u);
  EXPECT_EQ(weights[1].name, "tied.weight");
  EXPECT_EQ(weights[1].data->data, weight_.data);
  EXPECT_EQ(external(graph.initializer(1), "location"), "onnx_native");
  EXPECT_EQ(external(graph.initializer(1), "offset"), "1");
}

TEST_F(WriterTest, SameModelGivesSameBytes) {
  save(model_, folder_ / "a.onnx");
  save(model_, folder_ / "b.onnx");
  EXPECT_EQ(read(folder_ / "a.onnx"), read(folder_ / "b.onnx"));
}

TEST_F(WriterTest, NamesAMissingFolder) {
  try {
    save(model_, folder_ / "missing" / "m.onnx");
    FAIL() << "no error";
  } catch (const ExportError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::io);
    EXPECT_NE(std::string(error.what()).find((folder_ / "missing").string()), std::string::npos);
  }
}

TEST_F(WriterTest, KeepsOldFilesOnAnError) {
  std::ofstream(folder_ / "m.onnx") << "old model";
  std::ofstream(folder_ / "m.onnx.data") << "old data";
  const auto stop = [](int64_t, int64_t) { throw std::runtime_error("stop"); };
  EXPECT_THROW(save(model_, folder_ / "m.onnx", {.external_data = true, .progress = stop}),
               std::runtime_error);
  EXPECT_EQ(files(), (std::vector<std::string>{"m.onnx", "m.onnx.data"}));
  EXPECT_EQ(read(folder_ / "m.onnx"), "old model");
  EXPECT_EQ(read(folder_ / "m.onnx.data"), "old data");
  save(model_, folder_ / "m.onnx", {.external_data = true});
  EXPECT_EQ(files(), (std::vector<std::string>{"m.onnx", "m.onnx.data"}));
  EXPECT_EQ(read(folder_ / "m.onnx.data"), weight_bytes());
}

TEST_F(WriterTest, RefusesAFolderAsItsDataFile) {
  fs::create_directories(folder_ / "m.onnx.data");
  EXPECT_THROW(save(model_, folder_ / "m.onnx", {.external_data = true}), ExportError);
  EXPECT_EQ(files(), std::vector<std::string>{"m.onnx.data"});
}

TEST_F(WriterTest, WritesToADevice) {
  save(model_, "/dev/null");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(WriterTest, WritesFunctionsAndSubGraphs) {
  onnx::Function function{
      .name = "twice", .domain = "local", .body = std::make_unique<onnx::Graph>()};
  Value* x = function.body->add_input("x", DType::undefined, std::nullopt);
  Value* two = function.body->add_initializer("two", scalar(2));
  function.body->outputs = function.body->add_node("Mul", {x, two}, 1)->outputs;
  model_.functions.push_back(std::move(function));
  onnx::Graph& graph = *model_.graph;
  const int weights = static_cast<int>(graph.initializers.size());
  Value* condition = graph.add_input("c", DType::boolean, Shape{});
  const auto branch = [&](double value) {
    auto body = std::make_shared<onnx::Graph>(&graph);
    Value* constant = body->add_initializer("", scalar(value));
    Value* result = body->add_node("Identity", {constant}, 1)->outputs[0];
    onnx::Typing::set(*result, DType::f32, Shape{});
    body->outputs = {result};
    return body;
  };
  onnx::Node* choice = graph.add_node("If", {condition}, 1,
                                      {{"then_branch", branch(1)}, {"else_branch", branch(2)}});
  onnx::Typing::set(*choice->outputs[0], DType::f32, Shape{});
  graph.add_node("twice", {choice->outputs[0]}, 1, {}, "local");
  onnx::assign_names(model_);
  const pb::ModelProto proto = parse(serialize(model_));
  ASSERT_EQ(proto.functions_size(), 1);
  EXPECT_EQ(proto.functions(0).node(0).op_type(), "Constant");
  EXPECT_EQ(proto.functions(0).opset_import_size(), 2);
  EXPECT_EQ(proto.opset_import(1).domain(), "local");
  EXPECT_EQ(proto.graph().node(3).attribute(0).g().initializer_size(), 0);
  EXPECT_EQ(proto.graph().initializer_size(), weights + 2);
}

}  // namespace
}  // namespace onnx_native::writer
