// The memory behind a program's tensors while functionalize reads it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "aten/graph.h"
#include "aten/strides.h"

namespace onnx_native::aten {

// Memory that tensors of the program share. A write to any of them makes the others' values stale.
struct Storage {
  struct Link {
    Storage* other;
    std::string cause;
    bool is_copy = false;  // a list's copy of it
  };
  int version = 0;
  std::vector<Link> maybe_shared;  // may be the same memory: it cannot be told
  const Node* writer = nullptr;    // a write that may have changed this memory too
  std::string cause;               // of not knowing
  bool held = false;               // a list holds a copy of it
  bool holds_twice = false;        // it is a list's, of copies of which two may be of one tensor
};

struct View;

// A tensor object of the program: its memory, how it looks at it, its value as of a version.
struct Tensor {
  Storage* storage = nullptr;
  View* view = nullptr;  // nullptr: it is all of its storage
  int output = 0;        // among the view node's
  Value* current = nullptr;
  int version = 0;
  bool scattered = false;           // without a view: it may not be contiguous
  std::vector<const Value*> names;  // the program's values that are this object
  std::vector<Tensor*> maybe_same;  // may be this very object, as sizes decide
  const Node* reshaper = nullptr;   // an in-place change of shape that may be of this object too
};

// A call that made views of a base.
struct View {
  Node* node;
  Tensor* base;
  std::vector<Tensor*> outputs;
  std::optional<Condition> condition;  // where it does not hold, the output is a copy
};

}  // namespace onnx_native::aten
