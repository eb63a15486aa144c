/* SPDX-License-Identifier: MIT */
#ifndef CPU_ISA_PIN_H
#define CPU_ISA_PIN_H

/* PIN keeps a vector in a register. Otherwise gcc folds the load into each instruction that uses
 * it, and so loads it repeatedly. */
#if defined(__AVX512F__)
#define PIN(vector) __asm__("" : "+v"(vector))
#elif defined(__SSE2__)
#define PIN(vector) __asm__("" : "+x"(vector))
#elif defined(__aarch64__)
#define PIN(vector) __asm__("" : "+w"(vector))
#else
#define PIN(vector) ((void)(vector))
#endif

#endif
