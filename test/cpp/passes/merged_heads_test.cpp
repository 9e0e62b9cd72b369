#include "passes/pass_test.h"

namespace onnx_native::passes {
namespace {

class MergedHeadsTest : public PassTest {
 protected:
  MergedHeadsTest() { model_.opset = 23; }

  // Returns a (batch, seq, heads * 8) input as (batch, heads, seq, 8).
  Value* split(std::string_view name, int64_t heads, const Ints& order = {0, 2, 1, 3}) {
    Value* whole = input(name, {batch_, seq_, 8 * heads});
    Value* apart = op("Reshape", {whole, ints({0, 0, heads, 8})}, {batch_, seq_, heads, 8});
    return op("Transpose", {apart}, {batch_, heads, seq_, 8}, {{"perm", order}});
  }
  Value* rotated(Value* x) {
    return op("RotaryEmbedding", {x, cos_, sin_}, *x->shape, {{"rotary_embedding_dim", 4}});
  }
  // Returns a part of a (batch, seq, 3 * 4 * 8) projection as (batch, 4, seq, 8).
  Value* turned(Value* whole, const Ints& order = {2, 0, 3, 1, 4}) {
    Value* apart = op("Reshape", {whole, ints({0, 0, 3, 4, 8})}, {batch_, seq_, 3, 4, 8});
    Shape shape;
    for (const int64_t axis : order) shape.push_back(apart->dim(axis));
    return op("Transpose", {apart}, shape, {{"perm", order}});
  }
  Value* part(Value* turned, int64_t index) {
    return op("Gather",
              {turned, graph_.add_initializer("", make_tensor(DType::i64, {}, Ints{index}))},
              Shape(turned->shape->begin() + 1, turned->shape->end()), {{"axis", 0}});
  }
  void attend(Value* q, Value* k, Value* v) {
    Value* y = op("Attention", {q, k, v}, *q->shape, {{"scale", 0.5}});
    Value* back = op("Transpose", {y}, {batch_, seq_, q->dim(1), 8}, {{"perm", Ints{0, 2, 1, 3}}});
    result(back, "y");
  }

  Value* cos_ = input("cos", {batch_, seq_, 2});
  Value* sin_ = input("sin", {batch_, seq_, 2});
};

TEST_F(MergedHeadsTest, QueryKeyAndValueAreTakenBeforeTheirTransposition) {
  attend(split("q", 4), split("k", 2), split("v", 2));
  after(merge_attention_heads);
  clean_casts_and_transposes(model_);
  eliminate_dead_code(model_);
  EXPECT_EQ(nodes(),
            "_0 = Attention <scale: float = 0.5, q_num_heads: int = 4, kv_num_heads: int = 2> "
            "(q, k, v)\n"
            "y = Reshape (_0, _1)\n");
}

TEST_F(MergedHeadsTest, PartsOfOneProjectionAreSlices) {
  Value* all = turned(input("qkv", {batch_, seq_, 96}));
  attend(part(all, 0), part(all, 1), part(all, -1));
  after(merge_attention_heads);
  clean_casts_and_transposes(model_);
  clean_slices(model_);
  eliminate_dead_code(model_);
  EXPECT_EQ(nodes(),
            "_0, _1, _2 = Split <axis: int = 2> (qkv, _3)\n"
            "_4 = Attention <scale: float = 0.5, q_num_heads: int = 4, kv_num_heads: int = 4> "
            "(_0, _1, _2)\n"
            "y = Reshape (_4, _5)\n");
}

TEST_F(MergedHeadsTest, PartsInAnotherOrderStay) {
  // (parts, batch, length, heads, size): the heads are not the second axis.
  Value* all = turned(input("qkv", {batch_, seq_, 96}), {2, 0, 1, 3, 4});
  attend(part(all, 0), part(all, 1), part(all, 2));
  after(merge_attention_heads);
  EXPECT_FALSE(changed_);
}

TEST_F(MergedHeadsTest, APartWithAnotherUseStays) {
  Value* all = turned(input("qkv", {batch_, seq_, 96}));
  Value* keys = part(all, 1);
  result(keys, "keys");
  attend(part(all, 0), keys, part(all, 2));
  after(merge_attention_heads);
  EXPECT_FALSE(changed_);
}

TEST_F(MergedHeadsTest, CachesStay) {
  const Shape past{batch_, 2, Dim::symbol("past"), 8};
  Value* q = split("q", 4);
  onnx::Node* node = graph_.add_node(
      "Attention", {q, split("k", 2), split("v", 2), nullptr, input("pk", past), input("pv", past)},
      3);
  const Shape present{batch_, 2, Dim::symbol("past") + seq_, 8};
  onnx::Typing::set(*node->outputs[0], DType::f32, *q->shape);
  result(op("Transpose", {node->outputs[0]}, {batch_, seq_, 4, 8}, {{"perm", Ints{0, 2, 1, 3}}}),
         "y");
  for (const size_t i : {1, 2}) {
    onnx::Typing::set(*node->outputs[i], DType::f32, present);
    result(node->outputs[i], i == 1 ? "keys" : "values");
  }
  after(merge_attention_heads);
  clean_casts_and_transposes(model_);
  eliminate_dead_code(model_);
  EXPECT_EQ(nodes(),
            "_0, keys, values = Attention <q_num_heads: int = 4, kv_num_heads: int = 2> "
            "(q, k, v, \"\", pk, pv)\n"
            "y = Reshape (_0, _1)\n");
}

TEST_F(MergedHeadsTest, ScoresAreNotReturned) {
  Value* q = split("q", 4);
  onnx::Node* node = graph_.add_node("Attention", {q, split("k", 4), split("v", 4)}, 4);
  for (Value* output : node->outputs) onnx::Typing::set(*output, DType::f32, *q->shape);
  result(node->outputs[0], "y");
  result(node->outputs[3], "scores");
  after(merge_attention_heads);
  EXPECT_FALSE(changed_);
}

TEST_F(MergedHeadsTest, RotationsMoveBeforeTheTransposition) {
  attend(rotated(split("q", 4)), rotated(split("k", 2)), split("v", 2));
  after(merge_attention_heads);
  clean_casts_and_transposes(model_);
  eliminate_dead_code(model_);
  EXPECT_EQ(nodes(),
            "_0 = RotaryEmbedding <rotary_embedding_dim: int = 4, num_heads: int = 4> "
            "(q, cos, sin)\n"
            "_1 = RotaryEmbedding <rotary_embedding_dim: int = 4, num_heads: int = 2> "
            "(k, cos, sin)\n"
            "_2 = Attention <scale: float = 0.5, q_num_heads: int = 4, kv_num_heads: int = 2> "
            "(_0, _1, v)\n"
            "y = Reshape (_2, _3)\n");
}

TEST_F(MergedHeadsTest, ANormOfEachHeadMovesBeforeTheTransposition) {
  Value* q = split("q", 4);
  q = op("RMSNormalization", {q, weight("w", {8})}, *q->shape, {{"axis", -1}});
  attend(rotated(q), split("k", 4), split("v", 4));
  after(merge_attention_heads);
  clean_casts_and_transposes(model_);
  eliminate_dead_code(model_);
  const std::string text = nodes();
  EXPECT_EQ(text.find("Transpose"), std::string::npos) << text;
  EXPECT_NE(text.find("= RMSNormalization <axis: int = -1> (_0, w)"), std::string::npos) << text;
}

TEST_F(MergedHeadsTest, ANormOverTheSequenceStays) {
  Value* q = input("q", {batch_, 2, 4, 8});
  q = op("Transpose", {q}, {batch_, 4, 2, 8}, {{"perm", Ints{0, 2, 1, 3}}});
  q = op("RMSNormalization", {q, weight("w", {2, 8})}, *q->shape, {{"axis", 2}});
  attend(q, split("k", 4), split("v", 4));
  after(merge_attention_heads);
  EXPECT_FALSE(changed_);
}

TEST_F(MergedHeadsTest, HeadsThatNoReshapeMadeAreMerged) {
  Value* apart = input("q", {batch_, seq_, 4, 8});
  Value* q = op("Transpose", {apart}, {batch_, 4, seq_, 8}, {{"perm", Ints{0, 2, 1, 3}}});
  attend(q, split("k", 4), split("v", 4));
  EXPECT_EQ(after(merge_attention_heads).substr(0, 40),
            "_0 = Reshape (q, _1)\n_2 = Attention <sca");
}

TEST_F(MergedHeadsTest, AKeyThatIsNotTransposedStays) {
  attend(split("q", 4), input("k", {batch_, 4, seq_, 8}), split("v", 4));
  after(merge_attention_heads);
  EXPECT_FALSE(changed_);
}

TEST_F(MergedHeadsTest, AnotherTranspositionStays) {
  Value* apart = input("k", {batch_, 4, 8, seq_});
  Value* k = op("Transpose", {apart}, {batch_, 4, seq_, 8}, {{"perm", Ints{0, 1, 3, 2}}});
  attend(split("q", 4), k, split("v", 4));
  after(merge_attention_heads);
  EXPECT_FALSE(changed_);
}

TEST_F(MergedHeadsTest, ARotatedKeyWithAnotherUseStays) {
  Value* k = rotated(split("k", 2));
  attend(rotated(split("q", 4)), k, split("v", 2));
  result(k, "present");
  after(merge_attention_heads);
  EXPECT_FALSE(changed_);
}

}  // namespace
}  // namespace onnx_native::passes
