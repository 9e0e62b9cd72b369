#include "onnx/builder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <limits>

#include "onnx/kernels.h"
#include "onnx/typing.h"

namespace onnx_native {

int64_t normalize_axis(int64_t axis, int64_t rank) {
  int64_t limit = std::max<int64_t>(rank, 1);
  if (axis < -limit || axis >= limit) onnx::fail_out_of_range(axis, rank);
  return axis < 0 ? axis + limit : axis;
}

Builder::Builder(onnx::Model& model) : model_(model) {
  scopes_.push_back({.graph = model.graph.get()});
}

Value Builder::op(std::string_view op_type, Values inputs, std::vector<onnx::Attribute> attributes,
                  std::string_view domain) {
  return ops(op_type, 1, std::move(inputs), std::move(attributes), domain)[0];
}

Values Builder::ops(std::string_view op_type, size_t outputs, Values inputs,
                    std::vector<onnx::Attribute> attributes, std::string_view domain) {
  while (!inputs.empty() && inputs.back() == nullptr) inputs.pop_back();
  if (domain.empty() && !inputs.empty()) {
    if (auto other = without_kernel(op_type, outputs, inputs, attributes)) return std::move(*other);
  }
  onnx::Node* node =
      graph().add_node(op_type, std::move(inputs), outputs, std::move(attributes), domain);
  node->location = location_;
  onnx::infer(*node, opset());
  for (Value output : node->outputs) bind_sizes(output);
  return node->outputs;
}

// --- Constants.

Value Builder::constant(std::string key, const std::function<TensorData()>& make) {
  auto [it, inserted] = constants_.try_emplace(std::move(key), nullptr);
  if (inserted) it->second = tensor(make());
  return it->second;
}

Value Builder::tensor(TensorData data) {
  return model_.graph->add_initializer("", std::move(data));
}

int64_t Builder::constant_size(double count) const {
  constexpr double kMost = 1 << 26;
  check(count >= 0 && count <= kMost, std::fixed, std::setprecision(0),
        "cannot make a constant of ", count, " elements; the limit is ", kMost);
  return static_cast<int64_t>(count);
}

Value Builder::i64(int64_t value) { return scalar(DType::i64, value); }

Value Builder::i64s(std::span<const int64_t> values) {
  std::string key = "i64[]";
  key.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return constant(std::move(key), [&] {
    return make_tensor(DType::i64, {static_cast<int64_t>(values.size())}, values);
  });
}

Value Builder::scalar(DType dtype, const Number& number) {
  if (number.value()) return cast(number.value(), dtype);
  const Scalar& value = number.constant();
  check(!value.is_complex() || std::get<std::complex<double>>(value.value).imag() == 0,
        "cannot convert the complex number ", value.str(), " to a tensor of dtype ", name(dtype));
  bool integer = is_integral(dtype) && !value.is_floating();
  int64_t i = integer ? wrapped(value.to_int(), dtype) : 0;
  double d = value.to_double();
  // Eager mode rejects such a number too.
  check(!is_integral(dtype) || integer || (d >= lowest_value(dtype) && d < max_value(dtype) + 1),
        "the number ", value.str(), " does not fit a tensor of dtype ", name(dtype));
  if (dtype == DType::boolean) d = d != 0 ? 1 : 0;
  std::string key(name(dtype));
  key.push_back(integer ? 'i' : 'd');
  if (integer)
    key.append(reinterpret_cast<const char*>(&i), sizeof i);
  else
    key.append(reinterpret_cast<const char*>(&d), sizeof d);
  return constant(std::move(key), [&] {
    if (integer) return make_tensor(dtype, {}, std::span<const int64_t>(&i, 1));
    return make_tensor(dtype, {}, std::span<const double>(&d, 1));
  });
}

Value Builder::full(DType dtype, const Number& value, const Shape& shape) {
  Value element = scalar(dtype, value);
  if (shape.empty()) return element;
  if (!value.is_constant()) return expand(element, shape);
  const DType compute = onnx::kernel_dtype("ConstantOfShape", dtype, kernel_opset());
  if (compute != dtype) return cast(full(compute, value, shape), dtype);
  auto attribute = std::make_shared<TensorData>(*element->constant);
  attribute->shape = {1};
  return op("ConstantOfShape", {shape_value(shape)}, {{"value", std::move(attribute)}});
}

// --- Symbolic sizes.

template <class T>
const T* Builder::lookup(std::unordered_map<Dim, T> Scope::*map, const Dim& dim) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto& known = (*scope).*map;
    auto it = known.find(dim);
    if (it != known.end()) return &it->second;
    if (scope->shadowed.empty()) continue;
    for (const std::string& symbol : dim.symbols()) {
      if (std::ranges::find(scope->shadowed, symbol) != scope->shadowed.end()) return nullptr;
    }
  }
  return nullptr;
}

const Dim* Builder::find_solution(const std::string& symbol) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    auto it = scope->solutions.find(symbol);
    if (it != scope->solutions.end()) return &it->second;
    if (std::ranges::find(scope->shadowed, symbol) != scope->shadowed.end()) return nullptr;
  }
  return nullptr;
}

void Builder::bind(const Dim& dim, Value scalar) {
  if (dim.is_constant() || find_source(dim)) return;
  scopes_.back().sources.emplace(dim, Source{scalar, -1});
}

void Builder::bind_sizes(Value tensor) {
  if (!tensor || !tensor->shape) return;
  for (size_t axis = 0; axis < tensor->shape->size(); ++axis) {
    const Dim& dim = (*tensor->shape)[axis];
    // Binds only what is new: a symbol or a broadcast without a source, and expressions of inputs
    // (which have no producer).
    const bool is_new = dim.is_symbol() || dim.is_broadcast() || !tensor->producer;
    if (dim.is_constant() || !is_new || find_source(dim)) continue;
    Scope& scope = scopes_.back();
    scope.sources.emplace(dim, Source{tensor, static_cast<int64_t>(axis)});
    if (dim.is_symbol()) continue;
    const auto& terms = dim.terms();
    bool linear = !terms.empty() && terms.size() <= 2 && terms[0].factors.size() == 1 &&
                  terms[0].factors[0].kind == Dim::Atom::symbol &&
                  (terms.size() == 1 || terms[1].factors.empty());
    if (linear) scope.solutions.emplace(terms[0].factors[0].name, dim);
  }
}

void Builder::refine(Value tensor, Shape shape) { onnx::Typing::refine(*tensor, std::move(shape)); }

void Builder::refine(Value tensor, int64_t axis, const Dim& size) {
  Shape shape = tensor->known_shape();
  shape[normalize_axis(axis, tensor->rank())] = size;
  refine(tensor, std::move(shape));
}

void Builder::declare(Value value, DType dtype, std::optional<Shape> shape) {
  require(value->dtype == DType::undefined, "cannot declare a value that already has a dtype");
  onnx::Typing::set(*value, dtype, std::move(shape));
}

Dim Builder::dim_of(Value scalar, const DimRange& range) {
  if (scalar->contents && scalar->contents->size() == 1) return scalar->contents->front();
  Dim dim = Dim::fresh(range);
  bind(dim, scalar);
  return dim;
}

Value Builder::dim_value(const Dim& dim) {
  if (auto value = dim.constant()) return i64(*value);
  if (const Value* known = lookup(&Scope::sizes, dim)) return *known;
  Value value = nullptr;
  if (const Source* source = find_source(dim)) {
    if (source->axis < 0)
      value = source->value->dtype == DType::i64 ? reshape(source->value, {})
                                                 : reshape(cast(source->value, DType::i64), {});
    else
      value = squeeze(size_vector(dim), {0});
  } else {
    value = lookup(&Scope::vectors, dim) ? squeeze(size_vector(dim), {0}) : compute_size(dim, 0);
  }
  if (!value->contents) onnx::Typing::set_contents(*value, Shape{dim});
  scopes_.back().sizes.emplace(dim, value);
  return value;
}

Value Builder::size_vector(const Dim& dim) {
  if (const Value* known = lookup(&Scope::vectors, dim)) return *known;
  if (auto size = dim.constant()) return i64s({*size});
  Value value = nullptr;
  const Source* source = find_source(dim);
  if (source && source->axis >= 0) {
    Value tensor = source->value;
    int64_t axis = source->axis;
    value = op("Shape", {tensor}, {{"start", axis}, {"end", axis + 1}});
  } else if (source || lookup(&Scope::sizes, dim)) {
    value = unsqueeze(dim_value(dim), {0});
  } else {
    value = compute_size(dim, 1);
  }
  if (!value->contents) onnx::Typing::set_contents(*value, Shape{dim});
  scopes_.back().vectors.emplace(dim, value);
  return value;
}

Value Builder::compute_size(const Dim& dim, int rank) {
  if (dim.is_symbol()) {
    const std::string& symbol = dim.terms()[0].factors[0].name;
    const Dim* known = find_solution(symbol);
    check(known != nullptr, "the size ", symbol, " cannot be computed from the inputs");
    // known = coefficient * symbol + rest
    Dim expression = *known;
    int64_t coefficient = expression.terms()[0].coefficient;
    Dim rest = expression - Dim(coefficient) * dim;
    Value value = size_value(expression, rank);
    if (!rest.equals(0)) value = Sub(value, size_value(rest, rank));
    return coefficient == 1 ? value : Div(value, size_value(coefficient, rank));
  }
  Value sum = nullptr;
  std::vector<Dim::Term> terms = dim.terms();
  // Puts positive terms first, so that a difference becomes a Sub.
  std::stable_partition(terms.begin(), terms.end(),
                        [](const Dim::Term& term) { return term.coefficient > 0; });
  for (Dim::Term& term : terms) {
    if (!sum) {
      sum = term_value(term, rank);
    } else if (term.coefficient < 0 && term.coefficient > std::numeric_limits<int64_t>::min()) {
      term.coefficient = -term.coefficient;
      sum = Sub(sum, term_value(term, rank));
    } else {
      sum = Add(sum, term_value(term, rank));
    }
  }
  return sum;
}

Value Builder::term_value(const Dim::Term& term, int rank) {
  if (term.factors.empty()) return size_value(term.coefficient, rank);
  Value product = nullptr;
  for (const Dim::Factor& factor : term.factors) {
    Value value = factor_value(factor, rank);
    product = product ? Mul(product, value) : value;
  }
  if (term.coefficient == 1) return product;
  return term.coefficient == -1 ? Neg(product) : Mul(product, size_value(term.coefficient, rank));
}

Value Builder::factor_value(const Dim::Factor& factor, int rank) {
  if (factor.kind == Dim::Atom::symbol) return size_value(Dim::of(factor), rank);
  const Dim& a = factor.operands[0];
  const Dim& b = factor.operands[1];
  if (factor.kind == Dim::Atom::max && a == -b) return Abs(size_value(b, rank));
  Value x = size_value(a, rank);
  Value y = size_value(b, rank);
  switch (factor.kind) {
    case Dim::Atom::max:
      return Max(x, y);
    case Dim::Atom::min:
      return Min(x, y);
    case Dim::Atom::broadcast:
      return where(Equal(x, size_value(1, rank)), y, x);
    case Dim::Atom::mod:
      return op("Mod", {x, y});  // has the divisor's sign for integers, like Python's
    default:
      break;
  }
  // ONNX integer division rounds toward zero, Python's toward minus infinity.
  if (a.known_non_negative() && b.known_non_negative()) return Div(x, y);
  return Div(Sub(x, op("Mod", {x, y})), y);
}

Value Builder::shape_value(const Shape& shape) {
  if (auto sizes = constant_shape(shape)) return i64s(*sizes);
  Values pieces;
  for (size_t i = 0; i < shape.size();) {
    size_t end = i;
    std::vector<int64_t> numbers;
    while (end < shape.size() && shape[end].is_constant())
      numbers.push_back(*shape[end++].constant());
    if (end > i) {
      pieces.push_back(i64s(numbers));
      i = end;
      continue;
    }
    // Adjacent sizes of one tensor share one Shape node.
    const Source* source = find_source(shape[i]);
    end = i + 1;
    if (source && source->axis >= 0) {
      Value tensor = source->value;
      int64_t axis = source->axis;
      while (end < shape.size() && axis + static_cast<int64_t>(end - i) < tensor->rank() &&
             !shape[end].is_constant() &&
             tensor->dim(axis + static_cast<int64_t>(end - i)) == shape[end])
        ++end;
      if (end > i + 1) {
        int64_t count = static_cast<int64_t>(end - i);
        pieces.push_back(op("Shape", {tensor}, {{"start", axis}, {"end", axis + count}}));
        i = end;
        continue;
      }
    }
    pieces.push_back(size_vector(shape[i++]));
  }
  Value value = concat(std::move(pieces), 0);
  if (!value->contents) onnx::Typing::set_contents(*value, shape);
  return value;
}

// --- Tasks.

Value Builder::cast(Value tensor, DType dtype) {
  if (tensor->dtype == dtype) return tensor;
  check(opset() >= 19 || dtype < DType::f8e4m3fn, "cannot cast to ", name(dtype),
        " before opset 19; choose a newer opset");
  // Only e4m3fn saturates in PyTorch.
  if (dtype > DType::f8e4m3fn && dtype <= DType::f8e5m2fnuz)
    return op("Cast", {tensor}, {{"to", dtype}, {"saturate", 0}});
  return op("Cast", {tensor}, {{"to", dtype}});
}

Value Builder::reshape(Value tensor, const Shape& shape) {
  const Shape& from = tensor->known_shape();
  if (from == shape) return tensor;
  // A size that stays in place becomes 0, and one other size may become -1, so that the target is
  // constant. Not both at once, because -1 next to the 0 of an empty batch is ambiguous.
  bool empty = is_empty(shape);
  std::vector<int64_t> target;
  int kept = 0;
  int unknown = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (auto size = shape[i].constant()) {
      target.push_back(*size);
    } else if (i < from.size() && from[i] == shape[i]) {
      target.push_back(0);
      ++kept;
    } else {
      target.push_back(-1);
      ++unknown;
    }
  }
  if (!empty && (unknown == 0 || (unknown == 1 && kept == 0))) {
    Value result = op("Reshape", {tensor, i64s(target)});
    refine(result, shape);
    return result;
  }
  std::vector<onnx::Attribute> attributes;
  if (!std::ranges::all_of(shape, [](const Dim& d) { return d.known_positive(); }))
    attributes.push_back({"allowzero", int64_t{1}});
  Value result = op("Reshape", {tensor, shape_value(shape)}, std::move(attributes));
  refine(result, shape);
  return result;
}

Value Builder::flatten(Value tensor, int64_t start, int64_t end) {
  const Shape& shape = tensor->known_shape();
  int64_t rank = static_cast<int64_t>(shape.size());
  if (rank == 0) return reshape(tensor, {1});
  start = normalize_axis(start, rank);
  end = normalize_axis(end, rank);
  check(start <= end, "cannot flatten from dimension ", start, " to ", end,
        ": the start is after the end");
  Shape target(shape.begin(), shape.begin() + start);
  target.push_back(numel(Shape(shape.begin() + start, shape.begin() + end + 1)));
  target.insert(target.end(), shape.begin() + end + 1, shape.end());
  return reshape(tensor, target);
}

Value Builder::expand(Value tensor, const Shape& shape) {
  const Shape& from = tensor->known_shape();
  if (from == shape) return tensor;
  check(from.size() <= shape.size(), "cannot expand ", str(from), " to ", str(shape),
        ", which has a lower rank");
  // An axis that already has its size may be given as 1.
  Shape target = shape;
  size_t offset = shape.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == shape[offset + i]) target[offset + i] = 1;
  }
  Value result = op("Expand", {tensor, shape_value(target)});
  refine(result, shape);
  return result;
}

Value Builder::squeeze(Value tensor, const Ints& axes) {
  if (axes.empty()) return tensor;
  Ints positive;
  for (int64_t axis : axes) positive.push_back(normalize_axis(axis, tensor->rank()));
  if (tensor->rank() == 0) return tensor;
  std::ranges::sort(positive);
  return op("Squeeze", {tensor, i64s(positive)});
}

Value Builder::unsqueeze(Value tensor, const Ints& axes) {
  if (axes.empty()) return tensor;
  int64_t rank = tensor->rank() + static_cast<int64_t>(axes.size());
  Ints positive;
  for (int64_t axis : axes) positive.push_back(normalize_axis(axis, rank));
  std::ranges::sort(positive);
  return op("Unsqueeze", {tensor, i64s(positive)});
}

Value Builder::transpose(Value tensor, const Ints& permutation) {
  Ints perm;
  bool identity = true;
  for (int64_t axis : permutation) {
    perm.push_back(normalize_axis(axis, tensor->rank()));
    identity &= perm.back() == static_cast<int64_t>(perm.size()) - 1;
  }
  if (identity) return tensor;
  return op("Transpose", {tensor}, {{"perm", std::move(perm)}});
}

Value Builder::swap_axes(Value tensor, int64_t a, int64_t b) {
  a = normalize_axis(a, tensor->rank());
  b = normalize_axis(b, tensor->rank());
  if (a == b) return tensor;
  Ints perm(tensor->rank());
  for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
  std::swap(perm[a], perm[b]);
  return transpose(tensor, perm);
}

Value Builder::concat(Values tensors, int64_t axis) {
  if (tensors.size() == 1) return tensors[0];
  check(!tensors.empty(), "cannot concatenate an empty list of tensors");
  axis = normalize_axis(axis, tensors[0]->rank());
  return op("Concat", std::move(tensors), {{"axis", axis}});
}

Value Builder::slice(Value tensor, int64_t axis, const Dim& start, const Dim& end, int64_t step) {
  axis = normalize_axis(axis, tensor->rank());
  const Dim& size = tensor->dim(axis);
  bool from_start = start.equals(0) || (start.is_constant() && size.is_constant() &&
                                        *start.constant() <= -*size.constant());
  bool to_end = end == size || end.constant_or(0) == std::numeric_limits<int64_t>::max() ||
                (size.is_constant() && end.is_constant() && *end.constant() >= *size.constant());
  if (step == 1 && from_start && to_end) return tensor;
  auto bound = [&](const Dim& dim) {
    return dim.is_constant() ? i64s({*dim.constant()}) : size_vector(dim);
  };
  Values inputs{tensor, bound(start), bound(end), i64s({axis})};
  if (step != 1) inputs.push_back(i64s({step}));
  return op("Slice", std::move(inputs));
}

Values Builder::split(Value tensor, int64_t axis, const std::vector<Dim>& sizes) {
  if (sizes.size() == 1) return {tensor};
  check(!sizes.empty(), "cannot split a tensor into no parts");
  axis = normalize_axis(axis, tensor->rank());
  Values parts = ops("Split", sizes.size(), {tensor, shape_value(sizes)}, {{"axis", axis}});
  // Inference does not follow the contents of long lists.
  for (size_t i = 0; i < parts.size(); ++i) refine(parts[i], axis, sizes[i]);
  return parts;
}

Value Builder::select(Value tensor, int64_t axis, const Dim& index) {
  return gather(tensor, dim_value(index), normalize_axis(axis, tensor->rank()));
}

Value Builder::reduce(std::string_view op_type, Value tensor, const Ints& axes, bool keepdims) {
  Ints positive;
  for (int64_t axis : axes) positive.push_back(normalize_axis(axis, tensor->rank()));
  std::ranges::sort(positive);
  Values inputs{tensor};
  if (!positive.empty() && tensor->rank() > 0) inputs.push_back(i64s(positive));
  return op(op_type, std::move(inputs), {{"keepdims", int64_t{keepdims}}});
}

Value Builder::range(const Dim& start, const Dim& end, const Dim& step) {
  return op("Range", {dim_value(start), dim_value(end), dim_value(step)});
}

Value Builder::pad(Value tensor, const std::vector<Dim>& begins_then_ends, Value value,
                   std::string_view mode) {
  if (std::ranges::all_of(begins_then_ends, [](const Dim& d) { return d.equals(0); }))
    return tensor;
  return op("Pad", {tensor, shape_value(begins_then_ends), value}, {{"mode", std::string(mode)}});
}

// --- Subgraphs.

std::shared_ptr<onnx::Graph> Builder::subgraph(std::string_view name,
                                               const std::function<Values()>& body) {
  auto inner = std::make_shared<onnx::Graph>(&graph());
  inner->name = name;
  scopes_.push_back(
      {.graph = inner.get(), .sources = {}, .solutions = {}, .sizes = {}, .vectors = {}});
  struct Leave {
    std::vector<Scope>& scopes;
    ~Leave() { scopes.pop_back(); }
  } leave{scopes_};
  Values results = body();
  for (Value& result : results) {
    // A result must be produced in the body, and may appear only once.
    bool foreign = result->graph != inner.get() || result->producer == nullptr;
    if (foreign || std::ranges::find(inner->outputs, result) != inner->outputs.end())
      result = Identity(result);
    inner->outputs.push_back(result);
  }
  return inner;
}

void Builder::scoped(const std::function<void()>& body) {
  scopes_.push_back({.graph = &graph()});
  struct Leave {
    std::vector<Scope>& scopes;
    ~Leave() { scopes.pop_back(); }
  } leave{scopes_};
  body();
}

void Builder::shadow(const Dim& symbol, Value scalar) {
  Scope& scope = scopes_.back();
  for (std::string& name : symbol.symbols()) scope.shadowed.push_back(std::move(name));
  scope.sources.insert_or_assign(symbol, Source{scalar, -1});
}

Values Builder::if_else(Value condition, const std::function<Values()>& then_body,
                        const std::function<Values()>& else_body) {
  auto then_branch = subgraph("then", then_body);
  auto else_branch = subgraph("else", else_body);
  size_t results = then_branch->outputs.size();
  check(results == else_branch->outputs.size(), "the branches have ", results, " and ",
        else_branch->outputs.size(), " results");
  return ops("If", results, {condition},
             {{"then_branch", std::move(then_branch)}, {"else_branch", std::move(else_branch)}});
}

}  // namespace onnx_native
