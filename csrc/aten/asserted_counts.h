// Assertions that a count is another size: torch._check(i.shape[0] == j.shape[0]).
#pragma once

#include "aten/graph.h"

namespace onnx_native::aten {

// The assertion that torch.export and the recorder write for torch._check.
inline constexpr const char* kAssertScalar = "aten::_assert_scalar";

// Returns true if the condition of an assertion says that sizes are equal of which at least one
// depends on data. The model checks these. It is exported for inputs that satisfy the others.
bool equates_count(const Argument& condition);
// Returns true if the call is such an assertion.
bool asserts_count(const Node& node);
// Adds an assertion of this condition if the model checks it.
void add_assertion(Graph& graph, Argument condition, const Location* location);
// Returns true for a check that the functional graph omits.
bool is_omitted(const Node& node);

}  // namespace onnx_native::aten
