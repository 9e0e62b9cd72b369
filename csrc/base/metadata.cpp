#include "base/metadata.h"

#include "base/error.h"

namespace onnx_native {

Metadata parse_metadata(std::string_view text) {
  if (text == "none") return Metadata::none;
  if (text == "names") return Metadata::names;
  if (text == "full") return Metadata::full;
  fail(ErrorKind::invalid_argument, "there is no level of metadata '", text,
       "': choose one of 'none', 'names', 'full'");
}

}  // namespace onnx_native
