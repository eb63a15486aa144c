# SPDX-License-Identifier: MIT
# What a system needs of this room: compute_flags, which exists, gets its headers and libraries.
# compute_platform_excluded is a pattern of the sources for other systems, and
# compute_platform_libraries has the libraries of the system that the library links.
set(compute_platform_libraries "")
set(compute_platform_excluded "/core/platform/(windows|bsd|wasm)/")
if(WIN32)
  set(compute_platform_excluded "/core/platform/(windows|bsd|posix|wasm)/") # they are a library
  include(${CMAKE_CURRENT_LIST_DIR}/windows/platform.cmake)
  target_link_libraries(compute_flags INTERFACE compute_platform)
elseif(EMSCRIPTEN)
  set(compute_platform_excluded "/core/platform/(windows|bsd|posix)/")
  include(${CMAKE_CURRENT_LIST_DIR}/wasm/platform.cmake)
elseif(APPLE OR CMAKE_SYSTEM_NAME STREQUAL "FreeBSD")
  set(compute_platform_excluded
    "/core/platform/(windows/|wasm/|posix/(futex|library_path|privilege|processors))")
  # Headers with the standard names, which add to the system's. No system headers, because zig puts
  # the C library's before those.
  target_include_directories(compute_flags BEFORE INTERFACE ${CMAKE_CURRENT_LIST_DIR}/bsd/include)
  if(NOT APPLE)
    set(compute_platform_libraries execinfo) # backtraces
  endif()
endif()
