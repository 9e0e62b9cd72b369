#include "plugin/py_sizes.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "capture/math_function.h"
#include "capture/symbolic_size.h"

namespace onnx_native::plugin {

Dim PySizes::parse(const std::string& text) const {
  if (decisions().has_symbol(text)) return decisions().symbol(text);
  const auto dim = parse_dim(text, [&](std::string_view name) -> std::optional<Dim> {
    if (!decisions().has_symbol(std::string(name))) return std::nullopt;
    return decisions().symbol(std::string(name));
  });
  if (!dim) fail(ErrorKind::invalid_argument, text, " is not a size");
  return *dim;
}

c10::SymInt PySizes::add(int64_t low, std::optional<int64_t> high) {
  return recording_.new_size(low, high);
}

std::optional<int64_t> PySizes::example(const c10::SymInt& size) {
  return decisions().example(capture::to_dim(size, decisions()));
}

std::optional<int64_t> PySizes::evaluate(const std::string& expression,
                                         const std::map<std::string, int64_t>& sizes) const {
  return decisions().value_at(parse(expression), sizes);
}

bool PySizes::allows(const std::map<std::string, int64_t>& sizes) const {
  return decisions().allows(sizes);
}

const std::vector<capture::Guard>& PySizes::guards() const { return decisions().guards(); }

const std::optional<capture::Equation>& PySizes::equation() const { return decisions().equation(); }

void PySizes::follow_equations() { decisions().follow_equations(); }

std::optional<std::pair<std::map<std::string, int64_t>, std::vector<std::string>>>
PySizes::sizes_against(size_t guard) const {
  const auto found = decisions().sizes_against(guard);
  return found ? std::optional(std::pair(found->sizes, found->fixed)) : std::nullopt;
}

bool PySizes::fix(const std::string& symbol, const std::vector<size_t>& guards) const {
  return decisions().fix(symbol, guards);
}

bool PySizes::holds(size_t guard, const std::map<std::string, int64_t>& sizes) const {
  return decisions().holds(guard, sizes);
}

bool PySizes::implies(size_t guard, bool holds, const PySizes& other, size_t implied) const {
  const capture::Guard& known = other.guards().at(implied);
  if (known.condition) return false;
  return decisions().proven_given(guard, holds, known.difference, known.relation) == known.holds;
}

bool PySizes::is_guarded_to_be(const c10::SymInt& size, int64_t number) {
  const Dim dim = capture::to_dim(size, decisions());
  const Dim difference = dim - Dim(number);
  if (!difference.is_constant() && !decisions().is_flexible(difference)) return false;
  decisions().note_loop_steps(dim);
  return decisions().decide(difference, capture::Relation::equal,
                            concat(dim.str(), " == ", number));
}

std::optional<int64_t> PySizes::count(const c10::SymInt& size) {
  const Dim dim = capture::to_dim(size, decisions());
  const std::optional<int64_t> number = decisions().counted(dim);
  if (number) decisions().note_loop_steps(dim);
  return number ? std::optional(decisions().count(dim, *number)) : std::nullopt;
}

void PySizes::note_comparison(int64_t number, capture::Relation relation, bool holds) {
  decisions().tell(number, relation, holds);
}

void PySizes::note_use(int64_t number) {
  if (decisions().counts()) recording_.record_decision({.rest = "used", .number = number});
}

bool PySizes::counts() const { return decisions().counts(); }

bool PySizes::lost_count() const { return decisions().lost_count(); }

const std::vector<std::string>& PySizes::loop_steps() const { return decisions().loop_steps(); }

const std::vector<std::string>& PySizes::loop_symbols() const { return decisions().loop_symbols(); }

bool PySizes::repeat(const std::string& rest, const c10::SymInt& number, capture::Relation relation,
                     bool holds, bool is_of_empty) {
  return decisions().repeat(parse(rest) + capture::to_dim(number, decisions()), relation, holds,
                            is_of_empty);
}

std::optional<bool> PySizes::proven_from(const std::string& steps, int64_t least,
                                         const std::string& rest, const c10::SymInt& number,
                                         capture::Relation relation) {
  // No guard knows the new symbol.
  const Dim count = parse(steps), from = Dim::fresh(DimRange::size()) + Dim(least);
  const Dim difference = parse(rest) + capture::to_dim(number, decisions());
  const auto is_without = [&](const Dim& dim) {
    const std::vector<std::string> names = dim.symbols(), counted = count.symbols();
    return std::ranges::none_of(names, [&](const std::string& name) {
      return std::ranges::find(counted, name) != counted.end();
    });
  };
  constexpr int64_t kMost = 4;  // how often the number of steps is in a difference
  for (int64_t times = -kMost; times <= kMost; ++times) {
    const Dim others = difference - Dim(times) * count;
    if (is_without(others)) return decisions().proven(others + Dim(times) * from, relation);
  }
  if (!count.is_symbol()) return std::nullopt;
  return decisions().proven(difference.substitute([&](std::string_view name) {
    return name == steps ? std::optional(from) : std::nullopt;
  }),
                            relation);
}

c10::SymNode PySizes::math_function(const std::string& name, const c10::SymNode& number) {
  return capture::math_function(name, number, decisions());
}

c10::SymNode PySizes::choice(const c10::SymNode& condition, const c10::SymNode& yes,
                             const c10::SymNode& no) {
  std::vector<capture::NumberPtr> operands;
  for (const c10::SymNode& node : {condition, yes, no}) operands.push_back(number(node));
  return capture::to_sym_float(capture::make_call("python::sym_ite", std::move(operands)),
                               decisions())
      .toSymNodeImpl();
}

bool PySizes::depends_on_data(const c10::SymNode& node) {
  return !decisions().example(*number(node));
}

bool PySizes::has_data() const { return decisions().has_data(); }

bool PySizes::has_symbolic() const { return decisions().has_symbolic(); }

capture::NumberPtr PySizes::number(const c10::SymNode& node) {
  return capture::to_number(recording_.host().unwrapped(node), decisions());
}

void bind_sizes(py::module_& module) {
  py::enum_<capture::Relation>(module, "Relation", "How a number compares with 0.")
      .value("EQUAL", capture::Relation::equal)
      .value("LESS", capture::Relation::less)
      .value("LESS_EQUAL", capture::Relation::less_equal);
  py::class_<PySizes>(module, "Sizes", "The sizes and numbers of a recording.")
      .def("add", &PySizes::add, py::arg("low"), py::arg("high"))
      .def("example", &PySizes::example, py::arg("size"))
      .def("evaluate", &PySizes::evaluate, py::arg("expression"), py::arg("sizes"))
      .def("allows", &PySizes::allows, py::arg("sizes"))
      .def("guards", &PySizes::guards)
      .def("equation", &PySizes::equation)
      .def("follow_equations", &PySizes::follow_equations,
           "Notes guards for equations that pin a size, in place of a refusal.")
      .def("sizes_against", &PySizes::sizes_against, py::arg("guard"),
           "Returns sizes for which the program decides a guard otherwise; None if none are found.")
      .def("fix", &PySizes::fix, py::arg("symbol"), py::arg("guards"),
           "Whether these guards leave only one value for a symbol.")
      .def("holds", &PySizes::holds, py::arg("guard"), py::arg("sizes"),
           "Whether the program decides a guard as in the recording.")
      .def("implies", &PySizes::implies, py::arg("guard"), py::arg("holds"), py::arg("other"),
           py::arg("implied"),
           "Whether a guard of another recording holds wherever this one does, or does not.")
      .def("is_guarded_to_be", &PySizes::is_guarded_to_be, py::arg("size"), py::arg("number"))
      .def("count", &PySizes::count, py::arg("size"))
      .def("note_comparison", &PySizes::note_comparison, py::arg("number"), py::arg("relation"),
           py::arg("holds"))
      .def("counts", &PySizes::counts)
      .def("note_use", &PySizes::note_use, py::arg("number"))
      .def("lost_count", &PySizes::lost_count)
      .def("loop_symbols", &PySizes::loop_symbols)
      .def("loop_steps", &PySizes::loop_steps)
      .def("repeat", &PySizes::repeat, py::arg("rest"), py::arg("number"), py::arg("relation"),
           py::arg("holds"), py::arg("is_of_empty") = false)
      .def("proven_from", &PySizes::proven_from, py::arg("steps"), py::arg("least"),
           py::arg("rest"), py::arg("number"), py::arg("relation"))
      .def("math_function", &PySizes::math_function, py::arg("name"), py::arg("number"))
      .def("choice", &PySizes::choice, py::arg("condition"), py::arg("yes"), py::arg("no"))
      .def("depends_on_data", &PySizes::depends_on_data, py::arg("number"))
      .def("has_data", &PySizes::has_data)
      .def("has_symbolic", &PySizes::has_symbolic);
}

}  // namespace onnx_native::plugin
