// The one exception type: onnx_native::ExportError, with a kind and a message that says where in
// the program something is and what to do about it.
#pragma once

#include "base/error.h"
