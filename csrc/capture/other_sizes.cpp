// Answers how a program decides its guards at other sizes than the example's.

#include <algorithm>
#include <iterator>
#include <set>

#include "capture/decisions.h"

namespace onnx_native::capture {
namespace {

// Returns values that a symbol might have in place of the example's. Larger ones come first: small
// sizes are special more often. The smallest comes last: 1 hides how sizes broadcast.
std::vector<int64_t> candidates(const Symbol& symbol, const std::vector<int64_t>& bounds) {
  constexpr int64_t kNear = 64;
  const int64_t lowest = symbol.lowest().value_or(symbol.example - kNear);
  std::vector<int64_t> values;
  for (int64_t step = 1; step <= kNear; ++step) values.push_back(symbol.example + step);
  for (const int64_t bound : bounds)
    for (int64_t step = -1; step <= 4; ++step) values.push_back(bound + step);
  for (int64_t factor = 2; factor <= 64; factor *= 2) values.push_back(symbol.example * factor + 1);
  for (int64_t step = 1; step <= kNear; ++step) values.push_back(symbol.example - step);
  values.push_back(lowest);
  std::erase_if(values, [&](int64_t value) {
    return value < lowest || (symbol.range.high && value > *symbol.range.high) ||
           value == symbol.example;
  });
  std::stable_partition(values.begin(), values.end(),
                        [&](int64_t value) { return value > lowest; });
  return values;
}

// Returns multiples and parts of the example's size, and sizes next to it.
std::vector<int64_t> few(const Symbol& symbol) {
  const int64_t size = symbol.example;
  std::vector<int64_t> values;
  for (int64_t factor = 2; factor <= 8; factor *= 2) {
    values.push_back(size * factor);
    if (size % factor == 0) values.push_back(size / factor);
  }
  for (int64_t step = 1; step <= 8; ++step) {
    values.push_back(size + step);
    values.push_back(size - step);
  }
  std::erase_if(values, [&](int64_t value) {
    return value < symbol.lowest().value_or(value) || value > symbol.range.high.value_or(value);
  });
  return values;
}

}  // namespace

std::optional<Decisions::OtherSizes> Decisions::sizes_against(size_t index) const {
  const Guard& guard = guards_.at(index);
  // Returns the symbols of a guard; none if it depends on data.
  const auto symbols_of = [this](const Guard& each) {
    std::set<std::string> names;
    const bool is_known =
        each.condition ? add_inputs(*each.condition, names) : add_inputs(each.difference, names);
    return is_known ? names : std::set<std::string>();
  };
  const std::set<std::string> names = symbols_of(guard);
  if (names.empty()) return std::nullopt;
  const auto is_found = [&](const InputSizes& sizes, bool keeps_later) {
    if (holds(index, sizes)) return false;
    for (size_t i = 0; i < guards_.size(); ++i) {
      if (i == index || (i > index && !keeps_later)) continue;
      if (!holds(i, sizes)) return false;
    }
    return true;
  };
  // Where the sign of a linear condition changes: n - 512 is 0 for n = 512.
  const auto bounds_of = [&](const std::string& name) {
    std::vector<int64_t> bounds;
    if (guard.condition) return bounds;
    const Symbol& symbol = symbols_.at(name);
    const auto at = [&](int64_t value) { return value_at(guard.difference, {{name, value}}); };
    const auto here = at(symbol.example), there = at(symbol.example + 1);
    if (here && there && *here != *there)
      bounds.push_back(symbol.example - *here / (*there - *here));
    return bounds;
  };
  std::vector<InputSizes> tried;
  for (const std::string& name : names) {
    for (const int64_t value : candidates(symbols_.at(name), bounds_of(name)))
      tried.push_back({{name, value}});
  }
  if (names.size() > 1) {  // all of them at once
    for (const std::string& first : names) {
      for (const int64_t value : candidates(symbols_.at(first), bounds_of(first))) {
        InputSizes sizes;
        for (const std::string& name : names)
          sizes[name] = symbols_.at(name).example + value - symbols_.at(first).example;
        if (std::ranges::all_of(sizes, [&](const auto& each) {
              return each.second >= symbols_.at(each.first).lowest().value_or(each.second);
            }))
          tried.push_back(std::move(sizes));
      }
    }
  }
  // Two of them, in opposite directions: the product of both may be what the program compares.
  for (auto first = names.begin(); first != names.end(); ++first) {
    for (auto second = std::next(first); second != names.end(); ++second) {
      for (const int64_t a : few(symbols_.at(*first)))
        for (const int64_t b : few(symbols_.at(*second)))
          tried.push_back({{*first, a}, {*second, b}});
    }
  }
  // A size that another input has is special too.
  const auto is_alone = [&](const InputSizes& sizes) {
    return std::ranges::none_of(sizes, [&](const auto& size) {
      return std::ranges::any_of(symbols_, [&](const auto& other) {
        return other.first != size.first && other.second.is_of_input() &&
               value_where(other.first, sizes) == size.second;
      });
    });
  };
  for (const bool keeps_later : {true, false}) {
    for (const bool alone : {true, false}) {
      const auto found = std::ranges::find_if(tried, [&](const InputSizes& sizes) {
        return is_alone(sizes) == alone && is_found(sizes, keeps_later);
      });
      if (found == tried.end()) continue;
      OtherSizes others{*found, {}};
      if (names.size() > 1) return others;  // they may vary together
      const std::string& name = *names.begin();
      Symbol symbol = symbols_.at(name);
      symbol.example = found->at(name);
      const bool varies = holds_nearby(symbol, [&](int64_t value) {
        const InputSizes near{{name, value}};
        if (holds(index, near)) return false;
        for (size_t i = 0; i < index; ++i) {
          if (symbols_of(guards_[i]) == names && !holds(i, near)) return false;
        }
        return true;
      });
      if (!varies) others.fixed.push_back(name);
      return others;
    }
  }
  return std::nullopt;
}

bool Decisions::allows(const InputSizes& sizes) const {
  const SymbolValue value_of = [&](std::string_view name) { return value_where(name, sizes); };
  return std::ranges::all_of(guards_, [&](const Guard& guard) { return guard.allows(value_of); });
}

bool Decisions::holds(size_t i, const InputSizes& sizes) const {
  return guards_.at(i).allows([&](std::string_view name) { return value_where(name, sizes); });
}

bool Decisions::fix(const std::string& name, const std::vector<size_t>& guards) const {
  return !holds_nearby(symbols_.at(name), [&](int64_t value) {
    return std::ranges::all_of(guards, [&](size_t i) { return holds(i, {{name, value}}); });
  });
}

}  // namespace onnx_native::capture
