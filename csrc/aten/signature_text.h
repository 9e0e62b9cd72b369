// The signature of a program as torch.export prints it, for the metadata of models.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "aten/graph.h"

namespace onnx_native::aten {

// What a constant is in the program's module. A temporary buffer is not in state_dict.
enum class ConstantKind { parameter, buffer, temporary_buffer, constant };
// By the names of buffers; nullopt if the reader does not tell buffers from other constants.
using ConstantKinds = std::optional<std::map<std::string, ConstantKind>>;

// Returns the kind of a constant; nullopt if it is not known.
std::optional<ConstantKind> kind_of(const Constant& constant, const ConstantKinds& kinds);
// Returns the name of the kind of an input: "PARAMETER", "BUFFER", "CONSTANT_TENSOR".
const char* kind_name(ConstantKind kind);
// Returns "True" or "False" for a buffer that is in state_dict or not, and "None" for another
// constant.
const char* persistent_text(ConstantKind kind);
// Returns the name of the placeholder of a constant: "p_fc_weight" for a parameter, "b_norm_mean"
// for a buffer, "c_lifted_tensor_0" for another tensor. If its kind is not known, returns its name
// in the module.
std::string placeholder_name(const Constant& constant, std::optional<ConstantKind> kind);

// Returns the constants, inputs, mutations and outputs, one per line:
//   p_fc_weight: PARAMETER target='fc.weight'
// Constants that the program does not use are left out, and those of unknown kind.
std::string signature_text(const Graph& graph, const ConstantKinds& kinds);
// Returns the ranges of all symbols: "{batch: VR[0, 100], u0: VR[0, int_oo]}".
std::string ranges_text(const Graph& graph);

}  // namespace onnx_native::aten
