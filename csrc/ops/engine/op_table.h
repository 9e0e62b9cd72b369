// The op table: ATen operators to ONNX nodes, keyed like the dispatcher.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/engine/binder.h"

namespace onnx_native::ops {

// The second part of a key: which kind of argument takes the entry.
enum class Key {
  dense,
  quantized,  // some tensor argument is quantised
  complex,    // some argument or result is complex
};

// Entries are found by operator name with overload ("aten::add.Tensor", never ".default"), then
// key. An entry registered with `override_def` (the user's) wins over the native one. Defining a
// key twice throws.
class OpTable {
 public:
  template <class F>
  void def(std::string_view op, Promote promote, F lowering) {
    add(op, Key::dense, bind(promote, std::move(lowering)));
  }
  template <class F>
  void def(std::string_view op, F lowering) {
    add(op, Key::dense, bind(Promote::none, std::move(lowering)));
  }
  template <class F>
  void def(std::string_view op, Key key, F lowering) {
    add(op, key, bind(Promote::none, std::move(lowering)));
  }
  // The same lowering for several operators.
  template <class F>
  void def(std::initializer_list<std::string_view> operators, Promote promote, const F& lowering) {
    for (auto op : operators) def(op, promote, lowering);
  }
  template <class F>
  void def(std::initializer_list<std::string_view> operators, const F& lowering) {
    for (auto op : operators) def(op, Promote::none, lowering);
  }
  // An ATen operator whose (promoted) tensors are just the ONNX operator's inputs.
  void unary(std::string_view op, std::string_view onnx_op, Promote promote = Promote::none);
  void binary(std::string_view op, std::string_view onnx_op, Promote promote = Promote::standard);
  // The first operator does what the second does, with the same schema; the second must be defined.
  void alias(std::string_view op, std::string_view target);

  // What the user registered.
  void override_def(std::string op, Lowering lowering);
  void remove_override(std::string_view op);

  // ONNX operators that the Builder composes of others where a runtime has no kernel.
  void set_compositions(Compositions compositions) { compositions_ = std::move(compositions); }
  const Compositions& compositions() const { return compositions_; }

  void add(std::string_view op, Key key, Lowering lowering);
  // nullptr when there is none. The user's entry serves every key; a key without an entry of its
  // own falls back to dense, but complex does not.
  const Lowering* find(std::string_view op, Key key = Key::dense) const;
  // All native entries in order of definition, for tests and documentation.
  const std::vector<std::pair<std::string, Key>>& keys() const { return keys_; }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
  };
  using Entries = std::unordered_map<std::string, Lowering, Hash, std::equal_to<>>;
  Entries entries_[3];
  Entries overrides_;
  Compositions compositions_;
  std::vector<std::pair<std::string, Key>> keys_;
};

// Every family's registration; the list in register_all.cpp calls them.
void register_all(OpTable& ops);
// The process's table, filled once.
OpTable& op_table();

}  // namespace onnx_native::ops
