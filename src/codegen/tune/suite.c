/* SPDX-License-Identifier: MIT */
/* The suite: the problems of all kinds in sequence, selected by the names of the kinds. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "codegen/tune/problems/problem.h"

#define KIND(code, number, name) extern const problem_kind problem_kind_##name;
COMPUTE_KERNEL_KINDS(KIND)
#undef KIND

static const problem_kind *const kinds[COMPUTE_KERNEL_KIND_COUNT] = {
#define KIND(code, number, name) [number] = &problem_kind_##name,
    COMPUTE_KERNEL_KINDS(KIND)
#undef KIND
};

const problem_kind *problem_kind_of(compute_kernel_kind kind) {
  return kinds[kind];
}

/* Row `index` of the suite, and its kind; NULL past the end. */
static const problem_row *find_row(size_t index, compute_kernel_kind *kind) {
  for (int k = 0; k < COMPUTE_KERNEL_KIND_COUNT; k++)
    for (const problem_row *row = kinds[k]->rows; row && row->a; row++) {
      *kind = (compute_kernel_kind)k;
      if (index-- == 0) return row;
    }
  return NULL;
}

size_t problem_count(void) {
  compute_kernel_kind kind;
  size_t count = 0;
  while (find_row(count, &kind)) count++;
  return count;
}

/* ---- Choosing ------------------------------------------------------------------------------ */

/* The next name of a list separated by ','. */
static const char *next_name(const char **list, size_t *length) {
  const char *name = *list;
  *length = strcspn(name, ",");
  *list = name + *length + (name[*length] == ',');
  return name;
}

static bool name_is(const char *name, size_t length, const char *word) {
  return strlen(word) == length && !memcmp(name, word, length);
}

static bool is_suite(const char *name, size_t length) {
  for (int k = 0; k < COMPUTE_KERNEL_KIND_COUNT; k++)
    if (kinds[k]->rows && name_is(name, length, kernel_kind_name((compute_kernel_kind)k)))
      return true;
  return name_is(name, length, "all");
}

bool problem_suite_valid(const char *names) {
  if (!*names) return false;
  while (*names) {
    size_t length;
    const char *name = next_name(&names, &length);
    if (!is_suite(name, length)) return false;
  }
  return true;
}

char *problem_suites(char *text, size_t bytes) {
  size_t used = 0;
  text[0] = '\0';
  for (int k = 0; k < COMPUTE_KERNEL_KIND_COUNT && used < bytes; k++) {
    if (!kinds[k]->rows) continue;
    const int n = snprintf(text + used, bytes - used, "%s%s", used ? ", " : "",
                           kernel_kind_name((compute_kernel_kind)k));
    used += n > 0 ? (size_t)n : 0;
  }
  return text;
}

bool problem_chosen(size_t index, const char *names, bool quick) {
  compute_kernel_kind kind;
  const problem_row *row = find_row(index, &kind);
  if (!row || (quick && !row->quick)) return false;
  while (*names) {
    size_t length;
    const char *name = next_name(&names, &length);
    if (name_is(name, length, "all") || name_is(name, length, kernel_kind_name(kind))) return true;
  }
  return false;
}

/* ---- Building ------------------------------------------------------------------------------ */

/* The number of elements from the first to the last that an operand touches. */
static uint64_t span(const compute_kernel_descriptor *d, uint32_t index,
                     const compute_operand *operand) {
  int64_t size[COMPUTE_MAX_RANK];
  uint64_t last = 0;
  kernel_operand_sizes(d, index, size);
  for (int32_t i = 0; i < d->rank; i++)
    last += (uint64_t)(size[i] - 1) * (uint64_t)operand->stride[i];
  return last + 1;
}

static void measure_operands(tune_problem *p) {
  const compute_kernel_descriptor *d = &p->descriptor;
  for (uint32_t i = 0; i < d->input_count; i++)
    if (!p->input_elements[i]) p->input_elements[i] = span(d, i, &p->inputs[i]);
  if (!p->output_elements) p->output_elements = span(d, d->input_count, &p->output);
}

static void print_name(tune_problem *p, const problem_row *row) {
  size_t used =
      (size_t)snprintf(p->name, sizeof p->name, "%s%s%s %s ", kernel_kind_name(p->descriptor.kind),
                       *row->what ? " " : "", row->what, compute_dtype_name(row->dtype));
  if (row->batch)
    used += (size_t)snprintf(p->name + used, sizeof p->name - used, "%" PRId64 "x", row->batch);
  used += (size_t)snprintf(p->name + used, sizeof p->name - used, "%" PRId64 "x%" PRId64, row->a,
                           row->b);
  if (row->c) snprintf(p->name + used, sizeof p->name - used, "x%" PRId64, row->c);
}

bool problem_build(size_t index, tune_problem *p) {
  compute_kernel_kind kind;
  const problem_row *row = find_row(index, &kind);
  if (!row) return false;
  memset(p, 0, sizeof *p);
  p->kind = kinds[kind];
  p->descriptor.struct_size = sizeof p->descriptor;
  p->descriptor.kind = kind;
  p->descriptor.inputs = p->inputs;
  p->descriptor.outputs = &p->output;
  p->kind->build(p, row);
  measure_operands(p);
  print_name(p, row);
  return true;
}
