/* SPDX-License-Identifier: MIT */
/* Pixels of COMPUTE_FIT_READOUT in double precision. */
#ifndef FIT_READOUT_H
#define FIT_READOUT_H

/* Returns the Fisher information about the mean of a Poisson number with added Gaussian noise of
 * this variance, to 1e-4. The information is an integral. It is infinite for a mean of 0 without
 * noise. As in the kernels, variances below 0.05 are treated as 0.05. */
double fit_readout_information(double mean, double variance);

#endif
