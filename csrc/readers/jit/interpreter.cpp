#include "readers/jit/interpreter.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>

#include "aten/element_types.h"
#include "aten/op_facts.h"
#include "aten/schema.h"
#include "aten/scopes.h"
#include "aten/stack_trace.h"
#include "aten/torch_tensor.h"
#include "aten/torch_types.h"
#include "aten/views.h"
#include "readers/jit/location.h"

namespace onnx_native::readers::jit {
namespace {

using aten::Argument;

// Limits on nested calls, and on nested blocks including those of calls.
constexpr size_t kDeepest = 200, kDeepestBlock = 400;
// The limit on executed nodes: loops without tensors run here.
constexpr size_t kMostSteps = 1'000'000;
// The limit on elements of all lists that the program makes.
constexpr size_t kMostElements = 10'000'000;

// Increments a counter during its lifetime.
class Counted {
 public:
  explicit Counted(size_t& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  size_t& count_;
};

const Handlers& handlers() {
  static const Handlers& table = *[] {
    auto* handlers = new Handlers();
    add_attribute_handlers(*handlers);
    add_container_handlers(*handlers);
    add_dict_handlers(*handlers);
    add_open_list_handlers(*handlers);
    add_list_search_handlers(*handlers);
    add_mkldnn_handlers(*handlers);
    add_number_handlers(*handlers);
    add_program_handlers(*handlers);
    add_quantized_handlers(*handlers);
    add_stride_handlers(*handlers);
    add_tensor_handlers(*handlers);
    add_to_list_handlers(*handlers);
    return handlers;
  }();
  return table;
}

bool has_tensor(const Item& item) {
  if (item.tensor()) return true;
  const Container* container = item.container();
  return container && container->kind != Container::Kind::object &&
         (container->contents.open || std::ranges::any_of(container->items(), has_tensor));
}

// Returns true for packed weights of quantized modules.
bool is_packed(const Item& item) {
  const auto* known = item.get<c10::IValue>();
  if (!known && !item.container()) return false;
  const c10::TypePtr type = known ? known->type() : item.container()->type;
  const auto* named = dynamic_cast<const c10::NamedType*>(type.get());
  return named && named->name() &&
         named->name()->qualifiedName().find("PackedParamsBase") != std::string_view::npos;
}

bool gives_tensor(const aten::Schema& schema) {
  return std::ranges::any_of(schema.returns, [](const aten::SchemaArgument& value) {
    return value.type.kind == aten::TypeKind::tensor;
  });
}

}  // namespace

Interpreter::Interpreter(std::shared_ptr<aten::Graph> graph, aten::TypeInference& types)
    : recorder_(std::move(graph), types) {}

// --- Constants

ContainerPtr Interpreter::object(const c10::intrusive_ptr<c10::ivalue::Object>& object,
                                 const std::string& path) {
  ContainerPtr& known = objects_[object.get()];
  if (!known) {
    known = make_container(Container::Kind::object, Items(object->type()->numAttributes()),
                           object->type());
    known->object = object;
    known->born = 0;
    known->path = path;
  }
  return known;
}

Item Interpreter::tensor_constant(const at::Tensor& tensor, const std::string& name,
                                  aten::ConstantKind kind) {
  if (!tensor.defined()) return Item::none();
  const auto [at, inserted] = constants_.try_emplace(tensor.unsafeGetTensorImpl());
  if (inserted) {
    kept_.push_back(tensor);
    const Item::Tensor constant(
        recorder_.add_constant(name, aten::tensor_data(tensor, name), kind));
    constant.object->born = 0;
    at->second = constant;
  }
  return at->second;
}

Item Interpreter::item(const c10::IValue& value, const std::string& path, aten::ConstantKind kind) {
  if (value.isTensor()) return tensor_constant(value.toTensor(), path, kind);
  if (value.isInt()) return Dim(value.toInt());
  if (value.isObject()) return object(value.toObject(), path);
  if (value.isList()) {
    Items items;
    const c10::TypePtr type = value.type();
    for (const c10::IValue& element : value.toListRef()) {
      items.push_back(item(element, concat(path, ".", items.size())));
    }
    return make_container(Container::Kind::list, std::move(items), type);
  }
  if (value.isTuple()) {
    Items items;
    for (const c10::IValue& element : value.toTupleRef().elements()) {
      items.push_back(item(element, concat(path, ".", items.size())));
    }
    return make_container(Container::Kind::tuple, std::move(items), value.type());
  }
  if (value.isGenericDict()) {
    ContainerPtr dict = make_container(Container::Kind::dict, {}, value.type());
    for (const auto& entry : value.toGenericDict()) {
      dict->contents.keys.push_back(item(entry.key(), path));
      dict->items().push_back(item(entry.value(), concat(path, ".", dict->items().size())));
    }
    return dict;
  }
  return value;
}

// --- Running

Items Interpreter::run(const torch::jit::Function& function, Items arguments,
                       const Container* module, const JitNode* call_site) {
  const torch::jit::GraphFunction* body =
      torch::jit::tryToGraphFunction(const_cast<torch::jit::Function&>(function));
  if (!body)
    unsupported(concat("cannot export the function ", function.name(), ": it is not TorchScript"));
  if (stack_.size() >= kDeepest) unsupported("calls are nested too deeply");
  if (!stack_.empty() && call_site) stack_.back().node = call_site;
  stack_.push_back({.module = module});
  const std::shared_ptr<torch::jit::Graph> graph = body->graph();
  Items results = run(*graph->block(), arguments);
  stack_.pop_back();
  return results;
}

Items Interpreter::run(const torch::jit::Block& block, const Items& arguments) {
  require(block.inputs().size() == arguments.size(), "a block of ", block.inputs().size(),
          " inputs got ", arguments.size());
  const size_t depth = stack_.size();
  const Counted deeper(depth_);
  if (depth_ > kDeepestBlock) unsupported("branches, loops and calls are nested too deeply");
  const JitNode* around = stack_.back().node;
  for (size_t i = 0; i < arguments.size(); ++i) {
    stack_.back().environment[block.inputs()[i]] = arguments[i];
  }
  for (const JitNode* node : block.nodes()) {
    try {
      stack_.back().node = node;
      step(*node);
    } catch (ExportError& error) {
      // Add the location while the call stack is intact.
      error.add_location(location());
      stack_.resize(depth);
      throw;
    }
  }
  stack_.back().node = around;
  Items results;
  for (const torch::jit::Value* output : block.outputs()) results.push_back(item(output));
  return results;
}

void Interpreter::unsupported(const std::string& message) const {
  fail(ErrorKind::unsupported, message);
}

std::string_view Call::name() const { return node.kind().toQualString(); }
const c10::FunctionSchema* Call::schema() const { return node.maybeSchema(); }
size_t Call::output_count() const { return node.outputs().size(); }
const c10::TypePtr& Call::output_type() const { return node.output()->type(); }
int64_t Call::attribute(const char* attribute) const {
  return node.i(torch::jit::Symbol::attr(attribute));
}

Item Interpreter::item(const torch::jit::Value* value) const {
  const Environment& environment = stack_.back().environment;
  const auto at = environment.find(value);
  require(at != environment.end(), "%", value->debugName(), " is used before it is defined");
  return at->second;
}

void Interpreter::step(const JitNode& node) {
  if (++steps_ > kMostSteps)
    unsupported(concat("the program takes more than ", kMostSteps, " steps to read"));
  const uint64_t made_before = containers_made();
  Items results = this->results(node);
  for (const Item& result : results) {
    const Container* container = result.container();
    if (container && container->born > made_before) use_memory(container->items().size());
  }
  if (node.outputs().empty()) return;
  require(results.size() == node.outputs().size(), node.kind().toQualString(), " returned ",
          results.size(), " results");
  Environment& environment = stack_.back().environment;
  for (size_t i = 0; i < results.size(); ++i) {
    environment[node.outputs()[i]] = std::move(results[i]);
  }
}

void Interpreter::use_memory(size_t elements) {
  elements_ += elements;
  if (elements_ > kMostElements)
    unsupported(
        concat("the lists and strings of the program take more than ", kMostElements, " elements"));
}

Items Interpreter::results(const JitNode& node) {
  Items inputs;
  for (const torch::jit::Value* input : node.inputs()) inputs.push_back(item(input));
  const Call call{*this, node, inputs};
  if (const auto own = handlers().find(node.kind().toQualString()); own != handlers().end()) {
    for (const Handler handler : own->second) {
      if (std::optional<Items> results = handler(call)) {
        convert_numbers(node, *results);
        return std::move(*results);
      }
    }
  }
  const c10::FunctionSchema* known = node.maybeSchema();
  std::string key = node.kind().toQualString();
  if (known && !known->overload_name().empty()) key += "." + known->overload_name();
  // These overloads take lists of tensors that contain no None.
  constexpr std::string_view kTwin = ".hacked_twin";
  if (key.ends_with(kTwin)) key.resize(key.size() - kTwin.size());
  if (const aten::Schema* schema = known ? aten::find_schema(key) : nullptr) {
    if (aten::is_check(*schema)) return Items(node.outputs().size(), Item::none());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].container() && is_written(*known, i))
        unsupported(concat(key, " changes ", describe(inputs[i]), ", so it cannot be exported"));
    }
    if (gives_tensor(*schema) || std::ranges::any_of(inputs, has_tensor)) {
      return record_call(call, *schema);
    }
  }
  if (can_evaluate(call)) return evaluate(call);
  std::string operands;
  for (const Item& input : inputs) operands += (operands.empty() ? "" : ", ") + describe(input);
  unsupported(concat("cannot export the TorchScript operator ", key,
                     operands.empty() ? " without arguments" : " with the arguments " + operands));
}

void Interpreter::convert_numbers(const JitNode& node, Items& results) {
  for (size_t i = 0; i < results.size() && i < node.outputs().size(); ++i) {
    if (node.outputs()[i]->type()->kind() != c10::TypeKind::FloatType) continue;
    const auto* dim = results[i].get<Dim>();
    if (!dim) continue;
    if (const auto number = dim->constant()) {
      results[i] = c10::IValue(static_cast<double>(*number));
      continue;
    }
    const Dim exact = *dim;
    results[i] = record_number("python::sym_float", {recorder_.size(exact)});
    set_quotient(results[i], {exact, 1});
  }
}

// --- Recording

Items Interpreter::record_call(const Call& call, const aten::Schema& schema) {
  if (std::ranges::any_of(call.inputs, is_packed))
    unsupported(concat("cannot export ", schema.key,
                       " with packed weights; quantize with "
                       "prepare_pt2e and convert_pt2e instead"));
  // A data-dependent Optional or bool argument becomes a branch with one call on each side.
  for (size_t i = 0; i < call.size(); ++i) {
    const Item& input = call.input(i);
    const bool flag = input.number() && schema.arguments.at(i).type.kind == aten::TypeKind::boolean;
    if (!input.maybe() && !flag) continue;
    const auto with = [&](const Item& value) {
      Items inputs = call.inputs;
      inputs[i] = value;
      return record_call({*this, call.node, inputs}, schema);
    };
    return branch(
        flag ? input : presence(input),
        [&] { return with(flag ? Item(c10::IValue(true)) : present_value(input)); },
        [&] { return with(flag ? Item(c10::IValue(false)) : Item::none()); });
  }
  std::vector<Argument> arguments;
  for (size_t i = 0; i < call.size(); ++i) {
    try {
      arguments.push_back(argument(call.input(i), schema.arguments.at(i).type));
    } catch (ExportError& error) {
      error.add_prefix(concat("the argument ", schema.arguments[i].name, " of ", schema.key, ": "));
      throw;
    }
  }
  Items results = record(schema.key, std::move(arguments));
  results.resize(call.node.outputs().size());
  if (const Quantization* known = quantized_operand(call))
    keep_quantization(call, schema, *known, results);
  if (schema.is_mutable()) {
    keep_identity(call, schema, results);
  } else if (results.size() == 1 && results[0].tensor() && aten::may_share(schema)) {
    share(call.input(0), results[0]);
    if (schema.key == "aten::view" && call.input(0).tensor())
      check_viewable(call.input(0), results[0]);
  }
  return results;
}

Items Interpreter::record(const std::string& key, std::vector<Argument> arguments) {
  const aten::Schema* schema = aten::find_schema(key);
  const std::vector<aten::Value*> values = recorder_.call(key, std::move(arguments), location());
  Items items;
  for (aten::Value* value : values) {
    using Kind = aten::Type::Kind;
    const Kind kind = value->type.kind;
    if (kind == Kind::sym_int) {
      items.emplace_back(*value->type.dim);
    } else if (kind == Kind::sym_float || kind == Kind::sym_bool) {
      items.emplace_back(Item::Number{value});
    } else {
      items.emplace_back(Item::Tensor{value});
    }
  }
  if (schema && schema->returns.size() == 1 && schema->returns[0].type.list) {
    return {make_container(Container::Kind::list, std::move(items))};
  }
  return items;
}

Item Interpreter::record_one(const std::string& key, std::vector<Argument> arguments) {
  return record(key, std::move(arguments)).at(0);
}

aten::Value* Interpreter::record_tensor(const std::string& key, std::vector<Argument> arguments) {
  return record_one(key, std::move(arguments)).tensor();
}

Item Interpreter::record_number(const std::string& key, std::vector<Argument> arguments) {
  const auto [value, known] = recorder_.number(key, std::move(arguments), location());
  if (known) return *known;
  if (!value->type.dim) return Item::Number{value};
  return *value->type.dim;
}

std::optional<Interpreter::Quotient> Interpreter::quotient(const Item& item) const {
  const auto at = quotients_.find(item.number());
  return at == quotients_.end() ? std::nullopt : std::optional(at->second);
}

void Interpreter::set_quotient(const Item& item, Quotient quotient) {
  if (item.number()) quotients_.insert_or_assign(item.number(), std::move(quotient));
}

Argument Interpreter::argument(const Item& item) {
  if (aten::Value* tensor = item.tensor()) return tensor;
  if (aten::Value* number = item.number()) return number;
  if (const auto* dim = item.get<Dim>()) return recorder_.size(*dim);
  if (const auto* known = item.get<c10::IValue>()) {
    if (known->isNone()) return {};
    if (known->isBool()) return known->toBool();
    if (known->isDouble()) return known->toDouble();
    if (known->isString()) return known->toStringRef();
    if (known->isDevice()) return known->toDevice().str();
    if (known->isComplexDouble()) {
      const c10::complex<double> number = known->toComplexDouble();
      return std::complex<double>(number.real(), number.imag());
    }
    if (known->isGenerator())
      unsupported(
          "the model would not keep the seed of a Generator; draw the random numbers before the "
          "export, and keep them in a buffer");
  }
  if (const Container* container = item.container()) {
    if (container->kind != Container::Kind::object && !container->contents.open &&
        !container->accumulates) {
      Argument::List list;
      for (const Item& element : container->items()) list.push_back(argument(element));
      return list;
    }
  }
  unsupported("cannot pass " + describe(item) + " to an operator");
}

Argument Interpreter::argument(const Item& item, const aten::SchemaType& type) {
  if (item.is_none()) return {};
  if (type.list) {
    const Container* container = item.container();
    const auto width = static_cast<size_t>(std::max(type.fixed_size, 1));
    aten::SchemaType element = type;
    element.list = false;
    if (!container) return Argument::List(width, argument(item, element));
    if (container->contents.open || container->accumulates) {
      unsupported("cannot pass " + describe(item) + " to an operator");
    }
    Argument::List list;
    for (const Item& inner : container->items()) list.push_back(argument(inner, element));
    if (list.size() == 1 && width > 1) list.resize(width, list[0]);
    return list;
  }
  if (const std::optional<int64_t> number = item.integer()) {
    switch (type.kind) {
      case aten::TypeKind::dtype: {
        const auto scalar = static_cast<c10::ScalarType>(*number);
        const std::optional<DType> dtype = aten::to_dtype(scalar);
        if (!dtype) unsupported(aten::no_element_type(scalar));
        return *dtype;
      }
      case aten::TypeKind::layout:
        return std::string("strided");
      case aten::TypeKind::memory_format:
        return aten::memory_format_name(static_cast<c10::MemoryFormat>(*number));
      case aten::TypeKind::floating:
      case aten::TypeKind::sym_float:
        return static_cast<double>(*number);
      case aten::TypeKind::boolean:
      case aten::TypeKind::sym_bool:
        return *number != 0;
      default:
        return *number;
    }
  }
  return argument(item);
}

Location Interpreter::location() const {
  Location result;
  std::string trace;
  for (const Active& active : stack_) {
    if (active.node) append_frame(trace, *active.node);
    if (!active.module || !active.module->object) continue;
    if (!result.module_names.empty() && result.module_names.back() == active.module->path) continue;
    aten::add_scope(result, "", active.module->path, class_name(*active.module->type));
  }
  aten::read_stack_trace(trace, result);
  return result;
}

}  // namespace onnx_native::readers::jit
