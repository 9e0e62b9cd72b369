// How recorded tensors lie in memory, at all sizes.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymBool.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "aten/graph.h"
#include "aten/strides.h"
#include "base/dim.h"
#include "capture/decisions.h"

namespace onnx_native::capture {

class RecordedTensor;

// The layout of a tensor. It may be another one where one of the sizes `above_one` is 1.
struct MemoryLayout {
  using Sizes = std::map<std::string, Dim>;  // by their text
  aten::Layout layout;
  Sizes above_one;
};

// The layouts of a recording's values. Most follow from the calls. PyTorch's kernels choose the
// others: those have the order of the example, and kernels may choose another one for sizes of 1.
class MemoryLayouts {
 public:
  explicit MemoryLayouts(const Decisions& decisions) : decisions_(decisions) {}

  // Gives a value that no recorded call made the layout of its meta tensor.
  void settle(const aten::Value* value, const at::Tensor& meta);
  // Notes the results of a call, whose operands are settled. `is_view` tells whether a meta tensor
  // shares the memory of an operand.
  void record(const aten::Node& node, const std::vector<at::Tensor>& metas,
              const std::function<bool(const at::Tensor&)>& is_view);
  // Gives `to` the layout of `from`: the same tensor in another graph.
  void copy(const aten::Value* from, const aten::Value* to);
  // Returns the layout of a settled value; nullptr if it is not known.
  const MemoryLayout* find(const aten::Value* value) const;

 private:
  using Found = std::optional<MemoryLayout>;
  Found written(const aten::Node& node, size_t result) const;
  Found viewed(const aten::Node& node, size_t result, const at::Tensor& meta) const;
  Found computed(const aten::Node& node, size_t result, const at::Tensor& meta) const;
  Found in_order(const aten::Value* value, const at::Tensor& meta) const;
  bool is_packed(const aten::Value* value) const;
  bool fits(const MemoryLayout& layout, const at::Tensor& meta) const;

  const Decisions& decisions_;
  std::unordered_map<const aten::Value*, Found> layouts_;  // nullopt: not known
};

// Returns the layout of a tensor of the recording that is active on this thread; nullptr if it is
// not known.
const MemoryLayout* layout_of(const RecordedTensor& tensor);

// Notes guards for an answer that holds for the layout.
void decide(const MemoryLayout::Sizes& above_one, Decisions& decisions);
// Returns the truth of a condition on sizes in the example, and notes guards for it. `what` is the
// fact that must not hold only because a size is 1.
bool decide(const aten::Condition& condition, std::string_view what, Decisions& decisions);
// Returns whether a tensor has a memory format. An answer that depends on sizes is decided where
// the program asks for it.
c10::SymBool is_contiguous(const Shape& shape, const MemoryLayout* layout, at::MemoryFormat format,
                           const Decisions& decisions);

// Returns whether each element of the memory that a tensor spans is one of its elements.
c10::SymBool is_dense(const Shape& shape, const MemoryLayout* layout, const at::Tensor& meta,
                      const Decisions& decisions);

}  // namespace onnx_native::capture
