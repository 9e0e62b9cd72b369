// The aliasing state of a program's tensors during functionalization.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "aten/graph.h"
#include "aten/strides.h"

namespace onnx_native::aten {

// Memory that tensors of the program share. A write to one of them makes the values of the others
// stale.
struct Storage {
  struct Link {
    Storage* other;
    std::string cause;
    bool is_copy = false;  // one is a list's copy of the other
  };
  int version = 0;
  std::vector<Link> maybe_shared;    // aliasing that cannot be decided at export time
  const Node* writer = nullptr;      // a write to other memory that may alias this one
  std::string cause;                 // the reason why aliasing is unknown
  bool held = false;                 // a list holds a copy
  bool holds_twice = false;          // belongs to a list that may hold one tensor twice
  const Node* unwritable = nullptr;  // the kUnwritable that marks it
};

struct View;

// A tensor object of the program: its storage, its view of the storage, and its value as of a
// version.
struct Tensor {
  Storage* storage = nullptr;
  View* view = nullptr;  // nullptr: a base tensor, all of its storage
  int output = 0;        // index among the view node's outputs
  Value* current = nullptr;
  int version = 0;
  bool scattered = false;           // for a base tensor: may be non-contiguous
  std::vector<const Value*> names;  // the values that denote this object
  std::vector<Tensor*> maybe_same;  // may be this object, depending on sizes
  const Node* reshaper = nullptr;   // an in-place shape change of a maybe_same
};

// A call that made views of a base tensor.
struct View {
  Node* node;
  Tensor* base;
  std::vector<Tensor*> outputs;
  std::optional<Condition> condition;  // if it fails, the output is a copy
};

// Returns the tensor that views all of the storage as elements of this tensor's dtype, or nullptr.
// Views such as view_as_real count the storage in other units than their base.
inline Tensor* whole_storage(Tensor& part) {
  const auto dtype = [](const Tensor& tensor) { return tensor.names.front()->type.dtype; };
  Tensor* tensor = &part;
  while (tensor->view && !tensor->view->condition && dtype(*tensor) == dtype(*tensor->view->base))
    tensor = tensor->view->base;
  const bool is_whole = !tensor->view || (!tensor->view->condition && !tensor->view->base->view);
  return is_whole ? tensor : nullptr;
}

}  // namespace onnx_native::aten
