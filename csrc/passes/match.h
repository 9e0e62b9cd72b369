// Patterns of ONNX values, in the manner of LLVM's PatternMatch.h. A pattern reads like the
// computation that it matches:
//
//   Var x, epsilon;
//   const auto mean = op("ReduceMean", any_of(op("Mul", x, x), op("Pow", x, number(2))),
//   last_axis); const auto root = op("Sqrt", commutative("Add", mean, constant(epsilon))); if
//   (matches(value, any_of(commutative("Mul", x, op("Reciprocal", root)), op("Div", x, root))))
//
// Matching backtracks: if a later part fails, the other operand order and the other spellings of
// the earlier parts are tried. So the order of the parts does not matter. A pattern is a value that
// refers to the Vars in it, which must outlive it.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/weight.h"
#include "onnx/graph.h"

namespace onnx_native::passes::match {

using onnx::Node;
using onnx::Value;

// The rest of a match: a non-owning reference to a function. Returns true if the rest matches too.
class Next {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Next>)
      Next(F&& rest)  // NOLINT(google-explicit-constructor)
      : rest_(const_cast<void*>(static_cast<const void*>(std::addressof(rest)))),
        call_([](void* f) { return (*static_cast<std::remove_reference_t<F>*>(f))(); }) {}
  bool operator()() const { return call_(rest_); }

 private:
  void* rest_;
  bool (*call_)(void*);
};

// The number of uses of values, counted when first asked for.
class Uses {
 public:
  explicit Uses(onnx::Model& model) : model_(model) {}
  int64_t of(const Value* value) {
    if (!counted_) counted_ = onnx::count_uses(*model_.graph);
    const auto found = counted_->find(value);
    return found == counted_->end() ? 0 : found->second;
  }

 private:
  onnx::Model& model_;
  std::optional<std::unordered_map<const Value*, int64_t>> counted_;
};

// A captured value. It matches any value at its first occurrence and that same value at the others.
class Var {
 public:
  Var() = default;
  Var(const Var&) = delete;
  Var& operator=(const Var&) = delete;

  operator Value*() const { return value_; }  // NOLINT(google-explicit-constructor)
  Value* operator->() const { return value_; }
  Value& operator*() const { return *value_; }

 private:
  friend struct Captured;
  Value* value_ = nullptr;  // nullptr: not bound
};

struct Captured {
  Var* var;
  bool match(Value* value, Next next) const {
    if (var->value_) return var->value_ == value && next();
    var->value_ = value;
    if (next()) return true;
    var->value_ = nullptr;
    return false;
  }
};

inline Captured pattern(Var& var) { return {&var}; }
template <class P>
P pattern(P given) {
  return given;
}
template <class P>
using PatternOf = decltype(pattern(std::declval<P>()));

// Matches what `inner` matches, if `holds` is true for the value.
template <class P, class Predicate>
struct Checked {
  P inner;
  Predicate holds;
  bool match(Value* value, Next next) const { return holds(*value) && inner.match(value, next); }
};
template <class P, class Predicate>
auto where(P&& inner, Predicate holds) {
  return Checked<PatternOf<P>, Predicate>{pattern(std::forward<P>(inner)), std::move(holds)};
}

struct Anything {
  bool match(Value*, Next next) const { return next(); }
};
inline constexpr Anything any;

// Matches the first output of a node of the ai.onnx domain with exactly these inputs.
template <class... Ps>
struct Operator {
  std::string_view op_type;
  std::tuple<Ps...> operands;
  bool commutes = false;

  bool match(Value* value, Next next) const {
    const Node* node = value->producer;
    if (!node || !node->is(op_type)) return false;
    if (node->inputs.size() != sizeof...(Ps) || node->outputs[0] != value) return false;
    if (match_from<0>(*node, false, next)) return true;
    return commutes && match_from<0>(*node, true, next);
  }

  // Requires an attribute to have this value, where `otherwise` stands for an absent one.
  auto with(std::string_view name, int64_t wanted, int64_t otherwise) const {
    return where(*this, [=](const Value& value) {
      return value.producer && value.producer->attribute(name)
                 ? value.producer->attribute_int(name, otherwise) == wanted
                 : wanted == otherwise;
    });
  }

 private:
  template <size_t I>
  bool match_from(const Node& node, bool swapped, Next next) const {
    if constexpr (I == sizeof...(Ps)) {
      return next();
    } else {
      Value* input = node.inputs[swapped ? sizeof...(Ps) - 1 - I : I];
      return input && std::get<I>(operands).match(
                          input, [&] { return match_from<I + 1>(node, swapped, next); });
    }
  }
};

template <class... Ps>
auto op(std::string_view op_type, Ps&&... operands) {
  return Operator<PatternOf<Ps>...>{op_type, {pattern(std::forward<Ps>(operands))...}};
}
// Matches the two operands in either order.
template <class P, class Q>
auto commutative(std::string_view op_type, P&& a, Q&& b) {
  return Operator<PatternOf<P>, PatternOf<Q>>{
      op_type, {pattern(std::forward<P>(a)), pattern(std::forward<Q>(b))}, true};
}
template <class P, class Q>
auto add(P&& a, Q&& b) {
  return commutative("Add", std::forward<P>(a), std::forward<Q>(b));
}
template <class P, class Q>
auto mul(P&& a, Q&& b) {
  return commutative("Mul", std::forward<P>(a), std::forward<Q>(b));
}

// Matches one of several spellings.
template <class... Ps>
struct AnyOf {
  std::tuple<Ps...> spellings;
  bool match(Value* value, Next next) const {
    return std::apply([&](const auto&... each) { return (each.match(value, next) || ...); },
                      spellings);
  }
};
template <class... Ps>
auto any_of(Ps&&... spellings) {
  return AnyOf<PatternOf<Ps>...>{{pattern(std::forward<Ps>(spellings))...}};
}

// Matches what both patterns match: both(var, p) captures what p matches.
template <class P, class Q>
struct Both {
  P first;
  Q second;
  bool match(Value* value, Next next) const {
    return first.match(value, [&] { return second.match(value, next); });
  }
};
template <class P, class Q>
auto both(P&& first, Q&& second) {
  return Both<PatternOf<P>, PatternOf<Q>>{pattern(std::forward<P>(first)),
                                          pattern(std::forward<Q>(second))};
}

// Matches a product of three factors, in any order and association.
template <class P, class Q, class R>
auto product(P&& a, Q&& b, R&& c) {
  return any_of(mul(a, mul(b, c)), mul(b, mul(a, c)), mul(c, mul(a, b)));
}

// Matches a value that has no other use.
template <class P>
auto once(Uses& uses, P&& inner) {
  return where(std::forward<P>(inner),
               [&uses](const Value& value) { return uses.of(&value) == 1; });
}

// Matches a conversion between floating dtypes.
template <class P>
auto cast(P&& inner) {
  return where(op("Cast", std::forward<P>(inner)), [](const Value& value) {
    const Node* node = value.producer;
    return is_floating(value.dtype) && node && node->input(0) &&
           is_floating(node->inputs[0]->dtype);
  });
}
// Matches a value with no other use, which may be converted.
template <class P>
auto maybe_cast(Uses& uses, P&& inner) {
  const auto unshared = once(uses, inner);
  return any_of(unshared, once(uses, cast(unshared)));
}

inline bool is_fixed(const Value& value) {
  return value.constant && !can_change(*value.constant) && value.dtype != DType::string;
}
inline bool is_scalar(const Value& value) {
  return is_fixed(value) && value.constant->numel() == 1;
}
inline double to_number(const Value& value) { return value.constant->number(0); }

// Returns the relative error of a number that is rounded to this dtype.
inline double rounding_of(DType dtype) {
  if (dtype == DType::f16) return 1e-3;
  if (dtype == DType::bf16) return 1e-2;
  return dtype == DType::f64 ? 1e-12 : 1e-6;
}

// Matches a constant of one element that is this number, up to the rounding of its dtype.
inline auto number(double wanted) {
  return where(any, [wanted](const Value& value) {
    return is_scalar(value) &&
           std::abs(to_number(value) - wanted) <= std::abs(wanted) * rounding_of(value.dtype);
  });
}
// Matches a constant of one element, which to_number() reads.
inline auto constant(Var& number) {
  return where(number, [](const Value& value) { return is_scalar(value); });
}
// Matches integers whose elements are these.
inline auto integers(std::vector<int64_t> wanted) {
  return where(any, [wanted = std::move(wanted)](const Value& value) {
    return value.known_integers() == wanted;
  });
}

// Returns true if the value matches. Then all Vars of the pattern that took part are bound.
template <class P>
bool matches(Value* value, const P& wanted) {
  return wanted.match(value, [] { return true; });
}

}  // namespace onnx_native::passes::match
