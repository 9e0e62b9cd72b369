// The aliasing state of a program's tensors during functionalization.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
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
  bool is_input = false;             // of a branch or loop body
  bool maybe_written = false;        // through a tensor that is no input; depends on data
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

// The tensors of a graph.
class Memory {
 public:
  // Returns the tensor that a value of the program denotes; a new one if the value is new.
  Tensor& tensor_of(Value* value);
  // Returns nullptr for a value that is new.
  Tensor* find(const Value* value) const;
  // Makes the value denote the tensor.
  void name(Tensor& tensor, const Value* value);
  // Makes the node's outputs views of the base.
  View& add_view(Node& node, Tensor& base);
  bool has_views(const Tensor& base) const;

  // Notes that two tensors may share memory, depending on data.
  static void may_be_same(Storage& a, Storage& b, const std::string& cause, bool copy = false);
  void may_be_one(Value* one, Value* other);
  static bool may_be(const Storage& a, const Storage& b);
  // Makes what may share the written memory unreadable.
  static void mark_shared(const Storage& written, const Node* writer);
  // Notes that the call may write to the tensor, depending on data.
  void may_write(Value* value, const Node* writer);

  std::unordered_set<const Value*> scattered;  // values that may be non-contiguous

 private:
  Tensor& new_tensor(Value* value, Storage* storage);

  std::deque<Storage> storages_;
  std::deque<Tensor> all_;
  std::deque<View> views_;
  std::unordered_map<const Value*, Tensor*> tensors_;  // the tensor of each of the program's values
};

}  // namespace onnx_native::aten
