#include <algorithm>
#include <map>
#include <string>

#include "onnx/builder.h"
#include "ops/families.h"

namespace onnx_native::ops {
namespace {

// Subscripts of one operand with its ellipsis, as the positions of labels: letters are themselves,
// the dimensions under an ellipsis are kEllipsis + their distance from its end.
constexpr int kEllipsis = 256;
using Labels = std::vector<int>;

struct Term {
  Labels before, after;
  bool ellipsis = false;

  int64_t letters() const { return static_cast<int64_t>(before.size() + after.size()); }
  // All labels of an operand whose ellipsis stands for `covered` dimensions.
  Labels labels(int64_t covered) const {
    Labels all = before;
    for (int64_t i = covered; ellipsis && i-- > 0;) all.push_back(kEllipsis + static_cast<int>(i));
    all.insert(all.end(), after.begin(), after.end());
    return all;
  }
};

std::vector<Term> parse_terms(Builder& b, std::string_view text) {
  std::vector<Term> terms(1);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    Term& term = terms.back();
    if (c == ',') {
      terms.emplace_back();
    } else if (c == '.') {
      b.check(text.substr(i, 3) == "...", "a dot outside an ellipsis in the equation");
      term.ellipsis = true;
      i += 2;
    } else if (c != ' ') {
      (term.ellipsis ? term.after : term.before).push_back(static_cast<unsigned char>(c));
    }
  }
  return terms;
}

// The labels that an equation without an output has there: the ellipsis, then, sorted, the letters
// that occur once.
Labels implicit_output(const std::vector<Labels>& operands, int64_t covered) {
  std::map<int, int> counts;
  for (const Labels& labels : operands)
    for (int label : labels) ++counts[label];
  Labels output;
  for (int64_t i = covered; i-- > 0;) output.push_back(kEllipsis + static_cast<int>(i));
  for (const auto& [label, count] : counts)
    if (label < kEllipsis && count == 1) output.push_back(label);
  return output;
}

// An ellipsis stands for different numbers of dimensions in different operands, which ONNX Runtime
// does not take: its dimensions get letters of their own, and every label a lower-case letter.
Value einsum(Builder& b, std::string equation, Values tensors, Ignored) {
  const size_t arrow = equation.find("->");
  const std::vector<Term> terms = parse_terms(b, equation.substr(0, arrow));
  b.check(terms.size() == tensors.size(), "an equation for ", terms.size(), " operands with ",
          tensors.size());
  std::vector<Labels> operands;
  int64_t covered = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const int64_t here = tensors[i]->rank() - terms[i].letters();
    operands.push_back(terms[i].labels(here));
    if (terms[i].ellipsis) covered = std::max(covered, here);
  }
  const Labels output = arrow == std::string::npos
                            ? implicit_output(operands, covered)
                            : parse_terms(b, equation.substr(arrow + 2))[0].labels(covered);
  std::map<int, char> letters;
  const auto text = [&](const Labels& labels) {
    std::string result;
    for (int label : labels) {
      const auto at = letters.try_emplace(label, static_cast<char>('a' + letters.size())).first;
      result += at->second;
    }
    return result;
  };
  std::string normalized;
  for (const Labels& labels : operands)
    normalized += (normalized.empty() ? "" : ",") + text(labels);
  normalized += "->" + text(output);
  b.check(letters.size() <= 26, "more than 26 different subscripts");
  return b.op("Einsum", std::move(tensors), {{"equation", normalized}});
}

}  // namespace

void register_einsum(OpTable& ops) { ops.def("aten::einsum", einsum); }

}  // namespace onnx_native::ops
