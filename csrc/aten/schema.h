// The parts of an operator's schema that lowering and functionalize need, without torch headers.
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
  bool optional = false;           // the whole type: Tensor?, int[]?
  bool optional_elements = false;  // Tensor?[]
  int fixed_size = 0;              // 2 for int[2], else 0; one number may stand for the whole list
  std::string str;                 // as printed by the schema
  bool operator==(const SchemaType&) const = default;
};

struct SchemaArgument {
  std::string name;
  SchemaType type;
  bool kwarg_only = false;
  bool has_default = false;
  bool is_out = false;                  // an `out=` argument
  bool writes = false;                  // (a!)
  std::vector<std::string> alias_sets;  // {"a"}; {"*"} for wildcards; empty: no aliasing
};

// A copy of the facts in c10::FunctionSchema.
struct Schema {
  std::string key;       // "aten::add.Tensor"
  std::string name;      // "aten::add"
  std::string overload;  // "Tensor"
  std::vector<SchemaArgument> arguments;
  std::vector<SchemaArgument> returns;
  bool varargs = false;

  // Returns the index of an argument; -1 if there is none.
  int index(std::string_view argument) const;
  bool is_mutable() const;  // some argument is written to
  bool is_view() const;     // a result aliases an argument, and nothing is written
};

// Returns the schema that is registered with the dispatcher under this key; nullptr if there is
// none. Cached; schemas are never freed.
const Schema* find_schema(std::string_view key);
// Returns all registered overloads of an operator ("aten::add"), ordered by key. Slow: walks all
// operators.
std::vector<const Schema*> find_overloads(std::string_view name);

}  // namespace onnx_native::aten
