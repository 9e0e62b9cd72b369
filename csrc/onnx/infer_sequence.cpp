// Sequences and optionals of tensors. A Value holds the dtype of their elements, and the shape that
// all elements share.
#include "onnx/infer_rules.h"

namespace onnx_native::onnx {
namespace {

// Returns a shape that describes both: equal sizes are kept, others become fresh symbols.
std::optional<Shape> shared_shape(const std::optional<Shape>& a, const std::optional<Shape>& b) {
  if (!a || !b || a->size() != b->size()) return std::nullopt;
  Shape result = *a;
  for (size_t axis = 0; axis < a->size(); ++axis) {
    if (!((*a)[axis] == (*b)[axis])) result[axis] = Dim::fresh();
  }
  return result;
}

void set_sequence(Inference& i, DType dtype, std::optional<Shape> shape) {
  i.set(0, dtype, std::move(shape));
  i.set_kind(0, ValueKind::sequence);
}

void sequence_construct(Inference& i) {
  std::optional<Shape> shape = i.in(0).shape;
  for (size_t input = 1; input < i.num_inputs(); ++input) {
    i.same_dtype(0, input);
    shape = shared_shape(shape, i.in(input).shape);
  }
  set_sequence(i, i.dtype(0), std::move(shape));
}

void sequence_empty(Inference& i) {
  set_sequence(i, i.attribute_dtype("dtype", DType::f32), std::nullopt);
}

void sequence_insert(Inference& i) {
  i.same_dtype(0, 1);
  const Node* made = i.in(0).producer;
  const bool was_empty = made && made->op_type == "SequenceEmpty";
  set_sequence(i, i.dtype(0),
               was_empty ? i.in(1).shape : shared_shape(i.in(0).shape, i.in(1).shape));
}

void sequence_erase(Inference& i) { set_sequence(i, i.dtype(0), i.in(0).shape); }

void sequence_at(Inference& i) { i.set(0, i.dtype(0), i.in(0).shape); }

void sequence_length(Inference& i) { i.set(0, DType::i64, Shape{}); }

void split_to_sequence(Inference& i) {
  std::optional<Shape> shape = i.in(0).shape;
  if (shape) {
    const int64_t rank = i.in(0).rank();
    const int64_t axis = i.axis_attribute("axis", 0, rank);
    Dim& size = (*shape)[static_cast<size_t>(axis)];
    const auto sizes = i.numbers(1);
    if (!i.optional(1)) {
      if (i.attribute("keepdims", 1) != 0) {
        size = 1;
      } else {
        shape->erase(shape->begin() + axis);
      }
    } else if (sizes && i.in(1).rank_or(-1) == 0 && (*sizes)[0] > 0 && size.is_constant() &&
               *size.constant() % (*sizes)[0] == 0) {
      size = (*sizes)[0];
    } else {
      size = Dim::fresh();
    }
  }
  set_sequence(i, i.dtype(0), std::move(shape));
}

void concat_from_sequence(Inference& i) {
  std::optional<Shape> shape = i.in(0).shape;
  if (shape) {
    const bool stack = i.attribute("new_axis", 0) != 0;
    const int64_t rank = i.in(0).rank() + (stack ? 1 : 0);
    const int64_t axis = i.axis_attribute("axis", 0, rank);
    const Dim size = i.unknown(0, rank, axis);
    if (stack) {
      shape->insert(shape->begin() + axis, size);
    } else {
      (*shape)[static_cast<size_t>(axis)] = size;
    }
  }
  i.set(0, i.dtype(0), std::move(shape));
}

void make_optional(Inference& i) {
  if (i.optional(0)) i.set(0, i.dtype(0), i.in(0).shape);
  i.set_kind(0, ValueKind::optional);
}

void optional_has_element(Inference& i) { i.set(0, DType::boolean, Shape{}); }

void optional_get_element(Inference& i) {
  i.set(0, i.dtype(0), i.in(0).shape);
  if (i.in(0).kind == ValueKind::sequence) i.set_kind(0, ValueKind::sequence);
}

}  // namespace

void add_sequence_rules(Rules& rules) {
  rules["ConcatFromSequence"] = concat_from_sequence;
  rules["Optional"] = make_optional;
  rules["OptionalGetElement"] = optional_get_element;
  rules["OptionalHasElement"] = optional_has_element;
  rules["SequenceAt"] = sequence_at;
  rules["SequenceConstruct"] = sequence_construct;
  rules["SequenceEmpty"] = sequence_empty;
  rules["SequenceErase"] = sequence_erase;
  rules["SequenceInsert"] = sequence_insert;
  rules["SequenceLength"] = sequence_length;
  rules["SplitToSequence"] = split_to_sequence;
}

}  // namespace onnx_native::onnx
