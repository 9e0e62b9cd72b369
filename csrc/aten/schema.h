// What lowering and functionalize need to know of an operator's schema, without torch headers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onnx_native::aten {

// The kinds of schema types that programs contain. Lists and optionals are flags of SchemaType.
enum class TypeKind {
  tensor,
  integer,
  sym_int,
  floating,
  sym_float,
  boolean,
  sym_bool,
  scalar,
  string,
  dtype,
  device,
  layout,
  memory_format,
  generator,
  complex,
  other
};

struct SchemaType {
  TypeKind kind = TypeKind::other;
  bool list = false;               // int[], Tensor[]
  bool optional = false;           // the whole: Tensor?, int[]?
  bool optional_elements = false;  // Tensor?[]
  int fixed_size = 0;              // int[2]: 2, else 0; one number stands for all
  std::string str;                 // as the schema prints it
  bool operator==(const SchemaType&) const = default;
};

struct SchemaArgument {
  std::string name;
  SchemaType type;
  bool kwarg_only = false;
  bool has_default = false;
  bool is_out = false;                  // an `out=` argument
  bool writes = false;                  // (a!)
  std::vector<std::string> alias_sets;  // {"a"}, {"*"} for wildcards; empty: aliases nothing
};

// A copy of c10::FunctionSchema's facts.
struct Schema {
  std::string key;       // "aten::add.Tensor"
  std::string name;      // "aten::add"
  std::string overload;  // "Tensor"
  std::vector<SchemaArgument> arguments;
  std::vector<SchemaArgument> returns;
  bool varargs = false;

  // Index of an argument by name; -1 when there is none.
  int index(std::string_view argument) const;
  bool is_mutable() const;  // some argument is written
  bool is_view() const;     // a result shares memory with an argument, and nothing is written
};

// Finds a schema among the operators that are registered with the dispatcher, by key; nullptr when
// there is none. Cached; entries live for ever.
const Schema* find_schema(std::string_view key);
// All registered overloads of an operator ("aten::add"), ordered by key. Walks every operator: for
// rare cases.
std::vector<const Schema*> find_overloads(std::string_view name);

}  // namespace onnx_native::aten
