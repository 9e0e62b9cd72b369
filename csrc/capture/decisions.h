// The decisions that a recording makes about sizes, with their guards.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dim.h"
#include "capture/number.h"
#include "capture/run_trace.h"

namespace onnx_native::capture {

enum class Relation { equal, less, less_equal };
// Returns the name of the function of two numbers: python::eq.
std::string_view operator_of(Relation relation);

// Returns a sum without its number, and the number.
std::pair<Dim, int64_t> split(const Dim& sum);

// A condition on sizes that the program decided by the example. With Relation::less, the condition
// is `difference < 0`; `holds` is its truth in the example.
struct Guard {
  Dim difference;
  Relation relation;
  bool holds;
  std::string text;               // "n <= 512"
  std::string source;             // user's source line
  NumberPtr condition = nullptr;  // a condition on floats, which replaces `difference`

  // Returns the condition that is true. For "n <= 512" that does not hold, it is "n > 512".
  std::string statement() const;
  // Returns true if the program decides in the same way at these values.
  bool allows(const SymbolValue& value) const;
};

// A symbol of a recording: its value in the example, and its range.
struct Symbol {
  // The first four are symbols of inputs. The user declared the size as a Dim, said that it is
  // dynamic, only named it, or left it to the capture (Dim.AUTO). A computed symbol follows from
  // those. The value of a symbol of data is known when the model runs; its `example` is a stand-in
  // for the meta kernels.
  enum class Origin { declared, dynamic, named, inferred, computed, data };
  int64_t example = 0;
  DimRange range;
  Origin origin = Origin::declared;
  bool is_size = true;             // the size of an input, which is not empty
  NumberPtr definition = nullptr;  // the computation whose result the symbol is, if there is one
  bool is_size_of_tensor = false;  // a recorded tensor has this size, so its stand-in is fixed
  bool is_counted = false;         // loops over the size run as often as in the example
  size_t order = 0;                // how many symbols were declared before

  std::optional<int64_t> lowest() const {
    return is_size ? std::max<int64_t>(range.low.value_or(1), 1) : range.low;
  }
  bool is_of_input() const { return origin != Origin::computed && origin != Origin::data; }
};

// An equation that the program demands: `symbol`, a size or a number that depends on data, equals
// `value`.
struct Equation {
  std::string symbol;
  Dim value;
  std::string source;      // the source line, if the equation makes a size static or is a branch
  bool is_loop = false;    // that line is a loop, which runs `value` times
  bool is_branch = false;  // the program itself asks whether it holds, at the source line
};

// The subject of a refusal. Routes of an export are chosen by it.
enum class RefusalKind {
  control_flow,  // a branch or a loop by the elements of a tensor
  loop,          // a loop over a dynamic size
  pinned_size,   // the program fixes a dynamic size
  failure,       // an operator raises an exception
  other,
};

// Returns the first line of a message. A reason is one line.
std::string first_line(std::string_view text);

// Notes a use of a tensor or a size outside of its recording, for example in another thread. An
// exception follows, but the program may catch it.
void note_use_outside();
// Returns how often this process noted such a use.
int64_t uses_outside();

// A decision of a recording with a counted symbol: rest + number <relation> 0. It is no guard, but
// a part of what the program did. Recordings at several sizes show what all sizes have in common.
struct CountedDecision {
  std::string rest;  // "2*n", an expression of symbols
  int64_t number = 0;
  Relation relation = Relation::equal;
  bool holds = true;
  bool is_of_empty = false;  // the condition differs for an empty input
};

// Decides conditions on symbolic sizes by the example and records a guard for each decision that
// the ranges of the symbols do not prove. A recording that must not continue is refused: the first
// reason is kept, because the program may catch the exception.
class Decisions {
 public:
  // `is_in_program` returns true if code of the program asks for a decision, not code of PyTorch.
  explicit Decisions(
      std::map<std::string, Symbol> symbols, std::function<std::string()> line,
      std::function<bool()> is_in_program = [] { return true; })
      : symbols_(std::move(symbols)),
        line_(std::move(line)),
        is_in_program_(std::move(is_in_program)) {}
  Decisions(const Decisions&) = delete;
  Decisions& operator=(const Decisions&) = delete;

  // Every tensor and size of the recording holds this token. It tells recordings apart, and its use
  // count tells how many of them are alive.
  const std::shared_ptr<const int>& token() const { return token_; }

  // Returns the symbol of an input's size.
  Dim symbol(const std::string& name) const;
  bool has_symbols() const { return !symbols_.empty(); }
  bool has_symbol(const std::string& name) const { return symbols_.contains(name); }
  // Returns the value in the example; nullopt if it depends on data.
  std::optional<int64_t> example(const Dim& dim) const;
  std::optional<double> example(const Number& number) const;
  // Returns true if all symbols are sizes of inputs.
  bool follows_from_sizes(const Dim& dim) const;
  // Returns the value for the meta kernels: each symbol that depends on data has its stand-in.
  // Returns nullopt if the recording does not know a symbol.
  std::optional<int64_t> stand_in(const Dim& dim) const;
  // Returns the truth of a condition at the stand-ins.
  std::optional<bool> at_stand_in(const Dim& difference, Relation relation) const;
  // Declares a symbol that depends on data, with a stand-in by default.
  void declare_data(const std::string& name, const DimRange& range,
                    std::optional<int64_t> stand_in = std::nullopt);
  // Returns how many symbols are declared.
  size_t symbol_count() const { return symbols_.size(); }
  // Returns true if a size depends on data that was read after so many symbols were declared.
  bool depends_on_data_since(size_t symbol_count, const Dim& dim) const;
  // Chooses small stand-ins for symbols that depend on data, because some must not exceed a size.
  // The default stand-ins are large and equal no size.
  void use_small_stand_ins() { uses_small_stand_ins_ = true; }
  // Returns true if a symbol depends on data.
  bool has_data() const { return stand_ins_ > 0; }
  // Notes that a recorded tensor has these sizes at the stand-ins.
  void note_shape(const Shape& shape);
  // Returns a symbol for the integer that a computation returns.
  Dim define(const NumberPtr& number);
  // Returns the computation for which define() made a symbol; nullptr for other symbols.
  NumberPtr definition(const std::string& symbol) const;
  // Decides a condition. Refuses the recording if it is an equation that holds for the example and
  // pins a dynamic size. `text` prints the condition.
  bool decide(const Dim& difference, Relation relation, const std::string& text);
  // Decides a condition whose truth the program itself asks for, in a branch perhaps.
  bool decide_branch(const Dim& difference, Relation relation, const std::string& text);
  // Returns true if each symbol of the equation difference == 0 may still have several values, as
  // in n % 8 == 0. decide() notes a guard for such an equation.
  bool is_flexible(const Dim& difference) const;
  // Decides a condition on floats or on bools.
  bool decide(const NumberPtr& condition);
  // Notes guards for equations that pin a size, in place of a refusal: the recording is one of
  // several ways of the program.
  void follow_equations() { follows_equations_ = true; }
  struct OtherSizes {
    std::map<std::string, int64_t> sizes;  // by the names of their symbols
    std::vector<std::string> fixed;        // symbols that have no other value then
  };
  // Returns sizes of inputs for which the program decides guard i otherwise, and all earlier ones
  // as in the example; those after it too, if they can be. Returns nullopt if no such sizes are
  // found.
  std::optional<OtherSizes> sizes_against(size_t i) const;
  // Returns true if guard i decides at these sizes as in the example.
  bool holds(size_t i, const std::map<std::string, int64_t>& sizes) const;
  // Returns true if no other value of a symbol is near that satisfies these guards.
  bool fix(const std::string& symbol, const std::vector<size_t>& guards) const;
  // Makes branches on data take the ways of `choices`, in the order in which the program evaluates
  // their conditions. A condition that is evaluated again takes the same way.
  // `probes` is for a run that only tries a way: its refusals are not kept.
  void fork(std::vector<bool> choices, bool probes);
  bool forks() const { return choices_.has_value(); }
  // Returns the calls of the program's runs, which should begin alike.
  RunTrace& runs() { return runs_; }
  // Returns the way of a branch on data. Throws if no choice is left. Without a fork, refuses the
  // recording with this reason. Conditions are the same if they are one object.
  bool choose(const std::shared_ptr<const void>& condition, const std::string& reason,
              RefusalKind kind);
  // Returns the condition for which no choice was left, and forgets it; nullptr if there is none.
  NumberPtr take_undecided() { return std::exchange(undecided_, nullptr); }
  // Replaces a number that is read from data by a size: the program fails if they differ.
  void identify(const std::string& symbol, const Dim& size) { identities_[symbol] = size; }
  // Returns the size that replaces a number; nullopt if there is none. `number` is the text of the
  // number.
  std::optional<Dim> identity(const std::string& symbol, const std::string& number);
  // A call needs difference == 0. Notes an equation if that holds when a number that depends on
  // data is this size.
  void note_identity(const Dim& difference, const Dim& size);
  // Notes that eager fails unless a size that depends on data is 1 or another size.
  void note_equal(const Dim& size, const Dim& to);
  // Notes that eager broadcasts a size to another one, and fails if it cannot.
  void note_broadcast(const Dim& size, const Dim& to);
  // Assumes that a condition has this truth, because the program asserts it.
  bool assume(const Dim& difference, Relation relation, bool truth, const std::string& text);
  // Returns the equations of sizes that depend on data that the program asserts.
  std::map<std::string, NumberPtr> take_asserted() { return std::exchange(asserted_, {}); }
  // Returns the expression with the ranges that the program's assertions leave.
  Dim narrowed(const Dim& dim) const;
  // Returns the truth of a condition if the ranges of the symbols or the guards prove it. The sizes
  // of inputs are at least `least`.
  std::optional<bool> proven(const Dim& difference, Relation relation, int64_t least = 1) const;
  // The same by guard i alone, or by its opposite.
  std::optional<bool> proven_given(size_t i, bool holds, const Dim& difference,
                                   Relation relation) const;
  // The capture assumes that inputs are not empty. Notes a guard if the program asks for a
  // condition whose truth differs for an empty input.
  void note_not_empty(const Dim& difference, Relation relation, const std::string& text);
  // Replaces minima and maxima by one of their operands, and notes a guard for each: min(512, n)
  // becomes n.
  Dim resolved(const Dim& dim);
  // Returns true if a symbol is counted.
  bool counts() const {
    return std::ranges::any_of(symbols_, [](const auto& each) { return each.second.is_counted; });
  }
  // Tells a function of all decisions, in place of guards. Counted symbols become numbers where the
  // program needs a number.
  using OnDecision = std::function<void(const CountedDecision& decision)>;
  void tell_decisions(OnDecision on_decision) { on_decision_ = std::move(on_decision); }
  // Tells nothing in its scope: a call becomes a node. Whoever repeats the call decides again.
  class InCall {
   public:
    explicit InCall(Decisions& decisions) : decisions_(decisions) { ++decisions_.calls_; }
    InCall(const InCall&) = delete;
    InCall& operator=(const InCall&) = delete;
    ~InCall() { --decisions_.calls_; }

   private:
    Decisions& decisions_;
  };
  // Tells a decision on numbers of the program: `number` <relation> 0.
  void tell(int64_t number, Relation relation, bool holds) { tell(Dim(number), relation, holds); }
  // Returns the value of a size if counted symbols alone give it.
  std::optional<int64_t> counted(const Dim& dim) const;
  // Returns `number`, the value of a size by counted(), and tells that they are equal.
  int64_t count(const Dim& dim, int64_t number);
  // Returns true if the program took a number for a size by pinned(): what it does with it is
  // unknown.
  bool lost_count() const { return lost_count_; }
  // Decides a condition that another recording decided. Returns false if its truth is another one.
  bool repeat(const Dim& difference, Relation relation, bool holds, bool is_of_empty);
  // Returns a size as a number, which a guard notes: n // 4 == 2. Refuses the recording if that
  // leaves only one value for a symbol, or if the size depends on data. `use` says what needs the
  // number; `kind` is the kind of that refusal.
  int64_t pinned(const Dim& dim, const std::string& use,
                 RefusalKind kind = RefusalKind::pinned_size);
  // Refuses the recording if the guards leave only one value for a symbol, or if another thread
  // used a tensor or a size of the recording.
  void check();
  // Sizes by the names of their symbols.
  using InputSizes = std::map<std::string, int64_t>;
  // Returns true if all guards hold in the example after these sizes of inputs replace its own.
  bool allows(const InputSizes& sizes) const;
  // Returns the value in the example after these sizes of inputs replace its own.
  std::optional<int64_t> value_at(const Dim& dim, const InputSizes& sizes) const;

  // The code of torch::nn reads sizes as numbers. That is allowed if the recording recognizes them:
  // the example has a different prime for each symbol, and a multiple of primes stands for the same
  // multiple of the symbols. The caller chooses the primes and compares two recordings.
  void note_number_read() { number_read_ = true; }
  bool has_unrecognized_numbers() const { return number_read_ && !recognizes_numbers_; }
  void recognize_numbers() { recognizes_numbers_ = true; }
  bool recognizes_numbers() const { return recognizes_numbers_; }
  // Returns the symbolic size that a number stands for.
  std::optional<Dim> recognized(int64_t number) const;

  // Notes that the program has a symbolic number.
  void note_symbolic() { has_symbolic_ = true; }
  bool has_symbolic() const { return has_symbolic_; }

  // Notes that strides of results are guesses, because PyTorch has no meta kernel for a call.
  void guess_strides() { guesses_strides_ = true; }
  bool guesses_strides() const { return guesses_strides_; }

  [[noreturn]] void refuse(const std::string& reason, RefusalKind kind = RefusalKind::other);
  // Notes a reason and throws nothing, for callers that must not throw.
  void note_refusal(const std::string& reason, RefusalKind kind = RefusalKind::other);
  const std::string& reason() const { return reason_; }
  RefusalKind refusal_kind() const { return refusal_kind_; }
  const std::vector<Guard>& guards() const { return guards_; }
  // Notes that the program runs with gradients, which recorded tensors do not have.
  void note_gradients() { with_gradients_ = true; }
  bool with_gradients() const { return with_gradients_; }
  // Refuses a program whose loop runs `count` times. If the user only named the size, notes the
  // equation by which another recording may unroll the loop.
  [[noreturn]] void refuse_loop(const Dim& count, const std::string& reason);
  // Notes that a loop has so many steps, which a guard fixes or which are counted.
  void note_loop_steps(const Dim& steps);
  const std::vector<std::string>& loop_steps() const { return loop_steps_; }
  // Returns the symbols of the number that a refused loop needs.
  const std::vector<std::string>& loop_symbols() const { return loop_symbols_; }
  // Returns the equation that caused the refusal; nullopt if there is none. Another recording, in
  // which `value` replaces the symbol, satisfies it.
  const std::optional<Equation>& equation() const { return equation_; }

 private:
  void note_equation(const Dim& difference);
  bool choose(const NumberPtr& condition, const std::string& text);
  // Returns true if a number depends on one that the program read from a tensor.
  bool is_read(const Number& number) const;
  // Notes that the program itself asks for the equation that decide() refused, at a source line.
  void note_branch(const std::string& source);
  // Notes the equation that makes a size static: the first of `inputs` that the user left to the
  // capture. Keeps an earlier equation.
  void note_fixed(const std::set<std::string>& inputs);
  // Does the same for the inputs of an expression. Does nothing if it depends on data.
  template <class Expression>
  void note_fixed_by(const Expression& expression) {
    std::set<std::string> inputs;
    if (add_inputs(expression, inputs)) note_fixed(inputs);
  }
  std::optional<Dim> solved(const Dim& difference, const Dim::Term& term) const;
  Dim resolved(const Dim::Factor& factor);
  std::string text(const Dim& dim) const;
  bool is_one_sided(const Dim& difference) const;
  bool add_inputs(const Dim& dim, std::set<std::string>& inputs) const;
  bool add_inputs(const Number& number, std::set<std::string>& inputs) const;
  std::optional<int64_t> value_where(std::string_view name, const InputSizes& sizes) const;
  std::optional<bool> proven(const Dim& difference, Relation relation, int64_t least,
                             std::span<const Guard> guards) const;
  // Returns true if a condition holds at another value of a symbol than the example's. Tries small
  // changes, which reach the next multiple of the numbers that programs divide sizes by.
  static bool holds_nearby(const Symbol& symbol, const std::function<bool(int64_t)>& condition);
  void note_guard(Guard guard);
  void tell(const Dim& difference, Relation relation, bool holds, bool is_of_empty = false);
  void note_requirement(const std::string& text);
  void check_narrowing();

  std::map<std::string, Symbol> symbols_;
  std::map<std::string, Dim> defined_;  // by the text of the computation
  int64_t stand_ins_ = 0;
  bool uses_small_stand_ins_ = false;
  bool has_assumptions_ = false;
  bool follows_equations_ = false;
  std::function<std::string()> line_;
  std::function<bool()> is_in_program_;
  std::shared_ptr<const int> token_ = std::make_shared<const int>();
  bool with_gradients_ = false;
  int64_t uses_before_ = uses_outside();
  std::vector<Guard> guards_;
  OnDecision on_decision_;
  int calls_ = 0;  // the number of InCall
  bool lost_count_ = false;
  std::optional<Equation> equation_;
  std::vector<std::string> loop_symbols_;
  std::vector<std::string> loop_steps_;
  std::map<std::string, Dim> identities_;
  std::set<std::string> read_;  // symbols of numbers that the program read from tensors
  RunTrace runs_;
  std::optional<std::vector<bool>> choices_;
  bool probes_ = false;
  std::map<std::shared_ptr<const void>, bool> chosen_;  // by the condition, which stays alive
  std::map<std::string, NumberPtr> conditions_;  // on integers that depend on data, by the text
  std::map<std::string, NumberPtr> asserted_;    // by the text of the difference
  NumberPtr undecided_;
  std::string reason_;
  RefusalKind refusal_kind_ = RefusalKind::other;
  bool number_read_ = false;
  bool has_symbolic_ = false;
  bool recognizes_numbers_ = false;
  bool guesses_strides_ = false;
};

// The decisions of the recording that is active on this thread; nullptr outside.
Decisions* active_decisions();
void set_active_decisions(Decisions* decisions);

}  // namespace onnx_native::capture
