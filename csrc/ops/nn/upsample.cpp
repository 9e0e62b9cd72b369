#include <cmath>
#include <numbers>
#include <string>

#include "onnx/builder.h"
#include "ops/families.h"
#include "ops/formulas/resample.h"

namespace onnx_native::ops {
namespace {

enum class Mode { nearest, nearest_exact, linear, cubic };

using Scales = std::vector<std::optional<double>>;

// The output sizes and scales of an upsample operator, one per spatial axis.
struct Target {
  Shape size;
  Scales scales;          // for coordinates, if the caller gave them
  bool by_scale = false;  // sizes are floor(size * scale)
};

// Returns floor(size * scale): an expression for simple fractions, else computed by the model.
Dim scaled_size(Builder& b, const Dim& size, double scale) {
  if (const auto known = size.constant())
    return Scalar(std::floor(static_cast<double>(*known) * scale)).to_int();
  if (scale == std::floor(scale)) return size * Dim(Scalar(scale).to_int());
  for (int64_t denominator = 2; denominator <= 64; ++denominator) {
    const double numerator = scale * static_cast<double>(denominator);
    if (numerator == std::floor(numerator))
      return Dim::floor_div(size * Dim(Scalar(numerator).to_int()), denominator);
  }
  const Value product = b.Mul(b.cast(b.dim_value(size), DType::f64), b.scalar(DType::f64, scale));
  return b.dim_of(b.cast(b.Floor(product), DType::i64), DimRange::size());
}

Target target_of(Builder& b, Value x, std::optional<Shape> output_size,
                 const std::optional<std::vector<double>>& scale_factors) {
  Target target;
  const int64_t axes = x->rank() - 2;
  b.check(axes > 0, "expected a batch of images, got a ", x->rank(), "-D tensor");
  if (output_size) {
    target.size = *output_size;
    target.scales.resize(axes);
    return target;
  }
  b.check(scale_factors.has_value(), "either output_size or scale_factors is required");
  b.check(static_cast<int64_t>(scale_factors->size()) == axes, "expected ", axes,
          " scale factors, got ", scale_factors->size());
  target.by_scale = true;
  for (int64_t i = 0; i < axes; ++i) {
    target.scales.emplace_back((*scale_factors)[i]);
    target.size.push_back(scaled_size(b, x->dim(i + 2), (*scale_factors)[i]));
  }
  return target;
}

// Returns true if coordinates by scale equal coordinates by size along every axis.
bool scale_is_ratio(Value x, const Target& target) {
  for (size_t i = 0; i < target.size.size(); ++i) {
    if (!target.scales[i]) continue;
    const auto in = x->dim(static_cast<int64_t>(i) + 2).constant(), out = target.size[i].constant();
    if (in && out ? static_cast<double>(*in) * *target.scales[i] != static_cast<double>(*out)
                  : *target.scales[i] != std::floor(*target.scales[i]))
      return false;
  }
  return true;
}

// Returns true if Resize's float32 scales give the same known output sizes as double precision.
bool fits_float_scales(Value x, const Target& target) {
  for (size_t i = 0; i < target.size.size(); ++i) {
    if (!target.scales[i]) return false;
    const auto in = x->dim(static_cast<int64_t>(i) + 2).constant(), out = target.size[i].constant();
    if (in && out &&
        std::trunc(static_cast<float>(*in) * static_cast<float>(*target.scales[i])) !=
            static_cast<double>(*out))
      return false;
  }
  return true;
}

Value resize(Builder& b, Value x, const Target& target, Mode mode, bool align_corners) {
  std::vector<onnx::Attribute> attributes;
  if (mode == Mode::nearest || mode == Mode::nearest_exact) {
    const bool exact = mode == Mode::nearest_exact;
    attributes = {{"mode", "nearest"},
                  {"coordinate_transformation_mode", exact ? "half_pixel" : "asymmetric"},
                  {"nearest_mode", exact ? "round_prefer_ceil" : "floor"}};
  } else {
    attributes = {
        {"mode", mode == Mode::cubic ? "cubic" : "linear"},
        {"coordinate_transformation_mode", align_corners ? "align_corners" : "half_pixel"}};
    if (mode == Mode::cubic) attributes.push_back({"cubic_coeff_a", -0.75});
  }
  if (align_corners || scale_is_ratio(x, target)) {
    Shape sizes{x->dim(0), x->dim(1)};
    sizes.insert(sizes.end(), target.size.begin(), target.size.end());
    return b.op("Resize", {x, nullptr, nullptr, b.shape_value(sizes)}, std::move(attributes));
  }
  std::vector<double> scales{1.0, 1.0};
  for (const auto& scale : target.scales) scales.push_back(*scale);
  const auto count = static_cast<int64_t>(scales.size());
  const Value factors = b.tensor(make_tensor(DType::f32, {count}, scales));
  return b.op("Resize", {x, nullptr, factors}, std::move(attributes));
}

// Drops the scale of axes whose size stays or doubles, because eager ignores it there.
Target without_idle_scales(Value x, Target target) {
  for (size_t i = 0; i < target.size.size(); ++i) {
    const Dim& size = x->dim(static_cast<int64_t>(i) + 2);
    if (target.size[i] == size || target.size[i] == size * 2) target.scales[i] = std::nullopt;
  }
  return target;
}

// Resamples 8-bit images in integers like eager: weights have as many bits as fit into 16, and sums
// are rounded after each axis.
Value resample_bytes(Builder& b, Value x, Value matrix, int64_t axis) {
  const auto number = [&](double value) { return b.scalar(DType::f64, value); };
  const Value largest = b.reduce("ReduceMax", matrix, {}, false);
  const Value log2 = b.Div(b.Log(b.Div(number(32767.5), largest)), number(std::numbers::ln2));
  const Value bits = b.Min(b.Sub(b.Ceil(log2), number(1)), number(22));
  const Value one = b.Round(b.Exp(b.Mul(bits, number(std::numbers::ln2))));
  const Value size = b.Floor(b.Add(b.Mul(b.Abs(matrix), one), number(0.5)));
  const Value sum = resample(b, x, b.Mul(b.Sign(matrix), size), axis);
  return b.op("Clip", {b.Floor(b.Add(b.Div(sum, one), number(0.5))), number(0), number(255)});
}

void check_axes(Builder& b, Value x, const Target& target) {
  const size_t axes = target.scales.size();
  b.check(target.size.size() == axes && x->rank() == static_cast<int64_t>(axes) + 2,
          "expected a batch of images with ", axes,
          " spatial dimensions and one output size for each");
}

Value upsample(Builder& b, Value input, Target target, Mode mode, bool align_corners) {
  check_axes(b, input, target);
  const bool nearest = mode == Mode::nearest || mode == Mode::nearest_exact;
  if (mode == Mode::nearest) target = without_idle_scales(input, std::move(target));
  const DType dtype = input->dtype;
  const bool direct = dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
  if (direct && (align_corners || scale_is_ratio(input, target) ||
                 (target.by_scale && fits_float_scales(input, target))))
    return resize(b, input, target, mode, align_corners);
  // Resize has no kernel for these dtypes, or it would compute other coordinates.
  const DType weights = dtype == DType::f64 || dtype == DType::u8 ? DType::f64 : DType::f32;
  Value x = nearest ? input : b.cast(input, weights);
  for (auto i = static_cast<int64_t>(target.size.size()); i-- > 0;) {
    const Resampling r{.in = input->dim(i + 2),
                       .out = target.size[i],
                       .scale = target.scales[i],
                       .align_corners = align_corners};
    if (r.in == r.out && !r.scale) continue;
    if (nearest) {
      x = b.gather(x, nearest_positions(b, r, mode == Mode::nearest_exact), i + 2);
    } else {
      const Value matrix = interpolation_matrix(b, r, mode == Mode::cubic, weights);
      x = dtype == DType::u8 ? resample_bytes(b, x, matrix, i + 2) : resample(b, x, matrix, i + 2);
    }
  }
  return b.cast(x, dtype);
}

Value upsample_antialiased(Builder& b, Value input, const Target& target, Filter filter,
                           bool align_corners) {
  check_axes(b, input, target);
  const DType dtype = input->dtype;
  const bool bytes = dtype == DType::u8;
  Value x = b.cast(input, dtype == DType::f64 || bytes ? DType::f64 : DType::f32);
  for (size_t i = target.size.size(); i-- > 0;) {
    const auto axis = static_cast<int64_t>(i) + 2;
    const Resampling r{.in = input->dim(axis),
                       .out = target.size[i],
                       .scale = target.scales[i],
                       .align_corners = align_corners};
    const Value matrix = antialiasing_matrix(b, r, filter, x->dtype);
    x = bytes ? resample_bytes(b, x, matrix, axis) : resample(b, x, matrix, axis);
  }
  return b.cast(x, dtype);
}

template <class Run>
void define_nearest(OpTable& ops, const std::string& name, const Run& run) {
  ops.def(name + "1d",
          [run](Builder& b, Value self, Shape output_size, std::optional<double> scale) {
            return run(b, self, {output_size, {scale}}, false);
          });
  ops.def(name + "2d", [run](Builder& b, Value self, Shape output_size,
                             std::optional<double> scale_h, std::optional<double> scale_w) {
    return run(b, self, {output_size, {scale_h, scale_w}}, false);
  });
  ops.def(name + "3d",
          [run](Builder& b, Value self, Shape output_size, std::optional<double> scale_d,
                std::optional<double> scale_h, std::optional<double> scale_w) {
            return run(b, self, {output_size, {scale_d, scale_h, scale_w}}, false);
          });
  for (const char* axes : {"1d.vec", "2d.vec", "3d.vec"})
    ops.def(name + axes, [run](Builder& b, Value input, std::optional<Shape> output_size,
                               std::optional<std::vector<double>> scale_factors) {
      return run(b, input, target_of(b, input, output_size, scale_factors), false);
    });
}

template <class Run>
void define_vec(OpTable& ops, const std::string& name, const Run& run) {
  ops.def(name + ".vec",
          [run](Builder& b, Value input, std::optional<Shape> output_size, bool align_corners,
                std::optional<std::vector<double>> scale_factors) {
            return run(b, input, target_of(b, input, output_size, scale_factors), align_corners);
          });
}

template <class Run>
void define_2d(OpTable& ops, const std::string& name, const Run& run) {
  ops.def(name, [run](Builder& b, Value self, Shape output_size, bool align_corners,
                      std::optional<double> scale_h, std::optional<double> scale_w) {
    return run(b, self, {output_size, {scale_h, scale_w}}, align_corners);
  });
  define_vec(ops, name, run);
}

auto runner(Mode mode) {
  return [mode](Builder& b, Value x, const Target& target, bool align_corners) {
    return upsample(b, x, target, mode, align_corners);
  };
}

auto antialiased_runner(Filter filter) {
  return [filter](Builder& b, Value x, const Target& target, bool align_corners) {
    return upsample_antialiased(b, x, target, filter, align_corners);
  };
}

}  // namespace

void register_upsample(OpTable& ops) {
  define_nearest(ops, "aten::upsample_nearest", runner(Mode::nearest));
  define_nearest(ops, "aten::_upsample_nearest_exact", runner(Mode::nearest_exact));
  const auto linear = runner(Mode::linear);
  ops.def("aten::upsample_linear1d", [linear](Builder& b, Value self, Shape output_size,
                                              bool align_corners, std::optional<double> scale) {
    return linear(b, self, {output_size, {scale}}, align_corners);
  });
  define_vec(ops, "aten::upsample_linear1d", linear);
  define_2d(ops, "aten::upsample_bilinear2d", linear);
  ops.def("aten::upsample_trilinear3d",
          [linear](Builder& b, Value self, Shape output_size, bool align_corners,
                   std::optional<double> scale_d, std::optional<double> scale_h,
                   std::optional<double> scale_w) {
            return linear(b, self, {output_size, {scale_d, scale_h, scale_w}}, align_corners);
          });
  define_vec(ops, "aten::upsample_trilinear3d", linear);
  define_2d(ops, "aten::upsample_bicubic2d", runner(Mode::cubic));
  define_2d(ops, "aten::_upsample_bilinear2d_aa", antialiased_runner(Filter::triangle));
  define_2d(ops, "aten::_upsample_bicubic2d_aa", antialiased_runner(Filter::cubic));
  define_2d(ops, "aten::_upsample_lanczos2d_aa", antialiased_runner(Filter::lanczos));
}

}  // namespace onnx_native::ops
