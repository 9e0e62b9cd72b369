#include "onnx/kernels.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <set>
#include <unordered_map>

namespace onnx_native::onnx {
namespace {

// The dtypes for which an operator has kernels, from one opset on.
struct Kernel {
  std::string_view op_type;
  int64_t since;
  uint32_t dtypes;
};

constexpr Kernel kKernels[] = {
#include "onnx/kernels.inc"
};

// Operators that compute modulo 2^64 or only move elements, so that signed and unsigned integers
// give the same bits.
constexpr std::array<std::string_view, 17> kModular = {
    "Add",     "Compress", "CumSum",    "Expand",          "Gather",    "GatherElements",
    "Mul",     "Neg",      "Pad",       "ReduceProd",      "ReduceSum", "ReverseSequence",
    "Reshape", "Sub",      "Transpose", "ScatterElements", "Where"};

std::initializer_list<DType> wider(std::string_view op_type, DType dtype) {
  static constexpr std::initializer_list<DType> kFloat = {DType::f32};
  static constexpr std::initializer_list<DType> kSmall = {DType::i32, DType::i64};
  static constexpr std::initializer_list<DType> kLong = {DType::i64};
  static constexpr std::initializer_list<DType> kBool = {DType::u8, DType::i32, DType::i64};
  switch (dtype) {
    case DType::bf16:
    case DType::f16:
      return kFloat;
    case DType::u8:
    case DType::i8:
    case DType::u16:
    case DType::i16:
      return kSmall;
    case DType::i32:
    case DType::u32:
      return kLong;
    case DType::u64:
      return std::ranges::find(kModular, op_type) != kModular.end()
                 ? kLong
                 : std::initializer_list<DType>{};
    case DType::boolean:
      return kBool;
    default:
      return {};
  }
}

// Returns the rows of an operator in ascending order of opset; none if the table lacks it.
std::span<const Kernel> rows_of(std::string_view op_type) {
  static const auto& kernels = *[] {
    auto* map = new std::unordered_map<std::string_view, std::vector<Kernel>>;
    for (const Kernel& kernel : kKernels) (*map)[kernel.op_type].push_back(kernel);
    return map;
  }();
  const auto found = kernels.find(op_type);
  return found == kernels.end() ? std::span<const Kernel>() : found->second;
}

// Returns the last row that applies to the opset, or the first row if the operator is newer: a pass
// rewrites such an operator with older ones.
const Kernel& row_in(std::span<const Kernel> rows, int64_t opset) {
  const Kernel* row = rows.data();
  for (const Kernel& each : rows) {
    if (each.since <= opset) row = &each;
  }
  return *row;
}

// The oldest opset that was measured. Older ones have the same kernels, or a pass composes what
// they lack.
constexpr int64_t kOldest = 11;
// The dtypes that were measured: all but complex, 8-bit and 4-bit floats, and strings.
constexpr uint32_t kMeasured = 0x13efe;

bool contains(uint32_t dtypes, DType dtype) {
  const auto bit = static_cast<int>(dtype);
  return bit < 32 && (dtypes >> bit & 1) != 0;
}

}  // namespace

bool has_kernel(std::string_view op_type, DType dtype, int64_t opset) {
  const auto rows = rows_of(op_type);
  if (rows.empty() || !contains(kMeasured, dtype)) return true;
  opset = std::max(opset, kOldest);
  return rows.front().since <= opset && contains(row_in(rows, opset).dtypes, dtype);
}

DType kernel_dtype(std::string_view op_type, DType dtype, int64_t opset) {
  const auto rows = rows_of(op_type);
  if (dtype == DType::f32 || rows.empty()) return dtype;
  const uint32_t dtypes = row_in(rows, opset).dtypes;
  if (contains(dtypes, dtype)) return dtype;
  for (const DType candidate : wider(op_type, dtype)) {
    if (contains(dtypes, candidate)) return candidate;
  }
  return dtype;
}

std::string_view type_parameter(std::span<const SchemaParameter> formal, size_t i) {
  return formal.empty() ? std::string_view()
                        : formal[std::min(i, formal.size() - 1)].type_parameter;
}

std::optional<size_t> typed_input(std::string_view op_type, std::span<Value* const> inputs,
                                  int64_t opset) {
  const OpSchema* schema = find_schema(op_type, opset);
  if (!schema || inputs.empty()) return std::nullopt;
  size_t first = 0;
  for (size_t i = inputs.size(); i-- > 0;) {
    if (inputs[i] && type_parameter(schema->inputs, i) == "T") first = i;
  }
  return inputs[first] ? std::optional(first) : std::nullopt;
}

std::optional<DType> unsupported_dtype(const Node& node, int64_t opset) {
  if (!node.domain.empty()) return std::nullopt;
  const Value* deciding = node.inputs.empty() ? node.outputs[0] : nullptr;
  if (const auto typed = typed_input(node.op_type, node.inputs, opset))
    deciding = node.inputs[*typed];
  if (!deciding || deciding->kind != ValueKind::tensor) return std::nullopt;
  const DType dtype = deciding->dtype;
  return has_kernel(node.op_type, dtype, opset) ? std::nullopt : std::optional(dtype);
}

std::vector<std::string> missing_kernels(Model& model) {
  std::vector<std::string> missing;
  std::set<std::pair<std::string, DType>> seen;
  const auto visit = [&](Graph& graph) {
    for (const Node* node : graph.nodes) {
      const auto dtype = unsupported_dtype(*node, model.opset);
      if (dtype && seen.emplace(node->op_type, *dtype).second)
        missing.push_back(node->op_type + " of " + std::string(name(*dtype)) +
                          where(node->location));
    }
  };
  for_each_graph(*model.graph, visit);
  for (Function& function : model.functions) for_each_graph(*function.body, visit);
  return missing;
}

}  // namespace onnx_native::onnx
