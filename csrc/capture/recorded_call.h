// One call of a recorded program: checks, the meta kernel, the node and its results.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capture/recording.h"

namespace onnx_native::capture {

class RecordedCall {
 public:
  RecordedCall(Recording& recording, const c10::OperatorHandle& op, torch::jit::Stack& stack);

  // Records the call and replaces its arguments on the stack by its results.
  void run();

 private:
  void recognize_sizes();
  bool has_recorded() const;
  bool passes_through() const;
  void refuse_unknown();
  void decompose();
  void check_writes();
  void check_written_sizes();
  bool reshapes() const;
  void check_reshape();
  void note_squeezed();
  void check_number_of_results();
  aten::Argument argument(const c10::IValue& value, const aten::SchemaType& type);
  aten::Argument tensor_argument(const at::Tensor& tensor);
  void note_size(const Dim& dim);
  c10::IValue meta(const c10::IValue& value, const aten::SchemaType& type);
  std::optional<std::vector<c10::IValue>> run_meta();
  std::vector<c10::IValue> inferred_metas();
  std::vector<aten::Type> result_types(const std::vector<at::Tensor>& metas);
  at::Tensor result(const at::Tensor& meta, const aten::Type& type);
  void forget_written();
  std::optional<at::Tensor> same_tensor(const aten::SchemaArgument& value, const at::Tensor& meta,
                                        const aten::Type& type) const;
  void record_reshape(const at::Tensor& meta);
  void record(std::vector<c10::IValue> metas);
  [[noreturn]] void refuse(const std::string& reason);

  Recording& recording_;
  Decisions& decisions_;
  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  std::string key_;
  const aten::Schema* schema_;
  std::vector<c10::IValue> arguments_;
  std::vector<std::vector<int64_t>> written_sizes_;
  std::optional<std::vector<aten::Type>> inferred_;  // without a meta kernel
  aten::Node* node_ = nullptr;
  bool has_tensors_ = false;
  bool symbolic_ = false;  // an argument has a symbolic size
};

}  // namespace onnx_native::capture
