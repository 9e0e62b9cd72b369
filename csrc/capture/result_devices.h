// Where the results of a call are in eager.
#pragma once

#include <optional>
#include <vector>

#include "capture/call.h"

namespace onnx_native::capture {

struct ResultDevices {
  c10::Device first = c10::kCPU;
  std::vector<c10::Device> each;  // of each result, if they differ

  c10::Device of(size_t result) const { return result < each.size() ? each[result] : first; }
};

// Refuses what eager refuses. Returns nullopt for an operator that moves tensors, or gets them on
// several devices, and that consists of other operators: they are the ones to ask.
std::optional<ResultDevices> find_devices(const Call& call);

}  // namespace onnx_native::capture
