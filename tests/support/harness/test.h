/* SPDX-License-Identifier: MIT */
/* What every cmocka test includes: cmocka with the headers that it needs before it, and checks of
 * a status that print the library's own words when they fail. */
#ifndef SUPPORT_TEST_H
#define SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "compute/compute.h"

/* The call succeeds; if not, its error message becomes the test's failure. */
#define assert_ok(call) test_check_status((call), COMPUTE_OK, #call, __FILE__, __LINE__)

/* The call fails with just this status, and a message stands beside it. */
#define assert_fails(call, expected)                                                               \
  test_check_status((call), (expected), #call, __FILE__, __LINE__)

void test_check_status(compute_status actual, compute_status expected, const char *call,
                       const char *file, int line);

/* The last error's message contains `part`. */
void test_check_message(const compute_context *context, const char *part);

/* Ends the test as skipped, and says why. A test that cannot run here never just returns
 * (tests/rooms/check_tests.py). */
void test_skip(const char *reason);

/* As cmocka does it, and 77 if each test was skipped. */
#undef cmocka_run_group_tests
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
  test_run_group(#tests, (tests), sizeof(tests) / sizeof *(tests), (setup), (teardown))
int test_run_group(const char *name, const struct CMUnitTest *tests, size_t count,
                   CMFixtureFunction setup, CMFixtureFunction teardown);

/* A time that is hoped for: above `goal` a line says so, and nothing fails, because others may keep
 * the machine busy. What must hold on every machine is tested by what can be counted. */
void test_time(const char *what, const char *unit, double seen, double goal);

/* A context whose default device is the device under test: COMPUTE_TEST_DEVICE, or "cpu". */
compute_context *test_open(void);

/* Closes it; fails the test if the library says that something is left. */
void test_close(compute_context *context);

/* A context for all tests of a file: give the two functions to cmocka_run_group_tests. */
extern compute_context *test_context;
int test_group_open(void **state);
int test_group_close(void **state);

/* COMPUTE_TEST_SEED: of many samples take a third, on devices that compile a quarter or less;
 * others for another number. tests/run.sh gives the day's, so that short runs see everything in
 * time. 0 without it.
 *
 * COMPUTE_TEST_SAMPLE_SEED: the same where a run takes samples only anyway (below). */
uint64_t test_seed(void);

/* Counts the days on which a test runs that takes turns with another one, by days. */
uint64_t test_turn(void);

/* COMPUTE_TEST_SPREAD, for devices that compile anew for every pattern of strides: tests of many
 * samples take each n-th. 1 without it. */
size_t test_spread(void);

/* Whether sample number `number` is among those. */
bool test_in_spread(size_t number);

/* A path where nothing is: below the test's own folder, since any other exists on some machine. */
#define TEST_NOWHERE TEST_SCRATCH_DIR "/nowhere"

/* COMPUTE_TEST_SAMPLES, for runs that repeat a suite elsewhere: of many samples of one kind take
 * one in so many. 1 without it. */
size_t test_samples(void);

/* Whether sample number `number` of a kind is among those, for kind number `kind`: the first, and
 * then one in so many, beginning with another one for each kind, so that together the kinds see
 * every sample. With a seed, which ones is left to it. */
bool test_takes(size_t kind, size_t number);

/* Of few samples that take long: with a seed each third, with the next seed the next ones, on any
 * device; without a seed all. */
bool test_in_turn(size_t number);

/* A compiled plan of `outputs` for the default device. */
compute_plan *test_compile(const compute_graph *graph, const compute_node *outputs, size_t count,
                           uint32_t flags);

/* A dense tensor on the default device with a copy of `data`, or uninitialised for NULL. */
compute_tensor *test_tensor(compute_context *context, compute_dtype dtype, compute_shape shape,
                            const void *data);

/* The same with numbers from −1 to 1; equal seeds give tensors of which one begins with the other's
 * elements. */
compute_tensor *test_random_tensor(compute_context *context, compute_dtype dtype,
                                   compute_shape shape, uint64_t seed);

/* Reads the only element, or element `index` of the dense order, as double. */
double test_element(const compute_tensor *tensor, int64_t index);

#endif
