#include "aten/refused_call.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <c10/util/safe_numerics.h>

#include <algorithm>
#include <array>
#include <bit>
#include <complex>
#include <exception>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "aten/fault.h"
#include "aten/interrupt.h"
#include "aten/meta_kernels.h"
#include "aten/torch_types.h"

namespace onnx_native::aten {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 24;  // of the arguments of a kernel that computes
constexpr int64_t kFewElements = int64_t{1} << 16;   // of a call that the other kernel accepts
constexpr int64_t kRoom = int64_t{1} << 16;          // elements in the memory behind an operand

// Numbers for the symbol of a call, beside those that the call names. Some have many divisors.
constexpr std::array<int64_t, 9> kSizes{64, 840, 27720, 0, 1, 2, 3, 5, 7};
constexpr std::array<int64_t, 4> kSizesOnCpu{64, 0, 1, 6};
constexpr size_t kMostSizes = 32;

// The elements of the tensors that stand for a call's arguments.
enum class Fill { ones, zeros, varied };
constexpr std::array<Fill, 3> kFills{Fill::varied, Fill::ones, Fill::zeros};

// Thrown if arguments cannot be made of the types.
struct Unknown {};

struct Failed {
  std::string message;
};
struct Ran {
  int64_t elements;  // of all results
};
struct Missing {};   // the kernel
struct Singular {};  // the matrices
using Outcome = std::variant<Unknown, Missing, Singular, Failed, Ran>;

// Makes the arguments of a call of its types.
class Maker {
 public:
  // Makes tensors without elements. `size` stands for the symbol.
  explicit Maker(int64_t size) : size_(size) {}
  // Makes tensors of at most `most` elements together.
  Maker(int64_t size, Fill fill, int64_t most)
      : size_(size), device_(c10::kCPU), fill_(fill), most_(most) {}

  // Makes floats in the place of integers.
  Maker of_floats() && {
    of_floats_ = true;
    return *this;
  }
  // Makes tensors that are a part of a larger memory.
  Maker with_room() && {
    with_room_ = true;
    return *this;
  }

  bool makes_elements() const { return !device_.is_meta(); }

  c10::IValue value_of(const Argument& argument, const SchemaArgument& described) {
    // It would depend on the machine.
    if (described.name == "pin_memory") return {};
    return value_of(argument, described.type);
  }

 private:
  int64_t number_of(const Dim& dim) const {
    if (const auto number = dim.constant()) return *number;
    const auto number =
        dim.evaluate([this](std::string_view /*symbol*/) { return std::optional(size_); });
    if (!number) throw Unknown();
    return *number;
  }

  at::Tensor tensor_of(const Type& type) {
    if (!type.is_tensor() || !type.shape || type.dtype == DType::undefined || type.quantized)
      throw Unknown();
    std::vector<int64_t> sizes;
    int64_t count = 1;
    for (const Dim& dim : *type.shape) {
      sizes.push_back(number_of(dim));
      if (sizes.back() < 0 || c10::mul_overflows(count, sizes.back(), &count)) throw Unknown();
    }
    const bool is_float = of_floats_ && is_integral(type.dtype);
    const auto options = at::TensorOptions()
                             .dtype(is_float ? at::kFloat : to_scalar_type(type.dtype))
                             .device(device_);
    if (!device_.is_meta() && (count > most_ || (elements_ += count) > most_)) throw Unknown();
    int64_t room = 0;
    if (with_room_ && c10::add_overflows(count, kRoom, &room)) throw Unknown();
    if (with_room_) return filled(room, {room}, options).narrow(0, 0, count).view(sizes);
    return filled(count, sizes, options);
  }

  at::Tensor filled(int64_t count, at::IntArrayRef sizes, const at::TensorOptions& options) const {
    if (device_.is_meta()) return at::empty(sizes, options);
    if (fill_ == Fill::ones) return at::ones(sizes, options);
    if (fill_ == Fill::zeros) return at::zeros(sizes, options);
    // Matrices of them are not singular.
    const at::Tensor numbers = at::arange(count, at::kDouble).mul(12.9898).sin().mul(43758.5453);
    return numbers.frac().to(options.dtype()).view(sizes);
  }

  template <class Item>
  c10::IValue list_of(const Argument::List& items, SchemaType type) {
    type.list = type.optional = false;
    c10::List<Item> list;
    for (const Argument& item : items) list.push_back(value_of(item, type).to<Item>());
    return list;
  }

  c10::IValue list_of(const Argument::List& items, const SchemaType& type) {
    switch (type.kind) {
      case TypeKind::tensor:
        return type.optional_elements ? list_of<std::optional<at::Tensor>>(items, type)
                                      : list_of<at::Tensor>(items, type);
      case TypeKind::integer:
      case TypeKind::sym_int:
        return list_of<int64_t>(items, type);
      case TypeKind::floating:
        return list_of<double>(items, type);
      case TypeKind::boolean:
        return list_of<bool>(items, type);
      default:
        throw Unknown();
    }
  }

  c10::IValue value_of(const Argument& argument, const SchemaType& type);

  int64_t size_;
  c10::Device device_ = c10::kMeta;
  Fill fill_ = Fill::zeros;
  int64_t most_ = 0;
  int64_t elements_ = 0;  // of all tensors
  bool of_floats_ = false;
  bool with_room_ = false;
};

c10::IValue enumerated(std::string_view name) {
  if (name == "strided") return c10::Layout::Strided;
  for (const auto format : {c10::MemoryFormat::Contiguous, c10::MemoryFormat::ChannelsLast,
                            c10::MemoryFormat::ChannelsLast3d, c10::MemoryFormat::Preserve}) {
    if (memory_format_name(format) == name) return format;
  }
  throw Unknown();
}

c10::IValue Maker::value_of(const Argument& argument, const SchemaType& type) {
  if (type.kind == TypeKind::device) return device_;
  if (argument.is_none()) return {};
  if (const auto* items = argument.get<Argument::List>()) return list_of(*items, type);
  if (type.list) {
    if (type.fixed_size == 0) throw Unknown();
    return list_of(Argument::List(type.fixed_size, argument), type);
  }
  if (const Value* value = argument.as_value()) {
    if (type.kind == TypeKind::tensor) return tensor_of(value->type);
    // The step of a loop or a number from data need not be what a size is here.
    if (value->type.dim && value->type.dim->is_constant()) return number_of(*value->type.dim);
    throw Unknown();
  }
  if (type.kind == TypeKind::tensor) throw Unknown();  // a number in the place of a tensor
  if (const auto* number = argument.get<int64_t>())
    return type.kind == TypeKind::floating ? c10::IValue(static_cast<double>(*number))
                                           : c10::IValue(*number);
  if (const auto* number = argument.get<double>()) return *number;
  if (const auto* number = argument.get<std::complex<double>>())
    return c10::complex<double>(*number);
  if (const auto* flag = argument.get<bool>()) return *flag;
  if (const auto* dtype = argument.get<DType>()) return to_scalar_type(*dtype);
  if (const auto* text = argument.get<std::string>())
    return type.kind == TypeKind::string ? c10::IValue(*text) : enumerated(*text);
  throw Unknown();
}

// Returns the first line of a message, or two if the first ends with a colon.
std::string first_line(std::string_view text) {
  size_t end = text.find('\n');
  if (end != std::string_view::npos && end > 0 && text[end - 1] == ':')
    end = text.find('\n', end + 1);
  std::string line(text.substr(0, end));
  std::ranges::replace(line, '\n', ' ');
  return line;
}

// True if a kernel says that it takes no integers. Other devices take none either; they may take
// floats that a CPU does not.
bool lacks_integer_kernel(std::string_view message) {
  constexpr std::array<std::string_view, 6> kIntegers{"Long", "Int",  "Short",
                                                      "Char", "Byte", "Bool"};
  return std::ranges::any_of(kIntegers, [&](std::string_view dtype) {
    return message.find(concat("not implemented for '", dtype, "'")) != std::string_view::npos;
  });
}

class Silence : public c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

// True for a call by strides. Its result depends on the memory behind its operand.
bool reads_memory(const Node& call) {
  return call.schema->name.find("as_strided") != std::string::npos;
}

// Returns the overload that takes a tensor in the place of the number, such as add.Tensor for
// add.Scalar, and makes the tensor. The kernel of the latter calls the former, maybe in Python.
c10::OperatorHandle of_tensors(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  constexpr std::string_view kNumber = "Scalar";
  const c10::OperatorName& name = op.operator_name();
  if (!name.overload_name.starts_with(kNumber) || stack.size() < 2 || !stack[0].isTensor() ||
      !stack[1].isScalar())
    return op;
  const std::string overload = "Tensor" + name.overload_name.substr(kNumber.size());
  const auto found = c10::Dispatcher::singleton().findSchema({name.name, overload});
  if (!found || !meta_kernels().contains(*found)) return op;
  stack[1] = at::native::wrapped_scalar_tensor(stack[1].toScalar());
  return *found;
}

// Runs the kernel without elements, in C++ where PyTorch has one.
void run_meta(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const c10::OperatorHandle called = of_tensors(op, stack);
  const auto kernel = meta_kernels().find(called);
  if (kernel == meta_kernels().end()) return op.callBoxed(stack);
  kernel->second.callBoxed(called, c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
}

// Runs the call, without the modes of the exporting thread.
Outcome run(const c10::OperatorHandle& op, const Node& call, Maker maker) {
  const at::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard modes(c10::autocast_dispatch_keyset | c10::python_ks);
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard silent(&silence);
  const std::vector<c10::Argument>& described = op.schema().arguments();
  if (reads_memory(call)) maker = std::move(maker).with_room();
  try {
    torch::jit::Stack stack;
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      stack.push_back(maker.value_of(call.arguments[i], call.schema->arguments[i]));
      if (!stack.back().type()->isSubtypeOf(*described[i].type())) return Unknown();
    }
    if (maker.makes_elements()) {
      op.callBoxed(stack);
    } else {
      run_meta(op, stack);
    }
    int64_t elements = 0;
    for (const c10::IValue& result : stack) {
      if (result.isTensor() && result.toTensor().defined()) elements += result.toTensor().numel();
      if (!result.isTensorList()) continue;
      for (const at::Tensor& tensor : result.toTensorVector()) elements += tensor.numel();
    }
    return Ran{elements};
  } catch (const c10::NotImplementedError& error) {
    std::string line = first_line(error.what_without_backtrace());
    if (lacks_integer_kernel(line)) return Failed{std::move(line)};
    return Missing();
  } catch (const c10::LinAlgError&) {
    return Singular();
  } catch (const c10::Error& error) {
    std::string line = first_line(error.what_without_backtrace());
    // The memory of the program's operand may be larger.
    if (reads_memory(call) && line.find("out of bounds for storage") != std::string::npos)
      return Unknown();
    return Failed{std::move(line)};
  } catch (const std::exception& error) {  // of a kernel in Python
    pass_interrupt();
    if (std::string_view(error.what()).find("NotImplementedError") != std::string_view::npos)
      return Missing();
    return Failed{first_line(error.what())};
  } catch (const Unknown&) {
    return Unknown();
  }
}

// True if the kernel without elements accepts the call, or refuses it for its arguments. A message
// that names meta tensors may have another reason, or differ from that of the kernel that computes.
bool is_decided(const Outcome& outcome) {
  if (std::holds_alternative<Ran>(outcome)) return true;
  const auto* failed = std::get_if<Failed>(&outcome);
  return failed && failed->message.find("meta") == std::string::npos &&
         failed->message.find("Meta") == std::string::npos;
}

// True for a call without attention heads. Kernels divide by their number without a check, which
// ends the process.
bool has_no_heads(const Node& call) {
  for (const char* name : {"num_head", "num_heads"}) {
    const int at = call.schema->index(name);
    const auto* number = at < 0 ? nullptr : call.arguments[at].get<int64_t>();
    if (number && *number == 0) return true;
  }
  return false;
}

// True if the types of its arguments are all that PyTorch knows of a call.
bool is_known(const Node& call) {
  if (!call.schema || call.schema->arguments.size() != call.arguments.size()) return false;
  if (has_no_heads(call)) return false;
  const std::string& name = call.schema->name;
  // A dtype does not say that it is of quantized tensors.
  const bool is_pytorchs = name.starts_with("aten::") || name.starts_with("prims::");
  return is_pytorchs && name.find("quantize") == std::string::npos &&
         !name.starts_with("aten::set_");
}

// Writes what decides whether PyTorch accepts a call. Sizes that are not small stand for any others
// that are equal where they are, unless the call has integers.
class Form {
 public:
  explicit Form(const Node& call) {
    text_ = call.op;
    is_exact_ = std::ranges::any_of(call.arguments, has_integers);
    for (const Argument& argument : call.arguments) add(argument);
  }
  std::string take() && { return std::move(text_); }

 private:
  static bool has_integers(const Argument& argument) {
    if (const auto* items = argument.get<Argument::List>())
      return std::ranges::any_of(*items, has_integers);
    const Value* value = argument.as_value();
    return argument.get<int64_t>() || (value && value->type.dim);
  }

  void add(const Dim& dim) {
    const std::optional<int64_t> number = dim.constant();
    if (number && (is_exact_ || *number <= kSmallSize)) {
      text_ += std::to_string(*number);
      return;
    }
    const size_t at = std::ranges::find(sizes_, dim) - sizes_.begin();
    if (at == sizes_.size()) sizes_.push_back(dim);
    text_ += number ? 'c' : 's';
    text_ += std::to_string(at);
  }

  void add(const Type& type) {
    text_ += concat(static_cast<int>(type.kind), ':', static_cast<int>(type.dtype),
                    type.quantized ? "q" : "");
    if (type.dim) add(*type.dim);
    if (!type.shape) return;
    for (const Dim& dim : *type.shape) {
      text_ += '.';
      add(dim);
    }
  }

  void add(const Argument& argument) {
    text_ += ' ';
    if (const auto* items = argument.get<Argument::List>()) {
      text_ += '[';
      for (const Argument& item : *items) add(item);
      text_ += ']';
    } else if (const Value* value = argument.as_value()) {
      add(value->type);
    } else if (const auto* number = argument.get<int64_t>()) {
      text_ += std::to_string(*number);
    } else if (const auto* real = argument.get<double>()) {
      text_ += concat('r', std::bit_cast<int64_t>(*real));
    } else if (const auto* complex = argument.get<std::complex<double>>()) {
      text_ += concat('j', std::bit_cast<int64_t>(complex->real()), '_',
                      std::bit_cast<int64_t>(complex->imag()));
    } else if (const auto* flag = argument.get<bool>()) {
      text_ += *flag ? 'T' : 'F';
    } else if (const auto* dtype = argument.get<DType>()) {
      text_ += concat('d', static_cast<int>(*dtype));
    } else if (const auto* string = argument.get<std::string>()) {
      text_ += concat('"', *string, '"');
    } else {
      text_ += argument.is_none() ? '-' : '?';
    }
  }

  static constexpr int64_t kSmallSize = 8;
  std::string text_;
  std::vector<Dim> sizes_;
  bool is_exact_ = false;
};

// Remembers the forms of calls that were not refused: kernels in Python take a millisecond, and
// programs repeat their calls.
class Accepted {
 public:
  bool has(const std::string& form) {
    const std::scoped_lock lock(mutex_);
    return forms_.contains(form);
  }
  void add(std::string form) {
    const std::scoped_lock lock(mutex_);
    if (forms_.size() >= kMost) forms_.clear();
    forms_.insert(std::move(form));
  }

 private:
  static constexpr size_t kMost = 10000;
  std::mutex mutex_;
  std::unordered_set<std::string> forms_;
};

Accepted& accepted() {
  static Accepted forms;
  return forms;
}

// A call, and the numbers that its symbol may stand for.
class Trial {
 public:
  static std::optional<Trial> of(const Node& call) {
    if (!is_known(call)) return {};
    const auto op =
        c10::Dispatcher::singleton().findSchema({call.schema->name, call.schema->overload});
    if (!op) return {};
    return Trial(*op, call);
  }

  // Returns the message of a call that fails whatever the symbol is. Several symbols may be related
  // in ways that are not known here.
  std::optional<std::string> message() const {
    if (symbols_.size() > 1) return std::nullopt;
    for (const int64_t size : sizes(kSizes)) {
      const Outcome outcome = run(op_, call_, Maker(size));
      if (std::holds_alternative<Unknown>(outcome)) return std::nullopt;
      const auto* ran = std::get_if<Ran>(&outcome);
      if (!ran && is_decided(outcome)) continue;
      if (ran ? ran->elements > kFewElements : has_large_numbers_) return std::nullopt;
      if (reads_integers() && !takes_floats(size)) return std::nullopt;
      return message_on_cpu(size, kFewElements);
    }
    return message_on_cpu(kSizes[0], kMostElements);
  }

  // Returns the message for one number in the place of all symbols, of the kernel without elements
  // or else of the one that computes; nullopt if neither fails.
  std::optional<std::string> likely_message() const {
    Outcome outcome = run(op_, call_, Maker(kSizes[0]));
    if (std::get_if<Ran>(&outcome) && !draws()) {
      const Fill fill = reads_integers() ? Fill::zeros : Fill::ones;
      outcome = run(op_, call_, Maker(kSizes[0], fill, kMostElements));
    }
    const auto* failed = std::get_if<Failed>(&outcome);
    return failed ? std::optional(failed->message) : std::nullopt;
  }

  bool may_run() const {
    const Outcome outcome = run(op_, call_, Maker(kSizes[0]));
    return std::holds_alternative<Ran>(outcome);
  }

 private:
  Trial(const c10::OperatorHandle& op, const Node& call) : op_(op), call_(call) {
    for (const Argument& argument : call.arguments) learn(argument);
  }

  void learn(const Argument& argument) {
    if (const auto* number = argument.get<int64_t>()) learn(*number);
    if (const auto* items = argument.get<Argument::List>()) {
      for (const Argument& item : *items) learn(item);
    }
    const Value* value = argument.as_value();
    if (!value || !value->type.shape) return;
    has_integers_ = has_integers_ || is_integral(value->type.dtype);
    for (const Dim& dim : *value->type.shape) {
      if (const auto number = dim.constant()) learn(*number);
      for (std::string& symbol : dim.symbols()) {
        if (std::ranges::find(symbols_, symbol) == symbols_.end())
          symbols_.push_back(std::move(symbol));
      }
    }
  }

  void learn(int64_t number) {
    if (number > kFewElements) has_large_numbers_ = true;
    if (number < 0 || number > kMostElements) return;
    for (const int64_t size : {number, number + 1}) {
      if (size > 0 && named_.size() < kMostSizes && std::ranges::find(named_, size) == named_.end())
        named_.push_back(size);
    }
  }

  // Returns the numbers to try for the symbol, those that the call names included.
  std::vector<int64_t> sizes(std::span<const int64_t> some) const {
    if (symbols_.empty()) return {0};
    std::vector<int64_t> all(some.begin(), some.end());
    all.insert(all.end(), named_.begin(), named_.end());
    return all;
  }

  // True if integers among the elements may decide whether the call fails, such as indices.
  bool reads_integers() const { return has_integers_ && !op_.hasTag(at::Tag::pointwise); }

  // True if the kernels take floats in the place of all integers among the elements. None of them
  // is a position or a count of others then: a kernel may read memory at those without a check.
  bool takes_floats(int64_t size) const {
    if (draws()) return false;
    const Outcome outcome = run(op_, call_, Maker(size).of_floats());
    if (is_decided(outcome) && !std::holds_alternative<Ran>(outcome)) return false;
    return std::ranges::any_of(kFills, [&](Fill fill) {
      const Outcome computed = run(op_, call_, Maker(size, fill, kFewElements).of_floats());
      return std::holds_alternative<Ran>(computed) || std::holds_alternative<Singular>(computed);
    });
  }

  // True if the call may draw random numbers: the generator belongs to the user.
  bool draws() const {
    for (const char* name : {"dropout", "dropout_p"}) {
      const int at = call_.schema->index(name);
      if (at < 0) continue;
      const auto* probability = call_.arguments[at].get<double>();
      return !probability || *probability != 0;
    }
    return op_.hasTag(at::Tag::nondeterministic_seeded);
  }

  // Returns the message with which the kernel that computes fails for all elements and sizes that
  // are tried, `first` before the others; nullopt if it does not. It looks at more than the kernel
  // without elements, at the number that fills a tensor for example.
  std::optional<std::string> message_on_cpu(int64_t first, int64_t most) const {
    if (draws()) return std::nullopt;
    std::vector<int64_t> tried = sizes(kSizesOnCpu);
    tried.insert(tried.begin(), first);
    std::optional<std::string> message;
    for (const int64_t size : tried) {
      for (const Fill fill : kFills) {
        const Outcome outcome = run(op_, call_, Maker(size, fill, most));
        const auto* failed = std::get_if<Failed>(&outcome);
        if (!failed || (message && *message != failed->message)) return std::nullopt;
        message = failed->message;
      }
    }
    return message;
  }

  c10::OperatorHandle op_;
  const Node& call_;
  std::vector<std::string> symbols_;
  std::vector<int64_t> named_;      // sizes and integers of the call, and their successors
  bool has_integers_ = false;       // among the elements of its tensors
  bool has_large_numbers_ = false;  // among its arguments and sizes
};

}  // namespace

std::optional<std::string> refusal(const Node& call) {
  if (!is_known(call)) return std::nullopt;
  std::string form = Form(call).take();
  if (accepted().has(form)) return std::nullopt;
  std::optional<std::string> message;
  if (const auto trial = Trial::of(call)) message = trial->message();
  if (!message) accepted().add(std::move(form));
  return message;
}

std::optional<std::string> likely_refusal(const Node& call) {
  const std::optional<Trial> trial = Trial::of(call);
  return trial ? trial->likely_message() : std::nullopt;
}

bool may_run(const Node& call) {
  const std::optional<Trial> trial = Trial::of(call);
  return trial && trial->may_run();
}

void fail_refused(const Node& call, const std::string& message) {
  throw ExportError(ErrorKind::invalid_program,
                    {fault_at(call, "PyTorch rejects this call: " + message)},
                    "check its arguments, and the dtypes and sizes that you stated for the inputs");
}

}  // namespace onnx_native::aten
