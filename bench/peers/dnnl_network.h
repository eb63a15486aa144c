/* SPDX-License-Identifier: MIT */
/* The oneDNN peer's tables in other files, each ended by a row without a name. */
#ifndef BENCH_PEERS_DNNL_NETWORK_H
#define BENCH_PEERS_DNNL_NETWORK_H

#include "peer.h"

extern const bench_peer_operation dnnl_conv_operations[], dnnl_layer_operations[];

#endif
