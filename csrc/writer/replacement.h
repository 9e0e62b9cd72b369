// Puts a model and its data file in place of earlier ones.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "writer/file.h"

namespace onnx_native::writer {

// Writes the models that refer to the data files of these names, and closes their files.
using WriteModels = std::function<void(const std::vector<std::string>& locations)>;

// A model to put at a path, and the file that has it.
struct NewModel {
  std::filesystem::path path;
  OutputFile* file;
};

// Puts models at their paths, and the data files that they share beside them, so that whoever reads
// a path finds the old model with its data or the new one with its data, also after a crash.
//
// `write_models` fills the files of the models. `data` are closed files in the same folder, which
// are renamed; none if the models have all weights inside.
//
// The data files get their usual names, `<owner>.data` if there is one, unless a present model
// refers to a data file of these models with other contents. Then each gets a name of its own that
// depends on the contents, and the old data files are removed after all models were replaced. One
// save at a time replaces the files of a path. It also removes what killed saves left there. Throws
// ExportError(io); the old files are whole then, except that several models are replaced one after
// the other.
void put_in_place(std::span<const NewModel> models, const std::filesystem::path& owner,
                  std::span<const std::filesystem::path> data, const WriteModels& write_models);

}  // namespace onnx_native::writer
