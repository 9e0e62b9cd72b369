#include "api/type_inference.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "api/complex_types.h"
#include "api/export.h"
#include "aten/functional_schema.h"
#include "aten/op_facts.h"
#include "aten/visit.h"
#include "base/weight.h"
#include "onnx/schema.h"
#include "ops/engine/op_table.h"

namespace onnx_native {
namespace {

using Kind = aten::Type::Kind;

using aten::for_each_value;

// Returns the number of results that the lowering sees: for a list result, the length of a list in
// the first argument, or 0.
size_t told_results(const aten::Node& node, bool list) {
  if (!list) return node.schema->returns.size();
  const auto* elements =
      node.arguments.empty() ? nullptr : node.arguments[0].get<aten::Argument::List>();
  return elements ? elements->size() : 0;
}

// Returns the shape that a list argument states; nullopt if a size is unknown.
std::optional<Shape> stated_shape(const aten::Argument& argument) {
  const auto* sizes = argument.get<aten::Argument::List>();
  if (!sizes) return std::nullopt;
  Shape shape;
  for (const aten::Argument& size : *sizes) {
    const aten::Value* computed = size.as_value();
    const auto* number = size.get<int64_t>();
    if (!number && !(computed && computed->type.dim)) return std::nullopt;
    shape.push_back(number ? Dim(*number) : *computed->type.dim);
  }
  return shape;
}

// Returns the new shape of the argument of resize_ or resize_as_.
std::optional<Shape> resized_shape(const aten::Node& node) {
  if (node.schema->name == "aten::resize_as_") {
    const aten::Value* other = node.arguments[1].as_value();
    return other ? other->type.shape : std::nullopt;
  }
  return node.schema->name == "aten::resize_" ? stated_shape(node.arguments[1]) : std::nullopt;
}

// Returns true for a view of the whole storage of its tensor, which may be a view itself. Its
// elements are known only after functionalization.
bool reads_storage(const aten::Node& node) {
  return node.schema && aten::kind_of(*node.schema) == aten::ViewKind::as_strided;
}

}  // namespace

struct LoweringTypes::State {
  State(ops::Lowerings lowerings, int64_t opset)
      : lowerings(lowerings), builder(make_model(opset)), lowerer(builder, lowerings) {}

  onnx::Model& make_model(int64_t opset) {
    model.opset = opset;
    return model;
  }

  // Binds the values of a call's arguments in the environment; returns false if a type is unknown.
  bool bind_arguments(const aten::Node& node) {
    bool known = true;
    for (const aten::Argument& argument : node.arguments) {
      for_each_value(argument, [&](const aten::Value* value) { known = bind(*value) && known; });
    }
    return known;
  }

  bool bind(const aten::Value& value) {
    note_symbols(value.type);
    ops::Environment& environment = lowerer.environment();
    if (is_stale(value)) return add_input(value);
    if (environment.contains(&value)) return true;
    if (value.type.kind == Kind::unknown) return false;
    if (const auto at = results.find(value.producer); value.producer && at != results.end()) {
      environment[&value] = at->second.at(static_cast<size_t>(value.index));
      return true;
    }
    if (value.producer && value.type.dim) {  // computed from sizes
      environment[&value] = *value.type.dim;
      return true;
    }
    return add_input(value);
  }

  // Adds an opaque input of the value's type; returns false if the type is unknown.
  bool add_input(const aten::Value& value) {
    if (const auto at = memberships.find(&value); at != memberships.end())
      at->second.writes = at->second.group->writes;
    const aten::Type type = ops::lowered_type(value.type);
    ops::Environment& environment = lowerer.environment();
    onnx::Graph& graph = *model.graph;
    switch (type.kind) {
      case Kind::tensor: {
        if (type.dtype == DType::undefined) return false;
        Value input = graph.add_input(value.name, type.dtype, type.shape);
        if (type.shape) builder.bind_sizes(input);
        environment[&value] = input;
        return true;
      }
      case Kind::sym_int: {
        Value input = graph.add_input(value.name, DType::i64, Shape{});
        builder.bind(*type.dim, input);
        environment[&value] = *type.dim;
        return true;
      }
      case Kind::sym_float:
        environment[&value] = graph.add_input(value.name, DType::f64, Shape{});
        return true;
      case Kind::sym_bool:
        environment[&value] = graph.add_input(value.name, DType::boolean, Shape{});
        return true;
      default:
        return false;
    }
  }

  void note_symbols(const aten::Type& type) {
    if (type.dim) note_symbols(*type.dim);
    if (!type.shape) return;
    for (const Dim& dim : *type.shape) note_symbols(dim);
  }
  void note_symbols(const Dim& dim) {
    for (std::string& name : dim.symbols()) symbols.insert(std::move(name));
  }

  // Replaces sizes that depend on symbols internal to a lowering with fresh symbols. The program
  // can read a size from a tensor, but not from inside a lowering.
  void name_sizes(const ops::Results& lowered) {
    std::vector<Value> tensors;
    for (const ops::Lowered& result : lowered) {
      if (result.value && result.value->shape) tensors.push_back(result.value);
    }
    for (const Value tensor : tensors) {
      for (const Dim& size : *tensor->shape) {
        if (size.is_symbol()) note_symbols(size);
      }
    }
    for (const Value tensor : tensors) {
      Shape named = *tensor->shape;
      for (Dim& size : named) {
        const bool known = std::ranges::all_of(
            size.symbols(), [&](const std::string& name) { return symbols.contains(name); });
        if (known) continue;
        size = Dim::fresh();
        note_symbols(size);
      }
      builder.refine(tensor, std::move(named));
      builder.bind_sizes(tensor);
    }
  }

  // Tensors that may share memory. A write makes the contents of all of them stale. The next use of
  // a tensor binds it anew, so a write takes the same time for any number of aliases.
  struct Group {
    std::vector<const aten::Value*> members;
    int64_t writes = 0;
  };
  struct Membership {
    std::shared_ptr<Group> group;
    int64_t writes = 0;  // of the group, when the value was last bound; -1: stale at a merge
  };

  Membership& membership(const aten::Value* value) {
    Membership& own = memberships[value];
    if (!own.group) {
      own.group = std::make_shared<Group>();
      own.group->members.push_back(value);
    }
    return own;
  }

  bool is_stale(const aten::Value& value) const {
    const auto at = memberships.find(&value);
    return at != memberships.end() && at->second.writes < at->second.group->writes;
  }

  void share(const aten::Value* a, const aten::Value* b) {
    std::shared_ptr<Group> kept = membership(a).group;
    std::shared_ptr<Group> joined = membership(b).group;
    if (kept == joined) return;
    if (kept->members.size() < joined->members.size()) std::swap(kept, joined);
    for (const aten::Value* value : joined->members) {
      Membership& own = memberships[value];
      own = {.group = kept, .writes = own.writes < joined->writes ? -1 : kept->writes};
      kept->members.push_back(value);
    }
  }

  // Invalidates the contents of a written tensor and its aliases.
  void forget(const aten::Value* written) { ++membership(written).group->writes; }

  aten::Type type_of(const ops::Lowered& lowered, bool is_complex, bool is_number) {
    if (is_number) {
      if (lowered.dim) return aten::Type::sym_int(*lowered.dim);
      const DType dtype = lowered.value->dtype;
      aten::Type type;
      if (dtype == DType::boolean) {
        type.kind = Kind::sym_bool;
      } else if (is_floating(dtype)) {
        type.kind = Kind::sym_float;
      } else {
        return aten::Type::sym_int(builder.dim_of(lowered.value));
      }
      return type;
    }
    if (!lowered.value) return {};
    DType dtype = lowered.value->dtype;
    std::optional<Shape> shape = lowered.value->shape;
    if (is_complex && is_floating(dtype)) {
      dtype = complex_dtype(dtype);
      if (shape && !shape->empty()) shape->pop_back();
    }
    return aten::Type::tensor(dtype, std::move(shape));
  }

  std::vector<aten::Type> unknown(const aten::Node& node) {
    return std::vector<aten::Type>(node.schema ? node.schema->returns.size() : 1);
  }

  std::vector<aten::Type> infer(const aten::Node& node) {
    if (!bind_arguments(node)) return unknown(node);
    if (reads_storage(node)) {
      shared.push_back(&node);
      return {aten::Type::tensor(node.arguments[0].as_value()->type.dtype,
                                 stated_shape(node.arguments[1]))};
    }
    const bool list =
        node.schema && node.schema->returns.size() == 1 && node.schema->returns[0].type.list;
    // Some lowerings read the recorded dtypes of their results.
    aten::Node asked = node;
    std::vector<aten::Value> recorded;
    if (node.schema) recorded.resize(told_results(node, list));
    for (size_t i = 0; i < recorded.size(); ++i) {
      const DType dtype = recorded_dtype(node, i);
      if (dtype != DType::undefined) recorded[i].type = aten::Type::tensor(dtype, std::nullopt);
      asked.outputs.push_back(&recorded[i]);
    }
    if (!lowerings.find(asked)) return unknown(node);
    ops::Results lowered = lowerer.results_of(asked);
    if (node.schema && !list && lowered.size() > node.schema->returns.size()) {
      lowered.resize(node.schema->returns.size());
    }
    name_sizes(lowered);
    std::vector<aten::Type> types;
    for (size_t i = 0; i < lowered.size(); ++i) {
      const bool number =
          !node.schema || (!list && node.schema->returns[i].type.kind != aten::TypeKind::tensor);
      types.push_back(type_of(lowered[i], is_complex(recorded_dtype(node, i)), number));
      if (types.back().kind == Kind::sym_int) lowered[i] = *types.back().dim;
    }
    results[&node] = std::move(lowered);
    if (node.schema && node.schema->is_view()) shared.push_back(&node);
    return types;
  }

  // Infers the results of a mutable call: the written arguments, or new views of them.
  std::vector<aten::Type> infer_write(const aten::Node& node) {
    const aten::FunctionalSchema& functional = functional_of(*node.schema);
    std::vector<aten::Type> types;
    const bool view = functional.schema && functional.schema->is_view();
    if (const std::optional<Shape> resized = resized_shape(node)) {
      types = {aten::Type::tensor(node.arguments[0].as_value()->type.dtype, *resized)};
    } else if (view || (functional.schema && node.schema->arguments.back().is_out) ||
               has_fresh_results(*node.schema)) {
      aten::Node read{.op = functional.schema->key,
                      .schema = functional.schema,
                      .arguments = {},
                      .outputs = {},
                      .location = node.location};
      for (size_t i = 0; i < functional.sources.size(); ++i) {
        const int source = functional.sources[i];
        read.arguments.push_back(source < 0 ? aten::default_arguments(*functional.schema)[i]
                                            : node.arguments[static_cast<size_t>(source)]);
      }
      types = infer(read);
      results.erase(&read);
      if (!shared.empty() && shared.back() == &read) shared.pop_back();
      types.resize(node.schema->returns.size());
      keep_dtypes(node, types);
    } else {
      for (const aten::SchemaArgument& value : node.schema->returns) {
        for (size_t i = 0; i < node.schema->arguments.size(); ++i) {
          if (node.schema->arguments[i].alias_sets != value.alias_sets) continue;
          const aten::Value* written = node.arguments[i].as_value();
          types.push_back(written ? written->type : aten::Type());
          break;
        }
      }
      types.resize(node.schema->returns.size());
    }
    for (size_t i = 0; i < node.schema->arguments.size(); ++i) {
      if (!node.schema->arguments[i].writes) continue;
      for_each_value(node.arguments[i], [&](const aten::Value* value) { forget(value); });
    }
    shared.push_back(&node);
    return types;
  }

  // An out argument takes the new shape, but keeps its dtype.
  static void keep_dtypes(const aten::Node& node, std::vector<aten::Type>& types) {
    for (size_t i = 0; i < node.schema->arguments.size(); ++i) {
      const aten::SchemaArgument& argument = node.schema->arguments[i];
      const aten::Value* written = argument.is_out ? node.arguments[i].as_value() : nullptr;
      if (!written || written->type.dtype == DType::undefined) continue;
      for (size_t r = 0; r < types.size(); ++r) {
        if (node.schema->returns[r].alias_sets == argument.alias_sets && types[r].is_tensor())
          types[r].dtype = written->type.dtype;
      }
    }
  }

  static bool has_fresh_results(const aten::Schema& schema) {
    return std::ranges::any_of(schema.returns, [](const auto& r) { return r.alias_sets.empty(); });
  }

  const aten::FunctionalSchema& functional_of(const aten::Schema& mutates) {
    const auto [at, inserted] = functional.try_emplace(&mutates);
    if (inserted) at->second = aten::find_functional(mutates);
    return at->second;
  }

  // Records the aliases that the last calls created, whose results exist by now.
  void note_shared() {
    for (const aten::Node* node : std::exchange(shared, {})) {
      for (const aten::Argument& argument : node->arguments) {
        for_each_value(argument, [&](const aten::Value* value) {
          if (!value->type.is_tensor()) return;
          for (const aten::Value* output : node->outputs) share(value, output);
        });
      }
    }
  }

  ops::Lowerings lowerings;
  onnx::Model model;
  Builder builder;
  ops::Lowerer lowerer;
  std::unordered_map<const aten::Node*, ops::Results> results;
  std::unordered_map<const aten::Value*, Membership> memberships;
  std::unordered_map<const aten::Schema*, aten::FunctionalSchema> functional;
  std::vector<const aten::Node*> shared;    // calls whose aliases are not recorded yet
  std::unordered_set<std::string> symbols;  // of sizes that the program can read
};

namespace {

// Records a read of the weights that a small tensor's elements depend on.
void note_sources(const onnx::Value& value) {
  std::vector<const onnx::Value*> open{&value};
  std::unordered_set<const onnx::Value*> seen;
  while (!open.empty()) {
    const onnx::Value* at = open.back();
    open.pop_back();
    if (!at || !seen.insert(at).second) continue;
    if (at->constant) note_read(*at->constant);
    if (!at->producer || at->producer->op_type == "Shape") continue;
    open.insert(open.end(), at->producer->inputs.begin(), at->producer->inputs.end());
  }
}

}  // namespace

LoweringTypes::LoweringTypes(ops::Lowerings lowerings, int64_t opset)
    : state_(std::make_unique<State>(lowerings, opset)) {}

LoweringTypes::~LoweringTypes() = default;

std::vector<aten::Type> LoweringTypes::infer(const aten::Node& node) {
  std::vector<aten::Type> types;
  {
    // Record only reads that affect how the program is read; the export records its own reads.
    const ReadScope unrecorded(nullptr);
    state_->note_shared();
    if (node.schema && node.schema->is_mutable()) return state_->infer_write(node);
    types = state_->infer(node);
  }
  if (node.schema && aten::is_item(*node.schema) && types.size() == 1 && types[0].dim &&
      types[0].dim->is_constant()) {
    const auto at = state_->lowerer.environment().find(node.arguments[0].as_value());
    if (at != state_->lowerer.environment().end() && at->second.value)
      note_sources(*at->second.value);
  }
  return types;
}

void LoweringTypes::define(const aten::Value& value) { state_->add_input(value); }

void LoweringTypes::define(const aten::Constant& constant) {
  const ReadScope unrecorded(nullptr);
  state_->lowerer.environment()[constant.value] =
      state_->model.graph->add_initializer(constant.value->name, ops::lowered_data(constant.data));
}

std::optional<double> LoweringTypes::element(const aten::Value& tensor) {
  const auto at = state_->lowerer.environment().find(&tensor);
  if (at == state_->lowerer.environment().end() || !at->second.value || state_->is_stale(tensor))
    return std::nullopt;
  const onnx::Value& value = *at->second.value;
  if (!value.is_constant() || value.constant->numel() != 1) return std::nullopt;
  if (!is_floating(value.dtype) && value.dtype != DType::boolean) return std::nullopt;
  return value.constant->number(0);
}

std::optional<Dim> LoweringTypes::size(const aten::Value& tensor) {
  state_->note_shared();
  if (!state_->bind(tensor)) return std::nullopt;
  const ops::Lowered& lowered = state_->lowerer.environment().at(&tensor);
  if (!lowered.value) return lowered.dim;
  const auto& contents = lowered.value->contents;
  if (!contents || contents->size() != 1) return std::nullopt;
  note_sources(*lowered.value);
  return contents->front();
}

void LoweringTypes::forget(const aten::Value& value) {
  state_->note_shared();
  state_->forget(&value);
}

std::unique_ptr<LoweringTypes> builtin_types() {
  return std::make_unique<LoweringTypes>(ops::Lowerings(ops::op_table()), onnx::newest_opset());
}

}  // namespace onnx_native
