#include "api/file.h"

#include <unordered_set>
#include <utility>

#include "api/entry.h"
#include "api/export.h"
#include "api/module.h"
#include "api/program_contents.h"
#include "onnx_native/inspect.h"
#include "readers/pt2/archive.h"
#include "readers/pt2/reader.h"

namespace onnx_native {
namespace {

bool is_archive(const std::filesystem::path& path) {
  return !readers::pt2::Archive(path).has("constants.pkl");  // TorchScript's
}

// Runs `work` on the file. An internal error that a .pt2 archive causes is an invalid program,
// because the archive records what PyTorch computed.
template <class Work>
auto blaming_archive(const std::filesystem::path& path, const Work& work) {
  try {
    return work();
  } catch (const ExportError& error) {
    if (error.kind() != ErrorKind::internal || !is_archive(path)) throw;
    ExportError invalid(ErrorKind::invalid_program, error.faults(),
                        "save the program again with torch.export.save; if that does not help, "
                        "this exporter has a bug");
    invalid.add_prefix(concat(path.string(), ": ", readers::pt2::kModel, " contradicts itself: "));
    throw invalid;
  }
}

}  // namespace

std::unique_ptr<aten::Graph> read_file(const std::filesystem::path& path,
                                       const ExportOptions& options) {
  const readers::pt2::Archive archive(path);
  if (archive.has("constants.pkl")) return read_module_file(path, options);
  if (archive.has("data.pkl"))
    fail(ErrorKind::invalid_program, path.string(),
         " holds tensors or a pickled module (torch.save), not a program; save the program with "
         "torch.export.save or torch.jit.save");
  return readers::pt2::read(path, options.inputs);
}

Program export_archive(const std::filesystem::path& path, const std::function<Program()>& work) {
  return blaming_archive(path, work);
}

Program export_file(const std::filesystem::path& path, const ExportOptions& options) {
  return export_archive(path, [&] {
    return entry([&] { return export_program([&] { return read_file(path, options); }, options); });
  });
}

std::vector<OperatorUse> list_operators(const std::filesystem::path& path,
                                        const ExportOptions& options) {
  return blaming_archive(path, [&] {
    return entry([&] {
      const auto graph = read_file(path, options);
      return used_operators(*graph);
    });
  });
}

std::string aten_text(const std::filesystem::path& path, const ExportOptions& options) {
  return blaming_archive(
      path, [&] { return entry([&] { return aten::print(*read_file(path, options)); }); });
}

}  // namespace onnx_native
