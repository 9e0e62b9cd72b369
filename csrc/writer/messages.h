// Encodes an onnx::Model as protobuf messages and leaves the weights to be streamed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "onnx/graph.h"
#include "writer/writer.h"

namespace onnx_native::writer {

// The location of a tensor's elements outside the message. Offset and length are in bytes.
struct External {
  std::string location;
  int64_t offset;
  int64_t length;
};
using Place = std::function<std::optional<External>(const TensorData&)>;

// A piece of a serialized ModelProto: text, followed by a tensor's elements unless `data` is null.
// Does not own the tensor.
struct Piece {
  std::string text;
  const TensorData* data = nullptr;
};

struct Encoding {
  std::vector<Piece> pieces;
  int64_t bytes = 0;  // total size of the pieces
};

// Returns all weights of a model, including those of sub-graphs, in initializer order.
std::vector<const onnx::Value*> weights_of(const onnx::Model& model);

// Where sizes that are not constant have names. ONNX Runtime would reuse memory for all tensors of
// the same named sizes, which is not in the caches (Softmax takes 1.4 times as long), and fuse Add
// and LayerNormalization into an operator that takes 3 times as long.
enum class SizeNames { everywhere, inputs_and_outputs };

// Serializes the model. `place` selects the external initializers. Large weights inside the model
// are not copied: the pieces refer to them.
Encoding encode(const onnx::Model& model, const Options& options, SizeNames names,
                const Place& place);

}  // namespace onnx_native::writer
