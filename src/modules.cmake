# compute_add_backend(<name> <sources>...) makes a backend module: libcompute-<name>.so.
#
# A module is loaded at run time and exports one symbol. It needs the public headers and nothing of
# the core's library; what it wants from the core comes through compute_services. The caller may
# add include folders, options and libraries to the target compute-<name> afterwards.
function(compute_add_backend name)
  set(target compute-${name})
  add_library(${target} MODULE ${ARGN})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${target} PRIVATE compute_flags)
  target_compile_definitions(${target} PRIVATE COMPUTE_VERSION_TEXT="${PROJECT_VERSION}")
  set_target_properties(${target} PROPERTIES
    PREFIX lib
    C_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${COMPUTE_MODULE_BUILD_DIR}
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/src/module.map)
  target_link_options(${target} PRIVATE
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/src/module.map ${compute_no_undefined})
  install(TARGETS ${target} LIBRARY DESTINATION ${COMPUTE_MODULE_INSTALL_DIR})
endfunction()
