/* The memory plan: every temporary gets an offset in the arena of its device, such that two share
 * bytes only if they do not live at the same time.
 *
 * First, an output takes over the memory of an input that dies in the same step and lies the same
 * way. Then storages are placed from the largest to the smallest, each at the lowest offset that is
 * free during its lifetime. */
#include <stdlib.h>

#include "base/error.h"
#include "plan/lower.h"

#define ALIGNMENT 64

static uint32_t find_home(const lowering *l, uint32_t id) {
  while (l->storages[id].home != id) id = l->storages[id].home;
  return id;
}

static bool used_once(const build_step *s, uint32_t operand) {
  for (uint32_t i = 0; i < s->operand_count; i++)
    if (i != operand && s->operand[i].storage == s->operand[operand].storage) return false;
  return true;
}

/* Lets output `o` of step number `now` live where one of the step's dying inputs lives. */
static void take_over(lowering *l, const build_step *s, uint32_t now, uint32_t o) {
  storage *out = &l->storages[s->operand[o].storage];
  if (out->slot != IR_NONE || out->first != now) return;
  for (uint32_t i = s->first_in_place; i < s->input_count; i++) {
    uint32_t id = find_home(l, s->operand[i].storage);
    storage *in = &l->storages[id];
    if (!s->in_place[i] || in->slot != IR_NONE || in->last != now || in->bytes != out->bytes ||
        in->device != out->device || s->operand[i].offset != 0 || !used_once(s, i) ||
        in->first == now)
      continue;
    out->home = id;
    in->last = out->last > now ? out->last : now + 1; /* taken, also for another output */
    return;
  }
}

static void reuse_in_place(lowering *l) {
  for (uint32_t now = 0; now < l->step_count; now++) {
    const build_step *s = &l->steps[now];
    for (uint32_t o = s->input_count; s->kernel != NULL && o < s->operand_count; o++)
      if (s->operand[o].offset == 0) take_over(l, s, now, o);
  }
}

typedef struct placing {
  uint64_t bytes;
  uint32_t id;
} placing;

static int larger_first(const void *a, const void *b) {
  const placing *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

static bool alive_together(const storage *a, const storage *b) {
  return a->device == b->device && a->first <= b->last && b->first <= a->last;
}

/* The lowest offset at which `s` collides with none of those placed, which are kept ascending by
 * offset in `order`. Inserts it there. */
static void place_one(lowering *l, uint32_t id, uint32_t *order, uint32_t *placed) {
  storage *s = &l->storages[id];
  uint64_t offset = 0;
  for (uint32_t i = 0; i < *placed; i++) {
    const storage *other = &l->storages[order[i]];
    if (!alive_together(s, other)) continue;
    if (other->offset >= offset + s->bytes) break;
    uint64_t end = other->offset + other->bytes;
    if (end > offset) offset = (end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
  s->offset = offset;
  uint32_t at = (*placed)++;
  while (at > 0 && l->storages[order[at - 1]].offset > offset) {
    order[at] = order[at - 1];
    at--;
  }
  order[at] = id;
  if (offset + s->bytes > l->plan->arena_bytes[s->device])
    l->plan->arena_bytes[s->device] = offset + s->bytes;
}

compute_status arena_place(lowering *l) {
  placing *waiting = scratch_take(l->memory, l->storage_count, sizeof *waiting);
  uint32_t *order = scratch_take(l->memory, l->storage_count, sizeof *order);
  if (waiting == NULL || order == NULL)
    return error_set(l->plan->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                     "no memory for the memory plan");
  reuse_in_place(l);
  uint32_t count = 0, placed = 0;
  for (uint32_t i = 0; i < l->storage_count; i++) {
    const storage *s = &l->storages[i];
    if (s->slot == IR_NONE && s->home == i && s->first != IR_NONE && s->bytes > 0)
      waiting[count++] = (placing){.bytes = s->bytes, .id = i};
  }
  qsort(waiting, count, sizeof *waiting, larger_first);
  for (uint32_t i = 0; i < count; i++) place_one(l, waiting[i].id, order, &placed);
  for (uint32_t i = 0; i < l->storage_count; i++) {
    storage *s = &l->storages[i];
    if (s->slot != IR_NONE) continue;
    uint32_t home = find_home(l, i);
    s->offset = l->storages[home].offset;
    s->device = l->storages[home].device;
    /* An operand without elements, too, is an address: an arena of nothing would leave it none. */
    uint64_t *arena = &l->plan->arena_bytes[s->device];
    if (s->first != IR_NONE && *arena == 0) *arena = 1;
  }
  for (uint32_t i = 0; i < l->storage_count; i++)
    if (l->storages[i].slot == IR_NONE)
      l->storages[i].slot = l->plan->arena_slot[l->storages[i].device];
  return COMPUTE_OK;
}
