// Weights and other tensors of an archive.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "base/dim.h"
#include "base/tensor_data.h"
#include "readers/pt2/archive.h"
#include "readers/pt2/json.h"

namespace onnx_native::readers::pt2 {

// torch.export's number for an element type; throws where ONNX has none.
DType dtype_of(const Json& scalar_type);

// The tensors of data/weights and data/constants by the names of state_dict, in the mapped file.
class Weights {
 public:
  explicit Weights(const Archive& archive);
  // Throws ExportError when there is none of that name, or it does not fit into its record.
  // A constant is a tensor that the program made, not the module.
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
