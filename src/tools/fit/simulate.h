/* Simulations that the command line describes. */
#ifndef TOOLS_FIT_SIMULATE_H
#define TOOLS_FIT_SIMULATE_H

#include "tools/fit/options.h"
#include "tools/fit/camera.h"

/* The simulation for `problem`, without dtype. `maps` may be NULL; they are not copied. */
compute_simulation simulation_from_arguments(const fit_arguments *a,
                                             const compute_fit_problem *problem,
                                             const camera_maps *maps);

#endif
