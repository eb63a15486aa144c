# SPDX-License-Identifier: MIT
# compute_platform: POSIX as far as this tree uses it, for Windows by mingw-w64. The library, each
# module and each program contain what they use of it.
set(platform_windows ${CMAKE_CURRENT_LIST_DIR})
file(GLOB platform_sources CONFIGURE_DEPENDS ${platform_windows}/*.c)
list(REMOVE_ITEM platform_sources ${platform_windows}/main.c) # of programs
add_library(compute_platform STATIC ${platform_sources})
target_compile_options(compute_platform PRIVATE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wvla -Wstrict-prototypes -Wmissing-prototypes)
target_compile_definitions(compute_platform PUBLIC _GNU_SOURCE _FILE_OFFSET_BITS=64 _WIN32_WINNT=0x0A00
  __USE_MINGW_ANSI_STDIO=1)
target_include_directories(compute_platform PUBLIC
  ${platform_windows}/../../..)
# Headers with the standard names come before the toolchain's, which they include.
target_include_directories(compute_platform SYSTEM BEFORE PUBLIC ${platform_windows}/include)

# compute_windows_program(<target>): its main gets UTF-8 arguments.
function(compute_windows_program target)
  target_sources(${target} PRIVATE ${platform_windows}/main.c)
  target_link_options(${target} PRIVATE -municode) # the runtime calls wmain
endfunction()

# Everything of the toolchain's runtime is linked in: users need no further DLL.
target_link_options(compute_platform INTERFACE -static)
target_link_libraries(compute_platform INTERFACE synchronization winpthread)
# The stack of Windows is aligned to 16 bytes, and gcc does not align it further for vectors of 32 and
# 64 bytes (GCC bug 54412): moves that need no alignment are as fast, and always right.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  target_compile_options(compute_platform INTERFACE -Wa,-muse-unaligned-vector-move)
endif()
# The toolchain's isnan and isinf name the case of float for every argument.
target_compile_options(compute_platform INTERFACE -Wno-float-conversion)
