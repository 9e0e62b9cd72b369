// The functional operator that computes what an in-place or out= operator writes.
#pragma once

#include <vector>

#include "aten/graph.h"

namespace onnx_native::aten {

struct FunctionalSchema {
  const Schema* schema = nullptr;
  // For each of its arguments the mutable operator's argument; -1: the default.
  std::vector<int> sources;
  // The mutable operator's written arguments, in order. The functional operator returns the fresh
  // results first (it may have more of them), then one for each of these.
  std::vector<int> written;
};

// The schema, with its own key, of a call that returns its fresh results and then what it writes.
const Schema* returning_writes(const Schema& mutates);

// `mutates` writes to an argument. A custom operator without a functional one gets a schema of its
// own key that returns what it writes; else the schema is nullptr when PyTorch has no such
// operator.
FunctionalSchema find_functional(const Schema& mutates);

// `x.copy_(y)` with a `y` of x's dtype and shape: x simply is y now.
bool copies_whole(const Node& node);

// The dtype of a functional operator's result where it may not be that of the tensor that `mutates`
// wrote it to; `undefined` when that cannot be told, nullopt when there is no difference.
std::optional<DType> unconverted_dtype(const Node& mutates, const FunctionalSchema& functional,
                                       const Type& target);

// Turns a call into that of the functional operator, which writes to nothing. Where that has a
// `dtype`, it computes in the dtype of `target`, the written tensor.
void make_functional(Node& node, const FunctionalSchema& functional, const Type& target = {});

}  // namespace onnx_native::aten
