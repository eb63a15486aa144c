/* Keeping the largest keys: select.h says what, select_keys.h how. */
#include "select.h"

#include <string.h>

#define KEY      int32_t
#define UNSIGNED uint32_t
#define ENTRY    uint64_t
#define BITS     32
#define NAME(x)  x##_32
#include "select_keys.h"
#undef KEY
#undef UNSIGNED
#undef ENTRY
#undef BITS
#undef NAME

__extension__ typedef unsigned __int128 wide_entry;

#define KEY      int64_t
#define UNSIGNED uint64_t
#define ENTRY    wide_entry
#define BITS     64
#define NAME(x)  x##_64
#include "select_keys.h"

const select_functions select_32 = {sizeof(uint64_t), append_32, keep_32, sort_32, position_32};
const select_functions select_64 = {sizeof(wide_entry), append_64, keep_64, sort_64, position_64};
