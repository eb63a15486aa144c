/* SPDX-License-Identifier: MIT */
/* What became of the cases, and what was expected. */
#ifndef BACKEND_REPORT_H
#define BACKEND_REPORT_H

#include "backend/conformance.h"

typedef struct result {
  char name[CASE_NAME];
  outcome outcome;
  char *words;    /* NULL: none */
  int64_t entry;  /* of the expectations; −1: none */
  bool as_wished; /* nothing to complain of */
} result;

/* A line of an expectations file: an outcome for the cases that a pattern matches and no line
 * before it does. */
typedef struct expectation {
  outcome outcome;
  char pattern[CASE_NAME];
  int line;
  size_t matches; /* of all cases, whether they are run or not */
} expectation;

typedef struct report {
  const char *device;
  result *results;
  size_t count, capacity;
  bool has_expectations; /* then what was refused must be among them */
  const char *path;
  expectation *expectations;
  size_t expectation_count;
  size_t passed, refused, failed, unexpected;
} report;

/* Reads a file of expectations. False with a message on standard error. */
bool report_expect(report *r, const char *path);

/* Notes that there is a case of this name, run or not. */
void report_mention(report *r, const char *name);

/* Adds what became of a case; returns it. Ends the program when memory is short. */
const result *report_add(report *r, const char *name, outcome which, const char *words);

/* Prints what was refused, what went wrong and the sums. Returns whether all was as expected. With
 * `complete` all cases were mentioned, so that entries without a match are wrong. */
bool report_print(report *r, bool complete);

/* Write files; false with a message on standard error. */
bool report_write_json(const report *r, const char *path);
bool report_write_expectations(const report *r, const char *path);

void report_release(report *r);

#endif
