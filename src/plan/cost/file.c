/* SPDX-License-Identifier: MIT */
/* Reads and writes the file of costs. All numbers in a line are integers, so the locale does not
 * matter. */
#include "plan/cost/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "codegen/tune/tuning.h"
#include "core/base/alloc.h"
#include "core/base/real.h"

static const char magic[] = "costs 1 ";

enum { CHECKSUM_DIGITS = 8, MODEL_CHARACTERS = 48, KEY_DIGITS = 16 };

/* A larger number cannot be a measurement: 1000 seconds, or as many bytes. */
#define MOST_NUMBER UINT64_C(1000000000000000)

static const double PICOSECONDS = 1e12;

/* ---- The identity of the device -------------------------------------------------------------- */

/* FNV-1a: files store the hash, so it must be the same in every build. */
static uint64_t hash_text(uint64_t hash, const char *text) {
  do {
    hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
  } while (*text++);
  return hash;
}

static uint64_t key_of(const compute_device *device) {
  const compute_device_info *i = &device->info;
  char numbers[64];
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  const char *const part[] = {
      compute_version_text(), i->backend, i->vendor, i->model, i->driver, i->isa};
  for (size_t p = 0; p < sizeof part / sizeof *part; p++) hash = hash_text(hash, part[p]);
  snprintf(numbers, sizeof numbers, "%" PRIu32 " %" PRIu64, i->compute_units, i->memory_total);
  return hash_text(hash, numbers);
}

/* ---- Writing a line -------------------------------------------------------------------------- */

static uint32_t checksum(const char *text, size_t length) {
  return (uint32_t)crc32(crc32(0, NULL, 0), (const Bytef *)text, (uInt)length);
}

static uint64_t picoseconds(double seconds) {
  double value = seconds * PICOSECONDS;
  return value >= (double)MOST_NUMBER ? MOST_NUMBER : value < 1 ? 1 : (uint64_t)(value + 0.5);
}

static size_t print_curve(work_class class, const cost_curve *c, char *text, size_t room) {
  size_t used = (size_t)snprintf(text, room, " %s=", work_class_name(class));
  for (uint32_t i = 0; i < c->count && used < room; i++)
    used += (size_t)snprintf(text + used, room - used, "%s%" PRIu64 ":%" PRIu64, i ? "," : "",
                             (uint64_t)c->work[i], picoseconds(c->seconds[i]));
  return used;
}

/* The longest line fits: 16 classes of 6 points of two numbers with 16 digits. */
size_t costs_line_print(uint64_t key, const char *model, const device_costs *costs, char *line) {
  char words[MODEL_CHARACTERS + 1];
  size_t length = 0;
  for (; model[length] && length < MODEL_CHARACTERS; length++)
    words[length] = ascii_is_alphanumeric(model[length]) ? model[length] : '-';
  words[length] = '\0';
  size_t used = (size_t)snprintf(line, COSTS_LINE_BYTES, "%s%016" PRIx64 " %s %" PRIu64 " %" PRIu64,
                                 magic, key, length ? words : "-", picoseconds(costs->launch),
                                 picoseconds(costs->wait));
  for (uint32_t class = 0; class < WORK_CLASSES; class ++)
    if (costs->curve[class].count > 0)
      used += print_curve(class, &costs->curve[class], line + used, COSTS_LINE_BYTES - used);
  used += (size_t)snprintf(line + used, COSTS_LINE_BYTES - used, " %08" PRIx32 "\n",
                           checksum(line, used));
  return used;
}

/* ---- Reading a line -------------------------------------------------------------------------- */

typedef struct reader {
  const char *at, *end;
} reader;

static bool take(reader *r, char c) {
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

/* Reads a number in 1 … MOST_NUMBER. */
static bool number(reader *r, double *value) {
  uint64_t n = 0;
  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
    n = n * 10 + (uint64_t)(*r->at - '0');
    if (n > MOST_NUMBER) return false;
  }
  *value = (double)n;
  return n > 0;
}

static bool find_class(reader *r, work_class *class) {
  for (uint32_t i = 0; i < WORK_CLASSES; i++) {
    size_t length = strlen(work_class_name(i));
    if ((size_t)(r->end - r->at) <= length || memcmp(r->at, work_class_name(i), length) != 0 ||
        r->at[length] != '=')
      continue;
    r->at += length + 1;
    *class = i;
    return true;
  }
  return false;
}

static bool parse_curve(reader *r, device_costs *costs) {
  work_class class;
  if (!find_class(r, &class) || costs->curve[class].count > 0) return false;
  cost_curve *c = &costs->curve[class];
  do {
    uint32_t i = c->count;
    if (i == COSTS_POINTS || !number(r, &c->work[i]) || !take(r, ':') || !number(r, &c->seconds[i]))
      return false;
    c->seconds[i] /= PICOSECONDS;
    if (i > 0 && (c->work[i] <= c->work[i - 1] || c->seconds[i] < c->seconds[i - 1])) return false;
    c->count++;
  } while (take(r, ','));
  return true;
}

static bool checksum_holds(const char *line, size_t length) {
  char expected[CHECKSUM_DIGITS + 1];
  if (line[length - CHECKSUM_DIGITS - 1] != ' ') return false;
  snprintf(expected, sizeof expected, "%08" PRIx32, checksum(line, length - CHECKSUM_DIGITS - 1));
  return memcmp(line + length - CHECKSUM_DIGITS, expected, CHECKSUM_DIGITS) == 0;
}

bool costs_line_parse(const char *line, size_t length, uint64_t key, device_costs *costs) {
  char begin[sizeof magic + KEY_DIGITS];
  size_t head = (size_t)snprintf(begin, sizeof begin, "%s%016" PRIx64, magic, key);
  if (length <= head + CHECKSUM_DIGITS || length >= COSTS_LINE_BYTES ||
      memcmp(line, begin, head) != 0 || !checksum_holds(line, length))
    return false;
  *costs = (device_costs){.source = COMPUTE_COSTS_STORED};
  reader r = {line + head, line + length - CHECKSUM_DIGITS - 1};
  if (!take(&r, ' ')) return false;
  while (r.at < r.end && *r.at != ' ') r.at++; /* the model is informational */
  if (!take(&r, ' ') || !number(&r, &costs->launch) || !take(&r, ' ') || !number(&r, &costs->wait))
    return false;
  costs->launch /= PICOSECONDS;
  costs->wait /= PICOSECONDS;
  while (take(&r, ' '))
    if (!parse_curve(&r, costs)) return false;
  return r.at == r.end && costs->curve[WORK_STREAM].count > 0;
}

/* ---- The file -------------------------------------------------------------------------------- */

/* A killed writer may have left an unterminated line, so a line may begin inside another. */
static bool find_in_line(const char *line, const char *end, uint64_t key, device_costs *costs) {
  while (line && line < end) {
    if (costs_line_parse(line, (size_t)(end - line), key, costs)) return true;
    line = memmem(line + 1, (size_t)(end - line - 1), magic, sizeof magic - 1);
  }
  return false;
}

bool costs_text_find(const char *text, size_t bytes, uint64_t key, device_costs *costs) {
  bool found = false;
  for (const char *line = text, *end = text + bytes; line < end;) {
    const char *stop = memchr(line, '\n', (size_t)(end - line));
    if (!stop) stop = end;
    device_costs one;
    if (find_in_line(line, stop, key, &one)) {
      *costs = one;
      found = true;
    }
    line = stop + 1;
  }
  return found;
}

char *costs_file_path(const compute_context *context) {
  static const char suffix[] = ".costs";
  const char *tuning = tuning_store_path(tuning_of(context));
  if (!*tuning) return NULL;
  size_t length = strlen(tuning);
  char *path = base_allocate(length + sizeof suffix, 1);
  if (!path) return NULL;
  memcpy(path, tuning, length);
  memcpy(path + length, suffix, sizeof suffix);
  return path;
}

bool costs_file_find(const compute_device *device, device_costs *costs) {
  enum { MOST_BYTES = 1 << 20 }; /* only the file's end is read: it is append-only */
  char *path = costs_file_path(device->context), *text = NULL;
  FILE *file = path ? fopen(path, "rbe") : NULL;
  bool found = false;
  base_release(path);
  if (!file) return false;
  long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : 0;
  long start = size > MOST_BYTES ? size - MOST_BYTES : 0;
  if (size > 0 && fseek(file, start, SEEK_SET) == 0)
    text = base_allocate((uint64_t)(size - start), 1);
  if (text) {
    size_t got = fread(text, 1, (size_t)(size - start), file);
    found = costs_text_find(text, got, key_of(device), costs);
  }
  base_release(text);
  fclose(file);
  return found;
}

compute_status costs_file_add(const compute_device *device, const device_costs *costs,
                              char *reason) {
  char *path = costs_file_path(device->context);
  if (!path) return COMPUTE_OK; /* switched off */
  char *line = base_allocate(COSTS_LINE_BYTES, 1);
  compute_status status = COMPUTE_ERROR_OUT_OF_MEMORY;
  snprintf(reason, COSTS_REASON_BYTES, "not enough host memory for a line of costs");
  if (line) {
    size_t length = costs_line_print(key_of(device), device->info.model, costs, line);
    status = tuning_file_append(path, line, length, reason);
  }
  base_release(line);
  base_release(path);
  return status;
}
