/* SPDX-License-Identifier: MIT */
/* Data sets in IDX files, plain and compressed. */
#include "compute/compute.h"
#include "fuzz.h"
#include "io/npy.h"

static compute_device *device;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  compute_context *context;
  FUZZ_CHECK(compute_open(&context, &(compute_open_options){
                                        .backends = "null", .device = "null", .threads = 1}) == 0);
  device = compute_default_device(context);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  compute_tensor *tensor = NULL;
  compute_status status = idx_read("fuzz", device, fuzz_file(data, size), &tensor);
  FUZZ_CHECK((status == COMPUTE_OK) == (tensor != NULL));
  compute_tensor_release(tensor);
  return 0;
}
