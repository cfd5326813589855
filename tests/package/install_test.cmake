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
  elseif(NOT name MATCHES "\\.h$|\\.cmake$|\\.pc$|^share/(doc|man)/")
    message(FATAL_ERROR "installed without need: ${name}")
  endif()
endforeach()

# What is behind the public line stays there, and no header that is installed needs it.
foreach(internal trainer/session_core.h trainer/lane_executor.h trainer/task.h comm/arena.h launch/supervisor.h
    data/lane_order.h model/tensor_team.h strategies/registry.h strategies/parameter_server/shard.h)
  if(EXISTS ${prefix}/include/muster/${internal})
    message(FATAL_ERROR "installed without need: ${internal}")
  endif()
endforeach()

# Nor is the line wider than somebody has meant it to be: a header more is a promise more. CHANGELOG.md tells the number.
set(most_headers 116)
file(GLOB_RECURSE headers LIST_DIRECTORIES false ${prefix}/include/*.h)
list(LENGTH headers count)
if(count GREATER most_headers)
  message(FATAL_ERROR "${count} headers are installed, more than ${most_headers}: see which include has brought one, or "
    "change the number here and in CHANGELOG.md")
endif()

# Pages and examples are there, and the man page knows every command.
foreach(page README.md docs/cpp-api.md examples/dqn.cpp examples/recipes/mnist.toml)
  file(GLOB found ${prefix}/share/doc/*/${page})
  if(NOT found)
    message(FATAL_ERROR "not installed: ${page}")
  endif()
endforeach()
if(EXISTS ${prefix}/bin/muster)
  file(READ ${prefix}/share/man/man1/muster.1 manual)
  run(${prefix}/bin/muster --help)
  string(REGEX MATCHALL "\n  [a-z]+  +[A-Z]" lines "${output}")
  list(LENGTH lines count)
  if(count LESS 20)
    message(FATAL_ERROR "no commands were found in:\n${output}")
  endif()
  foreach(line ${lines})
    string(REGEX MATCH "[a-z]+" command "${line}")
    if(NOT manual MATCHES "\n\\.B ${command}\n")
      message(FATAL_ERROR "the man page lacks the command ${command}")
    endif()
  endforeach()
endif()

# What the library shows has its version, and is of namespace muster.
file(GLOB library ${prefix}/lib*/libmuster.so ${prefix}/lib/*/libmuster.so)
run(${READELF} --dyn-syms --wide ${library})
file(WRITE ${WORK_DIR}/symbols.txt "${output}")
file(STRINGS ${WORK_DIR}/symbols.txt shown REGEX " (GLOBAL|WEAK|UNIQUE) +DEFAULT +[0-9]+ ")
file(STRINGS ${WORK_DIR}/symbols.txt stray REGEX " (GLOBAL|WEAK|UNIQUE) +DEFAULT +[0-9]+ ([^@]*$|[^@]*@@[^M]|_Z[^@]*grpc_impl)")
list(LENGTH shown count)
if(count LESS 100 OR stray)
  list(SUBLIST stray 0 3 stray)
  message(FATAL_ERROR "${count} symbols are shown by ${library}; without the library's version are: ${stray}")
endif()

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

# The same program without CMake.
find_program(pkg_config pkg-config)
if(pkg_config)
  file(GLOB pc_file ${prefix}/lib*/pkgconfig/muster.pc ${prefix}/lib/*/pkgconfig/muster.pc)
  cmake_path(GET pc_file PARENT_PATH pc_dir)
  run(${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${pc_dir} ${pkg_config} --cflags --libs muster)
  string(STRIP "${output}" flags)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run(${CCACHE} ${COMPILER} -std=c++20 ${CONSUMER_DIR}/main.cpp -o ${WORK_DIR}/by_pkg_config ${flags})
  run(${WORK_DIR}/by_pkg_config)
  if(NOT output MATCHES "the consumer works")
    message(FATAL_ERROR "built by pkg-config the consumer said: ${output}")
  endif()
endif()

# A project of one's own, as `muster new` writes it: configured, built and trained by what is installed, as one worker and
# as two, with the same weights.
if(EXISTS ${prefix}/bin/muster)
  run(${CMAKE_COMMAND} -E chdir ${WORK_DIR} ${prefix}/bin/muster new my_project)
  run(${CMAKE_COMMAND} -S ${WORK_DIR}/my_project -B ${WORK_DIR}/my_project/build -G ${GENERATOR}
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${CCACHE} -DCMAKE_PREFIX_PATH=${prefix}
    -DTorch_DIR=${TORCH_DIR} -DCMAKE_CXX_FLAGS=-Wall\ -Wextra\ -Werror=unused)
  run(${CMAKE_COMMAND} --build ${WORK_DIR}/my_project/build)
  set(program ${WORK_DIR}/my_project/build/my_project)
  foreach(start "" "${prefix}/bin/muster;run;-n;2")
    file(MAKE_DIRECTORY ${WORK_DIR}/trained)
    run(${CMAKE_COMMAND} -E chdir ${WORK_DIR}/trained ${start} ${program})
    if(NOT output MATCHES "epoch 10: test accuracy 0.9[0-9]+")
      message(FATAL_ERROR "the new project said: ${output}")
    endif()
    file(SHA256 ${WORK_DIR}/trained/my_project.safetensors weights)
    list(APPEND all_weights ${weights})
    file(REMOVE_RECURSE ${WORK_DIR}/trained)
  endforeach()
  list(REMOVE_DUPLICATES all_weights)
  list(LENGTH all_weights kinds)
  if(NOT kinds EQUAL 1)
    message(FATAL_ERROR "two workers have trained other weights than one: ${all_weights}")
  endif()
endif()
