# build/public/onnx_native: the headers that applications see. csrc/include/onnx_native, and those of
# the rooms that lowerings need, where an include of a room is one of onnx_native/<room>: installed,
# they share <prefix>/include with others. The command line compiles against this folder alone.
set(public_folder "${PROJECT_BINARY_DIR}/public")
file(GLOB public_headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/csrc/include/onnx_native"
                                           csrc/include/onnx_native/*.h)
list(TRANSFORM public_headers PREPEND "include/onnx_native/")
list(APPEND public_headers
  base/checked_vector.h base/dim.h base/dtype.h base/error.h base/input_spec.h base/metadata.h base/nan.h base/precision.h base/quantization.h base/scalar.h base/target.h base/tensor_data.h
  aten/default_dtype.h aten/graph.h aten/schema.h
  onnx/builder.h onnx/graph.h onnx/infer.h onnx/number.h
  ops/engine/binder.h ops/engine/call.h ops/engine/op_table.h)
foreach(header ${public_headers})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "csrc/${header}")
  file(READ "csrc/${header}" text)
  string(REGEX REPLACE "#include \"(base|aten|onnx|ops)/" "#include \"onnx_native/\\1/" text "${text}")
  string(REGEX REPLACE "^include/onnx_native/" "" header "${header}")
  file(GENERATE OUTPUT "${public_folder}/onnx_native/${header}" CONTENT "${text}")
endforeach()
