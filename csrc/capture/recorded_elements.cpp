// Calls that depend on the elements of tensors: numbers, and sizes that depend on data.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <array>
#include <utility>

#include "aten/hidden_writes.h"
#include "aten/torch_types.h"
#include "capture/call_layouts.h"
#include "capture/meta_arguments.h"
#include "capture/recorded_call.h"
#include "capture/symbolic_size.h"

namespace onnx_native::capture {
namespace {

// Operators that read elements and have results of several axes whose strides this file knows, in
// selected() and indexed(): not a fact about them, so not in aten/op_facts.h.
constexpr std::array<std::string_view, 3> kHasKnownStrides{"aten::index", "aten::nonzero",
                                                           "aten::argwhere"};

constexpr std::string_view kInterleave = "aten::repeat_interleave.self_Tensor";

// Elements of a literal that takes the place of a call; the model computes larger ones.
constexpr int64_t kMostElements = 1 << 16;

bool is_mask(const at::Tensor& index) {
  return index.scalar_type() == c10::kBool || index.scalar_type() == c10::kByte;
}

}  // namespace

bool RecordedCall::reads_elements() const {
  const std::string& name = call_.name();
  if (name == "aten::index") {
    bool found = false;
    for_each_tensor(call_.arguments[1],
                    [&](const at::Tensor& index) { found = found || is_mask(index); });
    return found;
  }
  if (call_.key == kInterleave) return call_.arguments[3].isNone();  // output_size
  return call_.op.hasTag(at::Tag::data_dependent_output) ||
         call_.op.hasTag(at::Tag::dynamic_output_shape) || call_.facts.reads_elements;
}

void RecordedCall::read_elements() {
  const std::string& name = call_.name();
  if (run_on_known()) return;
  if (aten::is_item(*call_.schema)) return record_item();
  if (name == "aten::is_nonzero") {
    stack_.emplace_back(recording_.choose(call_.arguments[0].toTensor()));
    return;
  }
  record_selection();
}

// Runs a call on operands that are known: one that returns a number, or one whose results have
// sizes that depend on the elements of literals. Such results are literals too.
bool RecordedCall::run_on_known() {
  const bool returns_numbers = std::ranges::none_of(call_.schema->returns, [](const auto& result) {
    return result.type.kind == aten::TypeKind::tensor;
  });
  if (symbolic_ || call_.schema->is_mutable()) return false;
  if (!returns_numbers && !call_.has_literals_only()) return false;
  torch::jit::Stack stack;
  for (const c10::IValue& argument : call_.arguments) {
    std::optional<c10::IValue> known = recording_.known_tensors().argument(argument);
    if (!known) return false;
    stack.push_back(std::move(*known));
  }
  call_.op.callBoxed(stack);
  bool is_large = false;
  for (const c10::IValue& result : stack)
    for_each_tensor(result,
                    [&](const at::Tensor& made) { is_large |= made.numel() > kMostElements; });
  if (is_large) return false;
  for (const c10::IValue& result : stack)
    for_each_tensor(
        result, [this](const at::Tensor& made) { recording_.known_tensors().add_literal(made); });
  stack_.insert(stack_.end(), stack.begin(), stack.end());
  return true;
}

// Records a number that the model reads from a tensor.
void RecordedCall::record_item() {
  const at::Tensor& self = call_.arguments[0].toTensor();
  const at::Tensor meta = recording_.meta_of(self);
  const RecordedTensor* known = recorded(self);
  if (meta.numel() != 1 || (known && known->is_symbolic()))
    call_.refuse("the tensor does not have one element at all sizes");
  if (meta.is_complex()) call_.refuse("the program reads a complex number");
  if (meta.scalar_type() == c10::kBool && decisions_.forks()) {
    stack_.emplace_back(recording_.choose(self));
    return;
  }
  const bool is_integer = c10::isIntegralType(meta.scalar_type(), /*includeBool=*/false);
  if (!is_integer && !recording_.takes_symbols())
    call_.refuse("the program depends on the elements of a tensor");
  std::vector<aten::Argument> arguments = read_arguments();
  if (is_integer) {
    const std::optional<Dim> size = recording_.types().get().size(*arguments[0].as_value());
    if (size && !size->is_constant() && decisions_.follows_from_sizes(*size)) {
      stack_.emplace_back(to_sym_int(*size, decisions_));
      return;
    }
  }
  const aten::Value& read = *arguments[0].as_value();
  if (const auto item = is_integer ? recording_.frame().item_of(read) : std::nullopt) {
    stack_.emplace_back(to_sym_int(*item, decisions_));
    return;
  }
  node_ = add_node(std::move(arguments));
  if (!is_integer) {
    const bool is_bool = meta.scalar_type() == c10::kBool;
    aten::Type type;
    type.kind = is_bool ? aten::Type::Kind::sym_bool : aten::Type::Kind::sym_float;
    const NumberPtr number =
        make_number(recording_.frame().graph().add_output(node_, "item", type));
    if (is_bool) {
      stack_.emplace_back(to_sym_bool(number, decisions_));
    } else {
      stack_.emplace_back(to_sym_float(number, decisions_));
    }
    return;
  }
  const std::vector<aten::Type> types = recording_.types().infer(*node_);
  if (types.size() != 1 || !types[0].dim)
    call_.refuse("the program depends on the elements of a tensor");
  const Dim& dim = *types[0].dim;
  aten::Value* value = recording_.frame().graph().add_output(node_, "item", types[0]);
  const std::string number = concat(node_->arguments[0].as_value()->name, ".item()");
  if (const auto same = decisions_.identity(dim.str(), number)) {
    stack_.emplace_back(to_sym_int(*same, decisions_));
    return;
  }
  data_ = true;
  declare_size(dim, std::nullopt);
  if (dim.is_symbol()) recording_.frame().sizes().add(dim, value);
  recording_.frame().item_of(read) = dim;
  stack_.emplace_back(to_sym_int(dim, decisions_));
}

// Declares the symbol of a size or number that depends on data.
void RecordedCall::declare_size(const Dim& size, std::optional<int64_t> stand_in) {
  for (const std::string& name : size.symbols()) {
    if (decisions_.has_symbol(name)) continue;
    if (!size.is_symbol()) call_.refuse("the sizes of the results are not known");
    decisions_.declare_data(name, size.range(), stand_in);
  }
}

// Returns the meta tensor of a result of data-dependent size.
at::Tensor RecordedCall::selected(const aten::Type& type) const {
  std::vector<int64_t> sizes;
  for (const Dim& size : *type.shape) sizes.push_back(*decisions_.stand_in(size));
  const auto options =
      at::TensorOptions().dtype(aten::to_scalar_type(type.dtype)).device(c10::kMeta);
  const std::string& name = call_.name();
  if (name == "aten::nonzero" || name == "aten::argwhere")  // one column after the other
    return at::empty_strided(sizes, {1, sizes[0]}, options);
  return at::empty(sizes, options);
}

// Returns the meta tensor of a tensor indexed by a mask that selects `count` elements.
at::Tensor RecordedCall::indexed(const Dim& count) {
  const std::optional<int64_t> elements = decisions_.stand_in(count);
  const at::Tensor positions =
      at::empty({*elements}, at::TensorOptions().dtype(c10::kLong).device(c10::kMeta));
  c10::List<std::optional<at::Tensor>> indices;
  for (const c10::IValue& item : call_.arguments[1].toListRef()) {
    if (item.isNone() || !item.toTensor().defined()) {
      indices.push_back(std::nullopt);
    } else if (is_mask(item.toTensor())) {
      for (int64_t axis = item.toTensor().dim(); axis-- > 0;) indices.push_back(positions);
    } else {
      indices.push_back(recording_.meta_of(item.toTensor()));
    }
  }
  torch::jit::Stack stack{recording_.meta_of(call_.arguments[0].toTensor()), std::move(indices)};
  call_.op.callBoxed(stack);
  return stack.back().toTensor();
}

// Returns the mask whose true elements a call selects; an undefined tensor for other calls.
at::Tensor RecordedCall::selecting_mask() const {
  std::vector<at::Tensor> masks;
  const std::string& name = call_.name();
  if (name == "aten::nonzero" || name == "aten::nonzero_numpy" || name == "aten::argwhere")
    masks.push_back(call_.arguments[0].toTensor());
  if (name == "aten::index") {
    for_each_tensor(call_.arguments[1], [&](const at::Tensor& index) {
      if (is_mask(index)) masks.push_back(index);
    });
  }
  const bool is_one =
      masks.size() == 1 && recorded(masks[0]) && masks[0].scalar_type() == c10::kBool;
  return is_one ? recording_.meta_of(masks[0]) : at::Tensor();
}

// Records a call whose results have sizes that depend on data, and that the inference knows.
void RecordedCall::record_selection() {
  const bool returns_tensors = std::ranges::all_of(
      call_.schema->returns, [](const auto& r) { return r.type.kind == aten::TypeKind::tensor; });
  if (!returns_tensors) call_.refuse("the program depends on the elements of a tensor");
  node_ = add_node(read_arguments());
  symbolic_ = data_ = true;
  std::vector<aten::Type> types = recording_.types().infer(*node_);
  std::vector<at::Tensor> metas;
  const at::Tensor mask = selecting_mask();
  std::optional<Dim> other;
  std::optional<Dim>& count_of_mask = mask.defined() ? recording_.frame().count_of(mask) : other;
  const std::optional<Dim> known = count_of_mask;
  for (aten::Type& type : types) {
    if (!type.is_tensor() || !type.shape)
      call_.refuse("the program depends on the elements of a tensor");
    std::optional<Dim> count;
    for (Dim& size : *type.shape) {
      const std::vector<std::string> names = size.symbols();
      const bool is_new = std::ranges::any_of(
          names, [this](const std::string& name) { return !decisions_.has_symbol(name); });
      if (!is_new) continue;
      if (known) {
        size = *known;
      } else {
        declare_size(size, std::nullopt);
      }
      count = size;
    }
    if (count) count_of_mask = count;
    const std::string& name = call_.name();
    const bool indexes = name == "aten::index";
    if (indexes && !count) call_.refuse("the program indexes with a constant mask");
    if (type.shape->size() > 1 &&
        std::ranges::find(kHasKnownStrides, name) == kHasKnownStrides.end())
      decisions_.guess_strides();
    metas.push_back(indexes ? indexed(*count) : selected(type));
  }
  record_selection(metas, types);
  if (!known) return;
  for (const aten::Value* made : node_->outputs) recording_.types().get().define(*made);
}

void RecordedCall::record_selection(const std::vector<at::Tensor>& metas,
                                    const std::vector<aten::Type>& types) {
  c10::List<at::Tensor> list;
  settle_operands(call_, *node_);
  for (size_t i = 0; i < metas.size(); ++i) {
    for (size_t axis = 0; axis < types[i].shape->size(); ++axis) {
      if (decisions_.stand_in((*types[i].shape)[axis]) != metas[i].size(static_cast<int64_t>(axis)))
        call_.refuse("the sizes of the results are not eager's");
    }
    if (aten::to_dtype(metas[i].scalar_type()) != types[i].dtype)
      call_.refuse("the dtype of a result is not eager's");
    at::Tensor made = result(metas[i], types[i], i);
    if (call_.schema->returns[0].type.list) {
      list.push_back(std::move(made));
    } else {
      stack_.emplace_back(std::move(made));
    }
  }
  record_layouts(call_, *node_, metas);
  if (call_.schema->returns[0].type.list) stack_.emplace_back(std::move(list));
}

// Returns true if the results follow from constants and weights.
bool RecordedCall::follows_from_constants() const {
  if ((symbolic_ && !decisions_.counts()) || call_.schema->is_mutable() ||
      call_.op.hasTag(at::Tag::nondeterministic_seeded) || call_.facts.uninitialized ||
      aten::updates_statistics(*node_))
    return false;
  bool constant = true;
  for (const c10::IValue& argument : call_.arguments) {
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      const RecordedTensor* result = recorded(tensor);
      constant = constant && (!result || recording_.known_tensors().has_recipe(result->meta()));
    });
    constant = constant && (!symbolic_ || with_counts(argument, nullptr));
  }
  return constant;
}

// Returns an argument with the numbers of sizes that are counted, which are added to `counted`;
// nullopt if it has others.
std::optional<c10::IValue> RecordedCall::with_counts(const c10::IValue& argument,
                                                     Counts* counted) const {
  if (argument.isSymInt()) {
    const Dim size = to_dim(argument.toSymInt(), decisions_);
    if (size.is_constant()) return argument;
    const std::optional<int64_t> number = decisions_.counted(size);
    if (number && counted) counted->emplace_back(size, *number);
    return number ? std::optional<c10::IValue>(*number) : std::nullopt;
  }
  if (argument.isSymFloat() || argument.isSymBool()) return std::nullopt;
  if (!argument.isList()) return argument;
  bool has_sizes = false;
  std::vector<c10::IValue> items;
  for (const c10::IValue& item : argument.toListRef()) {
    std::optional<c10::IValue> known = with_counts(item, counted);
    if (!known) return std::nullopt;
    has_sizes = has_sizes || item.isSymInt();
    items.push_back(*std::move(known));
  }
  if (!has_sizes) return argument;
  std::vector<int64_t> numbers;
  for (const c10::IValue& item : items) numbers.push_back(item.toSymInt().expect_int());
  return c10::IValue(std::move(numbers));
}

void RecordedCall::note_recipes(const std::vector<c10::IValue>& results) {
  std::vector<c10::IValue> arguments;
  Counts counted;
  for (size_t i = 0; i < call_.arguments.size(); ++i) {
    const c10::IValue& given = call_.arguments[i];
    bool has_result = false;
    for_each_tensor(given, [&](const at::Tensor& t) { has_result = has_result || recorded(t); });
    arguments.push_back(has_result  ? meta_argument(call_, given, call_.schema->arguments[i].type)
                        : symbolic_ ? *with_counts(given, &counted)
                                    : given);
  }
  const bool uses_state = !call_.has_literals_only();
  size_t next = 0;
  for (const c10::IValue& result : results)
    for_each_tensor(result, [&](const at::Tensor& meta) {
      recording_.known_tensors().add(KnownTensors::Recipe{.op = call_.op,
                                                          .arguments = arguments,
                                                          .result = next++,
                                                          .meta = meta,
                                                          .uses_state = uses_state,
                                                          .counted = counted,
                                                          .value = {}});
    });
}

}  // namespace onnx_native::capture
