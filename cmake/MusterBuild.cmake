# How Muster's targets are built: warnings, sanitizers, ccache, the torch wall and its precompiled header.

find_program(MUSTER_CCACHE ccache)
if(MUSTER_CCACHE)
  # The precompiled header carries a time stamp and defines macros that ccache cannot see; these settings are the
  # documented way to let it cache both the header and its users.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${MUSTER_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fpch-preprocess)
  endif()
endif()

# What every target of ours gets: a warning is an error here, and never in a header of somebody else's.
add_library(muster_flags INTERFACE)
target_compile_options(muster_flags INTERFACE -Wall -Wextra -Werror -Wno-psabi
  # Optimizer kernels promise the same bits on every x86-64: no contraction to fused multiply-add behind our back.
  -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(muster_flags INTERFACE -Wthread-safety)
endif()
if(MUSTER_TESTS)
  # Tests kill, stop and delay at failpoints (muster/base/failpoint.h); builds without tests have none.
  target_compile_definitions(muster_flags INTERFACE MUSTER_FAILPOINTS)
endif()
target_include_directories(muster_flags INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
if(MUSTER_SANITIZE)
  target_compile_options(muster_flags INTERFACE -fsanitize=${MUSTER_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_compile_definitions(muster_flags INTERFACE MUSTER_PLAIN_KERNELS)
  target_link_options(muster_flags INTERFACE -fsanitize=${MUSTER_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC places the checks of the address sanitizer so that these two see paths that cannot be taken.
    target_compile_options(muster_flags INTERFACE -Wno-maybe-uninitialized -Wno-stringop-overflow)
  endif()
endif()

if(MUSTER_TORCH)
  # LibTorch with its headers as system headers, and one precompiled header for everyone behind the wall.
  add_library(muster_torch INTERFACE)
  target_link_libraries(muster_torch INTERFACE ${TORCH_LIBRARIES})
  target_include_directories(muster_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})

  add_library(muster_torch_header OBJECT ${PROJECT_SOURCE_DIR}/cmake/torch_header.cpp)
  target_link_libraries(muster_torch_header PRIVATE muster_flags muster_torch)
  target_precompile_headers(muster_torch_header PRIVATE <torch/torch.h>)
endif()

# muster_use_torch(TARGET [TORCH_FREE source...]): puts TARGET behind the wall. The listed sources do not include torch
# and so do not wait for the precompiled header.
function(muster_use_torch target)
  cmake_parse_arguments(ARG "" "" "TORCH_FREE" ${ARGN})
  target_link_libraries(${target} PUBLIC $<BUILD_INTERFACE:muster_torch>)
  target_precompile_headers(${target} REUSE_FROM muster_torch_header)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    # CMake compiles programs with -fPIE, and the header was precompiled with the libraries' -fPIC.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  set_source_files_properties(${ARG_TORCH_FREE} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# muster_layer(NAME SOURCES ... [DEPENDS layer...] [LIBRARIES target...]): the library of one folder of muster/.
function(muster_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  add_library(muster_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(muster_${name} PRIVATE $<BUILD_INTERFACE:muster_flags>)
  target_include_directories(muster_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_link_libraries(muster_${name} PUBLIC ${ARG_LIBRARIES})
  foreach(layer ${ARG_DEPENDS})
    target_link_libraries(muster_${name} PUBLIC muster_${layer})
  endforeach()
endfunction()

# muster_test(NAME SOURCES ... LIBRARIES ... [TORCH] [PROGRAM] [TIMEOUT seconds] [LABELS ...]): one test program, one CTest
# entry. PROGRAM: it starts `muster`, which it finds as MUSTER_PROGRAM.
function(muster_test name)
  cmake_parse_arguments(ARG "TORCH;SERIAL;PROGRAM" "TIMEOUT" "SOURCES;LIBRARIES;LABELS;DEFINITIONS" ${ARGN})
  if(ARG_TORCH AND NOT MUSTER_TORCH)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE muster_flags ${ARG_LIBRARIES} GTest::gtest GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE ${ARG_DEFINITIONS})
  if(ARG_PROGRAM)
    target_compile_definitions(${name} PRIVATE MUSTER_PROGRAM="$<TARGET_FILE:muster>")
    add_dependencies(${name} muster)
  endif()
  if(ARG_TORCH)
    muster_use_torch(${name})
  endif()
  set(properties TIMEOUT ${ARG_TIMEOUT})
  if(ARG_LABELS)
    list(APPEND properties LABELS "${ARG_LABELS}")
  endif()
  if(ARG_SERIAL)
    list(APPEND properties RUN_SERIAL ON)
  endif()
  # A torch program takes most of a second to load: one process for all its cases instead of one for each.
  add_test(NAME ${name} COMMAND ${name} --gtest_color=yes)
  set_tests_properties(${name} PROPERTIES ${properties})
endfunction()
