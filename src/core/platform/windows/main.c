/* SPDX-License-Identifier: MIT */
/* The entry of programs: it gives them their arguments in UTF-8, and a console that shows UTF-8.
 * Programs are compiled with main=platform_main. */
#include <stdlib.h>

#include "native.h"

#include <shellapi.h>

int platform_main(int argc, char **argv);

int main(void) {
  int count;
  wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &count);
  char **arguments = wide ? calloc((size_t)count + 1, sizeof *arguments) : NULL;
  if (!arguments) return EXIT_FAILURE;
  for (int i = 0; i < count; i++) {
    arguments[i] = native_narrow_new(wide[i]);
    if (!arguments[i]) return EXIT_FAILURE;
  }
  SetConsoleOutputCP(CP_UTF8);
  return platform_main(count, arguments);
}
