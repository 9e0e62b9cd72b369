// Puts a model and its data file in place of earlier ones.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "writer/file.h"

namespace onnx_native::writer {

// Writes the models that refer to the data file of this name, and closes their files.
using WriteModels = std::function<void(const std::string& location)>;

// A model to put at a path, and the file that has it.
struct NewModel {
  std::filesystem::path path;
  OutputFile* file;
};

// Puts models at their paths, and the data file that they share beside them, so that whoever reads
// a path finds the old model with its data or the new one with its data, also after a crash.
//
// `write_models` fills the files of the models. `data` is a closed file in the same folder, which
// is renamed; empty if the models have all weights inside.
//
// The data file gets the name `<owner>.data`, unless a present model refers to a data file with
// other contents. Then it gets a name of its own that depends on the contents, and the old data
// files are removed after all models were replaced. One save at a time replaces the files of a
// path. It also removes what killed saves left there. Throws ExportError(io); the old files are
// whole then, except that several models are replaced one after the other.
void put_in_place(std::span<const NewModel> models, const std::filesystem::path& owner,
                  const std::filesystem::path& data, const WriteModels& write_models);

}  // namespace onnx_native::writer
