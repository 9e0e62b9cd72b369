// The signature of a program as torch.export prints it, for the metadata of models.
#pragma once

#include <string>

#include "aten/graph.h"

namespace onnx_native::aten {

// Returns the name of the kind of an input: "PARAMETER", "BUFFER", "CONSTANT_TENSOR".
const char* kind_name(ConstantKind kind);
// Returns "True" or "False" for a buffer that is in state_dict or not, and "None" for another
// constant.
const char* persistent_text(ConstantKind kind);
// Returns the name of the placeholder of a constant: "p_fc_weight" for a parameter, "b_norm_mean"
// for a buffer, "c_lifted_tensor_0" for another tensor.
std::string placeholder_name(const Constant& constant);

// Returns the constants, inputs, mutations and outputs, one per line:
//   p_fc_weight: PARAMETER target='fc.weight'
// Constants that the program does not use are left out.
std::string signature_text(const Graph& graph);
// Returns the ranges of all symbols: "{batch: VR[0, 100], u0: VR[0, int_oo]}".
std::string ranges_text(const Graph& graph);

}  // namespace onnx_native::aten
