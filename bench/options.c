/* SPDX-License-Identifier: MIT */
/* The options of compute-bench, and the other sections of its manual page. */
#include "bench.h"

#define AT(field) offsetof(bench_options, field)

static const char *const suites[] = {
#define SUITE(name) #name,
    BENCH_SUITES(SUITE)
#undef SUITE
        NULL};

static const char *const peers[] = {"openblas", "dnnl", "torch", "none", NULL};
static const char *const plants[] = {"wrong", "miss", "leak", "crash", "hang", NULL};

static const option_row rows[] = {
    {"--suite", OPTION_WORDS, AT(suites), .value = "A,B",
     .help = "only these suites; default: all (--list names them)", .choices = suites,
     .section = "What is measured"},
    {"--filter", OPTION_TEXT, AT(filter), .value = "A,B",
     .help = "only cases whose name, or suite/name, matches a pattern: 'matmul_*,reduce/*'"},
    {"--quick", OPTION_FLAG, AT(quick),
     .help = "fewer and smaller cases, fewer repetitions: less than a minute"},
    {"--device", OPTION_DEVICE, AT(device), .value = "NAME",
     .help = "the device to measure: cpu, cuda:0, ...; default: the best"},
    {"--threads", OPTION_COUNT, AT(threads), .value = "N",
     .help = "CPU threads, of libcompute and of the peers", .least = 1, .most = 4096},
    {"--peers", OPTION_NAMES, AT(peers), .value = "A,B",
     .help = "compares only with these libraries, or with none; default: all that are found",
     .choices = peers},
    {"--prepare", OPTION_FLAG, AT(prepare),
     .help = "runs every case once, so that its kernels are in the kernel cache, and measures "
             "nothing"},
    {"--list", OPTION_FLAG, AT(list), .help = "lists suites and cases, and measures nothing"},
    {"--json", OPTION_FILE, AT(json), .value = "FILE",
     .help = "also writes the records as JSON; see docs/performance/index.md",
     .section = "Results"},
    {"--wide", OPTION_FLAG, AT(wide),
     .help = "also shows the 10th and 90th percentiles and the fraction of the machine's limit; "
             "the default on terminals of 130 columns or more"},
    {"--strict", OPTION_FLAG, AT(strict), .help = "counts a missed goal as a failure"},
    {"--commit", OPTION_TEXT, AT(commit), .value = "ID",
     .help = "a name for what is measured, recorded in the JSON"},
    {"--first-result", OPTION_FLAG, AT(first_result),
     .help = "only runs a small graph once and prints the time in milliseconds; the cases "
             "first_result_* start this in separate processes",
     .internal = true},
    {"--fit-memory", OPTION_FLAG, AT(fit_memory),
     .help = "only fits ten million ROIs; the case fit/XYNB_7_10M_u16 starts this",
     .internal = true},
    {"--plant", OPTION_WORD, AT(plant), .value = "WHAT",
     .help = "plants a fault in every case, to test this program: wrong, miss, leak, crash "
             "or hang",
     .choices = plants, .internal = true},
};

static const char *const synopsis[] = {"[--suite A,B] [--quick] [--device NAME] [OPTION...]", NULL};

static const option_section sections[] = {
    {"Exit status",
     "0\tall results are right\n"
     "1\ta wrong result, a leak, a crash or a hang, named on the last line\n"
     "2\tinvalid arguments\n"
     "130\tinterrupted by Ctrl-C or SIGTERM, after the case that was running; what was measured "
     "before it is right, and in the table and in the file of `--json`",
     true},
    {"Records",
     "A record of `--json` has suite, case, device, dtype, ms (median), ms_p10, ms_p90, gflops, "
     "gbytes_s, max_rel_err and ok. Numbers that do not apply to the case are null. GB/s counts "
     "every input read once and every output written once.\n"
     "A record that is not ok also has an object failure: what was checked, what was seen, what is "
     "allowed (at most, or with least, at least), the unit, and all of it as text. One with a goal "
     "for its time has an object goal of the same kind, with met.\n"
     "Records of fits have an object fit: the rate, also on one thread, and the quality of the "
     "fits; those of networks an object training: samples per second, and planned and measured "
     "memory "
     "where the case is about memory.\n"
     "Records of the suite group have an object group: the ranks, the bytes of a call or the items "
     "of a step over all ranks, and the times of a step whose communication follows the backward "
     "pass and of one without communication. GB/s counts the bytes once. Records with simulated "
     "come from a model.\n"
     "A case measured against several peers gives one record for each, which differ in peer, "
     "peer_ms and speedup (peer_ms / ms).",
     false},
    {"Environment",
     "NO_COLOR\tIf set, failures are not coloured; they are only coloured on a terminal.\n"
     "OPENBLAS_CORETYPE, OPENBLAS_L2_SIZE\tcan make OpenBLAS run code for another processor; a "
     "comparison with it is then worthless.\n"
     "COMPUTE_TRANSPORT=link, BENCH_LINK=GBYTES_S,MICROSECONDS\tIn the suite group: makes what "
     "connects the ranks as slow as a network.\n"
     "`compute-info --variables` lists every variable that libcompute reads.",
     false},
    {"Files", "lib/compute-peers/peer-*.so\tthe libraries to compare with.", false},
    {"Examples",
     "  compute-bench --quick\n"
     "  compute-bench --suite matmul,reduce --device opencl:0 --json bench.json\n"
     "  compute-bench --filter 'softmax*' --peers torch\n"
     "  compute-bench --suite conv --device cuda:0 --prepare\n"
     "  mpirun -n 4 compute-bench --suite group --threads 1",
     false},
    {"See also", "`compute-info`(1), docs/performance/index.md", false},
    {0},
};

const option_program bench_program = {
    .name = "compute-bench",
    .summary = "measure libcompute on this machine",
    .synopsis = synopsis,
    .description =
        "Measures libcompute. Every result is first compared with a reference in double precision, "
        "and is a failure if its error is above the operation's bound. A time that misses its goal "
        "is shown beside the goal and is not a failure: other programs may keep the machine busy.\n"
        "Peers (other libraries) are measured on the same arrays in the same process, in turn with "
        "libcompute, and their results must also agree with the reference.",
    .rows = rows,
    .row_count = sizeof rows / sizeof *rows,
    .sections = sections,
};
