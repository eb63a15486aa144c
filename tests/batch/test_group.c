/* SPDX-License-Identifier: MIT */
/* A group divides the items of a run, with threads as ranks. */
#include <stdio.h>
#include <string.h>

#include "support/harness/loopback.h"
#include "support/harness/test.h"

enum { ITEMS = 13, WIDTH = 3 };

static void twice(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                  compute_node *outputs) {
  (void)user;
  (void)items;
  outputs[0] = compute_mul(graph, inputs[0], compute_scalar(graph, COMPUTE_F32, 2));
}

static compute_batch *iterator(loopback_rank *self) {
  compute_batch *batch = NULL;
  const compute_batch_port port = {COMPUTE_F32, COMPUTE_SHAPE(WIDTH)};
  RANK_CHECK(
      self,
      compute_batch_create(
          self->context,
          &(compute_batch_options){
              .build = twice, .inputs = &port, .input_count = 1, .output_count = 1, .batch = 2},
          &batch) == COMPUTE_OK);
  return batch;
}

static void fill(float *items) {
  for (int i = 0; i < ITEMS * WIDTH; i++) items[i] = (float)i;
}

/* ---- Arrays and callbacks ------------------------------------------------------------------ */

static void share_arrays(loopback_rank *self) {
  float in[ITEMS * WIDTH], out[ITEMS * WIDTH];
  int64_t first, end;
  compute_batch *batch = iterator(self);
  compute_batch_result result;
  fill(in);
  for (int64_t items = 0; items <= ITEMS; items += 1 + items / 2) {
    for (int i = 0; i < ITEMS * WIDTH; i++) out[i] = -1;
    compute_call_share(items, self->rank, self->size, &first, &end);
    RANK_CHECK(self, compute_batch_run(batch,
                                       &(compute_batch_run_options){
                                           .items = items,
                                           .sources = &(compute_batch_source){.array = in},
                                           .sinks = &(compute_batch_sink){.array = out},
                                           .group = self->group},
                                       &result) == COMPUTE_OK);
    RANK_CHECK(self, result.items == end - first);
    for (int64_t i = 0; i < ITEMS * WIDTH; i++) {
      const bool own = i / WIDTH >= first && i / WIDTH < end;
      RANK_CHECK(self, out[i] == (own ? 2 * in[i] : -1));
    }
  }
  compute_batch_release(batch);
}

static void each_rank_has_its_part_of_the_arrays(void **state) {
  (void)state;
  for (int32_t size = 1; size <= 4; size++)
    loopback_run(size, share_arrays, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
}

/* Fails at item 7, which belongs to rank 1 of 2. */
static compute_status read_until_seven(void *user, int64_t first, int64_t items, void *data,
                                       int64_t *count) {
  float *to = data;
  (void)user;
  *count = items;
  for (int64_t i = 0; i < items * WIDTH; i++) to[i] = (float)(first * WIDTH + i);
  return first + items > 7 ? COMPUTE_ERROR_FILE : COMPUTE_OK;
}

static void fail_alone(loopback_rank *self) {
  float in[ITEMS * WIDTH], out[ITEMS * WIDTH];
  compute_batch *batch = iterator(self);
  fill(in);
  const compute_batch_sink sink = {.array = out};
  const compute_batch_source failing = {.read = read_until_seven}, array = {.array = in},
                             missing = {.path = TEST_NOWHERE "/items"};
  compute_batch_run_options o = {
      .items = ITEMS, .sources = &failing, .sinks = &sink, .group = self->group};
  for (int again = 0; again < 2; again++) {
    o.sources = &failing;
    RANK_CHECK(self, compute_batch_run(batch, &o, NULL) == COMPUTE_ERROR_FILE);
    RANK_CHECK(self, loopback_says(self, self->rank == 1 ? "failed at item" : "rank 1: "));
    /* An error at the start on one rank. */
    o.sources = self->rank == 1 ? &missing : &array;
    RANK_CHECK(self, compute_batch_run(batch, &o, NULL) == COMPUTE_ERROR_FILE);
    o.sources = &array;
    o.progress_seconds = self->rank == 0 ? -1 : 0;
    RANK_CHECK(self, compute_batch_run(batch, &o, NULL) == COMPUTE_ERROR_INVALID_ARGUMENT);
    RANK_CHECK(self, loopback_says(self, "progress_seconds is -1"));
    o.progress_seconds = 0;
    o.items = ITEMS - self->rank;
    RANK_CHECK(self, compute_batch_run(batch, &o, NULL) == COMPUTE_ERROR_INVALID_ARGUMENT);
    RANK_CHECK(self, loopback_says(self, "rank 1 differs from rank 0: it has 12 items"));
    o.items = COMPUTE_BATCH_UNTIL_END;
    o.sources = &failing;
    RANK_CHECK(self, compute_batch_run(batch, &o, NULL) == COMPUTE_ERROR_INVALID_ARGUMENT);
    RANK_CHECK(self, loopback_says(self, "unknown number of items"));
    o.items = ITEMS;
    o.sources = &array;
    RANK_CHECK(self, compute_batch_run(batch, &o, NULL) == COMPUTE_OK);
  }
  compute_batch_release(batch);
}

static void what_fails_on_one_rank_fails_on_all(void **state) {
  (void)state;
  loopback_run(2, fail_alone, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
}

/* ---- Files --------------------------------------------------------------------------------- */

#define IN_FILE  TEST_SCRATCH_DIR "/items"
#define OUT_FILE TEST_SCRATCH_DIR "/results"

static void share_files(loopback_rank *self) {
  compute_batch *batch = iterator(self);
  RANK_CHECK(self,
             compute_batch_run(batch,
                               &(compute_batch_run_options){
                                   .items = COMPUTE_BATCH_UNTIL_END,
                                   .sources = &(compute_batch_source){.path = IN_FILE},
                                   .sinks = &(compute_batch_sink){.path = OUT_FILE, .offset = 4},
                                   .group = self->group},
                               NULL) == COMPUTE_OK);
  compute_batch_release(batch);
}

static void ranks_write_one_file(void **state) {
  (void)state;
  float in[ITEMS * WIDTH], out[ITEMS * WIDTH + 1];
  fill(in);
  FILE *file = fopen(IN_FILE, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(in, sizeof in, 1, file), 1);
  fclose(file);
  for (int32_t size = 1; size <= 4; size++) {
    remove(OUT_FILE);
    loopback_run(size, share_files, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
    file = fopen(OUT_FILE, "rb");
    assert_non_null(file);
    assert_int_equal(fread(out, sizeof out, 1, file), 1);
    fclose(file);
    for (int i = 0; i < ITEMS * WIDTH; i++) assert_true(out[i + 1] == 2 * in[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_rank_has_its_part_of_the_arrays),
      cmocka_unit_test(what_fails_on_one_rank_fails_on_all),
      cmocka_unit_test(ranks_write_one_file),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
