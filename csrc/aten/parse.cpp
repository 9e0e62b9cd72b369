#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>

#include "aten/graph.h"

namespace onnx_native::aten {
namespace {

// A recursive descent parser for the output of `print`.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::unique_ptr<Graph> whole() {
    auto result = std::make_unique<Graph>();
    if (accept_word("ranges")) ranges();
    word("graph");
    graph(*result);
    if (skip_space(); at_ != text_.size()) error("unexpected text after the graph");
    return result;
  }

 private:
  using Scope = std::unordered_map<std::string, Value*>;

  template <class... Parts>
  [[noreturn]] void error(const Parts&... parts) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<long>(at_), '\n');
    fail(ErrorKind::invalid_argument, "graph text, line ", line, ": ", parts...);
  }

  void skip_space() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (std::isspace(static_cast<unsigned char>(text_[at_]))) {
        ++at_;
      } else {
        break;
      }
    }
  }
  bool peek(char c) {
    skip_space();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool accept(char c) {
    if (!peek(c)) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) error("expected '", c, "' before \"", text_.substr(at_, 12), "\"");
  }
  static bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
  // Reads letters, digits, '_' and the characters in `more`.
  std::string_view word_of(std::string_view more) {
    skip_space();
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (in_word(text_[at_]) || more.find(text_[at_]) != std::string_view::npos))
      ++at_;
    return text_.substr(begin, at_ - begin);
  }
  bool accept_word(std::string_view expected) {
    const size_t begin = (skip_space(), at_);
    if (word_of("") == expected) return true;
    at_ = begin;
    return false;
  }
  void word(std::string_view expected) {
    if (!accept_word(expected)) error("expected \"", expected, "\"");
  }

  // Reads items separated by commas, up to `close`.
  template <class Item>
  void list(char close, Item&& item) {
    if (accept(close)) return;
    do {
      item();
    } while (accept(','));
    expect(close);
  }

  std::string quoted() {
    expect('"');
    std::string result;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        ++at_;
        result += text_[at_] == 'n' ? '\n' : text_[at_];
      } else {
        result += text_[at_];
      }
    }
    expect('"');
    return result;
  }

  std::string value_name() {
    expect('%');
    if (peek('"')) return quoted();
    const std::string_view name = word_of("./-");
    if (name.empty()) error("expected a name after '%'");
    return std::string(name);
  }

  Value* used_value(const Scope& scope) {
    const std::string name = value_name();
    const auto at = scope.find(name);
    if (at == scope.end()) error("%", name, " is used before it is defined");
    return at->second;
  }

  // Reads the ranges of symbols that differ from DimRange::input_size(): "(n: [-inf, inf], b: input
  // [2, 9])".
  void ranges() {
    expect('(');
    list(')', [&] {
      const std::string name(word_of(""));
      expect(':');
      DimRange range;
      range.is_input_size = accept_word("input");
      expect('[');
      range.low = bound();
      expect(',');
      range.high = bound();
      expect(']');
      ranges_.insert_or_assign(name, range);
    });
  }

  std::optional<int64_t> bound() {
    skip_space();
    const Argument result = accept_word("inf") ? Argument() : number();
    const auto* value = result.get<int64_t>();
    return value ? std::optional(*value) : std::nullopt;
  }

  // Reads an expression, up to a ',' or an unmatched closing bracket.
  Dim dim() {
    const size_t begin = at_;
    for (int depth = 0; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (depth == 0 && (c == ',' || c == ']' || c == ')')) break;
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    }
    const std::string_view expression = text_.substr(begin, at_ - begin);
    const auto result = parse_dim(expression, [this](std::string_view name) {
      const auto at = ranges_.find(std::string(name));
      return Dim::symbol(name, at == ranges_.end() ? DimRange::input_size() : at->second);
    });
    if (!result) error("not a size: \"", expression, "\"");
    return *result;
  }

  Type type() {
    Type result;
    result.quantized = accept_word("quantized");
    const std::string name(word_of(""));
    if (name == "sym_int") {
      result.kind = Type::Kind::sym_int;
      if (accept('(')) {
        result.dim = dim();
        expect(')');
      }
      return result;
    }
    static const std::unordered_map<std::string_view, Type::Kind> kinds{
        {"sym_float", Type::Kind::sym_float}, {"sym_bool", Type::Kind::sym_bool},
        {"none", Type::Kind::none},           {"other", Type::Kind::other},
        {"unknown", Type::Kind::unknown},     {"tensor", Type::Kind::tensor}};
    if (const auto at = kinds.find(name); at != kinds.end()) {
      result.kind = at->second;
    } else if (const auto dtype = dtype_from_name(name)) {
      result.kind = Type::Kind::tensor;
      result.dtype = *dtype;
    } else {
      error("not a type: \"", name, "\"");
    }
    if (result.is_tensor() && accept('[')) {
      result.shape.emplace();
      list(']', [&] { result.shape->push_back(dim()); });
    }
    return result;
  }

  Argument number() {
    const size_t begin = at_;
    while (at_ < text_.size() && (in_word(text_[at_]) || text_[at_] == '.' || text_[at_] == '-' ||
                                  (text_[at_] == '+' && text_[at_ - 1] == 'e'))) {
      ++at_;
    }
    const std::string_view digits = text_.substr(begin, at_ - begin);
    const auto end = digits.data() + digits.size();
    int64_t integer = 0;
    if (std::from_chars(digits.data(), end, integer).ptr == end) return integer;
    double floating = 0;
    if (std::from_chars(digits.data(), end, floating).ptr == end) return floating;
    error("not an argument: \"", digits.empty() ? text_.substr(at_, 12) : digits, "\"");
  }

  double floating() {
    skip_space();
    const Argument result = number();
    const auto* value = result.get<double>();
    return value ? *value : static_cast<double>(*result.get<int64_t>());
  }

  Argument argument(const Scope& scope) {
    skip_space();
    if (at_ == text_.size()) error("the text ends within a call");
    const char c = text_[at_];
    if (c == '%') return used_value(scope);
    if (c == '"') return quoted();
    if (accept('[')) {
      Argument::List items;
      list(']', [&] { items.push_back(argument(scope)); });
      return items;
    }
    if (c == '-' || std::isdigit(static_cast<unsigned char>(c))) return number();
    const size_t begin = at_;
    const std::string_view name = word_of("");
    if (name == "None") return {};
    if (name == "True" || name == "False") return name == "True";
    if (name == "inf") return std::numeric_limits<double>::infinity();
    if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (name == "undefined") return DType::undefined;
    if (name == "complex") {
      expect('(');
      const double real = floating();
      expect(',');
      const double imaginary = floating();
      expect(')');
      return std::complex<double>(real, imaginary);
    }
    if (name == "graph") {
      auto result = std::make_shared<Graph>();
      graph(*result);
      return result;
    }
    if (const auto dtype = dtype_from_name(name)) return *dtype;
    at_ = begin;
    error("not an argument: \"", name, "\"");
  }

  template <class Add>
  Value* declaration(Scope& scope, Add&& add) {
    const std::string name = value_name();
    if (scope.contains(name)) error("%", name, " is defined twice");
    expect(':');
    skip_space();
    Value* value = add(name, type());
    scope.emplace(name, value);
    return value;
  }

  void constant(Graph& graph, Scope& scope) {
    declaration(scope, [&](const std::string& name, const Type& type) {
      TensorData data;
      data.dtype = type.dtype;
      const auto shape = type.shape ? constant_shape(*type.shape) : std::nullopt;
      if (!shape) error("a constant needs a known shape");
      data.shape = *shape;
      auto zeros = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(data.nbytes()));
      data.data = zeros->data();
      data.owner = std::move(zeros);
      return graph.add_constant(name, std::move(data));
    });
    if (accept_word("parameter")) graph.constants.back().kind = ConstantKind::parameter;
  }

  void mutation(Graph& graph, const Scope& scope) {
    Mutation result;
    result.is_buffer = !accept_word("input");
    result.target = quoted();
    expect('=');
    result.value = used_value(scope);
    graph.mutations.push_back(std::move(result));
  }

  void call(Graph& graph, Scope& scope) {
    std::vector<std::pair<std::string, Type>> results;
    if (peek('%')) {
      do {
        std::string name = value_name();
        expect(':');
        skip_space();
        results.emplace_back(std::move(name), type());
      } while (accept(','));
      expect('=');
    }
    const std::string op(word_of(":."));
    if (op.empty()) error("expected an operator");
    std::vector<Argument> arguments;
    const Schema* schema = find_schema(op);
    expect('(');
    list(')', [&] { bind(schema, op, arguments, scope); });
    Node* node = graph.add_node(op, std::move(arguments));
    if (schema && node->arguments.size() != schema->arguments.size()) {
      error(op, " is missing the argument ", schema->arguments[node->arguments.size()].name);
    }
    for (auto& [name, type] : results) {
      if (scope.contains(name)) error("%", name, " is defined twice");
      scope.emplace(name, graph.add_output(node, name, std::move(type)));
    }
  }

  // Reads an argument, `value` or `name=value`; arguments that a name skips get their defaults.
  void bind(const Schema* schema, const std::string& op, std::vector<Argument>& arguments,
            const Scope& scope) {
    const size_t begin = (skip_space(), at_);
    const std::string name(word_of(""));
    if (name.empty() || !accept('=')) {
      at_ = begin;
      if (schema && arguments.size() == schema->arguments.size()) error(op, ": too many arguments");
      arguments.push_back(argument(scope));
      return;
    }
    const int index = schema ? schema->index(name) : -1;
    if (index < static_cast<int>(arguments.size())) error(op, " takes no argument ", name, " here");
    while (arguments.size() < static_cast<size_t>(index)) {
      const size_t i = arguments.size();
      if (!schema->arguments[i].has_default) {
        error(op, " is missing the argument ", schema->arguments[i].name);
      }
      arguments.push_back(default_arguments(*schema)[i]);
    }
    arguments.push_back(argument(scope));
  }

  void graph(Graph& graph) {
    Scope scope;
    expect('(');
    list(')', [&] {
      declaration(scope, [&](const std::string& name, Type type) {
        return graph.add_input(name, std::move(type));
      });
    });
    if (accept_word("constants")) {
      expect('(');
      list(')', [&] { constant(graph, scope); });
    }
    expect('{');
    while (!accept_word("return")) {
      if (accept_word("mutate")) {
        mutation(graph, scope);
      } else {
        call(graph, scope);
      }
    }
    expect('(');
    list(')', [&] { graph.outputs.push_back(argument(scope)); });
    expect('}');
  }

  std::string_view text_;
  size_t at_ = 0;
  std::unordered_map<std::string, DimRange> ranges_;
};

}  // namespace

std::unique_ptr<Graph> parse(std::string_view text) { return Parser(text).whole(); }

}  // namespace onnx_native::aten
