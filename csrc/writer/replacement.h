// Puts a model and its data file in place of earlier ones.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "writer/file.h"

namespace onnx_native::writer {

// Writes the model that refers to the data file of this name, and closes it.
using WriteModel = std::function<void(const std::string& location)>;

// Puts a model at `path`, and its data file beside it, so that whoever reads the path finds the old
// model with its data or the new one with its data, also after a crash.
//
// `model` is the file for `path`; `write_model` fills it. `data` is a closed file in the same
// folder, which is renamed; empty if the model has all weights inside.
//
// The data file gets its usual name, `<model>.data`, unless the present model refers to a data file
// with other contents. Then it gets a name of its own that depends on the contents, and the
// old data file is removed after the model was replaced. One save at a time replaces the files of a
// path. It also removes what killed saves left there. Throws ExportError(io); the old files
// are whole then.
void put_in_place(const std::filesystem::path& path, OutputFile& model,
                  const std::filesystem::path& data, const WriteModel& write_model);

}  // namespace onnx_native::writer
