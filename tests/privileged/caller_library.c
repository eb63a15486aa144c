/* SPDX-License-Identifier: MIT */
/* A library that an unprivileged caller would like to load. It records the rights of each process
 * that loads it, in the file CALLER_NOTE. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

__attribute__((constructor)) static void note(void) {
  int file = open(CALLER_NOTE, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (file >= 0)
    dprintf(file, "loaded by user %ld with the rights of %ld\n", (long)getuid(), (long)geteuid());
  if (file >= 0) close(file);
}
