# SPDX-License-Identifier: MIT
# A toolchain file of CMake: builds for another system with zig, which has a clang, a linker and the
# C libraries of many systems in one package.
#   python3 -m pip install ziglang
#   cmake -S . -B build-macos -DCMAKE_TOOLCHAIN_FILE=src/packaging/zig/zig.cmake \
#     -DZIG_TARGET=aarch64-macos -DCMAKE_FIND_ROOT_PATH=<prefix with zlib and libmd for macOS>
# ZIG_TARGET is PROCESSOR-SYSTEM. It was tried with aarch64-macos, x86_64-macos and x86_64-freebsd.
# A version may follow (aarch64-macos.13.0): the oldest that the programs are for.
set(ZIG_TARGET "" CACHE STRING "PROCESSOR-SYSTEM")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ZIG_TARGET ZIG_PROGRAM)
if(NOT ZIG_TARGET MATCHES "^([a-z0-9_]+)-([a-z]+)")
  message(FATAL_ERROR "ZIG_TARGET is '${ZIG_TARGET}'; it must be such as aarch64-macos.")
endif()
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_MATCH_1})
set(zig_system ${CMAKE_MATCH_2})
set(zig_system_name_macos Darwin)
set(zig_system_name_freebsd FreeBSD)
set(CMAKE_SYSTEM_NAME ${zig_system_name_${zig_system}})
if(NOT CMAKE_SYSTEM_NAME)
  message(FATAL_ERROR "ZIG_TARGET: the system '${zig_system}' was not tried.")
endif()

# A zig in PATH, or the one of the Python package.
find_program(ZIG_PROGRAM zig)
if(NOT ZIG_PROGRAM)
  execute_process(COMMAND python3 -c
    "import ziglang; print(ziglang.__path__[0])"
    OUTPUT_VARIABLE zig_folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT zig_folder)
    message(FATAL_ERROR "No zig in PATH, and Python has no module ziglang (pip install ziglang).")
  endif()
  set(ZIG_PROGRAM ${zig_folder}/zig CACHE FILEPATH "zig" FORCE)
endif()
# Without its checks of undefined behaviour, which are on by default and need its run-time library.
set(CMAKE_C_COMPILER ${ZIG_PROGRAM} cc -target ${ZIG_TARGET} -fno-sanitize=undefined)
set(CMAKE_CXX_COMPILER ${ZIG_PROGRAM} c++ -target ${ZIG_TARGET} -fno-sanitize=undefined)
foreach(language C CXX)
  set(CMAKE_${language}_ARCHIVE_CREATE "\"${ZIG_PROGRAM}\" ar qcs <TARGET> <LINK_FLAGS> <OBJECTS>")
  set(CMAKE_${language}_ARCHIVE_APPEND "\"${ZIG_PROGRAM}\" ar qs <TARGET> <LINK_FLAGS> <OBJECTS>")
  set(CMAKE_${language}_ARCHIVE_FINISH "")
endforeach()
if(CMAKE_SYSTEM_NAME STREQUAL "Darwin")
  set(CMAKE_USER_MAKE_RULES_OVERRIDE ${CMAKE_CURRENT_LIST_DIR}/darwin.cmake)
endif()

# Headers, libraries and packages are the target's; programs are this machine's.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# Changing a path at the installation would break the signature that macOS asks for on arm64.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
