/* SPDX-License-Identifier: MIT */
/* Preloaded, it lets the installed MPI claim that it reads the memory of GPUs: that of the stand-in
 * for the driver any library can read. */
__attribute__((visibility("default"))) int MPIX_Query_cuda_support(void);
int MPIX_Query_cuda_support(void) {
  return 1;
}
