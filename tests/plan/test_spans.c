/* SPDX-License-Identifier: MIT */
/* Overlaps of tensors are found, whatever their number and order. */
#include "plan/compile/run/run.h"
#include "support/harness/test.h"
#include "support/harness/values.h"

enum { ELEMENTS = 4000, MOST = 60 };

typedef struct part {
  compute_tensor *tensor;
  int buffer;
  int64_t begin, end; /* elements */
} part;

static bool overlap(const part *a, const part *b) {
  if (a->begin == a->end || b->begin == b->end) return false;
  return a->buffer == b->buffer && a->begin < b->end && b->begin < a->end;
}

/* Parts of some buffers, with or without gaps between their elements. */
static void cut(compute_tensor *const *buffers, int64_t longest, test_random *random, part *parts,
                int count) {
  for (int i = 0; i < count; i++) {
    part *p = &parts[i];
    p->buffer = (int)test_random_integer(random, 0, 1);
    const int64_t step = test_random_integer(random, 1, 3);
    const int64_t elements = test_random_integer(random, 0, longest);
    p->begin = test_random_integer(random, 0, ELEMENTS - 3 * longest);
    p->end = elements == 0 ? p->begin : p->begin + (elements - 1) * step + 1;
    assert_ok(
        compute_tensor_slice_view(buffers[p->buffer], 0, p->begin, elements, step, &p->tensor));
  }
}

static void check(int64_t longest, uint64_t seed) {
  test_random random = {seed};
  compute_tensor *buffers[2];
  part parts[2 * MOST];
  memory_span listed[MOST];
  span_list list = {.at = listed};
  for (int i = 0; i < 2; i++)
    buffers[i] = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(ELEMENTS), NULL);
  cut(buffers, longest, &random, parts, 2 * MOST);
  bool collide = false;
  for (int i = 0; i < MOST; i++) {
    spans_add(&list, parts[i].tensor);
    for (int k = 0; k < i; k++) collide |= overlap(&parts[i], &parts[k]);
  }
  spans_sort(&list);
  assert_int_equal(spans_collide(&list), collide);
  for (int i = MOST; i < 2 * MOST; i++) {
    bool meets = false;
    for (int k = 0; k < MOST; k++) meets |= overlap(&parts[i], &parts[k]);
    assert_int_equal(spans_meet(&list, parts[i].tensor), meets);
  }
  for (int i = 0; i < 2 * MOST; i++) compute_tensor_release(parts[i].tensor);
  for (int i = 0; i < 2; i++) compute_tensor_release(buffers[i]);
}

static void overlaps_are_found_and_no_others(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 200; seed++) check((int64_t)(1 + seed * seed % 97), seed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(overlaps_are_found_and_no_others),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
