# SPDX-License-Identifier: MIT
# A set-user-ID program must not run files that its caller names in the environment. This test makes
# a real one, owned by root and started by nobody. Started by ctest: TREE BUILD_DIR SCRATCH_DIR.
# Exits with 77 where this is impossible: without root or nobody, or on a file system or in a
# container without set-user-ID programs.
set -euo pipefail
tree=$1 build=$2
source "$tree/tests/support/harness/needs.sh"
fail() { echo "$1"; sed 's/^/  | /' "$folder/output" 2>/dev/null; exit 1; }

[[ $(id -u) -eq 0 ]] || skip "only root can make a set-user-ID program of another user's"
needs setpriv util-linux
nobody=$(id -u nobody 2>/dev/null) || skip "there is no user nobody"

# Not below the build folder, because nobody may be unable to enter it.
folder=$(mktemp -d /var/tmp/compute-privileged-XXXXXX)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
mkdir -m 755 "$folder/compute"
version=$(readelf -d "$build/lib/libcompute.so" | sed -n 's/.*SONAME.*\[libcompute\.so\.\(.*\)\]/\1/p')
cp "$build/lib/libcompute.so.$version" "$folder/"
cp "$build"/lib/compute/libcompute-*.so "$folder/compute/"
for name in openmpi mpich; do
  "$CC" -std=c11 -D_GNU_SOURCE -shared -fPIC "$tree/tests/privileged/transport.c" -ldl \
    -o "$folder/compute/libcompute-transport-$name.so"
done
chmod 755 "$folder"/libcompute.so."$version" "$folder"/compute/*
"$CC" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -I"$tree/include" "$tree/tests/privileged/opens.c" \
  "$folder/libcompute.so.$version" -Wl,-rpath,"$folder" -o "$folder/opens"
cp "$folder/opens" "$folder/plain"
chown root "$folder/opens"
chmod 4755 "$folder/opens"

# The caller's folder: a library under every name that a search could try.
caller=$folder/caller
mkdir "$caller"
mkdir "$caller/compute" "$caller/vendors"
"$CC" -shared -fPIC -D_GNU_SOURCE -DCALLER_NOTE="\"$caller/note\"" "$tree/tests/privileged/caller_library.c" \
  -o "$caller/evil.so"
for name in libOpenCL.so.1 libcuda.so.1 libnvrtc.so.12 libnvrtc.so.13 libcublasLt.so.12 libcudnn.so.9 \
  libclblast.so.1 libopenblas.so.0 libpocl-evil.so compute/libcompute-cpu.so compute/libcompute-evil.so; do
  cp "$caller/evil.so" "$caller/$name"
done
echo "$caller/evil.so" >"$caller/vendors/evil.icd"
chown -R "$nobody" "$caller" || skip "files cannot be given to nobody here"

as_nobody() { setpriv --reuid="$nobody" --regid="$(id -g nobody)" --clear-groups --inh-caps=-all env -i "$@" >"$folder/output" 2>&1; }
as_nobody true || skip "programs cannot be started as nobody here"
as_nobody "$folder/plain" cpu || skip "programs in /var/tmp cannot be started"
as_nobody "$folder/opens" cpu || fail "the program does not run"
grep -q "rights 0" "$folder/output" || skip "the set-user-ID bit of a program in /var/tmp is without effect"

# Every environment variable that names a file, a folder or a library, or that makes the process load
# one: one at a time and together. The libraries of an MPI exist from the beginning.
plugins=(OMPI_MCA_mca_base_component_path="$caller/evil.so" HWLOC_PLUGINS_PATH="$caller/evil.so")
variables=(OCL_ICD_VENDORS="$caller/evil.so" OCL_ICD_VENDORS="$caller/libpocl-evil.so" OCL_ICD_VENDORS="$caller/vendors"
  OPENCL_VENDOR_PATH="$caller/vendors" OPENCL_LAYERS="$caller/evil.so" LD_LIBRARY_PATH="$caller" LD_PRELOAD="$caller/evil.so"
  COMPUTE_BACKEND_PATH="$caller/compute" COMPUTE_BLAS="$caller/evil.so" COMPUTE_CACHE_DIR="$caller/cache" HOME="$caller"
  XDG_CACHE_HOME="$caller" POCL_CACHE_DIR="$caller/pocl" CUDA_INJECTION64_PATH="$caller/evil.so" CUDA_CACHE_PATH="$caller/cuda"
  COMPUTE_TRANSPORT=openmpi OMPI_COMM_WORLD_SIZE=1 PMIX_RANK=0 PMI_RANK=0 SLURM_STEP_NUM_TASKS=2
  COMPUTE_PROFILE="$caller/profile" COMPUTE_TRACE="$caller/trace" COMPUTE_DUMP="$caller/dump" COMPUTE_TUNING_FILE="$caller/tuning" TMPDIR="$caller")

check() { # WHAT VARIABLE…: the program works on the CPU, and no file of the caller was read or written
  local what=$1
  shift
  as_nobody "${plugins[@]}" "$@" "$folder/opens" || fail "$what: the program fails"
  [[ ! -e $caller/note ]] || fail "$what: it ran the caller's library: $(cat "$caller/note")"
  grep -q "^default cpu, " "$folder/output" || fail "$what: the default device is not the CPU"
  grep -q "^product 7 10 15 22" "$folder/output" || fail "$what: the product is wrong"
  grep -q "^group of 1$" "$folder/output" || fail "$what: the group is not one of one process"
  [[ -z $(find "$caller" -user 0 -newer "$folder/started") ]] ||
    fail "$what: it wrote $(find "$caller" -user 0 -newer "$folder/started") with the rights of root"
}
touch "$folder/started"
check "an empty environment" A=b
for variable in "${variables[@]}"; do check "$variable" "$variable"; done
check "all variables" "${variables[@]}"

# Modules that were not opened give the reason, and the option that would open them.
for module in opencl cuda; do
  grep "^module $module: disabled: .*raised privileges.*options\.backends" "$folder/output" >/dev/null ||
    fail "the probe of $module does not say why it was not opened"
done
grep -q "^module cpu: loaded" "$folder/output" || fail "the CPU's module is not loaded"
grep -q "^default cpu, driver none: .*raised privileges" "$folder/output" || fail "there is a BLAS"

# A module in the environment is the caller's wish, not the program's.
as_nobody COMPUTE_BACKENDS=opencl,cpu OCL_ICD_VENDORS="$caller/evil.so" "$folder/opens" || fail "COMPUTE_BACKENDS: it fails"
as_nobody COMPUTE_DEVICE=opencl:0 OCL_ICD_VENDORS="$caller/evil.so" "$folder/opens" &&
  fail "COMPUTE_DEVICE=opencl:0 finds a device"
[[ ! -e $caller/note ]] || fail "COMPUTE_BACKENDS or COMPUTE_DEVICE ran the caller's library: $(cat "$caller/note")"

# The program may request a module, and then gets its libraries as well.
as_nobody "$folder/opens" cpu,opencl || fail "backends cpu,opencl: it fails"
! grep -q "^module opencl: .*raised privileges" "$folder/output" || fail "opencl was asked for, and was not opened"
! grep -q "driver none: .*raised privileges" "$folder/output" || fail "cpu was asked for, and has no BLAS"

# It may also name a transport, whose MPI then obeys the environment. Only the option allows this.
as_nobody "${plugins[@]}" "$folder/opens" "" openmpi || fail "the transport openmpi was asked for: it fails"
[[ -e $caller/note ]] || fail "the transport openmpi was asked for, and was not loaded"
rm "$caller/note"

# The library's code is linked into the program. The caller chooses argv[0], and may have made a
# link to the program, so modules are searched in neither folder.
"$CC" -std=c11 -D_GNU_SOURCE -I"$tree/include" "$tree/tests/privileged/opens.c" "$build/lib/libtest_core.a" \
  -lz -lmd -lm -ldl -lpthread -o "$folder/linked"
chmod 4755 "$folder/linked"
ln "$folder/linked" "$caller/linked"
as_nobody bash -c "exec -a '$caller/linked' '$folder/linked'" || true
as_nobody "$caller/linked" || true
[[ ! -e $caller/note ]] || fail "argv[0] chose the folder of the modules: $(cat "$caller/note")"

# Set-group-ID and file capabilities count like set-user-ID.
cp "$folder/plain" "$folder/group"
chgrp root "$folder/group"
chmod 2755 "$folder/group"
raised=("${plugins[@]}" OMPI_COMM_WORLD_SIZE=1 PMI_RANK=0 OCL_ICD_VENDORS="$caller/evil.so")
as_nobody "${raised[@]}" "$folder/group" || fail "set-group-ID: the program fails"
[[ ! -e $caller/note ]] || fail "set-group-ID: it ran the caller's library: $(cat "$caller/note")"
cp "$folder/plain" "$folder/capable"
if setcap cap_net_raw+ep "$folder/capable" 2>"$folder/output"; then
  as_nobody "${raised[@]}" "$folder/capable" || fail "capabilities: the program fails"
  [[ ! -e $caller/note ]] || fail "capabilities: it ran the caller's library: $(cat "$caller/note")"
else
  echo "file capabilities are not tested: $(cat "$folder/output")"
fi

# Without the bit, the same program obeys its environment: this test does not fail by itself.
as_nobody OCL_ICD_VENDORS="$caller/evil.so" "$folder/plain" || fail "without the bit it fails"
! grep -q "raised privileges" "$folder/output" || fail "without the bit it finds its privileges raised"
if grep -q "^module opencl: \(loaded\|no device\)" "$folder/output"; then
  [[ -e $caller/note ]] || fail "without the bit OCL_ICD_VENDORS is without effect"
fi
rm -f "$caller/note"
for variable in OMPI_COMM_WORLD_SIZE=1 PMIX_RANK=0 PMI_RANK=0; do
  as_nobody "${plugins[@]}" "$variable" "$folder/plain" cpu || fail "without the bit and with $variable it fails"
  [[ -e $caller/note ]] || fail "without the bit $variable is without effect"
  rm "$caller/note"
done
echo "nothing of the caller's was loaded, read or written"
