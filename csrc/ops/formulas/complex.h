// Complex numbers. A complex tensor is a real one with a last axis of 2 in ONNX: the real and the
// imaginary part. Arithmetic takes the two apart.
#pragma once

#include "ops/engine/call.h"

namespace onnx_native::ops {

// The parts, of one dtype and of shapes that broadcast together.
struct Complex {
  Value real = nullptr;
  Value imaginary = nullptr;  // nullptr: zero
};

// Whether `join` made the pairs.
bool is_joined(Value pairs);
Complex split(Builder& b, Value pairs);
Value part(Builder& b, Value pairs, bool imaginary);
Value join(Builder& b, const Complex& z);
// The imaginary part, zeros where there is none.
Value imaginary_part(Builder& b, const Complex& z);

bool is_complex(const aten::Argument& argument);
// The parts of argument i, a tensor or number, real or complex.
Complex complex_argument(const Call& call, size_t i, DType part);
// The dtype of the parts of the call's complex results, or else of its arguments together.
DType part_dtype(const Call& call);

Complex add(Builder& b, const Complex& x, const Complex& y);
Complex sub(Builder& b, const Complex& x, const Complex& y);
Complex mul(Builder& b, const Complex& x, const Complex& y);
Complex div(Builder& b, const Complex& x, const Complex& y);
Complex negated(Builder& b, const Complex& z);
Complex reciprocal(Builder& b, const Complex& z);
Complex sqrt(Builder& b, const Complex& z);
Complex conjugate(Builder& b, const Complex& z);
// All pairs conjugated.
Value conjugate(Builder& b, Value pairs);
Value absolute(Builder& b, const Complex& z);
Value absolute(Builder& b, Value pairs);
// length * (cos(angle) + i sin(angle))
Complex polar(Builder& b, Value length, Value angle);

}  // namespace onnx_native::ops
