// Runs TorchScript on Items: what is known is computed, calls on tensors are recorded.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "readers/jit/item.h"
#include "readers/jit/recorder.h"

namespace onnx_native::readers::jit {

using Items = std::vector<Item>;
using JitNode = torch::jit::Node;

class Interpreter;

// A node being run.
struct Call {
  Interpreter& run;
  const JitNode& node;
  const Items& inputs;

  const Item& input(size_t i) const { return inputs.at(i); }
  size_t size() const { return inputs.size(); }
};

// What a node of one result gives.
inline Items one(Item item) {
  Items items;
  items.push_back(std::move(item));
  return items;
}

// The list that an input is, whose elements can be looked at; nullptr if it is none.
ContainerPtr readable_list(const Call& call, size_t i);

// Runs nodes of one name; nullopt where it is not about these inputs.
using Handler = std::optional<Items> (*)(const Call& call);
using Handlers = std::unordered_map<std::string_view, std::vector<Handler>>;
void add_attribute_handlers(Handlers& handlers);
void add_container_handlers(Handlers& handlers);
void add_open_list_handlers(Handlers& handlers);
void add_number_handlers(Handlers& handlers);
void add_program_handlers(Handlers& handlers);
void add_stride_handlers(Handlers& handlers);
void add_tensor_handlers(Handlers& handlers);

// The meaning of a graph's values while it runs.
using Environment = std::unordered_map<const torch::jit::Value*, Item>;

class Interpreter {
 public:
  Interpreter(std::shared_ptr<aten::Graph> graph, TypeInference& types);

  Recorder& recorder() { return recorder_; }
  // An object that was there before the program; one container each.
  ContainerPtr object(const c10::intrusive_ptr<c10::ivalue::Object>& object,
                      const std::string& path);
  // Something known as an Item; tensors become constants called `path`.
  Item item(const c10::IValue& value, const std::string& path, bool is_parameter = false);
  Item tensor_constant(const at::Tensor& tensor, const std::string& name, bool is_parameter);

  // Runs a function; its results. `module` is what it is a method of, if of a module.
  Items run(const torch::jit::Function& function, Items arguments,
            const Container* module = nullptr, const JitNode* call_site = nullptr);
  // Runs a block of the function that is running.
  Items run(const torch::jit::Block& block, const Items& arguments);
  Item item(const torch::jit::Value* value) const;

  // Records a call on tensors; `key` and its arguments as the ATen schema has them. A call with a
  // list of results gives a list.
  Items record(const std::string& key, std::vector<aten::Argument> arguments);
  // The one result of such a call.
  Item record_one(const std::string& key, std::vector<aten::Argument> arguments);
  // A number from numbers ("python::mul") or from a tensor; what can be known of it needs no call.
  Item record_number(const std::string& key, std::vector<aten::Argument> arguments);
  // A float that is an int divided by a known one.
  struct Quotient {
    Dim numerator;
    int64_t denominator;
  };
  std::optional<Quotient> quotient(const Item& item) const;
  void set_quotient(const Item& item, Quotient quotient);

  aten::Argument argument(const Item& item, const aten::SchemaType& type);
  // A number or tensor, as it is.
  aten::Argument argument(const Item& item);
  Location location() const;

  // A container that is about to change.
  Container::Contents& change(const ContainerPtr& container);
  // Where it is not the program that changes it.
  Container::Contents& record_change(const ContainerPtr& container);
  // Sets an attribute that was asked for first; it had that value all along.
  void load(const ContainerPtr& object, size_t slot, const Item& item);
  [[noreturn]] void unsupported(const std::string& message) const;

  // Control flow; see branches.cpp and loops.cpp. What a side gives must have the same length.
  Items branch(const JitNode& node, const Item& condition);
  using Side = std::function<Items()>;
  Items branch(const Item& condition, const Side& yes, const Side& no);
  Items loop(const JitNode& node, const Items& inputs);

 private:
  friend class Branches;
  friend class Loops;
  friend class LoopValues;
  struct Active {
    const JitNode* node = nullptr;      // that is running
    const Container* module = nullptr;  // whose method it is
    Environment environment = {};
  };
  // A container that changed, and what it held before, or after.
  struct Change {
    ContainerPtr container;
    Container::Contents contents;
  };

  void step(const JitNode& node);
  Items results(const JitNode& node);
  Items record_call(const Call& call, const aten::Schema& schema);
  void keep_identity(const Call& call, const aten::Schema& schema, Items& results);
  void reshape(const ContainerPtr& object, aten::Value* now);
  void share(const Item& argument, const Item& result);
  // Throws ExportError where PyTorch has no such view.
  void check_viewable(const Item& base, const Item& view);
  // What is assumed of a bool in the branch that is read.
  std::optional<bool> assumed(const Item& condition) const;
  Items evaluate(const Call& call) const;

  // A point in time, to which changes can be taken back.
  struct Moment {
    size_t changes;
    uint64_t containers;
    size_t aliases;
  };
  Moment now() const { return {journal_.size(), containers_made(), aliases_.size()}; }
  // Whether a name of the container is used after the node that is running.
  bool is_used_later(const Container& container) const;
  // Takes back what was done since then to containers that were there already; gives what those
  // held at the end.
  std::vector<Change> rewind(const Moment& since);
  // What a container holds after such changes, and an item with copies of the containers in it
  // that they are about.
  static const Container::Contents& contents_after(const std::vector<Change>& changes,
                                                   const Container& container);
  static Item after(const std::vector<Change>& changes, const Item& item);

  Recorder recorder_;
  std::vector<Active> stack_;
  size_t depth_ = 0;  // of blocks in blocks
  size_t steps_ = 0;  // nodes run
  std::vector<Change> journal_;
  // Two containers that are one, or may be: it depends on data.
  struct Alias {
    ContainerPtr one, other;
    bool certain = false;
  };
  std::vector<Alias> aliases_;
  std::unordered_map<const void*, ContainerPtr> objects_;
  std::unordered_map<const void*, Item> constants_;
  std::unordered_map<const aten::Value*, Quotient> quotients_;
  std::unordered_map<const aten::Value*, bool> assumed_;
  std::vector<at::Tensor> kept_;  // whose addresses are keys
};

}  // namespace onnx_native::readers::jit
