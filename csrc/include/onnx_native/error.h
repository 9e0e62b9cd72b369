// onnx_native::ExportError, the only exception type of the API. It carries the kind of error, its
// cause, the location in the user's program and a hint.
#pragma once

#include "base/error.h"
