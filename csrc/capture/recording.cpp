#include "capture/recording.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "aten/asserted_counts.h"
#include "aten/placeholder.h"
#include "aten/shape_changes.h"
#include "aten/torch_tensor.h"
#include "aten/torch_types.h"
#include "aten/view_kinds.h"
#include "base/error.h"
#include "capture/meta_kernels.h"
#include "capture/symbolic_size.h"
#include "capture/transformed_call.h"
#include "capture/varying_values.h"

namespace onnx_native::capture {
namespace {

// How an operator compares two numbers.
struct Comparison {
  std::string_view op;
  Relation relation;
  std::string_view text;
  bool swaps = false;    // the operands
  bool negates = false;  // the result
};

constexpr std::array<Comparison, 6> kComparisons{
    {{"aten::eq", Relation::equal, " == "},
     {"aten::ne", Relation::equal, " == ", false, true},
     {"aten::lt", Relation::less, " < "},
     {"aten::le", Relation::less_equal, " <= "},
     {"aten::gt", Relation::less, " < ", true},
     {"aten::ge", Relation::less_equal, " <= ", true}}};

constexpr auto kTensorKey = c10::DispatchKey::TESTING_ONLY_GenericWrapper;

thread_local Recording* active_recording = nullptr;

void record(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (MetaKernels::run(op, keys, *stack)) return;
  if (!active_recording) Generators::note(op, *stack);
  if (active_recording && run_transformed(active_recording->decisions(), op, keys, *stack)) return;
  const c10::impl::ExcludeDispatchKeyGuard below(kRecorderKey);
  if (active_recording) {
    active_recording->call(op, keys, *stack);
  } else {
    op.callBoxed(stack);
  }
}

void refuse_outside(const c10::OperatorHandle& op, torch::jit::Stack* /*stack*/) {
  note_use_outside();
  TORCH_CHECK(false, op.operator_name(),
              " got a tensor that onnx_native recorded during a capture; it has no elements. The "
              "program kept it, in a cache for example, or used it in another thread");
}

// Returns true if a call draws random numbers. Dropout does not in evaluation.
bool draws_numbers(const aten::Node& node) {
  if (!is_random(node)) return false;
  const aten::Argument* train = node.schema ? aten::find_argument(node, "train") : nullptr;
  const bool* trains = train ? train->get<bool>() : nullptr;
  return !trains || *trains;
}

}  // namespace

void register_recorder() {
  static std::once_flag once;
  std::call_once(once, [] {
    static auto& recorder =
        *new torch::Library(torch::Library::IMPL, "_", kRecorderKey, __FILE__, __LINE__);
    recorder.fallback(torch::CppFunction::makeFromBoxedFunction<&record>());
    static auto& outside =
        *new torch::Library(torch::Library::IMPL, "_", kTensorKey, __FILE__, __LINE__);
    outside.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_outside>());
  });
}

Recording::Recording(std::map<std::string, Symbol> symbols, std::vector<ModuleTensor> state,
                     MakeTypes make_types, Host& host, std::shared_ptr<Generators> generators)
    : host_(host),
      generators_(std::move(generators)),
      decisions_(
          std::move(symbols), [&host] { return host.location().source; },
          [&host] { return host.is_in_program(); }),
      types_(std::move(make_types)),
      module_(std::move(state)) {
  register_recorder();
  Dim::restart_fresh();
  if (decisions_.has_symbols()) types_.get();
  if (decisions_.counts())
    decisions_.tell_decisions([this](const CountedDecision& each) { record_decision(each); });
  for (const ModuleTensor& held : module_.all()) {
    if (!is_plain(held.tensor)) continue;
    memories_.add_view(held.tensor);
    if (held.is_kept) memories_.keep(held.tensor);
  }
}

Recording::~Recording() = default;

int64_t Recording::alive() const { return decisions_.token().use_count() - 1; }

at::Tensor Recording::meta_of(const at::Tensor& tensor) {
  if (const RecordedTensor* known = recorded(tensor)) {
    if (known->token() != decisions_.token()) decisions_.refuse("a tensor is from another capture");
    return known->meta();
  }
  Constant& constant = constants_[tensor.unsafeGetTensorImpl()];
  if (!constant.meta.defined()) {
    if (!is_plain(tensor))
      decisions_.refuse("the program uses a tensor that is not a plain tensor, on the device " +
                        tensor.device().str());
    constant.tensor = tensor;
    if (const at::Tensor* original = module_.original_of(tensor))
      return constant.meta = meta_of(*original).alias();
    constant.meta =
        at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(c10::kMeta));
    memories_.add(constant.meta, owner_of(tensor), storage_of(tensor));
  }
  return constant.meta;
}

Memories::Owner Recording::owner_of(const at::Tensor& tensor) const {
  const ModuleTensor* held = module_.find(tensor);
  if (held && held->kind != aten::ConstantKind::constant) return Memories::Owner::module;
  return known_tensors_.is_literal(tensor) ? Memories::Owner::literal : Memories::Owner::unknown;
}

void Recording::note_write(const at::Tensor& tensor) {
  const at::Tensor meta = meta_of(tensor);
  if (!frame_->owns(meta)) decisions_.refuse("a branch or loop writes to a tensor from outside");
  frame_->forget_numbers(storage_of(meta));
  memories_.note_write(meta);
}

aten::Value* Recording::constant_of(const at::Tensor& tensor) {
  meta_of(tensor);
  Constant& constant = constants_[tensor.unsafeGetTensorImpl()];
  if (constant.value) return constant.value;
  if (const at::Tensor* original = module_.original_of(tensor))
    return constant.value = constant_of(*original);
  const ModuleTensor* held = module_.find(tensor);
  memories_.add_view(tensor);
  const std::string name = held ? held->name : "lifted_tensor";
  const auto kind = held ? held->kind : aten::ConstantKind::constant;
  const bool literal = kind == aten::ConstantKind::constant;
  TensorData data = literal ? aten::literal_data(tensor, name) : aten::tensor_data(tensor, name);
  constant.value = program_.graph().add_constant(name, std::move(data), kind);
  types_.define(program_.graph().constants.back());
  if (known_tensors_.is_literal(tensor)) constant.value = copy_of_literal(constant.value);
  return constant.value;
}

// The program runs again for each way of a branch, and would draw other random numbers.
void Recording::refuse_draws() {
  if (std::ranges::any_of(frame_->graph().nodes,
                          [](const aten::Node* node) { return draws_numbers(*node); }))
    decisions_.refuse("the program branches on the elements of a tensor after random numbers",
                      RefusalKind::control_flow);
}

// Decides a comparison of tensors with one element that follow from sizes; nullopt for others.
std::optional<bool> Recording::decided_by_sizes(const aten::Value& condition) {
  const aten::Node* node = condition.producer;
  aten::TypeInference* types = types_.started();  // without it, no call has taken a dynamic size
  if (!types || !node || node->arguments.size() != 2) return std::nullopt;
  const auto comparison = std::ranges::find_if(kComparisons, [node](const Comparison& each) {
    return node->op == concat(each.op, ".Tensor") || node->op == concat(each.op, ".Scalar");
  });
  if (comparison == kComparisons.end()) return std::nullopt;
  std::vector<Dim> sizes;
  for (const aten::Argument& argument : node->arguments) {
    const aten::Value* value = argument.as_value();
    const auto* number = argument.get<int64_t>();
    const std::optional<Dim> size = number   ? Dim(*number)
                                    : !value ? std::nullopt
                                    : value->type.kind == aten::Type::Kind::sym_int
                                        ? value->type.dim
                                        : types->size(*value);
    if (!size || !decisions_.example(*size)) return std::nullopt;
    sizes.push_back(*size);
  }
  if (comparison->swaps) std::swap(sizes[0], sizes[1]);
  const std::string text = concat(sizes[0].str(), comparison->text, sizes[1].str());
  return decisions_.decide(sizes[0] - sizes[1], comparison->relation, text) != comparison->negates;
}

bool Recording::choose(const at::Tensor& condition) {
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecorderKey);
  if (const auto decided = decided_by_sizes(*value_of(condition))) return *decided;
  if (decisions_.forks()) refuse_draws();
  if (decisions_.forks()) undecided_ = condition;
  // The graph owns its values.
  const std::shared_ptr<const void> value(std::shared_ptr<const void>(), value_of(condition));
  const bool way = decisions_.choose(
      value,
      "aten::is_nonzero: the program branches on the elements of a tensor; torch.cond would keep "
      "both branches",
      RefusalKind::control_flow);
  undecided_.reset();
  return way;
}

void Recording::note_alias(const at::Tensor& tensor) {
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecorderKey);
  if (!recorded(tensor) && module_.find(tensor)) value_of(tensor);
}

void Recording::replace_recorded(RecordedTensor& tensor, const at::Tensor& contents) {
  const RecordedTensor* other = recorded(contents);
  if (frame_->outer() || !other || other->dtype() != tensor.dtype() ||
      other->device() != tensor.device() || decisions_.with_gradients())
    decisions_.refuse(kOtherContents);
  if (other->id() != tensor.id()) tensor.take_contents(*other, decisions_);
}

at::Tensor Recording::deep_copy(const at::Tensor& tensor) {
  const at::Tensor meta = meta_of(tensor);
  if (!meta.is_non_overlapping_and_dense())
    decisions_.refuse("the program copies a tensor that is not dense in memory, with its memory");
  // The copy is at the same place in a copy of all of the memory.
  if (meta.storage_offset() != 0) decisions_.guess_strides();
  return tensor.clone();
}

void Recording::replace(const at::Tensor& tensor, const at::Tensor& contents) {
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecorderKey);
  const std::string reason = kOtherContents;
  if (RecordedTensor* known = recorded(tensor)) return replace_recorded(*known, contents);
  if (frame_->outer() || !module_.contains(tensor)) decisions_.refuse(reason);
  note_alias(tensor);
  aten::Value* value = value_of(contents);
  aten::Value*& current = constants_[tensor.unsafeGetTensorImpl()].value;
  if (current == value) return;  // as in tensor.data *= 2, which writes in place
  if (memories_.is_kept(tensor)) decisions_.refuse(reason + ", whose updates the model keeps");
  if (tensor.device() != contents.device() || !same_view(meta_of(tensor), meta_of(contents)) ||
      shape_of(tensor) != shape_of(contents))
    decisions_.refuse(reason + " of another dtype, shape or layout");
  if (module_.shares_memory(tensor))
    decisions_.refuse(reason + ", which shares memory with another one");
  current = value;
  memories_.note_replacement(tensor);
}

// Returns the tensor that each run of the program makes of a literal.
aten::Value* Recording::copy_of_literal(aten::Value* literal) {
  aten::Node* node = program_.add_node("aten::lift_fresh_copy", {literal});
  if (types_.started()) types_.infer(*node);
  return program_.graph().add_output(node, "lift_fresh_copy", literal->type);
}

aten::Value* Recording::value_in(Frame& frame, const at::Tensor& tensor) {
  const RecordedTensor* known = recorded(tensor);
  if (!known) return frame.capture_from_program(constant_of(tensor));
  if (known->token() != decisions_.token()) decisions_.refuse("a tensor is from another capture");
  return value_in(frame, *known);
}

aten::Value* Recording::value_in(Frame& frame, const RecordedTensor& tensor) {
  if (aten::Value* value = frame.value(tensor.id())) return value;
  decisions_.refuse("a tensor that a branch or loop computes is used outside of it");
}

at::Tensor Recording::new_tensor(at::Tensor meta, Shape shape, aten::Value* value,
                                 c10::Device device) {
  const int64_t id = next_id_++;
  frame_->set_value(id, value);
  decisions_.note_shape(shape);
  return at::Tensor(c10::make_intrusive<RecordedTensor>(id, std::move(meta), std::move(shape),
                                                        device, decisions_));
}

// Returns a tensor with the sizes that the shape has in this recording's example.
at::Tensor Recording::input_meta(const at::Tensor& example, const Shape& shape) {
  std::vector<int64_t> sizes;
  for (const Dim& size : shape)
    sizes.push_back(
        decisions_.example(size).value_or(example.size(static_cast<int64_t>(sizes.size()))));
  const at::TensorOptions options = example.options().device(c10::kMeta);
  if (sizes == example.sizes()) return at::empty_strided(sizes, example.strides(), options);
  const at::MemoryFormat format = example.suggest_memory_format();
  if (!example.is_contiguous(format)) decisions_.refuse("an input is not contiguous");
  return at::empty(sizes, options, format);
}

at::Tensor Recording::add_input(const at::Tensor& example, std::string_view name, Shape shape) {
  const auto dtype = aten::to_dtype(example.scalar_type());
  if (!dtype || !is_plain(example))
    decisions_.refuse(concat("the input ", name, " is not a plain tensor, on the device ",
                             example.device().str()));
  at::Tensor meta = input_meta(example, shape);
  if (example.is_cpu() && !aten::placeholder_address(example) && example.is_pinned())
    memories_.pin(meta);
  memories_.add(meta, Memories::Owner::input);
  aten::Value* value = frame_->add_input(name, aten::Type::tensor(*dtype, shape));
  if (!example.is_contiguous()) {
    layouts_.settle(value, meta);
    const MemoryLayout* known = layouts_.find(value);
    const std::vector<aten::Stride> unknown(shape.size());
    frame_->graph().scattered_inputs.push_back({value, known ? known->layout.strides : unknown});
  }
  frame_->sizes().add_input(value);
  last_input_ = next_id_;
  return new_tensor(std::move(meta), std::move(shape), value, example.device());
}

c10::SymInt Recording::add_integer(std::string_view name, const Dim& symbol) {
  frame_->sizes().add(symbol, frame_->add_input(name, aten::Type::sym_int(symbol)));
  return to_sym_int(symbol, decisions_);
}

NumberPtr Recording::number_of(const c10::SymNode& node) {
  return to_number(host_.unwrapped(node), decisions_);
}

void Recording::note_read(const Number& number, const aten::Node* reader) {
  if (const auto* call = std::get_if<Number::Call>(&number.is)) {
    for (const NumberPtr& operand : call->operands) note_read(*operand, reader);
  }
  const auto* size = std::get_if<Dim>(&number.is);
  if (!size) return;
  size->for_each_symbol([&](const Dim::Factor& symbol) {
    if (const NumberPtr computed = decisions_.definition(symbol.name)) note_read(*computed, reader);
    const aten::Value* source = program_.find_value(symbol.source);
    // A region has a graph of its own. Its call reads what it captures.
    if (source) size_reads_.add(frame_ == &program_ ? reader : nullptr, source);
  });
}

void Recording::add_output(const c10::IValue& value) {
  std::vector<aten::Argument>& outputs = frame_->graph().outputs;
  if (value.isTensor() && value.toTensor().defined()) {
    outputs.emplace_back(value_of(value.toTensor()));
  } else if (value.isSymInt()) {
    const Dim size = to_dim(value.toSymInt(), decisions_);
    note_read(*make_number(size), nullptr);
    outputs.push_back(frame_->sizes().size(size));
  } else if (value.isSymFloat() || value.isSymBool()) {
    const NumberPtr number = number_of(value.isSymFloat() ? value.toSymFloat().toSymNodeImpl()
                                                          : value.toSymBool().toSymNodeImpl());
    note_read(*number, nullptr);
    outputs.push_back(frame_->sizes().number(*number));
  } else if (value.isInt()) {
    outputs.emplace_back(value.toInt());
  } else if (value.isDouble()) {
    outputs.emplace_back(value.toDouble());
  } else if (value.isBool()) {
    outputs.emplace_back(value.toBool());
  } else if (value.isNone()) {
    outputs.emplace_back();
  } else {
    decisions_.refuse("a result of the program is not a tensor or a number");
  }
}

void Recording::add_mutation(const at::Tensor& buffer, const at::Tensor& value) {
  const ModuleTensor* held = module_.find(buffer);
  if (!held || !aten::is_buffer(held->kind))
    decisions_.refuse("the program replaces a tensor that is not a buffer");
  memories_.note_assignment(buffer);
  constant_of(buffer);
  frame_->graph().mutations.push_back(
      {.target = held->name, .is_buffer = true, .value = value_of(value)});
}

bool Recording::varies(const at::Tensor& tensor) const {
  if (memories_.writes_state()) return true;
  const RecordedTensor* known = recorded(tensor);
  if (!known) return false;
  if (decisions_.counts() && known_tensors_.has_recipe(known->meta())) return false;
  const aten::Value* value = frame_->find_value(known->id());
  return !value || VaryingValues(frame_->graph()).contains(value);
}

at::Tensor Recording::elements(const at::Tensor& tensor, bool shares_memory) {
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecorderKey);
  std::optional<at::Tensor> elements = known_tensors_.elements(tensor);
  if (!elements) decisions_.refuse("the program reads elements that depend on data");
  if (shares_memory) {
    const RecordedTensor* result = recorded(tensor);
    memories_.share_with_array(result ? result->meta() : tensor);
  }
  return *std::move(elements);
}

void Recording::record_decision(const CountedDecision& decision) {
  if (frame_->outer()) decisions_.refuse("a branch or the body of a loop decides on a size");
  frame_->set_location(host_.location());
  const std::string_view relation = operator_of(decision.relation);
  frame_->add_node(std::string(kDecided), {decision.rest, decision.number, std::string(relation),
                                           decision.holds, decision.is_of_empty});
}

// Adds the assertions that the model checks. They may refuse the recording.
void Recording::add_assertions() {
  for (const auto& [text, condition] : decisions_.take_asserted()) {
    aten::Argument argument = frame_->sizes().number(*condition);
    if (aten::equates_count(argument))
      frame_->add_node(aten::kAssertScalar, {std::move(argument), std::string()});
  }
}

std::unique_ptr<aten::Graph> Recording::finish() {
  aten::Graph& graph = program_.graph();
  if (decisions_.reason().empty()) add_assertions();
  if (decisions_.reason().empty()) decisions_.check();
  try {
    aten::check_shape_changes(graph);
  } catch (const ExportError& error) {
    decisions_.note_refusal(error.cause());
  }
  if (alive() != 0) decisions_.note_refusal("the program keeps tensors or sizes of the capture");
  if (decisions_.has_unrecognized_numbers())
    decisions_.note_refusal("code of torch::nn reads dynamic sizes as numbers");
  if (!decisions_.reason().empty()) return nullptr;
  for (const aten::Node* node : graph.nodes) {
    for (aten::Value* output : node->outputs) {
      if (output->type.dim) output->type.dim = decisions_.narrowed(*output->type.dim);
      if (!output->type.shape) continue;
      for (Dim& size : *output->type.shape) size = decisions_.narrowed(size);
    }
  }
  read_inputs_ = size_reads_.inputs_of(graph);
  name_nodes(graph);
  known_tensors_.clear();
  types_.reset();
  return program_.take_graph();
}

const MemoryLayout* Recording::layout_of(const RecordedTensor& tensor) {
  const aten::Value* value = value_in(*frame_, tensor);
  layouts_.settle(value, tensor.meta());
  return layouts_.find(value);
}

const MemoryLayout* layout_of(const RecordedTensor& tensor) {
  return active_recording ? active_recording->layout_of(tensor) : nullptr;
}

ActiveRecording::ActiveRecording(Recording& recording) : generators_(recording.generators()) {
  TORCH_CHECK(!active_recording, "onnx_native records another program on this thread");
  active_recording = &recording;
  generators_.start();
  set_active_decisions(&recording.decisions());
  c10::impl::tls_set_dispatch_key_included(kRecorderKey, true);
}

ActiveRecording::~ActiveRecording() {
  c10::impl::tls_set_dispatch_key_included(kRecorderKey, false);
  set_active_decisions(nullptr);
  generators_.stop();
  active_recording = nullptr;
}

}  // namespace onnx_native::capture
