/* SPDX-License-Identifier: MIT */
/* Programs with one byte for each value: truth values, and integers whose low byte determines all
 * results. Their registers have one byte for each element, so a vector holds four times as many
 * elements as in 32 bits. And programs that are functions of one byte, which are tables. */
#ifndef CPU_PROGRAM_BYTES_H
#define CPU_PROGRAM_BYTES_H

#include "program/program.h"

/* `true` if a program can compute with bytes; sets the loops of every needed value. */
bool cpu_bytes_read(const compute_program *program, const bool *needed, const compute_dtype *inputs,
                    uint32_t output_count, const compute_dtype *outputs, uint8_t *kind);

/* Makes a prepared step compute with bytes. */
void cpu_bytes_set(const cpu_byte_table *table, const compute_instruction *instruction,
                   uint8_t kind, cpu_step *step);

/* Makes the table of a prepared program that is a function of one byte, if that pays. */
void cpu_bytes_make_table(cpu_device *device, const compute_dtype *inputs,
                          const compute_dtype *outputs, cpu_program *program);

/* Computes a tile from the table; false if there is none, or the operands are not contiguous. */
bool cpu_bytes_look_up(const cpu_program *program, const cpu_tile *tile, cpu_scratch *scratch,
                       bool stream);

#endif
