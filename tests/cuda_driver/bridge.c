/* SPDX-License-Identifier: MIT */
/* The driver's functions for the stand-ins of vendor libraries, which find them with dlsym. */
#include <stdlib.h>

#include "driver_private.h"

EXPORT stand_in_submit_function stand_in_submit;
EXPORT stand_in_on_device_function stand_in_on_device;
EXPORT stand_in_note_function stand_in_note;
EXPORT stand_in_usable_function stand_in_usable;

typedef struct library_operation {
  operation base;
  void (*run)(void *data);
  void *data;
} library_operation;

static void run_it(operation *self, int device) {
  const library_operation *o = (const library_operation *)self;
  (void)device;
  o->run(o->data);
}

static void release_it(operation *self) {
  free(((library_operation *)self)->data);
}

int32_t stand_in_submit(void *on, void (*run)(void *data), void *data) {
  const cuda_result lost = stand_in_lost(current_device());
  library_operation *o = lost ? NULL : operation_create(sizeof *o, run_it);
  if (!o) {
    free(data);
    return lost ? lost : CUDA_OUT_OF_MEMORY;
  }
  o->base.release = release_it;
  o->run = run;
  o->data = data;
  return stream_submit(on, o);
}

bool stand_in_on_device(const void *address, uint64_t bytes) {
  return memory_is_on_device(address, bytes);
}

void stand_in_note(const char *words) {
  stand_in_misused("%s", words);
}

int32_t stand_in_usable(void) {
  return current_device() < 0 || stand_in_lost(current_device())
             ? 0
             : (int32_t)stand_in_machine.driver_version;
}
