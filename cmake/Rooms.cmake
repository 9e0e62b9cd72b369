# onnx_native_room(NAME SEES room... [NEEDS target...])
#
# One object library per folder of csrc/. A room compiles against one include folder of its own,
# build/rooms/NAME, made of links to the rooms that it may include: anything else is not found.
# `onnx_native` among the rooms stands for the public headers, csrc/include/onnx_native.
# A room inside another one is declared before it. Its target has _ for /: room_ops_engine.
# A room without sources yet is left out; rooms_built lists the others' targets, room_sources their
# sources.
# Rooms that see no header of PyTorch are the same for every version of it: with -DONNX_NATIVE_ROOMS=BUILD
# their objects are those of that finished build folder, which was configured alike for another version.
# rooms_taken lists them.
set(ONNX_NATIVE_ROOMS "" CACHE PATH "Build folder that has the rooms which know nothing of PyTorch")
set(rooms_built)
set(rooms_taken)
set(room_sources)
set(onnx_native_warnings -Wall -Wextra -Werror
  # False positives of GCC 12 at -O2 (PR105329, PR105651, PR107138 and kin).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict;-Wno-maybe-uninitialized;-Wno-stringop-overflow;-Wno-array-bounds>
  # Aggregates with designated initializers leave members to their defaults on purpose.
  -Wno-missing-field-initializers)

function(onnx_native_include_folder name out)
  set(folder "${PROJECT_BINARY_DIR}/rooms/${name}")
  file(REMOVE_RECURSE "${folder}")
  file(MAKE_DIRECTORY "${folder}")
  foreach(seen ${ARGN})
    if(seen STREQUAL "onnx_native")
      set(target "${PROJECT_SOURCE_DIR}/csrc/include/onnx_native")
    elseif(seen STREQUAL "plugin" OR seen STREQUAL "fx")
      set(target "${PROJECT_SOURCE_DIR}/torch_ext/${seen}")
    else()
      set(target "${PROJECT_SOURCE_DIR}/csrc/${seen}")
    endif()
    get_filename_component(parent "${folder}/${seen}" DIRECTORY)
    file(MAKE_DIRECTORY "${parent}")
    file(CREATE_LINK "${target}" "${folder}/${seen}" SYMBOLIC)
  endforeach()
  set(${out} "${folder}" PARENT_SCOPE)
endfunction()

# onnx_native_units(OUT TARGET FOLDER source...): a target's sources below FOLDER, up to eight of one folder in each
# unit, which includes them by their paths below FOLDER. Compilers spend most of their time on headers, and a unit
# reads them once: less than half of the time. Unlike those of UNITY_BUILD, the units are the same in each clone, so
# that ccache finds them.
option(ONNX_NATIVE_UNITS "Compile the sources of a folder together; off for clang-tidy" ON)
function(onnx_native_units out target folder)
  if(NOT ONNX_NATIVE_UNITS)
    set(${out} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(names)
  foreach(source ${ARGN})
    file(RELATIVE_PATH source "${folder}" "${source}")
    get_filename_component(name "${source}" DIRECTORY)
    string(REPLACE "/" "_" name "${name}")
    list(APPEND names "${name}")
    list(APPEND includes_${name} "#include \"${source}\"")
  endforeach()
  list(REMOVE_DUPLICATES names)
  set(units)
  foreach(name ${names})
    list(LENGTH includes_${name} count)
    math(EXPR parts "(${count} + 7) / 8")
    foreach(part RANGE 1 ${parts})
      math(EXPR first "${count} * (${part} - 1) / ${parts}")
      math(EXPR length "${count} * ${part} / ${parts} - ${first}")
      list(SUBLIST includes_${name} ${first} ${length} text)
      list(JOIN text "\n" text)
      set(unit "${PROJECT_BINARY_DIR}/units/${target}/${name}_${part}.cpp")
      file(CONFIGURE OUTPUT "${unit}" CONTENT "${text}\n" @ONLY)
      list(APPEND units "${unit}")
    endforeach()
  endforeach()
  set(${out} ${units} PARENT_SCOPE)
endfunction()

function(onnx_native_room name)
  cmake_parse_arguments(PARSE_ARGV 1 room "" "" "SEES;NEEDS")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/csrc/${name}/*.cpp")
  list(REMOVE_ITEM sources ${room_sources})
  if(NOT sources)
    return()
  endif()
  set(room_sources ${room_sources} ${sources} PARENT_SCOPE)
  string(REPLACE "/" "_" name "${name}")
  onnx_native_units(units room_${name} "${PROJECT_SOURCE_DIR}/csrc" ${sources})
  set(rooms_built ${rooms_built} ${name} PARENT_SCOPE)
  if(ONNX_NATIVE_ROOMS AND NOT "torch::headers" IN_LIST room_NEEDS)
    list(TRANSFORM units REPLACE "^(${PROJECT_BINARY_DIR}|${PROJECT_SOURCE_DIR})(.*)$"
      "${ONNX_NATIVE_ROOMS}/CMakeFiles/room_${name}.dir\\2.o" OUTPUT_VARIABLE objects)
    add_library(room_${name} OBJECT IMPORTED)
    set_target_properties(room_${name} PROPERTIES IMPORTED_OBJECTS "${objects}")
    set(rooms_taken ${rooms_taken} ${name} PARENT_SCOPE)
    return()
  endif()
  onnx_native_include_folder(${name} folder ${room_SEES})
  add_library(room_${name} OBJECT ${units})
  target_include_directories(room_${name} PRIVATE "${folder}")
  target_compile_options(room_${name} PRIVATE ${onnx_native_warnings} -fno-semantic-interposition
                                              -fvisibility-inlines-hidden)
  target_compile_definitions(room_${name} PRIVATE ONNX_NATIVE_VERSION="${PROJECT_VERSION}")
  # The other rooms compile to the same objects for every PyTorch.
  if("torch::headers" IN_LIST room_NEEDS)
    target_compile_definitions(room_${name} PRIVATE ONNX_NATIVE_TORCH_VERSION="${TORCH_VERSION}")
  endif()
  target_link_libraries(room_${name} PRIVATE onnx_native_fmt ${room_NEEDS})
endfunction()
