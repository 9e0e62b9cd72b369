// The type inference of a recording, which starts when it is needed.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "aten/graph.h"
#include "aten/type_inference.h"

namespace onnx_native::capture {

using MakeTypes = std::function<std::unique_ptr<aten::TypeInference>()>;

// Makes the inference at the first use of get(), because a program whose sizes are all numbers
// needs none. It keeps pointers to the values and nodes that it has seen.
class LazyTypes {
 public:
  explicit LazyTypes(MakeTypes make) : make_(std::move(make)) {}

  aten::TypeInference& get() {
    if (!types_) types_ = make_();
    return *types_;
  }
  std::vector<aten::Type> infer(const aten::Node& node) { return get().infer(node); }
  // Returns the inference; nullptr if it has not started.
  aten::TypeInference* started() const { return types_.get(); }
  // Declares a value or constant without a call, if the inference has started.
  template <class Declared>
  void define(const Declared& declared) {
    if (types_) types_->define(declared);
  }
  void reset() { types_.reset(); }

 private:
  MakeTypes make_;
  std::unique_ptr<aten::TypeInference> types_;
};

}  // namespace onnx_native::capture
