/* Sorted by where they begin, so that those which begin before the end of another one are the first
 * few of the list; whether one of these ends too late, their largest end says. */
#include "plan/run/spans.h"

#include <stdlib.h>

static bool span_of(const compute_tensor *t, memory_span *span) {
  const memory_buffer *buffer = t->buffer;
  const uint64_t begin = (uint64_t)(uintptr_t)buffer->memory.host + (uint64_t)t->offset;
  *span = (memory_span){.space = buffer->memory.host != NULL ? NULL : buffer,
                        .begin = begin,
                        .end = begin + tensor_span_bytes(t)};
  return span->begin < span->end;
}

void spans_add(span_list *list, const compute_tensor *tensor) {
  if (span_of(tensor, &list->at[list->count])) list->count++;
}

static bool is_before(const memory_span *a, const memory_span *b) {
  if (a->space != b->space) return (uintptr_t)a->space < (uintptr_t)b->space;
  return a->begin < b->begin;
}

static int by_place(const void *a, const void *b) {
  return is_before(a, b) ? -1 : is_before(b, a);
}

void spans_sort(span_list *list) {
  if (list->count > 1) qsort(list->at, list->count, sizeof *list->at, by_place);
  for (uint32_t i = 0; i < list->count; i++) {
    memory_span *s = &list->at[i];
    s->reach = s->end;
    if (i > 0 && s[-1].space == s->space && s[-1].reach > s->reach) s->reach = s[-1].reach;
  }
}

bool spans_meet(const span_list *list, const compute_tensor *tensor) {
  memory_span span;
  if (list->count == 0 || !span_of(tensor, &span)) return false;
  const memory_span end = {.space = span.space, .begin = span.end};
  uint32_t low = 0, count = list->count; /* those before `end` */
  while (count > 0) {
    const uint32_t half = count / 2;
    if (is_before(&list->at[low + half], &end)) {
      low += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return low > 0 && list->at[low - 1].space == span.space && list->at[low - 1].reach > span.begin;
}

bool spans_collide(const span_list *list) {
  for (uint32_t i = 1; i < list->count; i++)
    if (list->at[i].space == list->at[i - 1].space && list->at[i].begin < list->at[i - 1].reach)
      return true;
  return false;
}
