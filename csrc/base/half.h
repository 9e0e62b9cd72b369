// Conversions of float32 constants to the floating dtypes of 16 bits.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/tensor_data.h"

namespace onnx_native {

// Round to nearest even. A magnitude of 65520 or more is infinite in float16.
uint16_t float_to_f16(float value);
uint16_t float_to_bf16(float value);
float f16_to_float(uint16_t bits);
float bf16_to_float(uint16_t bits);

// Says what float32 numbers lose when they are rounded to a dtype of 16 bits.
enum class Fit {
  good,       // no more than their last digits
  imprecise,  // a single number changes by a hundredth or more: 1e-8 becomes 0 in float16; or all
              // numbers are whole, and some change: coordinates
  overflows,  // a finite number becomes infinite
};

// Reads the elements of a float32 constant without recording that. Elements that are not there yet
// are taken to fit.
Fit fit_of(const TensorData& data, DType half);
// Returns true if no element other than zero is so small that the dtype has fewer digits for it.
bool is_normal_in(const TensorData& data, DType half);

// Returns a float32 constant in a dtype of 16 bits. A large one is converted in pieces whenever it
// is written. Writing it throws ExportError(invalid_argument) with the weight's name if a finite
// element overflows.
TensorData in_half(const TensorData& data, DType half);

}  // namespace onnx_native
