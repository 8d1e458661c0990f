# qg_sources(<out> <def-file> <MACRO> <dir>): one .c per MACRO(name) line,
# in dir or a folder of it
function(qg_sources out def macro dir)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${def})
  file(STRINGS ${def} lines REGEX "^${macro}\\(")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^${macro}\\(([a-z0-9_]+)\\).*" "${dir}/\\1.c" file "${line}")
    if(NOT EXISTS ${file}) # in a folder below: passes/vendor
      string(REPLACE "${dir}/" "${dir}/*/" below ${file})
      file(GLOB file ${below})
    endif()
    list(APPEND files ${file})
  endforeach()
  set(${out} ${files} PARENT_SCOPE)
endfunction()
