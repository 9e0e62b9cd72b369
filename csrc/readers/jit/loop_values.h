// Finds the loop-carried values of a loop by reading its body until their types are stable.
#pragma once

#include <optional>
#include <vector>

#include "readers/jit/item_types.h"
#include "readers/jit/open_list.h"

namespace onnx_native::readers::jit {

// Decides which values a loop carries, and their types. The derived class Loops reads the body.
class LoopValues {
 protected:
  explicit LoopValues(Interpreter& run) : run_(run), recorder_(run.recorder()) {}
  ~LoopValues() = default;

  // For each size of a type: true if it is a fresh symbol in the body.
  using Renamed = std::vector<bool>;
  // One tensor or number that the loop may change.
  struct Leaf {
    Item initial;
    bool carried = false;
    aten::Type type = {};
    Renamed renamed = {};
    bool contiguous = false;  // at the start of each iteration and at the end
    aten::Value* input = nullptr;
  };
  // A loop-carried variable of the program. A list or dict that stays the same object is not
  // carried; it is tracked as Changed.
  struct Carried {
    Item initial;
    bool same = false;
    bool grows = false;  // an open list, carried by its columns
    size_t first_leaf = 0, leaves = 0;
  };
  // A list, dict or object that existed before the loop and that the loop changes.
  struct Changed {
    enum class Mode {
      elements,  // fixed length; the elements are carried
      stacked,   // append only; Loop stacks the new elements as a scan output
      growing,   // an open list; its columns are carried
    };
    ContainerPtr container;
    Mode mode = Mode::elements;
    size_t first_leaf = 0, leaves = 0;
    Container::Contents before;
    Items places = {};                    // structure of the elements or the growing list
    std::optional<OpenList> format = {};  // of a list, including what an iteration appends
    size_t appended = 0;                  // number of elements per iteration
  };
  using Mode = Changed::Mode;

  void add_leaves(Carried& carried);
  // Checks the last reading of the body; returns false if it must be read again.
  bool settle();
  // Returns the carried item with these leaves.
  Item of_leaves(const Carried& carried, const Items& leaves) const;
  // Returns the item's leaves in the structure of the carried item.
  Items leaves_of(const Carried& carried, const Item& item) const;
  static Items leaves_of(const Changed& changed, const Items& items);
  static Items rebuilt_all(const Items& places, const Items& leaves, size_t& next);
  // Switches a list to carried columns.
  void grow(Changed& changed);

  Interpreter& run_;
  Recorder& recorder_;
  std::vector<Carried> carried_;
  std::vector<Leaf> leaves_;
  std::vector<Changed> changed_;
  // The results of the last reading of the body.
  Frame frame_;
  Items results_;
  std::vector<Interpreter::Change> changes_;
  bool failed_ = false;

 private:
  void add_leaves(Changed& changed);
  Item open_item(const Container::Contents& list, const OpenList& format);
  // Converts a list at the end of an iteration to the columns of the carried list. Returns false if
  // the columns do not fit; `place` then has new ones.
  bool settle_list(Item& place, Container::Contents& after);
  // Returns true if the same columns are ragged and all sizes known in `list` match the format.
  bool fits(const OpenList& list, const OpenList& format) const;
  bool settle(Carried& carried, Item& after);
  // Carries a container that the loop replaces with another object.
  void carry(Carried& carried, const Item& after);
  bool settle(Leaf& leaf, const Item& after);
  bool is_contiguous(const Item& item) const;
  // Widens the type of a carried value; returns false if the type changed.
  bool widen(Leaf& leaf, const aten::Type& now);
  bool has_inner(const Item& item) const;
  bool settle(Interpreter::Change& change);
  // Returns the common format of a list before the loop and after an iteration.
  std::optional<OpenList> format_with(const Changed& changed, const Container::Contents& now);
  // Returns true if Loop can stack the appended elements: no column is ragged.
  static bool is_scanned(const Changed& changed);
  // Adds a container when the body first changes it.
  void add(const Interpreter::Change& change);
  // Creates new leaves for an item whose structure was widened; clears the old ones.
  template <class T>
  void replace_leaves(T& carried) {
    for (size_t i = 0; i < carried.leaves; ++i) leaves_[carried.first_leaf + i] = {};
    add_leaves(carried);
  }

  template <class T>
  bool settle_leaves(const T& carried, const Items& after) {
    bool settled = true;
    for (size_t i = 0; i < after.size(); ++i)
      settled = settle(leaves_[carried.first_leaf + i], after[i]) && settled;
    return settled;
  }
};

}  // namespace onnx_native::readers::jit
