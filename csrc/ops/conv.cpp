#include "onnx/builder.h"
#include "ops/families.h"

namespace onnx_native::ops {
namespace {

struct Convolution {
  Ints stride;
  Ints begins, ends;  // padding
  Ints dilation;
  int64_t groups = 1;
  bool transposed = false;
  Ints output_padding;
};

// A single number stands for every axis.
Ints spread(Ints values, int64_t count) {
  if (static_cast<int64_t>(values.size()) < count) values.resize(count, values.at(0));
  return values;
}

// ONNX convolves floats only.
DType compute_dtype(DType dtype) { return is_floating(dtype) ? dtype : DType::f32; }

Value convolve(Builder& b, Value input, Value weight, std::optional<Value> bias,
               const Convolution& c) {
  const int64_t axes = weight->rank() - 2;
  b.check(axes >= 1, "a weight of ", weight->rank(), " dimensions");
  const bool batched = input->rank() == axes + 2;
  const DType dtype = compute_dtype(input->dtype);
  Values inputs{b.cast(batched ? input : b.unsqueeze(input, {0}), dtype), b.cast(weight, dtype)};
  if (bias) inputs.push_back(b.cast(*bias, dtype));
  Ints pads = spread(c.begins, axes);
  const Ints ends = spread(c.ends, axes);
  pads.insert(pads.end(), ends.begin(), ends.end());
  std::vector<onnx::Attribute> attributes{{"strides", spread(c.stride, axes)},
                                          {"pads", std::move(pads)},
                                          {"dilations", spread(c.dilation, axes)},
                                          {"group", c.groups}};
  if (c.transposed) attributes.push_back({"output_padding", spread(c.output_padding, axes)});
  Value y = b.op(c.transposed ? "ConvTranspose" : "Conv", std::move(inputs), std::move(attributes));
  y = b.cast(y, input->dtype);
  return batched ? y : b.squeeze(y, {0});
}

Value conv(Builder& b, Value input, Value weight, std::optional<Value> bias, Ints stride,
           Ints padding, Ints dilation, int64_t groups) {
  return convolve(b, input, weight, bias,
                  {.stride = stride,
                   .begins = padding,
                   .ends = padding,
                   .dilation = dilation,
                   .groups = groups,
                   .output_padding = {}});
}

// Padding by name; with "same", an odd total has its extra element at the end.
Value conv_padding(Builder& b, Value input, Value weight, std::optional<Value> bias, Ints stride,
                   std::string padding, Ints dilation, int64_t groups) {
  const int64_t axes = weight->rank() - 2;
  dilation = spread(dilation, axes);
  Ints begins(axes, 0), ends(axes, 0);
  if (padding == "same") {
    for (int64_t i = 0; i < axes; ++i) {
      const auto kernel = weight->dim(i + 2).constant();
      b.check(kernel.has_value(), "padding='same' with a kernel whose size changes");
      const int64_t total = dilation[i] * (*kernel - 1);
      begins[i] = total / 2;
      ends[i] = total - begins[i];
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

Value conv_transpose(Builder& b, Value input, Value weight, std::optional<Value> bias, Ints stride,
                     Ints padding, Ints output_padding, int64_t groups, Ints dilation) {
  return convolve(b, input, weight, bias,
                  {.stride = stride,
                   .begins = padding,
                   .ends = padding,
                   .dilation = dilation,
                   .groups = groups,
                   .transposed = true,
                   .output_padding = output_padding});
}

Value convolution(Builder& b, Value input, Value weight, std::optional<Value> bias, Ints stride,
                  Ints padding, Ints dilation, bool transposed, Ints output_padding,
                  int64_t groups) {
  return transposed ? conv_transpose(b, input, weight, bias, stride, padding, output_padding,
                                     groups, dilation)
                    : conv(b, input, weight, bias, stride, padding, dilation, groups);
}

// (time, batch, channels) with a weight (kernel, channels, channels of the result).
Value conv_tbc(Builder& b, Value self, Value weight, Value bias, int64_t pad) {
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
          [](Builder& b, Value input, Value weight, std::optional<Value> bias, Ints stride,
             Ints padding, Ints dilation, bool transposed, Ints output_padding, int64_t groups,
             Ignored, Ignored, Ignored, Ignored) {
            return convolution(b, input, weight, bias, stride, padding, dilation, transposed,
                               output_padding, groups);
          });
  ops.def("aten::conv_tbc", conv_tbc);
}

}  // namespace onnx_native::ops
