/* SPDX-License-Identifier: MIT */
/* The outcomes of the cases, and the expected outcomes. */
#ifndef BACKEND_REPORT_H
#define BACKEND_REPORT_H

#include "backend/conformance.h"

typedef struct result {
  char name[CASE_NAME];
  outcome outcome;
  char *words;    /* NULL: none */
  int64_t entry;  /* index of the expectation; −1: none */
  bool as_wished; /* as expected */
} result;

/* A line of an expectations file: an outcome for the cases that match this pattern and no earlier
 * one. */
typedef struct expectation {
  outcome outcome;
  char pattern[CASE_NAME];
  int line;
  size_t matches; /* number of matching cases, run or not */
} expectation;

typedef struct report {
  const char *device;
  result *results;
  size_t count, capacity;
  bool has_expectations; /* then every refusal must be expected */
  const char *path;
  expectation *expectations;
  size_t expectation_count;
  size_t passed, refused, failed, unexpected;
} report;

/* Reads a file of expectations. Returns false with a message on standard error. */
bool report_expect(report *r, const char *path);

/* Records that a case of this name exists, run or not. */
void report_mention(report *r, const char *name);

/* Adds the outcome of a case and returns it. Ends the program if memory is short. */
const result *report_add(report *r, const char *name, outcome which, const char *words);

/* Prints refusals, errors and totals. Returns true if all outcomes were as expected. With
 * `complete`, all cases were mentioned, so that entries without a match are errors. */
bool report_print(report *r, bool complete);

/* Write files; return false with a message on standard error. */
bool report_write_json(const report *r, const char *path);
bool report_write_expectations(const report *r, const char *path);

void report_release(report *r);

#endif
