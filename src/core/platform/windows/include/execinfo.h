/* SPDX-License-Identifier: MIT */
#ifndef PLATFORM_EXECINFO_H
#define PLATFORM_EXECINFO_H

#define backtrace platform_backtrace
int backtrace(void **addresses, int count);

#endif
