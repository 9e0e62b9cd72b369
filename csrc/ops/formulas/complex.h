// Complex numbers. ONNX represents a complex tensor as a real one with a last axis of 2: the real
// and the imaginary part. Arithmetic works on the two parts separately.
#pragma once

#include "ops/engine/call.h"

namespace onnx_native::ops {

// The two parts, of one dtype and of shapes that broadcast together.
struct Complex {
  Value real = nullptr;
  Value imaginary = nullptr;  // nullptr: zero
};

// Returns true if `join` produced `pairs`.
bool is_joined(Value pairs);
Complex split(Builder& b, Value pairs);
Value part(Builder& b, Value pairs, bool imaginary);
Value join(Builder& b, const Complex& z);
// Returns the imaginary part, or zeros if there is none.
Value imaginary_part(Builder& b, const Complex& z);
// Casts complex numbers to real ones as eager does: takes the real part; for bool, whether the
// number is not 0.
Value real_cast(Builder& b, Value pairs, DType dtype);

bool is_complex(const aten::Argument& argument);
// Returns the parts of argument i, a real or complex tensor or number.
Complex complex_argument(const Call& call, size_t i, DType part);
// Returns the dtype of the parts of the call's complex results. If there are none, the tensor
// arguments together determine it.
DType part_dtype(const Call& call);

Complex add(Builder& b, const Complex& x, const Complex& y);
Complex sub(Builder& b, const Complex& x, const Complex& y);
Complex mul(Builder& b, const Complex& x, const Complex& y);
Complex div(Builder& b, const Complex& x, const Complex& y);
Complex negated(Builder& b, const Complex& z);
Complex reciprocal(Builder& b, const Complex& z);
Complex sqrt(Builder& b, const Complex& z);
Complex conjugate(Builder& b, const Complex& z);
// Conjugates every pair.
Value conjugate(Builder& b, Value pairs);
Value absolute(Builder& b, const Complex& z);
Value absolute(Builder& b, Value pairs);
// length * (cos(angle) + i sin(angle))
Complex polar(Builder& b, Value length, Value angle);

}  // namespace onnx_native::ops
