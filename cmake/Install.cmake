# What `cmake --install` lays down: a package for C++ applications, or, with ONNX_NATIVE_WHEEL, the
# package for Python, with the same for applications inside it. Both can be moved: libraries find each
# other from where they are. PyTorch is where it was at the build, or beside the package for Python.
option(ONNX_NATIVE_WHEEL "Install as the wheel is laid out" OFF)
if(NOT TARGET onnx_native_core)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Folders, from the prefix. What links to PyTorch is apart in a wheel, which serves several versions.
if(ONNX_NATIVE_WHEEL)
  set(libraries_to "onnx_native/torch-${TORCH_VERSION}")
  set(command_to "${libraries_to}")
  set(checker_to onnx_native)
  set(headers_to onnx_native/include)
  set(config_to onnx_native/share/cmake/onnx_native)
  set(targets_to onnx_native)
  set(torch_path "$ORIGIN/../../torch/lib")
  set(command_path "$ORIGIN")
else()
  set(libraries_to "${CMAKE_INSTALL_LIBDIR}")
  set(command_to "${CMAKE_INSTALL_BINDIR}")
  set(checker_to "${CMAKE_INSTALL_LIBDIR}")
  set(headers_to "${CMAKE_INSTALL_INCLUDEDIR}")
  set(config_to "${CMAKE_INSTALL_LIBDIR}/cmake/onnx_native")
  set(targets_to "${config_to}")
  set(torch_path "${TORCH_ROOT}/lib")
  set(command_path "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
endif()

# The checker lies beside the core or, in a wheel, above it.
set_target_properties(onnx_native_core PROPERTIES
  EXPORT_NAME core
  INSTALL_RPATH "$ORIGIN;$ORIGIN/..;${torch_path}")
target_compile_features(onnx_native_core INTERFACE cxx_std_20)
target_include_directories(onnx_native_core INTERFACE "$<INSTALL_INTERFACE:${headers_to}>")
target_link_libraries(onnx_native_core INTERFACE
  "$<INSTALL_INTERFACE:torch::torch_cpu>" "$<INSTALL_INTERFACE:torch::c10>")
install(TARGETS onnx_native_core EXPORT onnx_native LIBRARY DESTINATION ${libraries_to})
if(TARGET onnx_native_check)
  install(TARGETS onnx_native_check LIBRARY DESTINATION ${checker_to})
endif()
set_target_properties(onnx_native_cli PROPERTIES INSTALL_RPATH "${command_path};${torch_path}")
install(TARGETS onnx_native_cli RUNTIME DESTINATION ${command_to})
install(DIRECTORY "${public_folder}/onnx_native" DESTINATION ${headers_to})
install(EXPORT onnx_native NAMESPACE onnx_native:: FILE onnx_native-targets.cmake
        DESTINATION "${targets_to}/torch-${TORCH_VERSION}")
configure_package_config_file(cmake/onnx_native-config.cmake.in onnx_native-config.cmake
                              INSTALL_DESTINATION ${config_to} PATH_VARS targets_to)
write_basic_package_version_file(onnx_native-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/onnx_native-config.cmake"
              "${PROJECT_BINARY_DIR}/onnx_native-config-version.cmake" cmake/TorchTargets.cmake
        DESTINATION ${config_to})

if(ONNX_NATIVE_WHEEL)
  set_target_properties(onnx_native_plugin PROPERTIES INSTALL_RPATH "$ORIGIN;${torch_path}")
  # The install step would overwrite the path of the build folder, and its length would stay in the library.
  set_target_properties(onnx_native_core onnx_native_plugin onnx_native_cli PROPERTIES
    BUILD_WITH_INSTALL_RPATH ON)
  install(TARGETS onnx_native_plugin LIBRARY DESTINATION ${libraries_to})
  install(FILES "${package_folder}/_build_info.py" DESTINATION onnx_native)
  foreach(file ${python_files})
    get_filename_component(folder "onnx_native/${file}" DIRECTORY)
    install(FILES "${python_folder}/${file}" DESTINATION "${folder}")
  endforeach()
endif()
