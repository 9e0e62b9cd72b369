#include "api/saved_bytes.h"

#include <span>
#include <string>
#include <vector>

#include "writer/file.h"
#include "writer/file_names.h"
#include "writer/replacement.h"

namespace onnx_native {

void save_bytes(const std::filesystem::path& path, const std::filesystem::path& data,
                const ModelBytes& model_bytes) {
  writer::Progress progress;
  const auto kind = data.empty() ? writer::Target::model : writer::Target::model_with_data;
  writer::OutputFile model(path, progress, kind);
  const writer::NewModel placed{path, &model};
  const std::span files(&data, data.empty() ? 0 : 1);
  writer::put_in_place({&placed, 1}, path, files, [&](const std::vector<std::string>& locations) {
    model.write(model_bytes(locations.empty() ? "" : locations[0]));
    model.close();
  });
}

std::filesystem::path temporary_path(const std::filesystem::path& model) {
  return model.parent_path() / writer::FileNames(model).temporary();
}

bool is_direct(const std::filesystem::path& path) { return writer::is_direct(path); }

}  // namespace onnx_native
