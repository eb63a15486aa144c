# SPDX-License-Identifier: MIT
# What `cmake --install` puts where: the library, its public headers, and the files by which
# pkg-config and find_package find them. Modules install themselves (modules.cmake). Nothing that is
# installed contains the prefix, so an installed tree may be moved.
#
# `cmake --install --component X` installs a part: runtime (the library and the CPU module), opencl,
# cuda, openmpi, mpich, development (what programs and modules are built with), tools (the programs).
include(CMakePackageConfigHelpers)

install(TARGETS compute EXPORT compute
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime # the DLL of Windows
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(DIRECTORY include/compute DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "*.def")

set(compute_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/compute)
install(EXPORT compute NAMESPACE compute:: FILE computeTargets.cmake
  DESTINATION ${compute_package_dir} COMPONENT development)
configure_package_config_file(src/computeConfig.cmake.in computeConfig.cmake
  INSTALL_DESTINATION ${compute_package_dir}
  NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may break programs.
write_basic_package_version_file(computeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/computeConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/computeConfigVersion.cmake
  DESTINATION ${compute_package_dir} COMPONENT development)

# pkg-config knows where compute.pc lies; the prefix is so many folders above.
set(compute_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH compute_pc_to_prefix /prefix/${compute_pc_dir} /prefix)
string(REGEX REPLACE "/$" "" compute_pc_to_prefix "${compute_pc_to_prefix}")
set(compute_pc_libraries "-lz -lmd -lm ${compute_stack_option}")
if(CMAKE_THREAD_LIBS_INIT)
  string(APPEND compute_pc_libraries " ${CMAKE_THREAD_LIBS_INIT}")
endif()
foreach(library IN LISTS CMAKE_DL_LIBS compute_atomic_library compute_platform_libraries)
  string(APPEND compute_pc_libraries " -l${library}")
endforeach()
configure_file(src/compute.pc.in compute.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/compute.pc DESTINATION ${compute_pc_dir}
  COMPONENT development)
