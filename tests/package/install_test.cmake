# Installs this build into a folder of the build tree, moves the prefix, and builds and runs a consumer against it.
#
# Run by CTest as cmake -P with: BUILD_DIR (this build), WORK_DIR (emptied first), CONSUMER_DIR, COMPILER, GENERATOR,
# CCACHE (may be empty), READELF and TORCH_DIR. Nothing outside WORK_DIR is written.

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "failed (${status}): ${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# Fails if the file would look for libraries in the build tree, where users have none.
function(expect_no_build_path file)
  run(${READELF} -d ${file})
  string(FIND "${output}" "${BUILD_DIR}" at)
  if(NOT at EQUAL -1)
    message(FATAL_ERROR "${file} refers to the build tree:\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR})
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/first)
# A package that works only where it was first put is of no use to those who pack it.
file(RENAME ${WORK_DIR}/first ${WORK_DIR}/prefix)
set(prefix ${WORK_DIR}/prefix)

file(GLOB_RECURSE installed LIST_DIRECTORIES false RELATIVE ${prefix} ${prefix}/*)
foreach(name ${installed})
  if(name MATCHES "^bin/" OR name MATCHES "\\.so[.0-9]*$")
    expect_no_build_path(${prefix}/${name})
  elseif(NOT name MATCHES "\\.h$|\\.cmake$|LICENSE$")
    message(FATAL_ERROR "installed without need: ${name}")
  endif()
endforeach()

# What is behind the public line stays there, and no header that is installed needs it.
foreach(internal trainer/session_core.h trainer/lane_executor.h comm/arena.h launch/supervisor.h
    strategies/parameter_server/shard.h)
  if(EXISTS ${prefix}/include/muster/${internal})
    message(FATAL_ERROR "installed without need: ${internal}")
  endif()
endforeach()

run(${CMAKE_COMMAND} -S ${CONSUMER_DIR} -B ${WORK_DIR}/consumer -G ${GENERATOR} -DCMAKE_BUILD_TYPE=Release
  -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${CCACHE} -DCMAKE_PREFIX_PATH=${prefix} -DTorch_DIR=${TORCH_DIR}
  # What is installed must not need a path into the source tree: such an include is an error, not a warning.
  -DCMAKE_CXX_FLAGS=-Werror=missing-include-dirs)
run(${CMAKE_COMMAND} --build ${WORK_DIR}/consumer)
run(${WORK_DIR}/consumer/consumer)
if(NOT output MATCHES "the consumer works")
  message(FATAL_ERROR "the consumer said: ${output}")
endif()
if(EXISTS ${prefix}/bin/muster)
  run(${prefix}/bin/muster --help)
endif()
message("${output}")
