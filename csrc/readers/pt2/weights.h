// Weights and constants of an archive.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "base/dim.h"
#include "base/tensor_data.h"
#include "readers/pt2/archive.h"
#include "readers/pt2/json.h"

namespace onnx_native::readers::pt2 {

// Converts torch.export's dtype code. Throws if ONNX has no such element type.
DType dtype_of(const Json& scalar_type);

// The tensors in data/weights and data/constants, by their state_dict names, in the mapped file.
class Weights {
 public:
  explicit Weights(const Archive& archive);
  // Throws ExportError if there is no such tensor or if it exceeds its record. `is_constant`: the
  // program created the tensor; it is not a weight of the module.
  TensorData find(const std::string& name, bool is_constant) const;

 private:
  struct Entry {
    std::string record;
    const Json* tensor_meta;
    bool pickled;
  };
  void add(const std::string& folder, const std::string& config);

  const Archive& archive_;
  std::vector<std::unique_ptr<Json>> configs_;
  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace onnx_native::readers::pt2
