#include "base/name_patterns.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace onnx_native {
namespace {

TEST(NamePatterns, MatchANameOrAModuleThatContainsIt) {
  EXPECT_TRUE(matches_name("encoder.fc.weight", "encoder.fc.weight"));
  EXPECT_TRUE(matches_name("encoder", "encoder.fc.weight"));
  EXPECT_TRUE(matches_name("*.fc", "encoder.fc.weight"));
  EXPECT_TRUE(matches_name("layers.?", "layers.1.fc"));
  EXPECT_FALSE(matches_name("layers.1", "layers.11.fc"));
  EXPECT_FALSE(matches_name("fc", "encoder.fc.weight"));
  EXPECT_FALSE(matches_name("encoder.*.bias", "encoder.fc.weight"));
  EXPECT_FALSE(matches_name("encoder", ""));
}

TEST(NamePatterns, AnUnknownNameIsAnErrorWithNamesLikeIt) {
  check_patterns("a list", {"lm_head", "*.gate"}, {"lm_head.weight", "mlp.gate"});
  try {
    check_patterns("a list", {"lm_haed"}, {"lm_head", "model.embed", "model.layers.0"});
    FAIL();
  } catch (const ExportError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_EQ(error.cause(),
              "a list names lm_haed, but the program runs no module and has no weight of this "
              "name; names like it are lm_head, model.embed, model.layers.0");
  }
}

}  // namespace
}  // namespace onnx_native
