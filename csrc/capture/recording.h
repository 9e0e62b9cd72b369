// Records a program at PyTorch's dispatcher, while it runs on tensors without memory.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "aten/graph.h"
#include "capture/decisions.h"
#include "capture/frame.h"
#include "capture/generators.h"
#include "capture/host.h"
#include "capture/known_tensors.h"
#include "capture/lazy_types.h"
#include "capture/memories.h"
#include "capture/memory_layouts.h"
#include "capture/meta_results.h"
#include "capture/module_tensors.h"
#include "capture/node_names.h"
#include "capture/recorded_tensor.h"
#include "capture/size_reads.h"

namespace onnx_native::capture {

// The dispatch key of the recorder.
constexpr auto kRecorderKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
// The node of a CountedDecision. Its arguments are the decision's fields.
constexpr std::string_view kDecided = "capture::decided";
// Registers the recorder with the dispatcher, once per process.
void register_recorder();

// One capture. The program runs while an ActiveRecording is in scope. Every operator that it calls
// becomes a node; composite operators stay whole, because the recorder sits above autograd.
// PyTorch's meta kernels compute dtypes and the sizes in the example. `types` computes symbolic
// sizes, which must agree with them. A number that the program reads from a tensor becomes a
// symbol, or a plain number if it follows from weights and constants alone. The recorder refuses
// what it does not know: it throws and keeps the reason, and finish() returns no graph. One thread
// uses a recording.
class Recording {
 public:
  // `generators` are the program's. They are marked while it runs.
  Recording(std::map<std::string, Symbol> symbols, std::vector<ModuleTensor> state,
            MakeTypes make_types, Host& host,
            std::shared_ptr<Generators> generators = std::make_shared<Generators>());
  ~Recording();

  // Returns the tensor that stands for an input. A size is a number or the name of a symbol.
  at::Tensor add_input(const at::Tensor& example, std::string_view name, Shape shape);
  // Returns the integer that stands for an input: its symbol.
  c10::SymInt add_integer(std::string_view name, const Dim& symbol);
  // Adds a result of the program.
  void add_output(const c10::IValue& value);
  // Records that the program assigns another tensor to a buffer of the module.
  void add_mutation(const at::Tensor& buffer, const at::Tensor& value);
  // Records that a tensor takes the contents of another tensor (tensor.data = ...). Aliases of its
  // old contents keep these.
  void replace(const at::Tensor& tensor, const at::Tensor& contents);
  // Returns a copy of a recorded tensor with its own memory: copy.deepcopy(tensor).
  at::Tensor deep_copy(const at::Tensor& tensor);
  // Notes that a tensor may alias a tensor of the module.
  void note_alias(const at::Tensor& tensor);
  // Records a call, whose arguments are on the stack, and replaces them by the results.
  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack);
  // Returns the graph once all outputs are added and no recorded tensor is alive; nullptr if the
  // recording was refused.
  std::unique_ptr<aten::Graph> finish();
  // Returns false if a tensor follows from constants and the module's tensors alone.
  bool varies(const at::Tensor& tensor) const;
  // Returns the positions of the inputs that the results follow from, once finish() returned the
  // graph: inputs that a call takes, and those whose dynamic sizes the program reads.
  const std::vector<size_t>& read_inputs() const { return read_inputs_; }
  // Returns the number of recorded tensors and sizes that are alive.
  int64_t alive() const;

  // Allows aten::item to return symbolic floats and bools, which some callers cannot take.
  void set_takes_symbols(bool takes) { takes_symbols_ = takes; }
  // Returns the elements of a tensor, which the program reads outside of the dispatcher. Refuses
  // the recording if they are not known. If the program keeps them in an array that shares memory
  // with the tensor, a later write to the tensor is refused too.
  at::Tensor elements(const at::Tensor& tensor, bool shares_memory);
  const std::vector<KnownElements>& known_elements() const { return known_tensors_.read(); }
  // Refuses to record both ways of a branch if the program drew random numbers before it.
  void refuse_draws();
  // Adds a node for a decision.
  void record_decision(const CountedDecision& decision);
  // Returns the truth of a tensor that compares sizes, or the way that Decisions::fork() chose for
  // a branch on another one.
  bool choose(const at::Tensor& condition);
  // Returns the tensor for which choose() had no choice left, and forgets it; an undefined tensor
  // if there is none.
  at::Tensor take_undecided() { return std::exchange(undecided_, at::Tensor()); }
  // Returns true while the fake kernel of an operator runs. The kernel calls new_size() for a size
  // that depends on data.
  bool runs_fake_kernel() const { return fake_kernels_ > 0; }
  c10::SymInt new_size(int64_t low, std::optional<int64_t> high);

  const MemoryLayout* layout_of(const RecordedTensor& tensor);

  Generators& generators() { return *generators_; }
  Decisions& decisions() { return decisions_; }
  const Decisions& decisions() const { return decisions_; }

  // The parts of a recording, for the classes that record calls, regions and control flow.
  Host& host() { return host_; }
  // Returns the frame of the innermost region, or the program's.
  Frame& frame() { return *frame_; }
  LazyTypes& types() { return types_; }
  MemoryLayouts& layouts() { return layouts_; }
  MetaResults& meta_results() { return meta_results_; }
  const ModuleTensors& module() const { return module_; }
  Memories& memories() { return memories_; }
  KnownTensors& known_tensors() { return known_tensors_; }
  // Makes the frame of a region the current one, until leave().
  void enter(Frame& frame) { frame_ = &frame; }
  void leave(const Frame& frame) { frame_ = frame.outer(); }
  // Keeps the graph of a region that failed: the type inference has seen its values.
  void keep(std::unique_ptr<aten::Graph> dropped) { dropped_.push_back(std::move(dropped)); }
  // Returns the value of a tensor in a frame, or in the current one.
  aten::Value* value_in(Frame& frame, const at::Tensor& tensor);
  aten::Value* value_of(const at::Tensor& tensor) { return value_in(*frame_, tensor); }
  // Returns the meta tensor of a tensor.
  at::Tensor meta_of(const at::Tensor& tensor);
  at::Tensor new_tensor(at::Tensor meta, Shape shape, aten::Value* value, c10::Device device);
  // Returns the expression of a float or bool that the program uses.
  NumberPtr number_of(const c10::SymNode& node);
  // Notes that a call of the current frame, or a result (nullptr), takes a number.
  void note_read(const Number& number, const aten::Node* reader);
  // Notes that the program writes to a tensor. The tensor must be a computed one, an input, or a
  // tensor of the module that shares no memory with another one.
  void note_write(const at::Tensor& tensor);
  bool is_input(const RecordedTensor& tensor) const { return tensor.id() <= last_input_; }
  bool takes_symbols() const { return takes_symbols_; }
  // Reserves the names of Python's functions. Results then have torch.export's names, for example
  // "sum_1".
  void avoid_name(const std::string& name);
  // Marks that the fake kernel of an operator runs. The names of its calls are free afterwards.
  class FakeKernel {
   public:
    explicit FakeKernel(Recording& recording)
        : recording_(recording), avoided_names_(recording.avoided_names_) {
      ++recording_.fake_kernels_;
    }
    FakeKernel(const FakeKernel&) = delete;
    FakeKernel& operator=(const FakeKernel&) = delete;
    ~FakeKernel() {
      --recording_.fake_kernels_;
      recording_.avoided_names_ = std::move(avoided_names_);
    }

   private:
    Recording& recording_;
    std::unordered_set<std::string> avoided_names_;
  };

 private:
  std::optional<bool> decided_by_sizes(const aten::Value& condition);
  struct Constant {
    at::Tensor tensor;  // keeps the key alive
    at::Tensor meta;
    aten::Value* value = nullptr;
  };

  void replace_recorded(RecordedTensor& tensor, const at::Tensor& contents);
  at::Tensor input_meta(const at::Tensor& example, const Shape& shape);
  void add_assertions();
  aten::Value* value_in(Frame& frame, const RecordedTensor& tensor);
  // Returns the value of a constant in the graph of the program.
  aten::Value* constant_of(const at::Tensor& tensor);
  aten::Value* copy_of_literal(aten::Value* literal);
  Memories::Owner owner_of(const at::Tensor& tensor) const;

  Host& host_;
  std::shared_ptr<Generators> generators_;
  Decisions decisions_;
  LazyTypes types_;
  MemoryLayouts layouts_{decisions_};
  MetaResults meta_results_;
  ModuleTensors module_;
  Memories memories_{decisions_};
  KnownTensors known_tensors_{host_, module_, memories_, decisions_};
  Frame program_{decisions_, types_, layouts_};
  Frame* frame_ = &program_;
  int64_t next_id_ = 0;
  int64_t last_input_ = -1;  // the first ids are those of inputs
  std::unordered_map<const c10::TensorImpl*, Constant> constants_;
  at::Tensor undecided_;
  std::unordered_set<std::string> avoided_names_;
  bool takes_symbols_ = false;
  int fake_kernels_ = 0;  // the number that are running
  std::vector<std::unique_ptr<aten::Graph>> dropped_;
  SizeReads size_reads_;
  std::vector<size_t> read_inputs_;
};

// Makes a recording the active one of this thread.
class ActiveRecording {
 public:
  explicit ActiveRecording(Recording& recording);
  ActiveRecording(const ActiveRecording&) = delete;
  ActiveRecording& operator=(const ActiveRecording&) = delete;
  ~ActiveRecording();

 private:
  Generators& generators_;
};

}  // namespace onnx_native::capture
