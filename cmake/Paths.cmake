# onnx_native_forget_folder(FOLDER): what is compiled afterwards names the files of a folder by their paths
# below it. __FILE__ is in messages of PyTorch, onnx and protobuf, and would name folders of the build machine;
# so the same sources make the same bytes anywhere. Of several folders that hold a file, the last one counts.
# cmake/ccache.sh makes paths relative to the build folder; ccache shares objects in spite of these options.
function(onnx_native_forget_folder folder)
  get_filename_component(folder "${folder}" ABSOLUTE)
  file(RELATIVE_PATH relative "${PROJECT_BINARY_DIR}" "${folder}")
  string(REGEX REPLACE "/$" "" relative "${relative}")  # a parent's path ends in one
  add_compile_options("-ffile-prefix-map=${folder}/=")
  if(relative)
    add_compile_options("-ffile-prefix-map=${relative}/=")
  endif()
endfunction()
onnx_native_forget_folder("${PROJECT_SOURCE_DIR}")
onnx_native_forget_folder("${PROJECT_BINARY_DIR}")
