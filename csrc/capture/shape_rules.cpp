#include "capture/shape_rules.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MetaFunctions.h>
#include <ATen/Operators.h>
#include <ATen/ScalarOps.h>
#include <ATen/TensorIterator.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/unsqueeze.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "capture/transformed_call.h"

namespace onnx_native::capture {
namespace {

using at::Tensor;
using Sizes = std::vector<int64_t>;
using Keys = c10::DispatchKeySet;
using MaybeTensor = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

// Runs PyTorch's meta kernel.
template <class Operator, class... Arguments>
decltype(auto) plain(Keys keys, Arguments&&... arguments) {
  return Operator::redispatch(keys & kBelowRecorder, std::forward<Arguments>(arguments)...);
}

bool is_defined(const MaybeTensor& tensor) { return tensor && tensor->defined(); }

// Returns true for the dtypes whose kernels neither promote nor accumulate in another dtype.
bool is_simple(const Tensor& tensor) {
  return tensor.scalar_type() == c10::kFloat || tensor.scalar_type() == c10::kDouble;
}

// Returns true if the tensor is missing or has this dtype and these sizes.
bool is_missing_or(const MaybeTensor& tensor, c10::ScalarType dtype, at::IntArrayRef sizes) {
  return !is_defined(tensor) || (tensor->scalar_type() == dtype && tensor->sizes() == sizes);
}

// Returns the dense result of an operator on elements, as TensorIterator lays it out.
Tensor pointwise(std::initializer_list<const Tensor*> operands, c10::ScalarType dtype) {
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false)
      .check_all_same_dtype(false)
      .check_all_same_device(false)
      .declare_static_dtype_and_device(dtype, c10::kMeta)
      .add_owned_output(Tensor());
  for (const Tensor* operand : operands) config.add_owned_const_input(*operand);
  return config.build().output();
}

// One number per axis, also where a single one stands for all.
std::optional<Sizes> per_axis(c10::SymIntArrayRef numbers, size_t axes) {
  if (numbers.size() != axes && numbers.size() != 1) return std::nullopt;
  Sizes result;
  for (size_t axis = 0; axis < axes; ++axis) {
    const auto number = numbers[numbers.size() == 1 ? 0 : axis].maybe_as_int();
    if (!number) return std::nullopt;
    result.push_back(*number);
  }
  return result;
}

struct Window {
  Sizes stride, padding, dilation, output_padding;
};

std::optional<Window> window_of(size_t axes, c10::SymIntArrayRef stride,
                                c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                                c10::SymIntArrayRef output_padding) {
  auto s = per_axis(stride, axes);
  auto p = per_axis(padding, axes);
  auto d = per_axis(dilation, axes);
  auto o = per_axis(output_padding, axes);
  if (!s || !p || !d || !o) return std::nullopt;
  for (size_t axis = 0; axis < axes; ++axis) {
    if ((*s)[axis] < 1 || (*p)[axis] < 0 || (*d)[axis] < 1 || (*o)[axis] < 0) return std::nullopt;
  }
  return Window{std::move(*s), std::move(*p), std::move(*d), std::move(*o)};
}

// Returns the sizes of a convolution; nullopt if the arguments are unusual or inconsistent.
std::optional<Sizes> convolution_sizes(const Tensor& input, const Tensor& weight,
                                       const MaybeTensor& bias, const Window& window,
                                       bool transposed, int64_t groups) {
  const int64_t channels = input.size(1);
  if (groups < 1 || channels < 1 || weight.size(0) < 1 || weight.size(0) % groups != 0)
    return std::nullopt;
  if ((transposed ? weight.size(0) : weight.size(1) * groups) != channels) return std::nullopt;
  Sizes sizes{input.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
  if (!is_missing_or(bias, input.scalar_type(), {sizes[1]})) return std::nullopt;
  for (int64_t axis = 2; axis < input.dim(); ++axis) {
    const auto at = static_cast<size_t>(axis - 2);
    const int64_t reach = window.dilation[at] * (weight.size(axis) - 1);
    const int64_t edges = 2 * window.padding[at];
    if (!transposed && input.size(axis) + edges < reach + 1) return std::nullopt;
    const int64_t size = transposed
                             ? (input.size(axis) - 1) * window.stride[at] - edges + reach +
                                   window.output_padding[at] + 1
                             : (input.size(axis) + edges - reach - 1) / window.stride[at] + 1;
    if (size < 1) return std::nullopt;
    sizes.push_back(size);
  }
  return sizes;
}

// NOLINTBEGIN(readability-function-size): the parameters are those of the operators' schemas

Tensor convolution(Keys keys, const Tensor& input, const Tensor& weight, const MaybeTensor& bias,
                   c10::SymIntArrayRef stride, c10::SymIntArrayRef padding,
                   c10::SymIntArrayRef dilation, bool transposed,
                   c10::SymIntArrayRef output_padding, const c10::SymInt& groups) {
  const auto number = groups.maybe_as_int();
  if (number && input.dim() > 2 && input.dim() == weight.dim() &&
      input.scalar_type() == weight.scalar_type()) {
    const auto axes = static_cast<size_t>(input.dim() - 2);
    const auto window = window_of(axes, stride, padding, dilation, output_padding);
    const auto sizes = window ? convolution_sizes(input, weight, bias, *window, transposed, *number)
                              : std::nullopt;
    if (sizes) return at::empty(*sizes, input.options());
  }
  return plain<at::_ops::convolution>(keys, input, weight, bias, stride, padding, dilation,
                                      transposed, output_padding, groups);
}

Three native_batch_norm(Keys keys, const Tensor& input, const MaybeTensor& weight,
                        const MaybeTensor& bias, const MaybeTensor& mean, const MaybeTensor& var,
                        bool training, double momentum, double eps) {
  const bool has_statistics = is_defined(mean) && is_defined(var);
  if (is_simple(input) && input.dim() >= 2 && input.is_contiguous() &&
      (training || has_statistics) && is_defined(mean) == is_defined(var)) {
    const c10::ScalarType dtype = input.scalar_type();
    const int64_t channels = input.size(1);
    const bool fits = std::ranges::all_of(
        std::initializer_list<const MaybeTensor*>{&weight, &bias, &mean, &var},
        [&](const MaybeTensor* tensor) { return is_missing_or(*tensor, dtype, {channels}); });
    if (fits) {
      const auto moment = [&] { return at::empty({channels}, input.options()); };
      return {at::empty_like(input), moment(), moment()};
    }
  }
  return plain<at::_ops::native_batch_norm>(keys, input, weight, bias, mean, var, training,
                                            momentum, eps);
}

// The CPU's kernel returns a contiguous tensor whatever the input's strides are.
Three native_layer_norm(Keys keys, const Tensor& input, c10::SymIntArrayRef normalized,
                        const MaybeTensor& weight, const MaybeTensor& bias, double eps) {
  const auto axes = static_cast<int64_t>(normalized.size());
  const auto shape = per_axis(normalized, normalized.size());
  if (is_simple(input) && shape && axes > 0 && axes <= input.dim()) {
    const at::IntArrayRef inner = input.sizes().slice(static_cast<size_t>(input.dim() - axes));
    const c10::ScalarType dtype = input.scalar_type();
    if (inner == *shape && is_missing_or(weight, dtype, *shape) &&
        is_missing_or(bias, dtype, *shape)) {
      Sizes outer = input.sizes().vec();
      std::fill(outer.end() - axes, outer.end(), 1);
      const auto moment = [&] { return at::empty(outer, input.options()); };
      return {at::empty(input.sizes(), input.options()), moment(), moment()};
    }
  }
  return plain<at::_ops::native_layer_norm>(keys, input, normalized, weight, bias, eps);
}

Three native_group_norm(Keys keys, const Tensor& input, const MaybeTensor& weight,
                        const MaybeTensor& bias, const c10::SymInt& batch,
                        const c10::SymInt& channels, const c10::SymInt& inner, int64_t groups,
                        double eps) {
  const auto n = batch.maybe_as_int();
  const auto c = channels.maybe_as_int();
  const auto rest = inner.maybe_as_int();
  if (is_simple(input) && input.dim() >= 2 && input.is_contiguous() && n && c && rest &&
      groups > 0 && *c % groups == 0 && input.numel() == *n * *c * *rest &&
      is_missing_or(weight, input.scalar_type(), {*c}) &&
      is_missing_or(bias, input.scalar_type(), {*c})) {
    const auto moment = [&] { return at::empty({*n, groups}, input.options()); };
    return {at::empty_like(input), moment(), moment()};
  }
  return plain<at::_ops::native_group_norm>(keys, input, weight, bias, batch, channels, inner,
                                            groups, eps);
}

// NOLINTEND(readability-function-size)

Tensor where_self(Keys keys, const Tensor& condition, const Tensor& self, const Tensor& other) {
  if (condition.scalar_type() != c10::kBool)
    return plain<at::_ops::where_self>(keys, condition, self, other);
  return pointwise({&condition, &self, &other}, at::result_type(self, other));
}

template <class Operator>
Tensor logical(Keys /*keys*/, const Tensor& self, const Tensor& other) {
  return pointwise({&self, &other}, c10::kBool);
}

Tensor logical_not(Keys /*keys*/, const Tensor& self) { return pointwise({&self}, c10::kBool); }

bool fills(const Tensor& self, const Tensor& mask) {
  return mask.scalar_type() == c10::kBool && at::is_expandable_to(mask.sizes(), self.sizes());
}

Tensor& fill_scalar(Keys keys, Tensor& self, const Tensor& mask, const c10::Scalar& value) {
  return fills(self, mask) ? self : plain<at::_ops::masked_fill__Scalar>(keys, self, mask, value);
}

Tensor& fill_tensor(Keys keys, Tensor& self, const Tensor& mask, const Tensor& value) {
  return fills(self, mask) && value.dim() == 0
             ? self
             : plain<at::_ops::masked_fill__Tensor>(keys, self, mask, value);
}

// As in eager, the result is contiguous.
Tensor filled(const Tensor& self, const Tensor& mask) {
  const auto [wide_mask, wide_self] = at::expand_outplace(mask, self);
  return wide_self->clone(at::MemoryFormat::Contiguous);
}

Tensor masked_fill_scalar(Keys /*keys*/, const Tensor& self, const Tensor& mask,
                          const c10::Scalar& value) {
  return filled(self, mask).masked_fill_(mask, value);
}

Tensor masked_fill_tensor(Keys /*keys*/, const Tensor& self, const Tensor& mask,
                          const Tensor& value) {
  return filled(self, mask).masked_fill_(mask, value);
}

Tensor relu(Keys keys, const Tensor& self) {
  if (self.scalar_type() == c10::kBool) return plain<at::_ops::relu>(keys, self);
  return at::meta::clamp_min(self, 0);
}

Tensor& relu_in_place(Keys keys, Tensor& self) {
  if (self.scalar_type() == c10::kBool) return plain<at::_ops::relu_>(keys, self);
  return at::meta::clamp_min_(self, 0);
}

// Activations whose results have the type of the argument.
template <class Operator, class... Limits>
Tensor activation(Keys keys, const Tensor& self, const Limits&... limits) {
  if (!self.is_floating_point()) return plain<Operator>(keys, self, limits...);
  return pointwise({&self}, self.scalar_type());
}

template <class Operator, class... Limits>
Tensor& activation_in_place(Keys keys, Tensor& self, const Limits&... limits) {
  return self.is_floating_point() ? self : plain<Operator>(keys, self, limits...);
}

Tensor abs(Keys keys, const Tensor& self) {
  if (self.is_complex() || self.scalar_type() == c10::kBool)
    return plain<at::_ops::abs>(keys, self);
  return pointwise({&self}, self.scalar_type());
}

Tensor safe_softmax(Keys /*keys*/, const Tensor& self, int64_t dim,
                    std::optional<c10::ScalarType> dtype) {
  return at::softmax(self, dim, dtype);
}

Tensor& fill_with_scalar(Keys /*keys*/, Tensor& self, const c10::Scalar& /*value*/) { return self; }

Tensor& fill_with_tensor(Keys keys, Tensor& self, const Tensor& value) {
  return value.dim() == 0 ? self : plain<at::_ops::fill__Tensor>(keys, self, value);
}

Tensor& zero(Keys /*keys*/, Tensor& self) { return self; }

Tensor embedding(Keys keys, const Tensor& weight, const Tensor& indices, c10::SymInt padding_idx,
                 bool scale_grad_by_freq, bool sparse) {
  const bool is_index = indices.scalar_type() == c10::kLong || indices.scalar_type() == c10::kInt;
  if (weight.dim() != 2 || !is_index) {
    return plain<at::_ops::embedding>(keys, weight, indices, std::move(padding_idx),
                                      scale_grad_by_freq, sparse);
  }
  Sizes sizes = indices.sizes().vec();
  sizes.push_back(weight.size(1));
  return at::empty(sizes, weight.options());
}

Tensor floor_divide(Keys /*keys*/, const Tensor& self, const Tensor& other) {
  return at::meta::div(self, other, "floor");
}

Tensor rsub_scalar(Keys /*keys*/, const Tensor& self, const c10::Scalar& other,
                   const c10::Scalar& alpha) {
  return at::sub(at::native::wrapped_scalar_tensor(other), self, alpha);
}

Tensor rsub_tensor(Keys /*keys*/, const Tensor& self, const Tensor& other,
                   const c10::Scalar& alpha) {
  return at::sub(other, self, alpha);
}

Tensor mean(Keys /*keys*/, const Tensor& self, std::optional<c10::ScalarType> dtype) {
  return at::meta::mean(self, at::IntArrayRef{}, false, dtype);
}

Tensor stack(Keys keys, at::TensorList tensors, int64_t dim) {
  const bool equal = !tensors.empty() && std::ranges::all_of(tensors, [&](const Tensor& tensor) {
    return tensor.is_contiguous() && tensor.sizes() == tensors[0].sizes();
  });
  if (!equal) return plain<at::_ops::stack>(keys, tensors, dim);
  std::vector<Tensor> parts;
  for (const Tensor& tensor : tensors) parts.push_back(tensor.unsqueeze(dim));
  const int64_t rank = parts[0].dim();
  return at::cat(parts, dim < 0 ? dim + rank : dim);
}

Tensor roll(Keys keys, const Tensor& self, c10::SymIntArrayRef shifts, at::IntArrayRef dims) {
  const int64_t rank = self.dim();
  const bool valid =
      !dims.empty() && dims.size() == shifts.size() &&
      std::ranges::all_of(dims, [rank](int64_t d) { return -rank <= d && d < rank; });
  if (!valid || !self.is_contiguous()) return plain<at::_ops::roll>(keys, self, shifts, dims);
  return at::empty_like(self);
}

Tensor adaptive_avg_pool2d(Keys keys, const Tensor& self, c10::SymIntArrayRef output_size) {
  const auto output = per_axis(output_size, 2);
  const bool plain_call = (self.dim() == 3 || self.dim() == 4) && self.is_floating_point() &&
                          output_size.size() == 2 && output && self.is_contiguous() &&
                          self.numel() > 0 && (*output)[0] >= 0 && (*output)[1] >= 0;
  if (!plain_call) return plain<at::_ops::_adaptive_avg_pool2d>(keys, self, output_size);
  Sizes sizes = self.sizes().vec();
  std::ranges::copy(*output, sizes.end() - 2);
  return at::empty(sizes, self.options());
}

template <class Operator, class Kernel>
void add_rule(aten::KernelTable& table, Kernel* kernel) {
  table.insert_or_assign(
      c10::Dispatcher::singleton().findSchemaOrThrow(Operator::name, Operator::overload_name),
      c10::KernelFunction::makeFromUnboxedRuntimeFunction(kernel));
}

template <class Operator>
void add_logical(aten::KernelTable& table) {
  add_rule<Operator>(table, &logical<Operator>);
}

}  // namespace

void add_shape_rules(aten::KernelTable& table) {
  add_rule<at::_ops::convolution>(table, &convolution);
  add_rule<at::_ops::native_batch_norm>(table, &native_batch_norm);
  add_rule<at::_ops::native_layer_norm>(table, &native_layer_norm);
  add_rule<at::_ops::native_group_norm>(table, &native_group_norm);
  add_rule<at::_ops::where_self>(table, &where_self);
  add_logical<at::_ops::logical_and>(table);
  add_logical<at::_ops::logical_or>(table);
  add_logical<at::_ops::logical_xor>(table);
  add_rule<at::_ops::logical_not>(table, &logical_not);
  add_rule<at::_ops::masked_fill_Scalar>(table, &masked_fill_scalar);
  add_rule<at::_ops::masked_fill_Tensor>(table, &masked_fill_tensor);
  add_rule<at::_ops::masked_fill__Scalar>(table, &fill_scalar);
  add_rule<at::_ops::masked_fill__Tensor>(table, &fill_tensor);
  add_rule<at::_ops::relu>(table, &relu);
  add_rule<at::_ops::relu_>(table, &relu_in_place);
  add_rule<at::_ops::hardswish>(table, &activation<at::_ops::hardswish>);
  add_rule<at::_ops::hardswish_>(table, &activation_in_place<at::_ops::hardswish_>);
  add_rule<at::_ops::hardtanh>(table, &activation<at::_ops::hardtanh, c10::Scalar, c10::Scalar>);
  add_rule<at::_ops::hardtanh_>(
      table, &activation_in_place<at::_ops::hardtanh_, c10::Scalar, c10::Scalar>);
  add_rule<at::_ops::abs>(table, &abs);
  add_rule<at::_ops::_safe_softmax>(table, &safe_softmax);
  add_rule<at::_ops::fill__Scalar>(table, &fill_with_scalar);
  add_rule<at::_ops::fill__Tensor>(table, &fill_with_tensor);
  add_rule<at::_ops::zero_>(table, &zero);
  add_rule<at::_ops::embedding>(table, &embedding);
  add_rule<at::_ops::floor_divide>(table, &floor_divide);
  add_rule<at::_ops::rsub_Scalar>(table, &rsub_scalar);
  add_rule<at::_ops::rsub_Tensor>(table, &rsub_tensor);
  add_rule<at::_ops::mean>(table, &mean);
  add_rule<at::_ops::stack>(table, &stack);
  add_rule<at::_ops::roll>(table, &roll);
  add_rule<at::_ops::_adaptive_avg_pool2d>(table, &adaptive_avg_pool2d);
}

}  // namespace onnx_native::capture
