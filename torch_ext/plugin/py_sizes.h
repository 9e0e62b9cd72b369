// The sizes and numbers of a native capture, for Python: see onnx_native.numbers.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/dim.h"
#include "capture/recording.h"

namespace onnx_native::plugin {

class PySizes {
 public:
  explicit PySizes(capture::Recording& recording) : recording_(recording) {}

  // Parses a symbol or an expression over symbols. Throws ExportError(invalid_argument) for any
  // other text.
  Dim parse(const std::string& text) const;

  // Returns a data-dependent size of `low` to `high`.
  c10::SymInt add(int64_t low, std::optional<int64_t> high);
  // Returns the value of a size in the example; nullopt if the size is data-dependent.
  std::optional<int64_t> example(const c10::SymInt& size);
  // Evaluates an expression, as parse() takes it, for these values of its symbols.
  std::optional<int64_t> evaluate(const std::string& expression,
                                  const std::map<std::string, int64_t>& sizes) const;
  // Returns true if the recording is valid for these values of its symbols.
  bool allows(const std::map<std::string, int64_t>& sizes) const;
  const std::vector<capture::Guard>& guards() const;
  const std::optional<capture::Equation>& equation() const;
  // See capture::Decisions.
  void follow_equations();
  // Returns the sizes and the symbols that are fixed.
  std::optional<std::pair<std::map<std::string, int64_t>, std::vector<std::string>>> sizes_against(
      size_t guard) const;
  bool fix(const std::string& symbol, const std::vector<size_t>& guards) const;
  // Returns true if the program decides a guard as in the recording, for these values of symbols.
  bool holds(size_t guard, const std::map<std::string, int64_t>& sizes) const;
  // Returns true if it is proven that a guard of another recording of the program holds wherever
  // `guard` is as in this one if `holds`, or is not.
  bool implies(size_t guard, bool holds, const PySizes& other, size_t implied) const;
  // Returns true if `size` equals `number`, and guards this if `size` is symbolic. Returns false
  // without a guard if the guard would fix a symbol to one value.
  bool is_guarded_to_be(const c10::SymInt& size, int64_t number);

  // Returns the number of a counted size; nullopt for other sizes. See capture::Symbol.
  std::optional<int64_t> count(const c10::SymInt& size);
  // Notes that a program with a counted size decided on its own numbers: `number` <relation> 0.
  void note_comparison(int64_t number, capture::Relation relation, bool holds);
  // Notes that a program with a counted size uses one of its own numbers in an unknown way: the
  // number must be the same in all recordings.
  void note_use(int64_t number);
  // Returns true if a size is counted.
  bool counts() const;
  // Returns true if the program took the number of a counted size in an unknown way.
  bool lost_count() const;
  // Returns the symbols of the number that a refused loop needs.
  const std::vector<std::string>& loop_symbols() const;
  // Returns how many steps loops have whose steps a guard fixes, or which are counted.
  const std::vector<std::string>& loop_steps() const;
  // Decides rest + number <relation> 0, as another recording did. Returns false if its truth is
  // another one here.
  bool repeat(const std::string& rest, const c10::SymInt& number, capture::Relation relation,
              bool holds, bool is_of_empty);
  // Returns the truth of rest + number <relation> 0 if it is the same for all sizes with which
  // `steps`, an expression of them, is at least `least`; nullopt if it is not, or if that is not
  // proven.
  std::optional<bool> proven_from(const std::string& steps, int64_t least, const std::string& rest,
                                  const c10::SymInt& number, capture::Relation relation);

  // Applies the function `name` to a number; see capture/math_function.h.
  c10::SymNode math_function(const std::string& name, const c10::SymNode& number);
  // Returns the float `yes` if the condition is true at run time, else `no`.
  c10::SymNode choice(const c10::SymNode& condition, const c10::SymNode& yes,
                      const c10::SymNode& no);
  bool depends_on_data(const c10::SymNode& number);
  // Returns true if the program reads data-dependent numbers.
  bool has_data() const;
  // Returns true if the program has symbolic numbers.
  bool has_symbolic() const;

 private:
  capture::Decisions& decisions() const { return recording_.decisions(); }
  capture::NumberPtr number(const c10::SymNode& node);

  capture::Recording& recording_;
};

void bind_sizes(py::module_& module);

}  // namespace onnx_native::plugin
