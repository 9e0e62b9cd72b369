// Operators that create tensors from sizes, numbers or nothing.
#include <cmath>

#include "onnx/infer_rules.h"

namespace onnx_native::onnx {
namespace {

void set_integers(Inference& i, const std::vector<int64_t>& values) {
  i.set_contents(0, Shape(values.begin(), values.end()));
}

void constant(Inference& i) {
  const Node& node = i.node();
  if (const AttributeValue* value = node.attribute("value")) {
    const auto* data = std::get_if<std::shared_ptr<TensorData>>(value);
    if (!data) i.fail("value is not a tensor");
    const TensorData& tensor = **data;
    i.set(0, tensor.dtype, Shape(tensor.shape.begin(), tensor.shape.end()));
    if (i.small_integers(0)) set_integers(i, tensor.integers());
  } else if (node.attribute("value_int")) {
    i.set(0, DType::i64, Shape{});
    i.set_contents(0, {i.attribute("value_int", 0)});
  } else if (const auto integers = i.attribute_ints("value_ints")) {
    i.set(0, DType::i64, Shape{static_cast<int64_t>(integers->size())});
    set_integers(i, *integers);
  } else if (node.attribute("value_float")) {
    i.set(0, DType::f32, Shape{});
  } else if (const AttributeValue* floats = node.attribute("value_floats")) {
    const auto* numbers = std::get_if<std::vector<double>>(floats);
    if (!numbers) i.fail("value_floats is not a list of floats");
    i.set(0, DType::f32, Shape{static_cast<int64_t>(numbers->size())});
  } else if (node.attribute("value_string")) {
    i.set(0, DType::string, Shape{});
  } else if (const AttributeValue* strings = node.attribute("value_strings")) {
    const auto* texts = std::get_if<std::vector<std::string>>(strings);
    if (!texts) i.fail("value_strings is not a list of strings");
    i.set(0, DType::string, Shape{static_cast<int64_t>(texts->size())});
  } else {
    i.fail("no value attribute is set");
  }
}

// Returns the shape that an input of sizes describes; its sizes are unknown if only its length is
// known.
std::optional<Shape> shape_from(const Inference& i, size_t input) {
  if (const auto* sizes = i.contents(input)) return *sizes;
  const Shape* length = i.shape(input);
  const auto rank = length && length->size() == 1 ? (*length)[0].constant() : std::nullopt;
  return rank ? std::optional(i.unknown_shape(0, *rank)) : std::nullopt;
}

void constant_of_shape(Inference& i) {
  DType dtype = DType::f32;
  const TensorData* fill = nullptr;
  if (const AttributeValue* value = i.node().attribute("value")) {
    const auto* data = std::get_if<std::shared_ptr<TensorData>>(value);
    if (!data) i.fail("value is not a tensor");
    fill = data->get();
    dtype = fill->dtype;
  }
  i.set(0, dtype, shape_from(i, 0));
  const auto count = i.small_integers(0);
  if (!count || !fill) return;
  i.set_contents(0, Shape(static_cast<size_t>(*count), fill->integer(0)));
}

void range(Inference& i) {
  i.same_dtype(0, 1);
  i.same_dtype(0, 2);
  const auto* start = i.contents(0);
  const auto* limit = i.contents(1);
  const auto* delta = i.contents(2);
  if (start && limit && delta) {
    const Dim& from = start->at(0);
    const Dim& step = delta->at(0);
    if (step.equals(0)) i.fail("delta 0");
    Dim count = Dim::ceil_div(limit->at(0) - from, step);
    if (!count.known_non_negative()) count = Dim::max(0, count);
    i.set(0, i.dtype(0), Shape{count});
    if (const auto length = i.small_integers(0)) {
      Shape elements;
      for (int64_t k = 0; k < *length; ++k) elements.push_back(from + Dim(k) * step);
      i.set_contents(0, std::move(elements));
    }
    return;
  }
  const TensorData* bounds[] = {i.constant(0), i.constant(1), i.constant(2)};
  if (bounds[0] && bounds[1] && bounds[2]) {
    const double from = bounds[0]->number(0);
    const double to = bounds[1]->number(0);
    const double step = bounds[2]->number(0);
    const double count = std::ceil((to - from) / step);
    i.set(0, i.dtype(0), Shape{count > 0 ? static_cast<int64_t>(count) : int64_t{0}});
    return;
  }
  i.set(0, i.dtype(0), Shape{i.unknown(0, 1, 0)});
}

void eye_like(Inference& i) { i.set(0, i.attribute_dtype("dtype", i.dtype(0)), i.in(0).shape); }

void random_of_shape(Inference& i) {
  const auto shape = i.attribute_ints("shape");
  if (!shape) i.fail("the attribute shape is missing");
  i.set(0, i.attribute_dtype("dtype", DType::f32), Shape(shape->begin(), shape->end()));
}

void multinomial(Inference& i) {
  const Shape* input = i.shape(0);
  i.set(0, i.attribute_dtype("dtype", DType::i32),
        Shape{input ? (*input)[0] : i.unknown(0, 2, 0), i.attribute("sample_size", 1)});
}

}  // namespace

void add_generator_rules(Rules& rules) {
  rules["Bernoulli"] = eye_like;
  rules["Constant"] = constant;
  rules["ConstantOfShape"] = constant_of_shape;
  rules["EyeLike"] = eye_like;
  rules["Multinomial"] = multinomial;
  rules["RandomNormal"] = random_of_shape;
  rules["RandomNormalLike"] = eye_like;
  rules["RandomUniform"] = random_of_shape;
  rules["RandomUniformLike"] = eye_like;
  rules["Range"] = range;
}

}  // namespace onnx_native::onnx
