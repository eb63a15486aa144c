/* The CPU as a device: opening, what it says of itself, and its memory. */
#ifndef CPU_DEVICE_H
#define CPU_DEVICE_H

#include "cpu.h"

compute_status cpu_device_open(const compute_services *services, cpu_device **device);
void cpu_device_close(cpu_device *device);
compute_status cpu_device_describe(cpu_device *device, compute_device_info *info);

compute_status cpu_memory_allocate(cpu_device *device, uint64_t bytes, compute_memory *memory);
compute_status cpu_memory_import(cpu_device *device, void *data, uint64_t bytes,
                                 compute_memory *memory);
void cpu_memory_release(cpu_device *device, compute_memory *memory);

/* memory_total and memory_free (both may be NULL) in bytes, of the machine or of the control group
 * that this process lives in, whichever is less. */
void cpu_memory_query(uint64_t *total, uint64_t *available);

/* The list behind cpu_workspace_acquire. NULL when memory is short. */
struct cpu_workspaces *cpu_workspaces_create(cpu_device *device);
void cpu_workspaces_release(cpu_device *device, struct cpu_workspaces *workspaces);

/* Copies dense bytes with all threads; past the caches when they could not hold it anyway. The
 * ranges may overlap. */
void cpu_copy_bytes(const cpu_device *device, void *destination, const void *source,
                    uint64_t bytes);

#endif
