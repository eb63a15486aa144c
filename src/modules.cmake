# SPDX-License-Identifier: MIT
# install(), with COMPUTE_INSTALL.
function(compute_install)
  if(COMPUTE_INSTALL)
    install(${ARGN})
  endif()
endfunction()

# The folder of a program or library, in the paths where it looks for others.
if(APPLE)
  set(compute_origin @loader_path)
else()
  set(compute_origin $ORIGIN)
endif()

# compute_export(<target> <map>) exports the symbols that the version script names, and no others.
# macOS has no versions of symbols; its linker takes a list of names.
function(compute_export target map)
  set(option -Wl,--version-script=${map})
  if(APPLE)
    file(STRINGS ${map} names REGEX "global:")
    string(REGEX REPLACE ".*global: *([a-z_*]+);.*" "_\\1" names "${names}")
    set(list ${PROJECT_BINARY_DIR}/generated/${target}.exports)
    file(CONFIGURE OUTPUT ${list} CONTENT "${names}\n" @ONLY)
    set(option -Wl,-exported_symbols_list,${list})
  endif()
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${map})
  target_link_options(${target} PRIVATE ${option} ${compute_no_undefined})
endfunction()

# compute_add_backend(<name> <sources>...) makes a backend module: libcompute-<name>.so.
#
# A module is loaded at run time and exports one symbol. It needs the public headers and nothing of
# the core's library; compute_services gives it the core's functions. The caller may add include
# folders, options and libraries to the target compute-<name> afterwards.
#
# Each is a separate part of the installation, but for the CPU's, which belongs to the library, and
# the null device's, which is for those who write modules.
function(compute_add_backend name)
  set(target compute-${name})
  add_library(${target} MODULE ${ARGN})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include
    ${PROJECT_SOURCE_DIR}/src) # for core/platform
  target_link_libraries(${target} PRIVATE compute_flags)
  target_compile_definitions(${target} PRIVATE COMPUTE_VERSION_TEXT="${PROJECT_VERSION}")
  set_target_properties(${target} PROPERTIES
    PREFIX lib
    C_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${COMPUTE_MODULE_BUILD_DIR})
  compute_export(${target} ${PROJECT_SOURCE_DIR}/src/module.map)
  set(component ${name})
  if(name STREQUAL cpu)
    set(component runtime)
  elseif(name STREQUAL null)
    set(component development)
  endif()
  if(name STREQUAL cpu AND NOT BUILD_SHARED_LIBS)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL TRUE) # libcompute.a contains it
  else()
    compute_install(TARGETS ${target} LIBRARY DESTINATION ${COMPUTE_MODULE_INSTALL_DIR}
      COMPONENT ${component})
    set_property(GLOBAL APPEND PROPERTY COMPUTE_MODULES ${name})
    set_property(GLOBAL APPEND PROPERTY COMPUTE_MODULE_TARGETS ${target})
  endif()
endfunction()

# compute_leave_out(<what> <why>) reports a part that this configuration cannot build: now, in the
# summary, and in left-out.txt of the build folder, for bench/run.sh's report.
function(compute_leave_out what why)
  message(STATUS "Left out: ${what}: ${why}")
  set_property(GLOBAL APPEND PROPERTY COMPUTE_LEFT_OUT "${what}: ${why}")
endfunction()

# compute_accepts(<result> <version> "<source>;…" [FOLDERS <include folder>…] [DEFINE <definition>…]
# [LINK <imported target>…]) compiles sources, before the build, with the headers of a library that is
# optional: one of another release must be left out, not stop the build. <result> is TRUE or FALSE, and
# <result>_WHY the first error. A success is kept until <version> changes.
function(compute_accepts result version sources)
  cmake_parse_arguments(PARSE_ARGV 3 try "" "" "FOLDERS;DEFINE;LINK")
  set(${result}_WHY "" PARENT_SCOPE)
  set(${result} TRUE PARENT_SCOPE)
  if("${COMPUTE_ACCEPTED_${result}}" STREQUAL "version ${version}")
    return()
  endif()
  list(TRANSFORM sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(TRANSFORM try_DEFINE PREPEND -D)
  if(NOT TARGET compute::compute OR TARGET compute) # else it is installed, and has its own folder
    list(APPEND try_FOLDERS ${PROJECT_SOURCE_DIR}/include)
  else()
    get_target_property(installed compute::compute INTERFACE_INCLUDE_DIRECTORIES)
    list(APPEND try_FOLDERS ${installed})
  endif()
  set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY) # there is no main
  try_compile(compute_accepted ${PROJECT_BINARY_DIR}/accepts/${result} SOURCES ${sources}
    CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${try_FOLDERS}"
    COMPILE_DEFINITIONS -D_GNU_SOURCE ${try_DEFINE}
    LINK_LIBRARIES ${try_LINK}
    OUTPUT_VARIABLE log
    C_STANDARD 11 CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON)
  if(compute_accepted)
    set(COMPUTE_ACCEPTED_${result} "version ${version}" CACHE INTERNAL "Tried with success")
  else()
    string(REGEX MATCH "error: [^\n]*" why "${log}")
    set(${result}_WHY "${why}" PARENT_SCOPE)
    set(${result} FALSE PARENT_SCOPE)
  endif()
  unset(compute_accepted CACHE)
endfunction()

# The end of cmake's output: what will be built, and what will not and why.
function(compute_print_summary)
  set(form "libcompute${CMAKE_SHARED_LIBRARY_SUFFIX}.${compute_soversion}")
  if(WIN32)
    set(form "libcompute.dll")
  elseif(APPLE)
    set(form "libcompute.${compute_soversion}.dylib")
  endif()
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
  if(TARGET compute-fit AND COMPUTE_FIT_FORMATS)
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
  file(WRITE ${PROJECT_BINARY_DIR}/left-out.txt "${text}")
endfunction()
