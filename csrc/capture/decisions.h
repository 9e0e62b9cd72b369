// The decisions that a recording makes about sizes, with their guards.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/dim.h"

namespace onnx_native::capture {

enum class Relation { equal, less, less_equal };
// Compares a difference with 0.
bool is_true(int64_t difference, Relation relation);

// A condition on sizes that the program decided by the example: `difference` is less than 0, for
// example, or is not.
struct Guard {
  Dim difference;
  Relation relation;
  bool holds;
  std::string text;    // "n <= 512"
  std::string source;  // user's source line
};

// A symbol of a recording: its size in the example, and the range that the user declared.
struct Symbol {
  // Declared as a Dim, only named, or left to the capture to find.
  enum class Origin { declared, named, inferred };
  int64_t example = 0;
  DimRange range;
  Origin origin = Origin::declared;
};

// An equation that the program demands: the size `symbol` is `value`.
struct Equation {
  std::string symbol;
  Dim value;
};

// Decides conditions on symbolic sizes by the example and records a guard for each decision that
// the ranges of the symbols do not prove. A recording that must not continue is refused: the first
// reason is kept, because the program may catch the exception.
class Decisions {
 public:
  explicit Decisions(std::map<std::string, Symbol> symbols, std::function<std::string()> line)
      : symbols_(std::move(symbols)), line_(std::move(line)) {}
  Decisions(const Decisions&) = delete;
  Decisions& operator=(const Decisions&) = delete;

  // Every tensor and size of the recording holds the token, which tells recordings apart and counts
  // what is still alive.
  const std::shared_ptr<const int>& token() const { return token_; }

  // Returns the symbol of an input's size.
  Dim symbol(const std::string& name) const;
  bool has_symbol(const std::string& name) const { return symbols_.contains(name); }
  // Returns the size in the example; nullopt for a symbol that no input declares.
  std::optional<int64_t> example(const Dim& dim) const;
  // Decides a condition. Refuses the recording if it is an equation that the ranges do not prove,
  // because it pins a dynamic size. `text` prints the condition.
  bool decide(const Dim& difference, Relation relation, const std::string& text);
  // Returns the truth of a condition if the ranges of the symbols prove it.
  std::optional<bool> proven(const Dim& difference, Relation relation) const;
  // Returns the expression with minima and maxima decided, each with a guard: min(512, n) becomes
  // n.
  Dim resolved(const Dim& dim);
  // Returns a size as a number; refuses the recording if it is symbolic. `use` says what needs it.
  int64_t pinned(const Dim& dim, const std::string& use);
  // Refuses the recording if the guards leave only one value for a symbol.
  void check_narrowing();

  // The code of torch::nn reads sizes as numbers. It may if the recording recognizes them: the
  // example then has a different prime for each symbol, and a multiple of primes stands for the
  // same multiple of the symbols. Whoever chose the primes compares two recordings.
  void note_number_read() { number_read_ = true; }
  bool has_unrecognized_numbers() const { return number_read_ && !recognizes_numbers_; }
  void recognize_numbers() { recognizes_numbers_ = true; }
  bool recognizes_numbers() const { return recognizes_numbers_; }
  // Returns the symbolic size that a number stands for.
  std::optional<Dim> recognized(int64_t number) const;

  // The strides of results are guesses where PyTorch has no meta kernel.
  void guess_strides() { guesses_strides_ = true; }
  bool guesses_strides() const { return guesses_strides_; }

  [[noreturn]] void refuse(const std::string& reason);
  // Notes a reason without an exception, where none can be thrown.
  void note_refusal(const std::string& reason);
  const std::string& reason() const { return reason_; }
  const std::vector<Guard>& guards() const { return guards_; }
  // Returns an equation because of which the recording was refused. A recording in which the size
  // of the input is `value` instead of the symbol meets it.
  const std::optional<Equation>& equation() const { return equation_; }

 private:
  void note_equation(const Dim& difference);
  std::optional<Dim> solved(const Dim& difference, const Dim::Term& term) const;
  Dim resolved(const Dim::Factor& factor);
  bool satisfied(const std::string& symbol, int64_t value) const;

  std::map<std::string, Symbol> symbols_;
  std::function<std::string()> line_;
  std::shared_ptr<const int> token_ = std::make_shared<const int>();
  std::vector<Guard> guards_;
  std::optional<Equation> equation_;
  std::string reason_;
  bool number_read_ = false;
  bool recognizes_numbers_ = false;
  bool guesses_strides_ = false;
};

// The decisions of the recording that is active on this thread; nullptr outside.
Decisions* active_decisions();
void set_active_decisions(Decisions* decisions);

}  // namespace onnx_native::capture
