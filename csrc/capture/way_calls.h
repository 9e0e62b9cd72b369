// The calls of two ways of a program, and the copies of them in a joined graph.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "aten/graph.h"
#include "capture/joined_sizes.h"

namespace onnx_native::capture {

// A call of both ways, or of one of them; nullptr for the other.
using WayItem = std::array<const aten::Node*, 2>;

// Numbers in place of symbols.
using FixedSizes = std::map<std::string, int64_t>;
aten::Type with_sizes(const aten::Type& type, const FixedSizes& sizes);

// Drops calls of a functional graph that return their operand: clones, and views of all of it. A
// way may need them for one size and not for another.
void drop_identities(aten::Graph& graph);
// Gives calls of the one way the arguments of the other, where these make no difference: attention
// of one query to one key is causal or not. Programs write is_causal=n > 1.
void use_same_spelling(aten::Graph& graph, const aten::Graph& other);

// Returns all calls but those that compute sizes: they follow from the sizes of tensors. Calls with
// the same operator and the same literal arguments are one item where the order allows it.
std::vector<WayItem> aligned(const aten::Graph& first, const aten::Graph& second);

// Returns the expression of an argument that is a size or an integer; nullopt for others.
std::optional<Dim> as_size(const aten::Argument& argument);
// Returns true for literals that are equal, the bits of floats included.
bool is_same_literal(const aten::Argument& a, const aten::Argument& b);
// Returns the weights and constants of a graph that have the same tensor in the other graph, with
// the value that they have there.
std::unordered_map<const aten::Value*, const aten::Value*> shared_constants(
    const aten::Graph& graph, const aten::Graph& other);

// The symbols of sizes that depend on data: both ways call them u0, u1, and so on. Those of the
// second way get the names that they have in the first way, or new ones.
class Renaming {
 public:
  Renaming(const aten::Graph& renamed, const aten::Graph& other);

  // Forgets the names.
  void restart();
  // Notes that a result of both ways has these types.
  void meet(const aten::Type& of_other, const aten::Type& renamed);
  // Gives new names to the sizes that a call of the second way makes.
  void keep(const aten::Node& node);
  Dim of(const Dim& size) const;
  aten::Type of(const aten::Type& type) const;
  // Returns a symbol that neither way has.
  Dim fresh(const DimRange& range = DimRange::size());

 private:
  void meet(const Dim& of_other, const Dim& renamed);

  std::unordered_set<std::string> inputs_;  // symbols of sizes of inputs
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, Dim> names_;
};

// The body of a cond: calls of one way.
class WayBody {
 public:
  // `outside` are the values of the way in the graph around the body.
  WayBody(JoinedSizes& sizes, const std::unordered_map<const aten::Value*, aten::Value*>& outside,
          const Renaming* renaming);

  // Copies the calls that the results need.
  void write(const std::vector<const aten::Node*>& calls,
             const std::vector<const aten::Value*>& results);
  // Returns the values of the graph around it that the body takes.
  const std::vector<aten::Value*>& taken() const { return state_->taken; }
  // Returns the body, whose inputs are these values.
  std::shared_ptr<aten::Graph> end(const std::vector<aten::Value*>& inputs);

 private:
  struct State {
    State(JoinedSizes& outer) : sizes(*graph, &outer, [this](aten::Value* v) { return take(v); }) {}
    aten::Value* take(aten::Value* outer);

    std::shared_ptr<aten::Graph> graph = std::make_shared<aten::Graph>();
    JoinedSizes sizes;
    std::vector<aten::Value*> taken;
    std::unordered_map<const aten::Value*, aten::Value*> inputs;
  };

  aten::Argument copied(const aten::Argument& argument);
  aten::Value* value(const aten::Value* original);

  JoinedSizes& outer_;
  std::unique_ptr<State> state_;
  const std::unordered_map<const aten::Value*, aten::Value*>& outside_;
  const Renaming* renaming_;
  std::unordered_map<const aten::Value*, aten::Value*> own_;
};

}  // namespace onnx_native::capture
