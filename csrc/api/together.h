// Saves several programs with one file of weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/metadata.h"
#include "onnx_native/program.h"

namespace onnx_native {

// One of several programs, and the file of its model. Does not own the program.
struct ProgramPart {
  Program* program;
  std::filesystem::path path;
  Metadata metadata = Metadata::full;
  std::map<std::string, WeightPlace> places;  // see SaveOptions
};

// Options of save_together.
struct TogetherOptions {
  // The largest size of a data file; larger weights have files of their own. nullopt: one file.
  std::optional<int64_t> shard_bytes;
  // Called with the number of bytes written so far and in total; may be empty.
  std::function<void(int64_t, int64_t)> progress;
};

// Writes the models, which are in one folder, and beside them one data file. A weight that several
// programs hold, over the same memory, is stored once. If they store it in different layouts, all
// of them get one: this changes the programs. Weights that are in `places` keep their layout.
// Throws like Program::save; no file is replaced then.
void save_together(const std::vector<ProgramPart>& parts, const std::filesystem::path& folder,
                   const TogetherOptions& options = {});

}  // namespace onnx_native
