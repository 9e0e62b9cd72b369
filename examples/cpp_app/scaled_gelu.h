// An operator of the application's own: cpp_app::scaled_gelu(x, scale) = gelu(x) * scale.
#pragma once

// Says which ONNX nodes a call of it becomes.
void register_scaled_gelu_lowering();
