/* Facts about platforms and devices. A driver may fail, answer in another size than the standard
 * says, or forget the zero at the end of a text; all of that ends here. */
#include "opencl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t opencl_number(const opencl_library *cl, cl_device_id id, cl_device_info what, size_t bytes,
                       uint64_t fallback) {
  uint64_t wide = 0;
  uint32_t narrow = 0;
  size_t got = bytes;
  if (bytes == sizeof narrow) {
    const cl_int code = cl->clGetDeviceInfo(id, what, sizeof narrow, &narrow, &got);
    return code == CL_SUCCESS && got == bytes ? narrow : fallback;
  }
  const cl_int code = cl->clGetDeviceInfo(id, what, sizeof wide, &wide, &got);
  return code == CL_SUCCESS && got == bytes ? wide : fallback;
}

/* Cuts blanks off both ends and copies what fits. */
static void trim(const char *from, char *text, size_t text_bytes) {
  from += strspn(from, " \t\r\n");
  size_t length = strlen(from);
  while (length > 0 && strchr(" \t\r\n", from[length - 1])) length--;
  if (length >= text_bytes) length = text_bytes - 1;
  memcpy(text, from, length);
  text[length] = '\0';
}

/* Extensions of some drivers take thousands of bytes; anything longer is no text. */
#define LONGEST_TEXT 16384

void opencl_text(const opencl_library *cl, cl_device_id id, cl_device_info what, char *text,
                 size_t text_bytes) {
  char whole[LONGEST_TEXT];
  size_t got = 0;
  whole[0] = '\0';
  if (cl->clGetDeviceInfo(id, what, sizeof whole - 1, whole, &got) != CL_SUCCESS) got = 0;
  whole[got < sizeof whole ? got : sizeof whole - 1] = '\0';
  trim(whole, text, text_bytes);
}

void opencl_platform_text(const opencl_library *cl, cl_platform_id id, cl_platform_info what,
                          char *text, size_t text_bytes) {
  char whole[LONGEST_TEXT];
  size_t got = 0;
  whole[0] = '\0';
  if (cl->clGetPlatformInfo(id, what, sizeof whole - 1, whole, &got) != CL_SUCCESS) got = 0;
  whole[got < sizeof whole ? got : sizeof whole - 1] = '\0';
  trim(whole, text, text_bytes);
}

bool opencl_has_extension(const opencl_library *cl, cl_device_id id, const char *extension) {
  char list[LONGEST_TEXT];
  opencl_text(cl, id, CL_DEVICE_EXTENSIONS, list, sizeof list);
  const size_t length = strlen(extension);
  for (const char *at = list; (at = strstr(at, extension)); at += length) {
    const bool starts = at == list || at[-1] == ' ';
    if (starts && (at[length] == ' ' || at[length] == '\0')) return true;
  }
  return false;
}

int opencl_version(const char *text) {
  int major, minor;
  if (sscanf(text, "OpenCL %d.%d", &major, &minor) != 2) return 0;
  if (major < 1 || major > 99 || minor < 0 || minor > 9) return 0;
  return major * 10 + minor;
}
