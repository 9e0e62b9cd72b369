// The sizes of a graph that joins ways of a program, as calls of the graph.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "aten/graph.h"
#include "aten/size_calls.h"

namespace onnx_native::capture {

// Computes sizes from those of a graph's tensors. The body of a branch takes what it can from the
// graph around it. Throws ExportError(unsupported) for a size that no tensor of the graph has.
class JoinedSizes : public aten::SizeCalls {
 public:
  // Makes a value of the graph around a body one of the body's inputs.
  using Take = std::function<aten::Value*(aten::Value* outer)>;

  explicit JoinedSizes(aten::Graph& graph, JoinedSizes* outer = nullptr, Take take = {})
      : graph_(graph), outer_(outer), take_(std::move(take)) {}

  // Notes the sizes of a tensor, or a number that is a size.
  void note(aten::Value* value);
  // Returns true if tensors of the graph have all symbols of a size.
  bool knows(const Dim& size) const;
  // Sets the location of the next calls.
  void set_location(const Location* location) { location_ = location; }
  // Adds a call of a Python operator that returns a bool, or a float.
  aten::Value* number(std::string op, std::vector<aten::Argument> arguments, bool is_condition);

 private:
  std::optional<aten::Argument> known_size(const Dim& dim) override;
  aten::Argument symbol_size(const Dim& symbol) override;
  aten::Argument broadcast_size(const Dim::Factor& factor) override;
  aten::Value* size_call(std::string op, std::vector<aten::Argument> arguments,
                         const Dim& result) override;

  aten::Graph& graph_;
  JoinedSizes* outer_;
  Take take_;
  const Location* location_ = nullptr;
  // By the text of the size.
  std::unordered_map<std::string, std::pair<aten::Value*, int64_t>> axes_;
  std::unordered_map<std::string, aten::Value*> numbers_;
  std::unordered_map<std::string, Dim> multiples_;  // by the symbol s: a size k*s
  std::unordered_set<std::string> symbols_;
};

}  // namespace onnx_native::capture
