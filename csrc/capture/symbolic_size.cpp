#include "capture/symbolic_size.h"

#include <c10/core/SymNodeImpl.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <utility>

#include "base/error.h"

namespace onnx_native::capture {
namespace {

using Token = std::shared_ptr<const int>;

// Returns the decisions of the active recording, which must be the one that made the size.
Decisions& decisions_of(const Token& token) {
  Decisions* decisions = active_decisions();
  TORCH_CHECK(decisions && decisions->token() == token,
              "a size that onnx_native recorded during a capture is used outside of that capture");
  return *decisions;
}

// A node of a recording: a size or a condition.
class RecordedNode : public c10::SymNodeImpl {
 public:
  explicit RecordedNode(Token token) : token_(std::move(token)) {}

  Decisions& decisions() const { return decisions_of(token_); }
  const Token& token() const { return token_; }

  c10::SymNode wrap_int(int64_t number) override;
  c10::SymNode wrap_bool(bool value) override;
  c10::SymNode wrap_float(double value) override;
  c10::SymNode clone() override { return self(); }
  bool has_hint() override { return true; }
  bool is_int() override { return false; }
  bool is_bool() override { return false; }
  bool is_float() override { return false; }
  std::string _graph_repr() override { return str(); }

 protected:
  c10::SymNode self() { return c10::SymNode::reclaim_copy(this); }
  [[noreturn]] void refuse_float() const {
    decisions().refuse("a float is computed from a dynamic size");
  }

 private:
  Token token_;
};

// A condition on sizes. `relation` compares `difference` with 0.
class Condition final : public RecordedNode {
 public:
  Condition(Token token, Dim difference, Relation relation, bool negated, std::string text)
      : RecordedNode(std::move(token)),
        difference_(std::move(difference)),
        relation_(relation),
        negated_(negated),
        text_(std::move(text)) {}

  bool is_bool() override { return true; }
  bool decide() {
    const bool holds = decisions().decide(difference_, relation_, text_);
    return holds != negated_;
  }
  bool guard_bool(const char* /*file*/, int64_t /*line*/) override { return decide(); }
  bool guard_size_oblivious(const char* /*file*/, int64_t /*line*/) override { return decide(); }
  bool guard_or_false(const char* /*file*/, int64_t /*line*/) override { return decide(); }
  bool guard_or_true(const char* /*file*/, int64_t /*line*/) override { return decide(); }
  bool expect_true(const char* /*file*/, int64_t /*line*/) override { return decide(); }
  bool bool_() override { return decide(); }
  bool statically_known_true(const char* /*file*/, int64_t /*line*/) override {
    const std::optional<bool> holds = decisions().proven(difference_, relation_);
    return holds && *holds != negated_;
  }
  std::optional<bool> constant_bool() override {
    const auto number = difference_.constant();
    return number ? std::optional(decide()) : std::nullopt;
  }
  bool is_constant() override { return difference_.is_constant(); }
  bool is_symbolic() override { return !difference_.is_constant(); }
  c10::SymNode sym_not() override {
    return c10::make_intrusive<Condition>(token(), difference_, relation_, !negated_, text_);
  }
  // The operands are decided one by one: stricter than need be, and simple.
  c10::SymNode sym_and(const c10::SymNode& other) override {
    const bool left = decide();
    const bool right = other->guard_bool(__FILE__, __LINE__);
    return wrap_bool(left && right);
  }
  c10::SymNode sym_or(const c10::SymNode& other) override {
    const bool left = decide();
    const bool right = other->guard_bool(__FILE__, __LINE__);
    return wrap_bool(left || right);
  }
  c10::SymNode sym_ite(const c10::SymNode& yes, const c10::SymNode& no) override {
    return decide() ? yes : no;
  }
  c10::SymNode sym_float() override { refuse_float(); }
  std::string str() override { return decide() ? "True" : "False"; }

 private:
  Dim difference_;
  Relation relation_;
  bool negated_;
  std::string text_;
};

class Size final : public RecordedNode {
 public:
  Size(Token token, Dim dim) : RecordedNode(std::move(token)), dim_(std::move(dim)) {}

  const Dim& dim() const { return dim_; }
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
  c10::SymNode float_truediv(const c10::SymNode& /*other*/) override { refuse_float(); }
  c10::SymNode float_pow(const c10::SymNode& /*other*/) override { refuse_float(); }
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
  int64_t int_() override { return decisions().pinned(dim_, "a Python int or a loop"); }
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

// The float that is nearest to numerator / denominator. Only what needs no rounding, or rounds
// once, is recorded: up to 2**53 the rounding moves no quotient of integers to or past an integer.
class Quotient final : public RecordedNode {
 public:
  Quotient(Token token, Dim numerator, int64_t denominator)
      : RecordedNode(std::move(token)),
        numerator_(std::move(numerator)),
        denominator_(denominator) {}

  bool is_float() override { return true; }

  c10::SymNode add(const c10::SymNode& other) override { return sum(of(other), 1); }
  c10::SymNode sub(const c10::SymNode& other) override { return sum(of(other), -1); }
  c10::SymNode mul(const c10::SymNode& other) override {
    const Quotient& factor = of(other);
    require_exact(factor);
    return made(numerator_ * factor.numerator_, denominator_ * factor.denominator_);
  }
  c10::SymNode neg() override { return made(-numerator_, denominator_); }
  c10::SymNode truediv(const c10::SymNode& other) override { return float_truediv(other); }
  c10::SymNode float_truediv(const c10::SymNode& other) override {
    const Quotient& divisor = of(other);
    require_exact(divisor);
    const std::optional<int64_t> by = divisor.numerator_.constant();
    if (!by || *by <= 0) refuse_float();
    return made(numerator_ * Dim(divisor.denominator_), denominator_ * *by);
  }
  c10::SymNode ceil() override { return size(Dim::ceil_div(numerator_, denominator_)); }
  c10::SymNode floor() override { return size(Dim::floor_div(numerator_, denominator_)); }
  c10::SymNode sym_float() override { return self(); }

  c10::SymNode eq(const c10::SymNode& other) override { return compare(other, Relation::equal); }
  c10::SymNode ne(const c10::SymNode& other) override { return eq(other)->sym_not(); }
  c10::SymNode lt(const c10::SymNode& other) override { return compare(other, Relation::less); }
  c10::SymNode le(const c10::SymNode& other) override {
    return compare(other, Relation::less_equal);
  }
  c10::SymNode gt(const c10::SymNode& other) override { return le(other)->sym_not(); }
  c10::SymNode ge(const c10::SymNode& other) override { return lt(other)->sym_not(); }

  double guard_float(const char* /*file*/, int64_t /*line*/) override { refuse_float(); }
  bool bool_() override { return ne(wrap_int(0)->sym_float())->bool_(); }
  bool is_symbolic() override { return !numerator_.is_constant(); }
  std::string str() override { refuse_float(); }

 private:
  static constexpr int64_t kLargestDenominator = int64_t{1} << 20;

  c10::SymNode made(Dim numerator, int64_t denominator) const {
    if (denominator > kLargestDenominator) refuse_float();
    return c10::make_intrusive<Quotient>(token(), std::move(numerator), denominator);
  }
  c10::SymNode size(Dim dim) const { return c10::make_intrusive<Size>(token(), std::move(dim)); }
  const Quotient& of(const c10::SymNode& other) const {
    const auto* quotient = dynamic_cast<const Quotient*>(other.get());
    if (!quotient) refuse_float();
    return *quotient;
  }
  bool is_exact() const { return (denominator_ & (denominator_ - 1)) == 0; }
  bool is_integer() const { return denominator_ == 1; }
  void require_exact(const Quotient& other) const {
    if (!is_exact() || !other.is_exact()) refuse_float();
  }
  c10::SymNode sum(const Quotient& other, int64_t sign) const {
    require_exact(other);
    return made(numerator_ * Dim(other.denominator_) + other.numerator_ * Dim(sign * denominator_),
                denominator_ * other.denominator_);
  }
  c10::SymNode compare(const c10::SymNode& with, Relation relation) const {
    const Quotient& other = of(with);
    if (!is_integer() && !other.is_integer()) require_exact(other);
    const Dim left = numerator_ * Dim(other.denominator_);
    const Dim right = other.numerator_ * Dim(denominator_);
    const char* word = relation == Relation::equal  ? " == "
                       : relation == Relation::less ? " < "
                                                    : " <= ";
    return c10::make_intrusive<Condition>(token(), left - right, relation, /*negated=*/false,
                                          left.str() + word + right.str());
  }

  Dim numerator_;
  int64_t denominator_;  // positive
};

c10::SymNode Size::int_truediv(const c10::SymNode& other) {
  const std::optional<int64_t> by = of(other).constant();
  constexpr int64_t kLargestDivisor = int64_t{1} << 20;
  if (!by || *by <= 0 || *by > kLargestDivisor) refuse_float();
  return c10::make_intrusive<Quotient>(token(), dim_, *by);
}

c10::SymNode Size::sym_float() { return c10::make_intrusive<Quotient>(token(), dim_, 1); }

// Takes numbers with few binary digits, such as 0.5 or 1.75.
c10::SymNode RecordedNode::wrap_float(double value) {
  constexpr int kDigits = 16;
  const double scaled = std::ldexp(value, kDigits);
  if (!(std::abs(value) < (1 << kDigits)) || scaled != std::floor(scaled)) refuse_float();
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

}  // namespace

c10::SymInt to_sym_int(const Dim& dim, const Decisions& decisions) {
  if (const auto number = dim.constant()) return c10::SymInt(*number);
  return c10::SymInt(c10::SymNode(c10::make_intrusive<Size>(decisions.token(), dim)));
}

bool is_recorded(const c10::SymInt& size) {
  return size.is_heap_allocated() && dynamic_cast<const Size*>(size.toSymNodeImplUnowned());
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
