#include "base/error.h"

namespace onnx_native {
namespace {

bool is_known(const Location& location) {
  return !location.source.empty() || !location.node.empty() || !location.module_path.empty();
}

std::string rendered(const Fault& fault) {
  std::string text;
  if (!fault.op.empty() && fault.cause.find(fault.op) == std::string::npos) text = fault.op + ": ";
  text += fault.cause;
  if (!fault.node.empty()) {
    text += "\n  " + fault.node;
  } else if (!fault.location.node.empty()) {
    text += "\n  in node " + fault.location.node;
  }
  return text + where(&fault.location);
}

}  // namespace

std::string where(const Location* location) {
  std::string text;
  if (!location) return text;
  if (!location->source.empty()) text += "\n  at " + location->source;
  // The frames of the stack may follow the text of the line.
  const std::string line = location->code.substr(0, location->code.find('\n'));
  if (!location->source.empty() && !line.empty()) text += ": " + line;
  if (!location->module_path.empty()) text += "\n  in " + location->module_path;
  return text;
}

ExportError::ExportError(ErrorKind kind, std::string cause)
    : ExportError(kind, std::vector<Fault>{{.cause = std::move(cause)}}) {}

ExportError::ExportError(ErrorKind kind, std::vector<Fault> faults, std::string hint)
    : std::runtime_error(""), kind_(kind), faults_(std::move(faults)), hint_(std::move(hint)) {
  render();
}

void ExportError::add_node(const std::string& op, const std::string& node) {
  Fault& fault = faults_.front();
  if (!fault.node.empty()) return;
  fault.op = op;
  fault.node = node;
  render();
}

void ExportError::add_location(const Location& location) {
  Fault& fault = faults_.front();
  if (is_known(fault.location)) return;
  fault.location = location;
  render();
}

void ExportError::add_prefix(const std::string& words) {
  faults_.front().cause.insert(0, words);
  render();
}

void ExportError::render() {
  text_ = "[" + std::string(name(kind_)) + "]: ";
  for (size_t i = 0; i < faults_.size(); ++i) text_ += (i ? "\n" : "") + rendered(faults_[i]);
  if (!hint_.empty()) text_ += "\n  hint: " + hint_;
}

std::string_view name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::unsupported_operator:
      return "unsupported operator";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::invalid_program:
      return "invalid program";
    case ErrorKind::invalid_argument:
      return "invalid argument";
    case ErrorKind::io:
      return "io";
    case ErrorKind::internal:
      return "internal";
  }
  return "unknown";
}

}  // namespace onnx_native
