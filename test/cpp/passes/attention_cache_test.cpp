#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class AttentionCacheTest : public PassTest {
 protected:
  AttentionCacheTest() { model_.opset = 23; }

  // Returns a cache of (batch, 2, past, 8) with one more length.
  Value* grown(std::string_view past, std::string_view added, int64_t axis = 2) {
    return op("Concat", {input(past, {batch_, 2, past_, 8}), input(added, {batch_, 2, 1, 8})},
              {batch_, 2, past_ + 1, 8}, {{"axis", axis}});
  }
  void attend(Value* k, Value* v, Attributes attributes = {}) {
    Value* q = input("q", {batch_, 4, 1, 8});
    result(op("Attention", {q, k, v}, {batch_, 4, 1, 8}, std::move(attributes)), "y");
  }
  void expect_nothing() {
    after(absorb_attention_caches);
    EXPECT_FALSE(changed_);
  }

  const Dim past_ = Dim::symbol("past");
};

TEST_F(AttentionCacheTest, CachesAreTakenAndReturned) {
  Value* k = grown("pk", "k", -2);
  Value* v = grown("pv", "v");
  attend(k, v, {{"scale", 0.5}});
  result(k, "keys");
  result(v, "values");
  EXPECT_EQ(after(absorb_attention_caches),
            "y, keys, values = Attention <scale: float = 0.5> (q, k, v, \"\", pk, pv)\n");
}

TEST_F(AttentionCacheTest, CachesThatAreNoResults) {
  attend(grown("pk", "k"), grown("pv", "v"));
  EXPECT_EQ(after(absorb_attention_caches), "y, _0, _1 = Attention (q, k, v, \"\", pk, pv)\n");
}

TEST_F(AttentionCacheTest, ACausalMaskStays) {
  attend(grown("pk", "k"), grown("pv", "v"), {{"is_causal", 1}});
  expect_nothing();
}

TEST_F(AttentionCacheTest, ACacheWithAnotherUseStays) {
  Value* k = grown("pk", "k");
  attend(k, grown("pv", "v"));
  result(op("Relu", {k}, *k->shape), "other");
  expect_nothing();
}

TEST_F(AttentionCacheTest, KeysWithoutACacheStay) {
  attend(input("k", {batch_, 2, past_ + 1, 8}), grown("pv", "v"));
  expect_nothing();
}

TEST_F(AttentionCacheTest, AnotherAxisStays) {
  Value* k = op("Concat", {input("a", {batch_, 1, 3, 8}), input("b", {batch_, 1, 3, 8})},
                {batch_, 2, 3, 8}, {{"axis", 1}});
  Value* v = op("Concat", {input("c", {batch_, 1, 3, 8}), input("d", {batch_, 1, 3, 8})},
                {batch_, 2, 3, 8}, {{"axis", 1}});
  attend(k, v);
  expect_nothing();
}

TEST_F(AttentionCacheTest, OpsetsWithoutAKernelStay) {
  model_.opset = 26;
  attend(grown("pk", "k"), grown("pv", "v"));
  expect_nothing();
}

}  // namespace
}  // namespace onnx_native::passes
