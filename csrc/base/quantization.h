// Quantization of matrices in blocks, as ONNX Runtime's quantizers round.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor_data.h"

namespace onnx_native {

// Says how the model stores the weights of its products.
struct WeightQuantization {
  int64_t bits = 0;         // 4 or 8; 0: the weights stay as they are
  int64_t block_size = 32;  // elements that share a scale: a power of two, 16 or more
  bool symmetric = true;    // false: each block has a zero point too
  bool embeddings = false;  // tables that only Gather reads, too
  // Names of modules and weights that stay as they are; "*" and "?" stand for other characters.
  std::vector<std::string> excluded;
  int64_t accuracy_level = 0;  // of MatMulNBits
};

// Says what became of the weights of products and embeddings.
struct QuantizedWeights {
  std::map<std::string, std::string> quantized;  // weight -> the operator that takes it
  std::map<std::string, std::string> left;       // weight -> why it is as it was
};

// Returns "none", "int4" or "int8" as a number of bits. Throws ExportError(invalid_argument) with
// the known names for any other text.
int64_t parse_weight_bits(std::string_view text);
// Throws ExportError(invalid_argument) if a setting has no meaning.
void check_settings(const WeightQuantization& settings);

// Names the parts of a quantized matrix.
enum class BlockPart { codes, scales, zero_points };

// These return a part of a quantized matrix of float32, float16 or bfloat16. It is computed in
// pieces whenever it is written. Writing it throws ExportError(invalid_argument) with `name` if an
// element is not finite.
//
// The blocks of packed_blocks() lie in rows, as MatMulNBits takes the transpose of its operand:
// codes are uint8 [rows, blocks, bytes of a block], padded with 0, scales [rows, blocks], zero
// points uint8 [rows, bytes of the zero points of a row].
TensorData packed_blocks(const TensorData& matrix, const WeightQuantization& settings,
                         BlockPart part, DType scales, const std::string& name);
// The blocks of column_blocks() lie in columns, as DequantizeLinear takes them with axis 0: codes
// are [rows, columns], scales and zero points [blocks, columns]. The codes are int4 or int8, with
// zero points uint4 or uint8.
TensorData column_blocks(const TensorData& matrix, const WeightQuantization& settings,
                         BlockPart part, DType scales, const std::string& name);

}  // namespace onnx_native
