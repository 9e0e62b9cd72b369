#include "writer/stale_data.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <system_error>

#include "onnx/onnx_onnx_native_pb-ml.pb.h"

namespace onnx_native::writer {
namespace {

namespace fs = std::filesystem;
namespace pb = ::onnx_native_pb;

bool refers_to(const pb::TensorProto& tensor, const std::string& location) {
  return std::ranges::any_of(tensor.external_data(), [&](const auto& entry) {
    return entry.key() == "location" && entry.value() == location;
  });
}

bool refers_to(const pb::GraphProto& graph, const std::string& location) {
  const auto has_it = [&](const auto& part) { return refers_to(part, location); };
  if (std::ranges::any_of(graph.initializer(), has_it)) return true;
  return std::ranges::any_of(graph.node(), [&](const pb::NodeProto& node) {
    return std::ranges::any_of(node.attribute(), [&](const pb::AttributeProto& attribute) {
      return attribute.has_g() && has_it(attribute.g());
    });
  });
}

}  // namespace

StaleData::StaleData(const fs::path& model) {
  fs::path data = model;
  data += ".data";
  std::error_code ignored;
  if (!fs::is_regular_file(data, ignored) || !fs::is_regular_file(model, ignored)) return;
  std::ifstream file(model, std::ios::binary);
  pb::ModelProto present;
  if (present.ParseFromIstream(&file) && refers_to(present.graph(), data.filename().string()))
    data_ = std::move(data);
}

void StaleData::remove() const {
  std::error_code ignored;
  if (!data_.empty()) fs::remove(data_, ignored);
}

}  // namespace onnx_native::writer
