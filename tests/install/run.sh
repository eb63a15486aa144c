# SPDX-License-Identifier: MIT
# Installs into a new prefix and uses it like a stranger: pkg-config and find_package, and both
# again after the prefix was moved. The installed programs find the installed modules. Started by
# ctest: TREE BUILD_DIR SCRATCH_DIR.
set -euo pipefail
tree=$1 build=$2 scratch=$3
example=$tree/docs/examples/hello.c

# The build folder may not help.
unset COMPUTE_BACKEND_PATH LD_LIBRARY_PATH PKG_CONFIG_PATH
fail() { echo "$1"; exit 1; }

uses_the_prefix() { # PREFIX NAME: builds and runs the example both ways
  local prefix=$1 out=$scratch/$2 library
  library=$(dirname "$(find "$prefix" -name libcompute.so)")
  mkdir -p "$out"
  export PKG_CONFIG_PATH=$library/pkgconfig
  pkg-config --exists compute || fail "pkg-config does not find compute in $PKG_CONFIG_PATH"
  # shellcheck disable=SC2046
  "$CC" -std=c11 -Wall -Wextra -pedantic -Werror "$example" $(pkg-config --cflags compute) \
    $(pkg-config --libs compute) -o "$out/hello"
  LD_LIBRARY_PATH=$library "$out/hello" || fail "hello (pkg-config, $prefix) failed"
  # shellcheck disable=SC2046
  "$CC" -std=c11 -Wall -Wextra -pedantic -Werror "$tree/docs/examples/digits_cnn.c" \
    $(pkg-config --cflags compute) $(pkg-config --libs compute) -o "$out/digits_cnn"
  LD_LIBRARY_PATH=$library "$out/digits_cnn" --help >/dev/null || fail "digits_cnn ($prefix) failed"
  if readelf -d "$library/libcompute.so" | grep -Eq '(RPATH|RUNPATH)'; then
    fail "libcompute.so has a run path"
  fi

  cmake -S "$tree/tests/install/consumer" -B "$out/cmake" -DCMAKE_PREFIX_PATH="$prefix" \
    -DEXAMPLE="$example" -DCMAKE_C_COMPILER="$CC" >"$out/cmake.log" ||
    { cat "$out/cmake.log"; fail "find_package(compute) failed in $prefix"; }
  cmake --build "$out/cmake" >"$out/cmake.log" || { cat "$out/cmake.log"; fail "consumer: no build"; }
  "$out/cmake/consumer" || fail "hello (find_package, $prefix) failed"

  "$prefix/bin/compute-info" --json >"$out/info.json" || fail "compute-info ($prefix) failed"
  command -v python3 >/dev/null || { echo "its JSON is not read: no python3 (Debian: python3)"; return 0; }
  python3 - "$out/info.json" "$prefix" <<'PYTHON'
import json, sys
text = open(sys.argv[1]).read()
json.loads(text)
for word in ("cpu", "null", sys.argv[2]):
    assert word in text, "compute-info --json does not mention " + word
PYTHON
}

rm -rf "$scratch"
mkdir -p "$scratch"
scratch=$(realpath "$scratch")
cmake --install "$build" --prefix "$scratch/first" >"$scratch/install.log" ||
  { cat "$scratch/install.log"; fail "cmake --install failed"; }
uses_the_prefix "$scratch/first" one
mv "$scratch/first" "$scratch/moved"
uses_the_prefix "$scratch/moved" two

# The documents are installed in the folders of the tree.
for page in README.md LICENSE docs/index.md docs/guide/getting-started.md docs/reference/errors.md \
  docs/performance/index.md docs/notes/index.md docs/images/pixels.svg docs/examples/hello.c; do
  [[ -f $scratch/moved/share/doc/compute/$page ]] || fail "share/doc/compute/$page is not installed"
done
python3 "$tree/tests/docs/check_links.py" "$scratch/moved/share/doc/compute" ||
  fail "links of the installed documents are broken"

# The components: peers of the benchmark are in none, the null module is with the headers.
[[ -z $(find "$scratch/moved" -name 'peer-*') ]] || fail "peers of the benchmark are installed"
part() { # NAME: the files of a component, in one line
  cmake --install "$build" --prefix "$scratch/$1" --component "$1" >"$scratch/install.log" ||
    { cat "$scratch/install.log"; fail "cmake --install --component $1 failed"; }
  find "$scratch/$1" \( -name '*.so*' -o -path '*/bin/*' -o -name compute.h \) -printf '%f\n' |
    sed 's/\(libcompute\.so\.[0-9]*\).*/\1/' | sort -u | tr '\n' ' '
}
[[ $(part runtime) == 'libcompute-cpu.so libcompute.so.0 ' ]] || fail "runtime: $(part runtime)"
[[ $(part development) == 'compute-conformance compute.h libcompute-null.so libcompute.so ' ]] ||
  fail "development: $(part development)"
[[ $(part cuda) == 'libcompute-cuda.so ' ]] || fail "cuda: $(part cuda)"

# Private headers stay private, and every public one is there.
for header in $(cd "$tree/include" && find compute -name '*.h' -o -name '*.hpp' -o -name '*.def'); do
  [[ -f $scratch/moved/include/$header ]] || fail "$header is not installed"
done
if find "$scratch/moved/include" -name '*.h' -not -path '*/compute/*' | grep -q .; then
  fail "headers outside include/compute"
fi
