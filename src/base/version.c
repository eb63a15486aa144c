/* The version of the running library; both numbers come from the build (CMakeLists.txt). */
#include "compute/status.h"

uint32_t compute_version(void) {
  return COMPUTE_VERSION_NUMBER;
}

const char *compute_version_text(void) {
  return COMPUTE_VERSION_TEXT;
}
