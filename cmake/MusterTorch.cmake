# muster_find_torch([PREFIX folder] [argument of find_package...]): find_package(Torch ...), with all of LibTorch from one
# place: that of Torch_DIR, if it is set, or else what find_package finds, looking into PREFIX after CMAKE_PREFIX_PATH.
#
# TorchConfig.cmake looks for its own libraries in the system's folders first. Where a distribution's LibTorch is
# installed too, Torch_DIR alone would give the headers of one and the libraries of the other.
#
# Used by this build and, installed, by those of users.

# muster_torch_prefix(OUT FOLDER): the folder above lib/ and include/ of the LibTorch whose TorchConfig.cmake is in FOLDER,
# or nothing for one that lies among the system's files.
function(muster_torch_prefix out folder)
  set(${out} "" PARENT_SCOPE)
  get_filename_component(prefix "${folder}/../../.." ABSOLUTE)
  if(EXISTS ${prefix}/lib/libtorch_cpu.so)
    set(${out} ${prefix} PARENT_SCOPE)
  endif()
endfunction()

# muster_headers_before_torch(OUT [FOLDER TARGET]...): PyTorch's own builds carry headers of other libraries in their
# include folder (fmt, protobuf), which the compiler would take in place of those of the libraries that are linked. Gives a
# folder to be searched before LibTorch's, with links to the FOLDER of TARGET's headers for each that LibTorch has too, or
# nothing where there is none. (To search LibTorch's folder last does not do: the system's may have another LibTorch.)
function(muster_headers_before_torch out)
  set(links ${CMAKE_BINARY_DIR}/headers-before-torch)
  file(REMOVE_RECURSE ${links})
  set(${out} "" PARENT_SCOPE)
  while(ARGN)
    list(POP_FRONT ARGN folder target)
    get_target_property(places ${target} INTERFACE_INCLUDE_DIRECTORIES)
    foreach(place ${places})
      if(NOT IS_DIRECTORY ${place}/${folder} OR place IN_LIST TORCH_INCLUDE_DIRS OR EXISTS ${links}/${folder})
        continue()
      endif()
      foreach(torch ${TORCH_INCLUDE_DIRS})
        if(EXISTS ${torch}/${folder} AND NOT EXISTS ${links}/${folder})
          file(MAKE_DIRECTORY ${links})
          file(CREATE_LINK ${place}/${folder} ${links}/${folder} SYMBOLIC)
          set(${out} ${links} PARENT_SCOPE)
        endif()
      endforeach()
    endforeach()
  endwhile()
endfunction()

macro(muster_find_torch)
  cmake_parse_arguments(muster_torch "" "PREFIX" "" ${ARGN})
  set(muster_torch_saved_path ${CMAKE_PREFIX_PATH})
  set(muster_torch_own "")
  if(Torch_DIR)
    muster_torch_prefix(muster_torch_own "${Torch_DIR}")
  endif()
  list(PREPEND CMAKE_PREFIX_PATH ${muster_torch_own})
  list(APPEND CMAKE_PREFIX_PATH ${muster_torch_PREFIX})
  if(NOT "${MUSTER_TORCH_SEEN}" STREQUAL "${Torch_DIR}")
    # What was found for another Torch_DIR in this build tree.
    foreach(name Caffe2_DIR ATen_DIR TORCH_LIBRARY c10_LIBRARY kineto_LIBRARY)
      unset(${name} CACHE)
    endforeach()
  endif()
  find_package(Torch ${muster_torch_UNPARSED_ARGUMENTS})
  set(MUSTER_TORCH_SEEN "${Torch_DIR}" CACHE INTERNAL "The Torch_DIR that the rest was found for")
  set(CMAKE_PREFIX_PATH ${muster_torch_saved_path})
  if(muster_torch_own AND TARGET torch_cpu)
    get_target_property(muster_torch_library torch_cpu LOCATION)
    string(FIND "${muster_torch_library}" "${muster_torch_own}/" muster_torch_at)
    if(NOT muster_torch_at EQUAL 0)
      message(FATAL_ERROR "the headers of LibTorch are in ${muster_torch_own}, its libraries elsewhere: "
        "${muster_torch_library}. Begin with a new build folder, and give only one LibTorch.")
    endif()
  endif()
endmacro()
