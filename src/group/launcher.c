/* SPDX-License-Identifier: MIT */
/* Finds the transport that connects this process to others, and loads its module. */
#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/process.h"
#include "core/base/variable.h"
#include "core/device/registry.h"
#include "core/platform/library.h"
#include "core/platform/names.h"
#include "group/group.h"

static const char operation[] = "compute_group_open";

/* ---- By the launcher's variables ------------------------------------------------------------- */

/* The first variable that is set decides. Slurm sets its variables for every MPI. A program with
 * raised privileges reads none of them: each would load an MPI, and an MPI loads whatever other
 * variables of the caller name. Such a program is alone unless its options name a transport. */
static const struct {
  const char *variable, *transport;
} launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "openmpi"},
    {"PMIX_RANK", "openmpi"},
    {"PMI_RANK", "mpich"},
};

static compute_status name_by_environment(compute_context *context, const char **name) {
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
    if (!variable_text(launchers[i].variable)) continue;
    *name = launchers[i].transport;
    return COMPUTE_OK;
  }
  *name = group_alone.name;
  const int64_t tasks = variable_integer("SLURM_STEP_NUM_TASKS", 0, INT32_MAX, 0);
  if (tasks <= 1) return COMPUTE_OK;
  return error_set_native(context, COMPUTE_ERROR_BACKEND_LOAD, 0, operation,
                          "start it with srun --mpi=pmix or --mpi=pmi2, or set "
                          "COMPUTE_TRANSPORT=none for separate processes",
                          "srun has started %d processes without a way for MPI to connect them",
                          (int)tasks);
}

compute_status group_check_size(compute_context *context, int32_t size) {
  const int64_t tasks = variable_integer("SLURM_STEP_NUM_TASKS", 0, INT32_MAX, 0);
  if (tasks <= 1 || size > 1) return COMPUTE_OK;
  return error_set_native(
      context, COMPUTE_ERROR_BACKEND_LOAD, 0, operation,
      "set COMPUTE_TRANSPORT to openmpi or mpich, whichever fits the option "
      "--mpi of srun",
      "srun has started %d processes, but MPI connects this one to none of them", (int)tasks);
}

/* ---- Modules --------------------------------------------------------------------------------- */

static compute_status no_module(compute_context *context, const char *name, const char *why) {
  return error_set_native(context, COMPUTE_ERROR_BACKEND_LOAD, 0, operation,
                          "install libcompute's package for this MPI, or start the program with "
                          "another launcher",
                          "no transport '%.40s': %.300s", name, why);
}

/* Checks that every function that the core calls is present. */
static const char *problem_of(const compute_transport *t) {
  if (t->abi_major != COMPUTE_TRANSPORT_ABI_MAJOR) return "it is for another version of libcompute";
  if (t->struct_size < offsetof(compute_transport, test) + sizeof t->test)
    return "its table of functions is too short";
  const bool complete = t->name && t->prepare && t->open && t->close && t->error_text &&
                        t->exchange && t->gather && t->broadcast && t->send && t->receive &&
                        t->test;
  return complete ? NULL : "its table of functions has gaps";
}

/* Loads a transport module. The library stays loaded, since MPI cannot be unloaded. Its symbols are
 * global because its plug-ins need them. */
static compute_status load(compute_context *context, const char *name, const char *path,
                           const compute_transport **transport) {
  char reason[256];
  int problem;
  if (!library_loader_works())
    return no_module(context, name, "the program is linked statically and cannot load modules");
  if (!library_file_check(path, reason, sizeof reason, &problem))
    return no_module(context, name, reason);
  process_load_begin();
  void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  void *symbol = library ? dlsym(library, COMPUTE_TRANSPORT_ENTRY) : NULL;
  process_load_end();
  if (!library) {
    const char *words = dlerror();
    return no_module(context, name, words ? words : "the loader gives no reason");
  }
  compute_transport_entry_function entry = NULL;
  memcpy(&entry, &symbol, sizeof symbol); /* ISO C does not allow this cast */
  const compute_transport *t = entry ? entry() : NULL;
  const char *why = t ? problem_of(t) : "it has no symbol " COMPUTE_TRANSPORT_ENTRY;
  if (why) {
    process_load_begin();
    dlclose(library);
    process_load_end();
    return no_module(context, name, why);
  }
  log_write(COMPUTE_LOG_INFO, "group", "transport %s from %s", t->name, path);
  *transport = t;
  return COMPUTE_OK;
}

compute_status group_find_transport(compute_context *context, const char *name,
                                    const compute_transport **transport) {
  char file[64], path[PATH_MAX];
  compute_status status = COMPUTE_OK;
  if (!name) name = variable_text("COMPUTE_TRANSPORT");
  if (!name) status = name_by_environment(context, &name);
  if (status) return status;
  if (strcmp(name, group_alone.name) == 0) {
    *transport = &group_alone;
    return COMPUTE_OK;
  }
  if (!names_backend_is_valid(name))
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "invalid transport '%.40s': a name has lower-case letters, digits and '_'",
                     name);
  snprintf(file, sizeof file, "libcompute-transport-%s" PLATFORM_MODULE_SUFFIX, name);
  if (!module_find_file(context, file, path, sizeof path)) {
    char why[160];
    snprintf(why, sizeof why, "%s is in none of the folders for modules", file);
    return no_module(context, name, why);
  }
  return load(context, name, path, transport);
}
