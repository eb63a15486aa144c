/* SPDX-License-Identifier: MIT */
/* The tuner on a fake device: fast but wrong kernels, slow ones, broken ones, interruptions,
 * several runs at once. */
#include <math.h>
#include <pthread.h>

#include "codegen/tune/tuner.h"
#include "fake_device.h"
#include "support/harness/failing_allocator.h"

static const double unbeaten = 400e-6; /* the heuristic's seconds in most plans */

static compute_context *context;
static compute_device device;
static compute_backend backend;
static const char *path;

static void begin(const char *name, fake_plan plan) {
  path = fixture_file(name);
  fake = plan;
  context = test_open();
  fake_device_make(context, &device, &backend);
}

static void end(void) {
  assert_int_equal(atomic_load(&fake_kernels), 0);
  test_close(context);
}

static tuning_contents stored(void) {
  tuning_contents contents;
  char reason[TUNING_REASON_BYTES];
  if (tuning_file_read(path, true, &contents, reason)) fail_msg("%s", reason);
  assert_int_equal(contents.damaged + contents.foreign, 0);
  return contents;
}

static size_t stored_count(void) {
  tuning_contents contents = stored();
  const size_t count = contents.count;
  tuning_file_release(&contents);
  return count;
}

/* The data that the callback received. */
typedef struct witness {
  compute_tune_progress last; /* its texts are not valid afterwards */
  char best[256];
  uint32_t finished, calls;
  uint32_t stop_after; /* finished problems; 0: never */
} witness;

static bool watch(void *user, const compute_tune_progress *p) {
  witness *w = user;
  assert_true(p->problem_index < p->problem_count);
  assert_true(p->candidate_index <= p->candidate_count);
  assert_true(p->best_seconds <= p->heuristic_seconds || p->heuristic_seconds <= 0);
  assert_true(p->elapsed_seconds >= w->last.elapsed_seconds);
  assert_non_null(p->best);
  char name[32];
  snprintf(name, sizeof name, "problem %u", p->problem_index);
  assert_string_equal(p->problem, name);
  w->last = *p;
  w->calls++;
  w->finished += p->finished;
  snprintf(w->best, sizeof w->best, "%s", p->best);
  return !(w->stop_after && w->finished >= w->stop_after);
}

static compute_status run(size_t problems, compute_tune_options options, witness *w) {
  *w = (witness){.stop_after = w->stop_after};
  options.quick = true;
  options.progress = watch;
  options.user = w;
  const tuner_work work = {fake_problem, NULL, problems, fake_clock};
  return tuner_run(&device, &options, &work);
}

/* ---- The winner ----------------------------------------------------------------------------- */

static void the_fastest_of_those_that_are_right_is_stored(void **state) {
  (void)state;
  begin("fastest", (fake_plan){.heuristic = {.seconds = unbeaten},
                               .generated = {.seconds = 3 * unbeaten},
                               .implementation = {[1] = {.seconds = unbeaten / 8, .wrong = true},
                                                  [2] = {.seconds = unbeaten / 2},
                                                  [3] = {.seconds = unbeaten / 4},
                                                  [4] = {.seconds = unbeaten / 3}},
                               .count = 5});
  witness w = {0};
  assert_ok(run(1, (compute_tune_options){0}, &w));
  assert_string_equal(w.best, "three");
  assert_int_equal(w.finished, 1);
  assert_int_equal(w.last.refused, 1);
  assert_true(w.last.heuristic_seconds >= unbeaten && w.last.best_seconds < unbeaten);
  tuning_contents contents = stored();
  assert_int_equal(contents.count, 1);
  assert_string_equal(contents.entries[0].kernel_class, "map/f32>f32/in2.dense/n10");
  assert_true(
      parameters_equal(&contents.entries[0].tuning, &(compute_tuning){.implementation = 3}));
  assert_true(contents.entries[0].nanoseconds >= 100000);
  tuning_file_release(&contents);
  /* A wrong kernel is launched once, fails the verification, and is never timed. */
  assert_int_equal(atomic_load(&fake_launches[1]), 1);
  /* Kernels get these parameters from now on. */
  const compute_target target = fixture_target("fake");
  fixture_map map;
  compute_tuning tuning;
  assert_int_equal(
      tuning_lookup(tuning_of(context), &target, fixture_descriptor(&map, 1000), &tuning),
      COMPUTE_TUNING_FILE);
  assert_int_equal(tuning.implementation, 3);
  end();
}

static void what_does_not_compile_or_start_is_refused(void **state) {
  (void)state;
  begin(
      "broken",
      (fake_plan){.heuristic = {.seconds = unbeaten},
                  .generated = {.prepare = COMPUTE_ERROR_COMPILATION},
                  .implementation = {[1] = {.seconds = 1e-5, .enqueue = COMPUTE_ERROR_LAUNCH},
                                     [2] = {.seconds = 1e-5, .prepare = COMPUTE_ERROR_UNSUPPORTED},
                                     [3] = {.seconds = unbeaten / 2}},
                  .count = 4});
  witness w = {0};
  compute_error_clear(context);
  assert_ok(run(1, (compute_tune_options){0}, &w));
  assert_string_equal(w.best, "three");
  assert_int_equal(w.last.refused, w.last.candidate_count - 2);
  compute_error error; /* refusals do not fail the run */
  compute_error_get(context, &error);
  assert_int_equal(error.status, COMPUTE_OK);
  end();
}

static void a_gain_within_the_noise_is_not_stored(void **state) {
  (void)state;
  begin("noise", (fake_plan){.heuristic = {.seconds = unbeaten},
                             .generated = {.seconds = 3 * unbeaten},
                             .implementation = {[1] = {.seconds = unbeaten * 0.99}},
                             .count = 2});
  witness w = {0};
  assert_ok(run(1, (compute_tune_options){0}, &w));
  assert_string_equal(w.best, "");
  assert_true(w.last.best_seconds == w.last.heuristic_seconds);
  assert_int_equal(stored_count(), 0);
  end();
}

static void a_best_heuristic_is_stored_where_a_neighbour_would_serve(void **state) {
  (void)state;
  begin("neighbour", (fake_plan){.heuristic = {.seconds = unbeaten},
                                 .generated = {.seconds = 3 * unbeaten},
                                 .count = 1});
  fixture_append_entry(path, "fake", "map/f32>f32/in2.dense/n12", 4);
  witness w = {0};
  assert_ok(run(1, (compute_tune_options){0}, &w));
  tuning_contents contents = stored();
  assert_int_equal(contents.count, 2);
  assert_string_equal(contents.entries[1].kernel_class, "map/f32>f32/in2.dense/n10");
  assert_true(parameters_none(&contents.entries[1].tuning));
  tuning_file_release(&contents);
  end();
}

static void a_slow_candidate_is_not_run_again(void **state) {
  (void)state;
  begin("slow", (fake_plan){.heuristic = {.seconds = unbeaten},
                            .generated = {.seconds = 3 * unbeaten},
                            .implementation = {[1] = {.seconds = 0.2}, [2] = {.seconds = 2e-3}},
                            .count = 3});
  witness w = {0};
  assert_ok(run(1, (compute_tune_options){.candidate_seconds = 0.1}, &w));
  /* One launch compiles and verifies the kernel, the other is timed. */
  assert_int_equal(atomic_load(&fake_launches[1]), 2);
  /* Five times slower than the heuristic: rejected after the first sample. */
  assert_in_range(atomic_load(&fake_launches[2]), 3, 10);
  end();
}

static void a_dry_run_stores_nothing(void **state) {
  (void)state;
  begin("dry", (fake_plan){.heuristic = {.seconds = unbeaten},
                           .generated = {.seconds = unbeaten / 2},
                           .count = 1});
  witness w = {0};
  assert_ok(run(1, (compute_tune_options){.dry = true}, &w));
  assert_true(w.best[0] != '\0');
  assert_int_equal(stored_count(), 0);
  end();
}

/* ---- Ends of a run ------------------------------------------------------------------------- */

static void an_interrupted_run_keeps_what_it_has_found(void **state) {
  (void)state;
  begin("interrupted", (fake_plan){.heuristic = {.seconds = unbeaten},
                                   .generated = {.seconds = 3 * unbeaten},
                                   .implementation = {[1] = {.seconds = unbeaten / 2}},
                                   .count = 2});
  witness w = {.stop_after = 1};
  assert_fails(run(3, (compute_tune_options){0}, &w), COMPUTE_ERROR_CANCELLED);
  assert_int_equal(w.finished, 1);
  assert_int_equal(stored_count(), 1);
  end();
}

static bool refuse_at_once(void *user, const compute_tune_progress *p) {
  (void)p;
  ++*(int *)user;
  return false;
}

static void the_callback_can_end_a_run_before_anything_was_measured(void **state) {
  (void)state;
  begin("at_once", (fake_plan){.count = 1});
  int calls = 0;
  const compute_tune_options options = {.progress = refuse_at_once, .user = &calls};
  const tuner_work work = {fake_problem, NULL, 2, fake_clock};
  assert_fails(tuner_run(&device, &options, &work), COMPUTE_ERROR_CANCELLED);
  assert_true(calls >= 1 && calls <= 2);
  assert_int_equal(atomic_load(&fake_launches[0]), 0);
  end();
}

static void a_time_limit_is_shared_by_the_problems(void **state) {
  (void)state;
  begin("limit",
        (fake_plan){.heuristic = {.seconds = 5e-3}, .generated = {.seconds = 2e-3}, .count = 1});
  witness w = {0};
  assert_ok(run(4, (compute_tune_options){.total_seconds = 0.8}, &w));
  assert_true(w.last.elapsed_seconds < 0.9);
  assert_int_equal(w.finished, 4);
  assert_int_equal(stored_count(), 4);
  end();
}

static void a_limit_too_short_for_anything_stores_nothing(void **state) {
  (void)state;
  begin("too_short",
        (fake_plan){.heuristic = {.seconds = 5e-3}, .generated = {.seconds = 2e-3}, .count = 1});
  fixture_append_entry(path, "fake", "map/f32>f32/in2.dense/n12", 4);
  witness w = {0};
  assert_ok(run(4, (compute_tune_options){.total_seconds = 1e-3}, &w));
  assert_true(w.finished <= 1 && w.last.elapsed_seconds < 0.05);
  assert_int_equal(stored_count(), 1);
  end();
}

static void a_lost_device_ends_the_run_with_its_words(void **state) {
  (void)state;
  begin("lost", (fake_plan){.heuristic = {.seconds = unbeaten},
                            .generated = {.enqueue = COMPUTE_ERROR_DEVICE_LOST},
                            .count = 1});
  witness w = {0};
  assert_fails(run(2, (compute_tune_options){0}, &w), COMPUTE_ERROR_DEVICE_LOST);
  test_check_message(context, "planted");
  end();
}

static void a_heuristic_that_fails_leaves_its_problem_out(void **state) {
  (void)state;
  begin("left_out", (fake_plan){.heuristic = {.prepare = COMPUTE_ERROR_COMPILATION}, .count = 1});
  witness w = {0};
  assert_ok(run(2, (compute_tune_options){0}, &w));
  assert_int_equal(w.finished, 2);
  assert_true(w.last.heuristic_seconds == 0 && w.last.best_seconds == 0);
  assert_int_equal(stored_count(), 0);
  end();
}

static void a_file_that_cannot_be_written_is_an_error(void **state) {
  (void)state;
  begin("unwritable", (fake_plan){.heuristic = {.seconds = unbeaten},
                                  .generated = {.seconds = unbeaten / 2},
                                  .count = 1});
  test_close(context);
  setenv("COMPUTE_TUNING_FILE", "/dev/full", 1);
  context = test_open();
  fake_device_make(context, &device, &backend);
  witness w = {0};
  assert_fails(run(1, (compute_tune_options){0}, &w), COMPUTE_ERROR_FILE);
  test_check_message(context, "/dev/full");
  end();
}

/* ---- Concurrent runs; lack of memory --------------------------------------------------------- */

enum { RUNS = 4 };

static void *run_quietly(void *result) {
  const compute_tune_options options = {.quick = true, .candidate_seconds = 0.02};
  const tuner_work work = {fake_problem, NULL, 2, fake_clock};
  *(compute_status *)result = tuner_run(&device, &options, &work);
  return NULL;
}

static void runs_at_once_do_not_harm_each_other(void **state) {
  (void)state;
  begin("together",
        (fake_plan){
            .heuristic = {.seconds = unbeaten},
            .generated = {.seconds = 3 * unbeaten},
            .implementation =
                {[1] = {.seconds = unbeaten / 8}, [2] = {.seconds = unbeaten / 16, .wrong = true}},
            .count = 3});
  pthread_t thread[RUNS];
  compute_status status[RUNS];
  for (int i = 0; i < RUNS; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, run_quietly, &status[i]), 0);
  for (int i = 0; i < RUNS; i++) {
    assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_int_equal(status[i], COMPUTE_OK);
  }
  tuning_contents contents = stored();
  for (size_t i = 0; i < contents.count; i++)
    assert_int_not_equal(contents.entries[i].tuning.implementation, 2);
  tuning_file_release(&contents);
  end();
}

static void short_memory_ends_a_run_without_a_trace(void **state) {
  (void)state;
  const tuner_work work = {fake_problem, NULL, 1, fake_clock};
  failing_allocator_install();
  bool done = false;
  /* Most requests are the generator's and repeat for each candidate, so the steps may grow. */
  for (int64_t nth = 1; !done; nth += 1 + nth / 8) {
    begin("memory", (fake_plan){.heuristic = {.seconds = 1e-6}, .count = 1});
    const compute_tune_options options = {.quick = true, .candidate_seconds = 1e-4};
    failing_allocator_arm(nth, nth % 2 == 0);
    const compute_status status = tuner_run(&device, &options, &work);
    done = failing_allocator_failures() == 0;
    failing_allocator_arm(0, false);
    if (status && status != COMPUTE_ERROR_OUT_OF_MEMORY)
      fail_msg("request %lld: %s", (long long)nth, compute_error_message(context));
    if (done) assert_int_equal(status, COMPUTE_OK);
    end();
    assert_int_equal(failing_allocator_live(), 0);
  }
  assert_int_equal(failing_allocator_remove(), 0);
}

int main(void) {
  unsetenv("COMPUTE_TEST_DEVICE");
  unsetenv("COMPUTE_TUNING");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_fastest_of_those_that_are_right_is_stored),
      cmocka_unit_test(what_does_not_compile_or_start_is_refused),
      cmocka_unit_test(a_gain_within_the_noise_is_not_stored),
      cmocka_unit_test(a_best_heuristic_is_stored_where_a_neighbour_would_serve),
      cmocka_unit_test(a_slow_candidate_is_not_run_again),
      cmocka_unit_test(a_dry_run_stores_nothing),
      cmocka_unit_test(an_interrupted_run_keeps_what_it_has_found),
      cmocka_unit_test(the_callback_can_end_a_run_before_anything_was_measured),
      cmocka_unit_test(a_time_limit_is_shared_by_the_problems),
      cmocka_unit_test(a_limit_too_short_for_anything_stores_nothing),
      cmocka_unit_test(a_lost_device_ends_the_run_with_its_words),
      cmocka_unit_test(a_heuristic_that_fails_leaves_its_problem_out),
      cmocka_unit_test(a_file_that_cannot_be_written_is_an_error),
      cmocka_unit_test(runs_at_once_do_not_harm_each_other),
      cmocka_unit_test(short_memory_ends_a_run_without_a_trace),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
