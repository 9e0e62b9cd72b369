#include "base/error.h"

namespace onnx_native {

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
