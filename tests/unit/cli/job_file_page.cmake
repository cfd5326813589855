# Fails when the reference page of the job file is not what `muster check --reference` prints.
execute_process(COMMAND ${MUSTER} check --reference OUTPUT_VARIABLE printed RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "muster check --reference failed: ${status}")
endif()
file(READ ${PAGE} page)
if(NOT page STREQUAL printed)
  message(FATAL_ERROR "docs/job-file.md is stale. Run: ./musterw check --reference > docs/job-file.md")
endif()
