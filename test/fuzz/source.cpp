#include "fuzz/source.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "aten/schema.h"

namespace onnx_native::fuzz {
namespace {

using aten::Schema;
using aten::SchemaType;
using aten::TypeKind;

// The guessed type of a name or expression.
enum class Kind { tensor, integer, floating, boolean, integers, tensors, other };

struct Name {
  std::string text;
  Kind kind;
};

Kind kind_of(const SchemaType& type) {
  switch (type.kind) {
    case TypeKind::tensor:
      return type.list ? Kind::tensors : Kind::tensor;
    case TypeKind::integer:
    case TypeKind::sym_int:
      return type.list ? Kind::integers : Kind::integer;
    case TypeKind::floating:
      return Kind::floating;
    case TypeKind::boolean:
      return Kind::boolean;
    default:
      return Kind::other;
  }
}

Kind kind_of_annotation(std::string_view type) {
  static const std::map<std::string_view, Kind> kinds{
      {"Tensor", Kind::tensor},  {"int", Kind::integer},        {"float", Kind::floating},
      {"bool", Kind::boolean},   {"List[int]", Kind::integers}, {"List[Tensor]", Kind::tensors},
      {"number", Kind::floating}};
  const auto found = kinds.find(type);
  return found == kinds.end() ? Kind::other : found->second;
}

const Schema* schema_of(const std::string& name) {
  static std::map<std::string, const Schema*> known;
  const auto [at, inserted] = known.try_emplace(name, nullptr);
  if (inserted) {
    const std::vector<const Schema*> overloads = aten::find_overloads("aten::" + name);
    if (!overloads.empty()) at->second = overloads.front();
  }
  return at->second;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" ,");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" ,:\n") - first + 1));
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(at), text.size());
    if (std::string part = trimmed(text.substr(0, end)); !part.empty()) parts.push_back(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

struct Line {
  std::string text;
  size_t indent() const { return std::min(text.find_first_not_of(' '), text.size()); }
  std::string_view content() const { return std::string_view(text).substr(indent()); }
};

// The body of a function, lines [begin, end) of the file, and its parameters.
struct Function {
  size_t begin;
  size_t end;
  std::vector<Name> parameters;
};

class SourceMutator {
 public:
  SourceMutator(const std::string& text, Random& random) : choose_(random) {
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines_.push_back({line});
    find_functions();
  }

  void mutate() {
    if (functions_.empty()) return;
    const Function function = choose_.of(functions_);
    const size_t at = function.begin + choose_.below(function.end - function.begin);
    collect_names(function, at);
    switch (choose_.below(12)) {
      case 0:
        return erase(at);
      case 1:
        return repeat(function, at);
      case 2:
        return std::swap(lines_[at],
                         lines_[function.begin + choose_.below(function.end - function.begin)]);
      case 3:
        return enclose(function, at);
      case 4:
      case 5:
        return insert(at, statement());
      case 6:
      case 7:
      case 8:
        return change_token(at);
      default:
        return insert(at, call());
    }
  }

  std::string text() const {
    std::string text;
    for (const Line& line : lines_) text += line.text + "\n";
    return text;
  }

 private:
  void find_functions() {
    for (size_t i = 0; i < lines_.size(); ++i) {
      if (!lines_[i].content().starts_with("def ")) continue;
      const size_t indent = lines_[i].indent();
      std::string header;
      for (; i < lines_.size(); ++i) {
        header += lines_[i].text;
        if (header.ends_with(':')) break;
      }
      Function function{.begin = i + 1, .end = i + 1, .parameters = parameters(header)};
      while (function.end < lines_.size() && lines_[function.end].indent() > indent &&
             !lines_[function.end].content().empty())
        ++function.end;
      if (function.end > function.begin) functions_.push_back(function);
      i = function.end - 1;
    }
  }

  static std::vector<Name> parameters(std::string_view header) {
    std::vector<Name> names;
    const size_t open = header.find('(');
    const size_t close = header.rfind(") ->");
    if (open == std::string_view::npos || close == std::string_view::npos || close < open)
      return names;
    // Splits at every comma, so the kind of a type that contains a comma stays unknown.
    for (const std::string& part : split(header.substr(open + 1, close - open - 1), ',')) {
      const size_t colon = part.find(':');
      if (colon == std::string::npos) continue;
      const std::string name = trimmed(part.substr(0, colon));
      std::string type = part.substr(colon + 1);
      type = trimmed(type.substr(0, type.find('=')));
      if (name != "self") names.push_back({name, kind_of_annotation(type)});
    }
    return names;
  }

  // Collects the function's parameters and the names assigned before line `until`.
  void collect_names(const Function& function, size_t until) {
    names_ = function.parameters;
    for (size_t i = function.begin; i < until; ++i) {
      const std::string_view line = lines_[i].content();
      if (line.starts_with("for ")) {
        for (const std::string& name : split(line.substr(4, line.find(" in ") - 4), ','))
          names_.push_back({name, Kind::integer});
      }
      const size_t equals = line.find(" = ");
      if (equals == std::string_view::npos) continue;
      const std::vector<std::string> targets = split(line.substr(0, equals), ',');
      for (size_t k = 0; k < targets.size(); ++k) {
        if (std::ranges::all_of(targets[k], is_word))
          names_.push_back({targets[k], kind_of_expression(trimmed(line.substr(equals + 3)), k)});
      }
    }
  }

  Kind kind_of_name(std::string_view text) const {
    const auto found = std::find_if(names_.rbegin(), names_.rend(),
                                    [&](const Name& name) { return name.text == text; });
    return found == names_.rend() ? Kind::other : found->kind;
  }

  Kind kind_of_expression(const std::string& text, size_t result) const {
    if (text.starts_with("torch.")) {
      const std::string name = text.substr(6, text.find('(') - 6);
      if (name == "size" && text.find(',') == std::string::npos) return Kind::integers;
      if (name == "size" || name == "len" || name == "dim") return Kind::integer;
      const Schema* schema = schema_of(name);
      return schema && result < schema->returns.size() ? kind_of(schema->returns[result].type)
                                                       : Kind::other;
    }
    if (text.starts_with("annotate(List[Tensor]")) return Kind::tensors;
    if (text.starts_with("annotate(List[int]")) return Kind::integers;
    if (text.find(").") != std::string::npos) return Kind::tensor;  // result of a module call
    if (text.starts_with('['))
      return kind_of_name(trimmed(text.substr(1, text.find_first_of(",]") - 1))) == Kind::tensor
                 ? Kind::tensors
                 : Kind::integers;
    if (text.starts_with("int(") || text.find("//") != std::string::npos) return Kind::integer;
    if (text.starts_with("float(")) return Kind::floating;
    if (text.starts_with("bool(") || text == "True" || text == "False") return Kind::boolean;
    if (!text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) != 0 || text[0] == '-'))
      return text.find('.') == std::string::npos ? Kind::integer : Kind::floating;
    return kind_of_name(text);
  }

  // --- Expressions

  std::optional<std::string> name_of(Kind kind) {
    std::vector<std::string> fitting;
    for (const Name& name : names_) {
      if (name.kind == kind) fitting.push_back(name.text);
    }
    if (fitting.empty()) return std::nullopt;
    return choose_.of(fitting);
  }

  std::string any_name() { return names_.empty() ? "self" : choose_.of(names_).text; }

  std::string tensor() {
    if (const auto name = name_of(Kind::tensor); name && !choose_.one_in(12)) return *name;
    return "torch.ones(" + list([&] { return integer(); }, choose_.below(4)) + ")";
  }

  std::string integer() {
    if (choose_.one_in(3)) {
      if (const auto name = name_of(Kind::integer)) return *name;
    }
    if (choose_.one_in(6)) {
      if (const auto name = name_of(Kind::tensor))
        return "torch.size(" + *name + ", " + std::to_string(choose_.integer()) + ")";
    }
    if (choose_.one_in(20)) return "int(torch.item(" + tensor() + "))";
    return std::to_string(choose_.integer());
  }

  std::string real() {
    if (choose_.one_in(4)) {
      if (const auto name = name_of(Kind::floating)) return *name;
    }
    std::ostringstream out;
    out << std::showpoint << choose_.real();
    return out.str();
  }

  std::string boolean() {
    if (choose_.one_in(4)) return "bool(torch.gt(torch.sum(" + tensor() + "), 0))";
    if (choose_.one_in(3)) return integer() + " < " + integer();
    return choose_.one_in(2) ? "True" : "False";
  }

  template <class Make>
  static std::string list(const Make& make, size_t size) {
    std::string text;
    for (size_t i = 0; i < size; ++i) text += (i ? ", " : "") + make();
    return "[" + text + "]";
  }

  std::string list_of(const SchemaType& type) {
    const Kind kind = kind_of(type);
    if (choose_.one_in(3)) {
      if (const auto name = name_of(kind)) return *name;
    }
    SchemaType element = type;
    element.list = element.optional = false;
    return list([&] { return value(element); }, choose_.length(type.fixed_size));
  }

  std::string value(const SchemaType& type) {
    if (type.optional && choose_.one_in(3)) return "None";
    if (type.list) return list_of(type);
    switch (type.kind) {
      case TypeKind::tensor:
        return tensor();
      case TypeKind::integer:
      case TypeKind::sym_int:
        return integer();
      case TypeKind::floating:
        return real();
      case TypeKind::scalar:
        return choose_.one_in(2) ? integer() : real();
      case TypeKind::boolean:
        return choose_.one_in(2) ? "True" : "False";
      case TypeKind::dtype:
        return std::to_string(choose_.below(14));
      case TypeKind::string:
        return std::string("\"") + choose_.word() + "\"";
      case TypeKind::layout:
        return "0";
      case TypeKind::memory_format:
        return std::to_string(choose_.below(4));
      case TypeKind::device:
        return "torch.device(\"cpu\")";
      default:
        return "None";
    }
  }

  // Returns a name to assign to: an existing one, or one of v0 to v7.
  std::string target() {
    return choose_.one_in(2) ? any_name() : "v" + std::to_string(choose_.below(8));
  }

  std::string call() {
    const std::string& op = choose_.of(operators());
    const Schema& schema = *aten::find_schema(op);
    const size_t colons = schema.name.find("::");
    const std::string space = schema.name.substr(0, colons);
    std::string text =
        (space == "aten" ? "torch" : "ops." + space) + "." + schema.name.substr(colons + 2) + "(";
    bool named = false;
    for (const aten::SchemaArgument& argument : schema.arguments) {
      if (argument.has_default && choose_.one_in(2)) {
        named = true;
        continue;
      }
      if (!text.ends_with('(')) text += ", ";
      if (named || argument.kwarg_only) text += argument.name + "=";
      text += value(argument.type);
    }
    std::string targets;
    for (size_t i = 0; i < schema.returns.size(); ++i) targets += (i ? ", " : "") + target();
    if (targets.empty()) return text + ")";
    return targets + (schema.returns.size() > 1 ? ", = " : " = ") + text + ")";
  }

  std::string statement() {
    // $N: target, $V: any name, $T: tensor, $I: integer, $R: float, $B: condition, $L: list.
    static constexpr const char* kStatements[] = {
        "$N = [$T, $T]",
        "$N = annotate(List[Tensor], [])",
        "$N = annotate(List[int], [$I, $I])",
        "_9 = torch.append($L, $T)",
        "$N = torch.pop($L, $I)",
        "torch.insert($L, $I, $T)",
        "$N = $L[$I]",
        "$N = torch.slice($L, $I, $I, $I)",
        "$N = torch.len($V)",
        "$N = torch.add($L, $L)",
        "$N = torch.mul([$I], $I)",
        "torch.reverse($L)",
        "torch.clear($L)",
        "_9 = torch._set_item($L, $I, $T)",
        "$N = torch.size($T)",
        "$N = torch.size($T, $I)",
        "$N = torch.dim($T)",
        "$N = ops.prim.dtype($T)",
        "$N = torch.select($T, $I, $I)",
        "$N = torch.slice($T, $I, $I, $I, $I)",
        "$N = torch.unsqueeze($T, $I)",
        "_9 = torch.add_($T, $T)",
        "_9 = torch.copy_($T, $T)",
        "_9 = torch.fill_($T, $R)",
        "_9 = torch.mul_(torch.select($T, $I, $I), $I)",
        "$N = torch.stack($L, $I)",
        "$N = torch.cat($L, $I)",
        "$N = torch.split($T, $I, $I)",
        "$N = torch.unbind($T, $I)",
        "$N, $N, = torch.split($T, $I)",
        "$N = torch.zeros([$I, $I])",
        "$N = torch.reshape($T, [$I, $I])",
        "$N = torch.arange($I, $I, $I)",
        "$N = torch.tensor([$I, $I])",
        "$N = torch.item($T)",
        "$N = int(torch.item($T))",
        "$N = float($T)",
        "$N = bool($T)",
        "$N = int($R)",
        "$N = torch.add($I, $I)",
        "$N = torch.mul($I, $I)",
        "$N = torch.sub($I, $I)",
        "$N = torch.floordiv($I, $I)",
        "$N = torch.remainder($I, $I)",
        "$N = torch.pow($I, $I)",
        "$N = torch.div($I, $I)",
        "$N = torch.floor($R)",
        "$N = torch.sqrt($R)",
        "$N = torch.neg($I)",
        "$N = ops.prim.min($I, $I)",
        "$N = ops.prim.max([$I, $I])",
        "$N = torch.__lshift__($I, $I)",
        "$N = $B",
        "$N = torch.__not__($B)",
        "$N = torch.__is__($V, None)",
        "$N = ($T, $I)",
        "$N = ($V, $V)",
        "$N = ($V)[$I]",
        "$N, $N, = $V",
        "$N = {\"a\": $T, \"b\": $T}",
        "$N = $V[\"a\"]",
        "$N = torch.keys($V)",
        "$N = torch.values($V)",
        "$N = torch.items($V)",
        "$N = torch.__contains__($V, \"a\")",
        "$N = uninitialized(Tensor)",
        "$N = unchecked_cast(Tensor, $V)",
        "$N = annotate(Optional[Tensor], None)",
        "$N = annotate(Optional[Tensor], $T)",
        "$N = ops.prim.unchecked_unwrap_optional($V)",
        "$N = torch.format(\"{}\", $V)",
        "$N = torch.add(\"a\", \"b\")",
        "$N = torch.len(\"abc\")",
        "$N = $V",
        "return $V",
        "break",
        "continue",
        "ops.prim.RaiseException(\"no\")",
        "torch.warn(\"w\")",
        "print($V)",
        "$N = fork(self.forward, $T)",
        "$N = (self).forward($T, )",
        "self.training = $B",
        "$N = self.training",
    };
    std::string text;
    for (std::string_view rest = choose_.of(kStatements); !rest.empty();) {
      const size_t hole = rest.find('$');
      text += rest.substr(0, hole);
      if (hole == std::string_view::npos) break;
      text += filled(rest.at(hole + 1));
      rest.remove_prefix(hole + 2);
    }
    return text;
  }

  std::string filled(char hole) {
    switch (hole) {
      case 'N':
        return target();
      case 'V':
        return any_name();
      case 'T':
        return tensor();
      case 'I':
        return integer();
      case 'R':
        return real();
      case 'B':
        return boolean();
      default:
        if (const auto name = name_of(choose_.one_in(3) ? Kind::integers : Kind::tensors))
          return *name;
        return "[" + tensor() + ", " + tensor() + "]";
    }
  }

  // --- Changes

  void insert(size_t at, const std::string& content) {
    const std::string indent(lines_[at].indent(), ' ');
    lines_.insert(lines_.begin() + static_cast<std::ptrdiff_t>(at), {indent + content});
  }

  void erase(size_t at) { lines_.erase(lines_.begin() + static_cast<std::ptrdiff_t>(at)); }

  void repeat(const Function& function, size_t at) {
    const size_t count = choose_.one_in(8) ? 40 : 1;
    const size_t to = function.begin + choose_.below(function.end - function.begin);
    const Line line = lines_[at];
    lines_.insert(lines_.begin() + static_cast<std::ptrdiff_t>(to), count, line);
  }

  // Encloses a line and some of the following ones in an `if` or a loop.
  void enclose(const Function& function, size_t at) {
    const size_t indent = lines_[at].indent();
    std::string head;
    switch (choose_.below(5)) {
      case 0:
        head = "for i in range(" + integer() + "):";
        break;
      case 1:
        head = "for e in " + any_name() + ":";
        break;
      case 2:
        head = "while " + boolean() + ":";
        break;
      default:
        head = "if " + boolean() + ":";
    }
    insert(at, head);
    const size_t most = at + 2 + choose_.below(4);
    size_t end = at + 1;
    for (; end < function.end + 1 && lines_[end].indent() >= indent &&
           (end < most || lines_[end].indent() > indent);
         ++end) {
      if (end > at + 1 && lines_[end].content().starts_with("return ")) break;
      lines_[end].text.insert(0, "  ");
    }
    if (head.starts_with("if ") && choose_.one_in(2)) {
      const std::string margin(indent, ' ');
      lines_.insert(lines_.begin() + static_cast<std::ptrdiff_t>(end),
                    {{margin + "else:"}, {margin + "  " + call()}});
    }
  }

  // Replaces a random word of the line with another number, name, operator or type.
  void change_token(size_t at) {
    std::string& line = lines_[at].text;
    std::vector<std::pair<size_t, size_t>> words;
    for (size_t i = 0; i < line.size();) {
      size_t end = i;
      while (end < line.size() && is_word(line[end])) ++end;
      if (end > i) words.emplace_back(i, end - i);
      i = end + 1;
    }
    if (words.empty()) return;
    const auto [begin, size] = choose_.of(words);
    line.replace(begin, size, replacement(line, begin, line.substr(begin, size)));
  }

  std::string replacement(const std::string& line, size_t begin, const std::string& word) {
    static constexpr const char* kTypes[] = {
        "Tensor",           "int",       "float",         "bool",        "str",
        "List[Tensor]",     "List[int]", "Optional[int]", "List[float]", "Dict[str, Tensor]",
        "Optional[Tensor]", "NoneType",  "number",        "Device",      "Tuple[Tensor, int]"};
    if (std::isdigit(static_cast<unsigned char>(word[0])) != 0)
      return choose_.one_in(4) ? integer() : std::to_string(choose_.integer());
    if (word == "True" || word == "False")
      return choose_.one_in(3) ? boolean() : word == "True" ? "False" : "True";
    if (word == "None") return choose_.one_in(2) ? any_name() : integer();
    if (std::ranges::find(kTypes, word) != std::end(kTypes)) return choose_.of(kTypes);
    if (line.substr(0, begin).ends_with("torch.")) {
      const Schema& schema = *aten::find_schema(choose_.of(operators()));
      return schema.name.starts_with("aten::") ? schema.name.substr(6) : word;
    }
    const Kind kind = kind_of_name(word);
    if (kind != Kind::other && !choose_.one_in(3)) {
      if (const auto name = name_of(kind)) return *name;
    }
    return any_name();
  }

  Choices choose_;
  std::vector<Line> lines_;
  std::vector<Function> functions_;
  std::vector<Name> names_;
};

}  // namespace

void mutate_source(std::string& text, Random& random) {
  const size_t count = 1 + random() % 3;
  for (size_t i = 0; i < count; ++i) {
    SourceMutator mutator(text, random);
    mutator.mutate();
    text = mutator.text();
  }
}

}  // namespace onnx_native::fuzz
