#include "base/name_patterns.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace onnx_native {
namespace {

constexpr size_t kMostSimilar = 3;

bool is_glob_of(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, after = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++after;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

// Returns the number of characters to insert, remove or replace.
size_t distance(std::string_view from, std::string_view to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < from.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < to.size(); ++j) {
      const size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::string similar_names(std::string_view text, const std::set<std::string>& names) {
  std::vector<std::pair<size_t, std::string_view>> ranked;
  for (const std::string& name : names) {
    if (name.empty()) continue;
    // A part of a name is like it: "head" and "lm_head".
    const bool is_part = name.find(text) != std::string::npos;
    ranked.emplace_back(is_part ? 0 : distance(text, name), name);
  }
  std::ranges::sort(ranked);
  std::string list;
  for (size_t i = 0; i < std::min(ranked.size(), kMostSimilar); ++i)
    list += (i == 0 ? "" : ", ") + std::string(ranked[i].second);
  return list;
}

}  // namespace

bool matches_name(std::string_view pattern, std::string_view name) {
  for (size_t end = name.size(); end != std::string_view::npos && end > 0;
       end = name.rfind('.', end - 1)) {
    if (is_glob_of(pattern, name.substr(0, end))) return true;
  }
  return false;
}

void check_patterns(std::string_view what, const std::vector<std::string>& patterns,
                    const std::set<std::string>& names) {
  for (const std::string& pattern : patterns) {
    const bool is_known = std::ranges::any_of(
        names, [&](const std::string& name) { return matches_name(pattern, name); });
    if (is_known) continue;
    const std::string similar = similar_names(pattern, names);
    fail(ErrorKind::invalid_argument, what, " names ", pattern,
         ", but the program runs no module and has no weight of this name",
         similar.empty() ? "" : "; names like it are ", similar);
  }
}

}  // namespace onnx_native
