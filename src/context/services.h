/* SPDX-License-Identifier: MIT */
/* The services of the core for its modules (compute_services). */
#ifndef CONTEXT_SERVICES_H
#define CONTEXT_SERVICES_H

#include "core/device/device.h"

/* Fills context->services; its host is the context. */
void services_fill(compute_context *context);

#endif
