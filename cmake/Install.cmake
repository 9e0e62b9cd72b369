# What `cmake --install` lays down: a package for C++ applications (bin, lib, include), or, with
# ONNX_NATIVE_WHEEL, the two parts of the wheel (setup.py). Both can be moved: libraries find each other
# from where they are. PyTorch is where it was at the build, or beside the wheel's package.
option(ONNX_NATIVE_WHEEL "Install as the wheel is laid out" OFF)
if(NOT TARGET onnx_native_core)
  return()
endif()
set(libraries onnx_native_core)
if(TARGET onnx_native_check)
  list(APPEND libraries onnx_native_check)
endif()

if(ONNX_NATIVE_WHEEL)
  list(APPEND libraries onnx_native_plugin)
  set_target_properties(${libraries} PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/../torch/lib")
  install(TARGETS ${libraries} LIBRARY DESTINATION onnx_native COMPONENT python)
  install(FILES "${package_folder}/_build_info.py" DESTINATION onnx_native COMPONENT python)
  foreach(file ${python_files})
    get_filename_component(folder "onnx_native/${file}" DIRECTORY)
    install(FILES "${python_folder}/${file}" DESTINATION "${folder}" COMPONENT python)
  endforeach()
  # From bin to the packages: of a virtual environment, of Debian's own Python, of pip --target.
  set(command_rpath)
  set(python "python${Python3_VERSION_MAJOR}.${Python3_VERSION_MINOR}")
  foreach(packages lib/${python}/site-packages lib64/${python}/site-packages
                   lib/${python}/dist-packages .)
    list(APPEND command_rpath "$ORIGIN/../${packages}/onnx_native"
                              "$ORIGIN/../${packages}/torch/lib")
  endforeach()
  set_target_properties(onnx_native_cli PROPERTIES INSTALL_RPATH "${command_rpath}")
  install(TARGETS onnx_native_cli RUNTIME DESTINATION . COMPONENT command)
  return()
endif()

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(config_folder "${CMAKE_INSTALL_LIBDIR}/cmake/onnx_native")
set_target_properties(${libraries} PROPERTIES INSTALL_RPATH "$ORIGIN;${TORCH_ROOT}/lib")
set_target_properties(onnx_native_cli PROPERTIES
  INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};${TORCH_ROOT}/lib")
set_target_properties(onnx_native_core PROPERTIES EXPORT_NAME core)
target_compile_features(onnx_native_core INTERFACE cxx_std_20)
target_include_directories(onnx_native_core INTERFACE
  "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_link_libraries(onnx_native_core INTERFACE
  "$<INSTALL_INTERFACE:torch::torch_cpu>" "$<INSTALL_INTERFACE:torch::c10>")
install(TARGETS onnx_native_core EXPORT onnx_native LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET onnx_native_check)
  install(TARGETS onnx_native_check LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(TARGETS onnx_native_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY "${public_folder}/onnx_native" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT onnx_native NAMESPACE onnx_native:: FILE onnx_native-targets.cmake
        DESTINATION ${config_folder})
configure_package_config_file(cmake/onnx_native-config.cmake.in onnx_native-config.cmake
                              INSTALL_DESTINATION ${config_folder})
write_basic_package_version_file(onnx_native-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/onnx_native-config.cmake"
              "${PROJECT_BINARY_DIR}/onnx_native-config-version.cmake" cmake/TorchTargets.cmake
        DESTINATION ${config_folder})
