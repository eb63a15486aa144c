/* The options of compute-fit; see option_table.h. Rows of a section stand together, in the order of
 * the help. */
#include "tools/fit/option_table.h"

#include <float.h>

#define AT(field) offsetof(fit_arguments, field)

enum {
  F = COMMAND_FIT,
  S = COMMAND_SIMULATE,
  C = COMMAND_CRLB,
  V = COMMAND_VALIDATE,
  B = COMMAND_BENCH,
  ALL = F | S | C | V | B
};

#define SIDE COMPUTE_FIT_MAX_SIDE
#define MANY MANY_COUNT

static const char *models[] = {"XYNB", "XYNBS", "XYNBSXSY", "XYZNB", NULL};
static const char *profiles[] = {"integrated", "sampled", NULL};
static const char *cameras[] = {"ideal", "emccd", "scmos", NULL};
static const char *solvers[] = {"fisher", "newton", "levenberg-marquardt", "least-squares", NULL};
static const char *filters[] = {"gaussians", "boxes", NULL};
static const char *formats[] = {"csv", "hdf5", "npy", NULL};
static const char *dtypes[] = {"u16", "f32", NULL};

const compute_dtype fit_dtypes[] = {COMPUTE_U16, COMPUTE_F32};

const option_row option_table[] = {
    /* Files. */
    {"--output", OPTION_TEXT, AT(output), F | S, .value = "FILE",
     .help = "where the result goes (-o); fits: .csv, .hdf5 or .npy, images: .npy, .tif or .raw",
     .neutral = true, .section = "Files"},
    {"--format", OPTION_TEXT, AT(format), F, .value = "FORMAT",
     .help = "csv, hdf5 or npy, where the name of the output does not say it", .choices = formats},
    {"--outputs", OPTION_TEXT, AT(outputs), F, .value = "LIST",
     .help = "what is written: parameters, std, covariance, ratio, p-raw, p-value, iterations,\n"
             "status, with commas; also usual (all but covariance and p-raw) and all"},
    {"--roi-stack", OPTION_FLAG, AT(roi_stack), F,
     .help = "the input holds ROIs, [n, rows, columns], and not frames"},
    {"--corners", OPTION_TEXT, AT(corners), F, .value = "FILE.npy",
     .help = "integers [n, 3]: frame, row and column of each ROI's first pixel, frames ascending"},
    {"--truth", OPTION_TEXT, AT(truth), F | S, .value = "FILE.npy",
     .help = "true parameters: written by simulate; fit compares its results with them",
     .neutral = true},
    {"--pixel-size", OPTION_NUMBER, AT(pixel_size), F, .value = "NM",
     .help = "of the camera pixel in the sample, in nanometres; without it lengths in CSV are in "
             "pixels",
     .least = DBL_MIN, .most = 1e9},
    {"--picture", OPTION_TEXT, AT(picture), F, .value = "FILE",
     .help = "of the result: .png draws the localisations, .svg their uncertainties and p-values",
     .neutral = true},
    {"--json", OPTION_TEXT, AT(json), ALL, .value = "FILE",
     .help = "writes the summary as JSON; - is standard output, in place of the text",
     .neutral = true},
    {"--resume", OPTION_FLAG, AT(resume), F,
     .help = "continues an output that an interrupted run has left, with the same options",
     .neutral = true},
    {"--checkpoint", OPTION_NUMBER, AT(checkpoint), F, .value = "S",
     .help = "seconds between two moments from which a run can be resumed, default 2",
     .least = DBL_MIN, .most = 1e6, .neutral = true},
    {"--force", OPTION_FLAG, AT(force), F | S, .help = "writes over files that exist",
     .neutral = true},
    {"--quiet", OPTION_FLAG, AT(quiet), F | S | V | B, .help = "neither progress nor summary",
     .neutral = true},
    /* What is fitted. */
    {"--model", OPTION_CHOICE, AT(model), ALL, .value = "MODEL",
     .help =
         "XYNB (x, y, photons, background; default), XYNBS (and one sigma), XYNBSXSY (and two),\n"
         "XYZNB (x, y, z, photons, background; astigmatic)",
     .choices = models, .section = "Model"},
    {"--roi", OPTION_SIZE, AT(roi), ALL, .value = "RxC",
     .help = "rows and columns of a ROI, one number for a square; default 7, or what the stack has",
     .least = 1, .most = SIDE},
    {"--sigma", OPTION_LIST, AT(sigma), ALL, .value = "S[,SY]",
     .help =
         "width of the spot in pixels, of both axes or of x and y; the starting value where it is\n"
         "fitted, the width in focus for XYZNB; default 1.3",
     .least = 0, .most = 2},
    {"--profile", OPTION_CHOICE, AT(profile), ALL, .value = "PROFILE",
     .help = "integrated over each pixel (default), or sampled at its centre as some programs do",
     .choices = profiles},
    {"--astigmatism", OPTION_TEXT, AT(astigmatism), ALL, .value = "FILE.yaml",
     .help = "for XYZNB: depth, gamma, ax, ay, bx, by, sigma_x, sigma_y, a line each"},
    {"--depth", OPTION_NUMBER, AT(depth), ALL, .value = "UM",
     .help = "for XYZNB: focal depth d in micrometres, default 0.4", .least = DBL_MIN, .most = 1e6},
    {"--gamma", OPTION_NUMBER, AT(gamma), ALL, .value = "UM",
     .help = "for XYZNB: the foci lie at +gamma (x) and -gamma (y) micrometres, default 0.25",
     .least = -1e6, .most = 1e6},
    {"--a", OPTION_LIST, AT(a), ALL, .value = "AX[,AY]",
     .help = "for XYZNB: cubic term of the width, default 0", .least = -DBL_MAX, .most = 2},
    {"--b", OPTION_LIST, AT(b), ALL, .value = "BX[,BY]",
     .help = "for XYZNB: quartic term of the width, default 0", .least = -DBL_MAX, .most = 2},
    {"--z-start", OPTION_LIST, AT(z_start), F | V | B, .value = "Z[,Z...]",
     .help = "for XYZNB: up to 8 starting values of z in micrometres, the best fit wins; default 0",
     .least = -DBL_MAX, .most = COMPUTE_FIT_MAX_Z_STARTS},
    {"--fix", OPTION_TEXT, AT(fix), F | C, .value = "NAME[=V],...",
     .help = "parameters that stay at their start, or at V: bg=10,sigma"},
    {"--start", OPTION_TEXT, AT(start), F, .value = "NAME=V,...",
     .help = "starting values for all ROIs; the others are estimated"},
    {"--start-file", OPTION_TEXT, AT(start_file), F, .value = "FILE.npy",
     .help = "f32 [n, P]: starting values of each ROI, NaN for those to be estimated"},
    {"--bounds", OPTION_TEXT, AT(bounds), F, .value = "NAME=L:H,...",
     .help = "bounds within the usual ones; L or H may be left out: photons=50:,sigma=0.8:2"},
    /* Camera. */
    {"--camera", OPTION_CHOICE, AT(camera), F | S | C | V | B, .value = "CAMERA",
     .help = "ideal (default; pixels are photons), emccd or scmos", .choices = cameras,
     .section = "Camera (a number, or a map of the frame's or the ROI's size as .npy or .tif)"},
    {"--offset", OPTION_CAMERA, AT(offset), F | S | V, .value = "ADU",
     .help = "counts without light, default 0", .least = -1e9, .most = 1e9},
    {"--gain", OPTION_CAMERA, AT(gain), F | S | V, .value = "E",
     .help = "photo-electrons per count (ADU), default 1", .least = DBL_MIN, .most = 1e9},
    {"--gain-adu-per-electron", OPTION_CAMERA, AT(gain_adu), F | S | V, .value = "ADU",
     .help = "the same the other way round: counts per photo-electron", .least = DBL_MIN,
     .most = 1e9},
    {"--em-gain", OPTION_NUMBER, AT(em_gain), F | S | V, .value = "G",
     .help = "electron-multiplying gain of an emccd, default 1", .least = DBL_MIN, .most = 1e9},
    {"--variance", OPTION_CAMERA, AT(variance), F | S | C | V, .value = "E2",
     .help = "readout variance of an scmos in electrons squared, default 0", .least = 0,
     .most = 1e12},
    {"--mask", OPTION_TEXT, AT(mask), F, .value = "FILE",
     .help = "map of the pixels that count: not 0"},
    /* Solver. */
    {"--solver", OPTION_CHOICE, AT(solver), F | V | B, .value = "SOLVER",
     .help = "fisher (default), newton (Smith 2010), levenberg-marquardt, least-squares",
     .choices = solvers, .section = "Solver"},
    {"--iterations", OPTION_COUNT, AT(iterations), F | V | B, .value = "N",
     .help = "most steps of one fit, default 40, newton: 20", .least = 1, .most = 100000},
    {"--epsilon", OPTION_NUMBER, AT(epsilon), F | V | B, .value = "E",
     .help = "a fit has converged when steps are below E standard deviations, default 0.01",
     .least = DBL_MIN, .most = 1e3},
    /* Spots. */
    {"--find", OPTION_FLAG, AT(find), F,
     .help = "finds spots in the frames; taken for granted without --corners and --roi-stack",
     .neutral = true, .section = "Finding spots"},
    {"--threshold", OPTION_NUMBER, AT(threshold), F, .value = "T",
     .help = "least height of a spot, in standard deviations of the filtered background, default 5",
     .least = DBL_MIN, .most = 1e9},
    {"--distance", OPTION_COUNT, AT(distance), F, .value = "PIXELS",
     .help = "a spot is the highest within so many pixels, default 2 sigma", .least = 1,
     .most = SIDE},
    {"--filter", OPTION_CHOICE, AT(filter), F, .value = "FILTER",
     .help =
         "difference of gaussians (default) or of boxes. At a background of 1 photon the default\n"
         "finds 0.37 false spots in an empty frame of 128 x 128 pixels, at 10 and more 0.05;\n"
         "of spots with 400 photons on a background of 100 boxes find 0.235, gaussians 0.988",
     .choices = filters},
    {"--limit", OPTION_COUNT, AT(limit), F, .value = "N",
     .help = "most spots of a frame, the brightest", .least = 1, .most = MANY},
    /* Simulation. */
    {"--rois", OPTION_COUNT, AT(rois), S | V | B, .value = "N",
     .help = "number of ROIs; validate and bench: for each case", .least = 1, .most = MANY,
     .section = "Simulated images"},
    {"--movie", OPTION_FLAG, AT(movie), S, .help = "frames with spots instead of ROIs"},
    {"--frames", OPTION_COUNT, AT(frames), S, .value = "N", .help = "number of frames, default 100",
     .least = 1, .most = MANY},
    {"--size", OPTION_SIZE, AT(size), S, .value = "RxC",
     .help = "rows and columns of a frame, default 256", .least = 1, .most = 65536},
    {"--spots", OPTION_NUMBER, AT(spots), S, .value = "N",
     .help = "mean number of spots in a frame, default 20", .least = DBL_MIN, .most = 1e6},
    {"--photons", OPTION_RANGE, AT(photons), S | C | V | B, .value = "N[:N]",
     .help = "photons of a spot, a number or a range, default 1000", .least = 0, .most = 1e9},
    {"--background", OPTION_RANGE, AT(background), S | C | V | B, .value = "B[:B]",
     .help = "photons of a pixel without a spot, a number or a range, default 10", .least = 0,
     .most = 1e9},
    {"--position", OPTION_RANGE, AT(position), S | V, .value = "P[:P]",
     .help = "x and y of a spot from the ROI's centre in pixels, default -0.5:0.5", .least = -1e6,
     .most = 1e6},
    {"--x", OPTION_NUMBER, AT(x), C, .value = "X",
     .help = "position, from the centre of the first pixel;", .least = -SIDE, .most = SIDE},
    {"--y", OPTION_NUMBER, AT(y), C, .value = "Y", .help = "default: the middle of the ROI",
     .least = -SIDE, .most = SIDE},
    {"--z", OPTION_RANGE, AT(z), S | C | V | B, .value = "Z[:Z]",
     .help = "z in micrometres, default 0", .least = -1e6, .most = 1e6},
    {"--sigma-range", OPTION_RANGE, AT(sigma_range), S, .value = "S[:S]",
     .help = "widths of the spots where the model fits them, default: --sigma", .least = 0.05,
     .most = SIDE},
    {"--noise-free", OPTION_FLAG, AT(noise_free), S, .help = "expected values instead of draws"},
    {"--dtype", OPTION_CHOICE, AT(dtype), S | B, .value = "DTYPE",
     .help = "u16 (default) or f32; f32 is the default with --noise-free", .choices = dtypes},
    {"--seed", OPTION_COUNT, AT(seed), S | V | B, .value = "N",
     .help = "of the random numbers, default 1", .least = 0, .most = MANY},
    /* Where. */
    {"--device", OPTION_TEXT, AT(device), F | V | B, .value = "NAMES",
     .help = "cpu, cuda:0, … or several with commas; all; auto (default): the best",
     .neutral = true, .section = "Where it runs"},
    {"--threads", OPTION_COUNT, AT(threads), ALL, .value = "N",
     .help = "threads of the CPU, default: COMPUTE_THREADS, or all", .least = 1, .most = 4096,
     .neutral = true},
    {"--batch", OPTION_COUNT, AT(batch), F | B, .value = "N", .help = "ROIs, or frames, at a time",
     .least = 1, .most = MANY, .neutral = true},
    {"--memory", OPTION_BYTES, AT(memory), F, .value = "BYTES",
     .help = "that batches may take together; K, M and G are understood", .least = 1, .most = MANY,
     .neutral = true},
    {"--seconds", OPTION_NUMBER, AT(seconds), B, .value = "S",
     .help = "least time of each case, default 0.5", .least = DBL_MIN, .most = 3600},
};

const size_t option_count = sizeof option_table / sizeof *option_table;
