/* SPDX-License-Identifier: MIT */
/* Emscripten's futex. Without threads both functions do nothing. */
#include "core/platform/futex.h"

#include <emscripten/threading.h>
#include <math.h>

void futex_wait(_Atomic uint32_t *word, uint32_t expected) {
  (void)emscripten_futex_wait(word, expected, INFINITY);
}

void futex_wake(_Atomic uint32_t *word, int32_t threads) {
  (void)emscripten_futex_wake(word, threads);
}
