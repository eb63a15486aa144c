/* SPDX-License-Identifier: MIT */
/* Pixels of COMPUTE_FIT_READOUT in double precision. */
#ifndef FIT_READOUT_H
#define FIT_READOUT_H

/* The Fisher information about the mean of a Poisson number to which Gaussian noise of this
 * variance is added: an integral, to 1e-4. Infinite for a mean of 0 without noise. As in kernels,
 * variances below 0.05 count as that. */
double fit_readout_information(double mean, double variance);

#endif
