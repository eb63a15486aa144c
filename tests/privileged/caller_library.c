/* SPDX-License-Identifier: MIT */
/* What a caller would like to have loaded: a library that notes, for each process that loads it,
 * with which rights it runs. CALLER_NOTE is the file. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

__attribute__((constructor)) static void note(void) {
  int file = open(CALLER_NOTE, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (file >= 0)
    dprintf(file, "loaded by user %ld with the rights of %ld\n", (long)getuid(), (long)geteuid());
  if (file >= 0) close(file);
}
