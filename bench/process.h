/* SPDX-License-Identifier: MIT */
/* Programs that a case starts: this one again, or one beside it. */
#ifndef BENCH_PROCESS_H
#define BENCH_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

/* A folder of its own for each use, which `process_folder_remove` removes with all that is in it.
 */
typedef struct process_folder {
  char path[32];
} process_folder;

bool process_folder_make(process_folder *folder);
void process_folder_remove(const process_folder *folder);

/* This program's path, with the file name replaced by `name` unless that is NULL. */
bool process_find(const char *name, char *path, size_t bytes);

typedef struct process_call {
  char *const *words;           /* the path and the arguments, NULL at the end */
  char *variables[2];           /* of the environment, NAME=VALUE; NULL: none */
  const process_folder *folder; /* for what the program prints */
  struct rusage usage;          /* set: what it used */
  char said[200];               /* set if it failed: why, in its own last words */
} process_call;

/* Runs it to its end. What it prints on stdout goes to the folder's file "output"; what it prints
 * on stderr is repeated there if it fails. Returns whether its exit status was 0. */
bool process_run(process_call *call);

/* The numbers that it has printed; false if there are not so many. */
bool process_numbers(const process_folder *folder, double *value, int count);

#endif
