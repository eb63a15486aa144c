/* The profile of a context that is about to close; compute/profile.h has the public part. */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include "compute/profile.h"

/* Writes the profile to the file that COMPUTE_PROFILE names, if it names one. Called while all
 * devices are still open. A failure is logged, and no error is set. */
void profile_at_close(compute_context *context);

#endif
