# SPDX-License-Identifier: MIT
# libcompute.so exports every function of the public headers, and no other; each one links. A module
# exports only its entry. Started by ctest: TREE BUILD_DIR SCRATCH_DIR.
set -euo pipefail
tree=$1 build=$2 scratch=$3
library=$build/lib/libcompute.so
includes=(-I"$tree/include" -I"$build/generated")

mkdir -p "$scratch"
cd "$scratch"
fail() { echo "$1"; exit 1; }

# COMPUTE_API leaves a mark on a declaration after the preprocessor; the name precedes the next
# parenthesis.
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

# Before 1.0, the soname and the symbols' node contain the minor version (docs/reference/compatibility.md).
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
