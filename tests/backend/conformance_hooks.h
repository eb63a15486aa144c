/* SPDX-License-Identifier: MIT */
/* How compute-conformance makes a driver fail.
 *
 * A module's calls can fail for reasons that no test can cause from outside: a lost device, a full
 * card. If you have a fake driver, or a layer between the module and the driver, let it export the
 * function below; `compute-conformance --hooks LIBRARY` finds it there. The suite then makes the
 * driver's calls fail one after the other. It expects that the module reports each failure with a
 * status and a message, leaves nothing in the driver, and works afterwards.
 *
 * Without such a library, the suite still fails the module's allocations through compute_services.
 * No module needs this header. */
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

  /* Returns the name of kind number `index` of the driver's calls and sets the number of its calls
   * since `arm`; NULL past the last kind. */
  const char *(*call_at)(uint32_t index, int64_t *count);

  /* Resets all counts. Call number `nth` (from 1) of this kind, or of any kind for NULL, then fails
   * like the driver's call. With `onward`, so do all later calls; with `lose`, the failure means a
   * lost device. nth 0: no more failures, and a driver that earlier failures have ended works again
   * for the next instance. Returns false if there is no such kind, or if it cannot fail in this
   * way; the suite then skips it. */
  bool (*arm)(const char *call, int64_t nth, bool onward, bool lose);

  /* Number of injected failures since `arm`. */
  int64_t (*failures)(void);

  /* Number of the driver's unreleased objects; `text` (may be NULL) gets their description. A lost
   * device's objects do not count. */
  int64_t (*live)(char *text, size_t bytes);

  /* Optional: number of the module's forbidden calls since the last query; `text` gets the
   * first. */
  int64_t (*misuse)(char *text, size_t bytes);
} conformance_hooks;

/* The only function to export. */
#define CONFORMANCE_HOOKS_SYMBOL "compute_conformance_hooks"
typedef const conformance_hooks *conformance_hooks_function(void);

#ifdef __cplusplus
}
#endif
#endif
