# libmuster and the installed package: what `cmake --install` copies and what find_package(Muster) finds.
#
# libmuster is one shared library of all layers but the program. Users link muster::muster, inside this tree and
# outside. Without LibTorch there is nothing to install: that build is for the thread sanitizer.
if(NOT MUSTER_TORCH)
  return()
endif()
include(CMakePackageConfigHelpers)

# Made of the layers' objects and not of their archives: nothing inside refers to what only users call, and a linker
# drops from an archive what nobody refers to. The archives are linked as well, for the libraries they bring along.
add_library(muster_shared SHARED)
foreach(layer ${MUSTER_LAYERS})
  if(layer STREQUAL cli)
    continue()
  endif()
  target_sources(muster_shared PRIVATE $<TARGET_OBJECTS:muster_${layer}>)
  if(TARGET muster_${layer}_torch)
    target_sources(muster_shared PRIVATE $<TARGET_OBJECTS:muster_${layer}_torch>)
  endif()
  target_link_libraries(muster_shared PRIVATE muster_${layer})
endforeach()
add_library(muster::muster ALIAS muster_shared)
set_target_properties(muster_shared PROPERTIES
  OUTPUT_NAME muster
  EXPORT_NAME muster
  LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
# A program that was linked with one minor release cannot start with another: the loader says so.
configure_file(${PROJECT_SOURCE_DIR}/cmake/muster.map ${PROJECT_BINARY_DIR}/muster.map @ONLY)
target_link_options(muster_shared PRIVATE LINKER:--version-script=${PROJECT_BINARY_DIR}/muster.map)
set_target_properties(muster_shared PROPERTIES LINK_DEPENDS ${PROJECT_BINARY_DIR}/muster.map)
target_compile_features(muster_shared PUBLIC cxx_std_20)
target_include_directories(muster_shared PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# What headers of ours include. An installed libmuster gets LibTorch from MusterConfig.cmake, which looks it up where
# the user has it.
target_link_libraries(muster_shared
  PUBLIC fmt::fmt nlohmann_json::nlohmann_json Threads::Threads $<BUILD_INTERFACE:muster_torch>
  PRIVATE $<BUILD_INTERFACE:muster_flags>)

# For shared objects with users' models (muster/model/user_models.h): headers and LibTorch, but not libmuster, since the
# program that loads them has its code already.
add_library(muster_headers INTERFACE)
add_library(muster::headers ALIAS muster_headers)
set_target_properties(muster_headers PROPERTIES EXPORT_NAME headers)
target_compile_features(muster_headers INTERFACE cxx_std_20)
target_include_directories(muster_headers INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(muster_headers INTERFACE $<BUILD_INTERFACE:muster_torch>)
install(TARGETS muster_headers EXPORT MusterTargets)

# The installed files find each other wherever the prefix is moved to, and a LibTorch outside the system's paths.
file(RELATIVE_PATH muster_bin_to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
set_target_properties(muster_shared PROPERTIES INSTALL_RPATH "$ORIGIN" INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS muster_shared EXPORT MusterTargets)
if(TARGET muster)
  set_target_properties(muster PROPERTIES
    INSTALL_RPATH "$ORIGIN/${muster_bin_to_lib}" INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS muster)
endif()
# The public line: the C++ face, what its pages name beside it (models in shared objects and the blocks they are made of,
# the models of the zoo that muster.h does not bring, decorators of data sets, servers in processes), and what these
# include in turn. Everything else is ours to change.
set(muster_public_headers)
set(headers_to_read
  muster/muster.h
  muster/data/augment/augmentation.h
  muster/data/pack.h
  muster/data/pictures/picture_folder.h
  muster/data/tolerant.h
  muster/data/user_sources.h
  muster/model/block.h
  muster/model/recompute.h
  muster/model/user_models.h
  muster/model/zoo/fbnet.h
  muster/model/zoo/recurrent.h
  muster/model/zoo/wide_deep.h
  muster/model/zoo/wide_resnet.h
  muster/strategies/parameter_server/server.h
  muster/trainer/user_tasks.h
  muster/tuning/study.h)
while(headers_to_read)
  list(POP_FRONT headers_to_read header)
  list(APPEND muster_public_headers ${header})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${header})
  file(STRINGS ${PROJECT_SOURCE_DIR}/${header} includes REGEX "^#include \"muster/")
  foreach(include ${includes})
    string(REGEX REPLACE "^#include \"(.+)\".*$" "\\1" included ${include})
    if(NOT included IN_LIST muster_public_headers AND NOT included IN_LIST headers_to_read)
      list(APPEND headers_to_read ${included})
    endif()
  endforeach()
endwhile()
foreach(header ${muster_public_headers})
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
# Pages keep their places to each other, for the links between them.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
  PATTERN CMakeLists.txt EXCLUDE PATTERN muster.1 EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/docs/muster.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

set(muster_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Muster)
install(EXPORT MusterTargets NAMESPACE muster:: DESTINATION ${muster_package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/MusterConfig.cmake.in
  ${PROJECT_BINARY_DIR}/MusterConfig.cmake INSTALL_DESTINATION ${muster_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/MusterConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/MusterConfig.cmake ${PROJECT_BINARY_DIR}/MusterConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/MusterTorch.cmake
  DESTINATION ${muster_package_dir})

# The same for builds without CMake.
get_target_property(muster_pc_torch_cpu torch_cpu LOCATION)
cmake_path(GET muster_pc_torch_cpu PARENT_PATH muster_pc_torch_dir)
set(muster_pc_torch_libs "-L${muster_pc_torch_dir} -Wl,-rpath,${muster_pc_torch_dir} -ltorch -ltorch_cpu -lc10")
set(muster_pc_torch_cflags ${TORCH_CXX_FLAGS})
foreach(folder ${TORCH_INCLUDE_DIRS})
  list(APPEND muster_pc_torch_cflags -isystem ${folder})
endforeach()
# The compiler's own folders, said again, would come before its C++ headers.
list(JOIN muster_pc_torch_cflags " " muster_pc_torch_cflags)
string(REPLACE "-isystem /usr/include " "" muster_pc_torch_cflags "${muster_pc_torch_cflags} ")
file(RELATIVE_PATH muster_pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" muster_pc_to_prefix "${muster_pc_to_prefix}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/muster.pc.in ${PROJECT_BINARY_DIR}/muster.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/muster.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
