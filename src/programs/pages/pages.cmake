# SPDX-License-Identifier: MIT
# Manual pages and completions for bash, zsh and fish, from the programs' tables of options. The program
# that prints them, compute-options, needs the tables and the C library alone. When cross-compiling
# it is built for the build machine, by any C compiler found there.
set(page_sources src/programs/pages/pages.c src/programs/common/option_parse.c src/programs/common/option_help.c
  src/programs/info/options.c src/programs/tune/options.c src/programs/fit/options.c src/programs/run/options.c
  bench/options.c tests/backend/options.c)
list(TRANSFORM page_sources PREPEND ${PROJECT_SOURCE_DIR}/)
set(page_includes ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/bench
  ${PROJECT_SOURCE_DIR}/tests)

if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  find_program(COMPUTE_HOST_CC NAMES cc gcc clang NO_CMAKE_FIND_ROOT_PATH
    DOC "C compiler for programs that run during the build")
  if(NOT COMPUTE_HOST_CC)
    message(STATUS "No C compiler for this machine: no manual pages and completions")
    return()
  endif()
  set(compute_options ${PROJECT_BINARY_DIR}/compute-options)
  list(TRANSFORM page_includes PREPEND -I OUTPUT_VARIABLE page_flags)
  file(GLOB page_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/compute/*.h
    ${PROJECT_SOURCE_DIR}/include/compute/backend/*.h
    ${PROJECT_SOURCE_DIR}/src/programs/*/*.h)
  add_custom_command(OUTPUT ${compute_options}
    COMMAND ${COMPUTE_HOST_CC} -std=gnu11 -O1 -D_GNU_SOURCE
      "-DCOMPUTE_VERSION_TEXT=\"${PROJECT_VERSION}\"" ${page_flags} ${page_sources}
      -lm -o ${compute_options}
    DEPENDS ${page_sources} ${page_headers} VERBATIM)
else()
  add_executable(compute-options ${page_sources})
  target_compile_definitions(compute-options PRIVATE COMPUTE_VERSION_TEXT="${PROJECT_VERSION}")
  target_include_directories(compute-options PRIVATE ${page_includes})
  target_link_libraries(compute-options PRIVATE compute_flags m)
  set(compute_options compute-options)
endif()

# compute_add_page(<program> man|bash|zsh|fish <file> <folder of the installation>)
function(compute_add_page program kind file folder)
  set(page ${PROJECT_BINARY_DIR}/share/${kind}/${file})
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share/${kind})
  add_custom_command(OUTPUT ${page} COMMAND ${compute_options} ${program} ${kind} ${page}
    DEPENDS ${compute_options} VERBATIM COMMENT "Writing ${file}")
  set_property(GLOBAL APPEND PROPERTY compute_pages ${page})
  compute_install(FILES ${page} DESTINATION ${folder})
endfunction()

foreach(program compute-info compute-run compute-tune compute-fit compute-bench compute-conformance)
  if(TARGET ${program})
    compute_add_page(${program} man ${program}.1 ${CMAKE_INSTALL_MANDIR}/man1)
    compute_add_page(${program} bash ${program} ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    compute_add_page(${program} zsh _${program} ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    compute_add_page(${program} fish ${program}.fish
      ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  endif()
endforeach()
get_property(pages GLOBAL PROPERTY compute_pages)
add_custom_target(compute-pages ALL DEPENDS ${pages})
