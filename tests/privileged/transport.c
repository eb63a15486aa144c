/* SPDX-License-Identifier: MIT */
/* Replaces a transport and its MPI: when it is loaded, it loads the libraries that variables name,
 * as Open MPI does with its components and hwloc with its plug-ins. */
#include <dlfcn.h>
#include <stdlib.h>

__attribute__((constructor)) static void load(void) {
  const char *component = getenv("OMPI_MCA_mca_base_component_path");
  const char *plugin = getenv("HWLOC_PLUGINS_PATH");
  if (component) dlopen(component, RTLD_NOW);
  if (plugin) dlopen(plugin, RTLD_NOW);
}
