// The graphs being written: the program's and, inside it, those of branches and loop bodies.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "aten/graph.h"
#include "aten/known_layouts.h"
#include "readers/jit/reader.h"

namespace onnx_native::readers::jit {

// A graph, and what is known in it. A sub-graph sees nothing of the graphs around it: what its
// calls take from there becomes an input of it.
struct Frame {
  std::shared_ptr<aten::Graph> graph;
  Frame* parent = nullptr;
  // Views are taken from their base anew, so that writes are seen by all of them.
  bool views_from_base = false;

  std::vector<std::pair<aten::Value*, aten::Value*>> captures = {};  // parent's value, input
  std::unordered_map<const aten::Value*, aten::Value*> inside = {};  // any outer value -> its own
  std::unordered_map<Dim, aten::Value*> sizes = {};
  std::unordered_map<Dim, std::pair<aten::Value*, int64_t>> sources = {};  // axes that have a size
  bool writes = false;  // some call writes to a tensor
  bool captures_view = false;
  std::unordered_set<const aten::Value*> reshaped = {};            // they have another shape by now
  bool is_loop = false;                                            // the body of one
  std::vector<std::pair<aten::Value*, aten::Value*>> states = {};  // of a loop: initial, input
  std::vector<aten::Value*> held = {};  // tensors whose copies are in lists
};

class Recorder {
 public:
  Recorder(std::shared_ptr<aten::Graph> graph, TypeInference& types);

  aten::Graph& root() { return *root_.graph; }
  aten::Graph& graph() { return *frame_->graph; }
  Frame& frame() { return *frame_; }
  TypeInference& types() { return types_; }
  aten::KnownLayouts& layouts() { return layouts_; }

  aten::Value* add_input(std::string_view name, aten::Type type);
  aten::Value* add_constant(std::string_view name, TensorData data, bool is_parameter);
  // Appends a call; gives its results, whose types are inferred.
  std::vector<aten::Value*> call(std::string op, std::vector<aten::Argument> arguments,
                                 const Location& location);
  // Appends a call whose result's type is known.
  aten::Value* call(std::string op, std::vector<aten::Argument> arguments, aten::Type type,
                    const Location& location);
  // Appends a call that computes a number. Where the graphs have it already, it is given as an
  // expression, and there is no call.
  std::pair<aten::Value*, std::optional<Dim>> number(std::string op,
                                                     std::vector<aten::Argument> arguments,
                                                     const Location& location);
  // Records that `copies` hold copies of tensors which are the same objects to the program, so that
  // functionalize refuses writes that would be lost. `repeated`: they may hold one more than once.
  void hold(const std::vector<aten::Value*>& copies, const std::vector<aten::Value*>& originals,
            bool repeated = false);
  // A size as an argument: a number, or a value of this graph. Throws ExportError(internal) where
  // no tensor has it.
  aten::Argument size(const Dim& dim);
  // Whether this graph or those around it have all symbols of an expression.
  bool knows(const Dim& dim) const;
  // Whether a value is of the current graph or one around it.
  bool is_outside(const aten::Value* value) const;
  // The value in the current graph.
  aten::Value* lift(aten::Value* value) { return lift(value, *frame_); }
  void lift(aten::Argument& argument);

  // For as long as it lives, calls are recorded in a sub-graph.
  class Inside {
   public:
    Inside(Recorder& recorder, Frame& frame) : recorder_(recorder), outer_(recorder.frame_) {
      recorder.frame_ = &frame;
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    ~Inside() { recorder_.frame_ = outer_; }

   private:
    Recorder& recorder_;
    Frame* outer_;
  };
  // A sub-graph of the current graph.
  Frame sub_graph(bool views_from_base);
  // A call with sub-graphs, at the end of the graph; `finish` it with its operands and results.
  aten::Node* add_control_flow(std::string op, const Location& location);
  aten::Value* add_result(aten::Node* node, std::string_view name, aten::Type type);
  // Moves it behind all calls that its operands need, or drops it where it does nothing.
  void finish(aten::Node* node, std::vector<aten::Argument> arguments,
              std::initializer_list<const Frame*> bodies);

  // What `restore` takes the current graph back to.
  struct Mark {
    size_t nodes;
    Frame frame;
    size_t inputs;
  };
  Mark mark() const;
  void restore(Mark mark);

 private:
  // Records in the current graph which tensors copies made in a body are of.
  void hold_outside(const aten::Node& call, const Frame& body);
  void will_reshape(const aten::Schema& schema, const std::vector<aten::Argument>& arguments);
  aten::Value* lift(aten::Value* value, Frame& frame);
  bool can_replay(const aten::Value& value, const Frame& frame) const;
  aten::Value* replay(aten::Value* value, Frame& frame);
  void enter(aten::Value* value, Frame& frame);
  void define(aten::Value* value);
  aten::Value* find_size(const Dim& dim, Frame& frame);
  aten::Value* size_value(const Dim& dim);
  aten::Value* compute(const Dim& dim);
  aten::Value* compute_symbol(const Dim& symbol);
  aten::Value* compute_factor(const Dim::Factor& factor);
  aten::Value* size_call(Frame& frame, std::string op, std::vector<aten::Argument> arguments,
                         const Dim& result);

  Frame root_;
  Frame* frame_;
  TypeInference& types_;
  aten::KnownLayouts layouts_;
  std::unordered_map<const aten::Value*, const Frame*> owners_;
  std::vector<std::shared_ptr<aten::Graph>> graphs_;       // their values' addresses are keys
  std::unordered_map<std::string, const Frame*> symbols_;  // where they came up first
};

// "aten::add_.Tensor" -> "add_".
std::string_view base_name(std::string_view op);

}  // namespace onnx_native::readers::jit
