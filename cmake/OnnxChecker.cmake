# libonnx_native_check.so: onnx's own checker from the sources in the installed onnx package, in the
# private namespace of our messages and on protobuf-lite. It has one entry point, csrc/checker, and
# exports nothing else; the core loads it when a model is to be checked.
option(ONNX_NATIVE_CHECKER "Build onnx's C++ checker (a minute of one core)" ON)
if(NOT ONNX_NATIVE_CHECKER)
  return()
endif()
onnx_native_message_sources(onnx-operators onnx-operators_onnx_native_pb-ml operator_messages)
onnx_native_message_sources(onnx-data onnx-data_onnx_native_pb data_messages)

set(checker_folder "${PROJECT_BINARY_DIR}/links/checker")
file(MAKE_DIRECTORY "${checker_folder}/onnx" "${PROJECT_BINARY_DIR}/links/onnx_sources")
file(CREATE_LINK "${ONNX_PACKAGE}" "${PROJECT_BINARY_DIR}/links/onnx_sources/onnx" SYMBOLIC)
# MessageLite has no ShortDebugString.
file(READ "${ONNX_PACKAGE}/proto_utils.h" text)
string(REPLACE "proto.ShortDebugString()" "std::string(proto.GetTypeName())" text "${text}")
file(GENERATE OUTPUT "${checker_folder}/onnx/proto_utils.h" CONTENT "${text}")

file(GLOB_RECURSE onnx_sources "${ONNX_PACKAGE}/common/*.cc" "${ONNX_PACKAGE}/defs/*.cc"
                               "${ONNX_PACKAGE}/inliner/*.cc" "${ONNX_PACKAGE}/shape_inference/*.cc")
list(FILTER onnx_sources EXCLUDE REGEX "/ir_pb_converter\\.cc$|/interned_strings\\.cc$")
list(APPEND onnx_sources "${ONNX_PACKAGE}/checker.cc")

onnx_native_include_folder(checker checker_includes checker)
add_library(onnx_native_check MODULE csrc/checker/checker.cpp ${onnx_sources} ${operator_messages}
                                     ${data_messages})
# One compilation for ten sources: 65 seconds of CPU time in place of 400.
set_target_properties(onnx_native_check PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
set_source_files_properties(
  csrc/checker/checker.cpp ${operator_messages} ${data_messages}
  "${ONNX_PACKAGE}/defs/schema.cc" "${ONNX_PACKAGE}/defs/tensor_proto_util.cc"
  PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
# The linker drops what the checker does not reach, the version converter's callers too.
target_compile_options(onnx_native_check PRIVATE -w -fvisibility=hidden -ffunction-sections
                                                 $<$<CONFIG:RelWithDebInfo>:-O1>)
target_compile_definitions(onnx_native_check PRIVATE ONNX_NAMESPACE=onnx_native_pb ONNX_ML=1
                                                     ONNX_USE_LITE_PROTO=1)
target_include_directories(onnx_native_check PRIVATE "${checker_includes}")
target_include_directories(onnx_native_check SYSTEM BEFORE PRIVATE
  "${checker_folder}" "${PROJECT_BINARY_DIR}/links/onnx_sources")
target_link_libraries(onnx_native_check PRIVATE onnx_native_messages)
target_link_options(onnx_native_check PRIVATE "LINKER:--exclude-libs,ALL" "LINKER:-z,defs"
  "LINKER:--gc-sections"
  "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/checker.map")
set_target_properties(onnx_native_check PROPERTIES
  LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/checker.map"
  LIBRARY_OUTPUT_DIRECTORY "${package_folder}")
