#include "api/together.h"

#include <algorithm>
#include <utility>

#include "api/entry.h"
#include "api/metadata.h"
#include "api/program_contents.h"
#include "api/weights.h"
#include "base/device_weight.h"
#include "passes/passes.h"
#include "writer/writer.h"

namespace onnx_native {
namespace {

void share_layouts(const std::vector<ProgramPart>& parts) {
  const HostCopies copies;
  std::vector<onnx::Model*> models;
  models.reserve(parts.size());
  for (const ProgramPart& part : parts) models.push_back(part.program->contents().model.get());
  if (passes::share_layouts(models) == 0 || !verifies_by_default()) return;
  for (const onnx::Model* model : models) onnx::verify(*model, "shared layouts");
}

writer::Part writer_part(const ProgramPart& part) {
  const ProgramContents& contents = part.program->contents();
  writer::Options how = metadata_options(contents, part.metadata);
  for (const auto& [weight, place] : part.places)
    how.places.emplace(weight, std::pair(place.file, place.offset));
  return {contents.model.get(), part.path, std::move(how)};
}

}  // namespace

void save_together(const std::vector<ProgramPart>& parts, const std::filesystem::path& folder,
                   const TogetherOptions& options) {
  entry([&] {
    for (const ProgramPart& part : parts) check_reads(*part.program);
    // The elements of a matrix in a checkpoint need no second copy in another layout.
    if (std::ranges::all_of(parts, [](const ProgramPart& part) { return part.places.empty(); }))
      share_layouts(parts);
    std::vector<writer::Part> written;
    written.reserve(parts.size());
    for (const ProgramPart& part : parts) written.push_back(writer_part(part));
    writer::save_together(written, folder,
                          {.shard_bytes = options.shard_bytes, .progress = options.progress});
  });
}

}  // namespace onnx_native
