#include "capture/way_calls.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "aten/copy.h"
#include "aten/op_facts.h"
#include "aten/sizes.h"
#include "aten/views.h"
#include "aten/visit.h"
#include "base/error.h"
#include "capture/alignment.h"

namespace onnx_native::capture {
namespace {

using aten::Argument;
using aten::Graph;
using aten::Node;
using aten::Type;
using aten::Value;

bool is_known_size(const Value& value) {
  return value.type.kind == Type::Kind::sym_int && value.type.dim.has_value();
}

// Returns true for a call whose results follow from the sizes of tensors.
bool computes_sizes(const Node& node) {
  if (node.outputs.empty() || node.op.starts_with("higher_order::") ||
      (node.schema && aten::is_item(*node.schema)))
    return false;
  // A function of sizes that is no expression has a symbol of its own.
  const bool is_python = !node.schema;
  return std::ranges::all_of(node.outputs, [&](const Value* output) {
    return is_known_size(*output) && !(is_python && output->type.dim->is_symbol());
  });
}

std::string printed_type(const Type& type) {
  std::string text = concat(static_cast<int>(type.kind), " ", name(type.dtype));
  if (type.quantized) text += " quantized";
  if (type.shape) text += str(*type.shape);
  if (type.dim) text += type.dim->str();
  return text;
}

// Returns true if a type has a number where the other one has an expression.
bool has_more_numbers(const Type& type, const Type& other) {
  if (!type.shape || !other.shape) return false;
  return !std::ranges::equal(*type.shape, *other.shape, [](const Dim& a, const Dim& b) {
    return !a.is_constant() || b.is_constant();
  });
}

// Returns a type with other sizes.
template <class Map>
Type mapped(Type type, const Map& map) {
  if (type.dim) type.dim = map(*type.dim);
  if (type.shape)
    for (Dim& size : *type.shape) size = map(size);
  return type;
}

// Prints calls without the names of values.
class Signature {
 public:
  // Returns the same text for calls that both ways may share. Sizes may differ.
  std::string of(const Node& node) {
    text_ = node.op;
    for (size_t i = 0; i < node.arguments.size(); ++i) {
      bool takes_size = !node.schema;
      if (node.schema && i < node.schema->arguments.size()) {
        const aten::TypeKind kind = node.schema->arguments[i].type.kind;
        takes_size = kind == aten::TypeKind::sym_int || kind == aten::TypeKind::scalar;
      }
      add(node.arguments[i], takes_size);
    }
    for (const Value* output : node.outputs)
      text_ += concat(" ", static_cast<int>(output->type.kind), " ", name(output->type.dtype));
    return std::move(text_);
  }

 private:
  void add(const Argument& argument, bool takes_size) {
    text_ += ' ';
    std::visit(
        [&](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, Argument::None>) {
            text_ += "None";
          } else if constexpr (std::is_same_v<T, Value*>) {
            text_ += is_known_size(*value) ? '#' : '%';
          } else if constexpr (std::is_same_v<T, int64_t>) {
            text_ += takes_size ? "#" : std::to_string(value);
          } else if constexpr (std::is_same_v<T, Argument::List>) {
            text_ += '[';
            for (const Argument& item : value) add(item, takes_size);
            text_ += ']';
          } else if constexpr (std::is_same_v<T, std::shared_ptr<Graph>>) {
            add(*value);
          } else if constexpr (std::is_same_v<T, std::string>) {
            text_ += concat('"', value, '"');
          } else if constexpr (std::is_same_v<T, bool>) {
            text_ += value ? "True" : "False";
          } else if constexpr (std::is_same_v<T, DType>) {
            text_ += name(value);
          } else {  // a float or a complex number
            text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
          }
        },
        argument.value);
  }

  // Prints a body exactly, with numbers in place of names.
  void add(const Graph& body) {
    std::unordered_map<const Value*, size_t> numbers;
    const auto define = [&](const Value* value) {
      numbers.emplace(value, numbers.size());
      text_ += concat(" ", printed_type(value->type));
    };
    const auto add_values = [&](const Argument& argument) {
      aten::for_each_value(argument, [&](const Value* value) {
        const auto at = numbers.find(value);
        text_ += at == numbers.end() ? concat(" ?", value->name) : concat(" %", at->second);
      });
    };
    text_ += '{';
    for (const Value* input : body.inputs) define(input);
    for (const aten::Constant& constant : body.constants) {
      text_ += constant.value->name;
      define(constant.value);
    }
    for (const Node* node : body.nodes) {
      text_ += concat("\n", node->op);
      for (const Argument& argument : node->arguments) {
        add(argument, false);
        add_values(argument);
      }
      for (const Value* output : node->outputs) define(output);
    }
    for (const Argument& output : body.outputs) {
      add(output, false);
      add_values(output);
    }
    text_ += '}';
  }

  std::string text_;
};

}  // namespace

Type with_sizes(const Type& type, const FixedSizes& sizes) {
  if (sizes.empty()) return type;
  return mapped(type, [&](const Dim& size) {
    return size.substitute([&](std::string_view name) -> std::optional<Dim> {
      const auto at = sizes.find(std::string(name));
      return at == sizes.end() ? std::nullopt : std::optional(Dim(at->second));
    });
  });
}

void drop_identities(Graph& graph) {
  // as_strided reads the memory of its operand, in which a copy has another order.
  const bool reads_memory = std::ranges::any_of(graph.nodes, [](const Node* node) {
    return node->schema && aten::kind_of(*node->schema) == aten::ViewKind::as_strided;
  });
  if (reads_memory) return;
  std::unordered_map<Value*, Value*> same;
  const auto replace = [&](Value*& value) {
    if (const auto at = same.find(value); at != same.end()) value = at->second;
  };
  const auto operand_of = [](const Node& node) -> Value* {
    if (!node.schema || node.outputs.size() != 1 || node.arguments.empty()) return nullptr;
    const aten::ViewKind kind = aten::kind_of(*node.schema);
    const bool is_view = kind != aten::ViewKind::none && kind != aten::ViewKind::to;
    const bool is_identity =
        (is_view && aten::is_identity_view(node, 0)) || node.schema->name == "aten::clone";
    Value* operand = is_identity ? node.arguments[0].as_value() : nullptr;
    if (!operand) return nullptr;
    const Type& from = operand->type;
    const Type& to = node.outputs[0]->type;
    return from.dtype == to.dtype && from.shape && from.shape == to.shape ? operand : nullptr;
  };
  std::erase_if(graph.nodes, [&](Node* node) {
    for (Argument& argument : node->arguments) aten::for_each_value(argument, replace);
    Value* operand = operand_of(*node);
    if (operand) same[node->outputs[0]] = operand;
    return operand != nullptr;
  });
  for (Argument& output : graph.outputs) aten::for_each_value(output, replace);
  for (aten::Mutation& mutation : graph.mutations) replace(mutation.value);
}

void use_same_spelling(Graph& graph, const Graph& other) {
  const auto causal = [](const Node& node) -> const Argument* {
    if (!node.schema || node.schema->name != "aten::scaled_dot_product_attention") return nullptr;
    return &node.arguments.at(static_cast<size_t>(node.schema->index("is_causal")));
  };
  const bool is_causal = std::ranges::any_of(other.nodes, [&](const Node* node) {
    const Argument* flag = causal(*node);
    return flag && flag->get<bool>() && *flag->get<bool>();
  });
  const auto is_single = [](const Argument& tensor) {
    const Type& type = tensor.as_value()->type;
    return type.shape && type.shape->size() > 1 && (*type.shape)[type.shape->size() - 2].equals(1);
  };
  for (Node* node : graph.nodes) {
    if (!causal(*node) || !is_single(node->arguments[0]) || !is_single(node->arguments[1]))
      continue;
    const auto mask = static_cast<size_t>(node->schema->index("attn_mask"));
    if (!node->arguments.at(mask).is_none()) continue;
    node->arguments[static_cast<size_t>(node->schema->index("is_causal"))] = is_causal;
  }
}

std::vector<WayItem> aligned(const Graph& first, const Graph& second) {
  std::unordered_map<std::string, size_t> known;
  std::array<std::vector<const Node*>, 2> calls;
  std::array<std::vector<size_t>, 2> signatures;
  for (size_t way = 0; way < 2; ++way) {
    for (const Node* node : (way == 0 ? first : second).nodes) {
      if (computes_sizes(*node)) continue;
      calls[way].push_back(node);
      signatures[way].push_back(
          known.try_emplace(Signature().of(*node), known.size()).first->second);
    }
  }
  std::vector<WayItem> items;
  for (const AlignedStep& step : align(signatures[0], signatures[1]))
    items.push_back({step.first ? calls[0][*step.first] : nullptr,
                     step.second ? calls[1][*step.second] : nullptr});
  return items;
}

std::optional<Dim> as_size(const Argument& argument) {
  if (const auto* number = argument.get<int64_t>()) return Dim(*number);
  const Value* value = argument.as_value();
  return value && is_known_size(*value) ? value->type.dim : std::nullopt;
}

bool is_same_literal(const Argument& a, const Argument& b) {
  return std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, Argument::List>) {
          return std::ranges::equal(value, *b.get<T>(), is_same_literal);
        } else if constexpr (std::is_same_v<T, std::shared_ptr<Graph>>) {
          return true;  // the calls have one signature
        } else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::complex<double>>) {
          return std::memcmp(&value, b.get<T>(), sizeof(value)) == 0;
        } else {
          return value == *b.get<T>();
        }
      },
      a.value);
}

std::unordered_map<const Value*, const Value*> shared_constants(const Graph& graph,
                                                                const Graph& other) {
  constexpr int64_t kSmall = 1 << 16;  // bytes, of a tensor that the program makes
  // A tensor of the module has one name. One that the program makes has a name of the recording.
  const auto key = [](const aten::Constant& each) {
    const bool is_made = each.kind == aten::ConstantKind::constant;
    return is_made ? printed_type(each.value->type) : each.value->name;
  };
  const auto is_same = [](const aten::Constant& a, const aten::Constant& b) {
    if (a.kind != b.kind || a.data.dtype != b.data.dtype || a.data.shape != b.data.shape ||
        a.data.strides != b.data.strides)
      return false;
    if (a.kind != aten::ConstantKind::constant) return a.value->name == b.value->name;
    if (!a.data.data || !b.data.data) return false;
    return a.data.data == b.data.data ||
           (a.data.is_contiguous() && b.data.is_contiguous() && a.data.nbytes() <= kSmall &&
            std::ranges::equal(a.data.bytes(), b.data.bytes()));
  };
  std::unordered_map<std::string, std::vector<const aten::Constant*>> known;
  for (const aten::Constant& each : other.constants) known[key(each)].push_back(&each);
  std::unordered_map<const Value*, const Value*> shared;
  for (const aten::Constant& each : graph.constants) {
    const auto at = known.find(key(each));
    if (at == known.end()) continue;
    const auto found = std::ranges::find_if(
        at->second, [&](const aten::Constant* candidate) { return is_same(each, *candidate); });
    if (found != at->second.end()) shared[each.value] = (*found)->value;
  }
  return shared;
}

Renaming::Renaming(const Graph& renamed, const Graph& other) {
  const auto note_in = [](std::unordered_set<std::string>& names) {
    return [&names](const Dim& size) {
      for (std::string& name : size.symbols()) names.insert(std::move(name));
    };
  };
  for (const Graph* graph : {&renamed, &other}) {
    for (const Value* input : graph->inputs) aten::for_each_size(input->type, note_in(inputs_));
    for (const Node* node : graph->nodes) aten::for_each_size(*node, note_in(taken_));
  }
}

void Renaming::restart() { names_.clear(); }

Dim Renaming::fresh(const DimRange& range) {
  Dim symbol = Dim::fresh(range);
  while (!taken_.insert(symbol.str()).second) symbol = Dim::fresh(range);
  return symbol;
}

void Renaming::meet(const Dim& of_other, const Dim& renamed) {
  if (!of_other.is_symbol() || !renamed.is_symbol()) return;
  const std::string name = renamed.str();
  if (!inputs_.contains(name) && !inputs_.contains(of_other.str()))
    names_.try_emplace(name, of_other);
}

void Renaming::meet(const Type& of_other, const Type& renamed) {
  if (of_other.dim && renamed.dim) meet(*of_other.dim, *renamed.dim);
  if (!of_other.shape || !renamed.shape || of_other.shape->size() != renamed.shape->size()) return;
  for (size_t axis = 0; axis < renamed.shape->size(); ++axis)
    meet((*of_other.shape)[axis], (*renamed.shape)[axis]);
}

void Renaming::keep(const Node& node) {
  aten::for_each_size(node, [this](const Dim& size) {
    for (const std::string& name : size.symbols()) {
      if (!inputs_.contains(name) && !names_.contains(name)) {
        names_.emplace(name, fresh(size.is_symbol() ? size.range() : DimRange::integer()));
      }
    }
  });
}

Dim Renaming::of(const Dim& size) const {
  if (names_.empty() || size.is_constant()) return size;
  return size.substitute([this](std::string_view name) -> std::optional<Dim> {
    const auto at = names_.find(std::string(name));
    return at == names_.end() ? std::nullopt : std::optional(at->second);
  });
}

Type Renaming::of(const Type& type) const {
  return mapped(type, [this](const Dim& size) { return of(size); });
}

Value* WayBody::State::take(Value* outer) {
  const auto [at, inserted] = inputs.try_emplace(outer, nullptr);
  if (!inserted) return at->second;
  taken.push_back(outer);
  at->second = graph->add_value(outer->name, outer->type);
  sizes.note(at->second);
  return at->second;
}

WayBody::WayBody(JoinedSizes& sizes, const std::unordered_map<const Value*, Value*>& outside,
                 const Renaming* renaming)
    : outer_(sizes),
      state_(std::make_unique<State>(sizes)),
      outside_(outside),
      renaming_(renaming) {}

void WayBody::write(const std::vector<const Node*>& calls,
                    const std::vector<const Value*>& results) {
  std::unordered_set<const Value*> needed(results.begin(), results.end());
  std::unordered_set<std::string> symbols;  // sizes that the calls make, which depend on data
  const auto makes = [&](const Value* output) {
    if (needed.contains(output)) return true;
    const auto is_needed = [&](const Dim& size) {
      return size.is_symbol() && symbols.contains(size.str());
    };
    return (output->type.dim && is_needed(*output->type.dim)) ||
           (output->type.shape && std::ranges::any_of(*output->type.shape, is_needed));
  };
  std::unordered_set<const Node*> kept;
  for (size_t i = calls.size(); i-- > 0;) {
    if (std::ranges::none_of(calls[i]->outputs, makes)) continue;
    kept.insert(calls[i]);
    for (const Argument& argument : calls[i]->arguments)
      aten::for_each_value(argument, [&](Value* value) {
        needed.insert(value);
        const std::optional<Dim> size = as_size(value);
        if (!size || outer_.knows(renaming_ ? renaming_->of(*size) : *size)) return;
        for (std::string& name : size->symbols()) symbols.insert(std::move(name));
      });
  }
  Graph& graph = *state_->graph;
  for (const Node* call : calls) {
    if (!kept.contains(call)) continue;
    const Location* location = call->location ? graph.add_location(*call->location) : nullptr;
    state_->sizes.set_location(location);
    std::vector<Argument> arguments;
    for (const Argument& argument : call->arguments) arguments.push_back(copied(argument));
    Node* node = graph.add_node(call->op, std::move(arguments), location);
    for (const Value* output : call->outputs) {
      Value* made = graph.add_output(node, output->name,
                                     renaming_ ? renaming_->of(output->type) : output->type);
      own_[output] = made;
      state_->sizes.note(made);
    }
  }
  for (const Value* result : results) graph.outputs.emplace_back(value(result));
}

std::shared_ptr<Graph> WayBody::end(const std::vector<Value*>& inputs) {
  for (Value* outer : inputs) {
    const auto at = state_->inputs.find(outer);
    state_->graph->inputs.push_back(at == state_->inputs.end()
                                        ? state_->graph->add_value(outer->name, outer->type)
                                        : at->second);
  }
  return state_->graph;
}

Value* WayBody::value(const Value* original) {
  if (const auto at = own_.find(original); at != own_.end()) return at->second;
  Value* outer = outside_.at(original);
  Value* taken = state_->take(outer);
  if (!has_more_numbers(original->type, outer->type)) return taken;
  // The way is for one size only, which may decide what a call does: squeeze.
  Argument::List sizes;
  for (const Dim& size : *original->type.shape)
    sizes.push_back(state_->sizes.size(renaming_ ? renaming_->of(size) : size));
  Node* node = state_->graph->add_node("aten::reshape", {taken, std::move(sizes)});
  return own_[original] = state_->graph->add_output(
             node, original->name, renaming_ ? renaming_->of(original->type) : original->type);
}

Argument WayBody::copied(const Argument& argument) {
  if (argument.get<int64_t>()) return argument;
  if (const std::optional<Dim> size = as_size(argument))
    return state_->sizes.size(renaming_ ? renaming_->of(*size) : *size);
  if (const Value* original = argument.as_value()) return value(original);
  if (const auto* list = argument.get<Argument::List>()) {
    Argument::List result;
    for (const Argument& item : *list) result.push_back(copied(item));
    return result;
  }
  const auto* body = argument.get<std::shared_ptr<Graph>>();
  if (!body || !renaming_) return argument;
  return std::shared_ptr<Graph>(
      aten::copy(**body, [this](const Type& type) { return renaming_->of(type); }));
}

}  // namespace onnx_native::capture
