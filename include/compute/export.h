/* SPDX-License-Identifier: MIT */
/** @file
 * Symbol visibility of the public functions. */
#ifndef COMPUTE_EXPORT_H
#define COMPUTE_EXPORT_H

#if defined(__GNUC__)
#define COMPUTE_API __attribute__((visibility("default")))
#ifdef __MINGW32__ /* printf there means the functions of Microsoft's library */
#define COMPUTE_PRINTF(text, first) __attribute__((__format__(__gnu_printf__, text, first)))
#else
#define COMPUTE_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#endif
#else
#define COMPUTE_API
#define COMPUTE_PRINTF(text, first)
#endif

#endif
