// Turns a lambda into a lowering: the lambda's parameters declare how to read the arguments.
//
// Parameters follow the ATen schema in order, with the types below. Trailing parameters may be
// omitted if they have no meaning in ONNX (device, layout, memory_format, generator, pin_memory
// ...) or if only their default is supported; any other value is then an error.
//
//   schema type            parameter
//   Tensor, Scalar         Value: a number becomes a 0-d tensor and promotes as a number
//   Tensor?                std::optional<Value>
//   Tensor[], Tensor?[]    Values, std::vector<std::optional<Value>>
//   int, SymInt            int64_t (a constant that fits in 32 bits), or Dim
//   int[], SymInt[]        Ints (constants that fit in 32 bits), or Shape
//   float, Scalar          Number: a constant, or computed by the model
//                          double, Scalar: must be constant
//   float[], Scalar[]      std::vector<Number>
//                          std::vector<double>, std::vector<Scalar>: must be constant
//   bool, bool[]           bool, std::vector<bool>
//   str                    std::string
//   ScalarType             DType
//   any type               Ignored
//   sub-graph              const aten::Graph&
//
// std::optional<T> binds to T?. A final `const Call&` parameter receives the call itself. Results:
// Value, Dim, Values (a list or several returns), std::array<Value, N>, or Results.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "ops/engine/call.h"

namespace onnx_native::ops {

// The parameter type for an argument that the lowering does not use.
struct Ignored {};

namespace binder {

template <class T>
struct Tag {};

inline Value read(Tag<Value>, const Call& c, size_t i) { return c.tensor(i); }
inline Values read(Tag<Values>, const Call& c, size_t i) { return c.tensors(i); }
inline std::vector<std::optional<Value>> read(Tag<std::vector<std::optional<Value>>>, const Call& c,
                                              size_t i) {
  return c.optional_tensors(i);
}
inline int64_t read(Tag<int64_t>, const Call& c, size_t i) { return c.integer(i); }
inline Dim read(Tag<Dim>, const Call& c, size_t i) { return c.dim(i); }
inline Ints read(Tag<Ints>, const Call& c, size_t i) { return c.integers(i); }
inline Shape read(Tag<Shape>, const Call& c, size_t i) { return c.shape(i); }
inline double read(Tag<double>, const Call& c, size_t i) { return c.number(i); }
inline std::vector<double> read(Tag<std::vector<double>>, const Call& c, size_t i) {
  return c.numbers(i);
}
inline bool read(Tag<bool>, const Call& c, size_t i) { return c.boolean(i); }
inline std::vector<bool> read(Tag<std::vector<bool>>, const Call& c, size_t i) {
  return c.booleans(i);
}
inline Number read(Tag<Number>, const Call& c, size_t i) { return c.any_number(i); }
inline std::vector<Number> read(Tag<std::vector<Number>>, const Call& c, size_t i) {
  return c.any_numbers(i);
}
inline Scalar read(Tag<Scalar>, const Call& c, size_t i) { return c.scalar(i); }
inline std::vector<Scalar> read(Tag<std::vector<Scalar>>, const Call& c, size_t i) {
  return c.scalars(i);
}
inline std::string read(Tag<std::string>, const Call& c, size_t i) { return c.string(i); }
inline DType read(Tag<DType>, const Call& c, size_t i) { return c.dtype(i); }
inline Ignored read(Tag<Ignored>, const Call&, size_t) { return {}; }
inline const aten::Graph& read(Tag<aten::Graph>, const Call& c, size_t i) { return c.body(i); }
template <class T>
std::optional<T> read(Tag<std::optional<T>>, const Call& c, size_t i) {
  if (c.is_none(i)) return std::nullopt;
  return read(Tag<T>{}, c, i);
}

inline Results results(Value v) { return {v}; }
inline Results results(Dim d) { return {Lowered(std::move(d))}; }
inline Results results(const Values& values) { return {values.begin(), values.end()}; }
template <size_t N>
Results results(const std::array<Value, N>& values) {
  return {values.begin(), values.end()};
}
inline Results results(Results r) { return r; }

// Returns the name of the parameter's kind. A test compares these names with the schemas.
template <class T>
constexpr std::string_view kind_name() {
  using U = std::remove_cvref_t<T>;
  if constexpr (std::is_same_v<U, Value>)
    return "Value";
  else if constexpr (std::is_same_v<U, std::optional<Value>>)
    return "Value?";
  else if constexpr (std::is_same_v<U, Values>)
    return "Values";
  else if constexpr (std::is_same_v<U, std::vector<std::optional<Value>>>)
    return "Value?[]";
  else if constexpr (std::is_same_v<U, int64_t>)
    return "int";
  else if constexpr (std::is_same_v<U, std::optional<int64_t>>)
    return "int?";
  else if constexpr (std::is_same_v<U, Dim>)
    return "Dim";
  else if constexpr (std::is_same_v<U, std::optional<Dim>>)
    return "Dim?";
  else if constexpr (std::is_same_v<U, Ints>)
    return "Ints";
  else if constexpr (std::is_same_v<U, std::optional<Ints>>)
    return "Ints?";
  else if constexpr (std::is_same_v<U, Shape>)
    return "Shape";
  else if constexpr (std::is_same_v<U, std::optional<Shape>>)
    return "Shape?";
  else if constexpr (std::is_same_v<U, double>)
    return "float";
  else if constexpr (std::is_same_v<U, std::optional<double>>)
    return "float?";
  else if constexpr (std::is_same_v<U, std::vector<double>>)
    return "float[]";
  else if constexpr (std::is_same_v<U, std::optional<std::vector<double>>>)
    return "float[]?";
  else if constexpr (std::is_same_v<U, bool>)
    return "bool";
  else if constexpr (std::is_same_v<U, std::optional<bool>>)
    return "bool?";
  else if constexpr (std::is_same_v<U, std::vector<bool>>)
    return "bool[]";
  else if constexpr (std::is_same_v<U, Number>)
    return "Number";
  else if constexpr (std::is_same_v<U, std::optional<Number>>)
    return "Number?";
  else if constexpr (std::is_same_v<U, std::vector<Number>>)
    return "Number[]";
  else if constexpr (std::is_same_v<U, Scalar>)
    return "Scalar";
  else if constexpr (std::is_same_v<U, std::optional<Scalar>>)
    return "Scalar?";
  else if constexpr (std::is_same_v<U, std::vector<Scalar>>)
    return "Scalar[]";
  else if constexpr (std::is_same_v<U, std::string>)
    return "str";
  else if constexpr (std::is_same_v<U, std::optional<std::string>>)
    return "str?";
  else if constexpr (std::is_same_v<U, DType>)
    return "DType";
  else if constexpr (std::is_same_v<U, std::optional<DType>>)
    return "DType?";
  else if constexpr (std::is_same_v<U, Ignored>)
    return "Ignored";
  else if constexpr (std::is_same_v<U, aten::Graph>)
    return "Graph";
  else
    static_assert(sizeof(U) == 0, "no binding for a parameter of this type");
}

template <class T>
struct Signature : Signature<decltype(&T::operator())> {};
template <class C, class R, class... P>
struct Signature<R (C::*)(Builder&, P...) const> {
  using Parameters = std::tuple<P...>;
};
template <class R, class... P>
struct Signature<R (*)(Builder&, P...)> {
  using Parameters = std::tuple<P...>;
};

template <class... P>
constexpr bool ends_with_call() {
  if constexpr (sizeof...(P) == 0)
    return false;
  else
    return std::is_same_v<std::tuple_element_t<sizeof...(P) - 1, std::tuple<P...>>, const Call&>;
}

}  // namespace binder

// A type-erased lowering and the kinds of its parameters.
struct Lowering {
  std::function<Results(const Call&)> run;
  std::vector<std::string_view> parameters;
};

// The promoted tensors among arguments [0, parameters) of a call. Numbers bound to a Value
// parameter take part in the promotion.
class Promoted {
 public:
  Promoted(const Call& call, Promote rule, const std::vector<std::string_view>& parameters);
  // Returns the promoted tensor of argument i; nullptr if the argument is not promoted.
  Value operator[](size_t i) const { return i < values_.size() ? values_[i] : nullptr; }

 private:
  std::vector<Value> values_;
};

// Throws ExportError(unsupported) if an argument after the lowering's parameters has a value that
// affects the result.
void check_unread_arguments(const Call& call, size_t parameters);

// The callable behind a Lowering: reads the arguments that the lambda declares, calls the lambda
// and collects its results.
template <class F, class Parameters>
class Bound;

template <class F, class... P>
class Bound<F, std::tuple<P...>> {
 public:
  static constexpr bool kWithCall = binder::ends_with_call<P...>();
  static constexpr size_t kCount = sizeof...(P) - (kWithCall ? 1 : 0);

  Bound(Promote rule, F function) : rule_(rule), function_(std::move(function)) {}

  static std::vector<std::string_view> parameters() { return parameters(Indices{}); }
  Results operator()(const Call& call) const { return invoke(call, Indices{}); }

 private:
  using Indices = std::make_index_sequence<kCount>;
  template <size_t I>
  using Parameter = std::remove_cvref_t<std::tuple_element_t<I, std::tuple<P...>>>;

  template <size_t... I>
  static std::vector<std::string_view> parameters(std::index_sequence<I...>) {
    return {binder::kind_name<Parameter<I>>()...};
  }

  template <class T>
  static decltype(auto) argument(const Call& call, const Promoted* promoted, size_t i) {
    if constexpr (std::is_same_v<T, Value> || std::is_same_v<T, std::optional<Value>>) {
      if (promoted && (*promoted)[i]) return T((*promoted)[i]);
    }
    return binder::read(binder::Tag<T>{}, call, i);
  }

  template <size_t... I>
  Results invoke(const Call& call, std::index_sequence<I...>) const {
    if (!kWithCall) check_unread_arguments(call, kCount);
    std::optional<Promoted> promoted;
    if (rule_ != Promote::none) promoted.emplace(call, rule_, parameters());
    [[maybe_unused]] const Promoted* p = promoted ? &*promoted : nullptr;
    if constexpr (kWithCall) {
      return binder::results(
          function_(call.builder(), argument<Parameter<I>>(call, p, I)..., call));
    } else {
      return binder::results(function_(call.builder(), argument<Parameter<I>>(call, p, I)...));
    }
  }

  Promote rule_;
  F function_;
};

template <class F>
Lowering bind(Promote rule, F function) {
  using B = Bound<F, typename binder::Signature<F>::Parameters>;
  return {.run = B(rule, std::move(function)), .parameters = B::parameters()};
}

}  // namespace onnx_native::ops
