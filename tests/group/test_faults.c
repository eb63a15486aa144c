/* SPDX-License-Identifier: MIT */
/* A rank fails or stops at each call of the transport: all others end with an error within the time
 * limit, and later calls fail at once with the first reason. Also a group without a launcher. */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "group/group.h"
#include "support/harness/failing_allocator.h"
#include "support/harness/loopback.h"
#include "support/harness/test.h"

/* Some calls of each kind, until one fails. */
static compute_status work(loopback_rank *self) {
  compute_tensor *x = NULL;
  compute_status s = compute_tensor_full(compute_default_device(self->context), COMPUTE_F32,
                                         COMPUTE_SHAPE(40000), 1, &x);
  RANK_CHECK(self, s == COMPUTE_OK);
  compute_process_group *g = self->group;
  if (!s) s = compute_group_all_reduce(g, COMPUTE_GROUP_SUM, x, x, NULL, NULL);
  if (!s) s = compute_group_broadcast(g, x, 1, NULL, NULL);
  if (!s && self->rank < 2)
    s = self->rank == 0 ? compute_group_send(g, x, 1, NULL, NULL)
                        : compute_group_receive(g, x, 0, NULL, NULL);
  if (!s) s = compute_group_agree(g, "trial", "text");
  if (!s) s = compute_group_barrier(g);
  compute_tensor_release(x);
  return s;
}

static void work_until_it_fails(loopback_rank *self) {
  const bool culprit = self->fail_at != 0;
  const bool early = self->fail_at == 1;
  if (!self->group) {
    RANK_CHECK(self, culprit || self->opened == COMPUTE_ERROR_TIMEOUT);
    RANK_CHECK(self, !early || self->opened == COMPUTE_ERROR_TRANSFER);
    return;
  }
  const compute_status status = work(self);
  if (status == COMPUTE_OK) return; /* the others no longer needed it */
  /* On a busy machine, the failing rank may have timed out before. */
  const bool fails = culprit && self->calls >= self->fail_at;
  RANK_CHECK(self, status == (fails ? COMPUTE_ERROR_TRANSFER : COMPUTE_ERROR_TIMEOUT));
  RANK_CHECK(self, loopback_says(self, fails ? "planned failure 77" : "waited"));
  compute_group_info info;
  RANK_CHECK(self, compute_group_query(self->group, &info) == COMPUTE_OK && info.broken);
  const int64_t before = self->calls;
  RANK_CHECK(self, work(self) == status);
  RANK_CHECK(self, loopback_says(self, fails ? "planned failure 77" : "waited"));
  RANK_CHECK(self, self->calls == before);
}

/* Counts the transport calls of the work. */
static void count_calls(loopback_rank *self) {
  RANK_CHECK(self, work(self) == COMPUTE_OK);
}

static int64_t calls_of_the_work(void) {
  loopback_rank ranks[LOOPBACK_MOST] = {{0}};
  loopback_run(3, count_calls, NULL, ranks);
  return ranks[1].calls;
}

static void the_nth_call_that_fails_is_an_error_everywhere(void **state) {
  (void)state;
  const int64_t calls = calls_of_the_work();
  assert_true(calls > 8);
  for (int64_t n = 1; n < calls; n++) {
    loopback_rank ranks[LOOPBACK_MOST] = {{0}};
    for (int r = 0; r < 3; r++) ranks[r].timeout = 0.1;
    ranks[1].fail_at = n;
    loopback_run(3, work_until_it_fails, NULL, ranks);
  }
}

/* No rank waits longer than the limit, including the stopped one. */
static void work_beside_a_silent_rank(loopback_rank *self) {
  if (!self->group) {
    RANK_CHECK(self, self->opened == COMPUTE_ERROR_TIMEOUT);
    return;
  }
  const compute_status status = work(self);
  RANK_CHECK(self, status == COMPUTE_OK || status == COMPUTE_ERROR_TIMEOUT);
  RANK_CHECK(self, status == COMPUTE_OK || loopback_says(self, "waited 0.1 s for other ranks"));
}

static void a_rank_that_stops_anywhere_ends_in_the_time_limit(void **state) {
  (void)state;
  const int64_t calls = calls_of_the_work();
  for (int64_t n = 2; n < calls; n++) {
    loopback_rank ranks[LOOPBACK_MOST] = {{0}};
    for (int r = 0; r < 3; r++) ranks[r].timeout = 0.1;
    ranks[2].silent_at = n;
    loopback_run(3, work_beside_a_silent_rank, NULL, ranks);
  }
}

/* ---- Missing ranks
 * ----------------------------------------------------------------------------- */

/* Ranks whose bit is set do not arrive; the others' errors contain `text`. */
typedef struct absence {
  unsigned ranks;
  const char *text;
  compute_status (*call)(loopback_rank *self);
  atomic_int failed;
} absence;

static compute_status call_barrier(loopback_rank *self) {
  return compute_group_barrier(self->group);
}

static compute_status call_receive(loopback_rank *self) {
  float x = 0;
  compute_tensor *tensor = NULL;
  RANK_CHECK(self, !compute_tensor_from_host(compute_default_device(self->context), COMPUTE_F32,
                                             COMPUTE_SHAPE(1), &x, &tensor));
  const compute_status status = compute_group_receive(self->group, tensor, 1, NULL, NULL);
  compute_tensor_release(tensor);
  return status;
}

/* After a failed close, the error is still the one that broke the group. */
static void miss_others(loopback_rank *self) {
  absence *a = self->user;
  int present = 0;
  for (int r = 0; r < self->size; r++) present += !(a->ranks >> r & 1);
  RANK_CHECK(self, self->opened == COMPUTE_OK);
  if (!(a->ranks >> self->rank & 1)) {
    RANK_CHECK(self, a->call(self) == COMPUTE_ERROR_TIMEOUT);
    RANK_CHECK(self, loopback_says(self, a->text));
    compute_group_close(self->group);
    self->group = NULL;
    RANK_CHECK(self, loopback_says(self, a->text));
    RANK_CHECK(self, strstr(compute_error_message(NULL), a->text) != NULL);
    atomic_fetch_add(&a->failed, 1);
  }
  while (atomic_load(&a->failed) < present) sched_yield();
}

static void a_wait_that_is_over_names_the_missing_ranks(void **state) {
  (void)state;
  static const struct {
    int32_t size;
    unsigned ranks;
    bool tells_nothing;
    compute_status (*call)(loopback_rank *self);
    const char *text;
  } cases[] = {
      {2, 1u << 1, false, call_barrier, " 0.5 s for other ranks, which is the limit; rank 1 did"},
      {4, 1u << 1 | 1u << 3, false, call_barrier, "; ranks 1 and 3 did not arrive"},
      {5, 1u << 0 | 1u << 2 | 1u << 4, false, call_barrier, "; ranks 0, 2 and 4 did not arrive"},
      {8, 0xfe, false, call_barrier, "; ranks 1, 2, 3, 4, 5, 6 and 1 more did not arrive"},
      {3, 1u << 2, true, call_barrier, "; loopback does not tell which"},
      {3, 1u << 1 | 1u << 2, true, call_receive, "; rank 1 did not arrive"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    absence of = {.ranks = cases[i].ranks, .text = cases[i].text, .call = cases[i].call};
    loopback_rank ranks[LOOPBACK_MOST] = {{0}};
    for (int r = 0; r < cases[i].size; r++) {
      ranks[r].timeout = of.ranks >> r & 1 ? 0.1 : 0.5;
      ranks[r].tells_nothing = cases[i].tells_nothing;
    }
    loopback_run(cases[i].size, miss_others, &of, ranks);
  }
}

/* ---- Closing ------------------------------------------------------------------------------- */

static void close_first(loopback_rank *self) {
  if (self->rank == 2) return;
  RANK_CHECK(self, compute_group_barrier(self->group) == COMPUTE_ERROR_INVALID_STATE);
  RANK_CHECK(self, loopback_says(self, "rank 2 has closed its group"));
  compute_group_info info;
  RANK_CHECK(self, compute_group_query(self->group, &info) == COMPUTE_OK && info.broken);
  RANK_CHECK(self, compute_group_barrier(self->group) == COMPUTE_ERROR_INVALID_STATE);
}

static void a_rank_that_closes_too_early_breaks_the_group(void **state) {
  (void)state;
  loopback_rank ranks[LOOPBACK_MOST] = {{0}};
  loopback_run(3, close_first, NULL, ranks);
  for (int r = 0; r < 3; r++) assert_false(ranks[r].orderly);
  loopback_run(3, count_calls, NULL, ranks);
  for (int r = 0; r < 3; r++) assert_true(ranks[r].orderly);
}

/* ---- Forks --------------------------------------------------------------------------------- */

/* Returns the number of the first wrong statement. */
static int use_in_child(loopback_rank *self, compute_group_request *request) {
  bool done;
  compute_group_info info;
  alarm(20);
  if (compute_group_request_wait(request) != COMPUTE_ERROR_INVALID_STATE) return 1;
  if (compute_group_request_poll(request, &done) != COMPUTE_ERROR_INVALID_STATE) return 2;
  if (compute_group_barrier(self->group) != COMPUTE_ERROR_INVALID_STATE) return 3;
  if (!loopback_says(self, "forked")) return 4;
  if (compute_group_query(self->group, &info) != COMPUTE_ERROR_INVALID_STATE) return 5;
  compute_group_request_release(request);
  compute_group_close(self->group);
  return 0;
}

/* The message for rank 0 arrives after its child has ended. */
static void fork_in_a_call(loopback_rank *self) {
  compute_tensor *x = NULL;
  RANK_CHECK(self, compute_tensor_full(compute_default_device(self->context), COMPUTE_F32,
                                       COMPUTE_SHAPE(10), 1, &x) == COMPUTE_OK);
  if (self->rank == 0) {
    compute_group_request *request = NULL;
    RANK_CHECK(self, compute_group_receive(self->group, x, 1, NULL, &request) == COMPUTE_OK);
    const pid_t child = fork();
    if (child == 0) _exit(use_in_child(self, request));
    int status = -1;
    RANK_CHECK(self, waitpid(child, &status, 0) == child && status == 0);
    atomic_store((atomic_bool *)self->user, true);
    RANK_CHECK(self, compute_group_request_wait(request) == COMPUTE_OK);
    compute_group_request_release(request);
  } else {
    while (!atomic_load((atomic_bool *)self->user)) sched_yield();
    RANK_CHECK(self, compute_group_send(self->group, x, 0, NULL, NULL) == COMPUTE_OK);
  }
  compute_tensor_release(x);
}

/* Without a request: the child's close does nothing. */
static void fork_between_calls(loopback_rank *self) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    compute_group_close(self->group);
    _exit(0);
  }
  int status = -1;
  RANK_CHECK(self, waitpid(child, &status, 0) == child && status == 0);
  RANK_CHECK(self, compute_group_barrier(self->group) == COMPUTE_OK);
}

static void a_forked_process_neither_waits_nor_disturbs(void **state) {
  (void)state;
  atomic_bool ended = false;
  loopback_run(2, fork_in_a_call, &ended, (loopback_rank[LOOPBACK_MOST]){{0}});
  loopback_run(2, fork_between_calls, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
}

/* ---- Hosts --------------------------------------------------------------------------------- */

static void local_ranks_follow_from_the_hosts(void **state) {
  (void)state;
  enum { RANKS = 7, SELF = 4 };
  static const char *const hosts[RANKS] = {"b", "a", "b", "c", "b", "a", "bb"};
  static const int32_t wanted[RANKS] = {0, 0, 1, 0, 2, 1, 0};
  group_record members[RANKS] = {{.process = 0}};
  int32_t local_ranks[RANKS];
  for (int r = 0; r < RANKS; r++) strcpy(members[r].host, hosts[r]);
  compute_process_group group = {
      .rank = SELF, .size = RANKS, .members = members, .local_ranks = local_ranks};
  assert_ok(group_count_hosts(&group));
  assert_memory_equal(local_ranks, wanted, sizeof wanted);
  assert_int_equal(group.local_rank, 2);
  assert_int_equal(group.local_size, 3);
  assert_int_equal(group.hosts, 4);
}

/* ---- Without a launcher -------------------------------------------------------------------- */

static void a_program_without_a_launcher_is_a_group_of_one(void **state) {
  (void)state;
  static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK",
                                          "SLURM_STEP_NUM_TASKS", "COMPUTE_TRANSPORT"};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) unsetenv(variables[i]);
  compute_context *context = test_open();
  compute_process_group *group = NULL;
  assert_ok(compute_group_open(context, NULL, &group));
  compute_group_info info;
  assert_ok(compute_group_query(group, &info));
  assert_int_equal(info.rank, 0);
  assert_int_equal(info.size, 1);
  assert_int_equal(info.local_rank, 0);
  assert_int_equal(info.hosts, 1);
  assert_string_equal(info.transport, "none");
  assert_ptr_equal(info.device, compute_default_device(context));
  compute_tensor *x = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(2), (float[]){3, 4});
  assert_ok(compute_group_all_reduce(group, COMPUTE_GROUP_MEAN, x, x, NULL, NULL));
  assert_ok(compute_group_broadcast(group, x, 0, NULL, NULL));
  assert_ok(compute_group_agree(group, "trial", "text"));
  assert_true(test_element(x, 1) == 4);
  compute_group_member member;
  assert_ok(compute_group_member_at(group, 0, &member));
  assert_string_equal(member.version, compute_version_text());
  assert_fails(compute_group_member_at(group, 1, &member), COMPUTE_ERROR_INVALID_ARGUMENT);
  /* It must be closed before its context. */
  assert_fails(compute_close(context), COMPUTE_ERROR_INVALID_STATE);
  test_check_message(NULL, "1 group");
  compute_tensor_release(x);
  compute_group_close(group);
  test_close(context);
}

static void a_transport_that_is_not_there_is_named(void **state) {
  (void)state;
  compute_context *context = test_open();
  compute_process_group *group = NULL;
  assert_fails(
      compute_group_open(context, &(compute_group_options){.transport = "nowhere"}, &group),
      COMPUTE_ERROR_BACKEND_LOAD);
  test_check_message(context, "libcompute-transport-nowhere.so");
  assert_fails(compute_group_open(context, &(compute_group_options){.transport = "../x"}, &group),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_group_open(context, &(compute_group_options){.timeout = -1}, &group),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_group_open(context, &(compute_group_options){.reserved = {1}}, &group),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  setenv("SLURM_STEP_NUM_TASKS", "4", 1);
  assert_fails(compute_group_open(context, NULL, &group), COMPUTE_ERROR_BACKEND_LOAD);
  test_check_message(context, "srun has started 4 processes");
  assert_fails(group_check_size(context, 1), COMPUTE_ERROR_BACKEND_LOAD);
  assert_ok(group_check_size(context, 4));
  unsetenv("SLURM_STEP_NUM_TASKS");
  assert_ok(group_check_size(context, 1));
  test_close(context);
}

/* Transports are found in the folders of backends. */
static void a_transport_is_found_in_the_folders_of_the_options(void **state) {
  (void)state;
  char folder[] = TEST_SCRATCH_DIR "/modules_XXXXXX", path[sizeof folder + 64];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/libcompute-transport-empty.so", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fclose(file);
  compute_context *context = NULL;
  compute_process_group *group = NULL;
  assert_ok(
      compute_open(&context, &(compute_open_options){.backend_path = folder, .device = "cpu"}));
  assert_fails(compute_group_open(context, &(compute_group_options){.transport = "empty"}, &group),
               COMPUTE_ERROR_BACKEND_LOAD);
  test_check_message(context, "not a shared library");
  test_close(context);
  remove(path);
  remove(folder);
}

/* Closing returns nothing, and the caller still sees the earlier error. */
static void closing_without_memory_leaves_the_errors_alone(void **state) {
  (void)state;
  for (int64_t nth = 1, failed = 1; failed > 0; nth++) {
    failing_allocator_install();
    compute_context *context = NULL;
    compute_process_group *group = NULL;
    assert_ok(
        compute_open(&context, &(compute_open_options){.backends = "null", .device = "null"}));
    assert_ok(compute_group_open(context, NULL, &group));
    compute_device *device = NULL;
    assert_fails(compute_device_by_name(context, "nowhere", &device), COMPUTE_ERROR_NO_DEVICE);
    compute_error before, of_thread, of_context;
    compute_error_get(NULL, &before);
    failing_allocator_arm(nth, true);
    compute_group_close(group);
    compute_error_get(context, &of_context);
    assert_ok(compute_close(context));
    failed = failing_allocator_failures();
    failing_allocator_arm(0, false);
    compute_error_get(NULL, &of_thread);
    assert_string_equal(of_thread.message, before.message);
    assert_string_equal(of_context.message, before.message);
    assert_true(nth > 1 || failed > 0);
    assert_int_equal(failing_allocator_remove(), 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_nth_call_that_fails_is_an_error_everywhere),
      cmocka_unit_test(a_rank_that_stops_anywhere_ends_in_the_time_limit),
      cmocka_unit_test(a_wait_that_is_over_names_the_missing_ranks),
      cmocka_unit_test(a_rank_that_closes_too_early_breaks_the_group),
      cmocka_unit_test(a_forked_process_neither_waits_nor_disturbs),
      cmocka_unit_test(local_ranks_follow_from_the_hosts),
      cmocka_unit_test(a_program_without_a_launcher_is_a_group_of_one),
      cmocka_unit_test(a_transport_that_is_not_there_is_named),
      cmocka_unit_test(a_transport_is_found_in_the_folders_of_the_options),
      cmocka_unit_test(closing_without_memory_leaves_the_errors_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
