# What the build takes from the installed onnx package:
#   onnx_native_messages  ModelProto and its kin, lite, in the private namespace onnx_native_pb
#                         (the namespace `onnx` belongs to Python's onnx extension);
#                         #include "onnx/onnx_onnx_native_pb-ml.pb.h", for the writer room only
#   onnx_native_schemas   csrc/onnx/generate_schemas.py's table; #include "generated/schemas.inc"
if(NOT ONNX_PACKAGE)
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" -c
            "import importlib.util as u;print(u.find_spec('onnx').submodule_search_locations[0],end='')"
    OUTPUT_VARIABLE ONNX_PACKAGE COMMAND_ERROR_IS_FATAL ANY)
endif()
onnx_native_forget_folder("${ONNX_PACKAGE}/..")
include(Protobuf)

set(messages "${PROJECT_BINARY_DIR}/messages")
file(MAKE_DIRECTORY "${messages}/onnx")

# onnx_native_message_sources(STEM OUTPUT out): the C++ source of the messages in STEM.in.proto.
# gen_proto.py names what it writes OUTPUT.
function(onnx_native_message_sources stem output out)
  set(path "${messages}/onnx/${output}")
  add_custom_command(
    OUTPUT "${path}.proto"
    COMMAND "${Python3_EXECUTABLE}" "${ONNX_PACKAGE}/gen_proto.py" -p onnx_native_pb -m -l
            -o "${messages}/onnx" ${stem} > /dev/null
    DEPENDS "${ONNX_PACKAGE}/${stem}.in.proto" "${ONNX_PACKAGE}/gen_proto.py"
    VERBATIM)
  # The others import the main one.
  set(main "${messages}/onnx/onnx_onnx_native_pb-ml.proto")
  add_custom_command(
    OUTPUT "${path}.pb.cc" "${path}.pb.h"
    COMMAND ${onnx_native_protoc} "onnx/${output}.proto" -I "${messages}" --cpp_out "${messages}"
    DEPENDS "${path}.proto" "${main}"
    VERBATIM)
  set(${out} "${path}.pb.cc" PARENT_SCOPE)
endfunction()
onnx_native_message_sources(onnx onnx_onnx_native_pb-ml model_messages)
add_library(onnx_native_messages STATIC ${model_messages})
target_include_directories(onnx_native_messages SYSTEM PUBLIC "${messages}")
target_link_libraries(onnx_native_messages PUBLIC onnx_native_protobuf)
set_target_properties(onnx_native_messages PROPERTIES CXX_VISIBILITY_PRESET hidden)

add_library(onnx_native_schemas INTERFACE)
file(GLOB schema_generator CONFIGURE_DEPENDS csrc/onnx/generate_schemas.py)
if(schema_generator)
  set(schemas "${PROJECT_BINARY_DIR}/tables/generated/schemas.inc")
  file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/tables/generated")
  add_custom_command(
    OUTPUT "${schemas}"
    COMMAND "${Python3_EXECUTABLE}" "${schema_generator}" --output "${schemas}"
    DEPENDS "${schema_generator}" "${ONNX_PACKAGE}/version.py"
    VERBATIM)
  add_custom_target(onnx_native_schema_tables DEPENDS "${schemas}")
  add_dependencies(onnx_native_schemas onnx_native_schema_tables)
  target_include_directories(onnx_native_schemas INTERFACE "${PROJECT_BINARY_DIR}/tables")
endif()
