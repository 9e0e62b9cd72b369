// The sizes that a recorded program reads.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "aten/graph.h"

namespace onnx_native::capture {

// A graph reads a size from the first tensor that has it, whatever tensor the program asked. The
// tensors that it asked are here.
class SizeReads {
 public:
  // Notes that a call takes a number that follows from a size of the tensor. No call (nullptr)
  // stands for a result of the program.
  void add(const aten::Node* reader, const aten::Value* tensor) {
    tensors_[reader].push_back(tensor);
  }

  // Returns the positions of the inputs that the results follow from, by elements or by sizes. A
  // tensor of equal elements follows from sizes only, and from nothing if its own are constant.
  std::vector<size_t> inputs_of(const aten::Graph& graph) const;

 private:
  std::unordered_map<const aten::Node*, std::vector<const aten::Value*>> tensors_;
};

}  // namespace onnx_native::capture
