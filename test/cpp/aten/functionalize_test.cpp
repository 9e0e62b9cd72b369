#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "aten/graph.h"

namespace onnx_native::aten {
namespace {

std::string functional(std::string_view text) {
  const auto graph = parse(text);
  functionalize(*graph);
  verify(*graph, "functionalize");
  const std::string result = print(*graph);
  EXPECT_EQ(print(*parse(result)), result);
  return result;
}

std::string functionalize_error(std::string_view text) {
  try {
    return functional(text);
  } catch (const ExportError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    return error.what();
  }
}

void expect_error(std::string_view text, std::string_view part) {
  const std::string error = functionalize_error(text);
  EXPECT_NE(error.find(part), std::string::npos) << error;
}

TEST(AtenFunctionalize, WritesThroughSlicesReachTheInput) {
  EXPECT_EQ(functional(R"(graph(%x: f32[b,8]) {
  %s: f32[b,8] = aten::slice.Tensor(%x, 0, 0, 9223372036854775807, 1)
  %s2: f32[b,2] = aten::slice.Tensor(%s, 1, 1, 3, 1)
  %add_: f32[b,2] = aten::add_.Tensor(%s2, 1)
  return (%x)
})"),
            R"(graph(%x: f32[b,8]) {
  %s: f32[b,8] = aten::slice.Tensor(%x, 0, 0, 9223372036854775807, 1)
  %s2: f32[b,2] = aten::slice.Tensor(%s, 1, 1, 3, 1)
  %add_: f32[b,2] = aten::add.Tensor(%s2, 1, alpha=1)
  %s_1: f32[b,8] = aten::slice_scatter(%s, %add_, 1, 1, 3, 1)
  mutate input "x" = %s_1
  return (%s_1)
}
)");
}

TEST(AtenFunctionalize, WritesThroughTransposes) {
  EXPECT_EQ(functional(R"(graph(%a: f32[4,3]) {
  %x: f32[4,3] = aten::relu(%a)
  %t: f32[3,4] = aten::t(%x)
  %r: f32[4] = aten::select.int(%t, 0, 0)
  %z: f32[4] = aten::zero_(%r)
  %o: f32[3,4] = aten::exp(%t)
  return (%x, %o)
})"),
            R"(graph(%a: f32[4,3]) {
  %x: f32[4,3] = aten::relu(%a)
  %t: f32[3,4] = aten::t(%x)
  %r: f32[4] = aten::select.int(%t, 0, 0)
  %z: f32[4] = aten::zero(%r)
  %t_1: f32[3,4] = aten::select_scatter(%t, %z, 0, 0)
  %x_1: f32[4,3] = aten::t(%t_1)
  %o: f32[3,4] = aten::exp(%t_1)
  return (%x_1, %o)
}
)");
}

TEST(AtenFunctionalize, CopyOfTheSameTypeIsItsSource) {
  EXPECT_EQ(functional(R"(graph(%a: f32[4,3], %y: f32[4], %i: sym_int(i)) {
  %x: f32[4,3] = aten::clone(%a)
  %r: f32[4] = aten::select.int(%x, 1, %i)
  %z: f32[4] = aten::copy_(%r, %y)
  return (%x)
})"),
            R"(graph(%a: f32[4,3], %y: f32[4], %i: sym_int(i)) {
  %x: f32[4,3] = aten::clone(%a, memory_format=None)
  %x_1: f32[4,3] = aten::select_scatter(%x, %y, 1, %i)
  return (%x_1)
}
)");
}

TEST(AtenFunctionalize, BuffersAndReshapesWithSymbolicSizes) {
  EXPECT_EQ(functional(R"(graph(%a: f32[b,s,6]) constants(%n: i64[], %rm: f32[6]) {
  %n1: i64[] = aten::add_.Tensor(%n, 1)
  %v: f32[b,s,2,3] = aten::view(%a, [-1, 4, 2, 3])
  %m: f32[6] = aten::mean.dim(%a, [0, 1])
  %c: f32[6] = aten::copy_(%rm, %m)
  %f: f32[b,s,2,3] = aten::fill_.Scalar(%v, 2)
  %h: f32[b*s,6] = aten::reshape(%a, [-1, 6])
  %f2: f32[b*s,6] = aten::mul_.Scalar(%h, 2)
  return (%n, %v)
})"),
            R"(graph(%a: f32[b,s,6]) constants(%n: i64[], %rm: f32[6]) {
  %n1: i64[] = aten::add.Tensor(%n, 1, alpha=1)
  %v: f32[b,s,2,3] = aten::view(%a, [-1, 4, 2, 3])
  %m: f32[6] = aten::mean.dim(%a, [0, 1], False, dtype=None)
  %f: f32[b,s,2,3] = aten::fill.Scalar(%v, 2)
  %size: sym_int(b) = aten::sym_size.int(%a, 0)
  %size_1: sym_int(s) = aten::sym_size.int(%a, 1)
  %a_1: f32[b,s,6] = aten::reshape(%f, [%size, %size_1, 6])
  %h: f32[b*s,6] = aten::reshape(%a_1, [-1, 6])
  %f2: f32[b*s,6] = aten::mul.Scalar(%h, 2)
  %size_2: sym_int(b) = aten::sym_size.int(%a_1, 0)
  %size_3: sym_int(s) = aten::sym_size.int(%a_1, 1)
  %a_2: f32[b,s,6] = aten::reshape(%f2, [%size_2, %size_3, 6])
  %v_1: f32[b,s,2,3] = aten::view(%a_2, [-1, 4, 2, 3])
  mutate "n" = %n1
  mutate "rm" = %m
  mutate input "a" = %a_2
  return (%n1, %v_1)
}
)");
}

TEST(AtenFunctionalize, DtypesAreThoseOfTheWrittenTensor) {
  EXPECT_EQ(functional(R"(graph(%a: f32[2,3], %h: f16[2,3], %b: bool[2,3]) {
  %x: f16[2,3] = aten::clone(%h)
  %w: f16[2,3] = aten::add_.Tensor(%x, %a)
  %e: f32[2,3] = aten::empty_like(%a)
  %g: f32[2,3] = aten::gt.Tensor_out(%a, %w, out=%e)
  %m: f16[2,3] = aten::masked_fill_.Scalar(%x, %b, -inf)
  return (%x, %e)
})"),
            R"(graph(%a: f32[2,3], %h: f16[2,3], %b: bool[2,3]) {
  %x: f16[2,3] = aten::clone(%h, memory_format=None)
  %w_1: f32[2,3] = aten::add.Tensor(%x, %a, alpha=1)
  %w: f16[2,3] = aten::to.dtype(%w_1, f16, False, False, None)
  %g_1: bool[2,3] = aten::gt.Tensor(%a, %w)
  %g: f32[2,3] = aten::to.dtype(%g_1, f32, False, False, None)
  %m: f16[2,3] = aten::masked_fill.Scalar(%w, %b, -inf)
  return (%m, %g)
}
)");
}

TEST(AtenFunctionalize, RealResultsInComplexOuts) {
  EXPECT_EQ(functional(R"(graph(%a: c64[3]) {
  %e: c64[0] = aten::empty.memory_format([0], c64)
  %r: c64[3] = aten::abs.out(%a, out=%e)
  return (%r)
})"),
            R"(graph(%a: c64[3]) {
  %r_1: f32[3] = aten::abs(%a)
  %r: c64[3] = aten::to.dtype(%r_1, c64, False, False, None)
  return (%r)
}
)");
}

TEST(AtenFunctionalize, SiblingsOfASplitAndUnsqueezeInPlace) {
  EXPECT_EQ(functional(R"(graph(%a: f32[8,3]) {
  %x: f32[8,3] = aten::clone(%a)
  %l: f32[4,3], %r: f32[4,3] = aten::split.Tensor(%x, 4)
  %w: f32[4,3] = aten::add_.Tensor(%l, %r)
  %w2: f32[4,3] = aten::mul_.Tensor(%r, %l)
  %u: f32[1,8,3] = aten::unsqueeze_(%x, 0)
  %v: f32[1,8,3] = aten::exp_(%x)
  return (%a, %x, %l)
})"),
            R"(graph(%a: f32[8,3]) {
  %x: f32[8,3] = aten::clone(%a, memory_format=None)
  %l: f32[4,3], %r: f32[4,3] = aten::split.Tensor(%x, 4, 0)
  %w: f32[4,3] = aten::add.Tensor(%l, %r, alpha=1)
  %x_1: f32[8,3] = aten::slice_scatter(%x, %w, 0, 0, 4, 1)
  %l_1: f32[4,3], %r_1: f32[4,3] = aten::split.Tensor(%x_1, 4, 0)
  %w2: f32[4,3] = aten::mul.Tensor(%r_1, %l_1)
  %x_2: f32[8,3] = aten::slice_scatter(%x_1, %w2, 0, 4, 8, 1)
  %u: f32[1,8,3] = aten::unsqueeze(%x_2, 0)
  %v: f32[1,8,3] = aten::exp(%u)
  %x_3: f32[8,3] = aten::reshape(%v, [8, 3])
  %l_2: f32[4,3], %r_2: f32[4,3] = aten::split.Tensor(%x_3, 4, 0)
  return (%a, %v, %l_2)
}
)");
}

// A damaged file may record any shape.
TEST(AtenFunctionalize, MeshgridOfTheWrongRankStays) {
  const std::string result = functional(R"(graph(%x: f32[2], %y: f32[3]) {
  %a: f32[2], %b: f32[2,3] = aten::meshgrid([%x, %y])
  return (%a, %b)
})");
  EXPECT_NE(result.find("aten::meshgrid"), std::string::npos) << result;
}

TEST(AtenFunctionalize, SubGraphsAreFunctionalized) {
  EXPECT_EQ(functional(R"(graph(%x: f32[2], %p: sym_bool) {
  %1: f32[2] = higher_order::cond(%p, graph(%a: f32[2]) {
    %c: f32[2] = aten::clone(%a)
    %b: f32[2] = aten::relu_(%c)
    return (%b)
  }, [%x])
  %n: none = aten::_assert_async.msg(%x, "s")
  return (%1)
})"),
            R"(graph(%x: f32[2], %p: sym_bool) {
  %1: f32[2] = higher_order::cond(%p, graph(%a: f32[2]) {
    %c: f32[2] = aten::clone(%a, memory_format=None)
    %b: f32[2] = aten::relu(%c)
    return (%b)
  }, [%x])
  return (%1)
}
)");
}

TEST(AtenFunctionalize, BranchesReturnWhatTheyWrite) {
  EXPECT_EQ(functional(R"(graph(%x: f32[2], %p: sym_bool) {
  %y: f32[2] = aten::clone(%x)
  higher_order::cond(%p, graph(%a: f32[2]) {
    %b: f32[2] = aten::relu_(%a)
    return ()
  }, graph(%a: f32[2]) {
    return ()
  }, [%y])
  return (%y)
})"),
            R"(graph(%x: f32[2], %p: sym_bool) {
  %y: f32[2] = aten::clone(%x, memory_format=None)
  %y_1: f32[2] = higher_order::cond(%p, graph(%a: f32[2]) {
    %b: f32[2] = aten::relu(%a)
    return (%b)
  }, graph(%a: f32[2]) {
    return (%a)
  }, [%y])
  return (%y_1)
}
)");
}

TEST(AtenFunctionalize, BranchesOfDamagedFiles) {
  EXPECT_NE(functional(R"(graph(%x: f32[2], %p: sym_bool) {
  %y: f32[2] = aten::neg_(%x)
  %z: f32[2] = higher_order::cond(%p, graph(%a: f32[2]) {
    return ()
  }, graph(%a: f32[2]) {
    return (%a)
  }, [%x])
  return (%z)
})")
                .find("return ()"),
            std::string::npos);
  expect_error(R"(graph(%p: sym_bool) {
  higher_order::cond(%p, graph(%a: f32[2]) {
    %b: f32[2] = aten::relu_(%a)
    return ()
  }, graph(%a: f32[2]) {
    return ()
  }, [2])
  return (%p)
})",
               "writes to an input that is not a tensor");
}

TEST(AtenFunctionalize, LoopsCarryWhatTheyWrite) {
  EXPECT_EQ(functional(R"(graph(%x: f32[n,2], %s: f32[]) {
  %y: f32[n,2] = aten::clone(%x)
  higher_order::for_loop(3, True, graph(%i: sym_int(i0), %b: f32[], %a: f32[n,2]) {
    %r: f32[2] = aten::select.int(%a, 0, %i)
    %w: f32[2] = aten::add_.Tensor(%r, %b)
    return (True)
  }, [], [%s, %y])
  return (%y)
})"),
            R"(graph(%x: f32[n,2], %s: f32[]) {
  %y: f32[n,2] = aten::clone(%x, memory_format=None)
  %y_1: f32[n,2] = higher_order::for_loop(3, True, graph(%i: sym_int(i0), %a: f32[n,2], %b: f32[]) {
    %r: f32[2] = aten::select.int(%a, 0, %i)
    %w: f32[2] = aten::add.Tensor(%r, %b, alpha=1)
    %a_1: f32[n,2] = aten::select_scatter(%a, %w, 0, %i)
    return (True, %a_1)
  }, [%y], [%s])
  return (%y_1)
}
)");
}

TEST(AtenFunctionalize, DiagonalNarrowAndOut) {
  EXPECT_EQ(functional(R"(graph(%x: f32[4,4], %y: f32[4], %i0: i64[4]) {
  %d: f32[4] = aten::diagonal(%x)
  %b: f32[4] = aten::relu_(%d)
  %n: f32[4,2] = aten::narrow(%x, 1, -3, 2)
  %b2: f32[4,2] = aten::sigmoid_(%n)
  %m: f32[4], %i: i64[4] = aten::max.dim_max(%x, 0, max=%y, max_values=%i0)
  return (%x)
})"),
            R"(graph(%x: f32[4,4], %y: f32[4], %i0: i64[4]) {
  %d: f32[4] = aten::diagonal(%x, 0, 0, 1)
  %b: f32[4] = aten::relu(%d)
  %x_1: f32[4,4] = aten::diagonal_scatter(%x, %b, 0, 0, 1)
  %n: f32[4,2] = aten::narrow(%x_1, 1, -3, 2)
  %b2: f32[4,2] = aten::sigmoid(%n)
  %x_2: f32[4,4] = aten::slice_scatter(%x_1, %b2, 1, -3, -1, 1)
  %m: f32[4], %i_1: tensor[4] = aten::max.dim(%x_2, 0, False)
  %i: i64[4] = aten::to.dtype(%i_1, i64, False, False, None)
  mutate input "x" = %x_2
  mutate input "y" = %m
  mutate input "i0" = %i
  return (%x_2)
}
)");
}

TEST(AtenFunctionalize, ContiguousAndReshapeCopyWhereStridesSaySo) {
  EXPECT_EQ(functional(R"(graph(%x: f32[5,3,8], %y: f32[5,8,3]) {
  %c: f32[5,3,8] = aten::clone(%x)
  %m: f32[3,8,5] = aten::movedim.intlist(%c, [0], [2])
  %s: f32[3,8,5] = aten::zero_(%m)
  %tr: f32[5,8,3] = aten::transpose.int(%c, 1, 2)
  %k: f32[5,8,3] = aten::contiguous(%tr)
  %w: f32[5,8,3] = aten::add_.Tensor(%k, %y)
  %r: f32[15,8] = aten::reshape(%tr, [-1, 8])
  %e: f32[15,8] = aten::exp_(%r)
  return (%c, %tr, %k, %r)
})"),
            R"(graph(%x: f32[5,3,8], %y: f32[5,8,3]) {
  %c: f32[5,3,8] = aten::clone(%x, memory_format=None)
  %m: f32[3,8,5] = aten::movedim.intlist(%c, [0], [2])
  %s: f32[3,8,5] = aten::zero(%m)
  %c_1: f32[5,3,8] = aten::permute(%s, [2, 0, 1])
  %tr: f32[5,8,3] = aten::transpose.int(%c_1, 1, 2)
  %k: f32[5,8,3] = aten::contiguous(%tr, memory_format="contiguous_format")
  %w: f32[5,8,3] = aten::add.Tensor(%k, %y, alpha=1)
  %r: f32[15,8] = aten::reshape(%tr, [-1, 8])
  %e: f32[15,8] = aten::exp(%r)
  return (%c_1, %tr, %w, %e)
}
)");
}

// contiguous() copies unless a size of 1 makes the transpose contiguous already.
TEST(AtenFunctionalize, SizesDecideWhetherContiguousCopies) {
  EXPECT_EQ(functional(R"(graph(%x: f32[n,m]) {
  %c: f32[n,m] = aten::clone(%x)
  %t: f32[m,n] = aten::t(%c)
  %k: f32[m,n] = aten::contiguous(%t)
  %w: f32[m,n] = aten::relu_(%k)
  return (%c, %k)
})"),
            R"(graph(%x: f32[n,m]) {
  %c: f32[n,m] = aten::clone(%x, memory_format=None)
  %t: f32[m,n] = aten::t(%c)
  %k: f32[m,n] = aten::contiguous(%t, memory_format="contiguous_format")
  %w: f32[m,n] = aten::relu(%k)
  %size: sym_int(m) = onnx_native::size()
  %size_1: sym_bool = python::eq(%size, 1)
  %size_2: sym_int(n) = onnx_native::size()
  %size_3: sym_bool = python::eq(%size_2, 1)
  %size_4: sym_bool = python::or_(%size_1, %size_3)
  %t_1: f32[m,n] = aten::where.self(%size_4, %w, %t)
  %c_1: f32[n,m] = aten::t(%t_1)
  return (%c_1, %w)
}
)");
}

TEST(AtenFunctionalize, StepsAndChunks) {
  EXPECT_EQ(functional(R"(graph(%x: f32[6], %m: bool[6], %v: f32[6]) {
  %c: f32[6] = aten::clone(%x)
  %s: f32[3] = aten::slice.Tensor(%c, 0, 0, 9223372036854775807, 2)
  %f: f32[3] = aten::fill_.Scalar(%s, 1)
  %all: f32[6] = aten::slice.Tensor(%c, 0, 0, 9223372036854775807, 1)
  %w: f32[6] = aten::where.self(%m, %v, %c)
  %cp: f32[6] = aten::copy_(%all, %w)
  %a: f32[2], %b: f32[2], %d: f32[2] = aten::chunk(%c, 3)
  %bz: f32[2] = aten::mul_.Tensor(%b, %a)
  %z: f32[2] = aten::relu(%d)
  return (%c, %z)
})"),
            R"(graph(%x: f32[6], %m: bool[6], %v: f32[6]) {
  %c: f32[6] = aten::clone(%x, memory_format=None)
  %s: f32[3] = aten::slice.Tensor(%c, 0, 0, 9223372036854775807, 2)
  %f: f32[3] = aten::fill.Scalar(%s, 1)
  %c_1: f32[6] = aten::slice_scatter(%c, %f, 0, 0, 9223372036854775807, 2)
  %w: f32[6] = aten::where.self(%m, %v, %c_1)
  %a: f32[2], %b: f32[2], %d: f32[2] = aten::chunk(%w, 3, 0)
  %bz: f32[2] = aten::mul.Tensor(%b, %a)
  %c_2: f32[6] = aten::slice_scatter(%w, %bz, 0, 2, 4, 1)
  %a_1: f32[2], %b_1: f32[2], %d_1: f32[2] = aten::chunk(%c_2, 3, 0)
  %z: f32[2] = aten::relu(%d_1)
  return (%c_2, %z)
}
)");
}

TEST(AtenFunctionalize, DetachUnbindAsStridedFlatten) {
  EXPECT_EQ(functional(R"(graph(%x: f32[2,3]) {
  %d: f32[2,3] = aten::detach(%x)
  %u0: f32[3], %u1: f32[3] = aten::unbind.int(%d)
  %w: f32[3] = aten::sigmoid_(%u1)
  %st: f32[2] = aten::as_strided(%x, [2], [3], 1)
  %w2: f32[2] = aten::neg_(%st)
  %fl: f32[6] = aten::flatten.using_ints(%x)
  %w3: f32[6] = aten::clamp_(%fl, 0, 1)
  %o: f32[3] = aten::exp(%u0)
  return (%o)
})"),
            R"(graph(%x: f32[2,3]) {
  %d: f32[2,3] = aten::detach(%x)
  %u0: f32[3], %u1: f32[3] = aten::unbind.int(%d, 0)
  %w: f32[3] = aten::sigmoid(%u1)
  %d_1: f32[2,3] = aten::select_scatter(%d, %w, 0, 1)
  %st: f32[2] = aten::as_strided(%d_1, [2], [3], 1)
  %w2: f32[2] = aten::neg(%st)
  %x_1: f32[2,3] = aten::as_strided_scatter(%d_1, %w2, [2], [3], 1)
  %fl: f32[6] = aten::flatten.using_ints(%x_1, 0, -1)
  %w3: f32[6] = aten::clamp(%fl, 0, 1)
  %x_2: f32[2,3] = aten::reshape(%w3, [2, 3])
  %u0_1: f32[3], %u1_1: f32[3] = aten::unbind.int(%x_2, 0)
  %o: f32[3] = aten::exp(%u0_1)
  mutate input "x" = %x_2
  return (%o)
}
)");
}

TEST(AtenFunctionalize, CopyConverts) {
  EXPECT_EQ(functional(R"(graph(%x: f32[4,1,3], %h: f16[3]) {
  %c: f32[4,1,3] = aten::relu(%x)
  %s: f32[4,3] = aten::squeeze.dim(%c, 1)
  %r: f32[3] = aten::select.int(%s, 0, -1)
  %w: f32[3] = aten::copy_(%r, %h)
  return (%s)
})"),
            R"(graph(%x: f32[4,1,3], %h: f16[3]) {
  %c: f32[4,1,3] = aten::relu(%x)
  %s: f32[4,3] = aten::squeeze.dim(%c, 1)
  %r: f32[3] = aten::select.int(%s, 0, -1)
  %w: f32[3] = aten::copy(%r, %h, False)
  %s_1: f32[4,3] = aten::select_scatter(%s, %w, 0, -1)
  return (%s_1)
}
)");
}

TEST(AtenFunctionalize, ListsOutAndComparisons) {
  EXPECT_EQ(functional(R"(graph(%x: f32[2], %y: f32[2]) {
  %a: f32[2] = aten::relu(%x)
  %b: f32[2] = aten::relu(%y)
  aten::_foreach_add_.Scalar([%a, %b], 1)
  %e: f32[0] = aten::empty.memory_format([0])
  %o: f32[2] = aten::add.out(%a, %b, out=%e)
  %q: bool[2] = aten::gt.Scalar(%a, 0)
  %q2: bool[2] = aten::logical_not_(%q)
  %g: f32[2] = aten::gt_.Scalar(%a, 0)
  return (%a, %b, %e, %q)
})"),
            R"(graph(%x: f32[2], %y: f32[2]) {
  %a: f32[2] = aten::relu(%x)
  %b: f32[2] = aten::relu(%y)
  %a_1: f32[2], %b_1: f32[2] = aten::_foreach_add.Scalar([%a, %b], 1)
  %o: f32[2] = aten::add.Tensor(%a_1, %b_1, alpha=1)
  %q: bool[2] = aten::gt.Scalar(%a_1, 0)
  %q2: bool[2] = aten::logical_not(%q)
  %g_1: bool[2] = aten::gt.Scalar(%a_1, 0)
  %g: f32[2] = aten::to.dtype(%g_1, f32, False, False, None)
  return (%g, %b_1, %o, %q2)
}
)");
}

TEST(AtenFunctionalize, AnEmptyListIsNotWritten) {
  EXPECT_EQ(functional(R"(graph(%x: f32[2]) {
  aten::_foreach_add_.Scalar([], 1)
  return (%x)
})"),
            R"(graph(%x: f32[2]) {
  return (%x)
}
)");
}

TEST(AtenFunctionalize, ToIsTheSameTensorUnlessItConverts) {
  EXPECT_EQ(functional(R"(graph(%x: f32[2], %y: f32[2], %h: f16[2]) {
  %a: f16[2] = aten::to.dtype(%x, f16)
  %w: f16[2] = aten::relu_(%a)
  %b: f32[2] = aten::to.dtype(%y, f32)
  %w2: f32[2] = aten::relu_(%b)
  return (%a)
})"),
            R"(graph(%x: f32[2], %y: f32[2], %h: f16[2]) {
  %a: f16[2] = aten::to.dtype(%x, f16, False, False, None)
  %w: f16[2] = aten::relu(%a)
  %w2: f32[2] = aten::relu(%y)
  mutate input "y" = %w2
  return (%w)
}
)");
}

TEST(AtenFunctionalize, ComplexAsReal) {
  EXPECT_EQ(functional(R"(graph(%c: c64[2]) {
  %k: c64[2] = aten::clone(%c)
  %r: f32[2,2] = aten::view_as_real(%k)
  %s: f32[2] = aten::select.int(%r, 1, 0)
  %w: f32[2] = aten::zero_(%s)
  return (%k)
})"),
            R"(graph(%c: c64[2]) {
  %k: c64[2] = aten::clone(%c, memory_format=None)
  %r: f32[2,2] = aten::view_as_real(%k)
  %s: f32[2] = aten::select.int(%r, 1, 0)
  %w: f32[2] = aten::zero(%s)
  %r_1: f32[2,2] = aten::select_scatter(%r, %w, 1, 0)
  %k_1: c64[2] = aten::view_as_complex(%r_1)
  return (%k_1)
}
)");
}

TEST(AtenFunctionalize, TransposeInPlace) {
  EXPECT_EQ(functional(R"(graph(%x: f32[2,3]) {
  %y: f32[2,3] = aten::clone(%x)
  %t: f32[3,2] = aten::t_(%y)
  %w: f32[3,2] = aten::relu_(%y)
  %v: f32[2] = aten::select.int(%t, 0, 0)
  %z: f32[2] = aten::zero_(%v)
  return (%y)
})"),
            R"(graph(%x: f32[2,3]) {
  %y: f32[2,3] = aten::clone(%x, memory_format=None)
  %t: f32[3,2] = aten::t(%y)
  %w: f32[3,2] = aten::relu(%t)
  %v: f32[2] = aten::select.int(%w, 0, 0)
  %z: f32[2] = aten::zero(%v)
  %t_1: f32[3,2] = aten::select_scatter(%w, %z, 0, 0)
  return (%t_1)
}
)");
}

TEST(AtenFunctionalize, RandomFills) {
  EXPECT_EQ(functional(R"(graph(%x: f32[2,3]) {
  %y: f32[2,3] = aten::clone(%x)
  %z: f32[2,3] = aten::bernoulli_.float(%y, 0.5)
  %z1: f32[2,3] = aten::normal_(%y)
  %z2: f32[2,3] = aten::uniform_(%y, 0, 1)
  return (%y)
})"),
            R"(graph(%x: f32[2,3]) {
  %y: f32[2,3] = aten::clone(%x, memory_format=None)
  %z: f32[2,3] = aten::bernoulli.p(%y, 0.5, generator=None)
  %z1: f32[2,3] = aten::normal_functional(%z, 0.0, 1.0, generator=None)
  %z2: f32[2,3] = aten::uniform(%z1, 0, 1, generator=None)
  return (%z2)
}
)");
}

TEST(AtenFunctionalize, GraphsWithoutWritesStayAsTheyAre) {
  EXPECT_EQ(functional(R"(graph(%x: f32[2,3]) {
  %t: f32[3,2] = aten::t(%x)
  %n: none = aten::_assert_async.msg(%x, "message")
  aten::sym_constrain_range_for_size(1, min=None, max=None)
  %u: f32[3,2] = aten::relu(%t)
  return (%t)
})"),
            R"(graph(%x: f32[2,3]) {
  %t: f32[3,2] = aten::t(%x)
  %u: f32[3,2] = aten::relu(%t)
  return (%t)
}
)");
}

TEST(AtenFunctionalize, DropoutInEvaluationIsItsInput) {
  EXPECT_EQ(functional(R"(graph(%x: f32[2]) {
  %c: f32[2] = aten::relu(%x)
  %d: f32[2] = aten::dropout(%c, 0.5, False)
  %w: f32[2] = aten::exp_(%d)
  return (%c)
})"),
            R"(graph(%x: f32[2]) {
  %c: f32[2] = aten::relu(%x)
  %w: f32[2] = aten::exp(%c)
  return (%w)
}
)");
}

TEST(AtenFunctionalize, OverlappingSourceAndDestination) {
  EXPECT_EQ(functional(R"(graph(%x: f32[4]) {
  %c: f32[4] = aten::clone(%x)
  %a: f32[3] = aten::slice.Tensor(%c, 0, 1)
  %b: f32[3] = aten::slice.Tensor(%c, 0, 0, -1)
  %w: f32[3] = aten::copy_(%a, %b)
  %s: f32[3] = aten::add_.Tensor(%a, %b)
  return (%c)
})"),
            R"(graph(%x: f32[4]) {
  %c: f32[4] = aten::clone(%x, memory_format=None)
  %b: f32[3] = aten::slice.Tensor(%c, 0, 0, -1, 1)
  %c_1: f32[4] = aten::slice_scatter(%c, %b, 0, 1, None, 1)
  %b_1: f32[3] = aten::slice.Tensor(%c_1, 0, 0, -1, 1)
  %s: f32[3] = aten::add.Tensor(%b, %b_1, alpha=1)
  %c_2: f32[4] = aten::slice_scatter(%c_1, %s, 0, 1, None, 1)
  return (%c_2)
}
)");
}

TEST(AtenFunctionalize, ManyWritesKeepNamesShort) {
  std::string text = "graph(%x: f32[4]) {\n  %v: f32[2,2] = aten::view(%x, [2, 2])\n";
  for (int i = 0; i < 1000; ++i) {
    text += concat("  %w", i, ": f32[2,2] = aten::add_.Tensor(%v, 1)\n");
  }
  const std::string result = functional(text + "  return (%x)\n}");
  EXPECT_NE(result.find("%x_1000: f32[4] = aten::reshape(%w999, [4])"), std::string::npos);
}

TEST(AtenFunctionalize, UnknownStridesMatterOnlyWhenTheOtherIsUsed) {
  const std::string text = R"(graph(%a: f32[2,3], %c: f32[3,2]) {
  %p: f32[3,2] = aten::permute(%a, [1, 0])
  %y: f32[3,2] = aten::add.Tensor(%p, %c)
  %q: f32[6] = aten::reshape(%y, [6])
  %w: f32[6] = aten::exp_(%q)
)";
  EXPECT_NE(functional(text + "  return (%q)\n}").find("return (%w)"), std::string::npos);
  expect_error(text + "  return (%y)\n}",
               "a write to memory that %y may share: whether aten::reshape made a copy depends on "
               "unknown strides");
}

TEST(AtenFunctionalize, ResizesToFewerElements) {
  const std::string text = functional(R"(graph(%a: f32[n,3], %b: f32[4]) {
  %c: f32[n,3] = aten::clone(%a)
  %w: f32[n,1,2] = aten::resize_(%c, [2, 1, 2])
  %d: f32[4] = aten::clone(%b)
  %v: f32[2] = aten::resize_as_(%d, %b)
  %x: f32[4] = aten::add_.Tensor(%d, 1)
  return (%c, %d)
})");
  EXPECT_NE(text.find("aten::as_strided(%c, [2, 1, 2], [2, 2, 1], 0)"), std::string::npos) << text;
}

TEST(AtenFunctionalize, Errors) {
  expect_error(R"(graph(%a: f32[4,3]) {
  %l: i32[4,3] = aten::view.dtype(%a, i32)
  %w: i32[4,3] = aten::add_.Tensor(%l, 1)
  return (%a)
})",
               "cannot write through aten::view.dtype; write to a clone() instead\n  %l: i32[4,3] "
               "= aten::view.dtype(%a: f32[4,3]");
  expect_error(R"(graph(%a: f32[4,3]) {
  %w: f32[5,4] = aten::resize_(%a, [5, 4])
  return (%a)
})",
               "cannot resize to more elements");
  expect_error(R"(graph(%a: f32[3,4]) {
  %l: f32[3,3] = aten::linalg_inv(%a)
  %u: f32[3] = aten::select.int(%l, 0, 1)
  %s: f32[2] = aten::as_strided(%u, [2], [2])
  %w: f32[2] = aten::zero_(%s)
  return (%l)
})",
               "cannot export as_strided with unknown strides");
  expect_error(R"(graph(%x: f32[2], %p: sym_bool) {
  %1: f32[2] = higher_order::cond(%p, graph(%a: f32[2]) {
    %b: f32[2] = aten::relu_(%a)
    return (%b)
  }, [%x])
  return (%1)
})",
               "a branch or loop body writes to its input %a");
  expect_error(R"(graph(%a: f32[2]) {
  %w: f32[2] = aten::relu_(2.5)
  return (%w)
})",
               "aten::relu_ writes to an argument that is not a tensor");
}

TEST(AtenFunctionalize, ErrorsSayWhere) {
  const auto graph = parse(R"(graph(%a: f32[4]) {
  %w: f32[5] = aten::resize_(%a, [5])
  return (%a)
})");
  graph->nodes[0]->location = graph->add_location({.source = "model.py:42", .module_path = "net"});
  try {
    functionalize(*graph);
    FAIL();
  } catch (const ExportError& error) {
    EXPECT_NE(std::string(error.what()).find("\n  at model.py:42\n  in net"), std::string::npos);
  }
}

}  // namespace
}  // namespace onnx_native::aten
