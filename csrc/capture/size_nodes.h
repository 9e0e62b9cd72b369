// The numbers that a recorded program computes with, as nodes of a graph.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "aten/graph.h"
#include "aten/size_calls.h"
#include "base/dim.h"
#include "capture/decisions.h"
#include "capture/lazy_types.h"
#include "capture/number.h"

namespace onnx_native::capture {

class Frame;

// Turns expressions over sizes into arguments of a graph's calls. An expression is computed once in
// a graph, from its parts; a size that a tensor of the graph has is read from the tensor. The graph
// of a region takes a size from the enclosing graph if it knows none of its symbols. Refuses the
// recording if no tensor has a size that the program uses.
class SizeNodes : public aten::SizeCalls {
 public:
  SizeNodes(Frame& frame, Decisions& decisions, LazyTypes& types)
      : frame_(frame), decisions_(decisions), types_(types) {}

  // Notes the sizes of an input. A symbol s is also computed from an input's size k*s.
  void add_input(aten::Value* tensor);
  // Notes that a tensor has a size. A size is read from the first tensor that has it.
  void add_axis(const Dim& size, aten::Value* tensor, size_t axis);
  // Notes a value that is the size.
  void add(const Dim& size, aten::Value* value) { sizes_.try_emplace(size.str(), value); }
  // Reads all sizes that results of calls have, before a call changes these results.
  void read_results();

  // Returns an argument for a number of any type, as size() does for a size.
  aten::Argument number(const Number& number);

 private:
  std::optional<aten::Argument> known_size(const Dim& dim) override;
  aten::Argument symbol_size(const Dim& symbol) override;
  aten::Argument broadcast_size(const Dim::Factor& factor) override;
  aten::Value* size_call(std::string op, std::vector<aten::Argument> arguments,
                         const Dim& result) override;

  Frame& frame_;
  Decisions& decisions_;
  LazyTypes& types_;
  // By the text of the size: a tensor and an axis that have it.
  std::unordered_map<std::string, std::pair<aten::Value*, int64_t>> axes_;
  std::unordered_map<std::string, Dim> multiples_;         // by the symbol s: an input's size k*s
  std::unordered_map<std::string, aten::Value*> sizes_;    // by the text of the expression
  std::unordered_map<std::string, aten::Value*> numbers_;  // floats and bools, also by the text
};

}  // namespace onnx_native::capture
