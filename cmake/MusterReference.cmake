# The target `reference`: what the comments of the public headers say, as pages in the build tree (reference/html), by
# Doxygen. It is not part of `all`, and nobody needs Doxygen but for it.
find_package(Doxygen QUIET)
if(NOT DOXYGEN_FOUND)
  add_custom_target(reference
    COMMAND ${CMAKE_COMMAND} -E echo "The reference is made by Doxygen: install the package doxygen and configure again."
    COMMAND ${CMAKE_COMMAND} -E false)
  return()
endif()
set(DOXYGEN_PROJECT_NAME Muster)
set(DOXYGEN_PROJECT_BRIEF "${PROJECT_DESCRIPTION}")
set(DOXYGEN_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/reference)
set(DOXYGEN_STRIP_FROM_PATH ${PROJECT_SOURCE_DIR})
set(DOXYGEN_STRIP_FROM_INC_PATH ${PROJECT_SOURCE_DIR})
# Comments are written as C++ has them, without marks for one tool.
set(DOXYGEN_INPUT_FILTER "sed -f ${PROJECT_SOURCE_DIR}/cmake/doxygen_comments.sed")
set(DOXYGEN_JAVADOC_AUTOBRIEF YES)
set(DOXYGEN_EXTRACT_ALL YES)
set(DOXYGEN_HAVE_DOT NO)
set(DOXYGEN_GENERATE_LATEX NO)
set(DOXYGEN_QUIET YES)
set(DOXYGEN_WARN_LOGFILE ${PROJECT_BINARY_DIR}/reference/warnings.txt)
set(muster_reference_inputs ${muster_public_headers})
list(TRANSFORM muster_reference_inputs PREPEND ${PROJECT_SOURCE_DIR}/)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/reference)
doxygen_add_docs(reference ${muster_reference_inputs} COMMENT "Writing ${PROJECT_BINARY_DIR}/reference/html")
