// The operators of torchao: quantization in blocks of any shape, and products of integers.
#include "ops/nn/quantize_affine.h"

#include "base/packed.h"
#include "base/weight.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {
namespace {

constexpr int64_t kBlocksOpset = 21;
// A tensor split into blocks that share a scale and a zero point.
struct Blocks {
  Shape split;       // the sizes; an axis of several blocks is two axes
  Shape parameters;  // the sizes of scales that broadcast along `split`
  Ints reduced;      // the axes of `split` within a block
  Ints single;       // the axes of the tensor along which each index is a block
  Ints several;      // the axes of the tensor with several blocks of several indices

  Blocks(Builder& b, const Shape& shape, const Shape& block) {
    b.check(shape.size() == block.size(), "block_size has ", block.size(), " sizes for a ",
            shape.size(), "-D tensor");
    for (size_t i = 0; i < shape.size(); ++i) {
      const bool is_whole = block[i] == shape[i];
      if (!is_whole && !block[i].equals(1)) {
        several.push_back(static_cast<int64_t>(i));
        const Dim count = Dim::floor_div(shape[i], block[i]);
        add(count, count);
        reduced.push_back(static_cast<int64_t>(split.size()));
        add(block[i], 1);
        continue;
      }
      if (block[i].equals(1)) {
        if (!is_whole) single.push_back(static_cast<int64_t>(i));
        add(shape[i], shape[i]);
        continue;
      }
      reduced.push_back(static_cast<int64_t>(split.size()));
      add(shape[i], 1);
    }
  }

 private:
  void add(const Dim& size, const Dim& parameter) {
    split.push_back(size);
    parameters.push_back(parameter);
  }
};

struct Range {
  double low, high;
};

Range range_of(DType dtype, const std::optional<Scalar>& low, const std::optional<Scalar>& high) {
  return {low ? low->to_double() : lowest_value(dtype),
          high ? high->to_double() : max_value(dtype)};
}

bool is_byte(DType dtype) { return dtype == DType::i8 || dtype == DType::u8; }

// Returns true if all elements of a constant are integers in the range.
bool holds_all(Value constant, const Range& range) {
  if (!constant->is_constant() || !has_elements(constant->constant)) return false;
  const TensorData data = current(*constant->constant);
  for (int64_t i = 0; i < data.numel(); ++i) {
    const double number = data.number(i);
    if (number < range.low || number > range.high || number != static_cast<double>(data.integer(i)))
      return false;
  }
  return true;
}

// Returns true if all elements repeat constants that are zero.
bool is_zero_constant(Value v) {
  while (v->producer && v->producer->is_any({"Cast", "Expand", "Reshape"}))
    v = v->producer->inputs[0];
  return holds_all(v, {0, 0});
}

// (x - zero_point) * scale.
Value computed(Builder& b, Value x, const Blocks& blocks, Value scale, Value zero_point,
               DType dtype) {
  const Shape& shape = x->known_shape();
  Value y = b.cast(b.reshape(x, blocks.split), dtype);
  if (zero_point) y = b.Sub(y, b.cast(b.reshape(zero_point, blocks.parameters), dtype));
  const DType compute = promote_types(dtype, scale->dtype);
  y = b.Mul(b.cast(y, compute), b.cast(b.reshape(scale, blocks.parameters), compute));
  return b.cast(b.reshape(y, shape), dtype);
}

// Returns the attributes of the DequantizeLinear with these blocks; nullopt if it has none.
std::optional<std::vector<onnx::Attribute>> linear_attributes(Builder& b, const Shape& shape,
                                                              const Shape& block,
                                                              const Blocks& blocks) {
  using Attributes = std::vector<onnx::Attribute>;
  if (blocks.several.empty()) {
    if (blocks.single.size() > 1) return std::nullopt;
    return blocks.single.empty() ? Attributes{} : Attributes{{"axis", blocks.single[0]}};
  }
  if (blocks.several.size() > 1 || b.opset() < kBlocksOpset) return std::nullopt;
  const auto axis = static_cast<size_t>(blocks.several[0]);
  const auto size = block[axis].constant();
  if (!size || !Dim::mod(shape[axis], block[axis]).equals(0)) return std::nullopt;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != axis && !block[i].equals(1)) return std::nullopt;
  }
  return Attributes{{"axis", blocks.several[0]}, {"block_size", *size}};
}

// The sizes of the scales of a DequantizeLinear.
Shape linear_sizes(const Shape& shape, const Blocks& blocks, const Shape& block) {
  if (blocks.several.empty()) {
    if (blocks.single.empty()) return {};
    return {shape[static_cast<size_t>(blocks.single[0])]};
  }
  Shape sizes;
  for (size_t i = 0; i < shape.size(); ++i) sizes.push_back(Dim::floor_div(shape[i], block[i]));
  return sizes;
}

// Returns the dtype of 4 bits that holds the range; nullopt if the opset or the range has none.
std::optional<DType> packed_dtype(Builder& b, DType dtype, const Range& range) {
  const DType narrow = dtype == DType::i8 ? kInt4 : kUint4;
  const bool fits = range.low >= lowest_value(narrow) && range.high <= max_value(narrow);
  return fits && b.opset() >= kBlocksOpset ? std::optional(narrow) : std::nullopt;
}

Value dequantize_affine(Builder& b, Value input, const Shape& block_size, Value scale,
                        std::optional<Value> zero_point, Ignored,
                        const std::optional<Scalar>& quant_min,
                        const std::optional<Scalar>& quant_max, DType output_dtype) {
  const Shape& shape = input->known_shape();
  const Blocks blocks(b, shape, block_size);
  Value zero = zero_point && !is_zero_constant(*zero_point) ? *zero_point : nullptr;
  const auto attributes = linear_attributes(b, shape, block_size, blocks);
  const bool is_linear = attributes && output_dtype == DType::f32 && scale->dtype == DType::f32;
  if (!is_byte(input->dtype) || !input->is_constant()) {
    return computed(b, input, blocks, scale, zero, output_dtype);
  }
  const DType dtype = input->dtype;
  const bool fits = !zero || holds_all(zero, {lowest_value(dtype), max_value(dtype)});
  if (!is_linear || !fits) return computed(b, input, blocks, scale, zero, output_dtype);
  const Shape sizes = linear_sizes(shape, blocks, block_size);
  const Range range = range_of(dtype, quant_min, quant_max);
  auto narrow = packed_dtype(b, dtype, range);
  if (zero && !holds_all(zero, range)) narrow = std::nullopt;
  // The pass packed_weights stores the result of the Cast.
  const auto stored = [&](Value v) { return narrow ? b.cast(v, *narrow) : v; };
  Values inputs{stored(input), b.reshape(scale, sizes)};
  if (zero) inputs.push_back(stored(b.cast(b.reshape(zero, sizes), dtype)));
  return b.op("DequantizeLinear", std::move(inputs), *attributes);
}

Value quantize_affine(Builder& b, Value input, const Shape& block_size, Value scale,
                      std::optional<Value> zero_point, DType output_dtype,
                      const std::optional<Scalar>& quant_min,
                      const std::optional<Scalar>& quant_max) {
  const Blocks blocks(b, input->known_shape(), block_size);
  const Range range = range_of(output_dtype, quant_min, quant_max);
  const auto parameter = [&](Value v, DType dtype) {
    return b.cast(b.reshape(v, blocks.parameters), dtype);
  };
  const DType dtype = promote_types(input->dtype, scale->dtype);
  const Value x = b.cast(b.reshape(input, blocks.split), dtype);
  // A quotient in place of a product with the reciprocal would round differently.
  Value y = b.Round(b.Mul(x, b.Div(b.like(x, 1.0), parameter(scale, dtype))));
  if (zero_point && !is_zero_constant(*zero_point)) y = b.Add(y, parameter(*zero_point, dtype));
  return b.cast(b.reshape(clamped(b, y, range.low, range.high), input->known_shape()),
                output_dtype);
}

double smallest_normal(DType dtype) {
  return dtype == DType::f16 ? 0x1p-14 : 0x1p-126;  // f32 and bf16
}

Results choose_qparams_affine(Builder& b, std::optional<Value> input,
                              const std::string& mapping_type, const Shape& block_size,
                              DType target_dtype, const std::optional<Scalar>& quant_min,
                              const std::optional<Scalar>& quant_max, std::optional<double> eps,
                              std::optional<DType> scale_dtype,
                              std::optional<DType> zero_point_dtype, bool keepdim) {
  b.check(input.has_value(), "choose_qparams_affine needs an input");
  const Value whole = *input;
  const auto [low, high] = range_of(target_dtype, quant_min, quant_max);
  const Blocks blocks(b, whole->known_shape(), block_size);
  b.check(!blocks.reduced.empty(), "the blocks have one element each");
  const Value x = b.reshape(whole, blocks.split);
  const auto number = [&](double v) { return b.like(x, v); };
  const Value least = b.Min(b.reduce("ReduceMin", x, blocks.reduced, keepdim), number(0.0));
  const Value most = b.Max(b.reduce("ReduceMax", x, blocks.reduced, keepdim), number(0.0));
  const Value smallest = number(eps.value_or(smallest_normal(x->dtype)));
  Value scale, zero;
  if (mapping_type == "ASYMMETRIC") {
    scale = b.Max(b.Div(b.Sub(most, least), number(high - low)), smallest);
    zero = clamped(b, b.Sub(number(low), b.Round(b.Div(least, scale))), low, high);
    if (!zero_point_dtype) zero_point_dtype = DType::i32;
  } else {
    if (mapping_type == "SYMMETRIC") {
      scale = b.Div(b.Max(b.Neg(least), most), number((high - low) / 2));
    } else {
      b.check(mapping_type == "SYMMETRIC_NO_CLIPPING_ERR", "unknown mapping type ", mapping_type);
      scale = b.Max(b.Div(least, number(low)), b.Div(most, number(high)));
    }
    scale = b.Max(scale, smallest);
    const double middle = static_cast<double>(static_cast<int64_t>((high + low + 1) / 2));
    zero = b.expand(number(middle), scale->known_shape());
  }
  if (keepdim) {
    Shape sizes;
    for (size_t i = 0; i < block_size.size(); ++i) {
      sizes.push_back(Dim::floor_div(whole->dim(static_cast<int64_t>(i)), block_size[i]));
    }
    scale = b.reshape(scale, sizes);
    zero = b.reshape(zero, sizes);
  }
  return {b.cast(scale, scale_dtype.value_or(x->dtype)),
          b.cast(zero, zero_point_dtype.value_or(x->dtype))};
}

}  // namespace

void register_quantize_affine(OpTable& ops) {
  ops.def("torchao::quantize_affine", quantize_affine);
  ops.def("torchao::dequantize_affine", dequantize_affine);
  ops.def("torchao::choose_qparams_affine", choose_qparams_affine);
}

}  // namespace onnx_native::ops
