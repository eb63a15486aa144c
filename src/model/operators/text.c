/* SPDX-License-Identifier: MIT */
/* Operators on texts: Equal, StringConcat, StringNormalizer, StringSplit, RegexFullMatch. Functions
 * of the host compute them between two plans. */
#include "model/operators/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/text.h"
#include "core/type/shape.h"
#include "model/operators/operators.h"
#include "model/call/host.h"
#include "model/operators/text_case.h"
#include "model/operators/text_pattern.h"

/* ---- Characters and lists -------------------------------------------------------------------- */

uint32_t text_next(const char **text) {
  const unsigned char *s = (const unsigned char *)*text;
  if (!s[0]) return 0;
  const size_t length = utf8_length(*text);
  *text += length ? length : 1;
  switch (length) {
  case 1: return s[0];
  case 2: return (s[0] & 31U) << 6 | (s[1] & 63U);
  case 3: return (s[0] & 15U) << 12 | (s[1] & 63U) << 6 | (s[2] & 63U);
  case 4: return (s[0] & 7U) << 18 | (s[1] & 63U) << 12 | (s[2] & 63U) << 6 | (s[3] & 63U);
  default: return 0xfffd;
  }
}

static int compare_texts(const void *a, const void *b) {
  const text_entry *x = a, *y = b;
  const int order = strcmp(x->text, y->text);
  return order ? order : (x->at > y->at) - (x->at < y->at);
}

text_entry *text_sort(model_call *call, const char *const *texts, size_t count) {
  text_entry *sorted = call_allocate(call, count, sizeof *sorted);
  for (size_t i = 0; sorted && i < count; i++) sorted[i] = (text_entry){texts[i], (int64_t)i};
  if (sorted && count) qsort(sorted, count, sizeof *sorted, compare_texts);
  return sorted;
}

int64_t text_place(const text_entry *sorted, size_t count, const char *text) {
  size_t low = 0, high = count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (strcmp(sorted[middle].text, text) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low < count && strcmp(sorted[low].text, text) == 0 ? sorted[low].at : -1;
}

static compute_status check_text(model_call *call, size_t i) {
  return call_is_text(call, i) ? COMPUTE_OK
                               : call_fail(call, COMPUTE_ERROR_DTYPE, "input %zu is not text", i);
}

static int64_t count_of(const host_tensor *tensor) {
  int64_t count = 0;
  return compute_shape_count(tensor->shape, &count) ? 0 : count;
}

static const char *text_at(const host_call *call, const host_tensor *tensor, int64_t at) {
  return host_text(call, ((const int64_t *)tensor->data)[at]);
}

/* Work of a function that reads and writes a text for each element, for predictions. */
enum { ROWS_OF_TEXT = 8 };

static double rows_of(const model_call *call, size_t i) {
  int64_t count = 0;
  compute_shape_count(call_shape(call, i), &count);
  return (double)count * ROWS_OF_TEXT;
}

/* ---- Two operands ------------------------------------------------------------------------------ */

static bool broadcast_shape(compute_shape a, compute_shape b, compute_shape *shape) {
  const compute_shape longer = a.rank > b.rank ? a : b, shorter = a.rank > b.rank ? b : a;
  *shape = longer;
  for (int32_t i = 1; i <= shorter.rank; i++) {
    const int32_t axis = longer.rank - i;
    const int64_t size = shape_at(longer, axis), other = shape_at(shorter, shorter.rank - i);
    if (size != other && size != 1 && other != 1) return false;
    if (size == 1) shape_set(shape, axis, other);
  }
  return true;
}

/* The index, in a tensor of shape `from`, of element `at` after broadcasting to `shape`. */
static int64_t broadcast_source(compute_shape shape, compute_shape from, int64_t at) {
  int64_t source = 0, stride = 1;
  for (int32_t i = 1; i <= shape.rank; i++) {
    const int64_t size = shape_at(shape, shape.rank - i),
                  own = i <= from.rank ? shape_at(from, from.rank - i) : 1;
    if (own > 1) source += at % size * stride;
    stride *= own;
    at /= size;
  }
  return source;
}

static compute_status check_shapes(host_call *call, const host_tensor *inputs,
                                   compute_shape *shape) {
  return broadcast_shape(inputs[0].shape, inputs[1].shape, shape)
             ? COMPUTE_OK
             : host_fail(call, COMPUTE_ERROR_SHAPE, "the shapes of its texts do not match");
}

static compute_status equal_host(host_call *call, const host_tensor *inputs, host_tensor *outputs) {
  compute_shape shape;
  compute_status status = check_shapes(call, inputs, &shape);
  if (!status) status = host_make(call, &outputs[0], COMPUTE_BOOL, shape);
  if (status) return status;
  uint8_t *same = outputs[0].data;
  const int64_t count = count_of(&outputs[0]);
  for (int64_t i = 0; i < count; i++)
    same[i] = strcmp(text_at(call, &inputs[0], broadcast_source(shape, inputs[0].shape, i)),
                     text_at(call, &inputs[1], broadcast_source(shape, inputs[1].shape, i))) == 0;
  return COMPUTE_OK;
}

compute_status text_equal(model_call *call) {
  compute_status status = check_text(call, 0);
  if (!status) status = check_text(call, 1);
  return status ? status : call_on_host(call, equal_host, rows_of(call, 0));
}

static compute_status concat_host(host_call *call, const host_tensor *inputs,
                                  host_tensor *outputs) {
  compute_shape shape;
  compute_status status = check_shapes(call, inputs, &shape);
  if (!status) status = host_make_texts(call, &outputs[0], shape);
  if (status) return status;
  int64_t *numbers = outputs[0].data;
  const int64_t count = count_of(&outputs[0]);
  text_buffer text = {0};
  for (int64_t i = 0; !status && i < count; i++) {
    text.length = 0;
    text_add(&text, "%s%s", text_at(call, &inputs[0], broadcast_source(shape, inputs[0].shape, i)),
             text_at(call, &inputs[1], broadcast_source(shape, inputs[1].shape, i)));
    status = text.failed ? host_fail(call, COMPUTE_ERROR_OUT_OF_MEMORY, "out of memory")
                         : host_add_text(call, text.data, text.length, &numbers[i]);
  }
  text_release(&text);
  return status;
}

static compute_status string_concat(model_call *call) {
  compute_status status = check_text(call, 0);
  if (!status) status = check_text(call, 1);
  return status ? status : call_text_on_host(call, concat_host, rows_of(call, 0));
}

/* ---- StringNormalizer -------------------------------------------------------------------------- */

typedef struct normalizer {
  bool changes, upper, sensitive;
  const text_entry *stopwords;
  size_t count;
} normalizer;

static void add_character(text_buffer *text, uint32_t c) {
  char bytes[5] = {0};
  if (c < 0x80) {
    bytes[0] = (char)c;
  } else if (c < 0x800) {
    bytes[0] = (char)(0xc0 | c >> 6), bytes[1] = (char)(0x80 | (c & 63));
  } else if (c < 0x10000) {
    bytes[0] = (char)(0xe0 | c >> 12), bytes[1] = (char)(0x80 | (c >> 6 & 63));
    bytes[2] = (char)(0x80 | (c & 63));
  } else {
    bytes[0] = (char)(0xf0 | c >> 18), bytes[1] = (char)(0x80 | (c >> 12 & 63));
    bytes[2] = (char)(0x80 | (c >> 6 & 63)), bytes[3] = (char)(0x80 | (c & 63));
  }
  text_add(text, "%s", bytes);
}

static void change_case(const char *from, bool upper, text_buffer *text) {
  text->length = 0;
  text_add(text, "%s", "");
  for (uint32_t c; (c = text_next(&from));) add_character(text, text_case(c, upper));
}

/* Adds the text to the output unless it is a stopword. */
static compute_status normalize(host_call *call, const normalizer *n, const char *text,
                                text_buffer *changed, int64_t *numbers, int64_t *kept) {
  bool stops;
  if (n->sensitive) {
    stops = text_place(n->stopwords, n->count, text) >= 0;
  } else {
    change_case(text, false, changed);
    stops = !changed->failed && text_place(n->stopwords, n->count, changed->data) >= 0;
  }
  if (stops) return COMPUTE_OK;
  if (n->changes) change_case(text, n->upper, changed);
  if (changed->failed) return host_fail(call, COMPUTE_ERROR_OUT_OF_MEMORY, "out of memory");
  const char *result = n->changes ? changed->data : text;
  return host_add_text(call, result, strlen(result), &numbers[(*kept)++]);
}

static compute_status normalizer_host(host_call *call, const host_tensor *inputs,
                                      host_tensor *outputs) {
  const normalizer *n = host_node(call)->state;
  const int64_t count = count_of(&inputs[0]);
  int64_t kept = 0;
  int64_t *numbers = base_allocate((uint64_t)count + 1, sizeof *numbers);
  if (!numbers) return host_fail(call, COMPUTE_ERROR_OUT_OF_MEMORY, "out of memory");
  compute_status status = COMPUTE_OK;
  text_buffer changed = {0};
  for (int64_t i = 0; !status && i < count; i++)
    status = normalize(call, n, text_at(call, &inputs[0], i), &changed, numbers, &kept);
  text_release(&changed);
  if (kept == 0) kept = 1; /* one empty text, as the specification asks */
  const compute_shape shape =
      inputs[0].shape.rank == 2 ? COMPUTE_SHAPE(1, kept) : COMPUTE_SHAPE(kept);
  if (!status) status = host_make_texts(call, &outputs[0], shape);
  if (!status) memcpy(outputs[0].data, numbers, (size_t)kept * sizeof *numbers);
  base_release(numbers);
  return status;
}

/* The stopwords of the node, in small letters unless case matters. */
static compute_status take_stopwords(model_call *call, normalizer *n) {
  const onnx_attribute *list = call_attribute(call, "stopwords");
  if (!list) return COMPUTE_OK;
  if (list->type != ONNX_ATTRIBUTE_STRINGS)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "attribute 'stopwords' is of the wrong type");
  const char **words = call_allocate(call, list->count, sizeof *words);
  if (!words) return call_out_of_memory(call);
  text_buffer small = {0};
  for (size_t i = 0; i < list->count; i++) {
    words[i] = list->texts[i];
    if (n->sensitive) continue;
    change_case(list->texts[i], false, &small);
    char *copy = small.failed ? NULL : call_allocate(call, small.length + 1, 1);
    if (copy) memcpy(copy, small.data, small.length);
    words[i] = copy;
    if (!copy) break;
  }
  text_release(&small);
  if (list->count && !words[list->count - 1]) return call_out_of_memory(call);
  n->stopwords = text_sort(call, words, list->count);
  n->count = list->count;
  return n->stopwords ? COMPUTE_OK : call_out_of_memory(call);
}

static compute_status string_normalizer(model_call *call) {
  const compute_shape shape = call_shape(call, 0);
  normalizer *n = call_allocate(call, 1, sizeof *n);
  compute_status status = n ? check_text(call, 0) : call_out_of_memory(call);
  if (status) return status;
  if (shape.rank != 1 && !(shape.rank == 2 && shape_at(shape, 0) == 1))
    return call_fail(call, COMPUTE_ERROR_SHAPE, "its input is not [C] or [1, C]");
  const char *action = call_attribute_s(call, "case_change_action", "NONE");
  n->upper = strcmp(action, "UPPER") == 0;
  n->changes = n->upper || strcmp(action, "LOWER") == 0;
  n->sensitive = call_attribute_i(call, "is_case_sensitive", 0) != 0;
  if (!n->changes && strcmp(action, "NONE") != 0)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "attribute 'case_change_action' is '%s'", action);
  status = take_stopwords(call, n);
  call->state = n;
  return status ? status : call_text_on_host(call, normalizer_host, rows_of(call, 0));
}

/* ---- StringSplit ------------------------------------------------------------------------------- */

static bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

typedef struct splitter {
  const char *delimiter; /* NULL: runs of white space */
  size_t length;
  int64_t most; /* splits of a text; −1: all */
} splitter;

/* Takes the next part of *rest, which becomes NULL after the last. Returns false if there is none. */
static bool next_part(const splitter *s, const char **rest, int64_t splits, const char **part,
                      size_t *length) {
  const char *at = *rest;
  if (!at) return false;
  if (!s->delimiter)
    while (is_space(*at)) at++;
  if (!s->delimiter && !*at) return false;
  const char *end = NULL;
  *part = at;
  if (s->most >= 0 && splits >= s->most) {
    *length = strlen(at);
    while (!s->delimiter && is_space(at[*length - 1])) --*length; /* `at` is not white space */
  } else if (s->delimiter) {
    end = strstr(at, s->delimiter);
    *length = end ? (size_t)(end - at) : strlen(at);
    if (end) end += s->length;
  } else {
    while (*at && !is_space(*at)) at++;
    *length = (size_t)(at - *part);
    end = *at ? at : NULL;
  }
  *rest = end;
  return true;
}

static int64_t count_parts(const splitter *s, const char *text) {
  const char *part;
  size_t length;
  int64_t count = 0;
  while (next_part(s, &text, count, &part, &length)) count++;
  return count;
}

static compute_status split_one(host_call *call, const splitter *s, const char *text,
                                int64_t *numbers) {
  const char *part;
  size_t length;
  compute_status status = COMPUTE_OK;
  for (int64_t k = 0; !status && next_part(s, &text, k, &part, &length); k++)
    status = host_add_text(call, part, length, &numbers[k]);
  return status;
}

static compute_status split_host(host_call *call, const host_tensor *inputs, host_tensor *outputs) {
  const splitter *s = host_node(call)->state;
  host_tensor counts = {0};
  compute_status status = host_make(call, &counts, COMPUTE_I64, inputs[0].shape);
  if (status) return status;
  int64_t *parts = counts.data, most = 0;
  const int64_t count = count_of(&inputs[0]);
  for (int64_t i = 0; i < count; i++) {
    parts[i] = count_parts(s, text_at(call, &inputs[0], i));
    if (parts[i] > most) most = parts[i];
  }
  compute_shape shape = inputs[0].shape;
  shape.rank++;
  shape_set(&shape, shape.rank - 1, most);
  if (host_node(call)->output_count > 0) status = host_make_texts(call, &outputs[0], shape);
  int64_t *numbers = outputs[0].data;
  if (!status && numbers) memset(numbers, 0, (size_t)count_of(&outputs[0]) * sizeof *numbers);
  for (int64_t i = 0; !status && numbers && i < count; i++)
    status = split_one(call, s, text_at(call, &inputs[0], i), numbers + i * most);
  if (!status && host_node(call)->output_count > 1)
    outputs[1] = counts;
  else
    host_release(&counts);
  return status;
}

static compute_status string_split(model_call *call) {
  splitter *s = call_allocate(call, 1, sizeof *s);
  compute_status status = s ? check_text(call, 0) : call_out_of_memory(call);
  if (status) return status;
  if (call_shape(call, 0).rank >= COMPUTE_MAX_RANK)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "its output has too many dimensions");
  const char *delimiter = call_attribute_s(call, "delimiter", "");
  if (delimiter[0]) *s = (splitter){.delimiter = delimiter, .length = strlen(delimiter)};
  s->most = call_attribute_i(call, "maxsplit", -1);
  call->state = s;
  return call_text_on_host(call, split_host, rows_of(call, 0));
}

/* ---- RegexFullMatch ---------------------------------------------------------------------------- */

static compute_status match_host(host_call *call, const host_tensor *inputs, host_tensor *outputs) {
  const text_pattern *pattern = host_node(call)->state;
  compute_status status = host_make(call, &outputs[0], COMPUTE_BOOL, inputs[0].shape);
  uint8_t *result = outputs[0].data;
  enum { MOST_UNASKED = 256 };
  const int64_t count = count_of(&inputs[0]);
  pattern_memory memory = {0};
  if (!status && !pattern_open(pattern, &memory))
    status = host_fail(call, COMPUTE_ERROR_OUT_OF_MEMORY, "out of memory");
  for (int64_t i = 0; !status && i < count; i++) {
    bool matches = false;
    status = pattern_match(call, pattern, &memory, text_at(call, &inputs[0], i), &matches);
    result[i] = matches;
    if (!status && i % MOST_UNASKED == MOST_UNASKED - 1) status = host_continue(call);
  }
  pattern_close(&memory);
  return status;
}

static compute_status regex_full_match(model_call *call) {
  compute_status status = check_text(call, 0);
  if (status) return status;
  const char *source = call_attribute_s(call, "pattern", NULL);
  if (!source) return call_fail(call, COMPUTE_ERROR_FORMAT, "attribute 'pattern' is missing");
  text_pattern *pattern = call_allocate(call, 1, sizeof *pattern);
  if (!pattern) return call_out_of_memory(call);
  status = pattern_compile(call, source, pattern);
  call->state = pattern;
  return status ? status : call_on_host(call, match_host, rows_of(call, 0));
}

/* ---- The table ----------------------------------------------------------------------------- */

static const operator_row rows[] = {
    {"", "RegexFullMatch", 20, regex_full_match},
    {"", "StringConcat", 20, string_concat},
    {"", "StringNormalizer", 10, string_normalizer},
    {"", "StringSplit", 20, string_split},
};

const operator_family operators_text = OPERATOR_FAMILY(rows);
