// Fourier transforms and windows.
#include "onnx/infer_rules.h"

namespace onnx_native::onnx {
namespace {

const Dim* scalar(const Inference& i, size_t input) {
  const auto* known = i.contents(input);
  return known && known->size() == 1 ? &known->front() : nullptr;
}

Dim half_spectrum(const Dim& length) { return Dim::floor_div(length, 2) + 1; }

void dft(Inference& i) {
  const Shape* input = i.shape(0);
  if (!input) {
    i.set(0, i.dtype(0), std::nullopt);
    return;
  }
  const auto rank = static_cast<int64_t>(input->size());
  // The axis became an input in opset 20 and defaults to the axis before the last one.
  std::optional<int64_t> axis = i.opset() >= 20 ? -2 : i.attribute("axis", 1);
  if (i.optional(2)) {
    const auto given = i.numbers(2);
    axis = given ? std::optional(given->at(0)) : std::nullopt;
  }
  if (!axis) {
    i.set(0, i.dtype(0), i.unknown_shape(0, rank));
    return;
  }
  const auto at = static_cast<size_t>(i.axis(*axis, rank));
  const bool onesided = i.attribute("onesided", 0) != 0;
  const bool inverse = i.attribute("inverse", 0) != 0;
  Shape result = *input;
  Dim length = (*input)[at];
  if (i.optional(1)) {
    const Dim* given = scalar(i, 1);
    length = given ? *given : i.unknown(0, rank, static_cast<int64_t>(at));
  } else if (onesided && inverse) {
    length = Dim(2) * (length - 1);
  }
  result[at] = onesided && !inverse ? half_spectrum(length) : length;
  result.back() = onesided && inverse ? 1 : 2;
  i.set(0, i.dtype(0), std::move(result));
}

// signal, frame_step, window, frame_length
void stft(Inference& i) {
  const Shape* signal = i.shape(0);
  const Dim* step = scalar(i, 1);
  const Dim* given = scalar(i, 3);
  std::optional<Dim> length = given ? std::optional(*given) : std::nullopt;
  if (!length && i.optional(2) && i.shape(2) && i.shape(2)->size() == 1) {
    length = i.shape(2)->front();
  }
  const bool onesided = i.attribute("onesided", 1) != 0;
  const Dim frames = signal && step && length ? Dim::floor_div((*signal)[1] - *length, *step) + 1
                                              : i.unknown(0, 4, 1);
  const Dim bins = !length ? i.unknown(0, 4, 2) : onesided ? half_spectrum(*length) : *length;
  i.set(0, i.dtype(0), Shape{signal ? (*signal)[0] : i.unknown(0, 4, 0), frames, bins, 2});
}

void window(Inference& i) {
  const Dim* length = scalar(i, 0);
  i.set(0, i.attribute_dtype("output_datatype", DType::f32),
        Shape{length ? *length : i.unknown(0, 1, 0)});
}

void mel_weight_matrix(Inference& i) {
  const Dim* bins = scalar(i, 0);
  const Dim* length = scalar(i, 1);
  i.set(0, i.attribute_dtype("output_datatype", DType::f32),
        Shape{length ? half_spectrum(*length) : i.unknown(0, 2, 0),
              bins ? *bins : i.unknown(0, 2, 1)});
}

}  // namespace

void add_signal_rules(Rules& rules) {
  rules["BlackmanWindow"] = window;
  rules["DFT"] = dft;
  rules["HammingWindow"] = window;
  rules["HannWindow"] = window;
  rules["MelWeightMatrix"] = mel_weight_matrix;
  rules["STFT"] = stft;
}

}  // namespace onnx_native::onnx
