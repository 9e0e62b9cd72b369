// Embeddings whose tables are quantized by rows, to 8 or 4 bits.
#include <ATen/core/Tensor.h>

#include "aten/torch_types.h"
#include "readers/jit/quantized.h"

namespace onnx_native::readers::jit {
namespace {

constexpr int64_t kValues = 16;  // number of 4-bit values

// A table of integers. Its rows represent integers * scale + offset.
struct EmbeddingTable {
  Item integers, scales, offsets;  // [rows, columns], [rows, 1], [rows, 1]
  bool has_halves;                 // a byte holds two integers, the first of them in its low half
};

EmbeddingTable embedding_table(const Call& call, const Item& packed) {
  const at::Tensor table = unpack(call, packed, "quantized::embedding_bag_unpack").at(0).toTensor();
  if (table.scalar_type() != c10::kQUInt8 && table.scalar_type() != c10::kQUInt4x2)
    call.run.unsupported(
        concat("cannot export embeddings of ", c10::toString(table.scalar_type())));
  const bool has_halves = table.scalar_type() == c10::kQUInt4x2;
  const int64_t columns = table.size(1);
  if (has_halves && columns % 2 != 0)
    call.run.unsupported(concat("cannot export embeddings of 4 bits with ", columns, " columns"));
  const std::string module = module_of(packed);
  at::Tensor scales = table.q_per_channel_scales().to(c10::kFloat).unsqueeze(1);
  at::Tensor offsets =
      table.q_per_channel_zero_points().to(c10::kFloat).unsqueeze(1).mul(scales).neg();
  if (has_halves) {  // ATen stores them as float16 beside the integers
    scales = scales.to(c10::kHalf).to(c10::kFloat);
    offsets = offsets.to(c10::kHalf).to(c10::kFloat);
  }
  at::Tensor integers = table.int_repr();
  if (has_halves) integers = integers.reshape({table.size(0), columns / 2});
  return {parameter(call, integers, module + "weight"), parameter(call, scales, module + "scales"),
          parameter(call, offsets, module + "offsets"), has_halves};
}

// Returns the rows at these indices as real numbers.
Item rows_at(const Call& call, const EmbeddingTable& table, const Item& indices) {
  const Item one = number(int64_t{1}), last = number(int64_t{-1});
  const auto gathered = [&](const Item& from) {
    const Item no = c10::IValue(false);
    return record(call, "aten::embedding", {from, indices, last, no, no});
  };
  const Item bytes = gathered(table.integers);
  Item integers = call.run.record_one("aten::to.dtype", {call.run.argument(bytes), DType::f32});
  if (table.has_halves) {
    const Item high = record(call, "aten::floor",
                             {record(call, "aten::div.Scalar", {integers, number(kValues)})});
    const Item low =
        record(call, "aten::sub.Tensor",
               {integers, record(call, "aten::mul.Scalar", {high, number(kValues)}), one});
    const Item pairs =
        record(call, "aten::stack", {make_container(Container::Kind::list, {low, high}), last});
    integers = record(call, "aten::flatten.using_ints", {pairs, number(int64_t{-2}), last});
  }
  const Item scaled = record(call, "aten::mul.Tensor", {integers, gathered(table.scales)});
  return record(call, "aten::add.Tensor", {scaled, gathered(table.offsets), one});
}

std::optional<Items> embedding(const Call& call) {
  if (call.size() != 3 || call.input(2).boolean() != false) return std::nullopt;
  return one(rows_at(call, embedding_table(call, call.input(0)), call.input(1)));
}

// Sums rows; ATen's kernels ignore the mode.
std::optional<Items> embedding_bag(const Call& call) {
  constexpr size_t kPruned = 5, kWeights = 6, kMapping = 7, kHasLast = 8;
  if (call.size() != 9 || call.input(kPruned).boolean() != false || !call.input(kMapping).is_none())
    return std::nullopt;
  const aten::Value* indices = call.input(1).tensor();
  if (!indices || !indices->type.shape) return std::nullopt;
  const Shape& shape = *indices->type.shape;
  const Item rows = rows_at(call, embedding_table(call, call.input(0)), call.input(1));
  const Item& weights = call.input(kWeights);
  const Item zero = number(int64_t{0});
  const Item no = c10::IValue(false);
  if (shape.size() == 2) {
    Item summed = rows;
    if (!weights.is_none()) {
      const Item column = record(call, "aten::unsqueeze", {weights, number(int64_t{2})});
      summed = record(call, "aten::mul.Tensor", {rows, column});
    }
    const Item axis = call.run.item(c10::IValue(std::vector<int64_t>{1}), "constant");
    return one(record(call, "aten::sum.dim_IntList", {summed, axis, no, Item::none()}));
  }
  const Item places =
      call.run.record_one("aten::arange", {call.run.argument(Item(shape.at(0))), DType::i64,
                                           aten::Argument(), aten::Argument(), aten::Argument()});
  std::vector<aten::Argument> arguments;
  for (const Item& each :
       {rows, places, call.input(2), no, zero, no, weights, call.input(kHasLast)})
    arguments.push_back(call.run.argument(each));
  return one(call.run.record("aten::embedding_bag", std::move(arguments)).at(0));
}

}  // namespace

void add_quantized_embedding_handlers(Handlers& handlers) {
  for (const char* name : {"quantized::embedding_byte", "quantized::embedding_4bit"})
    handlers[name].push_back(embedding);
  for (const char* name : {"quantized::embedding_bag_byte", "quantized::embedding_bag_4bit"})
    handlers[name].push_back(embedding_bag);
}

}  // namespace onnx_native::readers::jit
