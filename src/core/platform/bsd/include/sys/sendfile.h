/* SPDX-License-Identifier: MIT */
#include "../../../windows/include/sys/sendfile.h"
