// Exports torch::nn models to ONNX. Beside each model it writes inputs of other sizes than those of
// the example, and the model's results for them: <name>.pt, for torch.load.
#include <onnx_native/callable.h>
#include <torch/nn.h>
#include <torch/serialize.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

namespace {

namespace nn = torch::nn;
using onnx_native::Program;

// Two convolutions, and the input added to their result.
struct ResidualBlockImpl : nn::Module {
  ResidualBlockImpl(int64_t in, int64_t out, int64_t stride)
      : conv1(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false)),
        norm1(out),
        conv2(nn::Conv2dOptions(out, out, 3).padding(1).bias(false)),
        norm2(out),
        shortcut(nn::Conv2d(nn::Conv2dOptions(in, out, 1).stride(stride).bias(false)),
                 nn::BatchNorm2d(out)) {
    register_module("conv1", conv1);
    register_module("norm1", norm1);
    register_module("conv2", conv2);
    register_module("norm2", norm2);
    register_module("shortcut", shortcut);
  }

  at::Tensor forward(const at::Tensor& image) {
    const at::Tensor inner = torch::relu(norm1(conv1(image)));
    return torch::relu(norm2(conv2(inner)) + shortcut->forward(image));
  }

  nn::Conv2d conv1;
  nn::BatchNorm2d norm1;
  nn::Conv2d conv2;
  nn::BatchNorm2d norm2;
  nn::Sequential shortcut;
};
TORCH_MODULE(ResidualBlock);

// Scores a tag for each word, and returns the final state of the LSTM.
struct TaggerImpl : nn::Module {
  TaggerImpl(int64_t words, int64_t tags)
      : embedding(words, 16),
        lstm(nn::LSTMOptions(16, 24).num_layers(2).bidirectional(true).batch_first(true)),
        scores(48, tags) {
    register_module("embedding", embedding);
    register_module("lstm", lstm);
    register_module("scores", scores);
  }

  std::tuple<at::Tensor, std::tuple<at::Tensor, at::Tensor>> forward(const at::Tensor& words) {
    const auto [hidden, state] = lstm->forward(embedding(words));
    return {scores(hidden).log_softmax(-1), state};
  }

  nn::Embedding embedding;
  nn::LSTM lstm;
  nn::Linear scores;
};
TORCH_MODULE(Tagger);

void save(const std::filesystem::path& file, std::vector<c10::IValue> tensors) {
  const std::vector<char> bytes =
      torch::pickle_save(c10::ivalue::Tuple::create(std::move(tensors)));
  std::ofstream(file, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void save(const Program& program, const std::filesystem::path& file) {
  for (const std::string& warning : program.warnings()) std::cerr << warning << '\n';
  for (const std::string& condition : program.conditions())
    std::cout << file.filename() << " is valid for sizes with " << condition << '\n';
  program.check();
  program.save(file);
}

void export_block(const std::filesystem::path& folder) {
  ResidualBlock block(3, 8, 2);
  block->eval();
  const Program program = onnx_native::export_callable(
      block, {{"image", torch::randn({2, 3, 16, 16}), {"batch", 3, "height", "width"}}});
  save(program, folder / "block.onnx");

  const at::Tensor image = torch::randn({3, 3, 20, 14});
  save(folder / "block.pt", {image, block(image)});
}

void export_tagger(const std::filesystem::path& folder) {
  Tagger tagger(100, 5);
  tagger->eval();
  const auto words = [](int64_t batch, int64_t length) {
    return torch::randint(100, {batch, length}, torch::kInt64);
  };
  const Program program =
      onnx_native::export_callable(tagger, {{"words", words(2, 7), {"batch", {"length", 1, 512}}}},
                                   {.opset = 20, .output_names = {"scores", "h", "c"}});
  save(program, folder / "tagger.onnx");

  const at::Tensor longer = words(4, 11);
  const auto [scores, state] = tagger(longer);
  save(folder / "tagger.pt", {longer, scores, std::get<0>(state), std::get<1>(state)});
}

void export_encoder(const std::filesystem::path& folder) {
  nn::TransformerEncoder encoder(nn::TransformerEncoderOptions(
      nn::TransformerEncoderLayerOptions(16, 4).dim_feedforward(32), /*num_layers=*/2));
  encoder->eval();
  // Not a module, but a function that uses one.
  const auto encode = [&](const at::Tensor& tokens, const at::Tensor& padding) {
    return encoder(tokens, /*src_mask=*/at::Tensor(), padding).mean(0);
  };
  const auto padding = [](int64_t batch, int64_t length) {
    return torch::arange(length).unsqueeze(0).expand({batch, length}) >= length - 1;
  };
  const Program program =
      onnx_native::export_callable(encode,
                                   {{"tokens", torch::randn({6, 2, 16}), {"length", "batch", 16}},
                                    {"padding", padding(2, 6), {"batch", "length"}}},
                                   {}, onnx_native::named_tensors(encoder));
  save(program, folder / "encoder.onnx");

  const at::Tensor tokens = torch::randn({9, 3, 16});
  save(folder / "encoder.pt", {tokens, padding(3, 9), encode(tokens, padding(3, 9))});
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: torch_nn_app FOLDER\n";
    return 2;
  }
  const torch::NoGradGuard no_grad;
  const std::filesystem::path folder = arguments[1];
  try {
    export_block(folder);
    export_tagger(folder);
    export_encoder(folder);
  } catch (const onnx_native::ExportError& error) {
    std::cerr << error.what() << '\n';
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
