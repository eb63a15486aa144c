# SPDX-License-Identifier: MIT
# libcompute for WebAssembly, built with Emscripten: compute-conformance under node, and the page of
# docs/web/ in a headless Chromium. There are three forms: with vectors, with threads as well, and
# with neither. Each day of this test builds one form, because all take half an hour of a core.
# zlib, libmd and jansson are built from Debian's sources. Started by ctest: TREE BUILD_DIR SCRATCH_DIR. Exits with 77 if
# something is missing; without Chromium the page is only built.
set -euo pipefail
tree=$1 folder=$2/wasm
source "$tree/tests/support/harness/debian_fetch.sh"
source "$tree/tests/support/harness/needs.sh"
source "$tree/tests/support/harness/share.sh"
quietly() { "$@" >"$folder/log" 2>&1 || { tail -50 "$folder/log"; echo "failed: $*"; exit 1; }; }

needs emcc emscripten
needs node nodejs
needs make make
needs python3 python3
unset CFLAGS LDFLAGS LD_LIBRARY_PATH CC PKG_CONFIG_LIBDIR
export NODE_PATH=${NODE_PATH:-/usr/share/nodejs} # for Debian's emcc with another node than Debian's
mkdir -p "$folder"
root=$folder/root
toolchain=(-DCMAKE_TOOLCHAIN_FILE="$tree/src/packaging/wasm/emscripten.cmake")
if [[ ! -e $root/complete ]]; then
  fetch_sources "$folder" zlib libmd jansson || skip "the sources of zlib, libmd and jansson cannot be had"
  # Objects for shared memory can be linked without it, too.
  flags="-O2 -matomics -mbulk-memory"
  (cd "$folder/zlib" && CHOST=wasm32 CC=emcc AR=emar RANLIB=emranlib CFLAGS=$flags \
    quietly ./configure --static --prefix="$root" && quietly make libz.a &&
    mkdir -p "$root/lib" "$root/include" && cp libz.a "$root/lib" && cp zlib.h zconf.h "$root/include")
  # The one source of libmd that libcompute needs: its configure script starts emcc a hundred times.
  (cd "$folder/libmd" && : >config.h && quietly emcc $flags -I. -Iinclude -c src/sha2.c -o sha2.o &&
    quietly emar rcs "$root/lib/libmd.a" sha2.o && cp include/sha2.h "$root/include")
  quietly cmake -S "$folder/jansson" -B "$folder/jansson/build" "${toolchain[@]}" \
    -DCMAKE_C_FLAGS="$flags" -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF \
    -DJANSSON_BUILD_DOCS=OFF -DCMAKE_INSTALL_PREFIX="$root"
  quietly cmake --build "$folder/jansson/build" --target install
  touch "$root/complete"
fi

chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
export PKG_CONFIG_LIBDIR=$root/lib/pkgconfig
forms=$(printf '%s\n' single threads plain | share_lines 3)
for form in $forms; do
  threads=$([[ $form == threads ]] && echo ON || echo OFF)
  vectors=$([[ $form == plain ]] && echo OFF || echo ON)
  build=$folder/$form prefix=$folder/prefix-$form
  # Without threads, the case that starts some is refused and no other.
  { [[ $threads == ON ]] || echo "refused queue/threads # no thread can be started"
    cat "$tree/tests/backend/expect/cpu.txt"; } >"$folder/expect-$form.txt"
  quietly cmake -S "$tree" -B "$build" -G Ninja "${toolchain[@]}" -DCOMPUTE_WASM_THREADS=$threads \
    -DCOMPUTE_WASM_SIMD=$vectors -DCMAKE_FIND_ROOT_PATH="$root" -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O1 \
    -DCOMPUTE_CPU_OPTIMISATION=-O1 -DCOMPUTE_TESTS=OFF -DCOMPUTE_PROGRAMS=ON \
    -DCMAKE_INSTALL_PREFIX="$prefix"
  quietly cmake --build "$build" --target compute compute-conformance
  node --no-experimental-fetch "$build/bin/compute-conformance.js" --quiet \
    --expect "$folder/expect-$form.txt" cpu >"$folder/conformance-$form" ||
    { tail -50 "$folder/conformance-$form"; exit 1; }
  echo "$form: $(tail -1 "$folder/conformance-$form")"

  # The library alone, with zlib and libmd beside it.
  quietly cmake -DCOMPUTE_PROGRAMS=OFF "$build"
  quietly cmake --build "$build"
  mkdir -p "$prefix"
  cp -r "$root/." "$prefix"
  quietly cmake --install "$build"

  # A project finds the package.
  quietly cmake -S "$tree/docs/web" -B "$folder/page-$form" -G Ninja "${toolchain[@]}" \
    -DCOMPUTE_WASM_THREADS=$threads -DCOMPUTE_WASM_SIMD=$vectors -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_FLAGS_RELEASE=-O1 -DCMAKE_FIND_ROOT_PATH="$prefix"
  quietly cmake --build "$folder/page-$form"
  page=$folder/page-$form/page
  wc -c "$page"/*.wasm "$page"/reader-*.js
  if [[ -z $chromium ]]; then
    echo "the page is not opened: no chromium (Debian: chromium)"
    continue
  fi
  python3 "$tree/tests/install/page.py" "$chromium" "$page" --save "$folder/$form.onnx" \
    $([[ $form != threads ]] || echo --threads) | tee "$folder/page-$form.log"
  grep -q "^machine: $([[ $form == plain ]] && echo scalar || echo simd128)," "$folder/page-$form.log"
done
if [[ $forms == *single*threads* && -n $chromium ]]; then
  cmp "$folder/single.onnx" "$folder/threads.onnx" # the same bits with any number of threads
fi
