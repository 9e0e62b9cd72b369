// A vector with bounds-checked access, for indices that come from the user's program.
#pragma once

#include <utility>
#include <vector>

namespace onnx_native {

// A std::vector whose element access throws std::out_of_range for an index out of bounds.
template <class T>
class CheckedVector : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  CheckedVector() = default;
  CheckedVector(std::vector<T> elements)  // NOLINT(google-explicit-constructor): implicit
      : std::vector<T>(std::move(elements)) {}

  T& operator[](size_t i) { return this->at(i); }
  const T& operator[](size_t i) const { return this->at(i); }
  T& front() { return this->at(0); }
  const T& front() const { return this->at(0); }
  T& back() { return this->at(this->size() - 1); }
  const T& back() const { return this->at(this->size() - 1); }
};

}  // namespace onnx_native
