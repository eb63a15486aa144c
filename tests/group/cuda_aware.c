/* SPDX-License-Identifier: MIT */
/* Preloaded, it makes the installed MPI claim CUDA awareness. This is true for the stand-in driver:
 * any library can read its device memory. */
__attribute__((visibility("default"))) int MPIX_Query_cuda_support(void);
int MPIX_Query_cuda_support(void) {
  return 1;
}
