#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/weight.h"
#include "passes/passes.h"
#include "passes/product.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Node;
using onnx::UseCounts;
using onnx::Value;
using Sources = std::span<const TensorData>;

// A channel of a product is multiplied by the factor; then the shift is added.
struct Change {
  double factor;
  double shift;
};

// The changes of all channels, computed from constants of one element, or of one per channel.
struct ChannelChanges {
  std::vector<TensorData> sources;
  std::function<Change(Sources, int64_t channel)> of;
  bool scales = true;
  bool shifts = true;
};

// Returns false for a factor that may make an infinity, a NaN or a zero of a weight.
bool is_moderate(double factor) {
  constexpr double kLargest = 0x1p64;
  const double size = std::abs(factor);
  return size <= kLargest && size >= 1 / kLargest;
}

double element_of(const TensorData& data, int64_t channel) {
  return data.number(data.numel() == 1 ? 0 : channel);
}

template <class T>
void multiply(std::span<std::byte> elements, int64_t run, const std::vector<double>& factors) {
  for (size_t i = 0; i < elements.size() / sizeof(T); ++i) {
    std::byte* at = &elements[i * sizeof(T)];
    T element;
    std::memcpy(&element, at, sizeof(T));
    const size_t channel = i / static_cast<size_t>(run) % factors.size();
    element = static_cast<T>(element * factors[channel]);
    std::memcpy(at, &element, sizeof(T));
  }
}

// Returns the weight times one factor per index of the axis. The first axis is scaled while the
// weight is written.
TensorData scaled_weight(const TensorData& weight, size_t axis, std::vector<double> factors) {
  if (axis == 0) {
    TensorData result = weight;
    for (size_t i = 0; weight.scale && i < factors.size(); ++i) factors[i] *= (*weight.scale)[i];
    result.scale = std::make_shared<std::vector<double>>(std::move(factors));
    return result;
  }
  std::vector<std::byte> elements;
  elements.reserve(static_cast<size_t>(weight.nbytes()));
  weight.stream([&elements](std::span<const std::byte> piece) {
    elements.insert(elements.end(), piece.begin(), piece.end());
  });
  int64_t run = 1;
  for (size_t i = axis + 1; i < weight.shape.size(); ++i) run *= weight.shape[i];
  weight.dtype == DType::f32 ? multiply<float>(elements, run, factors)
                             : multiply<double>(elements, run, factors);
  return make_tensor(weight.dtype, weight.shape, std::move(elements));
}

// The weight and the bias after the changes.
class Folding {
 public:
  Folding(const Product& product, ChannelChanges changes)
      : changes_(std::move(changes)),
        channels_(product.channels()),
        axis_(product.weight_axis),
        dtype_(product.weight()->dtype) {}

  TensorData weight(const TensorData& before) const {
    const auto compute = [self = *this](Sources now) -> std::optional<TensorData> {
      const ReadScope unrecorded(nullptr);
      std::vector<double> factors;
      for (int64_t i = 0; i < self.channels_; ++i) {
        factors.push_back(self.changes_.of(now.subspan(1), i).factor);
        if (!is_moderate(factors.back())) return std::nullopt;
      }
      return scaled_weight(now[0], self.axis_, std::move(factors));
    };
    std::vector<TensorData> sources = with(before);
    if (axis_ != 0 || is_on_demand(before)) {
      return on_demand(dtype_, before.shape, {std::move(sources), compute});
    }
    return derived(dtype_, before.shape, {std::move(sources), compute});
  }

  // Returns the bias; `before` has the dtype undefined if there was none.
  TensorData bias(const TensorData& before) const {
    const auto compute = [self = *this](Sources now) -> std::optional<TensorData> {
      const ReadScope unrecorded(nullptr);
      std::vector<double> elements;
      for (int64_t i = 0; i < self.channels_; ++i) {
        const Change change = self.changes_.of(now.subspan(1), i);
        const double old = now[0].dtype == DType::undefined ? 0 : element_of(now[0], i);
        elements.push_back(old * change.factor + change.shift);
      }
      return make_tensor(self.dtype_, {self.channels_}, elements);
    };
    return derived(dtype_, {channels_}, {with(before), compute});
  }

 private:
  std::vector<TensorData> with(const TensorData& first) const {
    std::vector<TensorData> sources{first};
    sources.insert(sources.end(), changes_.sources.begin(), changes_.sources.end());
    return sources;
  }

  ChannelChanges changes_;
  int64_t channels_;
  size_t axis_;
  DType dtype_;
};

// Returns true for a constant that has one element, or one per channel of the product's result.
bool is_per_channel(const Value& constant, const Product& product) {
  const auto& shape = constant.constant->shape;
  const int64_t rank = product.result->rank();
  if (static_cast<int64_t>(shape.size()) > rank) return false;
  if (constant.constant->numel() == 1) return true;
  if (!product.axis || constant.constant->numel() != product.channels()) return false;
  const int64_t axis = *product.axis - (rank - static_cast<int64_t>(shape.size()));
  return axis >= 0 && shape[static_cast<size_t>(axis)] == product.channels();
}

ChannelChanges of_operand(const Node& node, const TensorData& operand) {
  if (node.is("Mul")) {
    return {{operand},
            [](Sources s, int64_t i) {
              return Change{element_of(s[0], i), 0};
            },
            true,
            false};
  }
  if (node.is("Div")) {
    return {{operand},
            [](Sources s, int64_t i) {
              return Change{1 / element_of(s[0], i), 0};
            },
            true,
            false};
  }
  const double sign = node.is("Sub") ? -1 : 1;
  return {{operand},
          [sign](Sources s, int64_t i) {
            return Change{1, sign * element_of(s[0], i)};
          },
          false,
          true};
}

ChannelChanges of_normalization(const Node& node) {
  const double epsilon = node.attribute_float("epsilon", 1e-5);
  std::vector<TensorData> sources;
  for (size_t i = 1; i <= 4; ++i) sources.push_back(*node.inputs[i]->constant);
  return {std::move(sources), [epsilon](Sources s, int64_t i) {
            const double factor = element_of(s[0], i) / std::sqrt(element_of(s[3], i) + epsilon);
            return Change{factor, element_of(s[1], i) - element_of(s[2], i) * factor};
          }};
}

class ChannelScales {
 public:
  explicit ChannelScales(onnx::Model& model)
      : model_(model), uses_(count_uses_of_elements(*model.graph)) {}

  // Folds a Mul, Div, Add or Sub with a constant.
  void fold_arithmetic(Rewrite& rewrite, Node& node) {
    const bool commutes = node.is_any({"Mul", "Add"});
    for (const size_t side : {0, 1}) {
      if (side == 1 && !commutes) return;
      const Value* operand = node.inputs[1 - side];
      Value* value = node.inputs[side];
      if (!is_readable(operand, value->dtype) || !keeps_shape(node, *value)) continue;
      const auto product = find_product(value, uses_);
      if (!product || !is_per_channel(*operand, *product)) continue;
      fold(rewrite, node, *product, of_operand(node, *operand->constant));
      return;
    }
  }

  // Folds a BatchNormalization in inference mode.
  void fold_normalization(Rewrite& rewrite, Node& node) {
    Value* value = node.inputs[0];
    if (node.attribute_int("training_mode", 0) != 0 || !keeps_shape(node, *value)) return;
    const auto product = find_product(value, uses_);
    if (!product || product->axis != 1) return;
    for (size_t i = 1; i <= 4; ++i) {
      const Value* moment = node.inputs[i];
      if (!is_readable(moment, value->dtype) || moment->constant->numel() != product->channels()) {
        return;
      }
    }
    fold(rewrite, node, *product, of_normalization(node));
  }

 private:
  static bool keeps_shape(const Node& node, const Value& value) {
    const Value& result = *node.outputs[0];
    return value.shape && result.shape == value.shape && result.graph == value.graph;
  }

  void fold(Rewrite& rewrite, Node& node, const Product& product, ChannelChanges changes) {
    const bool has_bias = product.bias() != nullptr;
    // The sum after a plain MatMul is its bias, which stays an Add.
    if (changes.shifts && !product.bias_user) return;
    if (changes.scales && !are_moderate(changes, product.channels())) return;
    const bool scales = changes.scales, shifts = changes.shifts;
    const Folding folding(product, std::move(changes));
    if (shifts || has_bias) {
      TensorData bias = folding.bias(has_bias ? *product.bias()->constant : TensorData());
      auto& inputs = product.bias_user->inputs;
      inputs.resize(std::max(inputs.size(), product.bias_index + 1));
      const auto [name, named] = take_bias_name(product);
      inputs[product.bias_index] = model_.graph->add_initializer(name, std::move(bias));
      inputs[product.bias_index]->named = named;
    }
    if (scales) replace_weight(product, folding);
    forget_names(product);
    uses_[product.result] = uses_[node.outputs[0]];
    rewrite.replace_all(node, node.outputs[0], product.result);
  }

  static bool are_moderate(const ChannelChanges& changes, int64_t channels) {
    const auto is_absent = [](const TensorData& source) { return !has_elements(&source); };
    if (std::ranges::any_of(changes.sources, is_absent)) return true;  // checked when it is read
    const ReadScope unrecorded(nullptr);
    for (int64_t i = 0; i < channels; ++i)
      if (!is_moderate(changes.of(changes.sources, i).factor)) return false;
    return true;
  }

  // Returns the name of the folded bias and whether the module has it: that of the product's own
  // bias, or the one that a bias beside the weight has, "conv1.bias".
  static std::pair<std::string, bool> take_bias_name(const Product& product) {
    if (Value* bias = product.bias()) {
      const bool named = std::exchange(bias->named, false);
      return {std::exchange(bias->name, ""), named};
    }
    constexpr std::string_view kWeight = "weight";
    const Value& weight = *product.weight();
    if (!weight.named || !weight.name.ends_with(kWeight)) return {"", false};
    return {weight.name.substr(0, weight.name.size() - kWeight.size()) + "bias", true};
  }

  // The values from the product on no longer have the elements that the program's have.
  static void forget_names(const Product& product) {
    for (Value* value = product.result; value;) {
      if (!value->named) value->name.clear();
      const Node& node = *value->producer;
      if (node.is_any({"Conv", "ConvTranspose", "Gemm", "MatMul"})) return;
      const auto before = std::ranges::find_if(
          node.inputs, [](const Value* input) { return input && !input->is_constant(); });
      value = before == node.inputs.end() ? nullptr : *before;
      if (value && !value->producer) return;
    }
  }

  void replace_weight(const Product& product, const Folding& folding) {
    Value* before = product.weight();
    Value* after = model_.graph->add_initializer(before->name, folding.weight(*before->constant));
    after->named = before->named;
    before->named = false;
    before->name.clear();
    product.weight_user->inputs[product.weight_index] = after;
    uses_[after] = 1;
  }

  onnx::Model& model_;
  UseCounts uses_;
};

}  // namespace

// BatchNormalization(y) in inference mode, where y is the result of Conv, ConvTranspose or Gemm
// with a constant weight, becomes part of the weight and the bias. The factors are applied while
// the weight is written, so no second copy is held. Live weights have their values at that time.
int64_t fold_batch_norm(onnx::Model& model) {
  ChannelScales scales(model);
  return sweep(model, [&scales](Rewrite& rewrite, onnx::Graph&, Node& node) {
    if (node.is("BatchNormalization")) scales.fold_normalization(rewrite, node);
  });
}

// Likewise y * c, y / c, y + c and y - c with one constant per channel, or with one number for all
// channels: gamma * linear(x) becomes linear(x) with the weight gamma[:, None] * weight. y may be a
// MatMul, its sum with a bias, and transposed; if it is reshaped, only one number is folded.
int64_t fold_channel_scales(onnx::Model& model) {
  ChannelScales scales(model);
  return sweep(model, [&scales](Rewrite& rewrite, onnx::Graph&, Node& node) {
    if (node.is_any({"Mul", "Div", "Add", "Sub"})) scales.fold_arithmetic(rewrite, node);
  });
}

}  // namespace onnx_native::passes
