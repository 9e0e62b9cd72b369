// One call of a recorded program: checks, the meta kernel, the node and its results.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "aten/op_facts.h"
#include "capture/recording.h"

namespace onnx_native::capture {

class RecordedCall {
 public:
  RecordedCall(Recording& recording, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
               torch::jit::Stack& stack);

  // Records the call and replaces its arguments on the stack by its results.
  void run();

 private:
  void recognize_sizes();
  bool has_recorded() const;
  bool has_literals_only() const;
  bool passes_through() const;
  void refuse_unknown();
  void decompose();
  void check_writes();
  void check_written_sizes();
  void note_broadcast();
  void note_identities();
  std::optional<Dim> joined_size(const std::vector<Shape>& shapes, size_t back,
                                 const Shape* target);
  std::optional<torch::jit::Stack> run_joined();
  std::optional<at::Tensor> viewed_by_data();
  void check_reshape(const at::Tensor& tensor);
  void note_squeezed();
  void check_number_of_results();
  size_t cut_axis(size_t rank) const;
  // Devices: see recorded_devices.cpp.
  bool find_devices();
  void note_devices();
  c10::Device existing(c10::Device device);
  void check_pins();
  c10::IValue zeros_for(const c10::IValue& value, const aten::SchemaType& type);
  void try_on_zeros();
  bool record_pinned();
  bool record_draw();
  c10::IValue drawn_argument(size_t i);
  bool record_slice();
  bool record_pieces();
  aten::Argument argument(const c10::IValue& value, const aten::SchemaType& type);
  aten::Argument tensor_argument(const at::Tensor& tensor);
  void note_size(const Dim& dim);
  double number_in_example(const c10::SymNode& node);
  aten::Argument number_argument(const c10::SymNode& node);
  std::vector<aten::Argument> read_arguments();
  c10::IValue meta(const c10::IValue& value, const aten::SchemaType& type);
  torch::jit::Stack meta_arguments();
  std::optional<std::vector<c10::IValue>> metas_of_pieces();
  std::optional<std::vector<c10::IValue>> run_meta();
  std::vector<c10::IValue> inferred_metas();
  std::vector<aten::Type> result_types(const std::vector<at::Tensor>& metas);
  std::vector<aten::Type> types_of_packed();
  void add_unknown_results(std::vector<aten::Type>& types, const std::vector<at::Tensor>& metas);
  bool is_view_of_argument(const at::Tensor& meta) const;
  at::Tensor result(const at::Tensor& meta, const aten::Type& type, size_t index = 0);
  void settle_operands();
  void record_layouts(const std::vector<at::Tensor>& metas);
  bool is_always_same() const;
  void check_view();
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
  bool follows_from_constants() const;
  void note_recipes(const std::vector<c10::IValue>& results);
  [[noreturn]] void refuse(const std::string& reason, RefusalKind kind = RefusalKind::other);

  Recording& recording_;
  Decisions& decisions_;
  const c10::OperatorHandle& op_;
  c10::DispatchKeySet keys_;
  torch::jit::Stack& stack_;
  std::string key_;
  const aten::Schema* schema_;
  const aten::OpFacts facts_;  // none without a schema
  const bool reshapes_;        // see aten::reshapes_in_place
  std::vector<c10::IValue> arguments_;
  std::vector<std::vector<int64_t>> written_sizes_;
  std::string missing_;                              // why there is no meta kernel
  std::optional<std::vector<aten::Type>> inferred_;  // without a meta kernel
  std::optional<Shape> joined_;        // where sizes that depend on data must be other sizes
  std::optional<c10::Device> common_;  // the device of the tensors: the first one's
  std::optional<c10::Device> asked_;   // the device that an argument names
  bool is_mixed_ = false;              // the tensors are on several devices
  c10::Device device_ = c10::kCPU;     // of the results
  std::vector<c10::Device> devices_;   // of each result, if they differ
  aten::Node* node_ = nullptr;
  bool has_tensors_ = false;
  bool symbolic_ = false;    // an argument is, or has a size that is, a symbolic number
  bool data_ = false;        // such a number may not follow from sizes of inputs
  bool small_data_ = false;  // 0 stands for integers that depend on data
};

// Calls visit(tensor) for each defined tensor of an argument.
template <class Visit>
void for_each_tensor(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) for_each_tensor(item, visit);
  }
}

// Returns true for a tensor that PyTorch made of a number, such as the 2 of x * 2.
inline bool is_wrapped_number(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && !recorded(value.toTensor()) &&
         value.toTensor().unsafeGetTensorImpl()->is_wrapped_number();
}

}  // namespace onnx_native::capture
