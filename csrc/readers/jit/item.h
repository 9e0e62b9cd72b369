// What a TorchScript value is to the reader: as much as can be known before the program runs.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "aten/graph.h"

namespace onnx_native::readers::jit {

struct Container;
using ContainerPtr = std::shared_ptr<Container>;
struct Maybe;
using MaybePtr = std::shared_ptr<const Maybe>;
struct OpenList;
using OpenListPtr = std::shared_ptr<const OpenList>;

// A tensor of the graph, a number, or something that is known. Integers are Dims; other known
// things that are no containers and no tensors are IValues.
struct Item {
  struct Uninitialized {};
  // A tensor object: all its names share `object`, whose one item is its current value. Operators
  // such as `t_` replace that.
  struct Tensor {
    explicit Tensor(aten::Value* value);
    ContainerPtr object;
  };
  // The current value; only inside such an object.
  struct Current {
    aten::Value* value;
  };
  // A float or bool that the model computes.
  struct Number {
    aten::Value* value;
  };
  std::variant<Uninitialized, c10::IValue, Tensor, Current, Dim, Number, ContainerPtr, MaybePtr> is;

  Item() = default;
  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, Item>) Item(T&& value)
      : is(std::forward<T>(value)) {}  // NOLINT(google-explicit-constructor)
  static Item none() { return c10::IValue(); }

  template <class T>
  const T* get() const {
    return std::get_if<T>(&is);
  }
  bool is_uninitialized() const { return std::holds_alternative<Uninitialized>(is); }
  bool is_none() const {
    const auto* known = get<c10::IValue>();
    return known && known->isNone();
  }
  aten::Value* tensor() const;  // its current value
  // What the names of a tensor share; nullptr of anything else.
  ContainerPtr object() const {
    const auto* tensor = get<Tensor>();
    return tensor ? tensor->object : nullptr;
  }
  aten::Value* number() const {
    const auto* number = get<Number>();
    return number ? number->value : nullptr;
  }
  Container* container() const {
    const auto* pointer = get<ContainerPtr>();
    return pointer ? pointer->get() : nullptr;
  }
  const Maybe* maybe() const {
    const auto* pointer = get<MaybePtr>();
    return pointer ? pointer->get() : nullptr;
  }
  std::optional<bool> boolean() const;
  std::optional<double> floating() const;
  std::optional<int64_t> integer() const;
};

// None, or a value.
struct Maybe {
  Item present;  // a bool that the model computes; known, or not set, only where a loop starts
  Item value;
};
// `value` or None, where it is known whether it is present, else a Maybe.
Item maybe(Item present, Item value);
// Whether an item is not None: known but for a Maybe.
Item presence(const Item& item);
// What an item is if it is not None; not set if it is.
Item present_value(const Item& item);

// A list, tuple or dict, the attributes of an object, or a tensor. Items share it, as Python's
// names do.
struct Container {
  enum class Kind { list, tuple, dict, object, tensor };
  // What changes.
  struct Contents {
    std::vector<Item> keys;  // of a dict
    std::vector<Item> items;
    OpenListPtr open = nullptr;  // of a list whose length is not known: its elements
  };
  Kind kind;
  c10::TypePtr type;  // nullptr where it does not matter
  Contents contents;
  // Of an object that was there before the program ran. Its attributes are read when first asked.
  c10::intrusive_ptr<c10::ivalue::Object> object;
  std::string path;          // in the module, as in state_dict
  bool accumulates = false;  // a loop appends to it, and may do nothing else
  uint64_t born = 0;         // counts those that the program makes, from 1

  std::vector<Item>& items() { return contents.items; }
  const std::vector<Item>& items() const { return contents.items; }
};

// Throws ExportError(unsupported) for more elements than a program's lists may have, so that no
// program makes them larger than memory.
void check_length(size_t elements);
ContainerPtr make_container(Container::Kind kind, std::vector<Item> items,
                            c10::TypePtr type = nullptr);
// How many there have been on this thread.
uint64_t containers_made();

// Whether nothing of it depends on tensors or open sizes.
bool is_known(const Item& item);
// What is known as TorchScript has it; is_known must hold.
c10::IValue to_ivalue(const Item& item, const c10::TypePtr& type);
// Known and equal. Containers are so by their elements.
bool are_equal(const Item& a, const Item& b);
// For messages: "a tensor", "a list of 3".
std::string describe(const Item& item);

}  // namespace onnx_native::readers::jit
