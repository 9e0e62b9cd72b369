// Lists whose length the model computes.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "readers/jit/interpreter.h"

namespace onnx_native::readers::jit {

// A table: a row for each element of the list, a column for each leaf of its elements.
struct OpenList {
  // Parts of one tensor along an axis, `size` each; the last one may be shorter.
  struct Pieces {
    int64_t axis;
    Dim size, count;
  };
  // The tensors or numbers at one place of the elements. Their sizes are the same in all of them,
  // or the column is ragged.
  struct Column {
    aten::Type type;                // of one; the sizes of ragged ones may mean nothing
    aten::Value* values = nullptr;  // along the first axis; of ragged ones all numbers, flat
    aten::Value* sizes = nullptr;   // of ragged ones: i64[length, rank]
    bool ragged = false;
    std::optional<Pieces> pieces = {};  // of `values`, without a copy
  };
  Item element;  // without leaves
  std::vector<Column> columns;
};

// What holds the elements of both; its columns are without values. Sizes that the current graph
// does not know make a column ragged. nullopt where there are no elements. Throws
// ExportError(unsupported) where elements are of different kinds.
std::optional<OpenList> common_format(Interpreter& run, const Container::Contents& a,
                                      const Container::Contents& b);
// The list with such columns, or with ragged ones where its elements need them.
OpenListPtr opened(Interpreter& run, const Container::Contents& list, const OpenList& format);
// Whether both have the same columns, ragged or not.
bool same_columns(const OpenList& a, const OpenList& b);
// An element's leaves as tensors.
std::vector<aten::Value*> row(Interpreter& run, const OpenList& format, const Item& element);

Dim length(const OpenList& list);
Item element(Interpreter& run, const OpenList& list, const Item& index);
// list[begin:end], of numbers or None.
OpenListPtr sliced(Interpreter& run, const OpenList& list, const Item& begin, const Item& end,
                   int64_t step);
OpenListPtr reversed(Interpreter& run, const OpenList& list);
// list[:begin] + items + list[end:], where `end` is `count` elements after `begin`. A negative
// `begin` counts from the end.
Container::Contents spliced(Interpreter& run, const OpenList& list, const Item& begin,
                            int64_t count, Items items);
// The list so many times.
OpenListPtr repeated(Interpreter& run, const OpenList& list, const Dim& times);
// The elements of both lists, one of which at least is open.
Container::Contents joined(Interpreter& run, const Container::Contents& a,
                           const Container::Contents& b);

// The one column of a list of tensors or numbers.
const OpenList::Column& only_column(Interpreter& run, const OpenList& list);
// All elements along a new first axis; throws when the model runs where their sizes differ.
aten::Value* stacked(Interpreter& run, const OpenList& list);
// All elements along an axis that they have.
aten::Value* concatenated(Interpreter& run, const OpenList& list, int64_t dim);

// The tensors of the columns, and the list over others.
void columns_of(const OpenList& list, Items& leaves);
OpenListPtr with_columns(const OpenList& list, const Items& leaves, size_t& next);

}  // namespace onnx_native::readers::jit
