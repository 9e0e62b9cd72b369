#include "base/where.h"

namespace onnx_native {

std::string where(const Location* location) {
  std::string text;
  if (!location) return text;
  if (!location->source.empty()) text += "\n  at " + location->source;
  if (!location->source.empty() && !location->code.empty()) text += ": " + location->code;
  if (!location->module_path.empty()) text += "\n  in " + location->module_path;
  return text;
}

}  // namespace onnx_native
