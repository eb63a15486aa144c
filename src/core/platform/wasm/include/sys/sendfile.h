/* SPDX-License-Identifier: MIT */
/* Emscripten has no such header; the call fails as on Windows. */
#include "../../../windows/include/sys/sendfile.h"
