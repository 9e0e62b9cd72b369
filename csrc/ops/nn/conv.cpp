#include <algorithm>

#include "onnx/builder.h"
#include "ops/families.h"
#include "ops/formulas/axes.h"
#include "ops/formulas/loop.h"

namespace onnx_native::ops {
namespace {

// The arguments of a convolution; the model may compute those that are not Ints.
struct Convolution {
  Shape stride;
  Shape begins, ends;  // padding
  Ints dilation;
  Dim groups = 1;
  bool transposed = false;
  Ints output_padding;
};

// Repeats a single number for every axis.
template <class List>
List spread(List values, int64_t count) {
  if (static_cast<int64_t>(values.size()) < count) values.resize(count, values.at(0));
  return values;
}

// Returns float32 for integers, because ONNX convolves only floats.
DType compute_dtype(DType dtype) { return is_floating(dtype) ? dtype : DType::f32; }

// If the model computes the padding, emits Pad and sets the padding of `c` to 0.
Value padded(Builder& b, Value input, Convolution& c, int64_t axes) {
  if (c.transposed || (constant_shape(c.begins) && constant_shape(c.ends))) return input;
  std::vector<Dim> pads(2 * (axes + 2), 0);
  for (int64_t i = 0; i < axes; ++i) {
    pads[i + 2] = c.begins[i];
    pads[i + axes + 4] = c.ends[i];
  }
  c.begins = c.ends = Shape(axes, 0);
  return b.pad(input, pads);
}

// ONNX Runtime requires an output padding less than the stride, while PyTorch also allows one that
// is less than the dilation. Less padding at the end, or zeros after the input, makes the result as
// long.
Value with_less_output_padding(Builder& b, Value input, Convolution& c, int64_t axes) {
  std::vector<Dim> zeros(2 * (axes + 2), 0);
  bool are_needed = false;
  for (int64_t i = 0; i < axes; ++i) {
    const int64_t stride = *c.stride[i].constant();
    const int64_t surplus = c.output_padding[i] - stride + 1;
    if (surplus <= 0) continue;
    c.output_padding[i] -= surplus;
    const int64_t missing = std::max<int64_t>(surplus - c.ends[i].constant().value_or(0), 0);
    const int64_t count = (missing + stride - 1) / stride;
    zeros[i + axes + 4] = count;
    are_needed |= count > 0;
    c.ends[i] = c.ends[i] + Dim(count * stride - surplus);
  }
  return are_needed ? b.pad(input, zeros) : input;
}

// Applies a computed stride to a result with stride 1, or computed padding to a transposed result.
Value cut(Builder& b, Value y, const Convolution& given, const Convolution& c, int64_t axes) {
  for (int64_t i = 0; i < axes; ++i) {
    const int64_t axis = i + 2;
    if (c.transposed) {
      if (c.begins == given.begins && c.ends == given.ends) continue;
      y = b.slice(y, axis, given.begins[i], y->dim(axis) - given.ends[i]);
    } else if (c.stride != given.stride) {
      y = b.op("Slice", {y, b.i64s({0}), b.shape_value({y->dim(axis)}), b.i64s({axis}),
                         b.shape_value({given.stride[i]})});
    }
  }
  return y;
}

// Returns true if the padding of a transposed convolution may remove the whole result of a dynamic
// size, which ONNX Runtime's ConvTranspose rejects.
bool may_cut_all(Value input, Value weight, const Convolution& c) {
  for (size_t i = 0; i < c.dilation.size(); ++i) {
    const Dim& size = input->dim(static_cast<int64_t>(i) - static_cast<int64_t>(c.dilation.size()));
    const Dim& kernel = weight->dim(static_cast<int64_t>(i) + 2);
    const Dim of_one = (kernel - 1) * c.dilation[i] + 1 + c.output_padding[i];
    if (!size.is_constant() && !(of_one - c.begins[i] - c.ends[i]).known_positive()) return true;
  }
  return false;
}

// Emits one Conv or ConvTranspose; the stride and padding of `c` must be constant.
Value plain(Builder& b, const Values& inputs, const Convolution& c, int64_t groups) {
  const auto attribute = [&](const Shape& sizes, std::string_view name) {
    Ints numbers = *constant_shape(sizes);
    b.check(std::ranges::all_of(numbers, [](int64_t n) { return n == static_cast<int32_t>(n); }),
            "argument `", name, "` must fit in 32 bits");
    return numbers;
  };
  Ints pads = attribute(c.begins, "padding");
  const Ints ends = attribute(c.ends, "padding");
  pads.insert(pads.end(), ends.begin(), ends.end());
  std::vector<onnx::Attribute> attributes{{"strides", attribute(c.stride, "stride")},
                                          {"pads", std::move(pads)},
                                          {"dilations", c.dilation},
                                          {"group", groups}};
  if (auto kernel = constant_shape(part_of(inputs[1], 2)))
    attributes.push_back({"kernel_shape", std::move(*kernel)});
  if (c.transposed) attributes.push_back({"output_padding", c.output_padding});
  const Value y = b.op(c.transposed ? "ConvTranspose" : "Conv", inputs, std::move(attributes));
  // ONNX Runtime does not support a ConvTranspose with an empty result.
  return c.transposed && is_empty(y->known_shape()) ? b.full(y->dtype, 0, y->known_shape()) : y;
}

// Convolves the groups one by one in a loop, because only the model knows their number.
Value group_by_group(Builder& b, const Values& inputs, const Convolution& c) {
  const auto split = [&](Value v, int64_t axis) {
    Shape shape = v->known_shape();
    const Dim size = Dim::floor_div(shape[axis], c.groups);
    shape[axis] = c.groups;
    shape.insert(shape.begin() + axis + 1, size);
    return b.reshape(v, shape);
  };
  const Value x = split(inputs[0], 1);
  const Value weight = split(inputs[1], 0);
  const Value bias = inputs.size() > 2 && !c.transposed ? split(inputs[2], 0) : nullptr;
  const Value results = loop(b, b.dim_value(c.groups), {}, [&](Value i, const Values&) -> Values {
    Values own{b.gather(x, i, 1), b.gather(weight, i, 0)};
    if (bias) own.push_back(b.gather(bias, i, 0));
    return {plain(b, own, c, 1)};
  })[0];
  Shape shape = results->known_shape();  // groups, batch, channels, ...
  const Dim channels = c.groups * shape[2];
  shape.erase(shape.begin());
  shape[1] = channels;
  Value y = b.reshape(b.swap_axes(results, 0, 1), shape);
  if (inputs.size() == 2 || bias) return y;
  Ints trailing;
  for (int64_t axis = 1; axis < y->rank() - 1; ++axis) trailing.push_back(axis);
  return b.Add(y, b.unsqueeze(inputs[2], trailing));
}

// Returns the number of groups if it is constant or follows from the numbers of channels.
std::optional<int64_t> known_groups(Value input, Value weight, const Convolution& c) {
  if (const auto groups = c.groups.constant()) return groups;
  const auto channels = input->dim(1).constant();
  const auto of_group = weight->dim(1).constant();
  if (c.transposed || !channels || !of_group || *of_group == 0) return std::nullopt;
  return *channels / *of_group;
}

// Refuses strides and padding that sums could overflow.
void check_size(Builder& b, const Dim& size) {
  const int64_t value = size.constant_or(0);
  b.check(value == static_cast<int32_t>(value), "expected a 32-bit stride or padding, got ", value);
}

Value convolve(Builder& b, Value input, Value weight, std::optional<Value> bias,
               Convolution given) {
  const int64_t axes = weight->rank() - 2;
  b.check(axes >= 1, "expected a weight of rank 3 or more, got rank ", weight->rank());
  const bool batched = input->rank() == axes + 2;
  const DType dtype = compute_dtype(input->dtype);
  given.stride = spread(given.stride, axes);
  given.begins = spread(given.begins, axes);
  given.ends = spread(given.ends, axes);
  given.dilation = spread(given.dilation, axes);
  if (given.transposed) given.output_padding = spread(given.output_padding, axes);
  for (const Shape& sizes : {given.stride, given.begins, given.ends}) {
    for (const Dim& size : sizes) check_size(b, size);
  }
  Value x = b.cast(batched ? input : b.unsqueeze(input, {0}), dtype);
  if (given.transposed) {
    b.check(constant_shape(given.stride).has_value(),
            "argument `stride` of a transposed convolution must be constant");
    x = with_less_output_padding(b, x, given, axes);
  }
  Convolution c = given;
  if (!constant_shape(c.stride)) c.stride = Shape(axes, 1);
  if (c.transposed &&
      (!constant_shape(c.begins) || !constant_shape(c.ends) || may_cut_all(x, weight, c))) {
    c.begins = c.ends = Shape(axes, 0);
  }
  Values inputs{padded(b, x, c, axes), b.cast(weight, dtype)};
  if (bias) inputs.push_back(b.cast(*bias, dtype));
  const auto groups = known_groups(x, weight, c);
  Value y = groups ? plain(b, inputs, c, *groups) : group_by_group(b, inputs, c);
  y = b.cast(cut(b, y, given, c, axes), input->dtype);
  return batched ? y : b.squeeze(y, {0});
}

Value conv(Builder& b, Value input, Value weight, std::optional<Value> bias, Shape stride,
           Shape padding, Ints dilation, const Dim& groups) {
  return convolve(b, input, weight, bias,
                  {.stride = stride,
                   .begins = padding,
                   .ends = padding,
                   .dilation = dilation,
                   .groups = groups,
                   .output_padding = {}});
}

// `padding` is "valid" or "same". With "same", an odd total puts the extra element at the end.
Value conv_padding(Builder& b, Value input, Value weight, std::optional<Value> bias, Shape stride,
                   std::string padding, Ints dilation, const Dim& groups) {
  const int64_t axes = weight->rank() - 2;
  dilation = spread(dilation, axes);
  Shape begins(axes, 0), ends(axes, 0);
  if (padding == "same") {
    for (int64_t i = 0; i < axes; ++i) {
      const auto kernel = weight->dim(i + 2).constant();
      b.check(kernel.has_value(), "padding='same' requires a constant kernel size");
      const int64_t total = dilation[i] * (*kernel - 1);
      begins[i] = total / 2;
      ends[i] = total - total / 2;
    }
  }
  return convolve(b, input, weight, bias,
                  {.stride = stride,
                   .begins = begins,
                   .ends = ends,
                   .dilation = dilation,
                   .groups = groups,
                   .output_padding = {}});
}

Value conv_transpose(Builder& b, Value input, Value weight, std::optional<Value> bias, Shape stride,
                     Shape padding, Ints output_padding, const Dim& groups, Ints dilation) {
  return convolve(b, input, weight, bias,
                  {.stride = stride,
                   .begins = padding,
                   .ends = padding,
                   .dilation = dilation,
                   .groups = groups,
                   .transposed = true,
                   .output_padding = output_padding});
}

Value convolution(Builder& b, Value input, Value weight, std::optional<Value> bias, Shape stride,
                  Shape padding, Ints dilation, bool transposed, Ints output_padding,
                  const Dim& groups) {
  return transposed ? conv_transpose(b, input, weight, bias, stride, padding, output_padding,
                                     groups, dilation)
                    : conv(b, input, weight, bias, stride, padding, dilation, groups);
}

// `self` is (time, batch, channels), `weight` (kernel, input channels, output channels).
Value conv_tbc(Builder& b, Value self, Value weight, Value bias, const Dim& pad) {
  const Value y = conv(b, b.transpose(self, {1, 2, 0}), b.transpose(weight, {2, 1, 0}), bias, {1},
                       {pad}, {1}, 1);
  return b.transpose(y, {2, 0, 1});
}

}  // namespace

void register_conv(OpTable& ops) {
  ops.def({"aten::conv1d", "aten::conv2d", "aten::conv3d"}, conv);
  ops.def({"aten::conv1d.padding", "aten::conv2d.padding", "aten::conv3d.padding",
           "aten::_convolution_mode"},
          conv_padding);
  ops.def(
      {"aten::conv_transpose1d", "aten::conv_transpose2d.input", "aten::conv_transpose3d.input"},
      conv_transpose);
  ops.def("aten::convolution", convolution);
  ops.def("aten::_convolution",
          [](Builder& b, Value input, Value weight, std::optional<Value> bias, Shape stride,
             Shape padding, Ints dilation, bool transposed, Ints output_padding, const Dim& groups,
             Ignored, Ignored, Ignored, Ignored) {
            return convolution(b, input, weight, bias, stride, padding, dilation, transposed,
                               output_padding, groups);
          });
  ops.def("aten::conv_tbc", conv_tbc);
}

}  // namespace onnx_native::ops
