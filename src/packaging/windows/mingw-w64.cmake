# SPDX-License-Identifier: MIT
# A toolchain file of CMake: builds for Windows x86-64 with mingw-w64's GCC.
#   cmake -S . -B build-windows -DCMAKE_TOOLCHAIN_FILE=src/packaging/windows/mingw-w64.cmake \
#     -DCMAKE_FIND_ROOT_PATH=<prefix with zlib and libmd for Windows>
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc)
set(CMAKE_CXX_COMPILER x86_64-w64-mingw32-g++)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)
# Headers, libraries and packages are those of Windows; programs are this machine's.
list(APPEND CMAKE_FIND_ROOT_PATH /usr/x86_64-w64-mingw32)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
