// Lists of data-dependent length.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "readers/jit/interpreter.h"

namespace onnx_native::readers::jit {

// A table with a row for each list element and a column for each leaf of the elements.
struct OpenList {
  // Slices of one tensor along an axis, `size` each; the last one may be shorter.
  struct Pieces {
    int64_t axis;
    Dim size, count;
  };
  // The tensors or numbers of one leaf across all elements. A column is ragged if their sizes can
  // differ.
  struct Column {
    aten::Type type;                // of one element; sizes of ragged columns may be meaningless
    aten::Value* values = nullptr;  // stacked on axis 0; if ragged, all elements flattened to 1-D
    aten::Value* sizes = nullptr;   // if ragged: i64[length, rank]
    bool ragged = false;
    std::optional<Pieces> pieces = {};  // `values` is split into these, without a copy
  };
  Item element;  // the structure of an element; its leaves are uninitialized
  std::vector<Column> columns;
};

// Returns a format for the elements of both lists; its columns have no values. A size that the
// current graph does not know makes a column ragged. Returns nullopt if there are no elements.
// Throws ExportError(unsupported) if the elements differ in structure or dtype.
std::optional<OpenList> common_format(Interpreter& run, const Container::Contents& a,
                                      const Container::Contents& b);
// Converts a list to these columns; a column becomes ragged if its elements need that.
OpenListPtr opened(Interpreter& run, const Container::Contents& list, const OpenList& format);
// Returns true if the same columns are ragged in both.
bool same_columns(const OpenList& a, const OpenList& b);
// Converts an element's leaves to tensors.
std::vector<aten::Value*> row(Interpreter& run, const OpenList& format, const Item& element);

Dim length(const OpenList& list);
Item element(Interpreter& run, const OpenList& list, const Item& index);
// list[begin:end:step]. The bounds are numbers or None.
OpenListPtr sliced(Interpreter& run, const OpenList& list, const Item& begin, const Item& end,
                   int64_t step);
OpenListPtr reversed(Interpreter& run, const OpenList& list);
// list[:begin] + items + list[begin + count:]. A negative `begin` counts from the end.
Container::Contents spliced(Interpreter& run, const OpenList& list, const Item& begin,
                            int64_t count, Items items);
// list * times
OpenListPtr repeated(Interpreter& run, const OpenList& list, const Dim& times);
// a + b. At least one of the lists is open.
Container::Contents joined(Interpreter& run, const Container::Contents& a,
                           const Container::Contents& b);

// Returns the only column of a list of tensors or numbers. Throws if the elements are tuples.
const OpenList::Column& only_column(Interpreter& run, const OpenList& list);
// Returns the numbers of a list, or of a list of lists of equal lengths, as one tensor.
aten::Value* table(Interpreter& run, const OpenList& list);
// Stacks all elements on a new axis 0. The model fails at run time if their sizes differ.
aten::Value* stacked(Interpreter& run, const OpenList& list);
// Concatenates all elements along an existing axis.
aten::Value* concatenated(Interpreter& run, const OpenList& list, int64_t dim);

// Appends the tensors of the columns, and rebuilds a list from others.
void columns_of(const OpenList& list, Items& leaves);
OpenListPtr with_columns(const OpenList& list, const Items& leaves, size_t& next);

}  // namespace onnx_native::readers::jit
