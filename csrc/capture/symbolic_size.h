// Symbolic numbers as PyTorch sees them: SymInt over Dim, SymFloat and SymBool over Number.
#pragma once

#include <c10/core/SymBool.h>
#include <c10/core/SymFloat.h>
#include <c10/core/SymInt.h>

#include <string>

#include "base/dim.h"
#include "capture/decisions.h"

namespace onnx_native::capture {

// Returns the size as a SymInt of this recording; a plain number if it is constant.
c10::SymInt to_sym_int(const Dim& dim, const Decisions& decisions);
c10::SymFloat to_sym_float(const NumberPtr& number, const Decisions& decisions);
c10::SymBool to_sym_bool(const NumberPtr& number, const Decisions& decisions);
// Returns the expression of a float or bool. Refuses the recording if it is not from it.
NumberPtr to_number(const c10::SymNode& node, Decisions& decisions);
// Returns a stride that is not known: whatever reads it refuses the recording with the reason.
c10::SymInt unknown_stride(std::string reason, const Decisions& decisions);
// Returns true for a size of any recording.
bool is_recorded(const c10::SymInt& size);
// Returns true for a number or a condition of any recording.
bool is_recorded(const c10::SymNode& node);
// Returns the text of a recorded size, for messages.
std::string text_of(const c10::SymInt& size);
// Returns the expression of a size. Refuses the recording if the size is not from it.
Dim to_dim(const c10::SymInt& size, Decisions& decisions);

}  // namespace onnx_native::capture
