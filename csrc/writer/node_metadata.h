// A node's origin as metadata_props, with the same keys as PyTorch's own exporter.
#pragma once

#include "base/error.h"
#include "writer/writer.h"

namespace onnx_native::writer {

// Makes the metadata of the nodes of one model. Nodes of one call follow each other, so it keeps
// the metadata of the last call.
class NodeMetadata {
 public:
  // `options` must outlive this object.
  explicit NodeMetadata(const Options& options) : options_(options) {}
  const Properties& of(const Location& location) const;

 private:
  Properties make(const Location& location) const;

  const Options& options_;
  mutable const Location* last_ = nullptr;
  mutable Properties made_;  // for `last_`
};

}  // namespace onnx_native::writer
