/* Simulations that the command line describes. */
#ifndef CLI_FIT_SIMULATE_H
#define CLI_FIT_SIMULATE_H

#include "cli/fit/arguments.h"
#include "cli/fit/camera.h"

/* The simulation for `problem`, without dtype. `maps` may be NULL; they are not copied. */
compute_simulation simulation_from_arguments(const fit_arguments *a,
                                             const compute_fit_problem *problem,
                                             const camera_maps *maps);

#endif
