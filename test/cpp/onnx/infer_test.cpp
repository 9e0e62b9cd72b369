#include "onnx/infer.h"

#include <gtest/gtest.h>

#include "onnx/infer_case.h"

namespace onnx_native::onnx {
namespace {

using Ints = std::vector<int64_t>;

std::shared_ptr<TensorData> constant(DType dtype, std::vector<int64_t> shape,
                                     const std::vector<double>& values) {
  return std::make_shared<TensorData>(make_tensor(dtype, std::move(shape), std::span(values)));
}

TEST(Infer, Broadcast) {
  const Dim s0 = Dim::symbol("s0");
  const Dim s1 = Dim::symbol("s1");
  EXPECT_EQ(broadcast({s0, 1}, {4}), (Shape{s0, 4}));
  EXPECT_EQ(broadcast({4}, {s0, 1}), (Shape{s0, 4}));
  EXPECT_EQ(broadcast({s0}, {1}), Shape{s0});
  EXPECT_EQ(broadcast({s0}, {4}), Shape{4});
  EXPECT_EQ(broadcast({4}, {s0}), Shape{4});
  EXPECT_EQ(broadcast({s0}, {s1}), Shape{Dim::broadcast(s0, s1)});
  EXPECT_EQ(broadcast({}, {s0, 3}), (Shape{s0, 3}));
  EXPECT_EQ(broadcast({0}, {1}), Shape{0});
  EXPECT_THROW(broadcast({2}, {3}), ExportError);
}

TEST(Infer, Elementwise) {
  EXPECT_EQ(inferred("Relu", {"f16[s0, 4]"}), "f16[s0, 4]");
  EXPECT_EQ(inferred("Add", {"f32[s0, 1]", "f32[4]"}), "f32[s0, 4]");
  EXPECT_EQ(inferred("Less", {"f32[s0]", "f32[]"}), "bool[s0]");
  EXPECT_EQ(inferred("Pow", {"f32[s0]", "i64[]"}), "f32[s0]");
  EXPECT_EQ(inferred("Where", {"bool[s0, 1]", "f32[]", "f32[3]"}), "f32[s0, 3]");
  EXPECT_EQ(inferred("Max", {"f32[s0, 1]", "f32[1, 3]", "f32[]"}), "f32[s0, 3]");
  EXPECT_EQ(inferred("Cast", {"f32[s0]"}, {{"to", DType::f16}}), "f16[s0]");
  EXPECT_EQ(inferred("CastLike", {"f32[s0]", "i32[]"}), "i32[s0]");
  EXPECT_EQ(inferred("Dropout", {"f32[s0]"}, {}, 2), "f32[s0]; bool[s0]");
  EXPECT_EQ(inferred("IsNaN", {"f32?"}), "bool?");
  EXPECT_THROW(inferred("Add", {"f32[2]", "f16[2]"}), ExportError);
  EXPECT_THROW(inferred("Add", {"f32[2]", "f32[3]"}), ExportError);
  EXPECT_THROW(inferred("NoSuchOperator", {"f32[2]"}), ExportError);
}

TEST(Infer, ArithmeticOfSizes) {
  EXPECT_EQ(inferred("Add", {"i64{s0, 2}", "i64{1}"}), "i64[2]{s0 + 1, 3}");
  EXPECT_EQ(inferred("Sub", {"i64(s0)", "i64(1)"}), "i64[]{s0 - 1}");
  EXPECT_EQ(inferred("Mul", {"i64(s0)", "i64{s1, 2}"}), "i64[2]{s0*s1, 2*s0}");
  EXPECT_EQ(inferred("Div", {"i64(s0)", "i64(2)"}), "i64[]{s0//2}");
  EXPECT_EQ(inferred("Div", {"i64(-7)", "i64(2)"}), "i64[]{-3}");
  EXPECT_EQ(inferred("Div", {"i64(s0 - 3)", "i64(2)"}), "i64[]");
  EXPECT_EQ(inferred("Mod", {"i64(s0)", "i64(2)"}), "i64[]{s0 % 2}");
  EXPECT_EQ(inferred("Max", {"i64(s0)", "i64(1)"}), "i64[]{max(1, s0)}");
  EXPECT_EQ(inferred("Min", {"i64(s0)", "i64(0)"}), "i64[]{0}");
  EXPECT_EQ(inferred("Neg", {"i64(s0)"}), "i64[]{-s0}");
  EXPECT_EQ(inferred("Cast", {"i64{s0}"}, {{"to", DType::i32}}), "i32[1]{s0}");
  EXPECT_EQ(inferred("Cast", {"i64{s0}"}, {{"to", DType::f32}}), "f32[1]");
  EXPECT_EQ(inferred("ReduceProd", {"i64{s0, s1, 2}"}, {{"keepdims", int64_t{0}}}),
            "i64[]{2*s0*s1}");
  EXPECT_EQ(inferred("ReduceSum", {"i64{s0, 3}"}), "i64[1]{s0 + 3}");
}

TEST(Infer, ShapesAsTensors) {
  EXPECT_EQ(inferred("Shape", {"f32[s0, 4, s1]"}), "i64[3]{s0, 4, s1}");
  EXPECT_EQ(inferred("Shape", {"f32[s0, 4, s1]"}, {{"start", int64_t{-2}}}), "i64[2]{4, s1}");
  EXPECT_EQ(inferred("Shape", {"f32[s0, 4]"}, {{"start", int64_t{0}}, {"end", int64_t{1}}}),
            "i64[1]{s0}");
  EXPECT_EQ(inferred("Size", {"f32[s0, 4]"}), "i64[]{4*s0}");
  EXPECT_EQ(inferred("Gather", {"i64{s0, s1, 4}", "i64(-2)"}), "i64[]{s1}");
  EXPECT_EQ(inferred("Gather", {"i64{s0, s1, 4}", "i64{2, 0}"}), "i64[2]{4, s0}");
  EXPECT_EQ(inferred("Slice", {"i64{s0, s1, 4}", "i64{1}", "i64{9223372036854775807}"}),
            "i64[2]{s1, 4}");
  EXPECT_EQ(inferred("Slice", {"i64{s0, s1, 4}", "i64{-1}", "i64{-9223372036854775807}", "i64{0}",
                               "i64{-1}"}),
            "i64[3]{4, s1, s0}");
  EXPECT_EQ(inferred("Concat", {"i64{s0}", "i64{-1, 4}"}, {{"axis", int64_t{0}}}),
            "i64[3]{s0, -1, 4}");
  EXPECT_EQ(inferred("Unsqueeze", {"i64(s0)", "i64{0}"}), "i64[1]{s0}");
  EXPECT_EQ(inferred("Squeeze", {"i64{s0}", "i64{0}"}), "i64[]{s0}");
  EXPECT_EQ(inferred("Reshape", {"i64(s0)", "i64{-1}"}), "i64[1]{s0}");
  EXPECT_EQ(inferred("Expand", {"i64{s0}", "i64{3}"}), "i64[3]{s0, s0, s0}");
  EXPECT_EQ(inferred("Range", {"i64(1)", "i64(4)", "i64(1)"}), "i64[3]{1, 2, 3}");
  EXPECT_EQ(inferred("ConstantOfShape", {"i64{2}"}, {{"value", constant(DType::i64, {1}, {7})}}),
            "i64[2]{7, 7}");
  EXPECT_EQ(inferred("Constant", {}, {{"value", constant(DType::i64, {2}, {3, 4})}}),
            "i64[2]{3, 4}");
  EXPECT_EQ(inferred("Constant", {}, {{"value_ints", Ints{3, 4}}}), "i64[2]{3, 4}");
  EXPECT_EQ(inferred("Split", {"i64{s0, 2, s1}"}, {{"num_outputs", int64_t{3}}}, 3),
            "i64[1]{s0}; i64[1]{2}; i64[1]{s1}");
}

TEST(Infer, WhereWithConstantCondition) {
  Graph graph;
  const std::vector<int64_t> flags = {1, 0};
  Value* condition = graph.add_initializer("", make_tensor(DType::boolean, {2}, flags));
  Node* node = graph.add_node(
      "Where", {condition, parse_value(graph, "i64{s0, s1}"), parse_value(graph, "i64(1)")}, 1);
  infer(*node, 20);
  EXPECT_EQ(text_of(*node->outputs[0]), "i64[2]{s0, 1}");
}

TEST(Infer, Reshape) {
  EXPECT_EQ(inferred("Reshape", {"f32[b, s, 768]", "i64{0, 0, 12, 64}"}), "f32[b, s, 12, 64]");
  EXPECT_EQ(inferred("Reshape", {"f32[b, s, 768]", "i64{b, s, 12, -1}"}), "f32[b, s, 12, 64]");
  EXPECT_EQ(inferred("Reshape", {"f32[b, s, 768]", "i64{0, -1}"}), "f32[b, 768*s]");
  EXPECT_EQ(inferred("Reshape", {"f32[b, s, 768]", "i64{-1, 768}"}), "f32[b*s, 768]");
  EXPECT_EQ(inferred("Reshape", {"f32[b*s, 768]", "i64{b, -1, 12, 64}"}), "f32[b, s, 12, 64]");
  EXPECT_EQ(inferred("Reshape", {"f32[b, 0]", "i64{0, 4}"}, {{"allowzero", int64_t{1}}}),
            "f32[0, 4]");
  EXPECT_EQ(inferred("Reshape", {"f32[b, 6]", "i64[3]"}), "f32[u0, u1, u2]");
  EXPECT_EQ(inferred("Reshape", {"f32?", "i64{2, -1}"}), "f32[2, u0]");
  EXPECT_EQ(inferred("Reshape", {"f32[b, 6]", "i64[n]"}), "f32?");
  EXPECT_THROW(inferred("Reshape", {"f32[2, 6]", "i64{5, -1}"}), ExportError);
  EXPECT_THROW(inferred("Reshape", {"f32[2, 6]", "i64{5}"}), ExportError);
  EXPECT_THROW(inferred("Reshape", {"f32[2, 6]", "i64{-1, -1}"}), ExportError);
}

TEST(Infer, ChangesOfShape) {
  EXPECT_EQ(inferred("Flatten", {"f32[b, 3, h, w]"}), "f32[b, 3*h*w]");
  EXPECT_EQ(inferred("Transpose", {"f32[b, 3, h]"}, {{"perm", Ints{2, 0, 1}}}), "f32[h, b, 3]");
  EXPECT_EQ(inferred("Transpose", {"f32[b, 3, h]"}), "f32[h, 3, b]");
  EXPECT_EQ(inferred("Unsqueeze", {"f32[b, 3]", "i64{0, -1}"}), "f32[1, b, 3, 1]");
  EXPECT_EQ(inferred("Squeeze", {"f32[1, b, 1]", "i64{0, -1}"}), "f32[b]");
  EXPECT_EQ(inferred("Squeeze", {"f32[1, b, 1]"}), "f32[b]");
  EXPECT_THROW(inferred("Squeeze", {"f32[2, b]", "i64{0}"}), ExportError);
  EXPECT_EQ(inferred("Expand", {"f32[b, 1]", "i64{2, 1, s}"}), "f32[2, b, s]");
  EXPECT_EQ(inferred("Tile", {"f32[b, 3]", "i64{2, n}"}), "f32[2*b, 3*n]");
  EXPECT_EQ(inferred("Concat", {"f32[b, 3]", "f32[b, n]"}, {{"axis", int64_t{-1}}}),
            "f32[b, n + 3]");
  EXPECT_EQ(inferred("Concat", {"f32[b, 3]", "f32[2, 3]"}, {{"axis", int64_t{1}}}), "f32[2, 6]");
  EXPECT_THROW(inferred("Concat", {"f32[3, 3]", "f32[2, 3]"}, {{"axis", int64_t{1}}}), ExportError);
  EXPECT_EQ(
      inferred("Split", {"f32[b, 7]"}, {{"axis", int64_t{1}}, {"num_outputs", int64_t{3}}}, 3),
      "f32[b, 3]; f32[b, 3]; f32[b, 1]");
  EXPECT_EQ(inferred("Split", {"f32[b, 7]", "i64{2, 5}"}, {{"axis", int64_t{1}}}, 2),
            "f32[b, 2]; f32[b, 5]");
  EXPECT_EQ(
      inferred("Split", {"f32[b, 2*n]"}, {{"axis", int64_t{1}}, {"num_outputs", int64_t{2}}}, 2),
      "f32[b, n]; f32[b, n]");
  EXPECT_EQ(inferred("DepthToSpace", {"f32[b, 8, h, w]"}, {{"blocksize", int64_t{2}}}),
            "f32[b, 2, 2*h, 2*w]");
  EXPECT_EQ(inferred("SpaceToDepth", {"f32[b, 2, 2*h, w]"}, {{"blocksize", int64_t{2}}}),
            "f32[b, 8, h, w//2]");
  EXPECT_EQ(inferred("Pad", {"f32[b, h]", "i64{0, 1, 0, 2}"}), "f32[b, h + 3]");
  EXPECT_EQ(inferred("Pad", {"f32[b, h]", "i64{1, p}", "", "i64{-1}"}), "f32[b, h + p + 1]");
  EXPECT_EQ(inferred("CenterCropPad", {"f32[b, h, w]", "i64{8}"}, {{"axes", Ints{1}}}),
            "f32[b, 8, w]");
}

std::string sliced(const std::string& size, const std::string& start, const std::string& end,
                   int step = 1) {
  return inferred("Slice", {"f32[" + size + "]", "i64{" + start + "}", "i64{" + end + "}", "i64{0}",
                            "i64{" + std::to_string(step) + "}"});
}

TEST(Infer, Slice) {
  const std::string kEnd = "9223372036854775807";
  const std::string kBegin = "-9223372036854775807";
  EXPECT_EQ(sliced("10", "2", "-1"), "f32[7]");
  EXPECT_EQ(sliced("10", "-100", "100"), "f32[10]");
  EXPECT_EQ(sliced("10", "8", "2"), "f32[0]");
  EXPECT_EQ(sliced("10", "1", kEnd, 3), "f32[3]");
  EXPECT_EQ(sliced("10", "-1", kBegin, -1), "f32[10]");
  EXPECT_EQ(sliced("10", "7", "1", -2), "f32[3]");
  EXPECT_EQ(sliced("n", "0", kEnd), "f32[n]");
  EXPECT_EQ(sliced("n", "1", kEnd), "f32[n - 1]");
  EXPECT_EQ(sliced("n", "0", "-1"), "f32[n - 1]");
  EXPECT_EQ(sliced("n", "-1", kEnd), "f32[1]");
  EXPECT_EQ(sliced("n", "0", "1"), "f32[1]");
  EXPECT_EQ(sliced("n", "0", "4"), "f32[min(4, n)]");
  EXPECT_EQ(sliced("n + 4", "0", "4"), "f32[4]");
  EXPECT_EQ(sliced("n", "0", kEnd, 2), "f32[(n + 1)//2]");
  EXPECT_EQ(sliced("n", "-1", kBegin, -1), "f32[n]");
  EXPECT_EQ(sliced("512", "0", "s"), "f32[min(512, s)]");
  EXPECT_EQ(sliced("n + s", "n", kEnd), "f32[s]");
  EXPECT_EQ(sliced("n + s", "-s", kEnd), "f32[s]");
  EXPECT_EQ(sliced("n", "s - 3", kEnd), "f32[u0]");
  EXPECT_EQ(inferred("Slice", {"f32[b, n]", "i64{1}", "i64{3}", "i64{-1}"}),
            "f32[b, min(3, n) - 1]");
  EXPECT_EQ(inferred("Slice", {"f32[b, n]", "i64[1]", "i64[1]", "i64{1}"}), "f32[b, u0]");
}

TEST(Infer, Indexing) {
  EXPECT_EQ(inferred("Gather", {"f32[1000, 64]", "i64[b, s]"}), "f32[b, s, 64]");
  EXPECT_EQ(inferred("Gather", {"f32[b, s, 64]", "i64[]"}, {{"axis", int64_t{1}}}), "f32[b, 64]");
  EXPECT_EQ(inferred("GatherElements", {"f32[b, 9]", "i64[b, k]"}), "f32[b, k]");
  EXPECT_EQ(inferred("GatherND", {"f32[b, s, 4]", "i64[n, 2]"}), "f32[n, 4]");
  EXPECT_EQ(inferred("GatherND", {"f32[b, s, 4]", "i64[b, 1]"}, {{"batch_dims", int64_t{1}}}),
            "f32[b, 4]");
  EXPECT_EQ(inferred("ScatterND", {"f32[b, 4]", "i64[n, 1]", "f32[n, 4]"}), "f32[b, 4]");
  EXPECT_EQ(inferred("OneHot", {"i64[b]", "i64(10)", "f32[2]"}), "f32[b, 10]");
  EXPECT_EQ(inferred("NonZero", {"bool[b, 4]"}), "i64[2, u0]");
  EXPECT_EQ(inferred("Compress", {"f32[b, 4]", "bool[b]"}, {{"axis", int64_t{0}}}), "f32[u0, 4]");
  EXPECT_EQ(inferred("Compress", {"f32[b, 4]", "bool[b]"}), "f32[u0]");
  EXPECT_EQ(inferred("Unique", {"i64[b, 4]"}, {}, 4), "i64[u0]; i64[u0]; i64[4*b]; i64[u0]");
  EXPECT_EQ(inferred("Unique", {"i64[b, 4]"}, {{"axis", int64_t{0}}}, 3),
            "i64[u0, 4]; i64[u0]; i64[b]");
  EXPECT_EQ(inferred("TopK", {"f32[b, n]", "i64{5}"}, {}, 2), "f32[b, 5]; i64[b, 5]");
  EXPECT_EQ(inferred("NonMaxSuppression", {"f32[1, n, 4]", "f32[1, 2, n]"}), "i64[u0, 3]");
}

TEST(Infer, Generators) {
  EXPECT_EQ(inferred("Range", {"i64(0)", "i64(s)", "i64(1)"}), "i64[s]");
  EXPECT_EQ(inferred("Range", {"i64(1)", "i64(s)", "i64(2)"}), "i64[s//2]");
  EXPECT_EQ(inferred("Range", {"i64[]", "i64(s)", "i64(1)"}), "i64[u0]");
  EXPECT_EQ(inferred("ConstantOfShape", {"i64{b, 4}"}), "f32[b, 4]");
  EXPECT_EQ(inferred("ConstantOfShape", {"i64[2]"}), "f32[u0, u1]");
  EXPECT_EQ(inferred("EyeLike", {"f32[n, m]"}, {{"dtype", DType::i64}}), "i64[n, m]");
  EXPECT_EQ(inferred("RandomNormal", {}, {{"shape", Ints{2, 3}}}), "f32[2, 3]");
  EXPECT_EQ(inferred("RandomUniformLike", {"f16[b]"}), "f16[b]");
  EXPECT_EQ(inferred("Multinomial", {"f32[b, 9]"}, {{"sample_size", int64_t{4}}}), "i32[b, 4]");
  EXPECT_EQ(inferred("HannWindow", {"i64(n)"}), "f32[n]");
}

TEST(Infer, Reductions) {
  EXPECT_EQ(inferred("ReduceMean", {"f32[b, s, 4]", "i64{-1}"}), "f32[b, s, 1]");
  EXPECT_EQ(inferred("ReduceMean", {"f32[b, s, 4]", "i64{-1, 0}"}, {{"keepdims", int64_t{0}}}),
            "f32[s]");
  EXPECT_EQ(inferred("ReduceSum", {"f32[b, s]"}), "f32[1, 1]");
  EXPECT_EQ(inferred("ReduceSum", {"f32[b, s]"}, {{"noop_with_empty_axes", int64_t{1}}}),
            "f32[b, s]");
  EXPECT_EQ(
      inferred("ReduceMax", {"f32[b, s]"}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}, 1, 17),
      "f32[b]");
  EXPECT_EQ(inferred("ArgMax", {"f32[b, s]"}, {{"axis", int64_t{-1}}, {"keepdims", int64_t{0}}}),
            "i64[b]");
  EXPECT_EQ(inferred("LayerNormalization", {"f16[b, s, 8]", "f16[8]"}, {}, 3),
            "f16[b, s, 8]; f32[b, s, 1]; f32[b, s, 1]");
  EXPECT_EQ(inferred("BatchNormalization", {"f32[b, 3, h]", "f32[3]", "f32[3]", "f32[3]", "f32[3]"},
                     {{"training_mode", int64_t{1}}}, 3),
            "f32[b, 3, h]; f32[3]; f32[3]");
  EXPECT_EQ(inferred("SoftmaxCrossEntropyLoss", {"f32[b, c]", "i64[b]"}, {}, 2),
            "f32[]; f32[b, c]");
  EXPECT_EQ(
      inferred("NegativeLogLikelihoodLoss", {"f32[b, c, h]", "i64[b, h]"}, {{"reduction", "none"}}),
      "f32[b, h]");
}

TEST(Infer, Products) {
  EXPECT_EQ(inferred("MatMul", {"f32[b, s, 8]", "f32[8, 4]"}), "f32[b, s, 4]");
  EXPECT_EQ(inferred("MatMul", {"f32[b, 1, s, 8]", "f32[12, 8, t]"}), "f32[b, 12, s, t]");
  EXPECT_EQ(inferred("MatMul", {"f32[8]", "f32[b, 8, 4]"}), "f32[b, 4]");
  EXPECT_EQ(inferred("MatMul", {"f32[8]", "f32[8]"}), "f32[]");
  EXPECT_THROW(inferred("MatMul", {"f32[2, 8]", "f32[7, 4]"}), ExportError);
  EXPECT_EQ(inferred("MatMulInteger", {"u8[b, 8]", "i8[8, 4]"}), "i32[b, 4]");
  EXPECT_EQ(inferred("Gemm", {"f32[b, 8]", "f32[4, 8]", "f32[4]"}, {{"transB", int64_t{1}}}),
            "f32[b, 4]");
  EXPECT_EQ(inferred("Einsum", {"f32[b, i, k]", "f32[b, k, j]"}, {{"equation", "bik, bkj -> bij"}}),
            "f32[b, i, j]");
  EXPECT_EQ(inferred("Einsum", {"f32[b, h, i, k]", "f32[k, j]"}, {{"equation", "...k,kj->...j"}}),
            "f32[b, h, i, j]");
  EXPECT_EQ(inferred("Einsum", {"f32[n, m]", "f32[m, p]"}, {{"equation", "cb,ba"}}), "f32[p, n]");
  EXPECT_EQ(inferred("Det", {"f32[b, 3, 3]"}), "f32[b]");
}

TEST(Infer, Windows) {
  EXPECT_EQ(inferred("Conv", {"f32[b, 3, h, w]", "f32[8, 3, 3, 3]"},
                     {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{1, 2}}}),
            "f32[b, 8, h, (w + 1)//2]");
  EXPECT_EQ(inferred("Conv", {"f32[b, 4, n]", "f32[8, 1, 3]"},
                     {{"group", int64_t{4}}, {"dilations", Ints{2}}}),
            "f32[b, 8, n - 4]");
  EXPECT_EQ(inferred("Conv", {"f32[b, 3, n]", "f32[8, 3, 5]"},
                     {{"auto_pad", "SAME_UPPER"}, {"strides", Ints{2}}}),
            "f32[b, 8, (n + 1)//2]");
  EXPECT_THROW(inferred("Conv", {"f32[1, 4, 9]", "f32[8, 3, 3]"}), ExportError);
  EXPECT_EQ(inferred("ConvTranspose", {"f32[b, 8, n]", "f32[8, 4, 3]"},
                     {{"strides", Ints{2}}, {"pads", Ints{1, 1}}, {"output_padding", Ints{1}}}),
            "f32[b, 4, 2*n]");
  EXPECT_EQ(
      inferred("MaxPool", {"f32[b, 3, h, w]"},
               {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}},
               2),
      "f32[b, 3, (h + 1)//2, (w + 1)//2]; i64[b, 3, (h + 1)//2, (w + 1)//2]");
  EXPECT_EQ(inferred("MaxPool", {"f32[1, 3, 10]"},
                     {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}, {"ceil_mode", int64_t{1}}}),
            "f32[1, 3, 5]");
  // No fourth window: it would start in the end padding.
  EXPECT_EQ(inferred("AveragePool", {"f32[1, 3, 5]"},
                     {{"kernel_shape", Ints{2}},
                      {"strides", Ints{2}},
                      {"pads", Ints{1, 1}},
                      {"ceil_mode", int64_t{1}}}),
            "f32[1, 3, 3]");
  EXPECT_EQ(inferred("AveragePool", {"f32[b, 3, n]"},
                     {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"ceil_mode", int64_t{1}}}),
            "f32[b, 3, (n + 1)//2]");
  EXPECT_EQ(inferred("GlobalAveragePool", {"f32[b, 3, h, w]"}), "f32[b, 3, 1, 1]");
  EXPECT_EQ(inferred("Col2Im", {"f32[b, 12, l]", "i64{h, w}", "i64{2, 2}"}), "f32[b, 3, h, w]");
}

TEST(Infer, Images) {
  EXPECT_EQ(inferred("Resize", {"f32[b, 3, h, w]", "", "", "i64{b, 3, 2*h, 8}"}),
            "f32[b, 3, 2*h, 8]");
  EXPECT_EQ(inferred("Resize", {"f32[b, 3, h, w]", "", "", "i64{2, 8}"}, {{"axes", Ints{2, 3}}}),
            "f32[b, 3, 2, 8]");
  EXPECT_EQ(inferred("GridSample", {"f32[b, 3, h, w]", "f32[b, i, j, 2]"}), "f32[b, 3, i, j]");
  EXPECT_EQ(inferred("AffineGrid", {"f32[b, 2, 3]", "i64{b, 3, h, w}"}), "f32[b, h, w, 2]");
  EXPECT_EQ(inferred("RoiAlign", {"f32[b, 3, h, w]", "f32[r, 4]", "i64[r]"},
                     {{"output_height", int64_t{7}}, {"output_width", int64_t{5}}}),
            "f32[r, 3, 7, 5]");
}

TEST(Infer, ResizeByScales) {
  Graph graph;
  const std::vector<double> scales = {1, 1, 2, 0.5};
  Value* constant_scales = graph.add_initializer("", make_tensor(DType::f32, {4}, scales));
  Node* node = graph.add_node("Resize",
                              {parse_value(graph, "f32[b, 3, h, w]"), nullptr, constant_scales}, 1);
  infer(*node, 20);
  EXPECT_EQ(text_of(*node->outputs[0]), "f32[b, 3, 2*h, w//2]");
}

TEST(Infer, Networks) {
  EXPECT_EQ(inferred("Attention",
                     {"f32[b, 8, s, 64]", "f32[b, 2, t, 64]", "f32[b, 2, t, 32]", "",
                      "f32[b, 2, p, 64]", "f32[b, 2, p, 32]"},
                     {}, 4),
            "f32[b, 8, s, 32]; f32[b, 2, p + t, 64]; f32[b, 2, p + t, 32]; f32[b, 8, s, p + t]");
  EXPECT_EQ(inferred("Attention", {"f32[b, s, 512]", "f32[b, t, 128]", "f32[b, t, 64]"},
                     {{"q_num_heads", int64_t{8}}, {"kv_num_heads", int64_t{2}}}),
            "f32[b, s, 256]");
  EXPECT_EQ(inferred("LSTM", {"f32[s, b, 4]", "f32[2, 32, 4]", "f32[2, 32, 8]"},
                     {{"hidden_size", int64_t{8}}, {"direction", "bidirectional"}}, 3),
            "f32[s, 2, b, 8]; f32[2, b, 8]; f32[2, b, 8]");
  EXPECT_EQ(inferred("DFT", {"f32[b, n, 1]", "", "i64(1)"}, {{"onesided", int64_t{1}}}),
            "f32[b, n//2 + 1, 2]");
  EXPECT_EQ(inferred("STFT", {"f32[b, n, 1]", "i64(4)", "f32[16]"}), "f32[b, n//4 - 3, 9, 2]");
  EXPECT_EQ(inferred("QuantizeLinear", {"f32[b]", "f32[]", "i8[]"}), "i8[b]");
  EXPECT_EQ(inferred("DequantizeLinear", {"i8[b]", "f16[]", "i8[]"}), "f16[b]");
  EXPECT_EQ(inferred("DynamicQuantizeLinear", {"f32[b]"}, {}, 3), "u8[b]; f32[]; u8[]");
}

TEST(Infer, Sequences) {
  EXPECT_EQ(inferred("SequenceConstruct", {"f32[b, 3]", "f32[b, 3]"}), "f32[b, 3]");
  EXPECT_EQ(inferred("SequenceLength", {"f32[b, 3]"}), "i64[]");
  EXPECT_EQ(inferred("SplitToSequence", {"f32[b, 3]"}, {{"keepdims", int64_t{0}}}), "f32[3]");
  EXPECT_EQ(inferred("ConcatFromSequence", {"f32[b, 3]"},
                     {{"axis", int64_t{0}}, {"new_axis", int64_t{1}}}),
            "f32[u0, b, 3]");
}

std::shared_ptr<Graph> branch(const std::string& result) {
  auto graph = std::make_shared<Graph>();
  graph->outputs = {parse_value(*graph, result)};
  return graph;
}

TEST(Infer, If) {
  const auto result = [](const std::string& yes, const std::string& no) {
    return inferred("If", {"bool[]"}, {{"then_branch", branch(yes)}, {"else_branch", branch(no)}});
  };
  EXPECT_EQ(result("f32[b, 3]", "f32[b, 3]"), "f32[b, 3]");
  EXPECT_EQ(result("f32[b, 3]", "f32[b, 4]"), "f32[b, u0]");
  EXPECT_EQ(result("f32[b, 3]", "f32[b]"), "f32?");
  EXPECT_THROW(result("f32[b]", "f16[b]"), ExportError);
}

TEST(Infer, Loop) {
  Graph graph;
  auto body = std::make_shared<Graph>(&graph);
  body->add_input("i", DType::i64, Shape{});
  Value* condition = body->add_input("go_on", DType::boolean, Shape{});
  Value* state = body->add_input("state", DType::f32, Shape{Dim::symbol("b")});
  body->outputs = {condition, state, state};
  Node* node =
      graph.add_node("Loop", {parse_value(graph, "i64(n)"), nullptr, parse_value(graph, "f32[b]")},
                     2, {{"body", body}});
  infer(*node, 20);
  EXPECT_EQ(text_of(*node->outputs[0]), "f32[b]");
  EXPECT_EQ(text_of(*node->outputs[1]), "f32[n, b]");
}

TEST(Infer, Scan) {
  Graph graph;
  auto body = std::make_shared<Graph>(&graph);
  Value* state = body->add_input("state", DType::f32, Shape{4});
  Value* element = body->add_input("element", DType::f32, Shape{Dim::symbol("b")});
  body->outputs = {state, element};
  Node* node =
      graph.add_node("Scan", {parse_value(graph, "f32[4]"), parse_value(graph, "f32[n, b]")}, 2,
                     {{"body", body}, {"num_scan_inputs", int64_t{1}}});
  infer(*node, 20);
  EXPECT_EQ(text_of(*node->outputs[0]), "f32[4]");
  EXPECT_EQ(text_of(*node->outputs[1]), "f32[n, b]");
}

TEST(Infer, KeepsWhatIsKnownOfDataDependentSizes) {
  Graph graph;
  Node* node = graph.add_node("NonZero", {parse_value(graph, "bool[b]")}, 1);
  infer(*node, 20);
  const Shape first = *node->outputs[0]->shape;
  infer(*node, 20);
  EXPECT_EQ(*node->outputs[0]->shape, first);
}

}  // namespace
}  // namespace onnx_native::onnx
