# SPDX-License-Identifier: MIT
# compute_add_backend(<name> <sources>...) makes a backend module: libcompute-<name>.so.
#
# A module is loaded at run time and exports one symbol. It needs the public headers and nothing of
# the core's library; what it wants from the core comes through compute_services. The caller may
# add include folders, options and libraries to the target compute-<name> afterwards.
#
# Each is a part of the installation of its own, but for the CPU's, which belongs to the library, and
# the null device's, which is for those who write modules.
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
  set(component ${name})
  if(name STREQUAL cpu)
    set(component runtime)
  elseif(name STREQUAL null)
    set(component development)
  endif()
  if(name STREQUAL cpu AND NOT BUILD_SHARED_LIBS)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL TRUE) # libcompute.a contains it
  else()
    install(TARGETS ${target} LIBRARY DESTINATION ${COMPUTE_MODULE_INSTALL_DIR}
      COMPONENT ${component})
    set_property(GLOBAL APPEND PROPERTY COMPUTE_MODULES ${name})
  endif()
endfunction()

# compute_leave_out(<what> <why>) says what this configuration cannot build, now, in the summary and in
# left-out.txt of the build folder, for bench/run.sh's report.
function(compute_leave_out what why)
  message(STATUS "Left out: ${what}: ${why}")
  set_property(GLOBAL APPEND PROPERTY COMPUTE_LEFT_OUT "${what}: ${why}")
endfunction()

# The end of cmake's output: what will be built, and what will not and why.
function(compute_print_summary)
  set(form "libcompute.so.${compute_soversion}")
  if(NOT BUILD_SHARED_LIBS)
    set(form "libcompute.a with the CPU backend")
  endif()
  get_property(modules GLOBAL PROPERTY COMPUTE_MODULES)
  get_property(programs GLOBAL PROPERTY COMPUTE_PROGRAMS)
  get_property(peers GLOBAL PROPERTY COMPUTE_PEERS)
  get_property(left_out GLOBAL PROPERTY COMPUTE_LEFT_OUT)
  set(tests no)
  if(TARGET test_core)
    set(tests yes)
  endif()
  foreach(list modules programs peers)
    string(REPLACE ";" " " ${list} "${${list}}")
  endforeach()
  message(STATUS "libcompute ${PROJECT_VERSION} for ${CMAKE_SYSTEM_NAME} ${CMAKE_SYSTEM_PROCESSOR}, "
    "${CMAKE_BUILD_TYPE}:")
  message(STATUS "  library   ${form}")
  message(STATUS "  modules   ${modules}")
  message(STATUS "  programs  ${programs}")
  if(TARGET compute-fit)
    message(STATUS "  files     ${COMPUTE_FIT_FORMATS}")
  endif()
  if(TARGET compute-bench)
    message(STATUS "  peers     ${peers}")
  endif()
  message(STATUS "  tests     ${tests}")
  set(text "")
  foreach(line IN LISTS left_out)
    message(STATUS "  left out  ${line}")
    string(APPEND text "${line}\n")
  endforeach()
  file(WRITE ${CMAKE_BINARY_DIR}/left-out.txt "${text}")
endfunction()
