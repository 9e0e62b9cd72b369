#include "base/error.h"

#include <gtest/gtest.h>

namespace onnx_native {
namespace {

const Location kPlace{.source = "model.py:42", .code = "return relu(x)", .module_path = "a (A)"};

TEST(Error, TextIsRenderedFromTheFields) {
  const ExportError error(ErrorKind::unsupported,
                          {{.cause = "the cause",
                            .op = "aten::relu",
                            .node = "%3 = aten::relu(%x: f32[2])",
                            .location = kPlace}},
                          "the way out");
  EXPECT_STREQ(error.what(),
               "[unsupported]: aten::relu: the cause\n"
               "  %3 = aten::relu(%x: f32[2])\n"
               "  at model.py:42: return relu(x)\n"
               "  in a (A)\n"
               "  hint: the way out");
  EXPECT_EQ(error.cause(), "the cause");
  EXPECT_EQ(error.op(), "aten::relu");
  EXPECT_EQ(error.location().source, "model.py:42");
  EXPECT_EQ(error.hint(), "the way out");
}

TEST(Error, CauseThatNamesTheOperatorIsNotPrefixed) {
  const ExportError error(ErrorKind::unsupported_operator,
                          {{.cause = "a::b has no ONNX lowering", .op = "a::b"},
                           {.cause = "a::c has no ONNX lowering", .op = "a::c"}});
  EXPECT_STREQ(error.what(),
               "[unsupported operator]: a::b has no ONNX lowering\na::c has no ONNX lowering");
  EXPECT_EQ(error.faults().size(), 2);
}

TEST(Error, InnermostCallAndPlaceStay) {
  ExportError error(ErrorKind::internal, "wrong");
  error.add_location({.node = "relu_1"});
  EXPECT_STREQ(error.what(), "[internal]: wrong\n  in node relu_1");
  error.add_node("aten::relu", "%1 = aten::relu(%x)");
  error.add_node("aten::add", "%2 = aten::add(%1)");
  error.add_location(kPlace);
  error.add_prefix("argument 1: ");
  EXPECT_STREQ(error.what(), "[internal]: aten::relu: argument 1: wrong\n  %1 = aten::relu(%x)");
}

TEST(Error, UnknownPlaceIsFilledIn) {
  ExportError error(ErrorKind::unsupported, "wrong");
  error.add_location({});
  error.add_location(kPlace);
  EXPECT_EQ(error.location().source, "model.py:42");
}

}  // namespace
}  // namespace onnx_native
