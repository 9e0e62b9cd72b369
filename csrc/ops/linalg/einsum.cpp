#include <algorithm>
#include <map>
#include <span>
#include <string>

#include "onnx/builder.h"
#include "ops/families.h"
#include "ops/formulas/axes.h"

namespace onnx_native::ops {
namespace {

// The labels of the axes of an operand. A letter is its character code; the dimensions under an
// ellipsis are kEllipsis plus their distance from its end.
constexpr int kEllipsis = 256;
using Labels = std::vector<int>;

struct Term {
  Labels before, after;
  bool ellipsis = false;

  int64_t letters() const { return static_cast<int64_t>(before.size() + after.size()); }
  // Returns all labels of an operand whose ellipsis stands for `covered` dimensions.
  Labels labels(int64_t covered) const {
    Labels all = before;
    for (int64_t i = covered; ellipsis && i-- > 0;) all.push_back(kEllipsis + static_cast<int>(i));
    all.insert(all.end(), after.begin(), after.end());
    return all;
  }
};

std::vector<Term> parse_terms(Builder& b, std::string_view text) {
  std::vector<Term> terms(1);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    Term& term = terms.back();
    if (c == ',') {
      terms.emplace_back();
    } else if (c == '.') {
      b.check(text.substr(i, 3) == "...", "the equation has a dot outside of an ellipsis");
      term.ellipsis = true;
      i += 2;
    } else if (c != ' ') {
      (term.ellipsis ? term.after : term.before).push_back(static_cast<unsigned char>(c));
    }
  }
  return terms;
}

// Returns the output labels of an equation without "->": the ellipsis, then the letters that occur
// once, sorted.
Labels implicit_output(const std::vector<Labels>& operands, int64_t covered) {
  std::map<int, int> counts;
  for (const Labels& labels : operands)
    for (int label : labels) ++counts[label];
  Labels output;
  for (int64_t i = covered; i-- > 0;) output.push_back(kEllipsis + static_cast<int>(i));
  for (const auto& [label, count] : counts)
    if (label < kEllipsis && count == 1) output.push_back(label);
  return output;
}

bool has(const Labels& labels, int label) {
  return std::ranges::find(labels, label) != labels.end();
}

// Returns the distinct labels that are not in `removed`, in order.
Labels without(const Labels& labels, const Labels& removed) {
  Labels left;
  for (int label : labels)
    if (!has(removed, label) && !has(left, label)) left.push_back(label);
  return left;
}

// A tensor and the labels of its axes.
struct Operand {
  Value value;
  Labels labels;

  int64_t axis_of(int label) const { return std::ranges::find(labels, label) - labels.begin(); }
  bool is_empty() const { return onnx_native::is_empty(value->known_shape()); }
  bool may_be_empty() const { return onnx_native::may_be_empty(value->known_shape()); }
  bool has_elements() const {
    return std::ranges::all_of(value->known_shape(),
                               [](const Dim& size) { return size.known_positive(); });
  }
  bool is_one(size_t axis) const { return value->dim(static_cast<int64_t>(axis)).equals(1); }
  // Returns true if an axis with this label can be longer than 1.
  bool spreads(int label) const {
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] == label && !is_one(i)) return true;
    }
    return false;
  }
};
using Operands = std::vector<Operand>;

size_t count_spreading(const Operands& operands, int label) {
  return static_cast<size_t>(
      std::ranges::count_if(operands, [&](const Operand& x) { return x.spreads(label); }));
}

// Returns the sizes of the axes with these labels.
Shape shape_of(const Operands& operands, const Labels& labels) {
  Shape shape;
  for (int label : labels) {
    const auto holder = std::ranges::find_if(
        operands, [&](const Operand& x) { return x.axis_of(label) < x.value->rank(); });
    shape.push_back(holder->value->dim(holder->axis_of(label)));
  }
  return shape;
}

Labels joined(std::initializer_list<std::span<const int>> parts) {
  Labels result;
  for (const std::span<const int> part : parts)
    result.insert(result.end(), part.begin(), part.end());
  return result;
}

// The axes of a MatMul in the order that it needs, and those of its result.
struct MatrixProduct {
  const Operand* left;
  const Operand* right;
  Labels left_labels, right_labels, result_labels;

  // Counts the nodes that put the axes in order; those of constants are folded.
  int64_t transposes(const Labels& output) const {
    const auto moves = [](const Operand& x, const Labels& order) {
      return !x.value->is_constant() && x.labels != order;
    };
    return moves(*left, left_labels) + moves(*right, right_labels) + (result_labels != output);
  }
};

// Returns the product of matrices that sums over one label; nullopt if there is none without a
// Reshape. Axes of `x` alone may precede the batch, along which MatMul broadcasts `y`.
std::optional<MatrixProduct> product_of_matrices(const Operand& x, const Operand& y,
                                                 const Labels& output) {
  const Labels inner = without(x.labels, output);
  Labels batch, rows, columns;
  for (int label : output) {
    if (has(x.labels, label) && has(y.labels, label)) {
      batch.push_back(label);
    } else {
      (has(x.labels, label) ? rows : columns).push_back(label);
    }
  }
  if (inner.size() != 1 || rows.empty() || columns.size() != 1) return std::nullopt;
  const std::span<const int> all(rows);
  const auto leading = all.first(rows.size() - 1), last = all.last(1);
  MatrixProduct product{&x, &y, joined({leading, batch, last, inner}),
                        joined({batch, inner, columns}), joined({leading, batch, last, columns})};
  const bool fits = std::ranges::is_permutation(x.labels, product.left_labels) &&
                    std::ranges::is_permutation(y.labels, product.right_labels);
  return fits ? std::optional(std::move(product)) : std::nullopt;
}

Value permuted(Builder& b, const Operand& x, const Labels& to) {
  Ints axes;
  for (int label : to) axes.push_back(x.axis_of(label));
  return b.transpose(x.value, axes);
}

bool has_matmul(DType dtype) {
  return is_floating(dtype) || dtype == DType::i32 || dtype == DType::i64;
}

// Returns the MatMul of two operands as matrices whose rows and columns are several axes each; null
// if an axis repeats.
Value matmul_of_joined_axes(Builder& b, const Operand& x, const Operand& y, const Labels& output) {
  if (!has_matmul(x.value->dtype)) return nullptr;
  const Labels inner = without(x.labels, output);
  Labels batch, rows, columns;
  for (int label : output)
    (!has(y.labels, label) ? rows : has(x.labels, label) ? batch : columns).push_back(label);
  const auto matrix = [&](const Operand& operand, const Labels& first, const Labels& second) {
    const Labels order = joined({batch, first, second});
    if (!std::ranges::is_permutation(operand.labels, order)) return Value(nullptr);
    Shape shape = shape_of({operand}, batch);
    shape.push_back(numel(shape_of({operand}, first)));
    shape.push_back(numel(shape_of({operand}, second)));
    return b.reshape(permuted(b, operand, order), shape);
  };
  const Value left = matrix(x, rows, inner), right = matrix(y, inner, columns);
  if (!left || !right) return nullptr;
  const Labels order = joined({batch, rows, columns});
  const Value result = b.reshape(b.matmul(left, right), shape_of({x, y}, order));
  return permuted(b, {result, order}, output);
}

// Returns the MatMul of two operands, which runtimes quantize and fuse, or null where Einsum is
// simpler. ONNX Runtime's Einsum divides by the sizes of axes, so that it needs axes of elements.
Value matmul_of(Builder& b, const Operand& x, const Operand& y, const Labels& output) {
  if (!has_matmul(x.value->dtype)) return nullptr;
  std::optional<MatrixProduct> best = product_of_matrices(x, y, output);
  if (std::optional<MatrixProduct> swapped = product_of_matrices(y, x, output);
      swapped && (!best || swapped->transposes(output) < best->transposes(output)))
    best = std::move(swapped);
  if (!best)
    return x.may_be_empty() || y.may_be_empty() ? matmul_of_joined_axes(b, x, y, output) : nullptr;
  const bool has_elements = x.has_elements() && y.has_elements();
  if (has_elements && best->transposes(output) > 1) return nullptr;
  const Value result = b.matmul(permuted(b, *best->left, best->left_labels),
                                permuted(b, *best->right, best->right_labels));
  return permuted(b, {result, best->result_labels}, output);
}

// Returns a tensor with axes of these labels; those that the operand lacks have size 1.
Value spread(Builder& b, const Operand& x, const Labels& to) {
  Labels order;
  Ints added;
  for (size_t i = 0; i < to.size(); ++i) {
    if (has(x.labels, to[i])) {
      order.push_back(to[i]);
    } else {
      added.push_back(static_cast<int64_t>(i));
    }
  }
  return b.unsqueeze(permuted(b, x, order), added);
}

// Emits ReduceSum, Mul, MatMul, or Einsum with a lowercase letter for each label. Casts bool, for
// which ONNX has none of them. A sum of no products is a constant.
Value einsum_of(Builder& b, const Operands& operands, const Labels& output) {
  const auto is_unique = [](const Labels& labels) {
    return without(labels, {}).size() == labels.size();
  };
  if (operands.size() == 1 && is_unique(operands[0].labels) && is_unique(output)) {
    const Operand& x = operands[0];
    const Labels over = without(x.labels, output);
    if (over.empty()) return permuted(b, x, output);
    Ints axes;
    for (int label : over) axes.push_back(x.axis_of(label));
    return permuted(b, {sum_over(b, x.value, axes, /*keepdim=*/false), without(x.labels, over)},
                    output);
  }
  std::map<int, char> letters;
  const auto text = [&](const Labels& labels) {
    std::string result;
    for (int label : labels) {
      const auto at = letters.try_emplace(label, static_cast<char>('a' + letters.size())).first;
      result += at->second;
    }
    return result;
  };
  const DType dtype = operands[0].value->dtype;
  if (std::ranges::any_of(operands, [](const Operand& x) { return x.is_empty(); }))
    return b.full(dtype, 0, shape_of(operands, output));
  if (dtype == DType::boolean) {
    Operands numbers = operands;
    for (Operand& operand : numbers) operand.value = b.cast(operand.value, DType::i32);
    return b.cast(einsum_of(b, numbers, output), dtype);
  }
  if (operands.size() == 2) {
    const Operand &x = operands[0], &y = operands[1];
    const Labels all = without(joined({x.labels, y.labels}), {});
    // Einsum would add the products to 0, which makes 0 of -0.
    if (is_unique(x.labels) && is_unique(y.labels) && std::ranges::is_permutation(all, output))
      return b.Mul(spread(b, x, output), spread(b, y, output));
    if (const Value product = matmul_of(b, x, y, output)) return product;
  }
  Values tensors;
  std::string equation;
  for (size_t i = 0; i < operands.size(); ++i) {
    equation += (i > 0 ? "," : "") + text(operands[i].labels);
    tensors.push_back(operands[i].value);
  }
  equation += "->" + text(output);
  b.check(letters.size() <= 26, "the equation has more than 26 different subscripts");
  return b.op("Einsum", std::move(tensors), {{"equation", equation}});
}

// Squeezes axes of size 1 that broadcast, because ONNX does not specify broadcasting for Einsum,
// and those that sums of one product would drop.
void drop_axes_of_one(Builder& b, Operands& operands, const Labels& output) {
  const Operands before = operands;
  for (Operand& operand : operands) {
    Ints axes;
    Labels kept;
    for (size_t i = 0; i < operand.labels.size(); ++i) {
      const int label = operand.labels[i];
      // A sum of one operand changes its dtype.
      const bool sums_one = operands.size() > 1 && !has(output, label);
      if (operand.is_one(i) && (sums_one || count_spreading(before, label) > 0)) {
        axes.push_back(static_cast<int64_t>(i));
      } else {
        kept.push_back(label);
      }
    }
    if (axes.empty()) continue;
    operand = {b.squeeze(operand.value, axes), kept};
  }
}

// Expands axes of data-dependent sizes, which may be 1, to the size of the others of their label.
void expand_unknown_axes(Builder& b, Operands& operands) {
  std::map<int, std::pair<Dim, bool>> sizes;  // and whether one depends on data
  for (const Operand& operand : operands) {
    for (size_t i = 0; i < operand.labels.size(); ++i) {
      const Dim& size = operand.value->dim(static_cast<int64_t>(i));
      auto& [all, unknown] = sizes.try_emplace(operand.labels[i], size, false).first->second;
      if (all != size) all = Dim::broadcast(all, size);
      unknown |= size.is_symbol() && size.may_be_empty();
    }
  }
  for (Operand& operand : operands) {
    Shape wanted = operand.value->known_shape();
    for (size_t i = 0; i < wanted.size(); ++i) {
      const auto& [all, unknown] = sizes.at(operand.labels[i]);
      if (unknown) wanted[i] = all;
    }
    operand.value = b.expand(operand.value, wanted);
  }
}

// Sums over the labels `over`; sums of integers and bools are int64.
Operand summed(Builder& b, const Operand& x, const Labels& over) {
  if (over.empty()) return x;
  const Labels left = without(x.labels, over);
  const Value value = is_floating(x.value->dtype) ? x.value : b.cast(x.value, DType::i64);
  return {einsum_of(b, {{value, x.labels}}, left), left};
}

// Multiplies two operands and sums over labels of both. The result has the axes of `output` in its
// order, if it has no others. A sum requires equal dtypes, because eager does not promote in
// batched matrix products.
Operand product(Builder& b, Operand x, Operand y, const Labels& over, const Labels& output) {
  if (!over.empty()) {
    b.check(x.value->dtype == y.value->dtype, "cannot sum products of ", name(x.value->dtype),
            " and ", name(y.value->dtype), "; cast both to one dtype");
  }
  const DType dtype = promote_types(x.value->dtype, y.value->dtype);
  x.value = b.cast(x.value, dtype);
  y.value = b.cast(y.value, dtype);
  Labels left = x.labels;
  left.insert(left.end(), y.labels.begin(), y.labels.end());
  left = without(left, over);
  if (std::ranges::is_permutation(left, output)) left = output;
  return {einsum_of(b, {x, y}, left), left};
}

// The pair of operands that ATen contracts next. The result goes to the front of the list, or with
// `result_last` to its end.
struct Pair {
  size_t first = 0, second = 1;
  bool result_last = false;
};

Pair next_pair(Builder& b, const std::optional<Ints>& path, size_t step, size_t count) {
  if (!path) return {};
  b.check(path->size() > 2 * step + 1, "the contraction path is too short: it has ", path->size(),
          " entries");
  const auto [low, high] = std::minmax((*path)[2 * step], (*path)[2 * step + 1]);
  b.check(low >= 0 && low < high && high < static_cast<int64_t>(count),
          "the contraction path contracts operands ", low, " and ", high, ", but there are ", count,
          " operands");
  return {static_cast<size_t>(low), static_cast<size_t>(high), true};
}

// Contracts pair by pair like ATen, because the dtype of integers and the signs of zeros depend on
// the order. A label is summed when no remaining operand needs it.
Value contract(Builder& b, Operands operands, const Labels& output,
               const std::optional<Ints>& path) {
  std::map<int, size_t> uses;
  for (Operand& operand : operands) {
    const Labels unique = without(operand.labels, {});
    if (unique.size() < operand.labels.size())
      operand = {einsum_of(b, {operand}, unique), unique};  // a diagonal
  }
  for (const Operand& operand : operands) {
    for (int label : operand.labels) {
      if (!has(output, label)) uses[label] = count_spreading(operands, label);
    }
  }
  if (operands.size() == 1) {
    return einsum_of(b, {summed(b, operands[0], without(operands[0].labels, output))}, output);
  }
  for (size_t step = 0; operands.size() > 1; ++step) {
    const Pair pair = next_pair(b, path, step, operands.size());
    Operand x = operands[pair.first], y = operands[pair.second];
    operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(pair.second));
    operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(pair.first));
    Labels of_x, of_y, of_both;
    for (auto& [label, count] : uses) {
      const bool in_x = x.spreads(label), in_y = y.spreads(label);
      if (in_x && in_y) {
        if (--count != 1) continue;
        of_both.push_back(label);
        count = 0;
      } else if (count == 1 && (in_x || in_y)) {
        (in_x ? of_x : of_y).push_back(label);
        count = 0;
      }
    }
    Operand result = product(b, summed(b, x, of_x), summed(b, y, of_y), of_both, output);
    operands.insert(pair.result_last ? operands.end() : operands.begin(), std::move(result));
  }
  return einsum_of(b, operands, output);  // the remaining labels have size 1
}

// Labels the operands and returns the labels of the output. An ellipsis can stand for different
// numbers of dimensions in different operands, which ONNX Runtime rejects, so each of its
// dimensions gets its own label.
Labels label_operands(Builder& b, std::string_view equation, Operands& operands) {
  const size_t arrow = equation.find("->");
  const std::vector<Term> terms = parse_terms(b, equation.substr(0, arrow));
  b.check(terms.size() == operands.size(), "the equation has ", terms.size(), " operands, got ",
          operands.size());
  std::vector<Labels> labels;
  int64_t covered = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const int64_t here = operands[i].value->rank() - terms[i].letters();
    labels.push_back(terms[i].labels(here));
    operands[i].labels = labels.back();
    if (terms[i].ellipsis) covered = std::max(covered, here);
  }
  if (arrow == std::string_view::npos) return implicit_output(labels, covered);
  return parse_terms(b, equation.substr(arrow + 2))[0].labels(covered);
}

Value einsum(Builder& b, std::string equation, Values tensors, std::optional<Ints> path) {
  Operands operands;
  for (Value tensor : tensors) operands.push_back({tensor, {}});
  const Labels output = label_operands(b, equation, operands);
  drop_axes_of_one(b, operands, output);
  expand_unknown_axes(b, operands);
  return contract(b, std::move(operands), output, path);
}

}  // namespace

void register_einsum(OpTable& ops) { ops.def("aten::einsum", einsum); }

}  // namespace onnx_native::ops
