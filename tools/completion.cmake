# completion.cmake -- cmake -DQG=PROGRAM -DFORM=bash|zsh|fish|man -DTO=FILE -P completion.cmake
# Makefiles make no folder for the output of a command, as Ninja does.
get_filename_component(folder ${TO} DIRECTORY)
file(MAKE_DIRECTORY ${folder})
execute_process(COMMAND ${QG} completion ${FORM} OUTPUT_FILE ${TO} RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "qg completion ${FORM}: ${failed}")
endif()
