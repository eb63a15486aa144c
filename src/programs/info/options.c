/* SPDX-License-Identifier: MIT */
/* The options of compute-info, and the other sections of its manual page. */
#include "programs/info/options.h"

#define AT(field) offsetof(info_arguments, field)

static const option_row rows[] = {
    {"--all", OPTION_FLAG, AT(all),
     .help = "also lists the null device, and what to install for devices that this machine does "
             "not seem to have"},
    {"--variables", OPTION_FLAG, AT(variables),
     .help = "lists every environment variable, not only those that are set"},
    {"--names", OPTION_FLAG, AT(names),
     .help = "prints only the names of the devices, one per line"},
    {"--json", OPTION_FLAG, AT(json), .help = "prints everything as one JSON object"},
    {"--group", OPTION_FLAG, AT(group),
     .help = "prints the group of processes that MPI's launcher has started instead: ranks, hosts, "
             "devices, transport, and the measured times of an all-reduce"},
    {"--pci", OPTION_FILE, AT(pci), .value = "FOLDER",
     .help = "reads the PCI devices from FOLDER instead of /sys/bus/pci/devices", .internal = true},
};

static const char *const synopsis[] = {"[--all] [--variables] [--names | --json]", "--group", NULL};

static const option_section sections[] = {
    {"Exit status",
     "0\tsuccess\n"
     "1\tno device can be used, or not the requested default device; the report says why\n"
     "2\tinvalid arguments",
     true},
    {"Environment",
     "Every variable that libcompute reads is listed by `--variables`, with its meaning and value.",
     false},
    {"Files",
     "$XDG_CACHE_HOME/compute\tcompiled kernels, tuning results and measured costs; "
     "~/.cache/compute "
     "where XDG_CACHE_HOME is not set.",
     false},
    {"Examples",
     "Which devices there are, and which is used by default:\n"
     "  compute-info\n"
     "The memory of each device, for a script:\n"
     "  compute-info --json | jq '.devices[] | {name, memory_total}'\n"
     "Whether four processes find each other, and how fast they exchange data:\n"
     "  mpirun -n 4 compute-info --group",
     false},
    {"See also", "`compute-run`(1), `compute-bench`(1), `compute-tune`(1), `compute-fit`(1)",
     false},
    {0},
};

const option_program info_program = {
    .name = "compute-info",
    .summary = "list libcompute's modules, devices and settings",
    .synopsis = synopsis,
    .description = "Lists libcompute's backend modules (loaded, or why not), devices, the "
                   "environment variables in effect and the cache folder.",
    .rows = rows,
    .row_count = sizeof rows / sizeof *rows,
    .sections = sections,
};
