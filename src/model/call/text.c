/* SPDX-License-Identifier: MIT */
/* Texts as numbers in lists: see text.h. */
#include "model/call/text.h"

#include <string.h>

#include "core/base/alloc.h"
#include "core/base/hash.h"
#include "model/model.h"

/* ---- Lists --------------------------------------------------------------------------------- */

void texts_release(text_list *run) {
  base_release(run->items);
  arena_release(&run->arena);
  *run = (text_list){0};
}

compute_status texts_add(text_list *run, const char *text, size_t length, int64_t *number) {
  *number = 0;
  if (length == 0) return COMPUTE_OK;
  if (length > TEXT_MOST_BYTES - run->bytes) return COMPUTE_ERROR_OUT_OF_MEMORY;
  char *copy = arena_text(&run->arena, text, length);
  if (!copy || base_grow((void **)&run->items, &run->capacity, run->count + 1, sizeof *run->items))
    return COMPUTE_ERROR_OUT_OF_MEMORY;
  *number = TEXT_FIRST_OF_RUN + (int64_t)run->count;
  run->items[run->count++] = copy;
  run->bytes += length;
  return COMPUTE_OK;
}

/* ---- Constants of the file ----------------------------------------------------------------- */

void texts_open(model_texts *texts) {
  pthread_mutex_init(&texts->lock, NULL);
}

void texts_close(model_texts *texts) {
  texts_release(&texts->list);
  base_release(texts->table);
  pthread_mutex_destroy(&texts->lock);
}

static text_constants *find_constants(const model_texts *texts, const char *const *key) {
  size_t at = hash_u64(HASH_SEED, (uint64_t)(uintptr_t)key) & (texts->capacity - 1);
  while (texts->table[at].texts && texts->table[at].texts != key)
    at = (at + 1) & (texts->capacity - 1);
  return &texts->table[at];
}

/* Keeps the table at most half full. Returns false if out of memory. */
static bool make_room(model_texts *texts) {
  enum { FEWEST = 16 };
  if (2 * texts->used + 2 <= texts->capacity) return true;
  model_texts larger = {.capacity = texts->capacity ? 2 * texts->capacity : FEWEST};
  larger.table = base_allocate(larger.capacity, sizeof *larger.table);
  if (!larger.table) return false;
  for (size_t i = 0; i < texts->capacity; i++)
    if (texts->table[i].texts) *find_constants(&larger, texts->table[i].texts) = texts->table[i];
  base_release(texts->table);
  texts->table = larger.table;
  texts->capacity = larger.capacity;
  return true;
}

static const int64_t *add_constants(model_texts *texts, const char *const *from, size_t count) {
  if (!make_room(texts)) return NULL;
  text_constants *entry = find_constants(texts, from);
  if (entry->texts) return entry->numbers;
  text_list *list = &texts->list;
  int64_t *numbers = arena_allocate(&list->arena, count, sizeof *numbers);
  if (!numbers || base_grow((void **)&list->items, &list->capacity, list->count + count + 1,
                            sizeof *list->items))
    return NULL;
  if (list->count == 0) list->items[list->count++] = "";
  for (size_t i = 0; i < count; i++) {
    numbers[i] = from[i][0] ? (int64_t)list->count : 0;
    if (from[i][0]) list->items[list->count++] = from[i];
  }
  *entry = (text_constants){from, numbers};
  texts->used++;
  return numbers;
}

const int64_t *texts_of_file(compute_model *model, const char *const *texts, size_t count) {
  static const int64_t none;
  if (count == 0) return &none;
  pthread_mutex_lock(&model->texts.lock);
  const int64_t *numbers = add_constants(&model->texts, texts, count);
  pthread_mutex_unlock(&model->texts.lock);
  return numbers;
}

const char *texts_find(compute_model *model, const text_list *run, int64_t number) {
  const char *text = "";
  if (number >= TEXT_FIRST_OF_RUN) {
    const uint64_t at = (uint64_t)(number - TEXT_FIRST_OF_RUN);
    return run && at < run->count ? run->items[at] : text;
  }
  pthread_mutex_lock(&model->texts.lock);
  if (number > 0 && (uint64_t)number < model->texts.list.count)
    text = model->texts.list.items[number];
  pthread_mutex_unlock(&model->texts.lock);
  return text;
}
