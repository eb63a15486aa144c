/* SPDX-License-Identifier: MIT */
/* The memory plan: every temporary gets an offset in the arena of its device. Two temporaries share
 * bytes only if their lifetimes do not overlap.
 *
 * First, an output takes over the memory of an input with the same layout that dies in the same
 * step. Then storages are placed from the largest to the smallest. Each goes to the lowest offset
 * that is free during its lifetime. */
#include <stdlib.h>
#include <string.h>

#include "core/base/error.h"
#include "plan/compile/lower/lower.h"
#include "plan/compile/lower/arena.h"

/* ---- Occupancy ------------------------------------------------------------------------------- */

/* Most blocks are added in the order of their first steps. Such a block overlaps only earlier
 * blocks that have not ended, so one set of ranges is enough. It changes with the block that begins
 * and the blocks that end.
 *
 * Once a block begins earlier than its predecessor, all earlier blocks go into a segment tree over
 * the steps. The tree records a block in the few nodes that cover its steps and in all ancestors of
 * these nodes. Each node keeps the bytes in use as disjoint ranges. Blocks are packed from the
 * bottom, so even a node with thousands of blocks has only a few ranges. */

typedef struct occupancy_range {
  uint64_t begin, end;
} range;

typedef occupancy_ranges range_set;

/* Node 1 is the root, nodes 2 i and 2 i + 1 are the halves of node i, and the leaves come last. */
typedef struct occupancy_node {
  range_set always; /* of blocks that cover the node's steps, but not its parent's */
  range_set ever; /* in use at any of the node's steps, except by blocks that cover its parent's */
} occupancy_node;

/* The nodes that a range of steps intersects: at most two of either kind per level. */
enum { MOST_NODES = 64 };

typedef struct meeting {
  uint32_t within[MOST_NODES], within_count; /* the nodes that the range consists of */
  uint32_t above[MOST_NODES], above_count;   /* the nodes that the range covers in part */
} meeting;

void occupancy_begin(occupancy *o, uint32_t steps, scratch *memory) {
  *o = (occupancy){.memory = memory, .steps = steps};
}

static void meet(const occupancy *o, uint32_t first, uint32_t last, meeting *m) {
  m->within_count = m->above_count = 0;
  for (uint32_t a = first + o->leaves, b = last + o->leaves + 1; a < b; a /= 2, b /= 2) {
    if (a % 2 != 0) m->within[m->within_count++] = a++;
    if (b % 2 != 0) m->within[m->within_count++] = --b;
  }
  uint32_t a = first + o->leaves, b = last + o->leaves;
  for (uint64_t width = 2; width <= o->leaves; width *= 2) {
    a /= 2, b /= 2;
    const uint64_t begin = a * width - o->leaves, end = (b + UINT64_C(1)) * width - o->leaves;
    const bool cut = begin < first || (a == b && end - 1 > last);
    if (cut) m->above[m->above_count++] = a;
    if (a != b && end - 1 > last) m->above[m->above_count++] = b;
  }
}

/* Returns the first range of the set that ends after `offset`; the search starts at index
 * `from`. */
static uint32_t find_range(const range_set *set, uint32_t from, uint64_t offset) {
  uint32_t count = set->count - from;
  while (count > 0) {
    const uint32_t half = count / 2;
    if (set->at[from + half].end <= offset) {
      from += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return from;
}

/* Replaces the ranges with indices `from` … `to` − 1. */
static bool replace_ranges(scratch *memory, range_set *set, uint32_t from, uint32_t to,
                           const range *with, uint32_t with_count) {
  const uint32_t count = set->count - (to - from) + with_count;
  if (count > set->capacity) {
    const uint32_t capacity = 2 * set->capacity > count ? 2 * set->capacity : count;
    range *grown = scratch_take(memory, capacity, sizeof *grown);
    if (!grown) return false;
    if (set->count > 0) memcpy(grown, set->at, sizeof *grown * set->count);
    set->at = grown;
    set->capacity = capacity;
  }
  if (with_count != to - from)
    memmove(set->at + from + with_count, set->at + to, sizeof *set->at * (set->count - to));
  if (with_count > 0) memcpy(set->at + from, with, sizeof *with * with_count);
  set->count = count;
  return true;
}

static bool add_range(scratch *memory, range_set *set, range r) {
  uint32_t from = r.begin > 0 ? find_range(set, 0, r.begin - 1) : 0, to = from;
  for (; to < set->count && set->at[to].begin <= r.end; to++) {
    if (set->at[to].begin < r.begin) r.begin = set->at[to].begin;
    if (set->at[to].end > r.end) r.end = set->at[to].end;
  }
  return replace_ranges(memory, set, from, to, &r, 1);
}

/* Removes bytes that belong to one range of the set. */
static bool cut_range(scratch *memory, range_set *set, uint64_t begin, uint64_t end) {
  const uint32_t at = find_range(set, 0, begin);
  const range before = {set->at[at].begin, begin}, after = {end, set->at[at].end};
  range left[2];
  uint32_t count = 0;
  if (before.begin < before.end) left[count++] = before;
  if (after.begin < after.end) left[count++] = after;
  return replace_ranges(memory, set, at, at + 1, left, count);
}

/* ---- The tree -------------------------------------------------------------------------------- */

static bool note_in_tree(occupancy *o, const occupancy_block *block) {
  const range taken = {block->begin, block->end};
  meeting m;
  meet(o, block->first, block->last, &m);
  bool room = true;
  for (uint32_t i = 0; room && i < m.within_count; i++) {
    occupancy_node *n = &o->nodes[m.within[i]];
    room = add_range(o->memory, &n->ever, taken);
    if (room && m.within[i] < o->leaves) room = add_range(o->memory, &n->always, taken);
  }
  for (uint32_t i = 0; room && i < m.above_count; i++)
    room = add_range(o->memory, &o->nodes[m.above[i]].ever, taken);
  return room;
}

static bool note_recent(occupancy *o) {
  if (!o->nodes) {
    for (o->leaves = 1; o->leaves < o->steps;) o->leaves *= 2;
    o->nodes = scratch_take(o->memory, (size_t)o->leaves * 2, sizeof *o->nodes);
    if (!o->nodes) return false;
  }
  for (uint32_t i = 0; i < o->recent_count; i++)
    if (!note_in_tree(o, &o->recent[i])) return false;
  o->recent_count = o->ending_count = o->in_use.count = 0;
  return true;
}

/* ---- Blocks in order ------------------------------------------------------------------------- */

static bool grow(scratch *memory, occupancy_block **blocks, uint32_t count, uint32_t *capacity) {
  if (count < *capacity) return true;
  const uint32_t wanted = *capacity > 0 ? 2 * *capacity : 16;
  occupancy_block *grown = scratch_take(memory, wanted, sizeof *grown);
  if (!grown) return false;
  if (count > 0) memcpy(grown, *blocks, sizeof *grown * count);
  *blocks = grown;
  *capacity = wanted;
  return true;
}

static void push_ending(occupancy *o, const occupancy_block *block) {
  uint32_t at = o->ending_count++;
  for (; at > 0 && o->ending[(at - 1) / 2].last > block->last; at = (at - 1) / 2)
    o->ending[at] = o->ending[(at - 1) / 2];
  o->ending[at] = *block;
}

static void pop_ending(occupancy *o) {
  const occupancy_block moved = o->ending[--o->ending_count];
  uint32_t at = 0;
  for (uint32_t child = 1; child < o->ending_count; child = 2 * at + 1) {
    if (child + 1 < o->ending_count && o->ending[child + 1].last < o->ending[child].last) child++;
    if (o->ending[child].last >= moved.last) break;
    o->ending[at] = o->ending[child];
    at = child;
  }
  o->ending[at] = moved;
}

/* Advances to the step at which a block begins and frees the blocks that ended before it. */
static bool advance(occupancy *o, uint32_t step) {
  if (step < o->now && !note_recent(o)) return false;
  o->now = step;
  while (o->ending_count > 0 && o->ending[0].last < step) {
    if (!cut_range(o->memory, &o->in_use, o->ending[0].begin, o->ending[0].end)) return false;
    pop_ending(o);
  }
  return true;
}

static bool note_block(occupancy *o, const occupancy_block *block) {
  if (!grow(o->memory, &o->recent, o->recent_count, &o->recent_capacity) ||
      !grow(o->memory, &o->ending, o->ending_count, &o->ending_capacity) ||
      !add_range(o->memory, &o->in_use, (range){block->begin, block->end}))
    return false;
  o->recent[o->recent_count++] = *block;
  push_ending(o, block);
  return true;
}

/* ---- The lowest offset ----------------------------------------------------------------------- */

/* Raises the offset until `bytes` are free in all sets. */
static uint64_t find_gap(const range_set *const *sets, uint32_t count, uint64_t bytes) {
  uint32_t next[2 * MOST_NODES + 1] = {0};
  uint64_t offset = 0;
  for (uint32_t agreed = 0, k = 0; agreed < count; k = k + 1 < count ? k + 1 : 0) {
    const range_set *set = sets[k];
    agreed++;
    next[k] = find_range(set, next[k], offset);
    for (; next[k] < set->count && set->at[next[k]].begin < offset + bytes; next[k]++) {
      offset = set->at[next[k]].end;
      agreed = 1; /* search the other sets again */
    }
  }
  return offset;
}

bool occupancy_place(occupancy *o, uint32_t first, uint32_t last, uint64_t bytes,
                     uint64_t *offset) {
  const range_set *sets[2 * MOST_NODES + 1];
  uint32_t count = 0;
  meeting m = {.within_count = 0};
  if (!advance(o, first)) return false;
  if (o->nodes) meet(o, first, last, &m);
  for (uint32_t i = 0; i < m.within_count; i++) sets[count++] = &o->nodes[m.within[i]].ever;
  for (uint32_t i = 0; i < m.above_count; i++) sets[count++] = &o->nodes[m.above[i]].always;
  sets[count++] = &o->in_use;
  uint32_t used = 0;
  for (uint32_t i = 0; i < count; i++)
    if (sets[i]->count > 0) sets[used++] = sets[i];
  bytes = (bytes + OCCUPANCY_UNIT - 1) / OCCUPANCY_UNIT * OCCUPANCY_UNIT;
  *offset = find_gap(sets, used, bytes);
  return note_block(o, &(occupancy_block){first, last, *offset, *offset + bytes});
}

/* ---- Storages -------------------------------------------------------------------------------- */

static uint32_t find_home(const lowering *l, uint32_t id) {
  while (l->storages[id].home != id) id = l->storages[id].home;
  return id;
}

static bool used_once(const build_step *s, uint32_t operand) {
  for (uint32_t i = 0; i < s->operand_count; i++)
    if (i != operand && s->operand[i].storage == s->operand[operand].storage) return false;
  return true;
}

/* Lets output `o` of step number `now` take over the memory of one of the step's dying inputs. */
static void take_over(lowering *l, const build_step *s, uint32_t now, uint32_t o) {
  storage *out = &l->storages[s->operand[o].storage];
  if (out->slot != IR_NONE || out->first != now) return;
  for (uint32_t i = s->first_in_place; i < s->input_count; i++) {
    uint32_t id = find_home(l, s->operand[i].storage);
    storage *in = &l->storages[id];
    if (!s->in_place[i] || in->slot != IR_NONE || in->last != now || in->bytes != out->bytes ||
        in->device != out->device || in->region != out->region || s->operand[i].offset != 0 ||
        !used_once(s, i) || in->first == now)
      continue;
    out->home = id;
    in->last = out->last > now ? out->last : now + 1; /* taken, possibly for another output */
    return;
  }
}

static void reuse_in_place(lowering *l) {
  for (uint32_t now = 0; now < l->step_count; now++) {
    const build_step *s = &l->steps[now];
    for (uint32_t o = s->input_count; s->kernel && o < s->operand_count; o++)
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

static void raise_to(uint64_t *bytes, uint64_t least) {
  if (*bytes < least) *bytes = least;
}

/* Places the storages of one device in the order of the list, all of them in the arena or all in
 * per-thread arenas. */
static bool place_all(lowering *l, const placing *waiting, uint32_t count, uint32_t device,
                      bool per_thread) {
  occupancy taken;
  /* The lifetime of memory that was taken over may extend one step beyond the last. */
  occupancy_begin(&taken, l->step_count + 1, l->memory);
  for (uint32_t i = 0; i < count; i++) {
    storage *s = &l->storages[waiting[i].id];
    if (s->device != device) continue;
    if (!occupancy_place(&taken, s->first, s->last, s->bytes, &s->offset)) return false;
    raise_to(per_thread ? &l->storages[s->region].bytes : &l->plan->arena_bytes[device],
             s->offset + s->bytes);
  }
  return true;
}

/* Storages of per-thread arenas have the size of one arena so far; gives them the size of all. */
static void size_regions(lowering *l) {
  compute_plan *plan = l->plan;
  for (uint32_t i = 0; i < l->storage_count; i++)
    if (l->storages[i].thread_arenas > 0) raise_to(&plan->thread_arena_bytes, l->storages[i].bytes);
  plan->thread_arena_bytes =
      (plan->thread_arena_bytes + OCCUPANCY_UNIT - 1) / OCCUPANCY_UNIT * OCCUPANCY_UNIT;
  for (uint32_t i = 0; i < l->storage_count; i++)
    if (l->storages[i].bytes > 0 && l->storages[i].thread_arenas > 0)
      l->storages[i].bytes += (l->storages[i].thread_arenas - 1) * plan->thread_arena_bytes;
}

static compute_status short_of_memory(const lowering *l) {
  return error_set(l->plan->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                   "not enough memory for the memory plan");
}

static bool waits(const lowering *l, uint32_t id) {
  const storage *s = &l->storages[id];
  return s->slot == IR_NONE && s->home == id && s->first != IR_NONE && s->bytes > 0;
}

/* Lists the storages for the per-thread arenas, or the others, the largest first. */
static uint32_t list_waiting(const lowering *l, placing *waiting, bool per_thread) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < l->storage_count; i++)
    if (waits(l, i) && (l->storages[i].region != IR_NONE) == per_thread)
      waiting[count++] = (placing){.bytes = l->storages[i].bytes, .id = i};
  qsort(waiting, count, sizeof *waiting, larger_first);
  return count;
}

/* Removes copies of values that are already in the right place. */
static void drop_copies(lowering *l) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < l->step_count; i++) {
    const build_step *s = &l->steps[i];
    const bool idle = s->plain_copy && s->operand[0].offset == s->operand[1].offset &&
                      find_home(l, s->operand[0].storage) == find_home(l, s->operand[1].storage);
    if (idle)
      kernel_cache_return(l->plan->device[s->device]->kernels, s->kernel);
    else
      l->steps[kept++] = *s;
  }
  l->step_count = kept;
}

compute_status arena_place(lowering *l) {
  placing *waiting = scratch_take(l->memory, l->storage_count, sizeof *waiting);
  if (!waiting) return short_of_memory(l);
  reuse_in_place(l);
  for (int per_thread = 1; per_thread >= 0; per_thread--) {
    const uint32_t count = list_waiting(l, waiting, per_thread);
    for (uint32_t d = 0; d < PLAN_DEVICES; d++)
      if (!place_all(l, waiting, count, d, per_thread)) return short_of_memory(l);
    if (per_thread) size_regions(l);
  }
  for (uint32_t i = 0; i < l->storage_count; i++) {
    storage *s = &l->storages[i];
    if (s->slot != IR_NONE) continue;
    uint32_t home = find_home(l, i);
    s->offset = l->storages[home].offset;
    s->device = l->storages[home].device;
    /* An operand without elements also needs an address, which an empty arena would not have. */
    uint64_t *arena = &l->plan->arena_bytes[s->device];
    if (s->first != IR_NONE && *arena == 0) *arena = 1;
  }
  for (uint32_t i = 0; i < l->storage_count; i++) {
    storage *s = &l->storages[i];
    if (s->slot != IR_NONE) continue;
    const bool per_thread = s->region != IR_NONE;
    s->slot = per_thread ? l->plan->thread_arena_slot[s->device] : l->plan->arena_slot[s->device];
    if (per_thread) s->offset += l->storages[s->region].offset;
  }
  drop_copies(l);
  return COMPUTE_OK;
}
