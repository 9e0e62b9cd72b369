# nlohmann_json::nlohmann_json and CLI11::CLI11, which have headers only: the system's, or those that a
# source distribution brings in third_party (setup.py).
set(third_party "${PROJECT_SOURCE_DIR}/third_party")
foreach(library nlohmann_json CLI11)
  find_package(${library} QUIET)
  if(NOT ${library}_FOUND AND EXISTS "${third_party}")
    add_library(${library}::${library} INTERFACE IMPORTED)
    target_include_directories(${library}::${library} SYSTEM INTERFACE "${third_party}")
  elseif(NOT ${library}_FOUND)
    find_package(${library} REQUIRED)
  endif()
endforeach()
