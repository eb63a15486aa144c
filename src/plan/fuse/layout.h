/* Where the elements of every node lie. */
#ifndef PLAN_LAYOUT_H
#define PLAN_LAYOUT_H

#include "plan/fuse/fuse.h"

/* Fills layouts[i] for every live node. A view that needs a copy is its own base. */
void layout_resolve(const ir *r, layout *layouts);

/* The layout of view n over x, whose layout is `from`; false if strides cannot express it. */
bool layout_view(const ir_node *n, const ir_node *x, const layout *from, layout *l);

#endif
