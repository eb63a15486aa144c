#!/bin/sh
# SPDX-License-Identifier: MIT
# build.sh CMAKE SOURCE BUILD OUTPUT BUILD-TYPE [ARGUMENT…]: builds the library and links OUTPUT to it.
# build.sh --install CMAKE BUILD LIBDIR: installs it with the project.
set -eu
if [ "$1" = --install ]; then
  "$2" -DCMAKE_INSTALL_LIBDIR="$4" "$3" >/dev/null
  exec "$2" --install "$3" --prefix "$MESON_INSTALL_DESTDIR_PREFIX"
fi
cmake=$1 source=$2 build=$3 output=$4 type=$5
shift 5
"$cmake" -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE="$type" -DCMAKE_INSTALL_LIBDIR=lib \
  -DCOMPUTE_PROGRAMS=OFF -DCOMPUTE_TESTS=OFF -DCOMPUTE_BENCH=OFF -DCOMPUTE_DOCS=OFF "$@"
"$cmake" --build "$build"
"$cmake" --install "$build" --prefix "$build/prefix"
ln -sf "$build/prefix/lib/libcompute.so" "$output"
