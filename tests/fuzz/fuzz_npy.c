/* SPDX-License-Identifier: MIT */
/* NumPy arrays. */
#include "compute/compute.h"
#include "fuzz.h"

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
  const char *path = fuzz_file(data, size);
  compute_npy_info info;
  compute_tensor *tensor;
  compute_status status = compute_npy_inspect(NULL, path, &info);
  FUZZ_CHECK(status || (info.offset <= size && info.bytes <= size - info.offset));
  /* The null device has no kernels to transpose the array. */
  if (!status && info.fortran_order) return 0;
  compute_status read = compute_npy_read(device, path, &tensor);
  FUZZ_CHECK((read == COMPUTE_OK) == (tensor != NULL));
  FUZZ_CHECK(status || read == COMPUTE_OK);
  FUZZ_CHECK(!status || read == status);
  compute_tensor_release(tensor);
  return 0;
}
