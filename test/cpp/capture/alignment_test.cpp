#include "capture/alignment.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace onnx_native::capture {
namespace {

using Sequence = std::vector<size_t>;

// Returns how many elements are in both sequences. Fails unless the steps go through both.
size_t shared(const Sequence& first, const Sequence& second, size_t most = 1000) {
  size_t i = 0, j = 0, both = 0;
  for (const AlignedStep& step : align(first, second, most)) {
    EXPECT_TRUE(step.first || step.second);
    if (step.first) {
      EXPECT_EQ(*step.first, i++);
    }
    if (step.second) {
      EXPECT_EQ(*step.second, j++);
    }
    if (!step.first || !step.second) continue;
    EXPECT_EQ(first[*step.first], second[*step.second]);
    ++both;
  }
  EXPECT_EQ(i, first.size());
  EXPECT_EQ(j, second.size());
  return both;
}

// Returns the length of the longest common subsequence, by its definition.
size_t longest(const Sequence& first, const Sequence& second) {
  std::vector<Sequence> lengths(first.size() + 1, Sequence(second.size() + 1, 0));
  for (size_t i = 0; i < first.size(); ++i)
    for (size_t j = 0; j < second.size(); ++j)
      lengths[i + 1][j + 1] = first[i] == second[j]
                                  ? lengths[i][j] + 1
                                  : std::max(lengths[i][j + 1], lengths[i + 1][j]);
  return lengths.back().back();
}

TEST(Alignment, KeepsWhatIsEqual) {
  EXPECT_EQ(shared({}, {}), 0U);
  EXPECT_EQ(shared({1, 2}, {}), 0U);
  EXPECT_EQ(shared({}, {1}), 0U);
  EXPECT_EQ(shared({1, 2, 3}, {1, 2, 3}), 3U);
  EXPECT_EQ(shared({1, 2, 3, 4}, {1, 3, 4}), 3U);
  EXPECT_EQ(shared({1, 2, 3}, {4, 5, 6}), 0U);
  EXPECT_EQ(shared({1, 2, 3, 1, 2, 2, 1}, {3, 2, 1, 2, 1, 3}), 4U);
}

TEST(Alignment, IsTheLongestOne) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const auto sequence = [&] {
      Sequence result(random() % 30);
      for (size_t& each : result) each = random() % 4;
      return result;
    };
    const Sequence first = sequence(), second = sequence();
    ASSERT_EQ(shared(first, second), longest(first, second));
  }
}

TEST(Alignment, OfTooManyDifferencesIsThatOfTheEnds) {
  EXPECT_EQ(shared({1, 2, 5, 6, 7, 3}, {1, 5, 8, 7, 3}, 1), 3U);
}

}  // namespace
}  // namespace onnx_native::capture
