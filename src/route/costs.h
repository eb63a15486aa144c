/* What kinds of work cost on a device, as curves of time over amount.
 *
 * A rate alone would be wrong at most sizes: a kernel's launch, threads that join in, caches and
 * tiles that do not fill the device all bend the line. So each class of work has a few measured
 * points, and between them time is taken to grow evenly: from the launch at no work at all to the
 * first point, and beyond the last as between the last two. */
#ifndef ROUTE_COSTS_H
#define ROUTE_COSTS_H

#include "compute/backend.h"
#include "compute/route.h"

typedef enum route_class {
  /* bytes read and written, every distinct element once */
  ROUTE_STREAM = 0, /* elementwise, in memory order */
  ROUTE_REDUCE,
  ROUTE_ROW,
  ROUTE_COPY, /* across memory order: a transpose */
  ROUTE_GATHER,
  /* operations on f32 of elementwise programs */
  ROUTE_SIMPLE,   /* additions, products, comparisons */
  ROUTE_FUNCTION, /* exponentials */
  /* floating-point operations */
  ROUTE_GEMM_F32,
  ROUTE_GEMM_F64,
  ROUTE_GEMM_F16,
  ROUTE_GEMM_BF16,
  ROUTE_CONVOLUTION,
  /* bytes copied from and to the host, submission and wait included */
  ROUTE_UPLOAD,
  ROUTE_DOWNLOAD,
  ROUTE_CLASSES
} route_class;

enum { ROUTE_POINTS = 6 };

/* Points ascend in both; without any, the class is to be guessed. */
typedef struct route_curve {
  uint32_t count;
  double work[ROUTE_POINTS], seconds[ROUTE_POINTS];
} route_curve;

typedef struct route_costs {
  compute_costs_source source;
  uint32_t guessed; /* bit by route_class */
  double launch;    /* seconds: one small kernel among many */
  double wait;      /* seconds: one small kernel and waiting for it */
  route_curve curve[ROUTE_CLASSES];
} route_costs;

/* The work of one kernel. */
typedef struct route_work {
  route_class moved; /* how its bytes move */
  double bytes;
  route_class product;      /* of a GEMM or CONV; else ROUTE_CLASSES */
  double flops;             /* of the product */
  double simple, functions; /* of its programs */
} route_work;

/* Of a descriptor that descriptor_check accepts. */
route_work route_work_of(const compute_kernel_descriptor *descriptor);

/* Seconds of one kernel among others. */
double route_kernel_seconds(const route_costs *costs, const route_work *work);

/* Seconds of a copy from (upload) or to the host, waited for. */
double route_copy_seconds(const route_costs *costs, bool upload, double bytes);

/* Seconds of `work` on the curve of a class. */
double route_curve_seconds(const route_costs *costs, route_class class, double work);

/* The best rate that a curve shows, per second; 0 if it has no points. */
double route_curve_rate(const route_curve *curve);

/* Figures for a device of which only the description is known. */
void route_costs_guess(const compute_device_info *info, route_costs *costs);

/* Gives the classes without points the curve of the class that resembles them most, scaled as the
 * two differ in `guess`. */
void route_costs_complete(const route_costs *guess, route_costs *costs);

/* "stream", "gemm_f32", …: their names in the file. */
const char *route_class_name(route_class class);

#endif
