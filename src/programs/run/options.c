/* SPDX-License-Identifier: MIT */
/* The options of compute-run, and the other sections of its manual page. */
#include <float.h>

#include "programs/run/run.h"

#define AT(field) offsetof(run_arguments, field)

static const char *const methods[] = {"static", "weights", "f16", "bf16", NULL};
static const char *const ranges[] = {"min-max", "percentile", "entropy", "mse", NULL};
static const char *const roundings[] = {"search", "nearest", "gptq", NULL};
static const char *const layouts[] = {"auto", "nchw", "nhwc", NULL};

static const option_row rows[] = {
    {"--input", OPTION_FILE, AT(inputs), .letter = 'i', .value = "NAME=FILE",
     .help = "an input from a .npy, a PNG, or the tensor NAME of a .npz or .safetensors; may be "
             "given for each input",
     .more = "Without `NAME=`, a .npz or .safetensors gives every input for which it has a tensor, "
             "and any other file gives the model's only input. Inputs that are not given are "
             "random, or keep the model's default.",
     .many = true, .section = "Inputs"},
    {"--shape", OPTION_TEXT, AT(shapes), .value = "NAME=SIZES",
     .help = "the shape of a random input, 1x3x224x224, or a size named NAME in the model; may be "
             "repeated",
     .more = "By default, a size that the model leaves open is 1.", .many = true},
    {"--seed", OPTION_COUNT, AT(seed), .value = "N",
     .help = "other random inputs: floats in [0, 1), u8 from 0 to 255, other integers 0 or 1",
     .more =
         "Above 0 it is also the seed of the model's random operators that have none. Otherwise "
         "these draw other numbers in each run.",
     .most = MANY_COUNT},
    {"--layout", OPTION_CHOICE, AT(layout), .value = "LAYOUT",
     .help = "order of an image's axes: nchw, nhwc, or auto (default), by the model's sizes",
     .choices = layouts, .section = "Images"},
    {"--resize", OPTION_SIZE, AT(resize), .value = "RxC",
     .help = "resizes images to rows x columns, with a triangle filter", .least = 1, .most = 32768},
    {"--mean", OPTION_LIST, AT(mean), .value = "LIST",
     .help = "subtracted from the values 0 to 255 of an image's channels; default 0",
     .least = -DBL_MAX, .most = 4},
    {"--scale", OPTION_LIST, AT(scale), .value = "LIST",
     .help = "factor applied after that; default 1/255, for integer inputs 1", .least = -DBL_MAX,
     .most = 4},
    {"--device", OPTION_DEVICE, AT(device), .letter = 'd', .value = "NAME",
     .help = "the device, or auto to place every step where it is fastest", .section = "Running"},
    {"--map", OPTION_FLAG, AT(map),
     .help = "maps the model's files even if other users may write them",
     .more =
         "By default a file that another user may write is read into memory, others are mapped: "
         "one whose owner is neither you nor root, or that its group or everybody may write. "
         "If a mapped file becomes shorter, the program is killed (SIGBUS)."},
    {"--fast-formulas", OPTION_FLAG, AT(fast_formulas),
     .help = "one operation for a formula also where that differs if squares overflow"},
    {"--bench", OPTION_COUNT, AT(bench), .letter = 'n', .value = "N",
     .help = "runs it N more times and prints the times", .least = 1, .most = 1e7},
    {"--output", OPTION_FILE, AT(output), .letter = 'o', .value = "FILE",
     .help = "writes the outputs as .npz or .safetensors, but no texts and no sequences",
     .section = "Results"},
    {"--compare", OPTION_FILE, AT(compare), .letter = 'c', .value = "FILE",
     .help = "compares the outputs with the tensors of the same names in a .npz or .safetensors"},
    {"--tolerance", OPTION_LIST, AT(tolerance), .value = "RELATIVE[,ABSOLUTE]",
     .help = "tolerances of the comparison; default 1e-3,1e-5", .least = -DBL_TRUE_MIN, .most = 2},
    {"--explain", OPTION_FLAG, AT(explain), .help = "prints the steps of all plans"},
    {"--profile", OPTION_FILE, AT(profile), .value = "FILE",
     .help = "writes the times of kernels and transfers as JSON"},
    {"--quantize", OPTION_FILE, AT(quantize), .value = "FILE",
     .help = "writes the model with numbers of fewer bits as the .onnx FILE, and does not run it",
     .more = "The table shows the error of each layer on at most four samples, relative to its "
             "root mean square.",
     .section = "Quantization"},
    {"--method", OPTION_CHOICE, AT(method), .value = "METHOD",
     .help = "static (default): 8-bit weights and values; weights: in blocks of 8 or 4 bits; f16; "
             "bf16",
     .choices = methods},
    {"--samples", OPTION_FILE, AT(samples), .value = "FILE",
     .help = "a .npz or .safetensors with one sample of all inputs; may be repeated",
     .more = "Without it the inputs of `--input` are the only sample. Random inputs give poor "
             "ranges.",
     .many = true},
    {"--range", OPTION_CHOICE, AT(range), .value = "RANGE",
     .help = "range of a value in the samples: min-max (default), percentile, entropy or mse",
     .choices = ranges},
    {"--rounding", OPTION_CHOICE, AT(rounding), .value = "ROUNDING",
     .help = "of weights: search (default) for the best scale, nearest, or gptq",
     .choices = roundings},
    {"--bits", OPTION_COUNT, AT(bits), .value = "N",
     .help = "of a weight: 8 (default); 7 for sums that saturate in no program; 4 with weights",
     .least = 4, .most = 8},
    {"--block", OPTION_COUNT, AT(block), .value = "N",
     .help = "weights with one scale, 16 to 256; default 32", .least = 16, .most = 256},
    {"--signed", OPTION_FLAG, AT(signed_bytes), .help = "values are i8, not u8"},
    {"--per-tensor", OPTION_FLAG, AT(per_tensor),
     .help = "one scale for a weight, not one for each channel"},
    {"--keep", OPTION_TEXT, AT(keep), .value = "PATTERN",
     .help = "nodes that stay f32, by name or operator, with * and ?; may be repeated",
     .many = true},
    {"--report", OPTION_FILE, AT(report), .value = "FILE",
     .help = "writes the table of errors, as .json, as the picture .svg, or as text"},
};

static const char *const synopsis[] = {"MODEL [OPTION...]", NULL};

static const option_section sections[] = {
    {"Exit status",
     "0\tsuccess\n1\tsomething failed, or an output differs from the file of --compare\n2\tinvalid "
     "arguments",
     true},
    {"Environment",
     "COMPUTE_DEVICE\tthe device without `--device`.\nCOMPUTE_LOG\tinfo shows what the library "
     "does.",
     false},
    {"Examples",
     "Shows the inputs and outputs of a model, and whether it runs:\n"
     "  compute-run model.onnx\n"
     "Runs it on an image, with the usual preprocessing for networks trained on ImageNet:\n"
     "  compute-run model.onnx -i photo.png --resize 224 --mean 123.7,116.3,103.5 --scale "
     "0.0171,0.0175,0.0174 -o scores.npz\n"
     "Times it for batches of 8:\n"
     "  compute-run model.onnx --shape batch=8 --bench 100\n"
     "Compares its outputs with those of another program:\n"
     "  compute-run model.onnx -i inputs.npz --compare outputs.npz --tolerance 1e-4\n"
     "Writes it with 8-bit integers, calibrated with two samples:\n"
     "  compute-run model.onnx --quantize small.onnx --samples a.npz --samples b.npz",
     false},
    {"See also", "`compute-info`(1), `compute-tune`(1), docs/guide/models.md", false},
    {0},
};

const option_program run_program = {
    .name = "compute-run",
    .summary = "run and time ONNX models",
    .synopsis = synopsis,
    .description = "Loads a network from an ONNX file, shows its contents, runs it on inputs from "
                   "files or on random ones, and writes, times or checks the outputs.",
    .operand = OPTION_FILE,
    .rows = rows,
    .row_count = sizeof rows / sizeof *rows,
    .sections = sections,
};
