// The op table: maps ATen operators to lowerings, with the dispatcher's names.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/engine/binder.h"

namespace onnx_native::ops {

// The dispatch key: the kind of tensors that an entry handles.
enum class Key {
  dense,
  quantized,  // some tensor argument or result is quantized
  complex,    // some argument or result is complex
};

// Finds entries by operator name with overload ("aten::add.Tensor", never ".default"), then by key.
// An entry from `override_def` (the user's) takes precedence. Defining the same key twice throws.
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
  // Registers the same lowering for several operators.
  template <class F>
  void def(std::initializer_list<std::string_view> operators, Promote promote, const F& lowering) {
    for (auto op : operators) def(op, promote, lowering);
  }
  template <class F>
  void def(std::initializer_list<std::string_view> operators, const F& lowering) {
    for (auto op : operators) def(op, Promote::none, lowering);
  }
  // Registers an ATen operator whose (promoted) tensors are the ONNX operator's only inputs.
  void unary(std::string_view op, std::string_view onnx_op, Promote promote = Promote::none);
  void binary(std::string_view op, std::string_view onnx_op, Promote promote = Promote::standard);
  // Registers `op` with the lowering of `target`, which has the same schema and is already defined.
  void alias(std::string_view op, std::string_view target);

  // Sets or replaces the user's lowering of an operator.
  void override_def(std::string op, Lowering lowering);
  void remove_override(std::string_view op);

  // ONNX operators that the Builder composes from others when the runtime has no suitable kernel.
  void set_compositions(Compositions compositions) { compositions_ = std::move(compositions); }
  const Compositions& compositions() const { return compositions_; }

  void add(std::string_view op, Key key, Lowering lowering);
  // Returns nullptr if there is no entry. The user's entry handles every key. Key::quantized falls
  // back to Key::dense; Key::complex does not.
  const Lowering* find(std::string_view op, Key key = Key::dense) const;
  // Returns the keys of all native entries in order of definition, for tests and documentation.
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

// Registers every family; register_all.cpp holds the list.
void register_all(OpTable& ops);
// Returns the process-wide table, filled on first use.
OpTable& op_table();

}  // namespace onnx_native::ops
