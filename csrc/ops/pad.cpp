// Padding, in all modes. ATen counts pads from the last dimension backwards, and a negative pad
// crops.
#include <algorithm>
#include <limits>
#include <utility>

#include "ops/families.h"
#include "ops/view.h"

namespace onnx_native::ops {
namespace {

// The pads of a dimension that is the `i`-th from the end.
struct Sides {
  int64_t axis;
  Dim begin, end;
};

// Crops by the negative pads; the others are left, the last dimension's first.
std::vector<Sides> crop(Builder& b, Value& self, const Shape& pads) {
  int64_t rank = static_cast<int64_t>(b.known_shape(self)->size());
  b.check(pads.size() % 2 == 0 && static_cast<int64_t>(pads.size()) <= 2 * rank, pads.size(),
          " pads for a ", rank, "-D tensor");
  std::vector<Sides> sides;
  for (size_t i = 0; i < pads.size() / 2; ++i) {
    Sides side{rank - 1 - static_cast<int64_t>(i), pads[2 * i], pads[2 * i + 1]};
    Dim start = 0;
    Dim stop = std::numeric_limits<int64_t>::max();
    if (side.begin.constant_or(0) < 0) start = -std::exchange(side.begin, 0);
    if (side.end.constant_or(0) < 0) stop = std::exchange(side.end, 0);
    self = b.slice(self, side.axis, start, stop);
    sides.push_back(side);
  }
  return sides;
}

Value pad(Builder& b, Value self, const Shape& pads, std::string_view mode, Value value = nullptr) {
  std::vector<Sides> sides = crop(b, self, pads);
  std::vector<Dim> begins_then_ends(2 * self->rank(), 0);
  for (const Sides& side : sides) {
    begins_then_ends[side.axis] = side.begin;
    begins_then_ends[side.axis + self->rank()] = side.end;
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
  for (const auto& [axis, begin, end] : crop(b, self, pads)) {
    if (begin.equals(0) && end.equals(0)) continue;
    const Dim& size = self->dim(axis);
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
            static const char* const kModes[] = {"reflect", "replicate", "circular", "constant"};
            b.check(mode >= 0 && mode < 4, "padding mode ", mode);
            return pad_mode(b, self, pads, kModes[mode], value);
          });
  ops.def("aten::_pad_circular", wrap);
  ops.def({"aten::reflection_pad1d", "aten::reflection_pad2d", "aten::reflection_pad3d"}, reflect);
  ops.def({"aten::replication_pad1d", "aten::replication_pad2d", "aten::replication_pad3d"},
          replicate);
}

}  // namespace onnx_native::ops
