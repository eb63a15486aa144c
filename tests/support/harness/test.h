/* SPDX-License-Identifier: MIT */
/* Included by every cmocka test: cmocka with its required headers, and checks of a status that
 * print the library's message on failure. */
#ifndef SUPPORT_TEST_H
#define SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "compute/compute.h"

/* Checks that the call succeeds; its error message becomes the test's failure. */
#define assert_ok(call) test_check_status((call), COMPUTE_OK, #call, __FILE__, __LINE__)

/* Checks that the call fails with exactly this status and an error message. */
#define assert_fails(call, expected)                                                               \
  test_check_status((call), (expected), #call, __FILE__, __LINE__)

void test_check_status(compute_status actual, compute_status expected, const char *call,
                       const char *file, int line);

/* Checks that the last error's message contains `part`. */
void test_check_message(const compute_context *context, const char *part);

/* Ends the test as skipped, with this reason. A test that cannot run here never just returns
 * (tests/rooms/check_tests.py). */
void test_skip(const char *reason);

/* Like cmocka's, but returns 77 if every test was skipped. */
#undef cmocka_run_group_tests
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
  test_run_group(#tests, (tests), sizeof(tests) / sizeof *(tests), (setup), (teardown))
int test_run_group(const char *name, const struct CMUnitTest *tests, size_t count,
                   CMFixtureFunction setup, CMFixtureFunction teardown);

/* A hoped-for time: above `goal` it prints a line, but nothing fails, because the machine may be
 * busy. Promises for every machine are tested by counting. */
void test_time(const char *what, const char *unit, double seen, double goal);

/* Opens a context whose default device is the device under test: COMPUTE_TEST_DEVICE, or "cpu". */
compute_context *test_open(void);

/* Closes the context; fails the test if the library reports leftovers. */
void test_close(compute_context *context);

/* A context for all tests of a file: pass the two functions to cmocka_run_group_tests. */
extern compute_context *test_context;
int test_group_open(void **state);
int test_group_close(void **state);

/* COMPUTE_TEST_SEED, or 0. With it, a run takes a third of many samples, or a quarter or less on
 * compiling devices; another seed takes other samples. tests/run.sh passes the day's number, so
 * that short runs cover everything in time.
 *
 * COMPUTE_TEST_SAMPLE_SEED is the same, but only for a run that takes samples anyway (below). */
uint64_t test_seed(void);

/* Counts the days on which a test runs that alternates daily with another one. */
uint64_t test_turn(void);

/* COMPUTE_TEST_SPREAD, or 1: tests with many samples take each n-th. It is for devices that compile
 * anew for every pattern of strides. */
size_t test_spread(void);

/* Returns true if the spread includes sample `number`. */
bool test_in_spread(size_t number);

/* A path that does not exist: below the test's own folder, since any other may exist on some
 * machine. */
#define TEST_NOWHERE TEST_SCRATCH_DIR "/nowhere"

/* COMPUTE_TEST_SAMPLES, or 1: of many samples of one kind, take one in this number. It is for runs
 * that repeat a suite on another configuration. */
size_t test_samples(void);

/* Returns true if the run takes sample `number` of kind `kind`: the first, and then one in
 * test_samples(). Each kind begins with another sample, so that all kinds together cover every
 * sample. With a seed, the seed selects the samples. */
bool test_takes(size_t kind, size_t number);

/* For a few slow samples: with a seed, each third on any device, and the next seed takes the next
 * ones. Without a seed, all. */
bool test_in_turn(size_t number);

/* Compiles a plan of `outputs` for the default device. */
compute_plan *test_compile(const compute_graph *graph, const compute_node *outputs, size_t count,
                           uint32_t flags);

/* Creates a dense tensor on the default device with a copy of `data`; NULL: uninitialised. */
compute_tensor *test_tensor(compute_context *context, compute_dtype dtype, compute_shape shape,
                            const void *data);

/* The same with numbers from −1 to 1. With equal seeds, a shorter tensor is a prefix of a longer
 * one. */
compute_tensor *test_random_tensor(compute_context *context, compute_dtype dtype,
                                   compute_shape shape, uint64_t seed);

/* Reads element `index` of the dense order as a double. */
double test_element(const compute_tensor *tensor, int64_t index);

#endif
