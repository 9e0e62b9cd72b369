// Data files of earlier saves that no model refers to any more.
#pragma once

#include <filesystem>

namespace onnx_native::writer {

// The data file of the model that is about to be replaced.
class StaleData {
 public:
  // `model` is the file to be replaced. Remembers `<model>.data` if the present model refers to it.
  explicit StaleData(const std::filesystem::path& model);
  // Removes the data file. Call it when the new model, which does not need it, is in place.
  void remove() const;

 private:
  std::filesystem::path data_;  // empty if there is none
};

}  // namespace onnx_native::writer
