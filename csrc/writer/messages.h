// The onnx::Graph as protobuf messages, with the weights left to be streamed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "onnx/graph.h"

namespace onnx_native::writer {

// Where a tensor's elements are, if not in the message.
struct External {
  std::string location;
  int64_t offset;
  int64_t length;
};
using Place = std::function<std::optional<External>(const TensorData&)>;

// A piece of a serialised ModelProto: text, then (unless null) the elements of a tensor. Does not
// own the tensor.
struct Piece {
  std::string text;
  const TensorData* data = nullptr;
};

struct Encoding {
  std::vector<Piece> pieces;
  int64_t bytes = 0;  // of all pieces
};

// All weights of a model, those of sub-graphs included, in the order of the graphs' initializers.
std::vector<const onnx::Value*> weights_of(const onnx::Model& model);

// The model as bytes. `place` says which initializers are outside; weights inside are references.
Encoding encode(const onnx::Model& model, bool metadata, const Place& place);

}  // namespace onnx_native::writer
