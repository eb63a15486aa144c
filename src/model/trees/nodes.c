/* SPDX-License-Identifier: MIT */
/* Nodes of trees from files; see files.h. Questions with several limits become searches: nodes with
 * one limit each, whose branches meet again. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/text.h"
#include "io/new_file.h"
#include "model/trees/files.h"

compute_status tree_refuse(const tree_reader *reader, compute_status status, const char *format,
                           ...) {
  char problem[192], name[SHOWN_NAME_BYTES];
  va_list list;
  va_start(list, format);
  vsnprintf(problem, sizeof problem, format, list);
  va_end(list);
  return error_set(reader->context, status, reader->operation,
                   "cannot read %s as trees: after %zu trees: %s",
                   reader->path ? file_show_name(reader->path, name) : "the memory",
                   reader->model->tree_count, problem);
}

compute_status tree_no_memory(const tree_reader *reader) {
  return tree_refuse(reader, COMPUTE_ERROR_OUT_OF_MEMORY, "not enough memory");
}

compute_status tree_objective(tree_reader *reader, const char *text, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (text[i] < ' ' || text[i] > '~')
      return tree_refuse(reader, COMPUTE_ERROR_FORMAT, "the objective is not printable ASCII");
  char *copy = base_allocate(length + 1, 1);
  if (!copy) return tree_no_memory(reader);
  memcpy(copy, text, length);
  base_release(reader->model->objective);
  reader->model->objective = copy;
  return COMPUTE_OK;
}

/* ---- Columns --------------------------------------------------------------------------------- */

compute_status tree_add_zeros(tree_reader *reader, tree_column column, size_t count) {
  tree_numbers *c = &reader->columns[column];
  if (base_grow((void **)&c->data, &c->capacity, (uint64_t)c->count + count, sizeof *c->data))
    return tree_no_memory(reader);
  memset(c->data + c->count, 0, count * sizeof *c->data);
  c->count += count;
  return COMPUTE_OK;
}

compute_status tree_add_number(tree_reader *reader, tree_column column, double number) {
  const compute_status status = tree_add_zeros(reader, column, 1);
  tree_numbers *c = &reader->columns[column];
  if (!status) c->data[c->count - 1] = number;
  return status;
}

void tree_clear(tree_reader *reader) {
  for (int i = 0; i < TREE_COLUMNS; i++) reader->columns[i].count = 0;
}

compute_status tree_integer(const tree_reader *reader, tree_column column, size_t index,
                            int64_t least, int64_t most, int64_t *integer) {
  const tree_numbers *c = &reader->columns[column];
  const double number = index < c->count ? c->data[index] : NAN;
  if (!(number >= (double)least && number <= (double)most) || number != trunc(number))
    return tree_refuse(reader, COMPUTE_ERROR_FORMAT,
                       "number %zu of a list is not an integer from %" PRId64 " to %" PRId64, index,
                       least, most);
  *integer = (int64_t)number;
  return COMPUTE_OK;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static compute_status add_nodes(tree_reader *reader, size_t count, int64_t *first) {
  compute_tree_model *m = reader->model;
  if (count > INT32_MAX - m->node_count)
    return tree_refuse(reader, COMPUTE_ERROR_OVERFLOW, "more than 2^31 nodes");
  if (base_grow((void **)&m->nodes, &m->node_capacity, (uint64_t)m->node_count + count,
                sizeof *m->nodes))
    return tree_no_memory(reader);
  memset(m->nodes + m->node_count, 0, count * sizeof *m->nodes);
  *first = (int64_t)m->node_count;
  m->node_count += count;
  return COMPUTE_OK;
}

compute_status tree_begin(tree_reader *reader, size_t count, int64_t *base) {
  compute_tree_model *m = reader->model;
  compute_status status = add_nodes(reader, count, base);
  if (!status) status = tree_add_zeros(reader, COLUMN_REACHED, count);
  if (status) return status;
  if (base_grow((void **)&m->trees, &m->tree_capacity, (uint64_t)m->tree_count + 1,
                sizeof *m->trees))
    return tree_no_memory(reader);
  m->trees[m->tree_count++] = (tree_start){*base, m->value_count};
  return COMPUTE_OK;
}

compute_status tree_reach(tree_reader *reader, int64_t index) {
  double *reached = &reader->columns[COLUMN_REACHED].data[index];
  if (index == 0 || *reached != 0)
    return tree_refuse(reader, COMPUTE_ERROR_FORMAT, "two branches lead to node %" PRId64, index);
  *reached = 1;
  return COMPUTE_OK;
}

compute_status tree_leaf(tree_reader *reader, int64_t at, int64_t target, double value) {
  compute_tree_model *m = reader->model;
  if (base_grow((void **)&m->values, &m->value_capacity, (uint64_t)m->value_count + 1,
                sizeof *m->values))
    return tree_no_memory(reader);
  compute_tree_node *n = &m->nodes[at];
  if (n->value_count == 0) n->first_value = (int64_t)m->value_count;
  n->value_count++;
  m->values[m->value_count++] = (compute_tree_value){target, value};
  return COMPUTE_OK;
}

/* ---- Searches -------------------------------------------------------------------------------- */

static void ask(compute_tree_model *m, int64_t at, int64_t feature, double limit, bool missing,
                int64_t yes, int64_t no) {
  m->nodes[at] = (compute_tree_node){.test = COMPUTE_TREE_LEQ,
                                     .missing = missing,
                                     .feature = feature,
                                     .threshold = limit,
                                     .yes = yes,
                                     .no = no};
}

typedef struct search_part {
  size_t first, end; /* limits */
  int64_t node;
} search_part;

compute_status tree_search(tree_reader *reader, int64_t at, int64_t feature, int64_t even,
                           int64_t odd, bool missing_even) {
  compute_tree_model *m = reader->model;
  const double *limits = reader->columns[COLUMN_LIMIT].data;
  const size_t count = reader->columns[COLUMN_LIMIT].count;
  const int64_t to[2] = {even, odd};
  const bool first = missing_even, last = missing_even == (count % 2 == 0);
  int64_t more = 0;
  compute_status status = add_nodes(reader, count - (first || last), &more);
  if (status) return status;
  if (!first && !last) { /* NaN goes to neither end: it is asked for */
    ask(m, at, feature, HUGE_VAL, false, more, odd);
    at = more++;
  }
  /* The larger half waits: each waiting part is at most half as long as the one before it. */
  search_part parts[2 * sizeof(size_t) * 8];
  size_t waiting = 0;
  parts[waiting++] = (search_part){0, count, at};
  while (waiting > 0) {
    const search_part part = parts[--waiting];
    const size_t middle = part.first + (part.end - part.first) / 2;
    int64_t yes = to[part.first % 2], no = to[part.end % 2];
    if (part.end > middle + 1) {
      no = more++;
      parts[waiting++] = (search_part){middle + 1, part.end, no};
    }
    if (middle > part.first) {
      yes = more++;
      parts[waiting++] = (search_part){part.first, middle, yes};
    }
    ask(m, part.node, feature, limits[middle], first, yes, no);
  }
  return COMPUTE_OK;
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double below(double number) {
  return nextafter(number, -HUGE_VAL);
}

compute_status tree_categories(tree_reader *reader, int64_t at, int64_t feature, int64_t outside,
                               int64_t inside, bool missing_outside, double before_zero) {
  const tree_numbers *c = &reader->columns[COLUMN_CATEGORY_SET];
  tree_numbers *limits = &reader->columns[COLUMN_LIMIT];
  limits->count = 0;
  if (c->count == 0) { /* no feature is inside, but NaN may be */
    ask(reader->model, at, feature, HUGE_VAL, missing_outside, outside, inside);
    return COMPUTE_OK;
  }
  qsort(c->data, c->count, sizeof *c->data, compare);
  for (size_t i = 0; i < c->count; i++) {
    const double number = c->data[i];
    const bool follows = i > 0 && number <= c->data[i - 1] + 1;
    if (!follows) {
      const compute_status status = tree_add_zeros(reader, COLUMN_LIMIT, 2);
      if (status) return status;
      limits->data[limits->count - 2] = number == 0 ? before_zero : below(number);
    }
    limits->data[limits->count - 1] = below(number + 1);
  }
  return tree_search(reader, at, feature, outside, inside, missing_outside);
}
