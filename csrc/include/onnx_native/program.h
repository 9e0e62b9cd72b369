// An exported program: an ONNX model to inspect, check and save.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/dim.h"
#include "base/dtype.h"
#include "base/metadata.h"
#include "base/tensor_data.h"

namespace onnx_native {

// An input or output of the model. A size is an element count or an expression of symbols.
struct TensorInfo {
  std::string name;
  DType dtype = DType::undefined;
  std::optional<Shape> shape;  // nullopt: the rank is unknown
};

// A buffer or input whose update is part of the model.
struct StateTensor {
  std::string target;                 // name in the program
  std::optional<TensorData> initial;  // a buffer's initial value; valid while the Program lives
  size_t input = 0;                   // index into Program::inputs()
  size_t output = 0;                  // index into Program::outputs()
};

// Where the elements of a weight are already: a file in the model's folder, and the offset of the
// first byte in it. They are contiguous there, little-endian, and not checked.
struct WeightPlace {
  std::string file;
  int64_t offset = 0;
};

// Options of Program::save.
struct SaveOptions {
  // True stores the weights in `<file>.data` beside the model, false stores them in the model, and
  // nullopt stores them outside if they exceed 1.5 GiB.
  std::optional<bool> external_data;
  // By the names of weights in the model. The model refers to these files, such as a checkpoint in
  // the safetensors format; needs external data. Other weights are stored as usual.
  std::map<std::string, WeightPlace> places;
  Metadata metadata = Metadata::full;
  // Called with the number of bytes written so far and in total; may be empty.
  std::function<void(int64_t, int64_t)> progress;
};

struct ProgramContents;

// Owns the model and keeps its weights alive. The weights are not copied: they alias the tensors of
// the module or the mapped `.pt2` file. Movable. Member functions report errors as ExportError.
class Program {
 public:
  explicit Program(std::unique_ptr<ProgramContents> contents);  // internal to onnx_native
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;
  ~Program();

  // The version of the ONNX operator set that the model uses.
  int64_t opset() const;
  // The user's inputs and outputs in the program's order, then those of state tensors.
  std::vector<TensorInfo> inputs() const;
  // The inputs that ExportOptions::adapters selects, which have defaults.
  std::vector<TensorInfo> adapters() const;
  std::vector<TensorInfo> outputs() const;
  // The buffers and inputs selected by ExportOptions::state.
  const std::vector<StateTensor>& state() const;
  // Messages for the user, for example that a buffer update is not part of the model.
  const std::vector<std::string>& warnings() const;
  // The conditions on dynamic sizes under which a recorded callable takes the path that it took for
  // the example: "n <= 512". The model is valid only where all of them hold.
  const std::vector<std::string>& conditions() const;

  // Writes the model atomically: the model file and its data file appear complete or not at all.
  // Throws io on a write error, and invalid_argument when the model file would exceed 2 GiB or when
  // a weight changed after the export in a way that invalidates the model. Otherwise writes the
  // current values of the weights.
  void save(const std::filesystem::path& path, const SaveOptions& options = {}) const;
  // Returns the bytes of the model with all weights inside. Throws invalid_argument like save().
  std::string serialize(Metadata metadata = Metadata::full) const;
  // Runs onnx's own checker on the model, including shape inference (full_check). Throws internal
  // with the checker's message, unsupported when this build has no checker, and io when it cannot
  // write the temporary file that the checker reads.
  void check() const;
  // Returns the model as ONNX text; large weights appear as their types only.
  std::string text() const;

  // Internal to onnx_native.
  const ProgramContents& contents() const { return *contents_; }
  ProgramContents& contents() { return *contents_; }

 private:
  std::unique_ptr<ProgramContents> contents_;
};

}  // namespace onnx_native
