# SPDX-License-Identifier: MIT
# The programs are a separate project: they are built without the rest of the tree, with an
# installed library. Started by ctest: TREE BUILD_DIR SCRATCH_DIR.
set -euo pipefail
tree=$1 build=$2 scratch=$3
unset COMPUTE_BACKEND_PATH LD_LIBRARY_PATH
quietly() { "$@" >"$scratch/log" 2>&1 || { tail -50 "$scratch/log"; echo "failed: $*"; exit 1; }; }

rm -rf "$scratch"
mkdir -p "$scratch/tree/src"
scratch=$(realpath "$scratch")
cp -r "$tree/src/programs" "$tree/src/modules.cmake" "$scratch/tree/src/"
quietly cmake --install "$build" --prefix "$scratch/prefix"
quietly cmake -S "$scratch/tree/src/programs" -B "$scratch/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_PREFIX_PATH="$scratch/prefix" -DCMAKE_C_COMPILER="$CC" -DCMAKE_INSTALL_PREFIX="$scratch/prefix"
quietly cmake --build "$scratch/build"
rm -r "$scratch/prefix/bin"
quietly cmake --install "$scratch/build"
for program in "$scratch/prefix/bin"/*; do
  quietly "$program" --version
  echo "${program##*/}: $(head -1 "$scratch/log")"
done
[[ -x $scratch/prefix/bin/compute-run ]] || { echo "compute-run is not installed"; exit 1; }

# Uninstalling removes these files only, and the folders that are empty then.
quietly cmake -DMANIFEST="$scratch/build/install_manifest.txt" -P "$tree/src/uninstall.cmake"
[[ ! -e $scratch/prefix/bin/compute-run ]] || { echo "compute-run is not uninstalled"; exit 1; }
[[ -e $scratch/prefix/include/compute/compute.h ]] || { echo "another file was removed"; exit 1; }
if cmake -DMANIFEST="$scratch/build/install_manifest.txt" -P "$tree/src/uninstall.cmake" 2>"$scratch/log"; then
  echo "a second uninstallation found files"
  exit 1
fi
grep -q "nothing was installed" "$scratch/log"
