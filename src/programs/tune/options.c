/* SPDX-License-Identifier: MIT */
/* The options of compute-tune, and the other sections of its manual page. */
#include <float.h>

#include "programs/tune/tune.h"

#define AT(field) offsetof(tune_arguments, field)

/* The kinds that have parameters; a test compares them with compute_tune's. */
static const char *const kinds[] = {
    "map",    "reduce", "row",   "gemm",      "gather", "scatter",  "copy",    "conv", "fit",
    "window", "scan",   "top_k", "attention", "sort",   "bincount", "fourier", "all",  NULL};

static const option_row rows[] = {
    {"--device", OPTION_DEVICE, AT(device), .value = "NAME",
     .help = "the device; default: the first that can be tuned", .section = "Tuning"},
    {"--suite", OPTION_NAMES, AT(options.suite), .value = "KINDS",
     .help = "kinds of kernels separated by commas (gemm,conv), or all (default)",
     .choices = kinds},
    {"--quick", OPTION_FLAG, AT(options.quick), .help = "few problems and few candidates"},
    {"--dry-run", OPTION_FLAG, AT(options.dry),
     .help = "measures, but saves nothing; with --costs: shows the figures in effect"},
    {"--limit", OPTION_NUMBER, AT(options.total_seconds), .value = "SECONDS",
     .help = "time for the whole run; with --costs: for each device, default 10", .least = DBL_MIN,
     .most = 1e9},
    {"--candidate-limit", OPTION_NUMBER, AT(options.candidate_seconds), .value = "SECONDS",
     .help = "time for running one set of parameters; default 1", .least = DBL_MIN, .most = 1e9},
    {"--import", OPTION_FILE, AT(import_path), .value = "FILE",
     .help = "adds the entries of another tuning file to this machine's",
     .section = "Tuning files"},
    {"--export", OPTION_FILE, AT(export_path), .value = "FILE",
     .help = "writes the entries in effect, of --device or of all; - is standard output"},
    {"--list", OPTION_FLAG, AT(list), .help = "shows the entries in effect"},
    {"--costs", OPTION_FLAG, AT(costs),
     .help = "measures what launches, copies and kernels cost on --device or on all devices",
     .more = "Automatic placement uses these figures.", .section = "Costs"},
};

static const char *const synopsis[] = {"[--device NAME] [--suite KINDS] [--quick] [OPTION...]",
                                       "[--import FILE] [--export FILE] [--list] [--device NAME]",
                                       "--costs [--device NAME] [--dry-run] [--limit SECONDS]",
                                       NULL};

static const option_section sections[] = {
    {"Exit status",
     "0\tsuccess\n1\tsomething failed\n2\tinvalid arguments\n130\tinterrupted by Ctrl-C; results "
     "up to then are kept",
     true},
    {"Environment",
     "COMPUTE_TUNING_FILE\tthe tuning file; none: no file.\n"
     "COMPUTE_CACHE_DIR\tthe folder of the tuning file, without COMPUTE_TUNING_FILE.",
     false},
    {"Files",
     "$XDG_CACHE_HOME/compute/tuning\tthe tuning file; ~/.cache/compute/tuning where "
     "XDG_CACHE_HOME "
     "is not set.\n"
     "$XDG_CACHE_HOME/compute/tuning.costs\tthe figures of `--costs`.",
     false},
    {"Examples",
     "  compute-tune --device opencl:0 --suite gemm,conv --limit 600\n"
     "  compute-tune --export tuning.txt\n"
     "  compute-tune --costs",
     false},
    {"See also", "`compute-info`(1), docs/internals/tuning.md", false},
    {0},
};

const option_program tune_program = {
    .name = "compute-tune",
    .summary = "find the fastest parameters of generated kernels",
    .synopsis = synopsis,
    .description =
        "Measures parameters for the kernels that libcompute generates for a device, checks their "
        "results against the CPU's, and stores faster ones in the tuning file, where every program "
        "finds them. Without options, too, it tunes the first device that can be tuned and adds to "
        "that file; --dry-run saves nothing. Ctrl-C ends the run; results up to then are kept.",
    .rows = rows,
    .row_count = sizeof rows / sizeof *rows,
    .sections = sections,
};
