# install.cmake -- the installation, in two components: `arrays` (the arithmetic on
# plain arrays only) and `quantgraph` (the rest).  All paths are relative to the
# installed files, so the prefix may be moved.
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME quantgraph)

# Libraries as linker flags, because paths of this machine are invalid on others.
set(QG_LINK_WORDS ${YAML_STATIC_LDFLAGS} ${CJSON_STATIC_LDFLAGS}
    ${PROTOBUF_C_STATIC_LDFLAGS} ${CRYPTO_STATIC_LDFLAGS} ${ZLIB_STATIC_LDFLAGS})
foreach(path IN LISTS QG_PATH_LIBRARIES)
  get_filename_component(folder ${path} DIRECTORY)
  get_filename_component(name ${path} NAME_WE)
  string(REGEX REPLACE "^lib" "" name ${name})
  list(APPEND QG_LINK_WORDS -L${folder} -l${name})
endforeach()
if(QG_HAVE_DNNL)
  list(APPEND QG_LINK_WORDS -lgomp -lstdc++)
endif()
foreach(folder IN LISTS CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
  list(REMOVE_ITEM QG_LINK_WORDS -L${folder})
endforeach()
list(REMOVE_ITEM QG_LINK_WORDS -pthread -lm) # go last: the others may need them
list(APPEND QG_LINK_WORDS -pthread -lm)
list(REMOVE_DUPLICATES QG_LINK_WORDS)

foreach(kind static shared)
  target_link_libraries(qg_${kind} PRIVATE ${QG_LIBRARIES})
  target_link_libraries(qg_arrays_${kind} PRIVATE m)
  foreach(library qg qg_arrays)
    target_include_directories(${library}_${kind} INTERFACE
      "$<BUILD_INTERFACE:${QG_FLAT_HEADERS};${QG_FLAT_HEADERS}/quantgraph>")
  endforeach()
endforeach()
set_target_properties(qg_static PROPERTIES INTERFACE_LINK_LIBRARIES
  "$<BUILD_INTERFACE:${QG_LIBRARIES}>;$<INSTALL_INTERFACE:${QG_LINK_WORDS}>")
set_target_properties(qg_shared PROPERTIES EXPORT_NAME qg)
set_target_properties(qg_arrays_shared PROPERTIES EXPORT_NAME arrays)
set_target_properties(qg_arrays_static PROPERTIES EXPORT_NAME arrays_static)

set(headers ${CMAKE_INSTALL_INCLUDEDIR}/quantgraph)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/quantgraph)
# qg_install(<component> <export> <headers> <target>...)
function(qg_install component export files)
  install(TARGETS ${ARGN} EXPORT ${export}
          RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${component}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component}
                  NAMELINK_COMPONENT ${component}
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component}
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${headers})
  install(EXPORT ${export} NAMESPACE quantgraph:: DESTINATION ${package}
          COMPONENT ${component})
  install(FILES ${files} DESTINATION ${headers} COMPONENT ${component})
endfunction()
qg_install(arrays quantgraphArraysTargets "${QG_FLAT_ARRAYS}" qg_arrays_shared
           qg_arrays_static)
qg_install(quantgraph quantgraphTargets "${QG_FLAT_LIBRARY}" qg_shared qg_static)
if(TARGET qg)
  install(TARGETS qg RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  # Completion for shells and the manual page, which the command prints.
  set(shell ${CMAKE_BINARY_DIR}/shell)
  foreach(form bash zsh fish man)
    add_custom_command(OUTPUT ${shell}/${form}
      COMMAND ${CMAKE_COMMAND} -DQG=$<TARGET_FILE:qg> -DFORM=${form}
              -DTO=${shell}/${form} -P ${CMAKE_SOURCE_DIR}/tools/completion.cmake
      DEPENDS qg tools/completion.cmake VERBATIM)
    list(APPEND forms ${shell}/${form})
  endforeach()
  add_custom_target(qg_completion ALL DEPENDS ${forms})
  install(FILES ${shell}/bash RENAME qg
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${shell}/zsh RENAME _qg
          DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${shell}/fish RENAME qg.fish
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  install(FILES ${shell}/man RENAME qg.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
install(DIRECTORY docs/examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES docs/embedding.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/quantgraph)

configure_package_config_file(tools/quantgraphConfig.cmake.in
  ${CMAKE_BINARY_DIR}/quantgraphConfig.cmake INSTALL_DESTINATION ${package}
  PATH_VARS CMAKE_INSTALL_DATADIR NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/quantgraphConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/quantgraphConfig.cmake
        ${CMAKE_BINARY_DIR}/quantgraphConfigVersion.cmake
        DESTINATION ${package} COMPONENT arrays)

file(RELATIVE_PATH QG_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REPLACE ";" " " QG_LINK_LINE "${QG_LINK_WORDS}")
foreach(name quantgraph quantgraph-arrays)
  configure_file(tools/${name}.pc.in ${CMAKE_BINARY_DIR}/${name}.pc @ONLY)
endforeach()
install(FILES ${CMAKE_BINARY_DIR}/quantgraph.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CMAKE_BINARY_DIR}/quantgraph-arrays.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT arrays)
