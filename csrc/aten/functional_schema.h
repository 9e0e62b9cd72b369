// Maps an in-place or out= operator to the functional operator that computes the same values.
#pragma once

#include <vector>

#include "aten/graph.h"

namespace onnx_native::aten {

struct FunctionalSchema {
  const Schema* schema = nullptr;
  // For each argument of the functional operator, the index of the mutable operator's argument; -1
  // means the default.
  std::vector<int> sources;
  // The indices of the mutable operator's written arguments, in order. The functional operator
  // returns the fresh results first (possibly additional ones), then one result for each written
  // argument.
  std::vector<int> written;
};

// Returns a schema for the same key whose calls return their fresh results and then the written
// values.
const Schema* returning_writes(const Schema& mutates);

// Returns the functional operator of `mutates`, which must write to an argument. A custom operator
// without one gets a schema under its own key that returns what it writes. The schema is nullptr if
// PyTorch has no such operator.
FunctionalSchema find_functional(const Schema& mutates);

// Checks a call whose written arguments hold no tensor, which is right for empty lists, as in
// _foreach_add_([], 1). Throws ExportError(unsupported) for anything else.
void check_writes_nothing(const Node& node, const FunctionalSchema& functional);

// Returns true for `x.copy_(y)` if y has x's dtype and shape, so that y is the new value of x.
bool copies_whole(const Node& node);

// Returns the dtype of result i of the functional operator if it may differ from the dtype of the
// written tensor; `undefined` if the dtype is unknown, nullopt if there is no difference. Throws
// ExportError(unsupported) for a result that is not bool, written to a bool tensor.
std::optional<DType> unconverted_dtype(const Node& mutates, const FunctionalSchema& functional,
                                       const Type& target, size_t i);

// Turns a call into a call of the functional operator. If that has a `dtype` argument, it computes
// in the dtype of `target`, the type of the written tensor.
void make_functional(Node& node, const FunctionalSchema& functional, const Type& target = {});

}  // namespace onnx_native::aten
