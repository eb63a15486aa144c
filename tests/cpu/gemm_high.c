/* SPDX-License-Identifier: MIT */
/* The tall register tiles of AVX-512, whose A is packed in slivers, for machines without AVX-512: the
 * same source with the same number of rows. */
#define CPU_ISA         high
#define CPU_VARIANT     f32
#define CPU_VARIANT_F32 1
#define GEMM_ROWS       14
#include "gemm/isa/gemm_float.c"
