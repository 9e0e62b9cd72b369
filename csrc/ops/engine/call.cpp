#include "ops/engine/call.h"

#include <algorithm>

#include "aten/result_type.h"

namespace onnx_native::ops {
namespace {

// Returns true if `list` does not match a fixed-size argument such as `int[2]`. An empty list is
// valid if it is the default. `int[1]` accepts any length.
bool has_wrong_size(const aten::Node& node, size_t i, const aten::Argument::List& list) {
  if (!node.schema || i >= node.schema->arguments.size()) return false;
  const int fixed = node.schema->arguments[i].type.fixed_size;
  if (fixed < 2 || list.size() == static_cast<size_t>(fixed)) return false;
  const auto* by_default = aten::default_arguments(*node.schema)[i].get<aten::Argument::List>();
  return !list.empty() || !by_default || !by_default->empty();
}

// Returns true if `v` is a Python float that the model holds in a dtype other than the default one.
bool is_wide_float(const aten::Value& v, DType dtype) {
  return v.type.kind == aten::Type::Kind::sym_float && is_floating(dtype) &&
         dtype != default_dtype();
}

bool fits_32_bits(int64_t n) { return n == static_cast<int32_t>(n); }

}  // namespace

const Lowered& find_lowered(const Environment& environment, const aten::Value& value) {
  const auto at = environment.find(&value);
  if (at == environment.end())
    fail(ErrorKind::internal, "%", value.name, " is used before it is defined");
  if (!at->second.value && !at->second.dim)
    fail(ErrorKind::unsupported, "%", value.name,
         " is neither a tensor nor a number, or a result that its operator does not compute");
  return at->second;
}

const aten::Argument& Call::argument(size_t i) const {
  if (i >= node_.arguments.size())
    fail(ErrorKind::invalid_program, "argument ", i, " of ", node_.op, " is missing");
  return node_.arguments[i];
}

std::string_view Call::argument_name(size_t i) const {
  if (node_.schema && i < node_.schema->arguments.size()) return node_.schema->arguments[i].name;
  return "argument";
}

void Call::wrong(size_t i, std::string_view expected) const {
  fail(ErrorKind::unsupported, "argument `", argument_name(i), "` must be ", expected);
}

bool Call::is_none(size_t i) const { return argument(i).is_none(); }

Value Call::as_tensor(size_t i, const aten::Argument& argument, DType number_dtype) const {
  auto or_kind = [&](DType kind) { return number_dtype == DType::undefined ? kind : number_dtype; };
  if (aten::Value* v = argument.as_value()) {
    const Lowered& known = lowered(v);
    if (known.value) {
      if (number_dtype == DType::undefined && is_wide_float(*v, known.value->dtype))
        return builder_.cast(known.value, default_dtype());
      return v->type.is_tensor() || number_dtype == DType::undefined
                 ? known.value
                 : builder_.cast(known.value, number_dtype);
    }
    if (known.dim) {
      if (auto constant = known.dim->constant())
        return builder_.scalar(or_kind(DType::i64), *constant);
      return builder_.cast(builder_.dim_value(*known.dim), or_kind(DType::i64));
    }
  }
  if (const auto* n = argument.get<int64_t>()) return builder_.scalar(or_kind(DType::i64), *n);
  if (const auto* n = argument.get<double>()) return builder_.scalar(or_kind(default_dtype()), *n);
  if (const auto* n = argument.get<bool>()) return builder_.scalar(or_kind(DType::boolean), *n);
  if (const auto* n = argument.get<std::complex<double>>())
    return builder_.scalar(or_kind(complex_dtype(default_dtype())), *n);
  wrong(i, "a tensor");
}

Value Call::tensor(size_t i, DType number_dtype) const {
  return as_tensor(i, argument(i), number_dtype);
}

std::vector<std::optional<Value>> Call::optional_tensors(size_t i) const {
  const auto* list = argument(i).get<aten::Argument::List>();
  if (!list) wrong(i, "a list of tensors");
  std::vector<std::optional<Value>> tensors;
  for (const auto& element : *list) {
    if (element.is_none())
      tensors.emplace_back(std::nullopt);
    else
      tensors.emplace_back(as_tensor(i, element, DType::undefined));
  }
  return tensors;
}

Values Call::tensors(size_t i) const {
  const auto* list = argument(i).get<aten::Argument::List>();
  if (!list) wrong(i, "a list of tensors");
  Values tensors;
  for (const auto& element : *list) tensors.push_back(as_tensor(i, element, DType::undefined));
  return tensors;
}

Dim Call::as_dim(size_t i, const aten::Argument& argument) const {
  if (const auto* n = argument.get<int64_t>()) return *n;
  if (const auto* n = argument.get<bool>()) return int64_t{*n};
  if (aten::Value* v = argument.as_value()) {
    const Lowered& known = lowered(v);
    if (known.dim) return *known.dim;
    if (known.value && (is_integral(known.value->dtype) || known.value->dtype == DType::boolean))
      return builder_.dim_of(known.value);
  }
  wrong(i, "an integer");
}

int64_t Call::integer(size_t i) const {
  auto constant = dim(i).constant();
  if (!constant) wrong(i, "a constant integer, not a symbolic size");
  if (!fits_32_bits(*constant)) wrong(i, "a 32-bit integer");
  return *constant;
}

Dim Call::dim(size_t i) const { return as_dim(i, argument(i)); }

Shape Call::shape(size_t i) const {
  const auto& value = argument(i);
  if (const auto* list = value.get<aten::Argument::List>()) {
    if (has_wrong_size(node_, i, *list)) wrong(i, node_.schema->arguments[i].type.str);
    Shape shape;
    for (const auto& element : *list) shape.push_back(as_dim(i, element));
    return shape;
  }
  // A single number stands for a list of one element, or of the schema's fixed size.
  size_t count = 1;
  if (node_.schema && i < node_.schema->arguments.size())
    count = std::max(1, node_.schema->arguments[i].type.fixed_size);
  return Shape(count, as_dim(i, value));
}

Ints Call::integers(size_t i) const {
  auto sizes = constant_shape(shape(i));
  if (!sizes) wrong(i, "a list of constant integers, without symbolic sizes");
  if (!std::ranges::all_of(*sizes, fits_32_bits)) wrong(i, "a list of 32-bit integers");
  return *sizes;
}

Number Call::as_number(size_t i, const aten::Argument& argument) const {
  if (const auto* n = argument.get<int64_t>()) return *n;
  if (const auto* n = argument.get<double>()) return *n;
  if (const auto* n = argument.get<bool>()) return *n;
  if (const auto* n = argument.get<std::complex<double>>()) return *n;
  const aten::Value* value = argument.as_value();
  if (!value) wrong(i, "a number");
  const Lowered& known = lowered(value);
  if (known.dim && known.dim->is_constant()) return *known.dim->constant();
  return {builder_, known.dim ? builder_.dim_value(*known.dim) : known.value, argument_name(i)};
}

Number Call::any_number(size_t i) const { return as_number(i, argument(i)); }

std::vector<Number> Call::any_numbers(size_t i) const {
  const auto* list = argument(i).get<aten::Argument::List>();
  if (!list) return {any_number(i)};
  std::vector<Number> numbers;
  for (const auto& element : *list) numbers.push_back(as_number(i, element));
  return numbers;
}

Scalar Call::scalar(size_t i) const { return any_number(i).constant(); }

std::vector<Scalar> Call::scalars(size_t i) const {
  std::vector<Scalar> numbers;
  for (const Number& number : any_numbers(i)) numbers.push_back(number.constant());
  return numbers;
}

double Call::number(size_t i) const { return scalar(i).to_double(); }

std::vector<double> Call::numbers(size_t i) const {
  std::vector<double> numbers;
  for (const Scalar& n : scalars(i)) numbers.push_back(n.to_double());
  return numbers;
}

bool Call::boolean(size_t i) const {
  const auto& value = argument(i);
  if (const auto* b = value.get<bool>()) return *b;
  if (const auto* n = value.get<int64_t>()) return *n != 0;
  wrong(i, "a constant bool");
}

std::vector<bool> Call::booleans(size_t i) const {
  const auto* list = argument(i).get<aten::Argument::List>();
  if (!list) return {boolean(i)};
  std::vector<bool> flags;
  for (const auto& element : *list) {
    const auto* b = element.get<bool>();
    if (!b) wrong(i, "a list of constant bools");
    flags.push_back(*b);
  }
  return flags;
}

std::string Call::string(size_t i) const {
  const auto* s = argument(i).get<std::string>();
  if (!s) wrong(i, "a string");
  return *s;
}

DType Call::dtype(size_t i) const {
  const auto* dtype = argument(i).get<DType>();
  if (!dtype) wrong(i, "a dtype");
  return *dtype;
}

Lowered Call::as_lowered(size_t i, const aten::Argument& argument) const {
  if (aten::Value* v = argument.as_value()) return lowered(v);
  if (const auto* n = argument.get<int64_t>()) return Dim(*n);
  return as_tensor(i, argument, DType::undefined);
}

Results Call::elements(size_t i) const {
  const auto* list = argument(i).get<aten::Argument::List>();
  if (!list) return {as_lowered(i, argument(i))};
  Results elements;
  for (const auto& element : *list) elements.push_back(as_lowered(i, element));
  return elements;
}

const aten::Graph& Call::body(size_t i) const {
  const auto* body = argument(i).get<std::shared_ptr<aten::Graph>>();
  if (!body) wrong(i, "a subgraph");
  return **body;
}

DType Call::result_type_of(const std::vector<size_t>& arguments) const {
  aten::ResultType result;
  const auto add_value = [&](const aten::Value* v) {
    const Lowered& known = lowered(v);
    if (known.dim) return result.add_number(DType::i64);
    const DType dtype = known.value->dtype;
    if (v->type.is_tensor() || v->type.kind == aten::Type::Kind::unknown)
      return result.add_tensor(dtype, known.value->rank_or(-1) != 0);
    result.add_number(is_floating(dtype) ? default_dtype() : dtype);
  };
  const auto add = [&](const aten::Argument& argument) {
    if (const aten::Value* v = argument.as_value()) return add_value(v);
    if (argument.get<int64_t>()) return result.add_number(DType::i64);
    if (argument.get<double>()) return result.add_number(default_dtype());
    if (argument.get<bool>()) return result.add_number(DType::boolean);
    if (argument.get<std::complex<double>>()) result.add_number(complex_dtype(default_dtype()));
  };
  for (size_t i : arguments) {
    if (const auto* list = argument(i).get<aten::Argument::List>()) {
      for (const auto& element : *list) add(element);
    } else {
      add(argument(i));
    }
  }
  return result.get();
}

DType float_dtype(DType dtype) {
  return is_floating(dtype) || is_complex(dtype) ? dtype : default_dtype();
}

}  // namespace onnx_native::ops
