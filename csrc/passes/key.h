// Keys for structural equality: nodes with equal keys compute the same results.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "onnx/graph.h"

namespace onnx_native::passes {

class Key {
 public:
  template <class T>
  void add(const T& plain) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_same_v<T, std::string_view>);
    text_.append(reinterpret_cast<const char*>(&plain), sizeof(plain));
  }
  void add_identity(const void* object) { add(reinterpret_cast<uintptr_t>(object)); }
  void add_text(std::string_view text) {
    add(text.size());
    text_ += text;
  }
  // Adds the dtype, shape and bytes. Returns false and adds nothing if the tensor is large, is not
  // contiguous or can change.
  bool add_tensor(const TensorData& data);
  // Adds the attributes, in any order. Returns false if a value cannot be compared. A sub-graph is
  // comparable if `add_graph` returns true for it.
  bool add_attributes(const onnx::Node& node,
                      const std::function<bool(const onnx::Graph&)>& add_graph = nullptr);
  std::string take() { return std::move(text_); }

 private:
  bool add_held(int64_t value) { return add(value), true; }
  bool add_held(double value) { return add(value), true; }
  bool add_held(DType value) { return add(value), true; }
  bool add_held(const std::string& value) { return add_text(value), true; }
  template <class T>
  bool add_held(const std::vector<T>& values) {
    add(values.size());
    for (const T& value : values) add_held(value);
    return true;
  }
  bool add_held(const std::shared_ptr<TensorData>& value) { return add_tensor(*value); }

  std::string text_;
};

// Returns the key of a node: its operator, inputs and attributes. Random operators, nodes with
// sub-graphs and other domains have none.
std::optional<std::string> key_of(const onnx::Node& node);

}  // namespace onnx_native::passes
