// Helpers shared by the handlers of quantized operators.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <array>
#include <string>

#include "readers/jit/interpreter.h"

namespace onnx_native::readers::jit {

inline Item number(double value) { return c10::IValue(value); }
inline Item number(int64_t value) { return Dim(value); }

// Returns true if the operator applies relu to its result.
bool has_relu(const Call& call);
// Records a call with one result.
Item record(const Call& call, const std::string& key, const Items& operands);

// Returns the least and the greatest integer.
std::array<int64_t, 2> bounds_of(DType dtype);
// Runs PyTorch's operator on an object that holds packed weights.
torch::jit::Stack unpack(const Call& call, const Item& packed, const std::string& name);
c10::IValue packed_object(const Item& packed);
// Returns the module that holds packed weights, with a dot at the end; empty if that is unknown.
std::string module_of(const Item& packed);
Item parameter(const Call& call, const at::Tensor& tensor, const std::string& name);

// The weight, dequantized, and the bias or None.
struct Parameters {
  Item weight, bias;
};
struct ParameterNames {
  std::string weight, bias;
  std::string prefix;  // of scales and zero points
};
Parameters unpacked_parameters(const Call& call, const Item& packed, const std::string& unpacker,
                               const ParameterNames& names);
// The same; names the weight and bias like the module's parameters.
Parameters unpacked_parameters(const Call& call, const Item& packed, const std::string& unpacker);

void add_quantized_dynamic_handlers(Handlers& handlers);
void add_quantized_embedding_handlers(Handlers& handlers);

}  // namespace onnx_native::readers::jit
