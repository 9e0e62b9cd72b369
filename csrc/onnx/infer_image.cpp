// Operators on images: resampling and regions of interest.
#include <cmath>

#include "base/scalar.h"
#include "onnx/infer_rules.h"

namespace onnx_native::onnx {
namespace {

// Returns floor(size * scale); nullopt if it is not expressible. A scale whose denominator is a
// small power of two is exact in floating point.
std::optional<Dim> scaled(const Dim& size, double scale) {
  if (const auto number = size.constant()) {
    const float product = static_cast<float>(*number) * static_cast<float>(scale);
    return Scalar(std::floor(product)).to_int();
  }
  for (int64_t denominator = 1; denominator <= 1024; denominator *= 2) {
    const double numerator = scale * static_cast<double>(denominator);
    if (numerator == std::floor(numerator) && numerator < 0x1p31) {
      return Dim::floor_div(size * Dim(static_cast<int64_t>(numerator)), denominator);
    }
  }
  return std::nullopt;
}

void resize(Inference& i) {
  const Shape* input = i.shape(0);
  if (!input) {
    i.set(0, i.dtype(0), std::nullopt);
    return;
  }
  const auto rank = static_cast<int64_t>(input->size());
  std::vector<int64_t> axes;
  if (const auto given = i.attribute_ints("axes")) {
    for (const int64_t axis : *given) axes.push_back(i.axis(axis, rank));
  } else {
    for (int64_t axis = 0; axis < rank; ++axis) axes.push_back(axis);
  }
  Shape result = *input;
  // Inputs: X, roi, scales, sizes. Upsample has the scales as its second input.
  const bool upsample = i.node().op_type == "Upsample";
  const auto* sizes = upsample ? nullptr : i.contents(3);
  const TensorData* scales = i.constant(upsample ? 1 : 2);
  const bool stretch =
      i.node().attribute_string("keep_aspect_ratio_policy", "stretch") == "stretch";
  const bool has_sizes = !upsample && i.optional(3);
  if (sizes && sizes->size() != axes.size())
    i.fail("got ", sizes->size(), " sizes for ", axes.size(), " axes");
  if (!has_sizes && scales && scales->numel() != static_cast<int64_t>(axes.size())) {
    i.fail("got ", scales->numel(), " scales for ", axes.size(), " axes");
  }
  for (size_t k = 0; k < axes.size(); ++k) {
    std::optional<Dim> size;
    if (has_sizes) {
      if (sizes && stretch) size = (*sizes)[k];
    } else if (scales) {
      size =
          scaled((*input)[static_cast<size_t>(axes[k])], scales->number(static_cast<int64_t>(k)));
    }
    result[static_cast<size_t>(axes[k])] = size ? *size : i.unknown(0, rank, axes[k]);
  }
  i.set(0, i.dtype(0), std::move(result));
}

void grid_sample(Inference& i) {
  const Shape* input = i.shape(0);
  const Shape* grid = i.shape(1);
  if (!input || !grid) {
    i.set(0, i.dtype(0), std::nullopt);
    return;
  }
  if (grid->size() != input->size() || grid->size() < 3)
    i.fail("the grid has rank ", grid->size(), ", but the input has rank ", input->size());
  Shape result = {i.unify((*input)[0], (*grid)[0]), (*input)[1]};
  result.insert(result.end(), grid->begin() + 1, grid->end() - 1);
  i.set(0, i.dtype(0), std::move(result));
}

void affine_grid(Inference& i) {
  const auto* size = i.contents(1);
  if (!size) {
    const Shape* length = i.shape(1);
    const auto rank = length && length->size() == 1 ? (*length)[0].constant() : std::nullopt;
    i.set(0, i.dtype(0), rank ? std::optional(i.unknown_shape(0, *rank)) : std::nullopt);
    return;
  }
  if (size->size() != 4 && size->size() != 5)
    i.fail("size has ", size->size(), " elements, expected 4 or 5");
  Shape result = {size->front()};
  result.insert(result.end(), size->begin() + 2, size->end());
  result.emplace_back(static_cast<int64_t>(size->size()) - 2);
  i.set(0, i.dtype(0), std::move(result));
}

void roi_align(Inference& i) {
  const Shape* input = i.shape(0);
  const Shape* rois = i.shape(1);
  i.set(0, i.dtype(0),
        Shape{rois ? (*rois)[0] : i.unknown(0, 4, 0), input ? (*input)[1] : i.unknown(0, 4, 1),
              i.attribute("output_height", 1), i.attribute("output_width", 1)});
}

void max_roi_pool(Inference& i) {
  const Shape* input = i.shape(0);
  const Shape* rois = i.shape(1);
  const auto pooled = i.attribute_ints("pooled_shape");
  if (!pooled || pooled->size() != 2) i.fail("pooled_shape must have 2 elements");
  i.set(0, i.dtype(0),
        Shape{rois ? (*rois)[0] : i.unknown(0, 4, 0), input ? (*input)[1] : i.unknown(0, 4, 1),
              (*pooled)[0], (*pooled)[1]});
}

}  // namespace

void add_image_rules(Rules& rules) {
  rules["AffineGrid"] = affine_grid;
  rules["GridSample"] = grid_sample;
  rules["MaxRoiPool"] = max_roi_pool;
  rules["Resize"] = resize;
  rules["RoiAlign"] = roi_align;
  rules["Upsample"] = resize;
}

}  // namespace onnx_native::onnx
