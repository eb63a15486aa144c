# SPDX-License-Identifier: MIT
# Targets of the project as a whole. A project around it would have targets with these names.
add_custom_target(uninstall
  COMMAND ${CMAKE_COMMAND} -DMANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt
    -P ${PROJECT_SOURCE_DIR}/src/uninstall.cmake
  VERBATIM)

# The release, libcompute-<version>.tar.xz in the build folder, with the packaging for Debian.
add_custom_target(dist
  COMMAND bash ${PROJECT_SOURCE_DIR}/src/packaging/dist.sh ${PROJECT_SOURCE_DIR} ${PROJECT_VERSION}
    ${PROJECT_BINARY_DIR}
  VERBATIM)
