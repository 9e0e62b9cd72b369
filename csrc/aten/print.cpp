#include <cctype>
#include <charconv>
#include <cmath>
#include <map>

#include "aten/graph.h"

namespace onnx_native::aten {
namespace {

bool is_plain(std::string_view name) {
  for (const char c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.' && c != '/' &&
        c != '-') {
      return false;
    }
  }
  return !name.empty();
}

class Printer {
 public:
  std::string take() { return std::move(out_); }
  // Prints the ranges of printed symbols that differ from DimRange::input_size().
  std::string ranges() const {
    std::string text;
    for (const auto& [name, range] : ranges_) {
      if (range == DimRange::input_size()) continue;
      text += text.empty() ? "ranges(" : ", ";
      text += name + (range.is_input_size ? ": input [" : ": [") +
              (range.low ? std::to_string(*range.low) : "-inf") + ", " +
              (range.high ? std::to_string(*range.high) : "inf") + "]";
    }
    return text.empty() ? text : text + ")\n";
  }

  void graph(const Graph& graph, int indent) {
    out_ += "graph(";
    list(graph.inputs, [&](const Value* input) { typed(*input); });
    out_ += ')';
    if (!graph.constants.empty()) {
      out_ += " constants(";
      list(graph.constants, [&](const Constant& constant) {
        typed(*constant.value);
        if (constant.kind == ConstantKind::parameter) out_ += " parameter";
      });
      out_ += ')';
    }
    out_ += " {\n";
    for (const Node* node : graph.nodes) {
      line(indent + 1);
      this->node(*node, indent + 1, false);
      out_ += '\n';
    }
    for (const Mutation& mutation : graph.mutations) {
      line(indent + 1);
      out_ += mutation.is_buffer ? "mutate " : "mutate input ";
      quoted(mutation.target);
      out_ += " = ";
      value(*mutation.value);
      out_ += '\n';
    }
    line(indent + 1);
    out_ += "return (";
    list(graph.outputs, [&](const Argument& output) { argument(output, indent + 1, false); });
    out_ += ")\n";
    line(indent);
    out_ += '}';
  }

  void node(const Node& node, int indent, bool argument_types) {
    list(node.outputs, [&](const Value* output) { typed(*output); });
    if (!node.outputs.empty()) out_ += " = ";
    out_ += node.op;
    out_ += '(';
    for (size_t i = 0; i < node.arguments.size(); ++i) {
      if (i > 0) out_ += ", ";
      if (node.schema && i < node.schema->arguments.size() &&
          node.schema->arguments[i].kwarg_only) {
        out_ += node.schema->arguments[i].name;
        out_ += '=';
      }
      argument(node.arguments[i], indent, argument_types);
    }
    out_ += ')';
  }

 private:
  void line(int indent) { out_.append(2 * static_cast<size_t>(indent), ' '); }

  template <class Items, class Item>
  void list(const Items& items, Item&& item) {
    bool first = true;
    for (const auto& i : items) {
      if (!first) out_ += ", ";
      first = false;
      item(i);
    }
  }

  void quoted(std::string_view text) {
    out_ += '"';
    for (const char c : text) {
      if (c == '\n') {
        out_ += "\\n";
      } else {
        if (c == '"' || c == '\\') out_ += '\\';
        out_ += c;
      }
    }
    out_ += '"';
  }

  void value(const Value& value) {
    out_ += '%';
    if (is_plain(value.name)) {
      out_ += value.name;
    } else {
      quoted(value.name);
    }
  }

  void typed(const Value& value) {
    this->value(value);
    out_ += ": ";
    type(value.type);
  }

  void dim(const Dim& dim) {
    out_ += dim.str();
    dim.for_each_symbol(
        [this](const Dim::Factor& symbol) { ranges_.try_emplace(symbol.name, symbol.range); });
  }

  void type(const Type& type) {
    switch (type.kind) {
      case Type::Kind::tensor:
        if (type.quantized) out_ += "quantized ";
        out_ += type.dtype == DType::undefined ? "tensor" : onnx_native::name(type.dtype);
        if (type.shape) {
          out_ += '[';
          for (size_t i = 0; i < type.shape->size(); ++i) {
            if (i > 0) out_ += ',';
            dim((*type.shape)[i]);
          }
          out_ += ']';
        }
        return;
      case Type::Kind::sym_int:
        out_ += "sym_int";
        if (type.dim) {
          out_ += '(';
          dim(*type.dim);
          out_ += ')';
        }
        return;
      case Type::Kind::sym_float:
        out_ += "sym_float";
        return;
      case Type::Kind::sym_bool:
        out_ += "sym_bool";
        return;
      case Type::Kind::none:
        out_ += "none";
        return;
      case Type::Kind::other:
        out_ += "other";
        return;
      case Type::Kind::unknown:
        out_ += "unknown";
        return;
    }
  }

  void number(double number) {
    if (!std::isfinite(number)) {
      out_ += std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
      return;
    }
    char text[32];
    const auto end = std::to_chars(text, text + sizeof text, number).ptr;
    const std::string_view digits(text, static_cast<size_t>(end - text));
    out_ += digits;
    if (digits.find_first_of(".e") == std::string_view::npos) out_ += ".0";
  }

  void argument(const Argument& argument, int indent, bool types) {
    if (const auto* v = argument.get<Value*>()) {
      types ? typed(**v) : value(**v);
    } else if (const auto* i = argument.get<int64_t>()) {
      out_ += std::to_string(*i);
    } else if (const auto* d = argument.get<double>()) {
      number(*d);
    } else if (const auto* b = argument.get<bool>()) {
      out_ += *b ? "True" : "False";
    } else if (const auto* c = argument.get<std::complex<double>>()) {
      out_ += "complex(";
      number(c->real());
      out_ += ", ";
      number(c->imag());
      out_ += ')';
    } else if (const auto* s = argument.get<std::string>()) {
      quoted(*s);
    } else if (const auto* dtype = argument.get<DType>()) {
      out_ += *dtype == DType::undefined ? "undefined" : onnx_native::name(*dtype);
    } else if (const auto* items = argument.get<Argument::List>()) {
      out_ += '[';
      list(*items, [&](const Argument& item) { this->argument(item, indent, types); });
      out_ += ']';
    } else if (const auto* sub_graph = argument.get<std::shared_ptr<Graph>>()) {
      graph(**sub_graph, indent);
    } else {
      out_ += "None";
    }
  }

  std::string out_;
  std::map<std::string, DimRange> ranges_;
};

}  // namespace

std::string print(const Graph& graph) {
  Printer printer;
  printer.graph(graph, 0);
  return printer.ranges() + printer.take() + "\n";
}

std::string print(const Node& node, bool argument_types) {
  Printer printer;
  printer.node(node, 0, argument_types);
  return printer.take();
}

}  // namespace onnx_native::aten
