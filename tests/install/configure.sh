# SPDX-License-Identifier: MIT
# Configures with each optional piece hidden: cmake succeeds, names the missing piece and the reason
# in one line of its summary, and offers the remaining targets. A missing required piece or a 32-bit
# target is refused with a sentence. Started by ctest: TREE BUILD_DIR SCRATCH_DIR. CMAKE may name
# another cmake than the one in the path.
set -euo pipefail
tree=$1 scratch=$3
cmake=${CMAKE:-cmake}
fail() { echo "$1"; cat "$scratch/log"; exit 1; }
rm -rf "$scratch"
mkdir -p "$scratch"

# configure NAME ARGUMENT…: into a separate folder; sets `result` to the status and writes the log.
configure() {
  folder=$scratch/$1
  result=0
  "$cmake" -S "$tree" -B "$folder" -G Ninja -DCMAKE_C_COMPILER="$CC" "${@:2}" \
    >"$scratch/log" 2>&1 || result=$?
}
leaves_out() { # NAME WORDS ARGUMENT…
  configure "$1" "${@:3}"
  ((result == 0)) || fail "$1: cmake failed"
  # The machine may also lack libraries, so there may be other lines.
  [[ $(grep -c "^--   left out  $2" "$scratch/log") == 1 ]] || fail "$1: the summary lacks: $2"
  ! grep -q 'CMake Warning' "$scratch/log" || fail "$1: cmake warns"
}
target() { ninja -C "$folder" -t query "$1" >/dev/null 2>&1; }

# pkg-config searches a folder with links to all files except the excluded ones.
without() { # NAME…: prints the folder
  local all=$scratch/pc-$1 file
  mkdir -p "$all"
  for file in ${packages//:/\/*.pc }/*.pc; do
    [[ -e $file ]] && ln -sf "$file" "$all/"
  done
  for file in "$@"; do rm -f "$all"/$file.pc; done # a pattern
  echo "$all"
}
packages=$(pkg-config --variable pc_path pkg-config)

PKG_CONFIG_LIBDIR=$(without libcmocka cmocka) leaves_out cmocka 'the tests: no cmocka'
target compute-info || fail "without cmocka: no compute-info"
PKG_CONFIG_LIBDIR=$(without jansson) leaves_out jansson 'compute-info and compute-fit: no jansson'
grep -q 'left out  compute-bench' "$scratch/log" || fail "without jansson: not a word of compute-bench"
target compute-tune || fail "without jansson: no compute-tune"
if target compute-info; then fail "without jansson: compute-info"; fi
PKG_CONFIG_LIBDIR=$(without libtiff-4) leaves_out tiff 'TIFF in compute-fit'
PKG_CONFIG_LIBDIR=$(without libpng 'libpng*') leaves_out png 'PNG in compute-fit'
PKG_CONFIG_LIBDIR=$(without yaml-0.1) leaves_out yaml 'raw files with YAML'
PKG_CONFIG_LIBDIR=$(without hdf5 'hdf5*') leaves_out hdf5 'HDF5 in compute-fit'
leaves_out opencl 'the OpenCL module: no CL/cl.h' -DCOMPUTE_OPENCL_INCLUDE=
target compute-cuda || fail "without OpenCL's headers: no module for CUDA"
leaves_out pocl 'tests on an OpenCL device' -DCOMPUTE_POCL_ICD=
leaves_out dnnl 'the peer oneDNN' -DDNNL_INCLUDE=

# Headers of an unknown release must not stop the build.
strange=$scratch/strange
mkdir -p "$strange"/{oneapi/dnnl,pc}
for header in mpi.h tiffio.h hdf5.h yaml.h png.h oneapi/dnnl/dnnl.h; do
  echo '#error strange release' >"$strange/$header"
done
for version in 2 9; do
  printf '#define DNNL_VERSION_%s\n' "MAJOR $version" 'MINOR 1' 'PATCH 0' \
    >"$strange/oneapi/dnnl/dnnl_version.h"
  leaves_out dnnl_$version "the peer oneDNN: version $version.1.0 does not fit" \
    -DDNNL_INCLUDE="$strange" -DDNNL_LIBRARY="$strange/libdnnl.so"
done
PKG_CONFIG_LIBDIR=$(without strange ompi-c mpich libtiff-4 hdf5 hdf5-serial yaml-0.1 libpng)
for package in ompi-c mpich libtiff-4 hdf5-serial yaml-0.1 libpng; do
  printf 'Name: strange\nDescription: strange\nVersion: 99\nCflags: -I%s\n' "$strange" \
    >"$PKG_CONFIG_LIBDIR/$package.pc"
done
export PKG_CONFIG_LIBDIR
configure strange
for words in 'transport openmpi: mpi.h' 'transport mpich: mpi.h' 'TIFF in compute-fit: libtiff 99' \
  'HDF5 in compute-fit: libhdf5 99' 'beside them in compute-fit: libyaml 99' \
  'PNG in compute-fit: libpng 99' 'PNG in compute-run: libpng 99'; do
  grep -q "^--   left out .*$words does not fit (error: .*strange release" "$scratch/log" ||
    fail "strange headers: the summary lacks: $words"
done
((result == 0)) && target compute-fit || fail "strange headers stop the build"
unset PKG_CONFIG_LIBDIR
leaves_out python 'tests of the programs: no python3' -DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON
leaves_out pkg_config 'compute-info and compute-fit: no jansson, or no pkg-config' \
  -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON
target compute-cpu || fail "without pkg-config: no module for the CPU"

refuses() { # NAME WORDS ARGUMENT…
  configure "$1" "${@:3}"
  ((result != 0)) || fail "$1: accepted"
  tr -s ' \n' ' ' <"$scratch/log" | grep -q "$2" || fail "$1: not a word of: $2"
}
refuses zlib 'needs zlib with its headers' -DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON
refuses md 'needs libmd with its headers' -DCOMPUTE_MD_INCLUDE=
# Without programs, because the machine's C library may lack their libraries.
refuses small 'needs a 64-bit target' -DCMAKE_C_FLAGS=-m32 \
  -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY
