# SPDX-License-Identifier: MIT
# Every function that the public headers declare is exported by libcompute.so and links; nothing
# else is exported; a module exports its entry and nothing else. ctest starts
# this: TREE BUILD_DIR SCRATCH_DIR.
set -euo pipefail
tree=$1 build=$2 scratch=$3
library=$build/lib/libcompute.so
includes=(-I"$tree/include" -I"$build/generated")

mkdir -p "$scratch"
cd "$scratch"
fail() { echo "$1"; exit 1; }

# A declaration with COMPUTE_API keeps its mark through the preprocessor; the name stands before the
# first parenthesis that follows.
echo '#include "compute/compute.h"' >all.c
"$CC" -std=c11 -E -P "${includes[@]}" all.c | tr '\n' ' ' | tr ';' '\n' |
  sed -n 's/.*visibility("default")))[^(]*[ *]\(compute_[a-z0-9_]*\)(.*/\1/p' | sort -u >declared
[ "$(wc -l <declared)" -ge 150 ] || fail "only $(wc -l <declared) declarations found in the headers"
marks=$("$CC" -std=c11 -E -P "${includes[@]}" all.c | grep -o 'visibility("default")' | wc -l)
[ "$marks" = "$(wc -l <declared)" ] || fail "$marks declarations are marked, $(wc -l <declared) read"

nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >exported
diff declared exported >difference || {
  cat difference
  fail "declared (<) and exported (>) functions differ"
}

# Before 1.0 the minor version is in the soname and in the node of the symbols (docs/reference/compatibility.md).
version=$(sed -n 's/^project(compute VERSION \([0-9.]*\).*/\1/p' "$tree/CMakeLists.txt")
expected=${version%%.*}
if [ "$expected" = 0 ]; then expected=${version%.*}; fi
soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
[ "$soname" = "libcompute.so.$expected" ] || fail "version $version, soname $soname"
node=$(nm -D --defined-only "$library" | awk '$2 == "A" { sub(/@.*/, "", $3); print $3 }' | sort -u)
[ "$node" = "COMPUTE_$expected" ] || fail "version $version, symbols of $node"

{
  echo '#include <stdio.h>'
  echo '#include "compute/compute.h"'
  echo 'typedef void (*function)(void);'
  echo 'static const function functions[] = {'
  sed 's/.*/  (function)&,/' declared
  echo '};'
  echo 'int main(void) {'
  echo '  size_t count = 0;'
  echo '  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) count += functions[i] != 0;'
  echo '  return printf("%zu functions\n", count) < 0 || count != sizeof functions / sizeof *functions;'
  echo '}'
} >link.c
"$CC" -std=c11 "${includes[@]}" link.c -o link "$library" -Wl,-rpath,"$build/lib"
./link

for module in "$build"/lib/compute/*.so; do
  entry=compute_backend_entry
  [[ $module != */libcompute-transport-* ]] || entry=compute_transport_entry
  symbols=$(nm -D --defined-only "$module" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }')
  [ "$symbols" = $entry ] || fail "$module exports: $symbols"
done
