/* SPDX-License-Identifier: MIT */
/* Opening and closing the module under test. */
#ifndef BACKEND_SUBJECT_H
#define BACKEND_SUBJECT_H

#include "backend/conformance.h"

/* A run without a device: services that are counted, nothing made. */
void subject_prepare(run *r, const subject *s);

/* Opens instance and device. On failure nothing stays open; what the module said is in the
 * services. */
compute_status subject_open(run *r);

/* Closes what is open. */
void subject_close(run *r);

/* A job that calls most of what a module has: every call's failure ends it, and everything that it
 * has made is released. `right` says whether the numbers are what they should be. Call it on an
 * open device. */
compute_status subject_job(run *r, bool *right);

#endif
