// Padding, in all modes. ATen counts pads from the last dimension backwards, and a negative pad
// crops.
#include <algorithm>
#include <limits>

#include "ops/families.h"
#include "ops/view.h"

namespace onnx_native::ops {
namespace {

Value pad(Builder& b, Value self, const Shape& pads, std::string_view mode, Value value = nullptr) {
  size_t rank = b.known_shape(self)->size();
  b.check(pads.size() % 2 == 0 && pads.size() <= 2 * rank, pads.size(), " pads for a ", rank,
          "-D tensor");
  std::vector<Dim> begins_then_ends(2 * rank, 0);
  for (size_t i = 0; i < pads.size() / 2; ++i) {
    int64_t axis = static_cast<int64_t>(rank - 1 - i);
    const Dim* sides[] = {&pads[2 * i], &pads[2 * i + 1]};
    Dim kept[] = {0, std::numeric_limits<int64_t>::max()};
    for (int side : {0, 1}) {
      const Dim& amount = *sides[side];
      if (amount.constant_or(0) >= 0)
        begins_then_ends[axis + side * rank] = amount;
      else
        kept[side] = side == 0 ? -amount : amount;
    }
    self = b.slice(self, axis, kept[0], kept[1]);
  }
  return b.pad(self, begins_then_ends, value, mode);
}

Value constant_pad(Builder& b, Value self, const Shape& pads, const Scalar& value) {
  return pad(b, self, pads, "constant", is_zero(value) ? nullptr : b.like(self, value));
}

Value reflect(Builder& b, Value self, const Shape& pads) { return pad(b, self, pads, "reflect"); }
Value replicate(Builder& b, Value self, const Shape& pads) { return pad(b, self, pads, "edge"); }

// What goes in at one end comes from the other.
Value wrap(Builder& b, Value self, const Shape& pads) {
  size_t rank = b.known_shape(self)->size();
  for (size_t i = 0; i < pads.size() / 2; ++i) {
    int64_t axis = static_cast<int64_t>(rank - 1 - i);
    const Dim& size = self->dim(axis);
    const Dim& begin = pads[2 * i];
    const Dim& end = pads[2 * i + 1];
    if (begin.equals(0) && end.equals(0)) continue;
    Value from = positions(b, -begin, size + begin + end);
    self = b.gather(self, b.op("Mod", {from, b.dim_value(size)}), axis);
  }
  return self;
}

Value pad_mode(Builder& b, Value self, const Shape& pads, const std::string& mode,
               std::optional<double> value) {
  if (mode == "constant") return constant_pad(b, self, pads, value.value_or(0));
  if (mode == "reflect") return reflect(b, self, pads);
  if (mode == "replicate") return replicate(b, self, pads);
  b.check(mode == "circular", "padding mode ", mode);
  return wrap(b, self, pads);
}

}  // namespace

void register_pad(OpTable& ops) {
  ops.def("aten::constant_pad_nd", constant_pad);
  ops.def("aten::pad", pad_mode);
  ops.def("aten::_pad_enum",
          [](Builder& b, Value self, Shape pads, int64_t mode, std::optional<double> value) {
            static const char* const kModes[] = {"constant", "reflect", "replicate", "circular"};
            b.check(mode >= 0 && mode < 4, "padding mode ", mode);
            return pad_mode(b, self, pads, kModes[mode], value);
          });
  ops.def("aten::_pad_circular", wrap);
  ops.def({"aten::reflection_pad1d", "aten::reflection_pad2d", "aten::reflection_pad3d"}, reflect);
  ops.def({"aten::replication_pad1d", "aten::replication_pad2d", "aten::replication_pad3d"},
          replicate);
}

}  // namespace onnx_native::ops
