/* SPDX-License-Identifier: MIT */
/* Finds the groups frame by frame. A hash of square cells contains the groups that may still grow.
 * The cells are as wide as the distance, so that a localisation has few candidates. */
#include "programs/fit/link.h"

#include <math.h>
#include <stdlib.h>

typedef struct track {
  int64_t group, last; /* its last frame */
  double x, y, weight; /* mean position */
  int64_t next;        /* index of the next one in the same cell; −1: none */
} track;

typedef struct candidate {
  double distance;
  int64_t track, spot;
} candidate;

typedef struct linker {
  const spots *s;
  double reach;
  int64_t *group, groups;
  int64_t *order; /* spots sorted by frame */
  track *tracks;  /* groups that may still grow */
  int64_t track_count;
  int64_t *heads;    /* first elements of the cells' lists */
  int64_t head_mask; /* number of cells − 1 */
  candidate *candidates;
  int64_t candidate_count, candidate_room;
} linker;

/* ---- Order --------------------------------------------------------------------------------- */

typedef struct key {
  int64_t frame, index;
} key;

static int compare_keys(const void *a, const void *b) {
  const key *x = a, *y = b;
  if (x->frame != y->frame) return x->frame < y->frame ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

static bool sort_spots(linker *l) {
  const int64_t count = l->s->count;
  key *keys = malloc((size_t)(count + 1) * sizeof *keys);
  if (!keys) return false;
  for (int64_t i = 0; i < count; i++) keys[i] = (key){l->s->frame[i], i};
  qsort(keys, (size_t)count, sizeof *keys, compare_keys);
  for (int64_t i = 0; i < count; i++) l->order[i] = keys[i].index;
  free(keys);
  return true;
}

/* ---- Cells --------------------------------------------------------------------------------- */

static int64_t cell_of(const linker *l, double x, double y, int down, int across) {
  const uint64_t left = (uint64_t)((int64_t)floor(x / l->reach) + across),
                 top = (uint64_t)((int64_t)floor(y / l->reach) + down);
  const uint64_t hash = left * 0x9e3779b97f4a7c15u ^ top * 0xc2b2ae3d27d4eb4fu;
  return (int64_t)(hash ^ hash >> 29) & l->head_mask;
}

/* Drops the groups that can no longer grow, and sorts the others into cells. */
static void place_tracks(linker *l, int64_t frame, int64_t dark) {
  int64_t kept = 0;
  for (int64_t i = 0; i < l->track_count; i++)
    if (frame - l->tracks[i].last <= dark + 1) l->tracks[kept++] = l->tracks[i];
  l->track_count = kept;
  l->head_mask = 63;
  while (l->head_mask < 2 * kept) l->head_mask = 2 * l->head_mask + 1;
  for (int64_t i = 0; i <= l->head_mask; i++) l->heads[i] = -1;
  for (int64_t i = 0; i < kept; i++) {
    int64_t *head = &l->heads[cell_of(l, l->tracks[i].x, l->tracks[i].y, 0, 0)];
    l->tracks[i].next = *head;
    *head = i;
  }
}

static bool note_candidate(linker *l, candidate found) {
  if (l->candidate_count == l->candidate_room) {
    const int64_t room = l->candidate_room ? 2 * l->candidate_room : 1024;
    candidate *all = realloc(l->candidates, (size_t)room * sizeof *all);
    if (!all) return false;
    l->candidates = all;
    l->candidate_room = room;
  }
  l->candidates[l->candidate_count++] = found;
  return true;
}

static bool find_candidates(linker *l, int64_t spot) {
  const double x = l->s->x[spot], y = l->s->y[spot];
  for (int cell = 0; cell < 9; cell++) {
    int64_t i = l->heads[cell_of(l, x, y, cell / 3 - 1, cell % 3 - 1)];
    for (; i >= 0; i = l->tracks[i].next) {
      const double distance = hypot(l->tracks[i].x - x, l->tracks[i].y - y);
      if (distance <= l->reach && !note_candidate(l, (candidate){distance, i, spot})) return false;
    }
  }
  return true;
}

/* ---- Groups -------------------------------------------------------------------------------- */

static int compare_candidates(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  if (x->distance != y->distance) return x->distance < y->distance ? -1 : 1;
  if (x->spot != y->spot) return x->spot < y->spot ? -1 : 1;
  return (x->track > y->track) - (x->track < y->track);
}

static double weight_of(const spots *s, int64_t i) {
  const double variance = s->std_x ? s->std_x[i] * s->std_x[i] + s->std_y[i] * s->std_y[i] : 1;
  return variance > 0 && isfinite(variance) ? 1 / variance : 1;
}

static void join(linker *l, track *t, int64_t spot) {
  const double weight = weight_of(l->s, spot), all = t->weight + weight;
  t->x += (l->s->x[spot] - t->x) * weight / all;
  t->y += (l->s->y[spot] - t->y) * weight / all;
  t->weight = all;
  t->last = l->s->frame[spot];
  l->group[spot] = t->group;
}

/* Links the spots order[first … end − 1] of one frame. */
static bool link_frame(linker *l, int64_t first, int64_t end, int64_t dark) {
  const int64_t frame = l->s->frame[l->order[first]];
  place_tracks(l, frame, dark);
  l->candidate_count = 0;
  for (int64_t i = first; i < end; i++)
    if (!find_candidates(l, l->order[i])) return false;
  if (l->candidate_count > 1)
    qsort(l->candidates, (size_t)l->candidate_count, sizeof *l->candidates, compare_candidates);
  for (int64_t i = 0; i < l->candidate_count; i++) {
    const candidate *c = &l->candidates[i];
    if (l->group[c->spot] < 0 && l->tracks[c->track].last < frame)
      join(l, &l->tracks[c->track], c->spot);
  }
  for (int64_t i = first; i < end; i++) {
    const int64_t spot = l->order[i];
    if (l->group[spot] >= 0) continue;
    track *t = &l->tracks[l->track_count++];
    *t = (track){.group = l->groups++};
    join(l, t, spot);
  }
  return true;
}

int64_t link_groups(const spots *s, double distance, int64_t dark, int64_t *group) {
  linker l = {.s = s, .reach = distance, .group = group};
  const size_t count = (size_t)s->count + 1;
  l.order = malloc(count * sizeof *l.order);
  l.tracks = malloc(count * sizeof *l.tracks);
  l.heads = malloc((4 * count + 64) * sizeof *l.heads);
  bool good = l.order && l.tracks && l.heads && sort_spots(&l);
  for (int64_t i = 0; i < s->count; i++) group[i] = -1;
  for (int64_t first = 0, end = 0; good && first < s->count; first = end) {
    while (end < s->count && s->frame[l.order[end]] == s->frame[l.order[first]]) end++;
    good = link_frame(&l, first, end, dark);
  }
  free(l.order);
  free(l.tracks);
  free(l.heads);
  free(l.candidates);
  return good ? l.groups : -1;
}
