// Fourier transforms: torch.fft, stft and istft, with ONNX's DFT and STFT.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "ops/families.h"
#include "ops/formulas/complex.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/positions.h"
#include "ops/formulas/scatter.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

// The axes to transform, and the number of points along each.
struct Grid {
  Ints axes;
  std::vector<Dim> sizes;
};

// The divisor of a result: the number of points to the power 0, 1/2 or 1.
enum class Norm { none, root, full };

Norm norm_of(Builder& b, const std::optional<std::string>& norm, bool inverse) {
  const std::string name = norm.value_or("backward");
  if (name == "ortho") return Norm::root;
  b.check(name == "forward" || name == "backward", "norm must be forward, backward or ortho, got ",
          name);
  return (name == "forward") != inverse ? Norm::full : Norm::none;
}

bool is_power_of_two(const Dim& size) {
  const auto n = size.constant();
  return n && *n > 0 && std::has_single_bit(static_cast<uint64_t>(*n));
}

// ONNX Runtime's transforms lose digits in float32 unless the size is a power of two.
DType working_dtype(DType part, const std::vector<Dim>& sizes) {
  if (part == DType::f64 || !std::ranges::all_of(sizes, is_power_of_two)) return DType::f64;
  return DType::f32;
}

// Returns argument 0 as a signal for DFT, with a last axis of 1 (real) or 2 (complex).
Value signal_of(const Call& call, DType dtype) {
  Builder& b = call.builder();
  const Value self = b.cast(call.tensor(0), dtype);
  return is_complex(call.argument(0)) ? self : b.unsqueeze(self, {self->rank()});
}

Value dft(Builder& b, Value signal, int64_t axis, const Dim& size, bool inverse, bool onesided) {
  if (size != signal->dim(axis) && signal->dim(axis).may_be_empty()) {
    Shape shape = signal->known_shape();  // ONNX Runtime rejects empty signals
    shape[normalize_axis(axis, signal->rank())] = 1;
    signal = b.concat({signal, b.full(signal->dtype, 0, shape)}, axis);
  }
  std::vector<onnx::Attribute> attributes;
  if (inverse) attributes.push_back({"inverse", 1});
  if (onesided) attributes.push_back({"onesided", 1});
  const Value length = size == signal->dim(axis) ? nullptr : b.dim_value(size);
  if (b.opset() >= 20) return b.op("DFT", {signal, length, b.i64(axis)}, std::move(attributes));
  attributes.push_back({"axis", axis});
  return b.op("DFT", length ? Values{signal, length} : Values{signal}, std::move(attributes));
}

void check(Builder& b, const Grid& grid) {
  b.check(!grid.axes.empty(), "expected at least one dimension to transform");
  for (const Dim& size : grid.sizes)
    b.check(size.constant_or(1) > 0, "a transform requires at least 1 point, got ", size.str());
}

Dim points(const Grid& grid) { return numel(Shape(grid.sizes.begin(), grid.sizes.end())); }

// Divides x by the number of points to the power of the norm.
Value normalized(Builder& b, Value x, const Dim& count, Norm norm) {
  if (norm == Norm::none) return x;
  if (const auto n = count.constant()) {
    const auto number = static_cast<double>(*n);
    return b.Mul(x, b.like(x, 1 / (norm == Norm::root ? std::sqrt(number) : number)));
  }
  const Value number = b.cast(b.dim_value(count), x->dtype);
  return b.Div(x, norm == Norm::root ? b.Sqrt(number) : number);
}

Value forward(Builder& b, Value signal, const Grid& grid, size_t axes) {
  for (size_t i = axes; i-- > 0;)
    signal = dft(b, signal, grid.axes[i], grid.sizes[i], /*inverse=*/false, /*onesided=*/false);
  return signal;
}

// Transforms to complex. ONNX Runtime's inverse DFT divides in float32, so float64 transforms use
// it only for powers of two.
Value complex_transform(const Call& call, const Grid& grid, bool inverse, Norm norm) {
  Builder& b = call.builder();
  check(b, grid);
  const DType part = part_dtype(call);
  Value signal = signal_of(call, working_dtype(part, grid.sizes));
  const bool exact = part != DType::f64 || std::ranges::all_of(grid.sizes, is_power_of_two);
  if (!inverse) {
    signal = normalized(b, forward(b, signal, grid, grid.axes.size()), points(grid), norm);
  } else if (norm == Norm::full && exact) {
    for (size_t i = grid.axes.size(); i-- > 0;)
      signal = dft(b, signal, grid.axes[i], grid.sizes[i], /*inverse=*/true, /*onesided=*/false);
  } else {
    const Value turned = is_complex(call.argument(0)) ? conjugate(b, signal) : signal;
    signal = conjugate(b, forward(b, turned, grid, grid.axes.size()));
    signal = normalized(b, signal, points(grid), norm);
  }
  return b.cast(signal, part);
}

// The most bins for which the factors become a constant.
constexpr int64_t kLargestTable = 1 << 20;

// Returns which of the first `count` bins of a Hermitian spectrum of `size` points are their own
// conjugates: the first, and the middle one of an even size. The shape is (count, 1).
Value own_conjugates(Builder& b, const Dim& count, const Dim& size) {
  const auto bins = count.constant();
  const auto n = size.constant();
  if (bins && n && *bins <= kLargestTable) {
    std::vector<double> flags;
    for (int64_t i = 0; i < *bins; ++i) flags.push_back(2 * i % *n == 0);
    return b.tensor(make_tensor(DType::boolean, {*bins, 1}, flags));
  }
  const Value bin = b.unsqueeze(positions(b, 0, count), {1});
  const Value twice = b.Mul(bin, b.i64(2));
  return b.Or(b.Equal(bin, b.i64(0)), b.Equal(twice, b.dim_value(size)));
}

// Gives a bin's factors the axes of a spectrum that follow the transformed one.
Value along(Builder& b, Value factors, int64_t axis, Value spectrum) {
  Ints after;
  for (int64_t i = axis + 1; i < spectrum->rank() - 1; ++i) after.push_back(i - axis);
  return b.unsqueeze(factors, after);
}

// Makes the bins of a real signal's spectrum real that are their own conjugates. ONNX Runtime
// leaves rounding in their imaginary parts, which are exactly 0 in eager, so that their angle is 0
// or pi.
Value with_real_bins(Builder& b, Value spectrum, int64_t axis, const Dim& size) {
  const Value imaginary = b.tensor(make_tensor(DType::boolean, {2}, std::vector<double>{0, 1}));
  const Value are_zero = b.And(own_conjugates(b, spectrum->dim(axis), size), imaginary);
  return b.where(along(b, are_zero, axis, spectrum), b.like(spectrum, 0), spectrum);
}

// Transforms real to complex; `onesided` drops the redundant half of the last axis. The inverse is
// conjugated.
Value real_transform(const Call& call, const Grid& grid, bool onesided, bool inverse, Norm norm) {
  Builder& b = call.builder();
  check(b, grid);
  const DType part = part_dtype(call);
  Value signal = signal_of(call, working_dtype(part, grid.sizes));
  const int64_t last = grid.axes.back();
  signal = dft(b, signal, last, grid.sizes.back(), /*inverse=*/false, onesided);
  signal = with_real_bins(b, signal, last, grid.sizes.back());
  signal = normalized(b, forward(b, signal, grid, grid.axes.size() - 1), points(grid), norm);
  return b.cast(inverse ? conjugate(b, signal) : signal, part);
}

// Returns how often each of the first `count` bins occurs in a Hermitian spectrum of `size` points:
// once for the first and for the middle one of an even size, else twice. The shape is (count, 1),
// or (count, 2) with the factor of the imaginary part negated if `conjugated`.
Value multiplicities(Builder& b, const Dim& count, const Dim& size, bool conjugated, DType dtype) {
  const double signs[] = {1, conjugated ? -1.0 : 1.0};
  const int64_t columns = conjugated ? 2 : 1;
  const auto bins = count.constant();
  const auto n = size.constant();
  if (bins && n && *bins <= kLargestTable) {
    std::vector<double> factors;
    for (int64_t i = 0; i < *bins; ++i) {
      const double times = 2 * i % *n == 0 ? 1 : 2;
      for (int64_t column = 0; column < columns; ++column) factors.push_back(times * signs[column]);
    }
    return b.tensor(make_tensor(dtype, {*bins, columns}, factors));
  }
  const Value once = own_conjugates(b, count, size);
  const Value times = b.where(once, b.scalar(dtype, 1), b.scalar(dtype, 2));
  return conjugated ? b.Mul(times, b.tensor(make_tensor(dtype, {2}, signs))) : times;
}

// Returns the real signal whose half spectrum is given, times the number of points; `inverse`
// conjugates the spectrum. Bins of negative frequency are conjugates of those of positive
// frequency, so they add the same amount to the real part.
Value real_signal(Builder& b, Value spectrum, const Grid& grid, bool inverse) {
  check(b, grid);
  const int64_t axis = grid.axes.back();
  const Dim& size = grid.sizes.back();
  const Dim half = Dim::floor_div(size, 2) + 1;
  if (!(spectrum->dim(axis) == half)) spectrum = b.slice(spectrum, axis, 0, half);
  const bool conjugated = inverse && spectrum->dim(-1).equals(2);
  const Value times = multiplicities(b, spectrum->dim(axis), size, conjugated, spectrum->dtype);
  spectrum = b.Mul(spectrum, along(b, times, axis, spectrum));
  return part(b, forward(b, spectrum, grid, grid.axes.size()), false);
}

Value to_real_transform(const Call& call, const Grid& grid, bool inverse, Norm norm) {
  Builder& b = call.builder();
  const DType result = call.result_type(0).dtype;
  const Value spectrum = signal_of(call, working_dtype(result, grid.sizes));
  return b.cast(normalized(b, real_signal(b, spectrum, grid, inverse), points(grid), norm), result);
}

// --- torch.fft: functions by the kind of their input and output.

enum class Kind { complex, from_real, to_real };

Value transform(const Call& call, const Grid& grid, Kind kind, bool inverse,
                const std::optional<std::string>& norm) {
  const Norm divisor = norm_of(call.builder(), norm, inverse);
  switch (kind) {
    case Kind::complex:
      return complex_transform(call, grid, inverse, divisor);
    case Kind::from_real:
      return real_transform(call, grid, /*onesided=*/true, inverse, divisor);
    default:
      return to_real_transform(call, grid, inverse, divisor);
  }
}

// Canonicalizes `s` and `dim` like ATen: without `dim`, all axes, or the last ones if `s` is given.
Grid grid_of(const Call& call, Kind kind, const std::optional<Shape>& s,
             const std::optional<Ints>& dim) {
  Builder& b = call.builder();
  const Value self = call.tensor(0);
  const auto rank = self->rank() - is_complex(call.argument(0));
  Grid grid;
  if (dim) {
    for (int64_t axis : *dim) grid.axes.push_back(normalize_axis(axis, rank));
  } else {
    const int64_t count = s ? static_cast<int64_t>(s->size()) : rank;
    b.check(count <= rank, "inconsistent arguments: got ", count, " sizes for a ", rank,
            "-D tensor");
    grid.axes.resize(count);
    std::iota(grid.axes.begin(), grid.axes.end(), rank - count);
  }
  b.check(!s || s->size() == grid.axes.size(), "`s` and `dim` must have the same length");
  for (size_t i = 0; i < grid.axes.size(); ++i) {
    const Dim& own = self->dim(grid.axes[i]);
    const bool last = i + 1 == grid.axes.size();
    if (s && !s->at(i).equals(-1))
      grid.sizes.push_back((*s)[i]);
    else
      grid.sizes.push_back(kind == Kind::to_real && last ? Dim(2) * (own - 1) : own);
  }
  return grid;
}

void define_transform(OpTable& ops, std::string_view name, Kind kind, bool inverse) {
  const std::string op = "aten::fft_" + std::string(name);
  using Norm = std::optional<std::string>;
  const auto one = [=](Builder&, Ignored, std::optional<Dim> n, int64_t dim, Norm norm,
                       const Call& call) {
    const auto sizes = n ? std::optional(Shape{*n}) : std::nullopt;
    return transform(call, grid_of(call, kind, sizes, Ints{dim}), kind, inverse, norm);
  };
  const auto two = [=](Builder&, Ignored, std::optional<Shape> s, Ints dim, Norm norm,
                       const Call& call) {
    return transform(call, grid_of(call, kind, s, dim), kind, inverse, norm);
  };
  const auto many = [=](Builder&, Ignored, std::optional<Shape> s, std::optional<Ints> dim,
                        Norm norm, const Call& call) {
    const Grid grid = grid_of(call, kind, s, dim);
    return grid.axes.empty() ? call.tensor(0) : transform(call, grid, kind, inverse, norm);
  };
  for (Key key : {Key::complex, Key::dense}) {
    if (key == Key::dense && kind != Kind::to_real) continue;  // other kinds return complex
    ops.def(op, key, one);
    ops.def(op + "2", key, two);
    ops.def(op + "n", key, many);
  }
}

Grid grid_of(Value self, const Ints& axes) {
  Grid grid{axes, {}};
  for (int64_t axis : axes) grid.sizes.push_back(self->dim(axis));
  return grid;
}

Norm norm_of(int64_t normalization) {
  return normalization == 0 ? Norm::none : normalization == 1 ? Norm::root : Norm::full;
}

// Returns the frequencies of n points that are `distance` apart: bin / (n * distance). The upper
// half of the bins is negative, unless `half` leaves it out.
Value frequencies(Builder& b, const Dim& n, const Number& distance, bool half, DType dtype) {
  const Dim middle = Dim::floor_div(n + 1, 2);
  const Dim count = half ? Dim::floor_div(n, 2) + 1 : n;
  if (!n.is_constant() || !distance.is_constant()) {
    Value bins = b.range(count);
    if (!half) {
      const Value upper = b.GreaterOrEqual(bins, b.dim_value(middle));
      bins = b.where(upper, b.Sub(bins, b.dim_value(n)), bins);
    }
    const Value length = b.Mul(b.cast(b.dim_value(n), DType::f64), b.scalar(DType::f64, distance));
    return b.cast(b.Div(b.cast(bins, DType::f64), length), dtype);
  }
  const int64_t points = *n.constant();
  std::vector<double> values(b.constant_size(static_cast<double>(*count.constant())));
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    const int64_t bin = half || i < *middle.constant() ? i : i - points;
    values[i] = static_cast<double>(bin) / (static_cast<double>(points) * distance.to_double());
  }
  const auto size = static_cast<int64_t>(values.size());
  return b.tensor(make_tensor(dtype, {size}, values));
}

void register_transforms(OpTable& ops) {
  for (bool inverse : {false, true}) {
    define_transform(ops, inverse ? "ifft" : "fft", Kind::complex, inverse);
    define_transform(ops, inverse ? "ihfft" : "rfft", Kind::from_real, inverse);
    define_transform(ops, inverse ? "irfft" : "hfft", Kind::to_real, inverse);
  }
  ops.def(
      "aten::_fft_c2c", Key::complex,
      [](Builder&, Value self, Ints dim, int64_t normalization, bool forward, const Call& call) {
        for (int64_t& axis : dim) axis = normalize_axis(axis, self->rank() - 1);
        return dim.empty()
                   ? self
                   : complex_transform(call, grid_of(self, dim), !forward, norm_of(normalization));
      });
  ops.def(
      "aten::_fft_r2c", Key::complex,
      [](Builder&, Value self, Ints dim, int64_t normalization, bool onesided, const Call& call) {
        for (int64_t& axis : dim) axis = normalize_axis(axis, self->rank());
        return real_transform(call, grid_of(self, dim), onesided, false, norm_of(normalization));
      });
  ops.def("aten::_fft_c2r", Key::complex,
          [](Builder&, Value self, Ints dim, int64_t normalization, Dim last_dim_size,
             const Call& call) {
            for (int64_t& axis : dim) axis = normalize_axis(axis, self->rank() - 1);
            Grid grid = grid_of(self, dim);
            check(call.builder(), grid);
            grid.sizes.back() = last_dim_size;
            return to_real_transform(call, grid, true, norm_of(normalization));
          });
  for (bool half : {false, true}) {
    ops.def(half ? "aten::fft_rfftfreq" : "aten::fft_fftfreq",
            [half](Builder& b, const Dim& n, const Number& d, std::optional<DType> dtype) {
              return frequencies(b, n, d, half, dtype.value_or(default_dtype()));
            });
  }
}

// --- Short-time transforms.

// Returns the window centered in n_fft points; nullptr if it is all ones.
Value padded_window(Builder& b, const std::optional<Value>& window, int64_t n_fft, int64_t length,
                    DType dtype) {
  if (!window && length == n_fft) return nullptr;
  const Value own = window ? b.cast(*window, dtype) : b.full(dtype, 1, {length});
  const int64_t left = (n_fft - length) / 2;
  return length == n_fft ? own : b.pad(own, {left, n_fft - length - left});
}

// Adds a batch dimension to a single signal.
Value batched(Builder& b, Value signal, int64_t rank) {
  b.check(rank == 1 || rank == 2, "expected a 1-D or 2-D signal, got a ", rank, "-D one");
  return rank == 1 ? b.unsqueeze(signal, {0}) : signal;
}

Value centered(Builder& b, Value signal, int64_t n_fft, const std::string& mode) {
  const std::string_view onnx_mode = mode == "replicate"  ? "edge"
                                     : mode == "circular" ? "wrap"
                                                          : std::string_view(mode);
  b.check(mode != "circular" || b.opset() >= 19, "circular padding requires opset 19");
  std::vector<Dim> pads(2 * signal->rank(), 0);
  pads[1] = pads[signal->rank() + 1] = n_fft / 2;
  return b.pad(signal, pads, nullptr, onnx_mode);
}

constexpr size_t kWindow = 4;  // index of the argument

struct ShortTime {
  int64_t n_fft;
  std::optional<int64_t> hop_length, win_length;
  std::optional<Value> window;
  bool center = false;
  std::string pad_mode = {};
  bool normalized;
  std::optional<bool> onesided, return_complex, align_to_window;
};

void check_windows(Builder& b, const ShortTime& of) {
  b.check(of.n_fft > 0, "n_fft must be at least 1, got ", of.n_fft);
  const int64_t hop = of.hop_length.value_or(of.n_fft / 4);
  b.check(hop > 0, "hop_length must be at least 1, got ", hop);
  const int64_t length = of.win_length.value_or(of.n_fft);
  b.check(length > 0 && length <= of.n_fft, "win_length must be from 1 to n_fft, got ", length);
}

Value stft(const Call& call, const ShortTime& of) {
  Builder& b = call.builder();
  check_windows(b, of);
  b.check(!of.align_to_window.value_or(false), "align_to_window is not supported");
  b.check(!is_complex(call.argument(kWindow)), "a complex window is not supported");
  const bool from_complex = is_complex(call.argument(0));
  const bool onesided = of.onesided.value_or(!from_complex);
  const aten::Type& result = call.result_type(0);
  const DType dtype = working_dtype(real_dtype(result.dtype), {of.n_fft});
  const int64_t rank = call.tensor(0)->rank() - from_complex;
  Value signal = batched(b, signal_of(call, dtype), rank);
  if (of.center) signal = centered(b, signal, of.n_fft, of.pad_mode);
  const Value window =
      padded_window(b, of.window, of.n_fft, of.win_length.value_or(of.n_fft), dtype);
  Value frames =
      b.op("STFT", {signal, b.i64(of.hop_length.value_or(of.n_fft / 4)), window, b.i64(of.n_fft)},
           {{"onesided", int64_t{onesided}}});
  if (!from_complex) frames = with_real_bins(b, frames, 2, of.n_fft);
  Value spectrum = b.transpose(frames, {0, 2, 1, 3});
  if (of.normalized) spectrum = normalized(b, spectrum, of.n_fft, Norm::root);
  if (rank == 1) spectrum = b.squeeze(spectrum, {0});
  return b.cast(spectrum, real_dtype(result.dtype));
}

// Adds up frames [batch, n_fft, frames], each `hop` after the previous one: [batch, length].
Value overlap_added(Builder& b, Value frames, int64_t hop) {
  const Dim& batch = frames->dim(0);
  const Dim& n_fft = frames->dim(1);
  const Dim& count = frames->dim(2);
  const Dim length = n_fft + Dim(hop) * (count - 1);
  if (frames->dtype == DType::f32) {
    const Value sums =
        b.op("Col2Im", {frames, b.shape_value({1, length}), b.shape_value({1, n_fft})},
             {{"strides", Ints{1, hop}}});
    return b.reshape(sums, {batch, length});
  }
  const Value places = b.Add(b.unsqueeze(positions(b, 0, n_fft), {1}), positions(b, 0, count, hop));
  const Dim elements = n_fft * count;
  const Value indices = b.expand(b.reshape(places, {1, elements}), {batch, elements});
  return scatter_into(b, "ScatterElements", b.full(frames->dtype, 0, {batch, length}), indices,
                      b.reshape(frames, {batch, elements}), "add", {{"axis", 1}});
}

// Returns the frames in time, [batch, n_fft, frames]: real, or pairs with a last axis of 2.
Value frames_of(Builder& b, Value spectrum, const ShortTime& of) {
  const Grid grid{{1}, {of.n_fft}};
  const Norm norm = of.normalized ? Norm::root : Norm::full;
  if (!of.return_complex.value_or(false))
    return normalized(b, real_signal(b, spectrum, grid, /*inverse=*/true), of.n_fft, norm);
  const Value turned = conjugate(b, forward(b, conjugate(b, spectrum), grid, 1));
  return normalized(b, turned, of.n_fft, norm);
}

// Returns the requested range of samples; it may be shorter than `length`.
Value cut(Builder& b, Value signal, const ShortTime& of, const std::optional<Dim>& length) {
  const Dim start = of.center ? of.n_fft / 2 : 0;
  const Dim end = length ? start + *length : signal->dim(1) - start;
  return b.slice(signal, 1, start, end);
}

Value istft(const Call& call, const ShortTime& of, const std::optional<Dim>& length) {
  Builder& b = call.builder();
  check_windows(b, of);
  const DType result = real_dtype(call.result_type(0).dtype);
  const DType dtype = working_dtype(result, {of.n_fft});
  const int64_t hop = of.hop_length.value_or(of.n_fft / 4);
  b.check(!is_complex(call.argument(kWindow)), "a complex window is not supported");
  Value spectrum = b.cast(call.tensor(0), dtype);
  const bool single = spectrum->rank() == 3;
  if (single) spectrum = b.unsqueeze(spectrum, {0});
  const Dim batch = spectrum->dim(0);
  const Dim count = spectrum->dim(2);
  const Value window =
      padded_window(b, of.window, of.n_fft, of.win_length.value_or(of.n_fft), dtype);
  const Value column = window ? b.reshape(window, {1, of.n_fft, 1}) : nullptr;
  const Value squares =
      b.expand(column ? b.Mul(column, column) : b.scalar(dtype, 1), {1, of.n_fft, count});
  const Value envelope = cut(b, overlap_added(b, squares, hop), of, length);
  const auto signal = [&](Value frames) {
    const Value sums = overlap_added(b, column ? b.Mul(frames, column) : frames, hop);
    Value samples = b.Div(cut(b, sums, of, length), envelope);
    if (length && !(samples->dim(1) == *length))
      samples = b.pad(samples, {0, 0, 0, Dim::max(0, *length - samples->dim(1))});
    return b.cast(single ? b.squeeze(samples, {0}) : samples, result);
  };
  const Value frames = frames_of(b, spectrum, of);
  if (frames->rank() == 3) return signal(frames);
  const Complex z = split(b, frames);
  return join(b, {signal(z.real), signal(z.imaginary)});
}

void register_short_time(OpTable& ops) {
  using Flag = std::optional<bool>;
  using Length = std::optional<int64_t>;
  using Window = std::optional<Value>;
  for (Key key : {Key::complex, Key::dense}) {
    ops.def("aten::stft", key,
            [](Builder&, Ignored, int64_t n_fft, Length hop_length, Length win_length,
               Window window, bool normalized, Flag onesided, Flag return_complex,
               Flag align_to_window, const Call& call) {
              return stft(call, {.n_fft = n_fft,
                                 .hop_length = hop_length,
                                 .win_length = win_length,
                                 .window = window,
                                 .normalized = normalized,
                                 .onesided = onesided,
                                 .return_complex = return_complex,
                                 .align_to_window = align_to_window});
            });
    ops.def("aten::stft.center", key,
            [](Builder&, Ignored, int64_t n_fft, Length hop_length, Length win_length,
               Window window, bool center, std::string pad_mode, bool normalized, Flag onesided,
               Flag return_complex, Flag align_to_window, const Call& call) {
              return stft(call, {.n_fft = n_fft,
                                 .hop_length = hop_length,
                                 .win_length = win_length,
                                 .window = window,
                                 .center = center,
                                 .pad_mode = std::move(pad_mode),
                                 .normalized = normalized,
                                 .onesided = onesided,
                                 .return_complex = return_complex,
                                 .align_to_window = align_to_window});
            });
  }
  ops.def("aten::istft", Key::complex,
          [](Builder&, Ignored, int64_t n_fft, Length hop_length, Length win_length, Window window,
             bool center, bool normalized, Flag onesided, std::optional<Dim> length,
             bool return_complex, const Call& call) {
            return istft(call,
                         {.n_fft = n_fft,
                          .hop_length = hop_length,
                          .win_length = win_length,
                          .window = window,
                          .center = center,
                          .normalized = normalized,
                          .onesided = onesided,
                          .return_complex = return_complex,
                          .align_to_window = {}},
                         length);
          });
}

}  // namespace

void register_fourier(OpTable& ops) {
  register_transforms(ops);
  register_short_time(ops);
}

}  // namespace onnx_native::ops
