/* SPDX-License-Identifier: MIT */
/* The options of compute-fit, and the other sections of its manual page. Rows of a section are
 * contiguous, in the order of the help. */
#include "programs/fit/options.h"

#include <float.h>
#include <math.h>

#define AT(field) offsetof(fit_arguments, field)

enum {
  F = COMMAND_FIT,
  S = COMMAND_SIMULATE,
  C = COMMAND_CRLB,
  V = COMMAND_VALIDATE,
  B = COMMAND_BENCH,
  ALL = F | S | C | V | B,
  R = COMMAND_RENDER,
  L = COMMAND_LINK,
  D = COMMAND_DRIFT,
  K = COMMAND_CALIBRATE,
  T = R | L | D | K /* the subcommands that read a table of localisations */
};

#define SIDE COMPUTE_FIT_MAX_SIDE
#define MANY MANY_COUNT

static const char *const models[] = {"XYNB", "XYNBS", "XYNBSXSY", "XYZNB", "SPLINE", NULL};
static const char *const profiles[] = {"integrated", "sampled", NULL};
static const char *const cameras[] = {"ideal", "emccd", "scmos", "readout", NULL};
static const char *const solvers[] = {"fisher", "newton", "levenberg-marquardt", "least-squares",
                                      NULL};
static const char *const filters[] = {"gaussians", "boxes", NULL};
static const char *const formats[] = {"csv", "hdf5", "npy", NULL};
static const char *const dtypes[] = {"u16", "f32", NULL};
static const char *const outputs[] = {"parameters",   "std",     "covariance", "ratio",
                                      "p-raw",        "p-value", "iterations", "status",
                                      "significance", "usual",   "all",        NULL};
static const char *const kept[] = {
    "all", "converged", "max-iterations", "at-bound", "singular", "bad-data", NULL};
static const char *const units[] = {"px", "nm", NULL};
static const char *const any_devices[] = {"auto", "all", NULL};

static const option_row rows[] = {
    /* Files. */
    {"--output", OPTION_FILE, AT(output), F | S | T, .letter = 'o', .value = "FILE",
     .help = "the result: .csv, .hdf5 or .npy for fits and tables, .npy, .tif or .raw for images, "
             ".png, .tif or .npy for pictures, .yaml for a calibration",
     .more = "Columns of .csv have ThunderSTORM's names; .hdf5, with a .yaml beside it, is what "
             "Picasso opens.",
     .neutral = true, .section = "Files"},
    {"--format", OPTION_WORD, AT(format), F, .value = "FORMAT",
     .help = "the format, if the output's name does not say it: csv, hdf5 or npy",
     .choices = formats},
    {"--outputs", OPTION_WORDS, AT(outputs), F, .value = "LIST",
     .help = "values to write: parameters, std, covariance, ratio, p-raw, p-value, iterations, "
             "status, significance; usual (default) is all but covariance, p-raw and significance; "
             "all",
     .more =
         "Parameters and status are always written. The significance is how far the spot stands "
         "out from an empty ROI, in standard deviations: the root of twice the log-likelihood "
         "ratio of the fit and a flat background.",
     .choices = outputs},
    {"--roi-stack", OPTION_FLAG, AT(roi_stack), F,
     .help = "the input holds ROIs, [n, rows, columns], not frames"},
    {"--channel", OPTION_COUNT, AT(channel), F, .value = "N",
     .help = "the channel to fit of a movie with several, from 0", .least = 0, .most = MANY},
    {"--z-plane", OPTION_COUNT, AT(z_number), F, .value = "N",
     .help = "the plane in z to fit of a movie with several, from 0",
     .more = "Where a file has nothing but planes, or nothing but channels, these are its frames.",
     .least = 0, .most = MANY},
    {"--stage", OPTION_COUNT, AT(position_number), F, .value = "N",
     .help = "the position of the stage to fit of a movie with several, from 0", .least = 0,
     .most = MANY},
    {"--all-pages", OPTION_FLAG, AT(all_pages), F,
     .help = "takes each page of a TIFF as a frame, and of this file only, whatever its metadata "
             "says about channels, planes and other files"},
    {"--corners", OPTION_FILE, AT(corners), F, .value = "FILE.npy",
     .help = "integers [n, 3]: frame, row and column of each ROI's first pixel, frames ascending"},
    {"--truth", OPTION_FILE, AT(truth), F | S, .value = "FILE.npy",
     .help = "true parameters: simulate writes them; fit compares its results with them",
     .more = "The shape is [n, P] for ROIs, and [spots, 1 + P] with the frame first for movies.",
     .neutral = true},
    {"--pixel-size", OPTION_NUMBER, AT(pixel_size), F | T, .value = "NM",
     .help = "size of a camera pixel in the sample, in nanometres; without it, lengths in .csv are "
             "in pixels",
     .more = "Tables whose lengths are in nm need it, unless an .hdf5 has it in its .yaml.",
     .least = DBL_MIN, .most = 1e9},
    {"--units", OPTION_WORD, AT(units), F, .value = "UNIT",
     .help =
         "unit of lengths in .csv: px, or nm, which needs --pixel-size or a movie that says how "
         "large its pixels are; default: nm with --pixel-size",
     .choices = units},
    {"--picture", OPTION_FILE, AT(picture), F | D, .value = "FILE",
     .help = "draws the localisations (.png), or histograms of uncertainties and p-values (.svg); "
             "of drift: the curve (.svg)",
     .more = "In the .png each localisation is as wide as its uncertainty.", .neutral = true},
    {"--json", OPTION_FILE, AT(json), ALL | T, .value = "FILE",
     .help = "writes the summary as JSON; - is standard output, which then replaces the text",
     .neutral = true},
    {"--resume", OPTION_FLAG, AT(resume), F, .help = "continues the output of an interrupted run",
     .more = "The run continues from its last checkpoint. The input and options must be the same.",
     .neutral = true},
    {"--checkpoint", OPTION_NUMBER, AT(checkpoint), F, .value = "S",
     .help = "seconds between checkpoints, from which a run can be resumed; default 2",
     .least = DBL_MIN, .most = 1e6, .neutral = true},
    {"--force", OPTION_FLAG, AT(force), F | S | T, .help = "overwrites files that exist",
     .neutral = true},
    {"--quiet", OPTION_FLAG, AT(quiet), F | S | V | B | T,
     .help = "prints no progress and no summary", .neutral = true},
    /* Selection of the output. */
    {"--keep", OPTION_WORDS, AT(keep), F, .value = "LIST",
     .help = "the fits to write, by status: all (default), converged, max-iterations, at-bound, "
             "singular, bad-data",
     .more = "An .hdf5 never holds singular and bad-data, which have no numbers.", .choices = kept,
     .section = "What is kept"},
    {"--where", OPTION_TEXT, AT(where), F | T, .value = "CONDITION",
     .help = "takes only what it holds for: 'sigma < 1.6 && p_value > 0.001'",
     .more =
         "For fit, names are those of the columns of a .npy, in pixels and photons whatever the "
         "output, with significance and, by `--saturation`, saturated; for tables, those of "
         "the table without their units. Numbers, + - * /, < <= > >= == !=, && || ! and "
         "parentheses mean what they mean in C; comparisons with NaN do not hold."},
    {"--region", OPTION_LIST, AT(region), F | T, .value = "X,Y,W,H",
     .help = "only this part of the frames: first column and row, width and height in pixels",
     .least = -1, .most = 4},
    {"--frames", OPTION_RANGE, AT(frame_range), F | T, .value = "A:B",
     .help = "only these frames, from the first to the last, counted from 0", .least = 0,
     .most = MANY},
    {"--saturation", OPTION_NUMBER, AT(saturation), F, .value = "COUNTS",
     .help = "pixels of at least this value are saturated; adds a column with their number in each "
             "ROI",
     .more = "`--where 'saturated == 0'` rejects these ROIs.", .least = DBL_MIN, .most = 1e9},
    /* The fit's model. */
    {"--model", OPTION_CHOICE, AT(model), ALL | K, .value = "MODEL",
     .help =
         "what is fitted: XYNB (x, y, photons, background; default), XYNBS (and one sigma), "
         "XYNBSXSY "
         "(and two), "
         "XYZNB (x, y, z, photons, background; astigmatic), SPLINE (the same with a measured spot, "
         "--calibration); for calibrate, XYZNB (default) or SPLINE",
     .choices = models, .section = "Model"},
    {"--roi", OPTION_SIZE, AT(roi), ALL | K, .value = "RxC",
     .help = "rows and columns of a ROI, one number for a square; default: 7, or the stack's; for "
             "calibrate, of the spots to fit with the spline, odd; default 13",
     .least = 1, .most = SIDE},
    {"--sigma", OPTION_LIST, AT(sigma), ALL, .value = "S[,SY]",
     .help = "width of the spot in pixels, of both axes or of x and y; the starting value where it "
             "is fitted, the width in focus for XYZNB; default 1.3",
     .least = 0, .most = 2},
    {"--profile", OPTION_CHOICE, AT(profile), ALL, .value = "PROFILE",
     .help = "the Gaussian integrated over each pixel (default), or sampled at its centre",
     .more = "Some other programs sample at the centre.", .choices = profiles},
    {"--astigmatism", OPTION_FILE, AT(astigmatism), ALL, .value = "FILE.yaml",
     .help = "for XYZNB: depth, gamma, ax, ay, bx, by, sigma_x, sigma_y, one per line",
     .more = "Options take precedence over the file."},
    {"--calibration", OPTION_FILE, AT(calibration), ALL, .value = "FILE.yaml",
     .help = "what calibrate has written: the model, XYZNB or SPLINE, and its numbers"},
    {"--depth", OPTION_NUMBER, AT(depth), ALL, .value = "UM",
     .help = "for XYZNB: focal depth d in micrometres; default 0.4",
     .more = "The width is sigma sqrt(1 + t^2 + A t^3 + B t^4), with t = (z - gamma) / depth for x "
             "and (z + gamma) / depth for y.",
     .least = DBL_MIN, .most = 1e6},
    {"--gamma", OPTION_NUMBER, AT(gamma), ALL, .value = "UM",
     .help = "for XYZNB: the foci are at +gamma (x) and -gamma (y) micrometres; default 0.25",
     .least = -1e6, .most = 1e6},
    {"--a", OPTION_LIST, AT(a), ALL, .value = "AX[,AY]",
     .help = "for XYZNB: cubic term of the width; default 0", .least = -DBL_MAX, .most = 2},
    {"--b", OPTION_LIST, AT(b), ALL, .value = "BX[,BY]",
     .help = "for XYZNB: quartic term of the width; default 0", .least = -DBL_MAX, .most = 2},
    {"--z-start", OPTION_LIST, AT(z_start), F | V | B, .value = "Z[,Z...]",
     .help = "for XYZNB: up to 8 starting values of z in micrometres; the best fit wins; default 0",
     .least = -DBL_MAX, .most = COMPUTE_FIT_MAX_Z_STARTS},
    {"--fix", OPTION_TEXT, AT(fix), F | C, .value = "NAME[=V],...",
     .help = "parameters held at their start, or at V: bg=10,sigma"},
    {"--start", OPTION_TEXT, AT(start), F, .value = "NAME=V,...",
     .help = "starting values for all ROIs; the rest are estimated from the pixels"},
    {"--start-file", OPTION_FILE, AT(start_file), F, .value = "FILE.npy",
     .help = "starting values of each ROI, f32 [n, P]; NaN: estimate this one"},
    {"--bounds", OPTION_TEXT, AT(bounds), F, .value = "NAME=L:H,...",
     .help = "tighter bounds; L or H may be left out: photons=50:,sigma=0.8:2",
     .more = "By default x and y stay inside the ROI, photons, background and sigma above 0, sigma "
             "within the ROI's longer side, and z within 2 depth + |gamma| of 0."},
    /* Camera. */
    {"--camera", OPTION_CHOICE, AT(camera), ALL, .value = "CAMERA",
     .help = "kind of camera: ideal (default; pixels are photons), emccd, scmos or readout",
     .more =
         "The photons of a pixel are (value - offset) gain / em-gain with the excess noise "
         "factor 2 for emccd, and (value - offset) gain with readout noise for scmos and readout: "
         "scmos is fast, readout exact where the noise is near the light or above it, without "
         "p-values.",
     .choices = cameras,
     .section = "Camera (a number, or a map of the frame's or the ROI's size as .npy or .tif)"},
    {"--offset", OPTION_MAP, AT(offset), F | S | V, .value = "ADU",
     .help = "counts without light; default 0", .least = -1e9, .most = 1e9},
    {"--gain", OPTION_MAP, AT(gain), F | S | V, .value = "E",
     .help = "photo-electrons per count (ADU); default 1", .least = DBL_MIN, .most = 1e9},
    {"--gain-adu-per-electron", OPTION_MAP, AT(gain_adu), F | S | V, .value = "ADU",
     .help = "the inverse of --gain: counts per photo-electron", .least = DBL_MIN, .most = 1e9},
    {"--em-gain", OPTION_NUMBER, AT(em_gain), F | S | V, .value = "G",
     .help = "electron-multiplying gain of an emccd; default 1", .least = DBL_MIN, .most = 1e9},
    {"--variance", OPTION_MAP, AT(variance), F | S | C | V, .value = "E2",
     .help = "readout variance (scmos, readout) in electrons squared; default 0", .least = 0,
     .most = 1e12},
    {"--mask", OPTION_FILE, AT(mask), F, .value = "FILE",
     .help = "map of the pixels to use (nonzero)"},
    /* Solver. */
    {"--solver", OPTION_CHOICE, AT(solver), F | V | B, .value = "SOLVER",
     .help =
         "the method: fisher (default), newton (Smith 2010), levenberg-marquardt, least-squares",
     .more = "newton always takes all its steps, for each parameter separately; least-squares is "
             "unweighted.",
     .choices = solvers, .section = "Solver"},
    {"--iterations", OPTION_COUNT, AT(iterations), F | V | B, .value = "N",
     .help = "maximum number of steps of one fit; default 40, newton: 20", .least = 1,
     .most = 100000},
    {"--epsilon", OPTION_NUMBER, AT(epsilon), F | V | B, .value = "E",
     .help = "a fit has converged when a step is below E standard deviations; default 0.01",
     .least = DBL_MIN, .most = 1e3},
    /* Spots. */
    {"--find", OPTION_FLAG, AT(find), F,
     .help = "finds spots in the frames; the default without --corners and --roi-stack",
     .neutral = true, .section = "Finding spots"},
    {"--threshold", OPTION_NUMBER, AT(threshold), F, .value = "T",
     .help = "minimum height of a spot, in standard deviations of the filtered background; default "
             "4.2",
     .least = DBL_MIN, .most = 1e9},
    {"--distance", OPTION_COUNT, AT(distance), F, .value = "PIXELS",
     .help = "a spot is the highest pixel within this distance; default 2 sigma", .least = 1,
     .most = SIDE},
    {"--filter", OPTION_CHOICE, AT(filter), F, .value = "FILTER",
     .help = "the filter: difference of gaussians (default) or of boxes",
     .more = "Boxes are faster and find fewer spots on bright backgrounds.", .choices = filters},
    {"--limit", OPTION_COUNT, AT(limit), F, .value = "N",
     .help = "maximum number of spots per frame; the brightest are kept", .least = 1, .most = MANY},
    /* Simulation. */
    {"--rois", OPTION_COUNT, AT(rois), S | V | B, .value = "N",
     .help = "number of ROIs; for validate and bench: of each case", .least = 1, .most = MANY,
     .section = "Simulated images"},
    {"--movie", OPTION_FLAG, AT(movie), S, .help = "frames with spots instead of ROIs"},
    {"--frames", OPTION_COUNT, AT(frames), S, .value = "N", .help = "number of frames; default 100",
     .least = 1, .most = MANY},
    {"--size", OPTION_SIZE, AT(size), S, .value = "RxC",
     .help = "rows and columns of a frame; default 256", .least = 1, .most = 65536},
    {"--spots", OPTION_NUMBER, AT(spots), S, .value = "N",
     .help = "mean number of spots in a frame; default 20", .least = DBL_MIN, .most = 1e6},
    {"--emitters", OPTION_COUNT, AT(emitters), S, .value = "N",
     .help = "the spots of a movie come from N emitters that stay where they are", .least = 1,
     .most = 1000000},
    {"--blink", OPTION_COUNT, AT(blink), S, .value = "FRAMES",
     .help = "frames for which an emitter is on at a time; default 1", .least = 1, .most = 1e9},
    {"--drift", OPTION_LIST, AT(drift), S, .value = "DX,DY[,DZ]",
     .help = "drift of all emitters from the first frame to the last: pixels, and micrometres in z",
     .least = -1e6, .most = 3},
    {"--photons", OPTION_RANGE, AT(photons), S | C | V | B, .value = "N[:N]",
     .help = "photons of a spot, a number or a range; default 1000", .least = 0, .most = 1e9},
    {"--background", OPTION_RANGE, AT(background), S | C | V | B, .value = "B[:B]",
     .help = "photons of a pixel without a spot, a number or a range; default 10", .least = 0,
     .most = 1e9},
    {"--position", OPTION_RANGE, AT(position), S | V, .value = "P[:P]",
     .help = "x and y of a spot in pixels from the ROI's centre; default -0.5:0.5", .least = -1e6,
     .most = 1e6},
    {"--x", OPTION_NUMBER, AT(x), C, .value = "X",
     .help = "the spot's x, from the centre of the first pixel; default: the middle of the ROI",
     .least = -SIDE, .most = SIDE},
    {"--y", OPTION_NUMBER, AT(y), C, .value = "Y", .help = "the spot's y, likewise", .least = -SIDE,
     .most = SIDE},
    {"--z-step", OPTION_NUMBER, AT(z_step), S | K, .value = "UM",
     .help = "how far the stage moves from one frame to the next, in micrometres: a stack of beads",
     .more = "In a simulated movie the z of frame k is the lower end of `--z` and k steps.",
     .least = -1e3, .most = 1e3},
    {"--z", OPTION_RANGE, AT(z), S | C | V | B, .value = "Z[:Z]",
     .help = "the spots' z in micrometres; default 0", .least = -1e6, .most = 1e6},
    {"--sigma-range", OPTION_RANGE, AT(sigma_range), S, .value = "S[:S]",
     .help = "widths of the spots where the model fits them; default: --sigma", .least = 0.05,
     .most = SIDE},
    {"--noise-free", OPTION_FLAG, AT(noise_free), S, .help = "expected values instead of draws"},
    {"--dtype", OPTION_CHOICE, AT(dtype), S | B | R, .value = "DTYPE",
     .help = "dtype of the pixels: u16 (default) or f32; with --noise-free, and for pictures, f32 "
             "is the "
             "default",
     .more = "Pictures of u16 hold counts, or weights scaled so that the brightest is 65535.",
     .choices = dtypes},
    {"--seed", OPTION_COUNT, AT(seed), S | V | B, .value = "N",
     .help = "seed of the random numbers; default 1",
     .more = "The same seed gives the same images on every machine.", .least = 0, .most = MANY},
#include "programs/fit/options_table.def"
    /* Devices and threads. */
    {"--device", OPTION_DEVICES, AT(device), F | V | B | D, .value = "NAMES",
     .help = "the devices: cpu, cuda:0, ..., several separated by commas, all, or auto (default): "
             "the fastest",
     .choices = any_devices, .neutral = true, .section = "Where it runs"},
    {"--threads", OPTION_COUNT, AT(threads), ALL | D, .value = "N",
     .help = "CPU threads; default: COMPUTE_THREADS, or all", .least = 1, .most = 4096,
     .neutral = true},
    {"--batch", OPTION_COUNT, AT(batch), F | B, .value = "N", .help = "ROIs, or frames, at a time",
     .least = 1, .most = MANY, .neutral = true},
    {"--memory", OPTION_BYTES, AT(memory), F, .value = "BYTES",
     .help = "total memory for all batches, such as 500M or 2G", .least = 1, .most = MANY,
     .neutral = true},
    {"--seconds", OPTION_NUMBER, AT(seconds), B, .value = "S",
     .help = "minimum time for each case, in seconds; default 0.5", .least = DBL_MIN, .most = 3600},
};

static const option_command commands[] = {
    {"fit", COMMAND_FIT, "INPUT -o RESULT", OPTION_FILE,
     "fits the spots of a movie or of a stack of ROIs"},
    {"simulate", COMMAND_SIMULATE, "-o IMAGES", OPTION_FLAG,
     "creates ROIs or movies with known truth"},
    {"crlb", COMMAND_CRLB, "", OPTION_FLAG,
     "prints the smallest uncertainties that an unbiased fit can have"},
    {"validate", COMMAND_VALIDATE, "", OPTION_FLAG,
     "simulates and fits every model at several light levels"},
    {"bench", COMMAND_BENCH, "", OPTION_FLAG, "measures fits per second on this machine"},
    {"render", COMMAND_RENDER, "TABLE -o PICTURE", OPTION_FILE,
     "draws the localisations of a table"},
    {"link", COMMAND_LINK, "TABLE -o TABLE", OPTION_FILE,
     "makes one localisation of an emitter's in consecutive frames"},
    {"drift", COMMAND_DRIFT, "TABLE -o TABLE", OPTION_FILE,
     "estimates the drift of the sample and corrects for it"},
    {"calibrate", COMMAND_CALIBRATE, "TABLE -o FILE.yaml", OPTION_FILE,
     "finds the astigmatic model, or a spline, from beads at known heights"},
    {0},
};

static const option_section sections[] = {
    {"Interrupted runs",
     "An output appears under its name only when it is complete. Until then it is called "
     "FILE.incomplete, and FILE.incomplete.json records how much of it is valid. After Ctrl-C, "
     "a failure or a power cut, the same command with `--resume` continues it, to the same bytes "
     "as "
     "an uninterrupted run.",
     false},
    {"Exit status",
     "0\tsuccess\n1\tsomething failed, or validate found a case that does not pass\n"
     "2\tinvalid arguments\n130\tinterrupted by Ctrl-C",
     true},
    {"Environment",
     "COMPUTE_DEVICE, COMPUTE_THREADS\tused where `--device` and `--threads` are not given.\n"
     "NO_COLOR, TERM\tProgress is shown only on terminals, and not if TERM is dumb.\n"
     "`compute-info --variables` lists every variable that libcompute reads.",
     false},
    {"Files",
     "FILE.incomplete, FILE.incomplete.json\tan unfinished output.\n"
     "FILE.yaml\tbeside a .raw movie: its size and camera; beside an .hdf5 output: its history.",
     false},
    {"Examples",
     "  compute-fit fit movie.tif --sigma 1.3 --camera scmos --offset offset.tif \\\n"
     "      --gain gain.tif --variance variance.tif --pixel-size 108 \\\n"
     "      -o locs.hdf5 --picture locs.png\n"
     "\n"
     "  compute-fit simulate --rois 1000000 --roi 7 -o s.npy --truth t.npy\n"
     "  compute-fit fit s.npy --roi-stack -o r.csv --truth t.npy --json -\n"
     "\n"
     "  compute-fit crlb --roi 7 --sigma 1.0 --photons 1000 --background 10\n"
     "\n"
     "  compute-fit drift locs.hdf5 -o corrected.hdf5 --picture drift.svg\n"
     "  compute-fit link corrected.hdf5 -o linked.hdf5 --max-dark 2\n"
     "  compute-fit render linked.hdf5 --resolution 10 -o picture.png",
     false},
    {"See also", "`compute-info`(1), `compute-tune`(1), docs/guide/fitting.md", false},
    {0},
};

const option_program fit_program = {
    .name = "compute-fit",
    .summary = "fit Gaussian spots in camera images, with uncertainties",
    .description =
        "Finds the spots of single molecules in a movie, or takes small images (ROIs) already cut "
        "out, and fits each with a two-dimensional Gaussian by maximum likelihood under "
        "the "
        "camera's noise. Every fit has a position, photons, background, their standard deviations "
        "(the Cramer-Rao bound), a p-value and a status.\n"
        "Pixel (row i, column j) has its centre at y = i, x = j, counted from 0. Lengths are in "
        "pixels and z is in micrometres unless the format of an output says otherwise; light is in "
        "photo-electrons, called photons here.",
    .commands = commands,
    .rows = rows,
    .row_count = sizeof rows / sizeof *rows,
    .sections = sections,
};

const fit_arguments fit_defaults = {.position_number = -1,
                                    .channel = -1,
                                    .z_number = -1,
                                    .sigma = {{1.3}, 1},
                                    .depth = 0.4,
                                    .gamma = 0.25,
                                    .gain = {.number = 1},
                                    .gain_adu = {.number = 1},
                                    .em_gain = 1,
                                    .checkpoint = 2,
                                    .frames = 100,
                                    .seed = 1,
                                    .size = {256, 256},
                                    .spots = 20,
                                    .photons = {1000, 1000},
                                    .background = {10, 10},
                                    .position = {-0.5, 0.5},
                                    .roi = {7, 7},
                                    .x = NAN,
                                    .y = NAN,
                                    .dark = 1,
                                    .max_shift = 1,
                                    .seconds = 0.5};
