#include "base/weight_names.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.h"

namespace onnx_native {
namespace {

constexpr std::string_view kMatrixSuffix = ".T";
constexpr std::string_view kStackSuffix = ".mT";
constexpr std::string_view kNextWeight = "]+";

using IsWeight = std::function<bool(std::string_view)>;

std::string text_of(const RowRange& rows) {
  return rows.end ? concat(rows.start, ":", *rows.end) : concat(rows.start);
}

std::optional<int64_t> to_integer(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || value < 0) return std::nullopt;
  return value;
}

// Splits a text at the first separator; the second part is absent without one.
std::pair<std::string_view, std::optional<std::string_view>> split(std::string_view text,
                                                                   std::string_view separator) {
  const size_t at = text.find(separator);
  if (at == std::string_view::npos) return {text, std::nullopt};
  return {text.substr(0, at), text.substr(at + separator.size())};
}

// Reads "0:2,4:6" or "3".
std::optional<std::vector<RowRange>> to_ranges(std::string_view text) {
  std::vector<RowRange> ranges;
  for (std::optional rest = std::optional(text); rest;) {
    const auto [range, others] = split(*rest, ",");
    const auto [first, last] = split(range, ":");
    const auto start = to_integer(first);
    const auto end = last ? to_integer(*last) : std::nullopt;
    if (!start || (last && !end)) return std::nullopt;
    ranges.push_back({*start, end});
    rest = others;
  }
  return ranges;
}

// Appends what "w", "w[3]", "w[3][0:2]" or "w[0:2,4:6]" stands for. Returns false for other texts.
bool add_parts(std::string_view text, const IsWeight& is_weight, std::vector<WeightPart>& parts) {
  std::vector<RowRange> last{};  // the ranges of the last brackets
  std::vector<RowRange> before;  // those of the others, from the last to the first
  for (bool is_last = true; !is_weight(text); is_last = false) {
    const size_t open = text.rfind('[');
    if (open == std::string_view::npos || !text.ends_with(']')) return false;
    auto ranges = to_ranges(text.substr(open + 1, text.size() - open - 2));
    if (!ranges || (!is_last && ranges->size() != 1)) return false;
    if (is_last) {
      last = std::move(*ranges);
    } else {
      before.push_back(ranges->front());
    }
    text = text.substr(0, open);
  }
  WeightPart part{std::string(text), {before.rbegin(), before.rend()}};
  if (last.empty()) parts.push_back(part);
  for (const RowRange& rows : last) {
    parts.push_back(part);
    parts.back().rows.push_back(rows);
  }
  return true;
}

bool is_joined(const StoredWeight& stored) {
  return !stored.is_transposed && std::ranges::all_of(stored.parts, [](const WeightPart& part) {
    return !part.rows.empty() && part.rows.back().end;
  });
}

}  // namespace

std::string transposed_name(const std::string& weight, int64_t rank) {
  return weight.empty() ? "" : concat(weight, rank == 2 ? kMatrixSuffix : kStackSuffix);
}

std::string part_name(const std::string& weight, const RowRange& rows) {
  return weight.empty() ? "" : concat(weight, "[", text_of(rows), "]");
}

std::string joined_name(std::span<const WeightPart> parts) {
  std::string name;
  std::string_view weight;
  for (const WeightPart& part : parts) {
    if (part.weight.empty()) return "";
    if (part.weight == weight) {
      name += ",";
    } else {
      name += concat(name.empty() ? "" : kNextWeight, part.weight, "[");
    }
    weight = part.weight;
    name += text_of(part.rows.front());
  }
  return name + "]";
}

StoredWeight weight_layout(std::string_view name, const IsWeight& is_weight) {
  const StoredWeight whole{.parts = {{std::string(name), {}}}};
  if (is_weight(name)) return whole;
  StoredWeight stored;
  std::string_view text = name;
  for (const std::string_view suffix : {kMatrixSuffix, kStackSuffix}) {
    if (!text.ends_with(suffix)) continue;
    text.remove_suffix(suffix.size());
    stored.is_transposed = true;
    break;
  }
  for (std::optional rest = std::optional(text); rest;) {
    const auto [first, others] = split(*rest, kNextWeight);
    const std::string_view part = rest->substr(0, first.size() + (others ? 1 : 0));  // with "]"
    if (!add_parts(part, is_weight, stored.parts)) return whole;
    rest = others;
  }
  return stored.parts.size() == 1 || is_joined(stored) ? stored : whole;
}

}  // namespace onnx_native
