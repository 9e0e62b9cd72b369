#include "ops/engine/lower.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <new>
#include <stdexcept>
#include <unordered_set>

#include "aten/asserted_counts.h"
#include "aten/fault.h"
#include "aten/op_facts.h"
#include "aten/visit.h"
#include "base/dim_data.h"
#include "base/dim_order.h"
#include "onnx/typing.h"
#include "ops/engine/onnx_call.h"
#include "ops/engine/size_call.h"

namespace onnx_native::ops {
namespace {

// Returns true if `node` is arithmetic whose result is a symbol that no operand mentions. Readers
// create such symbols for expressions that Dim cannot represent (3 * round(s0 / 2)).
bool names_its_result(const aten::Node& node) {
  const Dim& result = *node.outputs[0]->type.dim;
  if (!node.op.starts_with("python::") || !result.is_symbol()) return false;
  const std::string symbol = result.str();
  return std::ranges::none_of(node.arguments, [&symbol](const aten::Argument& argument) {
    const aten::Value* operand = argument.as_value();
    if (!operand || !operand->type.dim) return false;
    const std::vector<std::string> symbols = operand->type.dim->symbols();
    return std::ranges::find(symbols, symbol) != symbols.end();
  });
}

// Returns true if the outputs are sym_ints with known expressions. They need no node: the Builder
// computes them from sizes on demand. A value read from a tensor is not known in advance.
bool is_known_size(const aten::Node& node) {
  const bool is_read = node.schema && aten::is_item(*node.schema);
  if (is_read || node.op.starts_with("higher_order::")) return false;
  const bool known = std::ranges::all_of(node.outputs, [](const aten::Value* output) {
    return output->type.kind == aten::Type::Kind::sym_int && output->type.dim.has_value();
  });
  return known && !node.outputs.empty() && !names_its_result(node);
}

}  // namespace

Lowerer::Lowerer(Builder& builder, Lowerings lowerings) : builder_(builder), lowerings_(lowerings) {
  builder.set_compositions(lowerings_.table().compositions());
}

aten::Type lowered_type(const aten::Type& type) {
  aten::Type result = type;
  if (!type.is_tensor() || !is_complex(type.dtype)) return result;
  result.dtype = real_dtype(type.dtype);
  if (result.shape) result.shape->emplace_back(2);
  return result;
}

TensorData lowered_data(const TensorData& data) {
  TensorData result = data;
  if (!is_complex(data.dtype)) return result;
  result.dtype = real_dtype(data.dtype);
  result.shape.push_back(2);
  if (!result.strides.empty()) {
    for (int64_t& stride : result.strides) stride *= 2;
    result.strides.push_back(1);
  }
  return result;
}

Key key_of(const aten::Node& node) {
  Key key = Key::dense;
  if (!node.schema) return key;  // control flow only passes its tensors on
  auto visit = [&](const aten::Value* value) {
    if (value->type.quantized) key = Key::quantized;
    if (key == Key::dense && value->type.is_tensor() && is_complex(value->type.dtype))
      key = Key::complex;
  };
  for (const auto& argument : node.arguments) {
    const auto* dtype = argument.get<DType>();
    const bool says_complex = argument.get<std::complex<double>>() || (dtype && is_complex(*dtype));
    if (says_complex && key == Key::dense) key = Key::complex;
    aten::for_each_value(argument, visit);
  }
  for (const aten::Value* output : node.outputs) visit(output);
  return key;
}

std::vector<const aten::Node*> live_nodes(const aten::Graph& graph) {
  std::unordered_set<const aten::Value*> needed;
  auto need = [&](const aten::Value* value) { needed.insert(value); };
  for (const auto& output : graph.outputs) aten::for_each_value(output, need);
  std::vector<const aten::Node*> live;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (!aten::asserts_count(**node) &&
        std::ranges::none_of((*node)->outputs,
                             [&](const aten::Value* v) { return needed.contains(v); }))
      continue;
    live.push_back(*node);
    for (const auto& argument : (*node)->arguments) aten::for_each_value(argument, need);
  }
  std::ranges::reverse(live);
  return live;
}

const Lowering* Lowerings::preferred(const aten::Node& node) const {
  return foreign_ ? foreign_->preferred(node) : nullptr;
}

const Lowering* Lowerings::find(const aten::Node& node) const {
  if (const Lowering* lowering = preferred(node)) return lowering;
  if (const Lowering* native = table_.find(node.op, key_of(node))) return native;
  if (const Lowering* node_itself = find_onnx_call(node.op)) return node_itself;
  return foreign_ ? foreign_->fallback(node) : nullptr;
}

std::vector<const aten::Node*> missing_operators(const aten::Graph& graph,
                                                 const Lowerings& lowerings) {
  std::vector<const aten::Node*> missing;
  for (const aten::Node* node : live_nodes(graph)) {
    for (const auto& argument : node->arguments) {
      if (const auto* body = argument.get<std::shared_ptr<aten::Graph>>())
        std::ranges::copy(missing_operators(**body, lowerings), std::back_inserter(missing));
    }
    if (is_known_size(*node) || aten::asserts_count(*node)) continue;
    if (!lowerings.find(*node)) missing.push_back(node);
  }
  return missing;
}

namespace {

// Returns whether torch.export recorded a mapped function with this call. The reader of FX graphs
// inlines mapped functions; in an archive they remain, because inlining takes Python.
bool is_part_of_vmap(const aten::Node& node) {
  return node.op == "python::_add_batch_dim" || node.op == "python::_remove_batch_dim";
}

std::string cause_of_missing(const aten::Node& node) {
  if (is_part_of_vmap(node)) return "the program maps a function with torch.vmap";
  return node.op + " has no ONNX lowering" +
         (key_of(node) == Key::complex ? " for complex tensors" : "");
}

std::string hint_for_missing(const aten::Node& node) {
  if (is_part_of_vmap(node))
    return "inline the function with program.run_decompositions({}) before torch.export.save";
  return "register a lowering with @onnx_native.lowering(\"" + node.op +
         "\"); see docs/custom-ops.md";
}

}  // namespace

void check_operators(const aten::Graph& graph, const Lowerings& lowerings) {
  const std::vector<const aten::Node*> missing = missing_operators(graph, lowerings);
  if (missing.empty()) return;
  std::vector<Fault> faults;
  std::unordered_set<std::string> seen;
  for (const aten::Node* node : missing) {
    const std::string cause = cause_of_missing(*node);
    if (seen.insert(cause).second) faults.push_back(aten::fault_at(*node, cause));
  }
  throw ExportError(ErrorKind::unsupported_operator, std::move(faults),
                    hint_for_missing(*missing[0]));
}

Lowered Lowerer::lowered(const aten::Argument& argument) {
  if (const aten::Value* value = argument.as_value()) return find_lowered(environment_, *value);
  if (const auto* n = argument.get<int64_t>()) return Dim(*n);
  if (const auto* n = argument.get<double>()) return builder_.scalar(default_dtype(), *n);
  if (const auto* n = argument.get<bool>()) return builder_.boolean(*n);
  fail(ErrorKind::unsupported, "expected a tensor or a number");
}

namespace {

// Returns true if a number that depends on data is recorded as a size of inputs. torch.export takes
// it for granted that a count is the size with which it broadcasts, but the count may be 1.
bool is_taken_for_size(const Dim& computed, const Dim& recorded) {
  return computed.is_symbol() && depends_on_data(computed) && !recorded.is_constant() &&
         !depends_on_data(recorded);
}

}  // namespace

// Returns the computed shape with the recorded sizes of axes that are broadcast to them. A tensor
// to which a program writes keeps its size, and eager fails where the other tensor is larger. The
// same holds for counts that are taken for sizes, unless the program asserts that they are equal.
Shape Lowerer::kept_shape(const Shape& computed, const Shape& recorded) const {
  Shape shape = computed;
  for (size_t axis = 0; computed.size() == recorded.size() && axis < shape.size(); ++axis) {
    if (is_taken_for_size(computed[axis], recorded[axis]) &&
        !are_equal(computed[axis], recorded[axis]))
      shape[axis] = recorded[axis];
    if (!computed[axis].is_broadcast() || computed[axis] == recorded[axis]) continue;
    const std::vector<Dim>& operands = computed[axis].terms()[0].factors[0].operands;
    if (are_equal(operands[0], operands[1])) continue;
    if (std::ranges::find(operands, recorded[axis]) != operands.end()) shape[axis] = recorded[axis];
  }
  return shape;
}

namespace {

// Returns the value with a shape that broadcasting leaves unchanged. The node fails where eager
// fails; ONNX Runtime would replace sizes of a plain Reshape by -1.
Value checked(Builder& b, Value value, const Shape& shape) {
  std::vector<onnx::Attribute> attributes;
  if (b.opset() >= 14) attributes.push_back({"allowzero", int64_t{1}});
  return b.op("Reshape", {value, b.shape_value(shape)}, std::move(attributes));
}

}  // namespace

void Lowerer::check_result(const aten::Node& node, size_t i, Lowered& result) {
  const aten::Type& recorded = node.outputs[i]->type;
  const bool pairs = recorded.is_tensor() && is_complex(recorded.dtype);
  const aten::Type expected = pairs ? lowered_type(recorded) : recorded;
  if (expected.kind == aten::Type::Kind::sym_int) {
    if (!expected.dim) return;
    const bool is_read = node.schema && aten::is_item(*node.schema);
    if (is_read && !expected.dim->is_constant() && !depends_on_data(*expected.dim))
      fail(ErrorKind::unsupported, "torch.export takes it for granted that the number is ",
           expected.dim->str(), ", which the model cannot check; use the size itself");
    // The program names a size that the model computes: bind its symbol.
    if (result.value) {
      builder_.bind(*expected.dim, result.value);
    } else if (result.dim && !(*result.dim == *expected.dim)) {
      builder_.bind(*expected.dim, builder_.dim_value(*result.dim));
    }
    result = Lowered(*expected.dim);
    return;
  }
  if (!expected.is_tensor()) return;
  if (!result.value) fail(ErrorKind::internal, "result ", i, " is not a tensor");
  Value value = result.value;
  // torch.onnx.ops.symbolic uses uint8 for ONNX's 4-bit integers.
  const bool stands_for_it = node.op.starts_with("onnx_symbolic::") && item_size(value->dtype) == 0;
  if (value->dtype == DType::boolean && expected.dtype == DType::i64 &&
      node.op.starts_with("aten::pow"))
    fail(ErrorKind::unsupported,
         "torch.export records that a power of bools is int64, but in eager it is bool; convert "
         "the base or the exponent to int64 first");
  if (expected.dtype != DType::undefined && value->dtype != expected.dtype && !stands_for_it)
    fail(ErrorKind::internal, "result ", i, " is ", name(value->dtype),
         ", but the program recorded ", name(expected.dtype));
  if (!expected.shape) return;
  if (!value->shape) {
    builder_.refine(value, *expected.shape);
  } else {
    const Shape kept = kept_shape(*value->shape, *expected.shape);
    if (kept != *value->shape) value = result.value = checked(builder_, value, kept);
    check_sizes(node, *expected.shape, value, i);
  }
  builder_.bind_sizes(value);
}

namespace {

// Counts the operations other than sums and products (division, remainder, min, max, broadcast).
int64_t count_operations(const Dim& size) {
  int64_t count = 0;
  for (const Dim::Term& term : size.terms()) {
    for (const Dim::Factor& factor : term.factors) {
      if (factor.kind != Dim::Atom::symbol) ++count;
      for (const Dim& operand : factor.operands) count += count_operations(operand);
    }
  }
  return count;
}

// Returns true if the sizes provably differ for all inputs that the program was captured for.
bool contradict(const Dim& computed, const Dim& recorded) {
  const Dim a = computed.as_captured();
  const Dim b = recorded.as_captured();
  return known_greater(a, b) || known_greater(b, a);
}

}  // namespace

bool Lowerer::is_better(const Dim& computed, const Dim& recorded) const {
  if (distrusts_record_) return true;
  // A costlier expression adds nodes, and it usually differs only at sizes that are too small to
  // matter.
  const bool is_cheap =
      recorded.is_constant() || count_operations(computed) <= count_operations(recorded) + 1;
  return is_cheap && computed.as_captured() == recorded.as_captured();
}

namespace {

// Returns true if a size that follows from the sizes of inputs alone is recorded as a number that
// it need not have. Decomposed programs record such shapes for views of written tensors.
bool is_misrecorded(const Shape& computed, const Shape& recorded) {
  for (size_t axis = 0; axis < recorded.size(); ++axis) {
    const Dim& size = computed[axis];
    if (size.is_constant() || !recorded[axis].is_constant()) continue;
    if (!depends_on_data(size) && !(size.as_captured() == recorded[axis])) return true;
  }
  return false;
}

}  // namespace

void Lowerer::check_sizes(const aten::Node& node, const Shape& recorded, Value value, size_t i) {
  const auto differs = [&] {
    fail(ErrorKind::internal, "result ", i, " has shape ", str(*value->shape),
         ", but the program recorded ", str(recorded));
  };
  if (value->shape->size() != recorded.size()) differs();
  const bool misrecorded = is_misrecorded(*value->shape, recorded);
  for (size_t axis = 0; axis < recorded.size(); ++axis) {
    const Dim& dim = (*value->shape)[axis];
    const Dim& known = recorded[axis];
    // Keep a constant that inference proved. Otherwise use the recorded expression, unless the
    // computed one is better.
    if (dim == known || is_better(dim, known)) continue;
    if (dim.is_constant() && known.is_constant()) differs();
    if (contradict(dim, known))
      contradictions_.push_back(
          aten::fault_at(node, concat("dimension ", axis, " of result ", i, " is computed as ",
                                      dim.str(), " but recorded as ", known.str())));
    if (!dim.is_constant() && !misrecorded)
      builder_.refine(value, static_cast<int64_t>(axis), known);
  }
}

namespace {

// Runs `work` on a node and adds the node to any error.
template <class Work>
auto located(const aten::Node& node, const Work& work) {
  const auto wrong = [&node](const char* cause) {
    return ExportError(ErrorKind::unsupported, {aten::fault_at(node, cause)});
  };
  try {
    return work();
  } catch (ExportError& error) {
    aten::add_place(error, node);
    throw;
  } catch (const std::out_of_range&) {  // an element that does not exist
    throw wrong("inconsistent arguments");
  } catch (const std::bad_optional_access&) {  // an argument that is None
    throw wrong("inconsistent arguments");
  } catch (const std::length_error&) {  // a vector whose length comes from the program
    throw wrong("the tensor is larger than memory");
  } catch (const std::bad_alloc&) {
    throw wrong("the tensor is larger than memory");
  }
}

// Returns the default dtype of the capture: the dtype of a floating-point result that no argument
// determines. The default at export may be different.
DType default_dtype_of(const aten::Node& node) {
  if (!node.schema || node.outputs.empty() || !node.outputs[0]->type.is_tensor())
    return default_dtype();
  bool given = false;
  for (const aten::Argument& argument : node.arguments) {
    given |= argument.get<DType>() != nullptr;
    aten::for_each_value(argument, [&](const aten::Value* value) {
      const DType dtype = value->type.dtype;
      given |= value->type.is_tensor() &&
               (dtype == DType::undefined || is_floating(dtype) || is_complex(dtype));
    });
  }
  const DType result = node.outputs[0]->type.dtype;
  // The only operator whose result torch.export records as float32 for every default.
  if (node.op == "aten::ldexp.Tensor" && !given && is_floating(result) && result != default_dtype())
    fail(ErrorKind::unsupported, "torch.export records that ldexp of integers is ", name(result),
         ", but in eager it has the default dtype ", name(default_dtype()),
         "; convert the argument first");
  if (given || result == DType::undefined) return default_dtype();
  if (is_complex(result)) return real_dtype(result);
  return is_floating(result) ? result : default_dtype();
}

bool has_empty_argument(const aten::Node& node) {
  bool found = false;
  for (const aten::Argument& argument : node.arguments)
    aten::for_each_value(argument, [&](const aten::Value* value) {
      found = found || (value->type.shape && is_empty(*value->type.shape));
    });
  return found;
}

}  // namespace

Results Lowerer::run(const aten::Node& node) {
  const aten::DefaultDType scope(default_dtype_of(node));
  builder_.set_location(node.location);
  const Lowering* lowering = lowerings_.find(node);
  if (!lowering) fail(ErrorKind::unsupported_operator, node.op, " has no ONNX lowering");
  try {
    return lowering->run(Call(*this, builder_, node, environment_));
  } catch (const ExportError& error) {
    if (error.kind() != ErrorKind::internal || !error.op().empty()) throw;
    if (!has_empty_argument(node)) throw;
    throw ExportError(ErrorKind::unsupported, error.faults(),
                      "a tensor is empty: PyTorch then accepts sizes that contradict each other");
  }
}

namespace {

// Replaces the symbolic sizes of a call's arguments by the constants of the capture, from apply()
// until destruction.
class CapturedArguments {
 public:
  CapturedArguments(const aten::Node& node, Environment& environment) {
    const auto visit = [&](const aten::Value* argument) {
      const auto at = environment.find(argument);
      if (at == environment.end()) return;
      Lowered& known = at->second;
      if (known.dim) {
        if (const auto number = changing(*known.dim)) numbers_.emplace_back(&*known.dim, *number);
      }
      if (known.value && known.value->shape) add(*known.value);
    };
    for (const aten::Argument& argument : node.arguments) aten::for_each_value(argument, visit);
  }
  CapturedArguments(const CapturedArguments&) = delete;
  CapturedArguments& operator=(const CapturedArguments&) = delete;
  ~CapturedArguments() {
    std::ranges::reverse(numbers_);  // an argument may occur twice
    std::ranges::reverse(shapes_);
    if (is_applied_) swap();
  }

  bool empty() const { return numbers_.empty() && shapes_.empty(); }
  void apply() {
    swap();
    is_applied_ = true;
  }

 private:
  // Returns the captured constant of a size that is not constant; else nullopt.
  static std::optional<int64_t> changing(const Dim& size) {
    return size.is_constant() ? std::nullopt : size.as_captured().constant();
  }

  void add(onnx::Value& value) {
    Shape captured = *value.shape;
    bool changes = false;
    for (Dim& size : captured) {
      if (const auto number = changing(size)) {
        size = *number;
        changes = true;
      }
    }
    if (changes) shapes_.emplace_back(&value, std::move(captured));
  }

  void swap() {
    for (auto& [place, number] : numbers_) std::swap(*place, number);
    for (auto& [value, shape] : shapes_) {
      Shape current = *value->shape;
      onnx::Typing::set_shape(*value, std::exchange(shape, std::move(current)));
    }
  }

  std::vector<std::pair<Dim*, Dim>> numbers_;
  std::vector<std::pair<Value, Shape>> shapes_;
  bool is_applied_ = false;
};

bool has_recorded_ranks(const aten::Node& node, const Results& results) {
  for (size_t i = 0; i < std::min(results.size(), node.outputs.size()); ++i) {
    const auto& recorded = lowered_type(node.outputs[i]->type).shape;
    const Value value = results[i].value;
    if (recorded && value && value->shape && value->shape->size() != recorded->size()) return false;
  }
  return true;
}

}  // namespace

Results Lowerer::run_at_all_sizes(const aten::Node& node) {
  CapturedArguments captured(node, environment_);
  if (captured.empty()) return run(node);
  const size_t before = builder_.graph().nodes.size();
  Results results;
  std::exception_ptr refusal;
  try {
    builder_.scoped([&] { results = run(node); });
    if (results.size() >= node.outputs.size()) return results;
  } catch (const ExportError&) {
    refusal = std::current_exception();
  }
  while (builder_.graph().nodes.size() > before)
    builder_.graph().erase(builder_.graph().nodes.back());
  captured.apply();
  builder_.scoped([&] { results = run(node); });
  // torch may record results that keep a dimension of dynamic size; then the first error is the
  // right one.
  if (refusal && !has_recorded_ranks(node, results)) std::rethrow_exception(refusal);
  return results;
}

Dim Lowerer::known_size(const aten::Node& node, const aten::Value& output) {
  const Dim& recorded = *output.type.dim;
  const std::optional<Dim> computed =
      node.outputs.size() == 1 ? computed_size(node, environment_) : std::nullopt;
  if (!computed || *computed == recorded) return recorded;
  if (may_be_misrecorded(node, environment_)) distrusts_record_ = true;
  return is_better(*computed, recorded) ? *computed : recorded;
}

Results Lowerer::results_of(const aten::Node& node) {
  return located(node, [&] { return run(node); });
}

namespace {

// Returns true if the user's program has this result under its name. Functionalization, autocast
// and the decompositions of a call add nodes that have the location of a call of the program.
bool is_named_by_program(const aten::Node& node, const aten::Value& output) {
  if (!node.location) return true;
  const std::string& call = node.location->node;
  if (node.outputs.size() == 1) return call == output.name;
  const std::string_view op = std::string_view(node.op).substr(node.op.rfind(':') + 1);
  return call.starts_with(op.substr(0, op.find('.')));
}

// Names a result for the value of the program that it is, unless it is an earlier value too.
void name_result(const aten::Node& node, const aten::Value& output, const Lowered& result) {
  const Value value = result.value;
  if (value && value->producer && value->name.empty() && is_named_by_program(node, output))
    value->name = output.name;
}

}  // namespace

void Lowerer::lower(const aten::Node& node) {
  located(node, [&] {
    if (aten::asserts_count(node)) return assert_equal(node);
    if (is_known_size(node) && !lowerings_.preferred(node)) {
      for (const aten::Value* output : node.outputs)
        environment_[output] = known_size(node, *output);
      return;
    }
    Results results = run_at_all_sizes(node);
    if (results.size() < node.outputs.size())
      fail(ErrorKind::internal, "the lowering returned ", results.size(), " of ",
           node.outputs.size(), " results");
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (results[i].value || results[i].dim) check_result(node, i, results[i]);
      name_result(node, *node.outputs[i], results[i]);
      environment_[node.outputs[i]] = std::move(results[i]);
    }
  });
}

void Lowerer::lower(const aten::Graph& graph) {
  std::vector<Value> outer = std::exchange(asserted_, {});
  const size_t known = equal_.size();
  for (const aten::Node* node : live_nodes(graph)) lower(*node);
  check_assertions(graph);
  equal_.resize(known);
  asserted_ = std::move(outer);
}

Results Call::inline_body(const aten::Graph& body, const Results& arguments) const {
  return lowerer_.inline_body(body, arguments);
}

void Lowerer::bind_input(const aten::Value& input, Lowered argument) {
  const aten::Type& type = input.type;
  // A sub-graph has its own symbol for an integer input.
  if (type.kind == aten::Type::Kind::sym_int && type.dim && type.dim->is_symbol()) {
    bool same = argument.dim && *argument.dim == *type.dim;
    if (!same)
      builder_.shadow(*type.dim,
                      argument.value ? argument.value : builder_.dim_value(*argument.dim));
    argument = Lowered(*type.dim);
  } else if (type.kind == aten::Type::Kind::sym_int && argument.value) {
    argument = Lowered(builder_.dim_of(argument.value));
  }
  environment_[&input] = std::move(argument);
}

Results Lowerer::inline_body(const aten::Graph& body, const Results& arguments) {
  if (body.inputs.size() != arguments.size())
    fail(ErrorKind::invalid_program, "a subgraph with ", body.inputs.size(), " inputs got ",
         arguments.size(), " arguments");
  for (size_t i = 0; i < arguments.size(); ++i) bind_input(*body.inputs[i], arguments[i]);
  for (const auto& constant : body.constants)
    environment_[constant.value] = builder_.tensor(lowered_data(constant.data));
  lower(body);
  Results results;
  for (const auto& output : body.outputs) results.push_back(lowered(output));
  return results;
}

}  // namespace onnx_native::ops
