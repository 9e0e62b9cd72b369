#include "api/complex_types.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "aten/default_dtype.h"
#include "aten/visit.h"
#include "ops/engine/lower.h"

namespace onnx_native {
namespace {

constexpr unsigned kAll = ~0u;

// The results that are real although the call has complex tensors: bit i is result i.
unsigned real_results(std::string_view name) {
  static constexpr std::pair<std::string_view, unsigned> kReal[] = {
      {"aten::_fft_c2r", kAll},
      {"aten::_linalg_eigh", 1u << 0},
      {"aten::_linalg_slogdet", 1u << 1},
      {"aten::_linalg_svd", 1u << 1},
      {"aten::abs", kAll},
      {"aten::angle", kAll},
      {"aten::fft_hfft", kAll},
      {"aten::fft_hfft2", kAll},
      {"aten::fft_hfftn", kAll},
      {"aten::fft_irfft", kAll},
      {"aten::fft_irfft2", kAll},
      {"aten::fft_irfftn", kAll},
      {"aten::imag", kAll},
      {"aten::istft", kAll},
      {"aten::linalg_cond", kAll},
      {"aten::linalg_eigh", 1u << 0},
      {"aten::linalg_eigvalsh", kAll},
      {"aten::linalg_matrix_norm", kAll},
      {"aten::linalg_norm", kAll},
      {"aten::linalg_slogdet", 1u << 1},
      {"aten::linalg_svd", 1u << 1},
      {"aten::linalg_svdvals", kAll},
      {"aten::linalg_vector_norm", kAll},
      {"aten::norm", kAll},
      {"aten::real", kAll},
      {"aten::slogdet", 1u << 1},
      {"aten::std", kAll},
      {"aten::svd", 1u << 1},
      {"aten::var", kAll},
      {"aten::view_as_real", kAll},
  };
  const auto* at = std::ranges::find(kReal, name, &std::pair<std::string_view, unsigned>::first);
  return at == std::end(kReal) ? 0 : at->second;
}

// Whether the call gives complex tensors of real ones.
bool makes_complex(const aten::Node& node, std::string_view name) {
  if (name == "aten::stft") {
    const auto at = static_cast<size_t>(node.schema->index("return_complex"));
    const auto* asked = at < node.arguments.size() ? node.arguments[at].get<bool>() : nullptr;
    return asked && *asked;
  }
  if (name.starts_with("aten::fft_"))
    return real_results(name) == 0 && !name.ends_with("shift") && !name.ends_with("freq");
  static constexpr std::string_view kNames[] = {
      "aten::_fft_r2c",   "aten::_linalg_eigvals", "aten::chalf", "aten::complex",
      "aten::linalg_eig", "aten::linalg_eigvals",  "aten::polar", "aten::view_as_complex"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

// The common dtype of tensors; those with dimensions decide.
DType common_dtype(const std::vector<const aten::Value*>& tensors) {
  std::optional<DType> common;
  for (const bool scalars : {false, true}) {
    for (const aten::Value* tensor : tensors) {
      const DType dtype = tensor->type.dtype;
      const bool scalar = tensor->type.shape && tensor->type.shape->empty();
      if (scalar != scalars || dtype == DType::undefined) continue;
      if (!is_floating(dtype) && !is_complex(dtype)) continue;
      common = common ? promote_types(*common, dtype) : dtype;
    }
    if (common) break;
  }
  return common.value_or(aten::default_dtype());
}

}  // namespace

DType recorded_dtype(const aten::Node& node, size_t result) {
  if (!node.schema) return DType::undefined;
  const std::string_view name = node.schema->name;
  const bool of_complex = ops::key_of(node) == ops::Key::complex;
  const bool is_real = (real_results(name) >> result & 1) != 0;
  std::vector<const aten::Value*> tensors;
  for (const aten::Argument& argument : node.arguments) {
    if (const auto* dtype = argument.get<DType>()) {
      if (!of_complex && !is_complex(*dtype)) return DType::undefined;
      return is_real ? real_dtype(*dtype) : *dtype;
    }
    aten::for_each_value(argument, [&](const aten::Value* value) {
      if (value->type.is_tensor()) tensors.push_back(value);
    });
  }
  if (name == "aten::chalf") return DType::c32;
  if (makes_complex(node, name)) return complex_dtype(common_dtype(tensors));
  const bool transforms = (is_real && name.starts_with("aten::fft_")) || name == "aten::stft";
  if (!of_complex && !transforms) return DType::undefined;
  if (node.op == "aten::to.other" || name == "aten::type_as") return tensors.back()->type.dtype;
  const DType common = common_dtype(tensors);
  return is_real || !of_complex ? real_dtype(common) : complex_dtype(common);
}

}  // namespace onnx_native
