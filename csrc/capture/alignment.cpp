#include "capture/alignment.h"

#include <algorithm>
#include <cstdint>

namespace onnx_native::capture {
namespace {

using Furthest = std::vector<int64_t>;  // on each diagonal: the position in the first sequence

// Returns, for each number of differences, how far the diagonals reach; empty if there are too many
// differences.
std::vector<Furthest> search(std::span<const size_t> a, std::span<const size_t> b, int64_t most) {
  const auto n = static_cast<int64_t>(a.size());
  const auto m = static_cast<int64_t>(b.size());
  std::vector<Furthest> rounds;
  Furthest now(3, 0);  // diagonals -d to d are at index + d + 1
  for (int64_t d = 0; d <= std::min(most, n + m); ++d) {
    Furthest next(static_cast<size_t>(2 * d + 3), 0);
    for (int64_t k = -d; k <= d; k += 2) {
      const auto before = [&](int64_t diagonal) {  // of d - 1
        return now[static_cast<size_t>(diagonal + d)];
      };
      int64_t x = 0;
      if (d > 0)
        x = k == -d || (k != d && before(k - 1) < before(k + 1)) ? before(k + 1)
                                                                 : before(k - 1) + 1;
      while (x < n && x - k < m && a[static_cast<size_t>(x)] == b[static_cast<size_t>(x - k)]) ++x;
      next[static_cast<size_t>(k + d + 1)] = x;
      if (x < n || x - k < m) continue;
      rounds.push_back(std::move(next));
      return rounds;
    }
    rounds.push_back(next);
    now = std::move(next);
  }
  return {};
}

}  // namespace

std::vector<AlignedStep> align(std::span<const size_t> first, std::span<const size_t> second,
                               size_t most) {
  std::vector<AlignedStep> steps;
  const auto start = static_cast<size_t>(std::ranges::mismatch(first, second).in1 - first.begin());
  for (size_t i = 0; i < start; ++i) steps.push_back({i, i});
  size_t end = 0;
  while (end < std::min(first.size(), second.size()) - start &&
         first[first.size() - 1 - end] == second[second.size() - 1 - end])
    ++end;
  const std::span<const size_t> a = first.subspan(start, first.size() - start - end);
  const std::span<const size_t> b = second.subspan(start, second.size() - start - end);
  const std::vector<Furthest> rounds = search(a, b, static_cast<int64_t>(most));
  std::vector<AlignedStep> middle;  // backwards
  auto x = static_cast<int64_t>(a.size());
  auto y = static_cast<int64_t>(b.size());
  const auto both = [&] {
    --x, --y;
    middle.push_back({start + static_cast<size_t>(x), start + static_cast<size_t>(y)});
  };
  const auto one = [&](bool is_first) {
    if (is_first)
      middle.push_back({start + static_cast<size_t>(--x), std::nullopt});
    else
      middle.push_back({std::nullopt, start + static_cast<size_t>(--y)});
  };
  for (auto d = static_cast<int64_t>(rounds.size()) - 1; d > 0; --d) {
    const Furthest& before = rounds[static_cast<size_t>(d - 1)];
    const auto reached = [&](int64_t diagonal) {
      return before[static_cast<size_t>(diagonal + d)];
    };
    const int64_t k = x - y;
    const bool is_second = k == -d || (k != d && reached(k - 1) < reached(k + 1));
    const int64_t from = is_second ? reached(k + 1) : reached(k - 1) + 1;
    while (x > from) both();
    one(!is_second);
  }
  while (!rounds.empty() && x > 0) both();
  while (y > 0) one(false);
  while (x > 0) one(true);
  steps.insert(steps.end(), middle.rbegin(), middle.rend());
  for (size_t i = end; i > 0; --i) steps.push_back({first.size() - i, second.size() - i});
  return steps;
}

}  // namespace onnx_native::capture
