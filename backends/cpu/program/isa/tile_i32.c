/* Instructions on I32 values. */
#include <stdint.h>

typedef int32_t integer;
typedef uint32_t natural;
#define INTEGER(name) name##_i32

#include "tile_integer.h"
