/* SPDX-License-Identifier: MIT */
/* Programs that a case starts: this one again, or one beside it. */
#ifndef BENCH_PROCESS_H
#define BENCH_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

/* A separate folder for each use. `process_folder_remove` removes it with all its files. */
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
  const process_folder *folder; /* for the program's output */
  struct rusage usage;          /* set: its resource usage */
  char said[200];               /* set if it failed: its last message */
} process_call;

/* Runs it to its end. Its stdout goes to the folder's file "output"; its stderr is repeated there
 * if it fails. Returns whether its exit status was 0. */
bool process_run(process_call *call);

/* The numbers that it has printed; false if there are fewer than `count`. */
bool process_numbers(const process_folder *folder, double *value, int count);

#endif
