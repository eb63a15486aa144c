/* SPDX-License-Identifier: MIT */
/* The options of compute-conformance and the other parts of its manual page. */
#include "backend/options.h"

#define AT(field) offsetof(options, field)

static const option_row rows[] = {
    {"--module", OPTION_FILE, AT(module), .value = "FILE",
     .help = "a module libcompute-NAME.so; DEVICE may then be left out: NAME:0",
     .section = "What is checked"},
    {"--filter", OPTION_TEXT, AT(filter), .value = "PATTERN",
     .help = "only cases whose names contain PATTERN, or match it if it has a '*'"},
    {"--list", OPTION_FLAG, AT(list), .help = "prints the names of the cases, and runs none"},
    {"--hooks", OPTION_FILE, AT(hooks), .value = "LIBRARY",
     .help = "a library that makes the driver fail (compute/conformance_hooks.h)"},
    {"--quick", OPTION_FLAG, AT(quick), .help = "fewer kernels"},
    {"--full", OPTION_FLAG, AT(full),
     .help = "all kernels in all tunings; default: all kernels, but a share of them where each "
             "takes a compiler"},
    {"--seed", OPTION_COUNT, AT(seed), .value = "NUMBER",
     .help = "which share; default: COMPUTE_TEST_SEED, or the date", .least = 0,
     .most = MANY_COUNT},
    {"--expect", OPTION_FILE, AT(expect), .value = "FILE",
     .help = "the expected outcomes; what differs is a failure",
     .more = "The lines are 'refused PATTERN # reason', or 'failed' or 'passed'. The first line "
             "that matches a case counts; a case without a line must pass; a line that no case "
             "matches is an error.",
     .section = "Results"},
    {"--write-expect", OPTION_FILE, AT(write_expect), .value = "FILE",
     .help = "writes such a file from the outcomes"},
    {"--json", OPTION_FILE, AT(json), .value = "FILE", .help = "writes the outcome of each case"},
    {"--verbose", OPTION_FLAG, AT(verbose), .help = "prints every case with its outcome"},
    {"--quiet", OPTION_FLAG, AT(quiet), .help = "shows no progress"},
};

static const char *const synopsis[] = {"[OPTION...] DEVICE", "[OPTION...] --module FILE [DEVICE]",
                                       NULL};

static const option_section sections[] = {
    {"Exit status",
     "0\tnothing failed and, with --expect, every outcome was as expected\n"
     "1\tsomething failed\n"
     "2\tinvalid arguments, or the device does not exist",
     true},
    {"Environment",
     "COMPUTE_BACKEND_PATH\tfolders of modules, before the installed ones.\n"
     "COMPUTE_TEST_SEED\twhich share of the kernels is run, if `--seed` does not say it.\n"
     "COMPUTE_TEST_SPREAD\tone kernel of this number is run.",
     false},
    {"Examples",
     "  compute-conformance cpu\n"
     "  compute-conformance --module ./libcompute-yours.so --filter kernel/gemm",
     false},
    {"See also", "`compute-info`(1), docs/internals/backends.md", false},
    {0},
};

const option_program conformance_program = {
    .name = "compute-conformance",
    .summary = "check a backend module of libcompute",
    .synopsis = synopsis,
    .description = "Checks that a backend keeps the promises of compute/backend.h, on one of its "
                   "devices (cpu, opencl:0, yours:0, ...).",
    .operand = OPTION_DEVICE,
    .rows = rows,
    .row_count = sizeof rows / sizeof *rows,
    .sections = sections,
};
