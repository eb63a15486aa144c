/* SPDX-License-Identifier: MIT */
/* Programs that time one case after the other beside peers, which alternate in one run. */
#ifndef BENCH_ALTERNATE_H
#define BENCH_ALTERNATE_H

#include <compute/compute.h>

/* One competitor: `run` does the work of a case once. run NULL: it cannot. */
typedef struct alternate_side {
  compute_status (*run)(void *state);
  void *state;
  double seconds; /* of the processor for a run, the least mean of all rounds; −1 after a failure */
} alternate_side;

/* Times all sides in each of `rounds` rounds, with so many runs that a round takes a millisecond.
 * Slow cases have fewer rounds. */
void alternate_measure(alternate_side *sides, size_t count, int rounds);

/* Opens a library's functions: pairs of a name and the address of a function pointer. Returns false
 * with a reason on the error stream. */
typedef struct alternate_symbol {
  const char *name;
  void *pointer;
} alternate_symbol;
bool alternate_open(const char *const *files, const char *package, const alternate_symbol *symbols,
                    size_t count);

/* The main function: arguments [ROUNDS [CASE]], a context with one thread on the CPU, all cases or
 * one. A number beyond the cases does nothing. */
typedef compute_status (*alternate_case)(compute_context *context, size_t number, int rounds);
int alternate_main(int argc, char **argv, size_t cases, alternate_case run_case);

#endif
