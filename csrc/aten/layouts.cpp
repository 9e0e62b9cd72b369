#include "aten/layouts.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "aten/visit.h"

namespace onnx_native::aten {
namespace {

// Measured: all samples of PyTorch's OpInfo with contiguous arguments.
bool scatters(std::string_view name) {
  static const std::unordered_set<std::string_view> names{"aten::adjoint",
                                                          "aten::argwhere",
                                                          "aten::diagonal",
                                                          "aten::einsum",
                                                          "aten::empty_permuted",
                                                          "aten::empty_strided",
                                                          "aten::geqrf",
                                                          "aten::gru",
                                                          "aten::linalg_diagonal",
                                                          "aten::lstm",
                                                          "aten::mH",
                                                          "aten::mT",
                                                          "aten::matrix_H",
                                                          "aten::matrix_power",
                                                          "aten::moveaxis",
                                                          "aten::movedim",
                                                          "aten::nanquantile",
                                                          "aten::new_empty_strided",
                                                          "aten::nonzero",
                                                          "aten::numpy_T",
                                                          "aten::ormqr",
                                                          "aten::permute",
                                                          "aten::pinverse",
                                                          "aten::qr",
                                                          "aten::quantile",
                                                          "aten::rnn_relu",
                                                          "aten::rnn_tanh",
                                                          "aten::rot90",
                                                          "aten::scaled_dot_product_attention",
                                                          "aten::stft",
                                                          "aten::svd",
                                                          "aten::swapaxes",
                                                          "aten::swapdims",
                                                          "aten::t",
                                                          "aten::transpose",
                                                          "aten::triangular_solve",
                                                          "aten::unfold",
                                                          "aten::as_strided",
                                                          "aten::inverse",
                                                          "aten::unique_consecutive",
                                                          "aten::unique_dim",
                                                          "aten::unique_dim_consecutive"};
  static constexpr std::string_view families[] = {
      "aten::linalg_", "aten::_linalg_", "aten::fft_",     "aten::_fft_",
      "aten::_unique", "aten::lu",       "aten::cholesky", "aten::_scaled_dot_product",
      "aten::_lu_"};
  return names.contains(name) || std::ranges::any_of(families, [name](std::string_view family) {
           return name.starts_with(family);
         });
}

bool is_always_contiguous(std::string_view name) {
  return name == "aten::linear" || name == "aten::mm" || name == "aten::bmm" ||
         name == "aten::addmm" || name == "aten::embedding" || name == "aten::layer_norm" ||
         name == "aten::matmul";
}

}  // namespace

bool may_scatter(const Node& node, const std::function<bool(const Value*)>& is_scattered) {
  const std::string& name = node.schema->name;
  const int format = node.schema->index("memory_format");
  const auto* asked =
      format < 0 ? nullptr : node.arguments[static_cast<size_t>(format)].get<std::string>();
  if (asked && *asked == "contiguous_format") return false;
  if (asked && asked->starts_with("channels_last")) return true;
  if (name == "aten::matmul") {  // folds a matrix times a batch, and transposes the result
    const Type& a = node.arguments[0].as_value()->type;
    const Type& b = node.arguments[1].as_value()->type;
    return !a.shape || !b.shape || a.shape->size() < b.shape->size();
  }
  if (scatters(name)) return true;
  if (is_always_contiguous(name)) return false;
  bool scattered = false;
  for (const Argument& argument : node.arguments) {
    for_each_value(argument,
                   [&](const Value* value) { scattered = scattered || is_scattered(value); });
  }
  return scattered;
}

}  // namespace onnx_native::aten
