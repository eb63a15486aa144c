/* SPDX-License-Identifier: MIT */
/* The entry of programs: it gives their main UTF-8 arguments, and a console that shows UTF-8. */
#include <stdlib.h>

#include "native.h"

int main(int argc, char **argv);
int wmain(int argc, wchar_t **argv);

int wmain(int argc, wchar_t **argv) {
  char **arguments = calloc((size_t)argc + 1, sizeof *arguments);
  if (!arguments) return EXIT_FAILURE;
  for (int i = 0; i < argc; i++) {
    arguments[i] = native_narrow_new(argv[i]);
    if (!arguments[i]) return EXIT_FAILURE;
  }
  SetConsoleOutputCP(CP_UTF8);
  return main(argc, arguments);
}
