# How Muster's targets are built: warnings, sanitizers, ccache, the torch wall and its precompiled header.

find_program(MUSTER_CCACHE ccache)
# What a failed check names is the same in every clone.
add_compile_options(-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
if(MUSTER_CCACHE)
  # The precompiled header carries a time stamp and defines macros that ccache cannot see; these settings are the
  # documented way to let it cache both the header and its users. Paths below the source are hashed as relative ones, so
  # that another clone of the same sources compiles nothing again.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=yes
      ${MUSTER_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fpch-preprocess)
  endif()
endif()

# What every target of ours gets. Warnings are errors in CI and in the developers' presets
# (CMAKE_COMPILE_WARNING_AS_ERROR), not for users, whose compiler may know warnings that ours does not.
add_library(muster_flags INTERFACE)
target_compile_options(muster_flags INTERFACE -Wall -Wextra -Wno-psabi
  # Optimizer kernels promise the same bits on every x86-64: no contraction to fused multiply-add behind our back.
  -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(muster_flags INTERFACE -Wthread-safety)
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
    if(MUSTER_SANITIZE STREQUAL "thread")
      # It does not know fences. Those of parameter servers order what processes do to shared memory, which it cannot see.
      target_compile_options(muster_flags INTERFACE -Wno-tsan)
    endif()
  endif()
endif()

if(MUSTER_TORCH)
  # LibTorch with its headers as system headers, and one precompiled header for everyone behind the wall.
  add_library(muster_torch INTERFACE)
  target_link_libraries(muster_torch INTERFACE ${TORCH_LIBRARIES})
  muster_headers_before_torch(muster_first_headers fmt fmt::fmt google protobuf::libprotobuf)
  target_include_directories(muster_torch SYSTEM INTERFACE ${muster_first_headers} ${TORCH_INCLUDE_DIRS})

  add_library(muster_torch_header OBJECT ${PROJECT_SOURCE_DIR}/cmake/torch_header.cpp)
  target_link_libraries(muster_torch_header PRIVATE muster_flags muster_torch)
  target_precompile_headers(muster_torch_header PRIVATE <torch/torch.h>)
endif()

# Several sources of TARGET are compiled as one where MUSTER_UNITY asks for it: most of a compiler's time goes into
# headers, which are then read once.
function(muster_unity target batch)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${MUSTER_UNITY} UNITY_BUILD_BATCH_SIZE ${batch})
  if(MUSTER_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC takes a source that is included for a header, in which unnamed namespaces would be a mistake.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# muster_use_torch(TARGET): puts TARGET, all of its sources, behind the wall.
function(muster_use_torch target)
  target_link_libraries(${target} PUBLIC $<BUILD_INTERFACE:muster_torch>)
  target_precompile_headers(${target} REUSE_FROM muster_torch_header)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    # CMake compiles programs with -fPIE, and the header was precompiled with the libraries' -fPIC.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()

# muster_torch_carries_gloo(OUT): whether libtorch_cpu defines Gloo's functions itself and lets others see them, as
# PyTorch's own builds do. Which of two Gloos a call then reaches is a matter of the order of libraries, and neither is
# made for the other's objects. Functions that are not inline decide: of the others every user of Gloo has copies.
function(muster_torch_carries_gloo out)
  set(${out} OFF PARENT_SCOPE)
  if(NOT TARGET torch_cpu)
    return()
  endif()
  get_target_property(library torch_cpu LOCATION)
  execute_process(
    COMMAND ${CMAKE_NM} -D --defined-only ${library}
    COMMAND grep -c " T _ZN4gloo"
    OUTPUT_VARIABLE functions
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(functions GREATER 0)
    set(${out} ON PARENT_SCOPE)
  endif()
endfunction()

# muster_layer(NAME SOURCES ... [TORCH_SOURCES ...] [DEPENDS layer...] [LIBRARIES target...] [ONE_BY_ONE [source...]]): the
# library of one folder of muster/. TORCH_SOURCES are behind the wall, as a target of their own, so that the others do not
# wait for the precompiled header; without LibTorch they are left out. ONE_BY_ONE: of its sources, those that use names
# which others use for something else; where none is named, all.
function(muster_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;TORCH_SOURCES;DEPENDS;LIBRARIES;ONE_BY_ONE" ${ARGN})
  list(TRANSFORM ARG_DEPENDS PREPEND muster_)
  add_library(muster_${name} STATIC ${ARG_SOURCES})
  set(targets muster_${name})
  if(ARG_TORCH_SOURCES AND MUSTER_TORCH)
    add_library(muster_${name}_torch OBJECT ${ARG_TORCH_SOURCES})
    muster_use_torch(muster_${name}_torch)
    muster_unity(muster_${name}_torch 4)
    target_sources(muster_${name} PRIVATE $<TARGET_OBJECTS:muster_${name}_torch>)
    target_link_libraries(muster_${name} PUBLIC $<BUILD_INTERFACE:muster_torch>)
    list(APPEND targets muster_${name}_torch)
  endif()
  if(ARG_ONE_BY_ONE)
    set_source_files_properties(${ARG_ONE_BY_ONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  if(NOT ONE_BY_ONE IN_LIST ARG_KEYWORDS_MISSING_VALUES)
    muster_unity(muster_${name} 8)
  endif()
  foreach(target ${targets})
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:muster_flags>)
    target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
    target_link_libraries(${target} PUBLIC ${ARG_DEPENDS} ${ARG_LIBRARIES})
  endforeach()
endfunction()

# muster_test(NAME SOURCES ... LIBRARIES ... [TORCH] [PROGRAM] [GLOO] [TIMEOUT seconds] [LABELS ...] [ONE_BY_ONE source...]):
# one test program, one CTest entry. PROGRAM: it starts `muster`, which it finds as MUSTER_PROGRAM. GLOO: all of it is about
# jobs of several hosts, and CTest calls it disabled in a build that has no Gloo for them. ONE_BY_ONE: of its sources, those
# that use names which others use for something else.
function(muster_test name)
  cmake_parse_arguments(ARG "TORCH;SERIAL;PROGRAM;GLOO" "TIMEOUT" "SOURCES;LIBRARIES;LABELS;DEFINITIONS;ONE_BY_ONE" ${ARGN})
  if(ARG_TORCH AND NOT MUSTER_TORCH)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  if(MUSTER_SANITIZE)  # slower by that much
    math(EXPR ARG_TIMEOUT "10 * ${ARG_TIMEOUT}")
  endif()
  target_link_libraries(${name} PRIVATE muster_flags ${ARG_LIBRARIES} GTest::gtest GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE ${ARG_DEFINITIONS})
  if(ARG_PROGRAM)
    target_compile_definitions(${name} PRIVATE MUSTER_PROGRAM="$<TARGET_FILE:muster>")
    add_dependencies(${name} muster)
  endif()
  if(ARG_TORCH)
    muster_use_torch(${name})
    muster_unity(${name} 4)
  else()
    muster_unity(${name} 6)
    # Compiling takes longer than running, whose time goes into the libraries; most of all with a sanitizer.
    set(optimisation -O1)
    if(MUSTER_SANITIZE)
      set(optimisation -O0)
    endif()
    target_compile_options(${name} PRIVATE ${optimisation})
  endif()
  if(ARG_ONE_BY_ONE)
    set_source_files_properties(${ARG_ONE_BY_ONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  # Those that may take long begin first: else one of them runs alone at the end.
  set(properties TIMEOUT ${ARG_TIMEOUT} COST ${ARG_TIMEOUT})
  if(ARG_LABELS)
    list(APPEND properties LABELS "${ARG_LABELS}")
  endif()
  get_property(has_gloo GLOBAL PROPERTY MUSTER_HAS_GLOO)
  if(ARG_GLOO AND NOT has_gloo)
    list(APPEND properties DISABLED ON)
  endif()
  if(ARG_SERIAL)
    list(APPEND properties RUN_SERIAL ON)
  endif()
  # A torch program takes most of a second to load: one process for all its cases instead of one for each.
  add_test(NAME ${name} COMMAND ${name} --gtest_color=yes)
  set_tests_properties(${name} PROPERTIES ${properties})
endfunction()
