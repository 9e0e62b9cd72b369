// Runs PyTorch's own operators on constants.
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <limits>
#include <new>

#include "aten/interrupt.h"
#include "readers/jit/interpreter.h"

namespace onnx_native::readers::jit {
namespace {

// The limit on the length of a string, in characters. Padding operators can make any length.
constexpr int64_t kLongestText = 1 << 20;
// An element of a list takes about as much memory as this many characters.
constexpr size_t kCharactersPerElement = 32;
constexpr std::string_view kPaddings[] = {"aten::center", "aten::expandtabs", "aten::ljust",
                                          "aten::rjust", "aten::zfill"};
// PyTorch ends the process if the divisor is 0 or the quotient overflows.
constexpr std::string_view kDivisions[] = {"aten::__range_length", "aten::__round_to_zero_floordiv",
                                           "aten::divmod", "aten::floordiv", "aten::remainder"};
// The operators of the namespace `prim` that the reader may run. The others are internal to
// PyTorch's compiler and do not check their arguments.
constexpr std::string_view kPrimitives[] = {
    "prim::EnumName",   "prim::EnumValue", "prim::IfThenElse", "prim::StringIndex",
    "prim::TupleIndex", "prim::abs",       "prim::index",      "prim::max",
    "prim::min",        "prim::rangelist", "prim::type",       "prim::unchecked_cast"};

template <class List>
bool is_in(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != std::end(list);
}

void check_division(const Call& call) {
  if (!is_in(kDivisions, call.name())) return;
  const std::optional<int64_t> divisor = call.input(call.size() - 1).integer();
  if (divisor == 0) fail(ErrorKind::invalid_program, call.name(), " divides by 0");
  if (divisor == -1 && call.input(0).integer() == std::numeric_limits<int64_t>::min())
    fail(ErrorKind::invalid_program, call.name(), " overflows");
}

// Returns true for a list, dict or object, and for a tuple that has one.
bool has_mutable(const Item& item) {
  const Container* container = item.container();
  return container && (container->kind != Container::Kind::tuple ||
                       std::ranges::any_of(container->items(), has_mutable));
}

bool holds_mutable(const Item& item) {
  const Container* container = item.container();
  return container && std::ranges::any_of(container->items(), has_mutable);
}

std::string text_is_too_long() {
  return concat("a string of the program is longer than ", kLongestText, " characters");
}

}  // namespace

bool Interpreter::can_evaluate(const Call& call) {
  const std::string_view name = call.name();
  return call.schema() && (!name.starts_with("prim::") || is_in(kPrimitives, name)) &&
         std::ranges::all_of(call.inputs, is_known);
}

Items Interpreter::evaluate(const Call& call) {
  const std::string_view name = call.name();
  if (call.node.hasSideEffects() && name != "aten::get_autocast_dtype")
    unsupported(concat(name, " has side effects, so it cannot be exported"));
  if (is_in(kPaddings, name) && call.size() > 1 &&
      call.input(1).integer().value_or(0) > kLongestText)
    unsupported(text_is_too_long());
  check_division(call);
  torch::jit::Stack stack;
  for (size_t i = 0; i < call.size(); ++i) {
    stack.push_back(to_ivalue(call.input(i), call.node.inputs()[i]->type()));
  }
  const torch::jit::Stack given = stack;
  const c10::FunctionSchema& schema = call.node.schema();
  if (schema.is_vararg()) stack.emplace_back(static_cast<int64_t>(call.size()));
  try {
    call.node.getOperation()(stack);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    aten::pass_interrupt();
    fail(ErrorKind::invalid_program, name, " fails: ", error.what());
  }
  for (size_t i = 0; i < call.size(); ++i) {
    if (is_written(schema, i)) write_back(call, i, given[i]);
  }
  Items results;
  for (const c10::IValue& value : stack) {
    if (value.isString() && std::ssize(value.toStringRef()) > kLongestText)
      unsupported(text_is_too_long());
    if (value.isString()) use_memory(value.toStringRef().size() / kCharactersPerElement);
    const auto same = std::ranges::find_if(
        given, [&](const c10::IValue& other) { return value.isPtrType() && value.is(other); });
    if (same != given.end()) {
      results.push_back(call.input(static_cast<size_t>(same - given.begin())));
      continue;
    }
    results.push_back(item(value, "constant"));
    // The result holds copies of the elements, but in the program it aliases them.
    if (has_mutable(results.back()) && std::ranges::any_of(call.inputs, holds_mutable))
      unsupported(concat("cannot export ", name, " of a list that has lists or dicts"));
  }
  return results;
}

bool Interpreter::is_written(const c10::FunctionSchema& schema, size_t i) {
  if (i >= schema.arguments().size()) return false;
  const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
  const auto is_write = [](const c10::AliasInfo& inner) { return inner.isWrite(); };
  return alias && alias->isWrite() && !std::ranges::any_of(alias->containedTypes(), is_write);
}

void Interpreter::write_back(const Call& call, size_t i, const c10::IValue& now) {
  const auto* written = call.input(i).get<ContainerPtr>();
  if (!written) return;
  if (holds_mutable(call.input(i)))
    unsupported(concat("cannot export ", call.name(), " of a list that has lists or dicts"));
  const Item changed = item(now, "constant");
  change(*written) = changed.container()->contents;
}

}  // namespace onnx_native::readers::jit
