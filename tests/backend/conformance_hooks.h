/* SPDX-License-Identifier: MIT */
/* How compute-conformance makes a driver fail.
 *
 * A module's calls can fail for reasons that no test can bring about from outside: a driver that
 * loses its device, a full card. Who has a fake of the driver, or a layer between the module and
 * the driver, lets it export the function below; `compute-conformance --hooks LIBRARY` finds it
 * there. The suite then makes one call after the other fail, and expects that the module reports
 * each failure with a status and words, leaves nothing in the driver, and works afterwards.
 *
 * Without such a library the suite still fails the module's allocations through compute_services.
 * Nothing here is needed to load or to use a module. */
#ifndef COMPUTE_CONFORMANCE_HOOKS_H
#define COMPUTE_CONFORMANCE_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct conformance_hooks {
  size_t struct_size;

  /* The name of kind number `index` of the driver's calls, and how often it was made since `arm`;
   * NULL past the last kind. */
  const char *(*call_at)(uint32_t index, int64_t *count);

  /* Sets all counts to 0. The `nth` call (from 1) of this kind, or of any kind for NULL, shall fail
   * as the driver would fail it; with `onward` so shall all after it, with `lose` in a way that
   * means that the device is lost. nth 0: nothing fails any more, and a driver that is dead by
   * earlier orders is as new for the instance that is opened next. False if there is no such kind,
   * or if it cannot fail like that: then the suite leaves it out. */
  bool (*arm)(const char *call, int64_t nth, bool onward, bool lose);

  /* How many calls have failed by order since `arm`. */
  int64_t (*failures)(void);

  /* Objects of the driver that nobody has released; `text` (may be NULL) gets what they are. Those
   * of a device that was lost do not count. */
  int64_t (*live)(char *text, size_t bytes);

  /* Optional: how often the module has done what the driver forbids since this was last asked;
   * `text` gets the first. */
  int64_t (*misuse)(char *text, size_t bytes);
} conformance_hooks;

/* The one function to export. */
#define CONFORMANCE_HOOKS_SYMBOL "compute_conformance_hooks"
typedef const conformance_hooks *conformance_hooks_function(void);

#ifdef __cplusplus
}
#endif
#endif
