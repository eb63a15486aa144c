# SPDX-License-Identifier: MIT
# Rules for macOS that CMake has only with Apple's compiler, or that zig lacks; for zig.cmake.
set(CMAKE_SHARED_LIBRARY_RUNTIME_C_FLAG "-Wl,-rpath,")
# zig's linker makes no bundles. Modules are libraries, which dlopen opens as well.
set(CMAKE_SHARED_MODULE_CREATE_C_FLAGS "-shared -Wl,-headerpad_max_install_names")
