// A graph that a recording writes, and what is known in it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "aten/graph.h"
#include "capture/decisions.h"
#include "capture/lazy_types.h"
#include "capture/memory_layouts.h"
#include "capture/size_nodes.h"

namespace onnx_native::capture {

// The program has one frame, and each region has a frame of its own while it is recorded. A graph
// has no values of other graphs: a value of the enclosing graph that its calls use becomes one of
// its inputs. A region must not write to memory that it did not make.
class Frame {
 public:
  // `outer` is the frame of the enclosing graph; nullptr for the program's.
  Frame(Decisions& decisions, LazyTypes& types, MemoryLayouts& layouts, Frame* outer = nullptr)
      : outer_(outer), types_(types), layouts_(layouts), sizes_(*this, decisions, types) {}
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  Frame* outer() const { return outer_; }
  aten::Graph& graph() const { return *graph_; }
  std::unique_ptr<aten::Graph> take_graph() { return std::move(graph_); }
  SizeNodes& sizes() { return sizes_; }

  // Sets the location of the next nodes.
  void set_location(Location location) { location_ = graph_->add_location(std::move(location)); }
  aten::Node* add_node(std::string op, std::vector<aten::Argument> arguments) {
    return graph_->add_node(std::move(op), std::move(arguments), location_);
  }
  aten::Value* add_input(std::string_view name, aten::Type type);

  // The values of recorded tensors, by the tensors' ids.
  void set_value(int64_t id, aten::Value* value) { values_[id] = value; }
  // Returns nullptr if the tensor has no value in this graph.
  aten::Value* find_value(int64_t id) const;
  // Captures the value if an enclosing graph has it. Returns nullptr if no graph has it.
  aten::Value* value(int64_t id);

  // Returns the input for a value of the enclosing graph.
  aten::Value* capture(aten::Value* outer);
  // Returns the same for a graph that is complete.
  aten::Value* input_of(aten::Value* outer);
  // Returns the value in this graph for a value of the program's graph.
  aten::Value* capture_from_program(aten::Value* value);
  // Returns the values of the enclosing graph that this graph uses.
  const std::vector<aten::Value*>& captured() const { return captured_; }

  // Returns true if the region, or code of the program outside of all regions, made the memory.
  bool owns(const at::Tensor& meta) const {
    return !outer_ || storages_.contains(meta.storage().unsafeGetStorageImpl());
  }
  void own(const at::Tensor& meta) {
    if (outer_ && storages_.insert(meta.storage().unsafeGetStorageImpl()).second)
      owned_.push_back(meta);
  }

  // Returns the number of true elements of a mask. The caller sets it if it is not known yet.
  // `meta` is the mask's meta tensor.
  std::optional<Dim>& count_of(const at::Tensor& meta);
  // Returns the number that the program reads from a tensor of one element. The caller sets it if
  // it is not known yet: a row that is selected again has the same number.
  std::optional<Dim>& item_of(const aten::Value& value) { return items_[origin(value)]; }
  // Forgets what the program read, because it writes to this memory.
  void forget_numbers(const c10::StorageImpl* storage) {
    mask_counts_.erase(storage);
    items_.clear();
  }

 private:
  struct MaskCount {
    at::Tensor meta;
    std::optional<Dim> count;
  };

  static std::string origin(const aten::Value& value);

  Frame* outer_;
  LazyTypes& types_;
  MemoryLayouts& layouts_;
  std::unique_ptr<aten::Graph> graph_ = std::make_unique<aten::Graph>();
  SizeNodes sizes_;
  const Location* location_ = nullptr;
  std::unordered_map<int64_t, aten::Value*> values_;
  std::vector<aten::Value*> captured_;
  std::unordered_map<const aten::Value*, aten::Value*> inputs_of_;  // by the captured value
  std::unordered_set<const c10::StorageImpl*> storages_;            // that the region made
  std::vector<at::Tensor> owned_;                                   // keep the storages alive
  std::unordered_map<const c10::StorageImpl*, std::vector<MaskCount>> mask_counts_;
  std::unordered_map<std::string, std::optional<Dim>> items_;  // by origin()
};

}  // namespace onnx_native::capture
