// Records calls into the program's graph and into the nested graphs of branches and loop bodies.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "aten/graph.h"
#include "aten/known_layouts.h"
#include "aten/size_calls.h"
#include "readers/jit/reader.h"

namespace onnx_native::readers::jit {

// A graph and the facts known in it. A sub-graph cannot refer to values of outer graphs: those that
// its calls use become its inputs.
struct Frame {
  std::shared_ptr<aten::Graph> graph;
  Frame* parent = nullptr;
  // Recomputes captured views from their base, so that all of them see writes.
  bool views_from_base = false;

  std::vector<std::pair<aten::Value*, aten::Value*>> captures = {};  // outer value, input
  std::unordered_map<const aten::Value*, aten::Value*> inside = {};  // outer value -> inner value
  std::unordered_map<Dim, aten::Value*> sizes = {};
  std::unordered_map<Dim, std::pair<aten::Value*, int64_t>> sources = {};  // size -> tensor, axis
  bool writes = false;  // a call in it writes to a tensor
  bool captures_view = false;
  std::unordered_set<const aten::Value*> reshaped = {};            // tensors reshaped in place
  bool is_loop = false;                                            // a loop body
  std::vector<std::pair<aten::Value*, aten::Value*>> states = {};  // of a loop: initial, input
  std::vector<aten::Value*> held = {};  // tensors that lists hold copies of
};

// A size is read from a tensor that has it, in the current graph or an outer one. size() throws
// ExportError(internal) if no tensor has the size.
class Recorder : public aten::SizeCalls {
 public:
  Recorder(std::shared_ptr<aten::Graph> graph, aten::TypeInference& types);

  aten::Graph& root() { return *root_.graph; }
  aten::Graph& graph() { return *frame_->graph; }
  Frame& frame() { return *frame_; }
  aten::TypeInference& types() { return types_; }
  aten::KnownLayouts& layouts() { return layouts_; }

  aten::Value* add_input(std::string_view name, aten::Type type);
  aten::Value* add_constant(std::string_view name, TensorData data,
                            aten::ConstantKind kind = aten::ConstantKind::constant);
  // Appends a call and returns its results; infers their types.
  std::vector<aten::Value*> call(std::string op, std::vector<aten::Argument> arguments,
                                 const Location& location);
  // Appends a call with a result of a known type.
  aten::Value* call(std::string op, std::vector<aten::Argument> arguments, aten::Type type,
                    const Location& location);
  // Appends a call that computes a number. If the result is an expression that the current graphs
  // already have, appends no call and returns the expression.
  std::pair<aten::Value*, std::optional<Dim>> number(std::string op,
                                                     std::vector<aten::Argument> arguments,
                                                     const Location& location);
  // Records that `copies` hold copies of tensors that are the same objects in the program, so that
  // functionalize can reject writes that would be lost. `repeated`: a tensor may be held more than
  // once.
  void hold(const std::vector<aten::Value*>& copies, const std::vector<aten::Value*>& originals,
            bool repeated = false);
  // Returns true if the current graph or an outer one has all symbols of the expression.
  bool knows(const Dim& dim) const;
  // Returns true if the value belongs to the current graph or an outer one.
  bool is_outside(const aten::Value* value) const;
  // Returns the value in the current graph; captures it from an outer graph if needed.
  aten::Value* lift(aten::Value* value) { return lift(value, *frame_); }
  void lift(aten::Argument& argument);

  // Records calls in a sub-graph during its lifetime.
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
  // Creates a sub-graph of the current graph.
  Frame sub_graph(bool views_from_base);
  // Appends a call with sub-graphs; finish() sets its operands.
  aten::Node* add_control_flow(std::string op, const Location& location);
  aten::Value* add_result(aten::Node* node, std::string_view name, aten::Type type);
  // Moves the call behind the calls that compute its operands, or removes it if it has no effect.
  void finish(aten::Node* node, std::vector<aten::Argument> arguments,
              std::initializer_list<const Frame*> bodies);

  // A snapshot of the current graph for restore().
  struct Mark {
    size_t nodes;
    Frame frame;
    size_t inputs;
  };
  Mark mark() const;
  void restore(Mark mark);

 private:
  // Infers the types of a call's results. A call that PyTorch rejects is an invalid program.
  std::vector<aten::Type> infer(const aten::Node& node);
  // Calls hold() in the current graph for the outer tensors that a body's lists hold copies of.
  void hold_outside(const aten::Node& call, const Frame& body);
  void will_reshape(const aten::Schema& schema, const std::vector<aten::Argument>& arguments);
  aten::Value* lift(aten::Value* value, Frame& frame);
  bool can_replay(const aten::Value& value, const Frame& frame) const;
  aten::Value* replay(aten::Value* value, Frame& frame);
  void enter(aten::Value* value, Frame& frame);
  void define(aten::Value* value);
  aten::Value* find_size(const Dim& dim, Frame& frame);
  std::optional<aten::Argument> known_size(const Dim& dim) override;
  aten::Argument symbol_size(const Dim& symbol) override;
  aten::Argument broadcast_size(const Dim::Factor& factor) override;
  aten::Value* size_call(std::string op, std::vector<aten::Argument> arguments,
                         const Dim& result) override;
  aten::Value* add_size_call(Frame& frame, std::string op, std::vector<aten::Argument> arguments,
                             const Dim& result);

  Frame root_;
  Frame* frame_;
  aten::TypeInference& types_;
  aten::KnownLayouts layouts_;
  std::unordered_map<const aten::Value*, const Frame*> owners_;
  std::vector<std::shared_ptr<aten::Graph>> graphs_;       // kept alive: addresses are keys
  std::unordered_map<std::string, const Frame*> symbols_;  // symbol -> the frame that first had it
};

// "aten::add_.Tensor" -> "add_".
std::string_view base_name(std::string_view op);

}  // namespace onnx_native::readers::jit
