#include "readers/pt2/weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "aten/element_types.h"
#include "aten/torch_tensor.h"
#include "aten/torch_types.h"
#include "base/weight.h"

namespace onnx_native::readers::pt2 {
namespace {

// Returns the number of elements from the first through the last one; 0 for an empty tensor. Throws
// on overflow.
int64_t span_of(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  int64_t count = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return 0;
    int64_t reach = 0;
    if (__builtin_mul_overflow(shape[i] - 1, strides[i], &reach) ||
        __builtin_add_overflow(count, reach, &count))
      damaged("a tensor is larger than memory");
  }
  return count;
}

std::vector<int64_t> known_sizes(const Json& sizes, const char* what) {
  std::vector<int64_t> result;
  for (const Json& size : list(sizes, what)) {
    const auto [kind, value] = choice(size, what);
    if (kind != "as_int") damaged(concat("a weight has dynamic ", what));
    result.push_back(integer(value, what));
    if (result.back() < 0) damaged(concat("a weight has negative ", what));
  }
  return result;
}

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    if (__builtin_mul_overflow(step, std::max<int64_t>(shape[i], 1), &step))
      damaged("a tensor is larger than memory");
  }
  return strides;
}

// Returns true if the elements are contiguous; ignores the strides of axes of size 1.
bool is_contiguous(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  const std::vector<int64_t> plain = contiguous_strides(shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != plain[i]) return false;
  }
  return true;
}

// Strides can repeat a few elements arbitrarily often. Throws if that makes more than 1 GiB.
void check_repetition(const std::string& name, const TensorData& data, int64_t available) {
  constexpr int64_t kMostBytes = int64_t{1} << 30;
  int64_t elements = 1, bytes = 0;
  for (const int64_t size : data.shape) {
    if (size == 0) return;
    if (__builtin_mul_overflow(elements, size, &elements))
      damaged("a tensor is larger than memory");
  }
  const bool is_large =
      __builtin_mul_overflow(elements, item_size(data.dtype), &bytes) || bytes > kMostBytes;
  if (elements > available && is_large)
    fail(ErrorKind::unsupported, "the tensor ", name, " repeats the ", available,
         " elements of its record to ", elements, " elements, which is more than 1 GiB");
}

// A weight in an archive. It never changes, but it is a Weight so that passes decide as for a live
// module's weights, and every reader produces the same model.
class StoredWeight : public Weight {
 public:
  StoredWeight(const std::string& name, const std::byte* origin, std::shared_ptr<const void> memory)
      : Weight(name, origin), memory_(std::move(memory)) {}
  const std::byte* data() const override { return origin(); }

 private:
  std::shared_ptr<const void> memory_;
};

// Refers to the elements in place, or copies them if they are not aligned for their type: torch
// aligns records, but other zip writers do not.
void place(TensorData& data, std::span<const std::byte> elements) {
  data.data = elements.data();
  if (reinterpret_cast<uintptr_t>(data.data) % static_cast<uintptr_t>(item_size(data.dtype)) == 0)
    return;
  auto copy = std::make_shared<std::vector<std::byte>>(elements.begin(), elements.end());
  data.data = copy->data();
  data.owner = std::move(copy);
}

}  // namespace

double number(const Json& value, const char* what) {
  if (value.is_number()) return value.get<double>();
  const auto* text = value.get_ptr<const std::string*>();
  if (text && *text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text && *text == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (text && *text == "NaN") return std::nan("");
  damaged(concat(what, " is not a number"));
}

DType dtype_of(const Json& scalar_type) {
  using c10::ScalarType;
  static constexpr std::array<ScalarType, 14> kFirst = {
      ScalarType::Undefined,   ScalarType::Byte,         ScalarType::Char,
      ScalarType::Short,       ScalarType::Int,          ScalarType::Long,
      ScalarType::Half,        ScalarType::Float,        ScalarType::Double,
      ScalarType::ComplexHalf, ScalarType::ComplexFloat, ScalarType::ComplexDouble,
      ScalarType::Bool,        ScalarType::BFloat16};
  static constexpr std::array<ScalarType, 8> kFrom28 = {
      ScalarType::UInt16,          ScalarType::Float8_e4m3fn,   ScalarType::Float8_e5m2,
      ScalarType::Float8_e4m3fnuz, ScalarType::Float8_e5m2fnuz, ScalarType::Float8_e8m0fnu,
      ScalarType::UInt32,          ScalarType::UInt64};
  const int64_t code = integer(scalar_type, "a dtype");
  ScalarType type = ScalarType::Undefined;
  if (code > 0 && code < 14) type = kFirst[static_cast<size_t>(code)];
  if (code >= 28 && code < 36) type = kFrom28[static_cast<size_t>(code - 28)];
  if (type == ScalarType::Undefined) damaged(concat("unknown element type ", code));
  const std::optional<DType> dtype = aten::to_dtype(type);
  if (!dtype) fail(ErrorKind::unsupported, aten::no_element_type(type));
  return *dtype;
}

Weights::Weights(const Archive& archive) : archive_(archive) {
  add("data/weights/", "model_weights_config.json");
  add("data/constants/", "model_constants_config.json");
}

void Weights::add(const std::string& folder, const std::string& config) {
  if (!archive_.has(folder + config)) return;
  Json parsed = Json::parse(archive_.text(folder + config), nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) damaged(concat(config, " is not valid JSON"));
  configs_.push_back(std::make_unique<Json>(std::move(parsed)));
  const Json& entries = field(*configs_.back(), "config");
  if (!entries.is_object()) damaged(concat(config, " lists no tensors"));
  for (const auto& [name, entry] : entries.items()) {
    const Json* pickled = optional_field(entry, "use_pickle");
    entries_[name] = {folder + string(field(entry, "path_name"), "path_name"),
                      optional_field(entry, "tensor_meta"),
                      pickled && boolean(*pickled, "use_pickle")};
  }
}

TensorData Weights::find(const std::string& name, bool is_constant) const {
  const auto at = entries_.find(name);
  if (at == entries_.end()) damaged(concat("there is no tensor for ", name));
  const Entry& entry = at->second;
  if (entry.pickled || !entry.tensor_meta)
    fail(ErrorKind::unsupported, "the tensor ", name,
         " is stored as a Python object, but only plain tensors can be read without Python");
  const Json& meta = *entry.tensor_meta;
  if (integer(field(meta, "layout"), "layout") != 7)
    fail(ErrorKind::unsupported, "the tensor ", name, " is sparse; convert it to a dense tensor");
  TensorData data;
  data.dtype = dtype_of(field(meta, "dtype"));
  data.shape = known_sizes(field(meta, "sizes"), "sizes");
  std::vector<int64_t> strides = known_sizes(field(meta, "strides"), "strides");
  if (strides.size() != data.shape.size()) damaged(concat(name, " must have one stride per size"));
  const auto [kind, offset] = choice(field(meta, "storage_offset"), "storage_offset");
  const int64_t first = integer(offset, "storage_offset");
  if (kind != "as_int" || first < 0) damaged(concat(name, " has an invalid storage_offset"));
  const std::span<const std::byte> memory = archive_.bytes(entry.record);
  const int64_t available = static_cast<int64_t>(memory.size()) / item_size(data.dtype);
  const int64_t wanted = span_of(data.shape, strides);
  if (wanted > 0 && (first > available || wanted > available - first))
    damaged(concat(name, " is larger than its record"));
  check_repetition(name, data, available);
  data.data = memory.data();
  data.owner = archive_.owner();
  if (wanted > 0) {
    place(data, memory.subspan(static_cast<size_t>(first * item_size(data.dtype)),
                               static_cast<size_t>(wanted * item_size(data.dtype))));
  }
  if (!is_contiguous(data.shape, strides)) data.strides = std::move(strides);
  if (!is_constant || data.nbytes() > aten::kLargestLiteral)
    data.owner = as_owner(std::make_shared<StoredWeight>(name, data.data, data.owner));
  return data;
}

}  // namespace onnx_native::readers::pt2
