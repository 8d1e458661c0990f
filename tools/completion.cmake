# completion.cmake -- cmake -DQG=PROGRAM -DFORM=bash|zsh|fish|man -DTO=FILE -P completion.cmake
execute_process(COMMAND ${QG} completion ${FORM} OUTPUT_FILE ${TO} RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "qg completion ${FORM}: ${failed}")
endif()
