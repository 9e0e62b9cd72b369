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
#include "capture/lazy_types.h"
#include "capture/memory_layouts.h"
#include "capture/meta_results.h"
#include "capture/node_names.h"
#include "capture/recorded_tensor.h"

namespace onnx_native::capture {

// The dispatch key of the recorder.
constexpr auto kRecorderKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
// Registers the recorder with the dispatcher, once per process.
void register_recorder();

// The services that a recording needs from the language that runs the program.
class Host {
 public:
  virtual ~Host() = default;
  // Returns the user's source line and the modules around the current call.
  virtual Location location() = 0;
  // PyTorch makes tensors of numbers. Returns the symbolic number behind such a tensor; None if the
  // number is not symbolic.
  virtual c10::IValue symbol_behind(const at::Tensor& wrapped_number) = 0;
  // Returns false without Python: PyTorch has most of its meta kernels in Python.
  virtual bool has_meta_kernels() const { return true; }
  // Returns the recording's node behind the node of a float or bool.
  virtual c10::SymNode unwrapped(const c10::SymNode& node) { return node; }
  // Returns true if the current frame is code of the program, false if it is code of PyTorch.
  virtual bool is_in_program() { return true; }
};

// A tensor of the module: a parameter, a buffer, or a tensor that the program holds.
struct ModuleTensor {
  std::string name;
  at::Tensor tensor;
  aten::ConstantKind kind;
  bool is_kept = false;  // if the program writes to it, it is an input of the model
};

// The elements of a tensor of the module on which a decision of the program depends.
struct KnownElements {
  std::string name;
  std::string source;  // user's source line
  TensorData data;
};

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
  // Returns the number of recorded tensors and sizes that are alive.
  int64_t alive() const;

  // Allows aten::item to return symbolic floats and bools, which some callers cannot take.
  void set_takes_symbols(bool takes) { takes_symbols_ = takes; }
  // Returns the elements of a tensor, which the program reads outside of the dispatcher. Refuses
  // the recording if they are not known. If the program keeps them in an array that shares memory
  // with the tensor, a later write to the tensor is refused too.
  at::Tensor elements(const at::Tensor& tensor, bool shares_memory);
  const std::vector<KnownElements>& known_elements() const { return known_elements_; }
  // Refuses to record both ways of a branch if the program drew random numbers before it.
  void refuse_draws();
  // Returns the way that Decisions::fork() chose for a branch on a tensor.
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

 private:
  friend class RecordedCall;
  friend class Region;
  friend class ControlFlow;

  // The memory of a tensor that the program did not compute.
  struct Memory {
    enum class Owner { input, module, literal, unknown };
    Owner owner = Owner::unknown;
    const c10::StorageImpl* elements = nullptr;  // an input has none
  };

  void replace_recorded(RecordedTensor& tensor, const at::Tensor& contents);
  at::Tensor input_meta(const at::Tensor& example, const Shape& shape);
  // A call on constants and weights alone, which can run.
  struct Recipe {
    c10::OperatorHandle op;
    std::vector<c10::IValue> arguments;  // with meta tensors in place of recorded ones
    size_t result;
    at::Tensor meta;
    bool uses_state;  // an argument depends on tensors of the module
    at::Tensor value;
  };

  // Returns the elements of a tensor if they follow from constants and weights, and the program
  // writes to none of these; else nullopt.
  std::optional<at::Tensor> known(const at::Tensor& tensor);
  std::optional<at::Tensor> known_result(const at::Tensor& meta);
  // Returns an argument with known tensors in place of recorded ones; nullopt if one is not known.
  std::optional<c10::IValue> known_argument(const c10::IValue& argument);
  // Returns true if the elements of a tensor follow from literals of the program alone.
  bool follows_from_literals(const at::Tensor& tensor) const;
  // Returns the expression of a float or bool that the program uses.
  NumberPtr number_of(const c10::SymNode& node);
  void add_assertions();
  // Reserves the names of Python's functions. Results then have torch.export's names, for example
  // "sum_1".
  void avoid_name(const std::string& name);
  // Returns the value of a tensor in the current graph.
  aten::Value* value_of(const at::Tensor& tensor) { return value_in(*frame_, tensor); }
  aten::Value* value_in(Frame& frame, const at::Tensor& tensor);
  aten::Value* value_in(Frame& frame, const RecordedTensor& tensor);
  // Returns the value of a constant in the graph of the program.
  aten::Value* constant_of(const at::Tensor& tensor);
  aten::Value* copy_of_literal(aten::Value* literal);
  // Marks a tensor that the program made from numbers. It may write to the tensor.
  void add_literal(const at::Tensor& tensor) {
    literals_.try_emplace(tensor.unsafeGetTensorImpl(), tensor);
  }
  // Notes that the program writes to a tensor. The tensor must be a computed one, an input, or a
  // tensor of the module that shares no memory with another one.
  void note_write(const at::Tensor& tensor);
  void check_unread(const c10::StorageImpl* elements);
  Memory memory_of(const at::Tensor& tensor) const;
  at::Tensor meta_of(const at::Tensor& tensor);
  at::Tensor new_tensor(at::Tensor meta, Shape shape, aten::Value* value, c10::Device device);
  // Makes the frame of a region the current one, until leave().
  void enter(Frame& frame) { frame_ = &frame; }
  void leave(const Frame& frame) { frame_ = frame.outer(); }
  const ModuleTensor* find_state(const at::Tensor& tensor) const;
  // Returns the module's tensor with the same elements, if this is a second object for it; else
  // nullptr.
  const at::Tensor* original_of(const at::Tensor& tensor) const;

  Host& host_;
  std::shared_ptr<Generators> generators_;
  Decisions decisions_;
  LazyTypes types_;
  MemoryLayouts layouts_{decisions_};
  Frame program_{decisions_, types_, layouts_};
  Frame* frame_ = &program_;  // the innermost region's, or the program's
  std::vector<ModuleTensor> state_;
  std::unordered_map<const c10::TensorImpl*, size_t> state_of_;    // index in state_
  std::unordered_map<const void*, std::vector<size_t>> state_at_;  // by address of the elements
  int64_t next_id_ = 0;
  int64_t last_input_ = -1;  // the first ids are those of inputs
  struct Constant {
    at::Tensor tensor;  // keeps the key alive
    at::Tensor meta;
    aten::Value* value = nullptr;
  };
  std::unordered_map<const c10::TensorImpl*, Constant> constants_;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> literals_;
  // By the storage of the meta tensors.
  std::unordered_map<const c10::StorageImpl*, Memory> memories_;
  // Storages that several different views share.
  std::unordered_set<const c10::StorageImpl*> shared_;
  std::unordered_map<const c10::StorageImpl*, at::Tensor> first_in_;  // the first tensor of each
  // Storages of meta tensors that the program writes to.
  std::unordered_set<const c10::StorageImpl*> written_;
  // Storages of real tensors: those that the program writes to, those whose elements it reads, and
  // those that the model keeps as inputs.
  std::unordered_set<const c10::StorageImpl*> written_elements_;
  std::unordered_set<const c10::StorageImpl*> read_elements_;
  std::unordered_set<const c10::StorageImpl*> kept_;
  // Storages that share memory with an array of the program, each with a tensor that keeps it
  // alive. The tensors are meta tensors or real ones.
  std::unordered_map<const c10::StorageImpl*, at::Tensor> in_arrays_;
  MetaResults meta_results_;
  std::unordered_map<const c10::TensorImpl*, Recipe> recipes_;  // by the meta tensor
  std::vector<KnownElements> known_elements_;
  at::Tensor undecided_;
  std::unordered_set<std::string> avoided_names_;
  bool takes_symbols_ = false;
  bool writes_state_ = false;  // the program writes to an input, the module or a literal
  int fake_kernels_ = 0;       // the number that are running
  // Storages of meta tensors that stand for pinned memory.
  std::unordered_set<const c10::StorageImpl*> pinned_;
  // Graphs of regions that failed.
  std::vector<std::unique_ptr<aten::Graph>> dropped_;
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
