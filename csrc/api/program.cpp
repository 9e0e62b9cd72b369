#include "onnx_native/program.h"

#include <chrono>
#include <utility>

#include "api/adapters.h"
#include "api/entry.h"
#include "api/metadata.h"
#include "api/program_contents.h"
#include "writer/writer.h"

namespace onnx_native {
namespace {

// Describes the values that have, or have not, a default.
std::vector<TensorInfo> infos(const std::vector<onnx::Value*>& values, bool have_default = false) {
  std::vector<TensorInfo> result;
  result.reserve(values.size());
  for (const onnx::Value* value : values)
    if (has_default(*value) == have_default)
      result.push_back({.name = value->name, .dtype = value->dtype, .shape = value->shape});
  return result;
}

}  // namespace

Program export_program(const std::function<std::unique_ptr<aten::Graph>()>& read,
                       const ExportOptions& options, const PipelineOptions& pipeline) {
  auto contents = std::make_unique<ProgramContents>();
  ExportReport& report = contents->report;
  const auto start = std::chrono::steady_clock::now();
  {
    const ReadScope recorded(&report.reads);
    contents->graph = read();
  }
  const std::chrono::duration<double> reading = std::chrono::steady_clock::now() - start;
  report.seconds.emplace_back("read", reading.count());
  contents->model = export_graph(*contents->graph, options, pipeline, &report);
  if (pipeline.foreign) {
    report.fallbacks = pipeline.foreign->used();
    contents->decomposed = pipeline.foreign->take_graphs();
  }
  return Program(std::move(contents));
}

Program::Program(std::unique_ptr<ProgramContents> contents) : contents_(std::move(contents)) {}
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;
Program::~Program() = default;

int64_t Program::opset() const { return contents_->model->opset; }
std::vector<TensorInfo> Program::inputs() const { return infos(contents_->model->graph->inputs); }
std::vector<TensorInfo> Program::adapters() const {
  return infos(contents_->model->graph->inputs, true);
}
std::vector<TensorInfo> Program::outputs() const { return infos(contents_->model->graph->outputs); }
const std::vector<StateTensor>& Program::state() const { return contents_->report.state; }
const std::vector<std::string>& Program::warnings() const { return contents_->report.warnings; }
const std::vector<std::string>& Program::conditions() const { return contents_->report.conditions; }

void Program::save(const std::filesystem::path& path, const SaveOptions& options) const {
  entry([&] {
    contents_->report.reads.check();
    writer::Options how = metadata_options(*contents_, options.metadata);
    how.external_data = options.external_data;
    how.progress = options.progress;
    for (const auto& [weight, place] : options.places)
      how.places.emplace(weight, std::pair(place.file, place.offset));
    writer::save(*contents_->model, path, how);
  });
}

std::string Program::serialize(Metadata metadata) const {
  return entry([&] {
    contents_->report.reads.check();
    return writer::serialize(*contents_->model, metadata_options(*contents_, metadata));
  });
}

std::string Program::text() const { return onnx::print(*contents_->model); }

}  // namespace onnx_native
