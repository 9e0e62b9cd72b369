// Saves models that the caller serialized, as Program::save saves those of a program.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace onnx_native {

// Returns the bytes of a model that refers to the data file of this name; to none if it is empty.
using ModelBytes = std::function<std::string(const std::string& location)>;

// Saves a model at `path`, and beside it the data file, which is renamed; `data` is empty if there
// is none. Old files are replaced as Program::save does. Throws ExportError(io), and what
// `model_bytes` throws.
void save_bytes(const std::filesystem::path& path, const std::filesystem::path& data,
                const ModelBytes& model_bytes);
// Returns an unused path in the model's folder. If the process ends while it holds a lock (flock)
// on it, the next save of the model removes what is there.
std::filesystem::path temporary_path(const std::filesystem::path& model);
// Returns true for a device or a pipe, which can have no data file.
bool is_direct(const std::filesystem::path& path);

}  // namespace onnx_native
