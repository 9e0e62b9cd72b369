// The base of all symbolic numbers of a recording. Each kind of number adds its operators.
#pragma once

#include <c10/core/SymNodeImpl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capture/decisions.h"
#include "capture/number.h"

namespace onnx_native::capture {

using Token = std::shared_ptr<const int>;

// A node of a recording: an integer, a float or a condition.
class RecordedNode : public c10::SymNodeImpl {
 public:
  explicit RecordedNode(Token token) : token_(std::move(token)) {
    if (Decisions* decisions = active_decisions()) decisions->note_symbolic();
  }

  // Returns the expression of the node.
  virtual NumberPtr number() const = 0;
  // Returns the decisions of the active recording, which must be the one that made the number.
  Decisions& decisions() const;
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
  // Each kind of number overrides the operators that it has. The others refuse the recording,
  // because the program may catch an exception.
  c10::SymNode ceil() override { refuse_call("ceil"); }
  c10::SymNode floor() override { refuse_call("floor"); }
  c10::SymNode neg() override { refuse_call("neg"); }
  c10::SymNode sym_not() override { refuse_call("sym_not"); }
  c10::SymNode sym_float() override { refuse_call("sym_float"); }
  c10::SymNode add(const c10::SymNode& /*other*/) override { refuse_call("add"); }
  c10::SymNode sub(const c10::SymNode& /*other*/) override { refuse_call("sub"); }
  c10::SymNode mul(const c10::SymNode& /*other*/) override { refuse_call("mul"); }
  c10::SymNode truediv(const c10::SymNode& /*other*/) override { refuse_call("truediv"); }
  c10::SymNode float_truediv(const c10::SymNode& /*other*/) override {
    refuse_call("float_truediv");
  }
  c10::SymNode int_truediv(const c10::SymNode& /*other*/) override { refuse_call("int_truediv"); }
  c10::SymNode pow(const c10::SymNode& /*other*/) override { refuse_call("pow"); }
  c10::SymNode float_pow(const c10::SymNode& /*other*/) override { refuse_call("float_pow"); }
  c10::SymNode pow_by_natural(const c10::SymNode& /*other*/) override {
    refuse_call("pow_by_natural");
  }
  c10::SymNode floordiv(const c10::SymNode& /*other*/) override { refuse_call("floordiv"); }
  c10::SymNode int_floordiv(const c10::SymNode& /*other*/) override { refuse_call("int_floordiv"); }
  c10::SymNode mod(const c10::SymNode& /*other*/) override { refuse_call("mod"); }
  c10::SymNode eq(const c10::SymNode& /*other*/) override { refuse_call("eq"); }
  c10::SymNode ne(const c10::SymNode& /*other*/) override { refuse_call("ne"); }
  c10::SymNode gt(const c10::SymNode& /*other*/) override { refuse_call("gt"); }
  c10::SymNode lt(const c10::SymNode& /*other*/) override { refuse_call("lt"); }
  c10::SymNode le(const c10::SymNode& /*other*/) override { refuse_call("le"); }
  c10::SymNode ge(const c10::SymNode& /*other*/) override { refuse_call("ge"); }
  c10::SymNode sym_min(const c10::SymNode& /*other*/) override { refuse_call("sym_min"); }
  c10::SymNode sym_max(const c10::SymNode& /*other*/) override { refuse_call("sym_max"); }
  c10::SymNode sym_or(const c10::SymNode& /*other*/) override { refuse_call("sym_or"); }
  c10::SymNode sym_and(const c10::SymNode& /*other*/) override { refuse_call("sym_and"); }
  c10::SymNode sym_ite(const c10::SymNode& /*yes*/, const c10::SymNode& /*no*/) override {
    refuse_call("sym_ite");
  }
  int64_t guard_int(const char* /*file*/, int64_t /*line*/) override { refuse_call("int"); }
  bool guard_bool(const char* /*file*/, int64_t /*line*/) override { refuse_call("bool"); }
  double guard_float(const char* /*file*/, int64_t /*line*/) override { refuse_call("float"); }
  int64_t int_() override { refuse_call("int"); }
  bool bool_() override { refuse_call("bool"); }

 protected:
  c10::SymNode self() { return c10::SymNode::reclaim_copy(this); }
  [[noreturn]] void refuse_call(const char* name) const {
    decisions().refuse(std::string("the program calls ") + name + " of a symbolic number");
  }
  // Returns the expression of another node.
  NumberPtr number_of(const c10::SymNode& other) const {
    const auto* node = dynamic_cast<const RecordedNode*>(other.get());
    if (!node) decisions().refuse("a number is not from this recording");
    return node->number();
  }
  c10::SymNode made_float(std::string_view op, std::vector<NumberPtr> operands) const;
  c10::SymNode made_condition(std::string_view op, std::vector<NumberPtr> operands) const;

 private:
  Token token_;
};

}  // namespace onnx_native::capture
