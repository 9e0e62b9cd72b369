// Typed access to an archive's JSON. Errors name the missing or wrong field.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace onnx_native::readers::pt2 {

using Json = nlohmann::json;

[[noreturn]] inline void damaged(std::string_view what) {
  fail(ErrorKind::invalid_program, "the archive is damaged: ", what);
}

inline const Json& field(const Json& object, const char* name) {
  if (!object.is_object()) damaged(concat("expected an object with the field ", name));
  const auto at = object.find(name);
  if (at == object.end()) damaged(concat("the field ", name, " is missing"));
  return *at;
}
// Returns nullptr if the field is absent or null.
inline const Json* optional_field(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto at = object.find(name);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}
inline const Json::array_t& list(const Json& value, const char* what) {
  const auto* array = value.get_ptr<const Json::array_t*>();
  if (!array) damaged(concat(what, " is not a list"));
  return *array;
}
inline const std::string& string(const Json& value, const char* what) {
  const auto* text = value.get_ptr<const std::string*>();
  if (!text) damaged(concat(what, " is not a string"));
  return *text;
}
inline bool is_integer(const Json& value) {
  return value.is_number_integer() &&
         !(value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX});
}
inline int64_t integer(const Json& value, const char* what) {
  if (!is_integer(value)) damaged(concat(what, " is not a 64-bit integer"));
  return value.get<int64_t>();
}
inline bool boolean(const Json& value, const char* what) {
  if (!value.is_boolean()) damaged(concat(what, " is not a bool"));
  return value.get<bool>();
}
// Infinities and NaN are strings.
double number(const Json& value, const char* what);

// The single field of a tagged union such as {"as_int": 3}.
struct Choice {
  std::string_view kind;
  const Json& value;
};
inline Choice choice(const Json& value, const char* what) {
  const auto* object = value.get_ptr<const Json::object_t*>();
  if (!object || object->size() != 1)
    damaged(concat(what, " is not an object with a single field"));
  return {object->begin()->first, object->begin()->second};
}

}  // namespace onnx_native::readers::pt2
