# SPDX-License-Identifier: MIT
# WebAssembly by Emscripten: its C library is POSIX as far as this tree uses it.
# Headers that Emscripten lacks.
target_include_directories(compute_flags SYSTEM INTERFACE
  $<BUILD_INTERFACE:${CMAKE_CURRENT_LIST_DIR}/include>)
target_compile_options(compute_flags INTERFACE -Wno-unused-command-line-argument)

# Every program that links the library needs these: a heap that grows, up to all addresses, and a
# stack as large as Linux's threads have.
set(compute_wasm_link -sALLOW_MEMORY_GROWTH=1 -sMAXIMUM_MEMORY=4GB -sTOTAL_STACK=1MB)

# compute_wasm_program(<target>): a program for node. It sees the machine's files, and its exit status
# is main's. With threads, main runs on a thread, because node's first one must start the others.
function(compute_wasm_program target)
  target_link_options(${target} PRIVATE ${compute_wasm_link} -sNODERAWFS=1 -sEXIT_RUNTIME=1
    -sENVIRONMENT=node,worker)
  if(COMPUTE_WASM_THREADS)
    target_link_options(${target} PRIVATE -sPROXY_TO_PTHREAD=1)
  endif()
endfunction()
