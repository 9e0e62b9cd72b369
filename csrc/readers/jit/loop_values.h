// What a loop carries from step to step, found by reading its body again and again.
#pragma once

#include <optional>
#include <vector>

#include "readers/jit/item_types.h"
#include "readers/jit/open_list.h"

namespace onnx_native::readers::jit {

// Loops reads; this decides what has to be carried, and of which types.
class LoopValues {
 protected:
  explicit LoopValues(Interpreter& run) : run_(run), recorder_(run.recorder()) {}
  ~LoopValues() = default;

  // Whether a type's size is a name of the body's own.
  using Renamed = std::vector<bool>;
  // One tensor or number that the loop may change.
  struct Leaf {
    Item initial;
    bool carried = false;
    aten::Type type = {};
    Renamed renamed = {};
    bool contiguous = false;  // whenever a step begins, and at the end
    aten::Value* input = nullptr;
  };
  // What the program carries by name. A list or dict that stays the same one is changed, not
  // carried.
  struct Carried {
    Item initial;
    bool same = false;
    bool grows = false;  // an open list, carried by its columns
    size_t first_leaf = 0, leaves = 0;
  };
  // A list, dict or object from before the loop that the loop changes.
  struct Changed {
    enum class Mode {
      elements,  // it keeps its length: its elements are carried
      stacked,   // what is appended is stacked by the Loop
      growing,   // an open list, whose columns are carried
    };
    ContainerPtr container;
    Mode mode = Mode::elements;
    size_t first_leaf = 0, leaves = 0;
    Container::Contents before;
    Items places = {};                    // for its elements, or for the list if it grows
    std::optional<OpenList> format = {};  // of a list: with what a step appends
    size_t appended = 0;                  // in a step
  };
  using Mode = Changed::Mode;

  void add_leaves(Carried& carried);
  // Looks at what the body did; false when it has to be read again.
  bool settle();
  // A carried item over these leaves.
  Item of_leaves(const Carried& carried, const Items& leaves) const;
  // The item's leaves, as the carried one has them.
  Items leaves_of(const Carried& carried, const Item& item) const;
  static Items leaves_of(const Changed& changed, const Items& items);
  static Items rebuilt_all(const Items& places, const Items& leaves, size_t& next);
  // Carries the columns of a list.
  void grow(Changed& changed);

  Interpreter& run_;
  Recorder& recorder_;
  std::vector<Carried> carried_;
  std::vector<Leaf> leaves_;
  std::vector<Changed> changed_;
  // Of the last reading of the body.
  Frame frame_;
  Items results_;
  std::vector<Interpreter::Change> changes_;
  bool failed_ = false;

 private:
  void add_leaves(Changed& changed);
  Item open_item(const Container::Contents& list, const OpenList& format);
  // Has a list after a step in the columns of what is carried. False when those do not do: then
  // there are others.
  bool settle_list(Item& place, Container::Contents& after);
  // Whether the columns are those of the format: sizes that they take for known are.
  bool fits(const OpenList& list, const OpenList& format) const;
  bool settle(Carried& carried, Item& after);
  // Carries what another object takes the place of.
  void carry(Carried& carried, const Item& after);
  bool settle(Leaf& leaf, const Item& after);
  bool is_contiguous(const Item& item) const;
  // Lets a carried value be of this type too; false when it was not yet.
  bool widen(Leaf& leaf, const aten::Type& now);
  bool has_inner(const Item& item) const;
  bool settle(Interpreter::Change& change);
  // The format of a list and of what a step has made of it.
  std::optional<OpenList> format_with(const Changed& changed, const Container::Contents& now);
  // Whether a Loop can stack what is appended: all of it has the same sizes.
  static bool is_scanned(const Changed& changed);
  // A container that the body is seen to change for the first time.
  void add(const Interpreter::Change& change);
  // For an item that was seen to need more room; the leaves that it had are no more.
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
