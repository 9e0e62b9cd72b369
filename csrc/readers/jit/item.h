// The reader's representation of a TorchScript value.
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

// A tensor of the graph, a number, a container or a constant. Integers are Dims; all other
// constants except tensors and containers are IValues.
struct Item {
  struct Uninitialized {};
  // A tensor object. Its aliases share `object`, whose only item is the current value. Operators
  // such as `t_` replace that item.
  struct Tensor {
    explicit Tensor(aten::Value* value);
    ContainerPtr object;
  };
  // The current value of a tensor object. It occurs only as the item of `object`.
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
  aten::Value* tensor() const;  // the current value, or nullptr
  // Returns the object that aliases of a tensor share; nullptr for all other items.
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

// A data-dependent Optional: None or a value.
struct Maybe {
  Item present;  // a bool that the model computes; constant or uninitialized only at loop entry
  Item value;
};
// Returns `value` or None if `present` is a constant, else a Maybe.
Item maybe(Item present, Item value);
// Returns a bool that is true if the item is not None; it is a constant unless the item is a Maybe.
Item presence(const Item& item);
// Returns the item without the possibility of None; an uninitialized item if it is None.
Item present_value(const Item& item);

// A list, tuple, dict, tensor object, or an object's attributes. Items share it by reference, as
// Python variables do.
struct Container {
  enum class Kind { list, tuple, dict, object, tensor };
  // The mutable part.
  struct Contents {
    std::vector<Item> keys;  // of a dict
    std::vector<Item> items;
    OpenListPtr open = nullptr;  // the elements of a list of data-dependent length
  };
  Kind kind;
  c10::TypePtr type;  // nullptr if irrelevant
  Contents contents;
  // Set if the object existed before the program ran. Its attributes are loaded on first read.
  c10::intrusive_ptr<c10::ivalue::Object> object;
  std::string path;          // in the module, as in state_dict
  bool accumulates = false;  // a loop appends to it and must not read it
  uint64_t born = 0;         // creation number, from 1; 0 if it existed before the program ran
  size_t recorded = 0;       // length of the interpreter's journal after its latest entry; 0: none

  std::vector<Item>& items() { return contents.items; }
  const std::vector<Item>& items() const { return contents.items; }
};

// Throws ExportError(unsupported) if a list would exceed 1,000,000 elements, so that no program can
// exhaust memory.
void check_length(size_t elements);
ContainerPtr make_container(Container::Kind kind, std::vector<Item> items,
                            c10::TypePtr type = nullptr);
// Returns the number of containers created on this thread.
uint64_t containers_made();

// Returns true if the item is a constant: it depends on no tensor and no symbolic size.
bool is_known(const Item& item);
// Converts a constant to an IValue; is_known(item) must hold.
c10::IValue to_ivalue(const Item& item, const c10::TypePtr& type);
// Returns true if the items are known to be equal. Compares containers by their elements.
bool are_equal(const Item& a, const Item& b);
// Describes the item for error messages: "a tensor", "a list of 3".
std::string describe(const Item& item);

}  // namespace onnx_native::readers::jit
