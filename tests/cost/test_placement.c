/* SPDX-License-Identifier: MIT */
/* The cheapest placement of units on two devices, compared with all possible placements. */
#include <stdlib.h>
#include <string.h>

#include "plan/cost/placement.h"
#include "support/harness/test.h"

enum { MOST_UNITS = 12, MOST_VALUES = 24, MOST_READERS = 128 };

typedef struct sample {
  placement_unit unit[MOST_UNITS];
  placement_value value[MOST_VALUES];
  uint32_t reader[MOST_READERS];
  placement_problem problem;
} sample;

static uint64_t state = 88172645463325252u;

static uint32_t draw(uint32_t below) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)(state >> 33) % below;
}

static uint32_t draw_place(void) {
  return draw(4) == 0 ? PLACEMENT_ON_ACCELERATOR : PLACEMENT_ON_CPU;
}

/* Values that units make or receive from outside; later units or the outside read them. */
static void make(sample *s, uint32_t units) {
  uint32_t readers = 0, values = 1 + draw(2 * units);
  for (uint32_t i = 0; i < units; i++) {
    s->unit[i] = (placement_unit){draw(50), draw(50)};
    if (draw(10) == 0) s->unit[i].accelerator = PLACEMENT_IMPOSSIBLE;
  }
  for (uint32_t v = 0; v < values; v++) {
    uint32_t maker = draw(units + 2);
    bool outside = maker >= units;
    uint32_t from = outside ? 0 : maker + 1;
    s->value[v] = (placement_value){.maker = outside ? draw_place() : maker,
                                    .to = draw(30),
                                    .from = draw(30),
                                    .first = readers};
    for (uint32_t r = draw(4); r > 0 && from < units; r--)
      s->reader[readers++] = from + draw(units - from);
    if (draw(4) == 0) s->reader[readers++] = draw_place();
    s->value[v].count = readers - s->value[v].first;
  }
  s->problem = (placement_problem){s->unit, units, s->value, values, s->reader};
}

static int64_t least_by_trying_all(const placement_problem *p) {
  unsigned char on[MOST_UNITS];
  int64_t least = INT64_MAX;
  for (uint32_t bits = 0; bits < 1u << p->unit_count; bits++) {
    for (uint32_t i = 0; i < p->unit_count; i++) on[i] = bits >> i & 1;
    int64_t cost = placement_cost(p, on);
    if (cost < least) least = cost;
  }
  return least;
}

static void the_cut_costs_as_little_as_the_best_of_all_placements(void **unused) {
  (void)unused;
  static sample s;
  for (int round = 0; round < 2000; round++) {
    unsigned char on[MOST_UNITS];
    int64_t total = -1;
    make(&s, 1 + draw(round % 20 == 0 ? MOST_UNITS : 8));
    assert_true(placement_solve(&s.problem, on, &total));
    assert_int_equal(total, placement_cost(&s.problem, on));
    assert_int_equal(total, least_by_trying_all(&s.problem));
  }
}

static int64_t solve(const placement_unit *unit, uint32_t units, const placement_value *value,
                     uint32_t values, const uint32_t *reader, unsigned char *on) {
  int64_t total = -1;
  const placement_problem p = {unit, units, value, values, reader};
  assert_true(placement_solve(&p, on, &total));
  return total;
}

static void what_costs_the_same_stays_on_the_cpu(void **unused) {
  (void)unused;
  unsigned char on[2];
  const placement_unit unit[2] = {{7, 7}, {3, 3}};
  const placement_value value[1] = {{.maker = 0, .to = 5, .from = 5, .first = 0, .count = 1}};
  const uint32_t reader[1] = {1};
  assert_int_equal(solve(unit, 2, value, 1, reader, on), 10);
  assert_int_equal(on[0] + on[1], 0);
}

/* Neither unit alone is worth the copies; both together are. */
static void a_chain_is_moved_as_a_whole(void **unused) {
  (void)unused;
  unsigned char on[2];
  const placement_unit unit[2] = {{10, 2}, {10, 2}};
  const placement_value value[3] = {
      {.maker = PLACEMENT_ON_CPU, .to = 5, .from = 5, .first = 0, .count = 1},
      {.maker = 0, .to = 5, .from = 5, .first = 1, .count = 1},
      {.maker = 1, .to = 5, .from = 5, .first = 2, .count = 1}};
  const uint32_t reader[3] = {0, 1, PLACEMENT_ON_CPU};
  assert_int_equal(solve(unit, 2, value, 3, reader, on), 14);
  assert_int_equal(on[0] + on[1], 2);
}

static void a_value_with_many_readers_is_copied_once(void **unused) {
  (void)unused;
  unsigned char on[3];
  const placement_unit unit[3] = {{10, 6}, {10, 6}, {10, 6}};
  const placement_value value[1] = {
      {.maker = PLACEMENT_ON_CPU, .to = 9, .from = 9, .first = 0, .count = 3}};
  const uint32_t reader[3] = {0, 1, 2};
  assert_int_equal(solve(unit, 3, value, 1, reader, on), 27);
  assert_int_equal(on[0] + on[1] + on[2], 3);
}

static void a_large_plan_is_placed_in_no_time(void **unused) {
  (void)unused;
  enum { UNITS = 5000 };
  placement_unit *unit = calloc(UNITS, sizeof *unit);
  placement_value *value = calloc(UNITS, sizeof *value);
  uint32_t *reader = calloc(2 * UNITS, sizeof *reader);
  unsigned char *on = calloc(UNITS, 1);
  assert_true(unit && value && reader && on);
  for (uint32_t i = 0; i < UNITS; i++) {
    unit[i] = (placement_unit){draw(1000), draw(1000)};
    value[i] = (placement_value){.maker = i, .to = draw(300), .from = draw(300), .first = 2 * i};
    value[i].count = i + 2 < UNITS ? 2 : 0;
    reader[2 * i] = i + 1;
    reader[2 * i + 1] = i + 1 + draw(UNITS - i > 21 ? 20 : 1);
  }
  int64_t total = solve(unit, UNITS, value, UNITS, reader, on);
  /* Moving any single unit gains nothing. */
  const placement_problem p = {unit, UNITS, value, UNITS, reader};
  for (uint32_t i = 0; i < UNITS; i += 250) {
    on[i] ^= 1;
    assert_true(placement_cost(&p, on) >= total);
    on[i] ^= 1;
  }
  free(unit);
  free(value);
  free(reader);
  free(on);
}

/* The first half is cheaper on the CPU, the second half on the accelerator. The copy between them
 * costs as much as very many units lose on the wrong device, so costs must be summed along the
 * whole chain. */
static void a_long_chain_is_cut_where_it_should_be(void **unused) {
  (void)unused;
  enum { UNITS = 100000, COPY = 1000000 };
  placement_unit *unit = calloc(UNITS, sizeof *unit);
  placement_value *value = calloc(UNITS, sizeof *value);
  uint32_t *reader = calloc(UNITS, sizeof *reader);
  unsigned char *on = calloc(UNITS, 1);
  assert_true(unit && value && reader && on);
  for (uint32_t i = 0; i < UNITS; i++) {
    unit[i] = i < UNITS / 2 ? (placement_unit){1, 100} : (placement_unit){100, 1};
    reader[i] = i + 1 < UNITS ? i + 1 : PLACEMENT_ON_CPU;
    value[i] = (placement_value){.maker = i, .to = COPY, .from = 50, .first = i, .count = 1};
  }
  assert_int_equal(solve(unit, UNITS, value, UNITS, reader, on), UNITS + COPY + 50);
  for (uint32_t i = 0; i < UNITS; i++) assert_int_equal(on[i], i >= UNITS / 2);
  free(unit);
  free(value);
  free(reader);
  free(on);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_cut_costs_as_little_as_the_best_of_all_placements),
      cmocka_unit_test(what_costs_the_same_stays_on_the_cpu),
      cmocka_unit_test(a_chain_is_moved_as_a_whole),
      cmocka_unit_test(a_value_with_many_readers_is_copied_once),
      cmocka_unit_test(a_large_plan_is_placed_in_no_time),
      cmocka_unit_test(a_long_chain_is_cut_where_it_should_be),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
