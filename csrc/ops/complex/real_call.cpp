#include "ops/complex/real_call.h"

#include <algorithm>
#include <functional>

#include "ops/engine/lower.h"
#include "ops/formulas/complex.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {

void RealCall::rewrite(size_t i,
                       const std::function<aten::Argument(const aten::Argument&)>& rewrite) {
  node_.arguments[i] = rewritten(node_.arguments[i], rewrite);
}

aten::Argument RealCall::rewritten(
    const aten::Argument& argument,
    const std::function<aten::Argument(const aten::Argument&)>& rewrite) {
  if (const auto* list = argument.get<aten::Argument::List>()) {
    aten::Argument::List results;
    for (const aten::Argument& element : *list) results.push_back(rewritten(element, rewrite));
    return results;
  }
  return rewrite(argument);
}

aten::Argument RealCall::replaced(const aten::Value& original, Value by) {
  aten::Value& value = values_.emplace_back(original);
  value.type = aten::Type::tensor(by->dtype, by->shape);
  environment_[&value] = by;
  return &value;
}

void RealCall::retype_results(const std::function<aten::Type(const aten::Type&)>& retype) {
  for (aten::Value*& output : node_.outputs) {
    output = &values_.emplace_back(*output);
    output->type = retype(output->type);
  }
}

Results RealCall::run(const Lowering& lowering) {
  const std::function<void(const aten::Argument&)> keep = [&](const aten::Argument& argument) {
    if (const auto* list = argument.get<aten::Argument::List>()) {
      for (const aten::Argument& element : *list) keep(element);
    } else if (aten::Value* value = argument.as_value(); value && !environment_.contains(value)) {
      environment_[value] = call_.lowered(value);
    }
  };
  for (const aten::Argument& argument : node_.arguments) keep(argument);
  return lowering.run(call_.with(node_, environment_));
}

const Lowering& dense_lowering(const OpTable& ops, std::string_view op) {
  const Lowering* dense = ops.find(op);
  if (!dense) fail(ErrorKind::internal, op, " has no lowering for real tensors");
  return *dense;
}

ArgumentRole role_of(const Call& call, size_t i) {
  return aten::role_of(call.node().schema->arguments.at(i));
}

namespace {

// Returns one part of a number; returns other arguments unchanged.
aten::Argument number_part(const aten::Argument& argument, bool imaginary) {
  if (const auto* n = argument.get<std::complex<double>>())
    return imaginary ? n->imag() : n->real();
  if (!imaginary) return argument;
  if (argument.get<int64_t>()) return int64_t{0};
  if (argument.get<double>()) return 0.0;
  if (argument.get<bool>()) return false;
  if (argument.as_value()) return 0.0;  // a real number that the model computes
  return argument;
}

aten::Type part_type(const aten::Type& type) {
  aten::Type result = type;
  result.dtype = real_dtype(type.dtype);
  return result;
}

}  // namespace

Results run_on_part(const Call& call, const Lowering& dense, bool imaginary) {
  Builder& b = call.builder();
  RealCall real(call);
  for (size_t i = 0; i < call.size(); ++i) {
    const std::string_view name = call.argument_name(i);
    const ArgumentRole role = role_of(call, i);
    real.rewrite(i, [&](const aten::Argument& argument) -> aten::Argument {
      if (const auto* dtype = argument.get<DType>()) return real_dtype(*dtype);
      const aten::Value* value = argument.as_value();
      if (!value || !value->type.is_tensor()) {
        const bool is_element = role == ArgumentRole::element;
        b.check(is_element || !argument.get<std::complex<double>>(), "argument `", name,
                "` must not be complex");
        return is_element ? number_part(argument, imaginary) : argument;
      }
      if (role == ArgumentRole::place) return argument;
      const Value tensor = call.lowered(value).value;
      if (is_complex(argument)) return real.replaced(*value, part(b, tensor, imaginary));
      return imaginary ? real.replaced(*value, b.full(tensor->dtype, 0, tensor->known_shape()))
                       : argument;
    });
  }
  real.retype_results(part_type);
  return real.run(dense);
}

Results run_on_parts(const Call& call, const Lowering& dense) {
  Results results = run_on_part(call, dense, false);
  const Results imaginary = run_on_part(call, dense, true);
  const size_t recorded = call.node().outputs.size();  // 0 for a list of unknown length
  const size_t count = recorded > 0 ? recorded : results.size();
  for (size_t i = 0; i < count; ++i) {
    if (recorded == 0 || is_complex(call.result_type(i).dtype))
      results[i] = join(call.builder(), {results[i].value, imaginary[i].value});
  }
  return results;
}

Results run_through(const Call& call, const Lowering& dense,
                    const std::function<Value(Builder&, Value pairs)>& make) {
  RealCall real(call);
  for (size_t i = 0; i < call.size(); ++i) {
    real.rewrite(i, [&](const aten::Argument& argument) -> aten::Argument {
      const aten::Value* value = argument.as_value();
      if (const auto* dtype = argument.get<DType>()) return real_dtype(*dtype);
      if (!value || !is_complex(argument)) return argument;
      Builder& b = call.builder();
      return real.replaced(*value, make(b, call.lowered(value).value));
    });
  }
  return real.run(dense);
}

}  // namespace onnx_native::ops
