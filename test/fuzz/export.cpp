#include "fuzz/export.h"

#include "api/export.h"
#include "base/error.h"
#include "writer/writer.h"

namespace onnx_native::fuzz {

void export_all(const std::function<std::unique_ptr<aten::Graph>()>& read) {
  try {
    const std::unique_ptr<aten::Graph> graph = read();
    const std::unique_ptr<onnx::Model> model = export_graph(*graph, {}, {.verify = true});
    writer::serialize(*model);
  } catch (const ExportError&) {
  }
}

}  // namespace onnx_native::fuzz
