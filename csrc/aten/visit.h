// Iteration over the values in a call's arguments.
#pragma once

#include <concepts>
#include <type_traits>
#include <variant>

#include "aten/graph.h"

namespace onnx_native::aten {

// Calls `visit` with each value of an argument, including those in lists; does not enter subgraphs.
// For a mutable argument, passes a reference that can be assigned.
template <class A, class Visit>
requires std::same_as<std::remove_const_t<A>, Argument>
void for_each_value(A& argument, Visit&& visit) {
  if (auto* value = std::get_if<Value*>(&argument.value)) {
    visit(*value);
  } else if (auto* list = std::get_if<Argument::List>(&argument.value)) {
    for (A& item : *list) for_each_value(item, visit);
  }
}

}  // namespace onnx_native::aten
