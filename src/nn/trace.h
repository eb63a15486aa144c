/* What a summary notes while a network is recorded. */
#ifndef NN_TRACE_H
#define NN_TRACE_H

#include "nn/layer.h"

/* Notes a leaf: the nodes from `first` on are its own. Fails by the graph's error. */
void trace_add(layer_record *record, const compute_layer *layer, const char *name, size_t first,
               compute_node result);

void trace_release(layer_trace *trace);

#endif
