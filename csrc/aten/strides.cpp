#include "aten/strides.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace onnx_native::aten {
namespace {

using Truth = Condition::Truth;

// Returns nullopt if the result depends on sizes.
std::optional<bool> decide(const Condition::Equality& equality) {
  const auto& [a, b, equal] = equality;
  if (a == b) return equal;
  const bool one_is_zero = a.equals(0) || b.equals(0);  // the other is positive
  const Dim difference = a - b;
  if (one_is_zero || difference.is_constant() || difference.known_positive() ||
      (-difference).known_positive()) {
    return !equal;
  }
  return std::nullopt;
}

// Builds a condition clause by clause; omits what is certain.
class Clauses {
 public:
  void begin() {
    clause_.clear();
    holds_ = unknown_ = false;
  }

  void add(Condition::Case all) {
    Condition::Case open;
    for (Condition::Equality& equality : all) {
      if (equality.a.is_constant()) std::swap(equality.a, equality.b);
      const std::optional<bool> known = decide(equality);
      if (known == false) return;
      if (!known) open.push_back(std::move(equality));
    }
    if (open.empty()) {
      holds_ = true;
    } else if (std::ranges::find(clause_, open) == clause_.end()) {
      clause_.push_back(std::move(open));
    }
  }

  // Adds a case whose strides are unknown.
  void add_unknown() { unknown_ = true; }

  void end() {
    if (holds_) return;
    std::ranges::sort(clause_, {}, text);  // so that equal clauses compare equal
    if (unknown_) {
      any_unknown_ = true;
    } else if (clause_.empty()) {
      fails_ = true;
    } else if (std::ranges::find(condition_.clauses, clause_) == condition_.clauses.end()) {
      condition_.clauses.push_back(std::move(clause_));
    }
  }

  static std::string text(const Condition::Case& all) {
    std::string result;
    for (const auto& [a, b, equal] : all) result += a.str() + (equal ? "==" : "!=") + b.str() + ";";
    return result;
  }

  Condition take() {
    condition_.truth = fails_                       ? Truth::fails
                       : any_unknown_               ? Truth::unknown
                       : condition_.clauses.empty() ? Truth::holds
                                                    : Truth::depends;
    return std::move(condition_);
  }

 private:
  Condition condition_;
  Condition::Clause clause_;
  bool holds_ = false, unknown_ = false;
  bool fails_ = false, any_unknown_ = false;
};

// Returns the dimensions in memory order, outermost first.
std::vector<size_t> order_of(size_t rank, std::string_view format) {
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  if (format.starts_with("channels_last") && rank >= 3)
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return order;
}

std::vector<Dim> packed_strides(const Shape& shape, std::string_view format) {
  std::vector<Dim> strides(shape.size(), Dim(1));
  Dim stride = 1;
  const std::vector<size_t> order = order_of(shape.size(), format);
  for (const size_t dim : std::vector(order.rbegin(), order.rend())) {
    strides[dim] = stride;
    stride = stride * shape[dim];
  }
  return strides;
}

Value* add_number(Graph& graph, std::string op, std::vector<Argument> arguments,
                  const Location* location, Type type) {
  Node* node = graph.add_node(std::move(op), std::move(arguments), location);
  return graph.add_output(node, "size", std::move(type));
}

// A stride as an integer factor times an expression without a common factor.
struct Multiple {
  int64_t factor;
  Dim of;
};

Multiple as_multiple(const Dim& stride) {
  int64_t factor = 0;
  for (const Dim::Term& term : stride.terms()) factor = std::gcd(factor, term.coefficient);
  std::vector<Dim::Term> terms = stride.terms();
  for (Dim::Term& term : terms) term.coefficient /= factor;
  return {factor, Dim::from_terms(std::move(terms))};
}

// Returns true if two elements share an address. Only for small tensors of constant sizes and
// strides; returns false for others.
bool any_place_twice(const std::vector<Multiple>& strides,
                     const std::vector<std::optional<int64_t>>& sizes) {
  constexpr size_t kMost = 4096;
  std::vector<int64_t> places{0};
  for (size_t i = 0; i < strides.size(); ++i) {
    const std::optional<int64_t> size = sizes[i];
    if (!size || !strides[i].of.equals(1) || static_cast<size_t>(*size) > kMost / places.size())
      return false;
    const size_t count = places.size();
    for (int64_t step = 1; step < *size; ++step) {
      for (size_t at = 0; at < count; ++at) places.push_back(places[at] + step * strides[i].factor);
    }
  }
  std::ranges::sort(places);
  return std::ranges::adjacent_find(places) != places.end();
}

}  // namespace

std::optional<Layout> contiguous_layout(const Type& type) {
  if (!type.shape) return std::nullopt;
  Layout layout{.strides = {}, .offset = Dim(0)};
  for (Dim& stride : packed_strides(*type.shape, "contiguous_format"))
    layout.strides.emplace_back(std::move(stride));
  return layout;
}

std::optional<Layout> unknown_layout(const Type& type) {
  if (!type.shape) return std::nullopt;
  return Layout{.strides = std::vector<Stride>(type.shape->size()), .offset = {}};
}

namespace {

// Adjacent dimensions that are contiguous with each other.
struct Run {
  Dim numel;
  Dim stride;  // of the innermost one
};

// Returns the runs of a layout with known strides, innermost first.
std::vector<Run> runs_of(const Shape& from, const std::vector<Stride>& strides) {
  std::vector<Run> runs{{1, *strides.back()}};
  for (size_t d = from.size(); d-- > 0;) {
    Run& run = runs.back();
    run.numel = run.numel * from[d];
    if (d > 0 && !from[d - 1].equals(1) && *strides[d - 1] != run.numel * run.stride)
      runs.push_back({1, *strides[d - 1]});
  }
  return runs;
}

}  // namespace

// Follows computeStride in ATen/TensorUtils.cpp. Symbolic sizes of different form are assumed to
// differ. But both shapes have as many elements: if all runs but one have the sizes of some
// dimensions, this one has those of the others.
Layout layout_of_reshape(const Shape& from, const Layout& layout, const Shape& to) {
  Layout unknown{.strides = std::vector<Stride>(to.size()), .offset = layout.offset};
  Layout result = unknown;
  if (from.empty()) {
    std::fill(result.strides.begin(), result.strides.end(), Dim(1));
    return result;
  }
  if (std::ranges::any_of(layout.strides, [](const Stride& stride) { return !stride; }))
    return unknown;
  const std::vector<Run> runs = runs_of(from, layout.strides);
  // Where the dimensions of each run begin and end: the first dimension is the outermost.
  std::vector<std::pair<size_t, size_t>> dims(runs.size());
  size_t inner = 0, end = to.size();
  for (; inner < runs.size(); ++inner) {
    size_t begin = end;
    Dim numel = 1;
    while (begin > 0 && (numel != runs[inner].numel || to[begin - 1].equals(1)))
      numel = numel * to[--begin];
    if (numel != runs[inner].numel) break;
    dims[inner] = {begin, end};
    end = begin;
  }
  size_t begin = 0;
  for (size_t outer = runs.size(); outer-- > inner + 1;) {
    dims[outer].first = begin;
    Dim numel = 1;
    while (begin < end && numel != runs[outer].numel) numel = numel * to[begin++];
    if (numel != runs[outer].numel) return unknown;
    dims[outer].second = begin;
  }
  if (inner < runs.size()) {
    dims[inner] = {begin, end};
  } else if (end != 0) {
    return unknown;
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    Dim stride = runs[i].stride;
    for (size_t d = dims[i].second; d-- > dims[i].first;) {
      result.strides[d] = stride;
      stride = stride * to[d];
    }
  }
  return result;
}

Condition is_contiguous(const Type& type, const Layout& layout, std::string_view format) {
  const Shape& shape = *type.shape;
  const std::vector<Dim> packed = packed_strides(shape, format);
  Clauses clauses;
  for (size_t i = 0; i < shape.size(); ++i) {
    clauses.begin();
    clauses.add({{shape[i], 1}});
    if (const Stride& stride = layout.strides[i]) {
      clauses.add({{*stride, packed[i]}});
    } else {
      clauses.add_unknown();
    }
    clauses.end();
  }
  return clauses.take();
}

std::optional<Layout> layout_of_input(const Graph& graph, const Value* value) {
  for (const ScatteredInput& input : graph.scattered_inputs)
    if (input.value == value) return Layout{.strides = input.strides, .offset = Dim(0)};
  return unknown_layout(value->type);
}

std::optional<std::vector<Stride>> scattered_strides(const Type& type, const Shape& strides) {
  const std::optional<Layout> packed = contiguous_layout(type);
  for (size_t i = 0; i < strides.size(); ++i) {
    if ((*type.shape)[i] != Dim(1) && strides[i] != packed->strides[i])
      return std::vector<Stride>(strides.begin(), strides.end());
  }
  return std::nullopt;
}

bool known_contiguous(const Type& type, const std::optional<Layout>& layout) {
  return layout &&
         is_contiguous(type, *layout, "contiguous_format").truth == Condition::Truth::holds;
}

// If two adjacent dimensions are not contiguous with each other, `to` must have a boundary there
// too. Dimensions of size 1 are skipped.
Condition is_viewable(const Shape& from, const Layout& layout, const Shape& to) {
  const Layout seen = layout_of_reshape(from, layout, to);
  if (std::ranges::all_of(seen.strides, [](const Stride& stride) { return stride.has_value(); }))
    return {};
  std::vector<Dim> boundaries{1};
  for (size_t i = to.size(); i-- > 1;) boundaries.push_back(boundaries.back() * to[i]);
  Clauses clauses;
  Dim inner = 1;  // number of elements from dimension d on
  for (size_t d = from.size(); d-- > 1;) {
    inner = inner * from[d];
    clauses.begin();
    clauses.add({{from[d - 1], 1}});
    for (const Dim& boundary : boundaries) clauses.add({{boundary, inner}});
    Condition::Case ones;  // the dimensions between d - 1 and `next`
    for (size_t next = d; next < from.size(); ++next) {
      if (!from[next].equals(1)) {
        Condition::Case follows = ones;
        follows.push_back({from[next], 1, false});
        const Stride& outer = layout.strides[d - 1];
        const Stride& stride = layout.strides[next];
        if (outer && stride) {
          follows.push_back({*outer, from[next] * *stride});
          clauses.add(std::move(follows));
        } else {
          clauses.add_unknown();
        }
      }
      const Condition::Equality one{from[next], 1};
      if (decide(one) == false) break;
      ones.push_back(one);
    }
    clauses.end();
  }
  return clauses.take();
}

Condition are_equal(const Shape& a, const Shape& b) {
  Clauses clauses;
  for (size_t i = 0; i < a.size(); ++i) {
    clauses.begin();
    clauses.add({{a[i], b[i]}});
    clauses.end();
  }
  return clauses.take();
}

bool is_known_to_not_overlap(const Shape& shape, const Layout& layout) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].equals(1)) continue;
    if (!shape[i].is_constant() || !layout.strides[i] || !layout.strides[i]->is_constant())
      return false;
    dims.emplace_back(*layout.strides[i]->constant(), *shape[i].constant());
  }
  std::ranges::sort(dims);
  int64_t inside = 1;
  for (const auto& [stride, size] : dims) {
    if (stride < inside) return false;
    inside += stride * (size - 1);
  }
  return true;
}

bool is_known_to_overlap(const Shape& shape, const Layout& layout) {
  if (is_empty(shape) || is_known_to_not_overlap(shape, layout)) return false;
  bool all_known = true;
  std::vector<Multiple> strides;
  std::vector<std::optional<int64_t>> sizes;
  for (size_t i = 0; i < shape.size(); ++i) {
    const Stride& stride = layout.strides[i];
    if (shape[i].equals(1)) continue;
    if (stride && stride->equals(0) && shape[i].is_constant()) return true;
    if (!stride || stride->equals(0)) {
      all_known = false;
      continue;
    }
    strides.push_back(as_multiple(*stride));
    sizes.push_back(shape[i].is_constant() ? shape[i].constant() : shape[i].range().high);
  }
  if (all_known && any_place_twice(strides, sizes)) return true;
  for (size_t i = 0; i < strides.size(); ++i) {
    for (size_t j = i + 1; j < strides.size(); ++j) {
      if (!(strides[i].of == strides[j].of)) continue;
      // After `steps` and `others` steps, the two dimensions reach the same address.
      const int64_t common = std::gcd(strides[i].factor, strides[j].factor);
      const int64_t steps = strides[j].factor / common;
      const int64_t others = strides[i].factor / common;
      if (sizes[i].value_or(steps + 1) > steps && sizes[j].value_or(others + 1) > others)
        return true;
    }
  }
  return false;
}

Argument make_size(Graph& graph, const Dim& size, const Location* location) {
  if (const auto number = size.constant()) return *number;
  return add_number(graph, "onnx_native::size", {}, location, Type::sym_int(size));
}

Value* emit(Graph& graph, const Condition& condition, const Location* location) {
  Type boolean;
  boolean.kind = Type::Kind::sym_bool;
  const auto join = [&](const char* op, Value* left, Value* right) {
    return left ? add_number(graph, op, {left, right}, location, boolean) : right;
  };
  Value* all = nullptr;
  for (const Condition::Clause& clause : condition.clauses) {
    Value* any = nullptr;
    for (const Condition::Case& equalities : clause) {
      Value* both = nullptr;
      for (const auto& [a, b, equal] : equalities) {
        both = join("python::and_", both,
                    add_number(graph, equal ? "python::eq" : "python::ne",
                               {make_size(graph, a, location), make_size(graph, b, location)},
                               location, boolean));
      }
      any = join("python::or_", any, both);
    }
    all = join("python::and_", all, any);
  }
  return all;
}

}  // namespace onnx_native::aten
