// An exported program: an ONNX model that can be looked at, checked and saved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/dim.h"
#include "base/dtype.h"
#include "base/tensor_data.h"

namespace onnx_native {

// An input or output of the model. Sizes are numbers or expressions of named ones.
struct TensorInfo {
  std::string name;
  DType dtype = DType::undefined;
  std::optional<Shape> shape;  // nullopt: rank not known
};

// A buffer or input whose update is part of the model.
struct StateTensor {
  std::string target;                 // its name in the program
  std::optional<TensorData> initial;  // of a buffer; lives as long as the Program
  size_t input = 0;                   // its places among the model's inputs and outputs
  size_t output = 0;
};

struct SaveOptions {
  // Weights in `<file>.data` beside the model (true), inside it (false), or outside when the model
  // would pass 1.5 GiB (nullopt).
  std::optional<bool> external_data;
  // Whether nodes say which module and source line they come from.
  bool metadata = true;
  // Called with the bytes written so far and the total; may be empty.
  std::function<void(int64_t, int64_t)> progress;
};

struct ProgramContents;

// Owns the model and keeps its weights alive, which are not copied: they are the tensors of the
// module, or parts of the mapped file. Movable. Functions throw ExportError.
class Program {
 public:
  explicit Program(std::unique_ptr<ProgramContents> contents);
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;
  ~Program();

  int64_t opset() const;
  // The user's inputs and outputs, then those of state.
  std::vector<TensorInfo> inputs() const;
  std::vector<TensorInfo> outputs() const;
  const std::vector<StateTensor>& state() const;
  // What the user should know: an update of a buffer that is not part of the model, for one.
  const std::vector<std::string>& warnings() const;

  // Writes the model. The file, and the data file beside it, appear whole or not at all. Throws io.
  void save(const std::filesystem::path& path, const SaveOptions& options = {}) const;
  // The file's bytes with all weights inside. Throws invalid_argument when over 2 GiB.
  std::string serialize(bool metadata = true) const;
  // Runs onnx's own checker with shape inference on the model, as onnx.checker does with
  // full_check. Throws internal with what it says, unsupported when this build has no checker.
  void check() const;
  // The model as ONNX text, big weights as their types.
  std::string text() const;

  // For onnx_native's own rooms.
  const ProgramContents& contents() const { return *contents_; }

 private:
  std::unique_ptr<ProgramContents> contents_;
};

}  // namespace onnx_native
