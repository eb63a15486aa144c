/* Instructions on I64 values. */
#include <stdint.h>

typedef int64_t integer;
typedef uint64_t natural;
#define INTEGER(name) name##_i64

#include "tile_integer.h"
