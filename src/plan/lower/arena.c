/* The memory plan: every temporary gets an offset in the arena of its device, such that two share
 * bytes only if they do not live at the same time.
 *
 * First, an output takes over the memory of an input that dies in the same step and lies the same
 * way. Then storages are placed from the largest to the smallest, each at the lowest offset that is
 * free during its lifetime. */
#include <stdlib.h>

#include "base/error.h"
#include "plan/lower/lower.h"
#include "plan/lower/occupancy.h"

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

/* Places storages of one device in the order of the list. */
static bool place_all(lowering *l, const placing *waiting, uint32_t count, uint32_t device) {
  occupancy taken;
  /* Memory that was taken over may be noted as used one step after the last. */
  occupancy_begin(&taken, l->step_count + 1, l->memory);
  for (uint32_t i = 0; i < count; i++) {
    storage *s = &l->storages[waiting[i].id];
    if (s->device != device) continue;
    if (!occupancy_place(&taken, s->first, s->last, s->bytes, &s->offset)) return false;
    if (s->offset + s->bytes > l->plan->arena_bytes[device])
      l->plan->arena_bytes[device] = s->offset + s->bytes;
  }
  return true;
}

static compute_status short_of_memory(const lowering *l) {
  return error_set(l->plan->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                   "no memory for the memory plan");
}

compute_status arena_place(lowering *l) {
  placing *waiting = scratch_take(l->memory, l->storage_count, sizeof *waiting);
  if (waiting == NULL) return short_of_memory(l);
  reuse_in_place(l);
  uint32_t count = 0;
  for (uint32_t i = 0; i < l->storage_count; i++) {
    const storage *s = &l->storages[i];
    if (s->slot == IR_NONE && s->home == i && s->first != IR_NONE && s->bytes > 0)
      waiting[count++] = (placing){.bytes = s->bytes, .id = i};
  }
  qsort(waiting, count, sizeof *waiting, larger_first);
  for (uint32_t d = 0; d < PLAN_DEVICES; d++)
    if (!place_all(l, waiting, count, d)) return short_of_memory(l);
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
