// Interprets TorchScript on Items: evaluates constants and records calls on tensors.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "readers/jit/item.h"
#include "readers/jit/recorder.h"

// Forward declarations: PyTorch's IR header costs ten seconds per file, and few handlers need it.
namespace torch::jit {
struct Block;
struct Function;
struct Node;
struct Value;
}  // namespace torch::jit

namespace onnx_native::readers::jit {

using Items = std::vector<Item>;
using JitNode = torch::jit::Node;

class Interpreter;

// A node that is being run.
struct Call {
  Interpreter& run;
  const JitNode& node;
  const Items& inputs;

  const Item& input(size_t i) const { return inputs.at(i); }
  size_t size() const { return inputs.size(); }
  std::string_view name() const;  // "aten::add"
  // Returns the schema of the node's operator; nullptr if the node is not an operator.
  const c10::FunctionSchema* schema() const;
  size_t output_count() const;
  const c10::TypePtr& output_type() const;  // the type of the only output
  // Returns an attribute that is a number; `attribute` is its name in PyTorch.
  int64_t attribute(const char* attribute) const;
};

// Wraps the result of a node with one output.
inline Items one(Item item) {
  Items items;
  items.push_back(std::move(item));
  return items;
}

// Returns input `i` if it is a list, else nullptr. Throws if a loop is still appending to the list.
ContainerPtr readable_list(const Call& call, size_t i);

// Returns input `i` if it is a container of this kind, else nullptr.
ContainerPtr container(const Call& call, size_t i, Container::Kind kind);

// Runs nodes of one kind. Returns nullopt if it does not handle these inputs.
using Handler = std::optional<Items> (*)(const Call& call);
using Handlers = std::unordered_map<std::string_view, std::vector<Handler>>;
void add_attribute_handlers(Handlers& handlers);
void add_container_handlers(Handlers& handlers);
void add_dict_handlers(Handlers& handlers);
void add_open_list_handlers(Handlers& handlers);
void add_list_search_handlers(Handlers& handlers);
void add_number_handlers(Handlers& handlers);
void add_program_handlers(Handlers& handlers);
void add_quantized_handlers(Handlers& handlers);
void add_stride_handlers(Handlers& handlers);
void add_tensor_handlers(Handlers& handlers);
void add_to_list_handlers(Handlers& handlers);
void add_mkldnn_handlers(Handlers& handlers);

// Maps a graph's values to Items while the graph runs.
using Environment = std::unordered_map<const torch::jit::Value*, Item>;

class Interpreter {
 public:
  Interpreter(std::shared_ptr<aten::Graph> graph, aten::TypeInference& types);

  Recorder& recorder() { return recorder_; }
  // Returns the container of an object that existed before the program ran; there is one per
  // object.
  ContainerPtr object(const c10::intrusive_ptr<c10::ivalue::Object>& object,
                      const std::string& path);
  // Converts a constant to an Item. Tensors become graph constants named `path`.
  Item item(const c10::IValue& value, const std::string& path,
            aten::ConstantKind kind = aten::ConstantKind::constant);
  Item tensor_constant(const at::Tensor& tensor, const std::string& name, aten::ConstantKind kind);

  // Runs a function and returns its results. `module` is the owner of a method, else nullptr.
  Items run(const torch::jit::Function& function, Items arguments,
            const Container* module = nullptr, const JitNode* call_site = nullptr);
  // Runs a block of the current function and returns its results.
  Items run(const torch::jit::Block& block, const Items& arguments);
  Item item(const torch::jit::Value* value) const;

  // Records a call on tensors; `key` and `arguments` follow the ATen schema. A list result becomes
  // one list Item.
  Items record(const std::string& key, std::vector<aten::Argument> arguments);
  // Records a call with one result.
  Item record_one(const std::string& key, std::vector<aten::Argument> arguments);
  aten::Value* record_tensor(const std::string& key, std::vector<aten::Argument> arguments);
  // Records a number computed from numbers ("python::mul") or a tensor. Adds no call if it can be
  // folded.
  Item record_number(const std::string& key, std::vector<aten::Argument> arguments);
  // A float equal to an int divided by a constant.
  struct Quotient {
    Dim numerator;
    int64_t denominator;
  };
  std::optional<Quotient> quotient(const Item& item) const;
  void set_quotient(const Item& item, Quotient quotient);

  // The integers of a quantized tensor: the real number is (integer - zero_point) * scale.
  struct Quantization {
    double scale;
    int64_t zero_point;
    DType dtype;
  };
  // Returns nullptr if the tensor is not quantized.
  const Quantization* quantization(const Item& item) const;
  void set_quantization(const Item& item, Quantization quantization);
  // Returns the quantization of the first quantized operand, also in lists; or nullptr.
  const Quantization* quantized_operand(const Call& call) const;

  // Converts an Item to an argument of the schema's type.
  aten::Argument argument(const Item& item, const aten::SchemaType& type);
  // The same, if the schema type does not matter.
  aten::Argument argument(const Item& item);
  Location location() const;

  // Returns the contents of a container for a write. Throws if the container may be aliased.
  Container::Contents& change(const ContainerPtr& container);
  // The same for writes that the program does not make itself; skips the aliasing check.
  Container::Contents& record_change(const ContainerPtr& container);
  // Stores an attribute on its first read. Updates the journal too, as if it had always been there.
  void load(const ContainerPtr& object, size_t slot, const Item& item);
  [[noreturn]] void unsupported(const std::string& message) const;

  bool grad_mode() const { return grad_mode_; }
  void set_grad_mode(bool mode) { grad_mode_ = mode; }

  // Control flow; see branches.cpp and loops.cpp. Both sides must return the same number of items.
  Items branch(const JitNode& node, const Item& condition);
  using Side = std::function<Items()>;
  Items branch(const Item& condition, const Side& yes, const Side& no);
  Items loop(const JitNode& node, const Items& inputs);

 private:
  friend class Branches;
  friend class Loops;
  friend class LoopValues;
  struct Active {
    const JitNode* node = nullptr;      // the running node
    const Container* module = nullptr;  // the owner of the method
    Environment environment = {};
  };
  // A changed container. In the journal: its old contents. From rewind(): its new contents.
  struct Change {
    ContainerPtr container;
    Container::Contents contents;
    size_t recorded = 0;  // the container's previous entry; see Container
  };

  void step(const JitNode& node);
  // Counts the elements of a new list. Throws if all lists together have too many.
  void use_memory(size_t elements);
  Items results(const JitNode& node);
  Items record_call(const Call& call, const aten::Schema& schema);
  // Rounds the results of an operator on quantized tensors. Throws if it does not know the
  // operator.
  void keep_quantization(const Call& call, const aten::Schema& schema,
                         const Quantization& of_operand, Items& results);
  void keep_identity(const Call& call, const aten::Schema& schema, Items& results);
  void reshape(const ContainerPtr& object, aten::Value* now);
  void share(const Item& argument, const Item& result);
  // Throws ExportError if PyTorch's view() rejects these strides.
  void check_viewable(const Item& base, const Item& view);
  // Returns the value of a bool if it is known or if the current branch implies it.
  std::optional<bool> assumed(const Item& condition) const;
  // Runs PyTorch's own operator on constants.
  static bool can_evaluate(const Call& call);
  Items evaluate(const Call& call);
  // Returns true if the operator changes this list or dict, not the tensors in it.
  static bool is_written(const c10::FunctionSchema& schema, size_t i);
  // Gives a list or dict its contents after an operator changed it.
  void write_back(const Call& call, size_t i, const c10::IValue& now);
  // Converts results to the types of the operator: a size to a float, for example.
  void convert_numbers(const JitNode& node, Items& results);

  // A point in the journal that rewind() can return to. begin() opens it, and rewind() or keep()
  // ends it. They nest. The journal has one entry for each container that changes within it.
  struct Moment {
    size_t changes = 0;
    uint64_t containers = 0;
    size_t aliases = 0;
    size_t depth = 0;  // number of open moments around it
  };
  Moment begin();
  void keep(const Moment& moment) { open_.resize(moment.depth); }
  // Returns true if a variable that holds the container is used after the running node.
  bool is_used_later(const Container& container) const;
  // Ends the moment and undoes later changes to containers that already existed. Returns the
  // contents that they had before the undo.
  std::vector<Change> rewind(const Moment& since);
  // The contents of a container after these changes, and an item in which every changed container
  // is replaced by a copy with its new contents.
  static const Container::Contents& contents_after(const std::vector<Change>& changes,
                                                   const Container& container);
  static Item after(const std::vector<Change>& changes, const Item& item);

  Recorder recorder_;
  std::vector<Active> stack_;
  size_t depth_ = 0;     // of nested blocks
  size_t steps_ = 0;     // number of nodes run
  size_t elements_ = 0;  // of all lists made
  bool grad_mode_ = false;
  std::vector<Change> journal_;
  std::vector<Moment> open_;
  // Two containers that are the same object (`certain`), or that may be, depending on data.
  struct Alias {
    ContainerPtr one, other;
    bool certain = false;
  };
  std::vector<Alias> aliases_;
  std::unordered_map<const void*, ContainerPtr> objects_;
  std::unordered_map<const void*, Item> constants_;
  std::unordered_map<const aten::Value*, Quotient> quotients_;
  std::unordered_map<const aten::Value*, Quantization> quantizations_;
  std::unordered_map<const aten::Value*, bool> assumed_;
  std::vector<at::Tensor> kept_;  // keeps tensors alive whose addresses are keys
};

}  // namespace onnx_native::readers::jit
