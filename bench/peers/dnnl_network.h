/* SPDX-License-Identifier: MIT */
/* The tables of the peer oneDNN that have files of their own, each ended by a row without a name.
 */
#ifndef BENCH_PEERS_DNNL_NETWORK_H
#define BENCH_PEERS_DNNL_NETWORK_H

#include "peer.h"

extern const bench_peer_operation dnnl_conv_operations[], dnnl_layer_operations[];

#endif
