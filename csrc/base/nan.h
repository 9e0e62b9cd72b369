// The user's choice of results on NaN, where ONNX Runtime's kernels differ from eager.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace onnx_native {

enum class NanMode {
  standard,  // exact where it costs little: sorts are, max pools are not
  exact,     // exact in max pools too
  ignore,    // the shortest form; for models in which no NaN occurs
};

// Returns "standard", "exact" or "ignore" as a mode. Throws ExportError(invalid_argument) with the
// known names for any other text.
NanMode parse_nan_mode(std::string_view text);

// ONNX operators that treat NaN differently from eager, and their number in the model.
using NanDifferences = std::map<std::string, int64_t>;

// While in scope, lowerings of this thread use `mode`, and add to `differences` what they give up
// (nullptr: they do not). The innermost scope wins.
class NanScope {
 public:
  NanScope(NanMode mode, NanDifferences* differences);
  NanScope(const NanScope&) = delete;
  NanScope& operator=(const NanScope&) = delete;
  ~NanScope();

 private:
  NanMode outer_mode_;
  NanDifferences* outer_differences_;
};

// Returns the mode of this thread's innermost scope; `standard` without one.
NanMode nan_mode();
void note_nan_difference(const std::string& operators);

}  // namespace onnx_native
