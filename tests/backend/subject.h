/* SPDX-License-Identifier: MIT */
/* Opens and closes the module under test. */
#ifndef BACKEND_SUBJECT_H
#define BACKEND_SUBJECT_H

#include "backend/conformance.h"

/* Initialises a run without a device: counted services and no objects. */
void subject_prepare(run *r, const subject *s);

/* Opens an instance and a device. On failure nothing stays open; the services hold the module's
 * message. */
compute_status subject_open(run *r);

/* Closes everything that is open. */
void subject_close(run *r);

/* A job that calls most slots of a module. Any failing call ends it, and it releases all its
 * objects. `right` is true if the numbers are correct. Call it on an open device. */
compute_status subject_job(run *r, bool *right);

#endif
