#include "capture/ways.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "aten/graph.h"
#include "base/error.h"
#include "capture/way_calls.h"
#include "capture/way_sizes.h"

namespace onnx_native::capture {
namespace {

const Dim n = Dim::symbol("n");
const Dim m = Dim::symbol("m");

Guard guard(const Dim& difference, Relation relation) {
  return {difference, relation, true, "", "", nullptr};
}

TEST(WaySizes, AreRightOnBothWays) {
  const WaySizes equal(guard(n - Dim(16), Relation::equal));
  EXPECT_EQ(equal.join(Dim(16), n), n);
  EXPECT_EQ(equal.join(Dim(256), n * n), n * n);
  EXPECT_EQ(equal.join(n, n), n);
  EXPECT_EQ(equal.join(Dim(15), n), std::nullopt);
  const WaySizes product(guard(n * m - Dim(16), Relation::equal));
  EXPECT_EQ(product.join(Dim(17), n * m + Dim(1)), n * m + Dim(1));
  EXPECT_EQ(product.join(Dim(4), n), std::nullopt);
  const WaySizes limit(guard(n - Dim(512), Relation::less_equal));
  EXPECT_EQ(limit.join(n, Dim(512)), Dim::min(n, Dim(512)));
  EXPECT_EQ(limit.join(Dim(512), n), Dim::max(n, Dim(512)));
  EXPECT_EQ(limit.join(Shape{n, 4}, Shape{512, 4}), (Shape{Dim::min(n, Dim(512)), 4}));
  EXPECT_EQ(limit.join(Shape{n}, Shape{n, 1}), std::nullopt);
  const WaySizes single(guard(n - Dim(1), Relation::less_equal));  // inputs are not empty
  EXPECT_EQ(single.join(Dim(1), n), n);
}

std::string joined(const Guard& by, const std::string& yes, const std::string& no) {
  const auto a = aten::parse(yes), b = aten::parse(no);
  const auto both = join_ways(by, *a, *b);
  return both ? aten::print(*both) : "the same";
}

TEST(Ways, ShareWhatIsEqualBeforeAndAfter) {
  EXPECT_EQ(joined(guard(n - Dim(4), Relation::equal),
                   R"(graph(%x: f32[n,3]) {
  %a: f32[n,3] = aten::sin(%x)
  %b: f32[n,3] = aten::cos(%a)
  %c: f32[n,3] = aten::exp(%b)
  return (%c)
})",
                   R"(graph(%x: f32[n,3]) {
  %a: f32[n,3] = aten::sin(%x)
  %b: f32[n,3] = aten::tan(%a)
  %c: f32[n,3] = aten::tan(%b)
  %d: f32[n,3] = aten::exp(%c)
  return (%d)
})"),
            R"(graph(%x: f32[n,3]) {
  %a: f32[n,3] = aten::sin(%x)
  %sym_size_int: sym_int(n) = aten::sym_size.int(%x, 0)
  %eq: sym_bool = python::eq(%sym_size_int, 4)
  %b: f32[n,3] = higher_order::cond(%eq, graph(%a: f32[n,3]) {
    %b: f32[n,3] = aten::cos(%a)
    return (%b)
  }, graph(%a: f32[n,3]) {
    %b: f32[n,3] = aten::tan(%a)
    %c: f32[n,3] = aten::tan(%b)
    return (%c)
  }, [%a])
  %c: f32[n,3] = aten::exp(%b)
  return (%c)
}
)");
}

TEST(Ways, OfTheSameCallsAreOne) {
  const std::string sizes = R"(graph(%x: f32[n,3]) {
  %size: sym_int(n) = aten::sym_size.int(%x, 0)
  %a: f32[n] = aten::view(%x, [%size])
  return (%a)
})";
  EXPECT_EQ(joined(guard(n - Dim(4), Relation::equal), sizes, sizes), "the same");
}

TEST(Ways, SizesThatDependOnDataKeepTheirNamesApart) {
  const std::string text = joined(guard(n - Dim(4), Relation::less),
                                  R"(graph(%x: f32[n]) {
  %a: i64[u0,1] = aten::nonzero(%x)
  %b: i64[u1,1] = aten::nonzero(%a)
  return (%b)
})",
                                  R"(graph(%x: f32[n]) {
  %y: f32[n] = aten::sin(%x)
  %a: i64[u0,1] = aten::nonzero(%y)
  return (%a)
})");
  EXPECT_NE(text.find("higher_order::cond"), std::string::npos);
  EXPECT_EQ(text.find("i64[u0,1] = higher_order"), std::string::npos) << text;
}

TEST(Ways, WithOtherResultsCannotBeOne) {
  const Guard by = guard(n - Dim(4), Relation::equal);
  const std::string one = "graph(%x: f32[n]) {\n  return (%x)\n}";
  EXPECT_THROW(joined(by, one, "graph(%x: f32[n]) {\n  return (%x, %x)\n}"), ExportError);
  EXPECT_THROW(joined(by, one, "graph(%x: f32[n]) {\n  return (1)\n}"), ExportError);
  EXPECT_THROW(
      joined(by, "graph(%x: f32[n]) {\n  return (2)\n}", "graph(%x: f32[n]) {\n  return (1)\n}"),
      ExportError);
}

TEST(Ways, IdentitiesAreDropped) {
  const auto graph = aten::parse(R"(graph(%x: f32[n,3]) {
  %a: f32[n,3] = aten::slice.Tensor(%x, 0, 0, 9223372036854775807, 1)
  %b: f32[n,3] = aten::clone(%a, memory_format=None)
  %c: f32[n,3] = aten::sin(%b)
  %d: f64[n,3] = aten::to.dtype(%c, f64, False, False, None)
  return (%d)
})");
  drop_identities(*graph);
  EXPECT_EQ(aten::print(*graph).find("clone"), std::string::npos);
  EXPECT_EQ(aten::print(*graph).find("slice"), std::string::npos);
  EXPECT_NE(aten::print(*graph).find("aten::to.dtype"), std::string::npos);
}

TEST(Ways, CopiesThatAsStridedReadsAreKept) {
  const auto graph = aten::parse(R"(graph(%x: f32[n,3]) {
  %a: f32[3,n] = aten::t(%x)
  %b: f32[3,n] = aten::clone(%a, memory_format=None)
  %c: f32[3] = aten::as_strided(%b, [3], [1], None)
  return (%c)
})");
  drop_identities(*graph);
  EXPECT_NE(aten::print(*graph).find("clone"), std::string::npos);
}

TEST(Ways, AttentionOfOneQueryToOneKeyIsCausalOrNot) {
  const auto attention = [](const std::string& rows, const std::string& mask,
                            const std::string& causal) {
    return aten::parse("graph(%x: f32[2," + rows + ",4], %m: bool[" + rows + "," + rows +
                       "]) {\n  %y: f32[2," + rows +
                       ",4] = aten::scaled_dot_product_attention(%x, %x, %x, " + mask + ", 0.0, " +
                       causal + ", scale=None, enable_gqa=False)\n  return (%y)\n}");
  };
  const auto general = attention("n", "None", "True");
  const auto is_causal = [&](const std::string& rows, const std::string& mask) {
    const auto graph = attention(rows, mask, "False");
    use_same_spelling(*graph, *general);
    return *graph->nodes[0]->arguments[5].get<bool>();
  };
  EXPECT_TRUE(is_causal("1", "None"));
  EXPECT_FALSE(is_causal("2", "None"));
  EXPECT_FALSE(is_causal("n", "None"));
  EXPECT_FALSE(is_causal("1", "%m"));
}

}  // namespace
}  // namespace onnx_native::capture
