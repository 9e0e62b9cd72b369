#include "capture/symbolic_size.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <utility>

#include "base/error.h"
#include "capture/recorded_node.h"

namespace onnx_native::capture {
namespace {

// A bool.
class Truth : public RecordedNode {
 public:
  using RecordedNode::RecordedNode;

  virtual bool decide() = 0;
  // Returns true if the bool depends on data, so that it cannot be decided.
  virtual bool is_data() const = 0;
  // Returns true if the bool is known to be this at all values of the symbols.
  virtual bool is_proven(bool truth) const = 0;

  bool is_bool() override { return true; }
  bool guard_bool(const char* /*file*/, int64_t /*line*/) override { return decide(); }
  bool guard_size_oblivious(const char* /*file*/, int64_t /*line*/) override { return decide(); }
  // PyTorch asks this where both answers are right; this answer is more general.
  bool guard_or_false(const char* /*file*/, int64_t /*line*/) override {
    return is_data() ? is_proven(true) : decide();
  }
  bool guard_or_true(const char* /*file*/, int64_t /*line*/) override {
    return is_data() ? !is_proven(false) : decide();
  }
  bool expect_true(const char* /*file*/, int64_t /*line*/) override { return decide(); }
  bool statically_known_true(const char* /*file*/, int64_t /*line*/) override {
    return is_proven(true);
  }
  bool bool_() override { return decide(); }
  // Operands that do not depend on data are decided one by one: stricter than needed, but simple.
  c10::SymNode sym_and(const c10::SymNode& other) override { return both("python::and_", other); }
  c10::SymNode sym_or(const c10::SymNode& other) override { return both("python::or_", other); }
  c10::SymNode sym_not() override { return made_condition("python::sym_not", {number()}); }
  c10::SymNode eq(const c10::SymNode& other) override {
    return wrap_bool(decide() == other->guard_bool(__FILE__, __LINE__));
  }
  c10::SymNode ne(const c10::SymNode& other) override { return eq(other)->sym_not(); }
  c10::SymNode sym_ite(const c10::SymNode& yes, const c10::SymNode& no) override {
    if (is_data() && yes->is_float() && no->is_float())
      return made_float("python::sym_ite", {number(), number_of(yes), number_of(no)});
    return decide() ? yes : no;
  }
  std::string str() override { return decide() ? "True" : "False"; }

 private:
  c10::SymNode both(std::string_view op, const c10::SymNode& given) {
    const auto* other = dynamic_cast<const Truth*>(given.get());
    if (is_data() || (other && other->is_data()))
      return made_condition(op, {number(), number_of(given)});
    const bool left = decide();
    const bool right = given->guard_bool(__FILE__, __LINE__);
    return wrap_bool(op == "python::and_" ? left && right : left || right);
  }
};

// A condition on integers. `relation` compares `difference` with 0.
class Condition final : public Truth {
 public:
  Condition(Token token, Dim difference, Relation relation, bool negated, std::string text)
      : Truth(std::move(token)),
        difference_(std::move(difference)),
        relation_(relation),
        negated_(negated),
        text_(std::move(text)) {}

  NumberPtr number() const override {
    if (const auto known = constant()) return make_number(*known);
    NumberPtr holds =
        make_call(operator_of(relation_), {make_number(difference_), make_number(Dim(0))});
    return negated_ ? make_call("python::sym_not", {std::move(holds)}) : holds;
  }
  bool decide() override { return decisions().decide(difference_, relation_, text_) != negated_; }
  bool bool_() override {
    decisions().note_not_empty(difference_, relation_, text_);
    return decisions().decide_branch(difference_, relation_, text_) != negated_;
  }
  bool is_data() const override { return !decisions().example(difference_); }
  // PyTorch asks this where its code for any size is right for a size of 0 or 1 too.
  bool guard_size_oblivious(const char* /*file*/, int64_t /*line*/) override {
    const std::optional<bool> large = decisions().at_stand_in(difference_, relation_);
    return is_data() && large ? *large != negated_ : decide();
  }
  bool expect_true(const char* /*file*/, int64_t /*line*/) override {
    return decisions().assume(difference_, relation_, !negated_, text_);
  }
  bool is_proven(bool truth) const override {
    const std::optional<bool> holds = decisions().proven(difference_, relation_);
    return holds && (*holds != negated_) == truth;
  }
  std::optional<bool> constant_bool() override { return constant(); }
  bool is_constant() override { return difference_.is_constant(); }
  bool is_symbolic() override { return !difference_.is_constant(); }
  c10::SymNode sym_not() override {
    return c10::make_intrusive<Condition>(token(), difference_, relation_, !negated_, text_);
  }

 private:
  std::optional<bool> constant() const {
    if (!difference_.is_constant()) return std::nullopt;
    return decisions().decide(difference_, relation_, text_) != negated_;
  }

  Dim difference_;
  Relation relation_;
  bool negated_;
  std::string text_;
};

// Any other bool: a comparison of floats, or one that the program reads from a tensor.
class Computed final : public Truth {
 public:
  Computed(Token token, NumberPtr number) : Truth(std::move(token)), number_(std::move(number)) {}

  NumberPtr number() const override { return number_; }
  bool decide() override { return decisions().decide(number_); }
  bool is_data() const override { return !decisions().example(*number_); }
  bool expect_true(const char* /*file*/, int64_t /*line*/) override {
    return is_data() || decide();
  }
  bool is_proven(bool /*truth*/) const override { return false; }

 private:
  NumberPtr number_;
};

class Size final : public RecordedNode {
 public:
  Size(Token token, Dim dim) : RecordedNode(std::move(token)), dim_(std::move(dim)) {}

  const Dim& dim() const { return dim_; }
  NumberPtr number() const override { return make_number(dim_); }
  bool is_int() override { return true; }

  c10::SymNode add(const c10::SymNode& other) override { return made(dim_ + of(other)); }
  c10::SymNode sub(const c10::SymNode& other) override { return made(dim_ - of(other)); }
  c10::SymNode mul(const c10::SymNode& other) override { return made(dim_ * of(other)); }
  c10::SymNode neg() override { return made(-dim_); }
  c10::SymNode floordiv(const c10::SymNode& other) override {
    return made(Dim::floor_div(dim_, divisor(other)));
  }
  c10::SymNode int_floordiv(const c10::SymNode& other) override { return floordiv(other); }
  c10::SymNode mod(const c10::SymNode& other) override {
    return made(Dim::mod(dim_, divisor(other)));
  }
  c10::SymNode sym_min(const c10::SymNode& other) override {
    return made(Dim::min(dim_, of(other)));
  }
  c10::SymNode sym_max(const c10::SymNode& other) override {
    return made(Dim::max(dim_, of(other)));
  }
  c10::SymNode pow(const c10::SymNode& other) override { return pow_by_natural(other); }
  c10::SymNode pow_by_natural(const c10::SymNode& other) override {
    constexpr int64_t kLargestPower = 8;
    const int64_t power = decisions().pinned(of(other), "a power of a size");
    if (power < 0 || power > kLargestPower) decisions().refuse("a large power of a size");
    Dim result = 1;
    for (int64_t i = 0; i < power; ++i) result = result * dim_;
    return made(result);
  }
  c10::SymNode ceil() override { return self(); }
  c10::SymNode floor() override { return self(); }
  c10::SymNode truediv(const c10::SymNode& other) override { return int_truediv(other); }
  c10::SymNode int_truediv(const c10::SymNode& other) override;
  c10::SymNode float_truediv(const c10::SymNode& other) override { return int_truediv(other); }
  c10::SymNode float_pow(const c10::SymNode& other) override {
    return made_float("python::pow", {number(), number_of(other)});
  }
  c10::SymNode sym_float() override;

  c10::SymNode eq(const c10::SymNode& other) override {
    return compare(dim_, of(other), Relation::equal, " == ");
  }
  c10::SymNode ne(const c10::SymNode& other) override { return eq(other)->sym_not(); }
  c10::SymNode lt(const c10::SymNode& other) override {
    return compare(dim_, of(other), Relation::less, " < ");
  }
  c10::SymNode le(const c10::SymNode& other) override {
    return compare(dim_, of(other), Relation::less_equal, " <= ");
  }
  c10::SymNode gt(const c10::SymNode& other) override { return le(other)->sym_not(); }
  c10::SymNode ge(const c10::SymNode& other) override { return lt(other)->sym_not(); }

  int64_t guard_int(const char* /*file*/, int64_t /*line*/) override { return int_(); }
  int64_t int_() override {
    const bool is_of_data = !decisions().example(dim_);
    return decisions().pinned(dim_, "a Python int or a loop",
                              is_of_data ? RefusalKind::control_flow : RefusalKind::loop);
  }
  bool bool_() override { return ne(wrap_int(0))->bool_(); }
  std::optional<int64_t> constant_int() override { return dim_.constant(); }
  std::optional<int64_t> maybe_as_int() override { return dim_.constant(); }
  bool is_constant() override { return dim_.is_constant(); }
  bool is_symbolic() override { return !dim_.is_constant(); }
  // Text that the program makes of a size would hold the expression instead of the number.
  std::string str() override {
    return std::to_string(decisions().pinned(dim_, "text made of a size"));
  }

 private:
  c10::SymNode made(Dim dim) const { return c10::make_intrusive<Size>(token(), std::move(dim)); }
  Dim of(const c10::SymNode& other) const {
    if (const auto* size = dynamic_cast<const Size*>(other.get())) return size->dim();
    if (other->is_int()) {
      if (const auto number = other->maybe_as_int()) return *number;
      if (const auto number = other->constant_int()) return *number;
    }
    decisions().refuse("a size meets a number that the recording does not know");
  }
  Dim divisor(const c10::SymNode& other) const {
    Dim dim = of(other);
    TORCH_CHECK_VALUE(!dim.equals(0), "integer division or modulo by zero");
    return dim;
  }
  c10::SymNode compare(const Dim& left, const Dim& right, Relation relation,
                       const char* word) const {
    return c10::make_intrusive<Condition>(token(), left - right, relation, /*negated=*/false,
                                          left.str() + word + right.str());
  }

  Dim dim_;
};

// A float.
class Float : public RecordedNode {
 public:
  Float(Token token, NumberPtr number)
      : RecordedNode(std::move(token)), number_(std::move(number)) {}

  NumberPtr number() const override { return number_; }
  bool is_float() override { return true; }

  c10::SymNode add(const c10::SymNode& other) override { return binary("python::add", other); }
  c10::SymNode sub(const c10::SymNode& other) override { return binary("python::sub", other); }
  c10::SymNode mul(const c10::SymNode& other) override { return binary("python::mul", other); }
  c10::SymNode truediv(const c10::SymNode& other) override { return float_truediv(other); }
  c10::SymNode float_truediv(const c10::SymNode& other) override {
    return binary("python::truediv", other);
  }
  c10::SymNode floordiv(const c10::SymNode& other) override {
    return binary("python::floordiv", other);
  }
  c10::SymNode mod(const c10::SymNode& other) override { return binary("python::mod", other); }
  c10::SymNode pow(const c10::SymNode& other) override { return float_pow(other); }
  c10::SymNode float_pow(const c10::SymNode& other) override {
    return binary("python::pow", other);
  }
  c10::SymNode sym_min(const c10::SymNode& other) override {
    return binary("python::sym_min", other);
  }
  c10::SymNode sym_max(const c10::SymNode& other) override {
    return binary("python::sym_max", other);
  }
  c10::SymNode neg() override { return made_float("python::neg", {number_}); }
  c10::SymNode ceil() override { return integer("python::ceil"); }
  c10::SymNode floor() override { return integer("python::floor"); }
  c10::SymNode sym_float() override { return self(); }

  c10::SymNode eq(const c10::SymNode& other) override { return compare(other, Relation::equal); }
  c10::SymNode ne(const c10::SymNode& other) override { return eq(other)->sym_not(); }
  c10::SymNode lt(const c10::SymNode& other) override { return compare(other, Relation::less); }
  c10::SymNode le(const c10::SymNode& other) override {
    return compare(other, Relation::less_equal);
  }
  // Not the negation of `le`: no comparison with NaN holds.
  c10::SymNode gt(const c10::SymNode& other) override { return other->lt(self()); }
  c10::SymNode ge(const c10::SymNode& other) override { return other->le(self()); }

  double guard_float(const char* /*file*/, int64_t /*line*/) override { refuse_float(); }
  bool bool_() override { return ne(wrap_int(0)->sym_float())->bool_(); }
  std::string str() override { refuse_float(); }

 protected:
  virtual c10::SymNode compare(const c10::SymNode& other, Relation relation) const {
    return made_condition(operator_of(relation), {number_, number_of(other)});
  }
  c10::SymNode binary(std::string_view op, const c10::SymNode& other) const {
    return made_float(op, {number_, number_of(other)});
  }
  c10::SymNode integer(std::string_view op) const {
    return c10::make_intrusive<Size>(token(), decisions().define(make_call(op, {number_})));
  }
  [[noreturn]] void refuse_float() const {
    decisions().refuse("a Python float needs the number " + capture::str(*number_));
  }

 private:
  NumberPtr number_;
};

// A float near numerator / denominator. Arithmetic that needs no rounding, or rounds once, stays a
// quotient, and so does its sum with integers: below 2**50 the rounding moves no quotient of
// integers to or past an integer, so that floor() and comparisons are those of integers.
class Quotient final : public Float {
 public:
  Quotient(Token token, Dim numerator, int64_t denominator)
      : Float(std::move(token), number_of(numerator, denominator)),
        numerator_(std::move(numerator)),
        denominator_(denominator) {}
  // A float that was rounded several times.
  Quotient(Token token, Dim numerator, int64_t denominator, NumberPtr rounded)
      : Float(std::move(token), std::move(rounded)),
        numerator_(std::move(numerator)),
        denominator_(denominator),
        is_nearest_(false) {}

  c10::SymNode add(const c10::SymNode& other) override { return sum("python::add", other, 1); }
  c10::SymNode sub(const c10::SymNode& other) override { return sum("python::sub", other, -1); }
  c10::SymNode mul(const c10::SymNode& other) override {
    const Quotient* factor = exact(other);
    if (!factor) return binary("python::mul", other);
    return made(numerator_ * factor->numerator_, denominator_ * factor->denominator_);
  }
  c10::SymNode neg() override {
    return is_nearest_ ? made(-numerator_, denominator_) : Float::neg();
  }
  c10::SymNode float_truediv(const c10::SymNode& other) override {
    const Quotient* divisor = positive_constant(other);
    const int64_t by = divisor ? divisor->numerator_.constant_or(0) : 0;
    if (!divisor || denominator_ * by > kLargestDenominator)
      return binary("python::truediv", other);
    return made(scaled_by(*divisor), denominator_ * by);
  }
  c10::SymNode floordiv(const c10::SymNode& other) override {
    const Quotient* divisor = positive_constant(other);
    if (!divisor) return binary("python::floordiv", other);
    return made(Dim::floor_div(scaled_by(*divisor), divisor->scaled_by(*this)), 1);
  }
  c10::SymNode mod(const c10::SymNode& other) override {
    const Quotient* divisor = positive_constant(other);
    if (!divisor) return binary("python::mod", other);
    return made(Dim::mod(scaled_by(*divisor), divisor->scaled_by(*this)),
                denominator_ * divisor->denominator_);
  }
  c10::SymNode ceil() override { return size(Dim::ceil_div(numerator_, denominator_)); }
  c10::SymNode floor() override { return size(Dim::floor_div(numerator_, denominator_)); }
  c10::SymNode gt(const c10::SymNode& other) override { return le(other)->sym_not(); }
  c10::SymNode ge(const c10::SymNode& other) override { return lt(other)->sym_not(); }
  bool is_symbolic() override { return !numerator_.is_constant(); }

 protected:
  c10::SymNode compare(const c10::SymNode& with, Relation relation) const override {
    const auto* other = dynamic_cast<const Quotient*>(with.get());
    if (!other || (!is_integer() && !other->is_integer() && !exact(with)))
      return Float::compare(with, relation);
    const Dim left = scaled_by(*other);
    const Dim right = other->scaled_by(*this);
    const char* word = relation == Relation::equal  ? " == "
                       : relation == Relation::less ? " < "
                                                    : " <= ";
    return c10::make_intrusive<Condition>(token(), left - right, relation, /*negated=*/false,
                                          left.str() + word + right.str());
  }

 private:
  static constexpr int64_t kLargestDenominator = int64_t{1} << 20;

  static NumberPtr number_of(const Dim& numerator, int64_t denominator) {
    if (const auto number = numerator.constant())
      return make_number(static_cast<double>(*number) / static_cast<double>(denominator));
    NumberPtr result = make_number(numerator);
    if (denominator == 1) return make_call("python::sym_float", {std::move(result)});
    return make_call("python::truediv", {std::move(result), make_number(Dim(denominator))});
  }
  c10::SymNode made(Dim numerator, int64_t denominator) const {
    return c10::make_intrusive<Quotient>(token(), std::move(numerator), denominator);
  }
  c10::SymNode size(Dim dim) const { return c10::make_intrusive<Size>(token(), std::move(dim)); }
  bool is_exact() const { return is_nearest_ && (denominator_ & (denominator_ - 1)) == 0; }
  bool is_integer() const { return denominator_ == 1; }
  // Returns the other float if it and this one are exact quotients with a small product of
  // denominators.
  const Quotient* exact(const c10::SymNode& other) const {
    const auto* quotient = dynamic_cast<const Quotient*>(other.get());
    const bool both = quotient && is_exact() && quotient->is_exact() &&
                      denominator_ * quotient->denominator_ <= kLargestDenominator;
    return both ? quotient : nullptr;
  }
  // Returns the other float if it is such a quotient of positive constants.
  const Quotient* positive_constant(const c10::SymNode& other) const {
    const Quotient* quotient = exact(other);
    return quotient && quotient->numerator_.constant_or(0) > 0 ? quotient : nullptr;
  }
  // Returns the numerator over the product of both denominators.
  Dim scaled_by(const Quotient& other) const { return numerator_ * Dim(other.denominator_); }
  c10::SymNode sum(std::string_view op, const c10::SymNode& given, int64_t sign) const {
    const auto* other = dynamic_cast<const Quotient*>(given.get());
    const bool needs_no_rounding = exact(given) != nullptr;
    if (!other || (!needs_no_rounding && !is_integer() && !other->is_integer()))
      return binary(op, given);
    Dim numerator = scaled_by(*other) + other->numerator_ * Dim(sign * denominator_);
    const int64_t denominator = denominator_ * other->denominator_;
    if (needs_no_rounding) return made(std::move(numerator), denominator);
    return c10::make_intrusive<Quotient>(token(), std::move(numerator), denominator,
                                         make_call(op, {number(), other->number()}));
  }

  Dim numerator_;
  int64_t denominator_;  // positive
  bool is_nearest_ = true;
};

// A stride that refuses the recording where it is read.
class UnknownStride final : public RecordedNode {
 public:
  UnknownStride(Token token, std::string reason)
      : RecordedNode(std::move(token)), reason_(std::move(reason)) {}

  NumberPtr number() const override { refuse(); }
  bool is_int() override { return true; }
  int64_t guard_int(const char* /*file*/, int64_t /*line*/) override { refuse(); }
  int64_t int_() override { refuse(); }
  bool bool_() override { refuse(); }
  std::optional<int64_t> constant_int() override { return std::nullopt; }
  std::optional<int64_t> maybe_as_int() override { return std::nullopt; }
  bool is_symbolic() override { return true; }
  std::string str() override { refuse(); }

 private:
  [[noreturn]] void refuse() const { decisions().refuse(reason_); }

  std::string reason_;
};

c10::SymNode Size::int_truediv(const c10::SymNode& other) {
  const auto* size = dynamic_cast<const Size*>(other.get());
  const std::optional<int64_t> by = size ? size->dim().constant() : std::nullopt;
  constexpr int64_t kLargestDivisor = int64_t{1} << 20;
  TORCH_CHECK_VALUE(by != 0, "division by zero");
  if (!by || *by < 0 || *by > kLargestDivisor)
    return made_float("python::truediv", {number(), number_of(other)});
  return c10::make_intrusive<Quotient>(token(), dim_, *by);
}

c10::SymNode Size::sym_float() { return c10::make_intrusive<Quotient>(token(), dim_, 1); }

}  // namespace

Decisions& RecordedNode::decisions() const {
  Decisions* decisions = active_decisions();
  if (!decisions || decisions->token() != token_) note_use_outside();
  TORCH_CHECK(decisions && decisions->token() == token_,
              "a size that onnx_native recorded during a capture is used outside of that capture");
  return *decisions;
}

c10::SymNode RecordedNode::made_float(std::string_view op, std::vector<NumberPtr> operands) const {
  return c10::make_intrusive<Float>(token_, make_call(op, std::move(operands)));
}

c10::SymNode RecordedNode::made_condition(std::string_view op,
                                          std::vector<NumberPtr> operands) const {
  return c10::make_intrusive<Computed>(token_, make_call(op, std::move(operands)));
}

c10::SymNode RecordedNode::wrap_float(double value) {
  // A number with few binary digits, such as 0.5 or 1.75, is an exact quotient.
  constexpr int kDigits = 16;
  const double scaled = std::ldexp(value, kDigits);
  if (!(std::abs(value) < (1 << kDigits)) || scaled != std::floor(scaled))
    return c10::make_intrusive<Float>(token_, make_number(value));
  auto numerator = static_cast<int64_t>(scaled);
  int64_t denominator = int64_t{1} << kDigits;
  while (denominator > 1 && numerator % 2 == 0) {
    numerator /= 2;
    denominator /= 2;
  }
  return c10::make_intrusive<Quotient>(token_, Dim(numerator), denominator);
}

c10::SymNode RecordedNode::wrap_int(int64_t number) {
  return c10::make_intrusive<Size>(token_, Dim(number));
}

c10::SymNode RecordedNode::wrap_bool(bool value) {
  return c10::make_intrusive<Condition>(token_, Dim(value ? 0 : 1), Relation::equal,
                                        /*negated=*/false, value ? "True" : "False");
}

c10::SymInt to_sym_int(const Dim& dim, const Decisions& decisions) {
  if (const auto number = dim.constant()) return c10::SymInt(*number);
  return c10::SymInt(c10::SymNode(c10::make_intrusive<Size>(decisions.token(), dim)));
}

c10::SymFloat to_sym_float(const NumberPtr& number, const Decisions& decisions) {
  return c10::SymFloat(c10::SymNode(c10::make_intrusive<Float>(decisions.token(), number)));
}

c10::SymBool to_sym_bool(const NumberPtr& number, const Decisions& decisions) {
  return c10::SymBool(c10::SymNode(c10::make_intrusive<Computed>(decisions.token(), number)));
}

NumberPtr to_number(const c10::SymNode& node, Decisions& decisions) {
  const auto* known = dynamic_cast<const RecordedNode*>(node.get());
  if (!known || known->token() != decisions.token())
    decisions.refuse("a number is not from this recording");
  return known->number();
}

c10::SymInt unknown_stride(std::string reason, const Decisions& decisions) {
  return c10::SymInt(
      c10::SymNode(c10::make_intrusive<UnknownStride>(decisions.token(), std::move(reason))));
}

bool is_recorded(const c10::SymInt& size) {
  return size.is_heap_allocated() && dynamic_cast<const RecordedNode*>(size.toSymNodeImplUnowned());
}

bool is_recorded(const c10::SymNode& node) {
  return dynamic_cast<const RecordedNode*>(node.get()) != nullptr;
}

std::string text_of(const c10::SymInt& size) {
  const auto* known = dynamic_cast<const Size*>(size.toSymNodeImplUnowned());
  return known ? known->dim().str() : "";
}

Dim to_dim(const c10::SymInt& size, Decisions& decisions) {
  if (const auto number = size.maybe_as_int()) return *number;
  const auto* known = dynamic_cast<const Size*>(size.toSymNodeImplUnowned());
  if (!known || known->token() != decisions.token())
    decisions.refuse("a size is not from this recording");
  return known->dim();
}

}  // namespace onnx_native::capture
