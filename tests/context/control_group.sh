# SPDX-License-Identifier: MIT
# A process in a control group of 300 MB gets an error before the kernel kills it. The group consists of
# files in a private mount namespace, under the names in /proc/self/cgroup: no real group is created or
# changed. Started by ctest: TREE BUILD_DIR SCRATCH_DIR. Exits with 77 where this is impossible.
set -euo pipefail
tree=$1 build=$2 folder=$3
fail() { echo "$1"; cat "$folder/output"; exit 1; }
skip() { echo "skipped: $1"; exit 77; }

unshare -m true 2>/dev/null || skip "no mount namespace can be made here"
mkdir -p "$folder"
"$CC" -std=c11 -D_GNU_SOURCE -I"$tree/include" "$tree/tests/context/fills.c" -L"$build/lib" -lcompute \
  -Wl,-rpath,"$build/lib" -o "$folder/fills"

# within VERSION LIMIT USED FILE-CACHE: runs the program; the folder above its group's has these values.
within() {
  unshare -m bash -s "$folder/fills" "$@" >"$folder/output" 2>&1 <<'END'
  program=$1 version=$2 limit=$3 used=$4 cache=$5
  if [[ $version == 1 ]]; then
    group=/memory$(sed -n 's/^[0-9]*:\([^:]*,\)*memory\(,[^:]*\)*://p' /proc/self/cgroup | head -n 1)
    names=(memory.limit_in_bytes memory.usage_in_bytes total_inactive_file)
    grep -q '^[0-9]*:\([^:]*,\)*memory\(,[^:]*\)*:/' /proc/self/cgroup || exit 77
  else
    group=$(sed -n 's/^0:://p' /proc/self/cgroup)
    names=(memory.max memory.current inactive_file)
    grep -q '^0::/' /proc/self/cgroup || exit 77
  fi
  mount -t tmpfs none /sys/fs/cgroup || exit 77
  mkdir -p "/sys/fs/cgroup$group"
  above=/sys/fs/cgroup$group
  [[ $group == / || $group == /memory/ ]] || above=$(dirname "$above")
  echo "$limit" >"$above/${names[0]}"
  echo "$used" >"$above/${names[1]}"
  echo "${names[2]} $cache" >"$above/memory.stat"
  echo "$limit" >"$above/memory.memsw.limit_in_bytes" # and so no swap space
  echo 0 >"$above/memory.swap.max"
  exec "$program"
END
}

ran=0
for version in 1 2; do
  status=0
  within $version 300000000 50000000 10000000 || status=$?
  ((status != 77)) || continue
  ((status == 0)) || fail "version $version: status $status"
  ran=1
  grep -q "^total 300000000 free 260000000$" "$folder/output" || fail "version $version: the memory is not that of the group"
  # A real group's account grows with touched memory; here only the library's own count grows.
  grep -q "^1[2-5] tensors, then COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY$" "$folder/output" || fail "version $version: no error"
  within $version 300000000 295000000 0 || fail "version $version: a group that is full: no error"
  grep -q "^0 tensors" "$folder/output" || fail "version $version: a group that is full has room"
done
((ran)) || skip "/proc/self/cgroup names no group of memory, or nothing can be mounted"
cat "$folder/output"
