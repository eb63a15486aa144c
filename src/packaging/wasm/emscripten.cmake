# SPDX-License-Identifier: MIT
# A toolchain file of CMake: builds for WebAssembly (wasm32) with Emscripten's emcc.
#   cmake -S . -B build-wasm -DCMAKE_TOOLCHAIN_FILE=src/packaging/wasm/emscripten.cmake \
#     -DCMAKE_FIND_ROOT_PATH=<prefix with zlib and libmd for WebAssembly>
# An engine refuses a file with instructions that it lacks, so vectors and threads are chosen here.
option(COMPUTE_WASM_SIMD "Use vectors of 16 bytes (SIMD128)" ON)
option(COMPUTE_WASM_THREADS "Use threads: needs SharedArrayBuffer, so two headers of the server" OFF)
# Checks of the compiler configure projects that read this file, too.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES COMPUTE_WASM_SIMD COMPUTE_WASM_THREADS)
find_program(COMPUTE_EM_CONFIG em-config REQUIRED)
execute_process(COMMAND ${COMPUTE_EM_CONFIG} EMSCRIPTEN_ROOT OUTPUT_VARIABLE compute_emscripten
  OUTPUT_STRIP_TRAILING_WHITESPACE)
set(EMSCRIPTEN_SYSTEM_PROCESSOR wasm32)
if(CMAKE_FIND_ROOT_PATH AND NOT DEFINED ENV{PKG_CONFIG_LIBDIR}) # none of this machine's packages
  list(GET CMAKE_FIND_ROOT_PATH 0 compute_root)
  set(ENV{PKG_CONFIG_LIBDIR} ${compute_root}/lib/pkgconfig)
endif()
include(${compute_emscripten}/cmake/Modules/Platform/Emscripten.cmake)
set(CMAKE_C_FLAGS_INIT "")
if(COMPUTE_WASM_SIMD)
  string(APPEND CMAKE_C_FLAGS_INIT " -msimd128")
endif()
if(COMPUTE_WASM_THREADS)
  string(APPEND CMAKE_C_FLAGS_INIT " -pthread")
endif()
set(CMAKE_CXX_FLAGS_INIT "${CMAKE_C_FLAGS_INIT}")
# Emscripten 3.1.6 loads the code with fetch, which cannot read files in node 18 to 20.
set(CMAKE_CROSSCOMPILING_EMULATOR node --no-experimental-fetch)
