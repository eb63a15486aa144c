/* SPDX-License-Identifier: MIT */
/* The report: a line for each unexpected case, the reasons of refusals with their counts, and the
 * two files. */
#include "backend/report.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *grown(void *list, size_t count, size_t *capacity, size_t size) {
  if (count < *capacity) return list;
  *capacity = *capacity ? 2 * *capacity : 256;
  list = realloc(list, *capacity * size);
  if (list) return list;
  fprintf(stderr, "compute-conformance: out of memory\n");
  exit(2);
}

/* ---- Expectations -------------------------------------------------------------------------- */

/* Parses "refused kernel/gemm/... # reason"; returns false for any other line. */
static bool parse(const char *line, expectation *e) {
  static const outcome outcomes[] = {OUTCOME_PASSED, OUTCOME_REFUSED, OUTCOME_FAILED};
  for (size_t i = 0; i < sizeof outcomes / sizeof *outcomes; i++) {
    const char *name = outcome_name(outcomes[i]);
    const size_t length = strlen(name);
    if (strncmp(line, name, length) != 0 || line[length] != ' ') continue;
    line += length + 1;
    const char *end = strstr(line, " #");
    size_t bytes = end ? (size_t)(end - line) : strlen(line);
    while (bytes > 0 && isspace((unsigned char)line[bytes - 1])) bytes--;
    if (bytes == 0 || bytes >= sizeof e->pattern) return false;
    memcpy(e->pattern, line, bytes);
    e->pattern[bytes] = '\0';
    e->outcome = outcomes[i];
    return true;
  }
  return false;
}

bool report_expect(report *r, const char *path) {
  char line[1000];
  size_t capacity = 0;
  bool good = true;
  FILE *file = fopen(path, "r");
  if (!file) {
    fprintf(stderr, "compute-conformance: cannot read %s: %s\n", path, strerror(errno));
    return false;
  }
  r->has_expectations = true;
  r->path = path;
  for (int number = 1; fgets(line, sizeof line, file); number++) {
    const char *text = line + strspn(line, " \t");
    if (text[0] == '\n' || text[0] == '#' || text[0] == '\0') continue;
    r->expectations =
        grown(r->expectations, r->expectation_count, &capacity, sizeof *r->expectations);
    expectation *e = &r->expectations[r->expectation_count];
    *e = (expectation){.line = number};
    if (parse(text, e)) {
      r->expectation_count++;
      continue;
    }
    fprintf(stderr,
            "compute-conformance: %s:%d: must be 'OUTCOME PATTERN # reason', where OUTCOME is "
            "refused, failed or passed\n",
            path, number);
    good = false;
  }
  fclose(file);
  return good;
}

/* Returns the first entry that matches a name; −1: none. */
static int64_t find(const report *r, const char *name) {
  for (size_t i = 0; i < r->expectation_count; i++)
    if (fnmatch(r->expectations[i].pattern, name, 0) == 0) return (int64_t)i;
  return -1;
}

void report_mention(report *r, const char *name) {
  const int64_t entry = find(r, name);
  if (entry >= 0) r->expectations[entry].matches++;
}

const result *report_add(report *r, const char *name, outcome which, const char *words) {
  r->results = grown(r->results, r->count, &r->capacity, sizeof *r->results);
  result *added = &r->results[r->count++];
  *added = (result){.outcome = which, .entry = find(r, name)};
  snprintf(added->name, sizeof added->name, "%s", name);
  if (words && words[0]) added->words = strdup(words);
  if (which == OUTCOME_PASSED) r->passed++;
  if (which == OUTCOME_REFUSED) r->refused++;
  if (which == OUTCOME_FAILED) r->failed++;
  if (added->entry >= 0)
    added->as_wished = r->expectations[added->entry].outcome == which;
  else
    added->as_wished =
        which == OUTCOME_PASSED || (which == OUTCOME_REFUSED && !r->has_expectations);
  if (!added->as_wished) r->unexpected++;
  return added;
}

/* ---- Printing ------------------------------------------------------------------------------ */

/* Prints the reasons, roughly the most frequent first, each with its first case. */
static void print_refusals(const report *r) {
  enum { SHOWN = 20 };
  size_t shown = 0, reasons = 0;
  for (size_t i = 0; i < r->count; i++) {
    const result *one = &r->results[i];
    size_t same = 0, earlier = 0;
    if (one->outcome != OUTCOME_REFUSED || !one->words) continue;
    for (size_t k = 0; k < r->count; k++) {
      if (r->results[k].outcome != OUTCOME_REFUSED || !r->results[k].words ||
          strcmp(r->results[k].words, one->words) != 0)
        continue;
      same++;
      if (k < i) earlier++;
    }
    if (earlier > 0) continue;
    reasons++;
    if (shown == SHOWN) continue;
    shown++;
    printf("refused %4zu  %s  (%s)\n", same, one->words, one->name);
  }
  if (reasons > shown) printf("refused       %zu more reasons\n", reasons - shown);
}

static void print_unexpected(const report *r) {
  for (size_t i = 0; i < r->count; i++) {
    const result *one = &r->results[i];
    if (one->as_wished) continue;
    if (one->entry >= 0)
      printf("UNEXPECTED  %s: %s, but %s:%d says %s%s%s\n", one->name, outcome_name(one->outcome),
             r->path, r->expectations[one->entry].line,
             outcome_name(r->expectations[one->entry].outcome), one->words ? ": " : "",
             one->words ? one->words : "");
    else
      printf("%s  %s: %s\n", one->outcome == OUTCOME_FAILED ? "FAILED" : "UNEXPECTED refusal",
             one->name, one->words ? one->words : "");
  }
}

bool report_print(report *r, bool complete) {
  size_t stale = 0;
  print_refusals(r);
  print_unexpected(r);
  for (size_t i = 0; i < r->expectation_count && complete; i++) {
    if (r->expectations[i].matches > 0) continue;
    printf("UNEXPECTED  %s:%d: no case matches '%s'\n", r->path, r->expectations[i].line,
           r->expectations[i].pattern);
    stale++;
  }
  printf("%s: %zu passed, %zu refused, %zu failed; ", r->device, r->passed, r->refused, r->failed);
  if (r->unexpected + stale > 0)
    printf("%zu not as expected\n", r->unexpected + stale);
  else
    printf("as expected\n");
  return r->unexpected + stale == 0;
}

/* ---- Files --------------------------------------------------------------------------------- */

bool report_write_json(const report *r, const char *path) {
  json_t *cases = json_array();
  for (size_t i = 0; i < r->count; i++) {
    const result *one = &r->results[i];
    json_t *row = json_pack("{s:s, s:s, s:b}", "case", one->name, "outcome",
                            outcome_name(one->outcome), "expected", one->as_wished);
    if (row && one->words) {
      /* Not json_string: this program contains the core, which has a function of that name. */
      json_t *words = json_stringn(one->words, strlen(one->words)); /* NULL: not UTF-8 */
      json_object_set_new(row, "words", words ? words : json_null());
    }
    json_array_append_new(cases, row);
  }
  json_t *root =
      json_pack("{s:s, s:I, s:I, s:I, s:I, s:o}", "device", r->device, "passed",
                (json_int_t)r->passed, "refused", (json_int_t)r->refused, "failed",
                (json_int_t)r->failed, "unexpected", (json_int_t)r->unexpected, "cases", cases);
  const bool written = root && json_dump_file(root, path, JSON_INDENT(1)) == 0;
  if (!written) fprintf(stderr, "compute-conformance: cannot write %s\n", path);
  json_decref(root);
  return written;
}

/* Length of the name up to its last '/'. */
static size_t group_length(const char *name) {
  const char *slash = strrchr(name, '/');
  return slash ? (size_t)(slash - name) + 1 : 0;
}

static bool same_group(const result *a, const result *b) {
  const size_t length = group_length(a->name);
  return length == group_length(b->name) && !strncmp(a->name, b->name, length);
}

/* Returns true if all cases of the group had this outcome, and this is the first of at least
 * two. */
static bool stands_for_group(const report *r, size_t i, bool *covered) {
  size_t members = 0;
  bool first = true;
  *covered = false;
  for (size_t k = 0; k < r->count; k++) {
    if (!same_group(&r->results[i], &r->results[k])) continue;
    if (r->results[k].outcome != r->results[i].outcome) return false;
    if (k < i) first = false;
    members++;
  }
  if (members < 2) return false;
  *covered = !first;
  return first;
}

bool report_write_expectations(const report *r, const char *path) {
  FILE *file = fopen(path, "w");
  if (file) {
    fprintf(file, "# What compute-conformance %s refuses or fails, and why; all else passes.\n",
            r->device);
    for (size_t i = 0; i < r->count; i++) {
      const result *one = &r->results[i];
      bool covered;
      if (one->outcome == OUTCOME_PASSED) continue;
      const bool whole = stands_for_group(r, i, &covered);
      if (covered) continue;
      const char *words = one->words ? one->words : "";
      fprintf(file, "%s %.*s%s # %.*s\n", outcome_name(one->outcome),
              (int)(whole ? group_length(one->name) : strlen(one->name)), one->name,
              whole ? "*" : "", (int)strcspn(words, "\n"), words);
    }
  }
  const bool written = file && !ferror(file) && fclose(file) == 0;
  if (!written)
    fprintf(stderr, "compute-conformance: cannot write %s: %s\n", path, strerror(errno));
  return written;
}

void report_release(report *r) {
  for (size_t i = 0; i < r->count; i++) free(r->results[i].words);
  free(r->results);
  free(r->expectations);
}
