// The record of one call: its node, and the types and tensors of its results.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture/call.h"
#include "capture/result_devices.h"

namespace onnx_native::capture {

// Runs once. What does not depend on the node is in functions of the call: where results are
// (result_devices.h), the meta kernel's arguments (meta_arguments.h), sizes that must be equal
// (broadcast.h), calls recorded as others (replaced_call.h) and memory layouts (call_layouts.h).
class RecordedCall {
 public:
  RecordedCall(Recording& recording, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
               torch::jit::Stack& stack);

  // Records the call and replaces its arguments on the stack by its results.
  void run();

 private:
  bool passes_through() const;
  void refuse_unknown();
  void decompose();
  void check_writes();
  void check_written_sizes();
  void check_reshape(const at::Tensor& tensor);
  void note_squeezed();
  void check_number_of_results();
  aten::Argument argument(const c10::IValue& value, const aten::SchemaType& type);
  aten::Argument tensor_argument(const at::Tensor& tensor);
  void note_size(const Dim& dim);
  aten::Argument number_argument(const c10::SymNode& node);
  std::vector<aten::Argument> read_arguments();
  std::optional<std::vector<c10::IValue>> metas_of_pieces();
  std::optional<std::vector<c10::IValue>> run_meta();
  std::vector<c10::IValue> inferred_metas();
  std::vector<aten::Type> result_types(const std::vector<at::Tensor>& metas);
  std::vector<aten::Type> types_of_packed();
  void add_unknown_results(std::vector<aten::Type>& types, const std::vector<at::Tensor>& metas);
  bool is_view_of_argument(const at::Tensor& meta) const;
  at::Tensor result(const at::Tensor& meta, const aten::Type& type, size_t index = 0);
  void forget_written();
  std::optional<at::Tensor> same_tensor(const aten::SchemaArgument& value, const at::Tensor& meta,
                                        const aten::Type& type) const;
  void update(const at::Tensor& tensor, const at::Tensor& made, const aten::Type& type);
  void record_reshape(const at::Tensor& meta);
  void record(const std::vector<c10::IValue>& metas);
  void record(const std::vector<c10::IValue>& metas, const std::vector<aten::Type>& types);
  // Calls of operators that are not PyTorch's own.
  bool record_by_fake_kernel(std::vector<aten::Argument>& arguments);
  bool record_by_lowering();
  std::vector<c10::IValue> run_fake_kernel(c10::DispatchKey kernel, std::vector<aten::Type>& types);
  at::Tensor fake_result(const at::Tensor& tensor, aten::Type& type);
  // Calls that depend on the elements of a tensor.
  bool reads_elements() const;
  void read_elements();
  bool run_on_known();
  void record_item();
  at::Tensor selecting_mask() const;
  void record_selection();
  void record_selection(const std::vector<at::Tensor>& metas, const std::vector<aten::Type>& types);
  void declare_size(const Dim& size, std::optional<int64_t> stand_in);
  at::Tensor selected(const aten::Type& type) const;
  at::Tensor indexed(const Dim& count);
  using Counts = std::vector<std::pair<Dim, int64_t>>;
  bool follows_from_constants() const;
  std::optional<c10::IValue> with_counts(const c10::IValue& argument, Counts* counted) const;
  void note_recipes(const std::vector<c10::IValue>& results);

  aten::Node* add_node(std::vector<aten::Argument> arguments);

  const Call call_;
  Recording& recording_;
  Decisions& decisions_;
  torch::jit::Stack& stack_;
  std::vector<std::vector<int64_t>> written_sizes_;
  std::string missing_;                              // why there is no meta kernel
  std::optional<std::vector<aten::Type>> inferred_;  // without a meta kernel
  std::optional<Shape> joined_;    // where sizes that depend on data must be other sizes
  bool is_of_other_size_ = false;  // than that of the inference
  ResultDevices devices_;
  aten::Node* node_ = nullptr;
  std::vector<NumberPtr> numbers_;  // among the arguments, if they are symbolic
  bool symbolic_ = false;           // an argument is, or has a size that is, a symbolic number
  bool data_ = false;               // such a number may not follow from sizes of inputs
};

}  // namespace onnx_native::capture
