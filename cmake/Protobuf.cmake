# protobuf's lite runtime and its compiler, for OnnxMessages and OnnxChecker:
#   onnx_native_protobuf   the library with its headers
#   onnx_native_protoc     the command of the compiler, a list
# A development build takes the system's: nothing is compiled. A wheel must not need anything of the
# system: there protobuf is linked statically, from the sources that get_protobuf.py gets, and protoc is
# on the PATH, of the same release.
set(ONNX_NATIVE_PROTOBUF "" CACHE PATH
  "The folder of get_protobuf.py, to link protobuf statically; empty: the system's is used")
if(NOT ONNX_NATIVE_PROTOBUF)
  find_package(Protobuf 3.12 QUIET)
  if(NOT Protobuf_FOUND AND EXISTS "${third_party}/protobuf")
    set(ONNX_NATIVE_PROTOBUF "${third_party}")
  endif()
endif()
# torch carries a broken copy of protobuf's headers: the real ones come first, from a folder of
# their own.
if(NOT ONNX_NATIVE_PROTOBUF)
  set(protobuf_links "${PROJECT_BINARY_DIR}/links/protobuf")
  file(MAKE_DIRECTORY "${protobuf_links}/google")
  find_package(Protobuf 3.12 REQUIRED)
  list(GET Protobuf_INCLUDE_DIRS 0 protobuf_include)
  file(CREATE_LINK "${protobuf_include}/google/protobuf" "${protobuf_links}/google/protobuf" SYMBOLIC)
  add_library(onnx_native_protobuf INTERFACE)
  target_include_directories(onnx_native_protobuf BEFORE INTERFACE "${protobuf_links}")
  target_link_libraries(onnx_native_protobuf INTERFACE protobuf::libprotobuf-lite)
  set(onnx_native_protoc protobuf::protoc)
  return()
endif()

onnx_native_forget_folder("${ONNX_NATIVE_PROTOBUF}")
# No link leads here: GCC would name a header by the shorter of the two paths, which depends on ccache.
set(protobuf_headers "${ONNX_NATIVE_PROTOBUF}/protobuf/src")
set(protobuf_runtime "${protobuf_headers}/google/protobuf")
# The sources of protobuf's target libprotobuf-lite.
set(lite any_lite arena arena_align arenastring arenaz_sampler extension_set generated_enum_util
  generated_message_tctable_lite generated_message_util implicit_weak_message inlined_string_field
  io/coded_stream io/zero_copy_stream io/zero_copy_stream_impl io/zero_copy_stream_impl_lite map
  message_lite micro_string parse_context port raw_ptr repeated_field repeated_ptr_field stubs/common
  wire_format_lite)
list(TRANSFORM lite REPLACE "(.+)" "${protobuf_runtime}/\\1.cc")
# What of abseil it uses: all but the tests; the linker drops the rest.
file(GLOB_RECURSE abseil "${ONNX_NATIVE_PROTOBUF}/abseil-cpp/absl/*.cc")
list(FILTER abseil EXCLUDE REGEX
  "_test|test_|_benchmark|benchmark|_mock|mock_|_testing|/testing/|/flags/|/random/|_main\\.cc|_win\\.cc|print_hash_of|gentables|_matchers")
set(utf8 "${ONNX_NATIVE_PROTOBUF}/protobuf/third_party/utf8_range/utf8_range.c")
set_source_files_properties("${utf8}" PROPERTIES LANGUAGE CXX)  # the project has no C
add_library(onnx_native_protobuf STATIC ${lite} ${abseil} "${utf8}")
target_include_directories(onnx_native_protobuf SYSTEM BEFORE PUBLIC
  "${protobuf_headers}" "${ONNX_NATIVE_PROTOBUF}/abseil-cpp" "${ONNX_NATIVE_PROTOBUF}/protobuf/third_party/utf8_range")
target_compile_options(onnx_native_protobuf PRIVATE -w -fvisibility=hidden -ffunction-sections -fdata-sections)
find_program(onnx_native_protoc protoc REQUIRED NO_CMAKE_SYSTEM_PATH)
execute_process(COMMAND "${onnx_native_protoc}" --version OUTPUT_VARIABLE protoc_version
                OUTPUT_STRIP_TRAILING_WHITESPACE)
# 7035001 is release 35.1.
file(STRINGS "${protobuf_runtime}/stubs/common.h" release REGEX "define GOOGLE_PROTOBUF_VERSION ")
string(REGEX REPLACE ".* [0-9]0*([1-9][0-9]*)00([0-9])$" "libprotoc \\1.\\2" release "${release}")
if(NOT protoc_version STREQUAL release)
  message(FATAL_ERROR "${onnx_native_protoc} is ${protoc_version}, but the sources are those of ${release}")
endif()
