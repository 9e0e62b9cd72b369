// Padding in all modes. ATen lists pads from the last dimension backward, and a negative pad crops.
#include <algorithm>
#include <limits>

#include "ops/families.h"
#include "ops/formulas/positions.h"

namespace onnx_native::ops {
namespace {

// The pads of one dimension.
struct Sides {
  int64_t axis;
  Dim begin, end;
};

// Returns the pads per dimension, starting with the last dimension.
std::vector<Sides> sides_of(Builder& b, Value self, const Shape& pads) {
  int64_t rank = self->rank();
  b.check(pads.size() % 2 == 0 && static_cast<int64_t>(pads.size()) <= 2 * rank,
          "inconsistent arguments: got ", pads.size(), " pads for a ", rank, "-D tensor");
  std::vector<Sides> sides;
  for (size_t i = 0; i < pads.size() / 2; ++i) {
    sides.push_back({rank - 1 - static_cast<int64_t>(i), pads[2 * i], pads[2 * i + 1]});
  }
  return sides;
}

bool is_negative(const Dim& pad) { return pad.constant_or(0) < 0; }

// Crops the sides that have negative pads.
Value crop(Builder& b, Value self, const Sides& side) {
  return b.slice(self, side.axis, is_negative(side.begin) ? -side.begin : Dim(0),
                 is_negative(side.end) ? side.end : Dim(std::numeric_limits<int64_t>::max()));
}

// Crops last: elements that are cropped on one side may pad the other side.
Value pad(Builder& b, Value self, const Shape& pads, std::string_view mode, Value value = nullptr) {
  const std::vector<Sides> sides = sides_of(b, self, pads);
  std::vector<Dim> begins_then_ends(2 * self->rank(), 0);
  for (const Sides& side : sides) {
    if (!is_negative(side.begin)) begins_then_ends[side.axis] = side.begin;
    if (!is_negative(side.end)) begins_then_ends[side.axis + self->rank()] = side.end;
  }
  self = b.pad(self, begins_then_ends, value, mode);
  for (const Sides& side : sides) self = crop(b, self, side);
  return self;
}

Value constant_pad(Builder& b, Value self, const Shape& pads, const Number& value) {
  // A fill value that does not fit the dtype is an error only if it is used.
  if (std::ranges::all_of(pads, [](const Dim& pad) { return pad.constant_or(1) <= 0; }))
    return pad(b, self, pads, "constant");
  return pad(b, self, pads, "constant", is_zero(value) ? nullptr : b.like(self, value));
}

Value reflect(Builder& b, Value self, const Shape& pads) { return pad(b, self, pads, "reflect"); }
Value replicate(Builder& b, Value self, const Shape& pads) { return pad(b, self, pads, "edge"); }

// Pads each end with elements from the other end.
Value wrap(Builder& b, Value self, const Shape& pads) {
  for (const Sides& side : sides_of(b, self, pads)) {
    self = crop(b, self, side);
    const Dim begin = is_negative(side.begin) ? 0 : side.begin;
    const Dim end = is_negative(side.end) ? 0 : side.end;
    if (begin.equals(0) && end.equals(0)) continue;
    const Dim& size = self->dim(side.axis);
    b.check(!size.equals(0), "circular padding requires at least one element");
    Value from = positions(b, -begin, size + begin + end);
    self = b.gather(self, b.op("Mod", {from, b.dim_value(size)}), side.axis);
  }
  return self;
}

Value pad_mode(Builder& b, Value self, const Shape& pads, const std::string& mode,
               std::optional<Number> value) {
  if (mode == "constant") return constant_pad(b, self, pads, value.value_or(0));
  if (mode == "reflect") return reflect(b, self, pads);
  if (mode == "replicate") return replicate(b, self, pads);
  b.check(mode == "circular", "mode must be constant, reflect, replicate or circular, got ", mode);
  return wrap(b, self, pads);
}

}  // namespace

void register_pad(OpTable& ops) {
  ops.def("aten::constant_pad_nd", constant_pad);
  ops.def("aten::pad", pad_mode);
  ops.def("aten::_pad_enum",
          [](Builder& b, Value self, Shape pads, int64_t mode, std::optional<Number> value) {
            static const char* const kModes[] = {"reflect", "replicate", "circular", "constant"};
            b.check(mode >= 0 && mode < 4, "mode must be 0, 1, 2 or 3, got ", mode);
            return pad_mode(b, self, pads, kModes[mode], value);
          });
  ops.def("aten::_pad_circular", wrap);
  ops.def({"aten::reflection_pad1d", "aten::reflection_pad2d", "aten::reflection_pad3d"}, reflect);
  ops.def({"aten::replication_pad1d", "aten::replication_pad2d", "aten::replication_pad3d"},
          replicate);
}

}  // namespace onnx_native::ops
