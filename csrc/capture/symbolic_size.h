// Symbolic numbers as PyTorch sees them: SymInt over Dim, SymFloat and SymBool over Number.
#pragma once

#include <c10/core/SymBool.h>
#include <c10/core/SymFloat.h>
#include <c10/core/SymInt.h>

#include <string>

#include "base/dim.h"
#include "capture/decisions.h"

namespace onnx_native::capture {

// Returns a size as a SymInt of this recording. The SymInt of a constant is a plain number.
c10::SymInt to_sym_int(const Dim& dim, const Decisions& decisions);
c10::SymFloat to_sym_float(const NumberPtr& number, const Decisions& decisions);
c10::SymBool to_sym_bool(const NumberPtr& number, const Decisions& decisions);
// Returns the expression of a float or bool. Refuses the recording if another one made the number.
NumberPtr to_number(const c10::SymNode& node, Decisions& decisions);
// Returns a stride that is not known. A read of it refuses the recording with this reason.
c10::SymInt unknown_stride(std::string reason, const Decisions& decisions);
// Returns true if a recording, this or another one, made the size.
bool is_recorded(const c10::SymInt& size);
// Returns true if a recording, this or another one, made the number or condition.
bool is_recorded(const c10::SymNode& node);
// Returns the text of a recorded size, for messages.
std::string text_of(const c10::SymInt& size);
// Returns the expression of a size. Refuses the recording if another one made the size.
Dim to_dim(const c10::SymInt& size, Decisions& decisions);

}  // namespace onnx_native::capture
