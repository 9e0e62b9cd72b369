// Products of matrices and tensors.
#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "onnx/infer_rules.h"

namespace onnx_native::onnx {
namespace {

// Returns the shape of numpy.matmul of inputs `first` and `second`.
std::optional<Shape> matmul_shape(const Inference& i, size_t first, size_t second) {
  const Shape* left = i.shape(first);
  const Shape* right = i.shape(second);
  if (!left || !right) return std::nullopt;
  if (left->empty() || right->empty()) i.fail("an input has rank 0");
  const bool left_vector = left->size() == 1;
  const bool right_vector = right->size() == 1;
  i.unify(left->back(), right_vector ? right->front() : (*right)[right->size() - 2]);
  const Shape left_batch(left->begin(), left_vector ? left->begin() : left->end() - 2);
  const Shape right_batch(right->begin(), right_vector ? right->begin() : right->end() - 2);
  Shape result = broadcast(left_batch, right_batch);
  if (!left_vector) result.push_back((*left)[left->size() - 2]);
  if (!right_vector) result.push_back(right->back());
  return result;
}

void matmul(Inference& i) {
  i.same_dtype(0, 1);
  i.set(0, i.dtype(0), matmul_shape(i, 0, 1));
}

void matmul_integer(Inference& i) { i.set(0, DType::i32, matmul_shape(i, 0, 1)); }

// a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point
void quantized_matmul(Inference& i) { i.set(0, i.dtype(7), matmul_shape(i, 0, 3)); }

void gemm(Inference& i) {
  i.same_dtype(0, 1);
  i.expect_rank(0, 2);
  i.expect_rank(1, 2);
  const Shape* a = i.shape(0);
  const Shape* b = i.shape(1);
  const bool transpose_a = i.attribute("transA", 0) != 0;
  const bool transpose_b = i.attribute("transB", 0) != 0;
  if (a && b) i.unify((*a)[transpose_a ? 0 : 1], (*b)[transpose_b ? 1 : 0]);
  i.set(0, i.dtype(0),
        Shape{a ? (*a)[transpose_a ? 1 : 0] : i.unknown(0, 2, 0),
              b ? (*b)[transpose_b ? 0 : 1] : i.unknown(0, 2, 1)});
}

// The sizes of an equation's letters and of its ellipsis.
struct Einsum {
  std::array<std::optional<Dim>, 128> sizes;
  std::array<int, 128> uses{};
  Shape ellipsis;
};

void bind_term(const Inference& i, std::string_view term, const Shape& shape, Einsum& known) {
  const size_t dots = term.find("...");
  const size_t letters = term.size() - (dots == std::string_view::npos ? 0 : 3);
  if (letters > shape.size()) i.fail("a term has more letters than its input has dimensions");
  size_t axis = 0;
  for (size_t at = 0; at < term.size();) {
    if (at == dots) {
      const size_t covered = shape.size() - letters;
      const auto begin = shape.begin() + static_cast<std::ptrdiff_t>(axis);
      known.ellipsis =
          broadcast(known.ellipsis, Shape(begin, begin + static_cast<std::ptrdiff_t>(covered)));
      axis += covered;
      at += 3;
      continue;
    }
    const auto letter = static_cast<size_t>(term[at++]);
    if (letter >= known.sizes.size()) i.fail("the equation is not ASCII");
    auto& size = known.sizes[letter];
    const Dim& dim = shape[axis++];
    size = size ? broadcast({*size}, {dim})[0] : dim;
  }
}

void einsum(Inference& i) {
  std::string equation = i.node().attribute_string("equation", "");
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  const std::string_view left = std::string_view(equation).substr(0, arrow);
  Einsum known;
  size_t begin = 0;
  for (size_t input = 0; input < i.num_inputs(); ++input) {
    i.same_dtype(0, input);
    if (begin > left.size()) i.fail("the equation has fewer terms than there are inputs");
    const size_t end = std::min(left.find(',', begin), left.size());
    const std::string_view term = left.substr(begin, end - begin);
    const Shape* shape = i.shape(input);
    if (!shape) {
      i.set(0, i.dtype(0), std::nullopt);
      return;
    }
    bind_term(i, term, *shape, known);
    begin = end + 1;
  }
  for (const char letter : left) {
    if (std::isalpha(static_cast<unsigned char>(letter))) ++known.uses[static_cast<size_t>(letter)];
  }
  Shape result;
  const auto push = [&](char letter) {
    const auto& size = known.sizes[static_cast<size_t>(letter) % known.sizes.size()];
    if (!size) i.fail("a letter of the output appears in no input");
    result.push_back(*size);
  };
  if (arrow == std::string::npos) {
    result = known.ellipsis;
    for (char letter = 'A'; letter <= 'z'; ++letter) {
      if (known.uses[static_cast<size_t>(letter)] == 1) push(letter);
    }
  } else {
    const std::string_view right = std::string_view(equation).substr(arrow + 2);
    for (size_t at = 0; at < right.size(); ++at) {
      if (right[at] == '.') {
        result.insert(result.end(), known.ellipsis.begin(), known.ellipsis.end());
        at += 2;
      } else {
        push(right[at]);
      }
    }
  }
  i.set(0, i.dtype(0), std::move(result));
}

void determinant(Inference& i) {
  std::optional<Shape> result = i.in(0).shape;
  if (result) {
    if (result->size() < 2) i.fail("the input has rank ", result->size(), ", expected at least 2");
    result->resize(result->size() - 2);
  }
  i.set(0, i.dtype(0), std::move(result));
}

}  // namespace

void add_linear_rules(Rules& rules) {
  rules["Det"] = determinant;
  rules["Einsum"] = einsum;
  rules["Gemm"] = gemm;
  rules["MatMul"] = matmul;
  rules["MatMulInteger"] = matmul_integer;
  rules["QLinearMatMul"] = quantized_matmul;
}

}  // namespace onnx_native::onnx
