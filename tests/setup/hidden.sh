# SPDX-License-Identifier: MIT
# Both commands without optional packages: bench/run.sh and tests/run.sh exit with 0 and print
# the parts that are left out. Started by ctest: TREE BUILD_DIR SCRATCH_DIR all|each [GROUP…].
#
# "all" hides every optional package at once and runs a part of both commands. "each" hides them in
# turn, shared between the days (share.sh), or hides the given groups: "everything",
# "clang,libclang-rt-dev".
#
# A hidden package looks as if it had never been installed: in a private mount namespace, its files are
# removed from a layer above the machine's, and dpkg does not list it. The build folder also has a
# layer: compiled files stay, and cmake's findings are removed. There is no network.
set -euo pipefail
tree=$1 build=$2 scratch=$3 mode=$4
source "$tree/tests/support/harness/needs.sh"
source "$tree/tests/support/harness/setup.sh"
source "$tree/tests/support/harness/share.sh"

if [[ -z ${HIDDEN_INSIDE-} ]]; then
  spaces=(--mount --net)
  (($(id -u) == 0)) || spaces+=(--map-root-user)
  mkdir -p "$scratch"
  unshare "${spaces[@]}" mount -t tmpfs none "$scratch" 2>/dev/null ||
    skip "no namespaces of mounts and networks for this user"
  # The variables that ctest set for this test do not apply to the tests within.
  exec unshare "${spaces[@]}" env -i PATH="$PATH" HOME="${HOME:-/}" HIDDEN_INSIDE=1 CC="${CC-cc}" \
    COMPUTE_TEST_SEED="${COMPUTE_TEST_SEED:-1}" ${COMPUTE_TEST_LONG:+COMPUTE_TEST_LONG=1} \
    ${COMPUTE_TEST_SAMPLE_SEED:+COMPUTE_TEST_SAMPLE_SEED="$COMPUTE_TEST_SAMPLE_SEED"} \
    ${CCACHE_DIR:+CCACHE_DIR="$CCACHE_DIR"} bash "$0" "$@"
fi

# ---- Layers --------------------------------------------------------------------------------------

# Files without a package, by a pattern: Python modules from elsewhere.
files_of() { # PACKAGE
  local name=$1 module
  dpkg-query -L "$name" 2>/dev/null || true
  case $name in
  python3-*)
    module=${name#python3-}
    find /usr/local/lib /usr/lib/python3 -path "*-packages/$module*" 2>/dev/null || true ;;
  esac
}

# layer FOLDER: changes to it disappear with this namespace, and the machine never sees them.
layer() {
  local place=$layers/$((++layer_count))
  mkdir -p "$place/upper" "$place/work"
  mount -t overlay overlay -o "lowerdir=$1,upperdir=$place/upper,workdir=$place/work" "$1" ||
    skip "the kernel makes no overlay on $1"
}

# Removes files in a layer, and takes folders outside all layers out of the path, because nothing there
# may be changed.
in_a_layer='^/(usr|etc|var|bin|sbin|lib|lib64|opt)/'

hide_command() { # NAME
  local file
  for file in $(type -ap "$1"); do
    if [[ $file =~ $in_a_layer ]]; then
      rm -f "$file" "$file".[0-9]* # python3.11
    else
      PATH=$(tr : '\n' <<<"$PATH" | grep -vxF "${file%/*}" | paste -sd:)
    fi
  done
}

hide() { # PACKAGE…
  local name file names=" $* "
  for name in "$@"; do files_of "$name"; done | grep -E "$in_a_layer" | sort -u >"$layers/files" || true
  while read -r file; do [[ -d $file && ! -L $file ]] || echo "$file"; done <"$layers/files" |
    xargs -d '\n' --no-run-if-empty rm -f || skip "this user cannot hide the files of packages"
  # Also the folders that become empty.
  sort -r "$layers/files" | while read -r file; do [[ ! -d $file || -L $file ]] || echo "$file"; done |
    xargs -d '\n' --no-run-if-empty rmdir --ignore-fail-on-non-empty 2>/dev/null || true
  for name in "$@"; do
    [[ ${SETUP_PROBES[$name]-} == command:* ]] && hide_command "${SETUP_PROBES[$name]#*:}"
  done
  if [[ -e /var/lib/dpkg/status ]]; then
    awk -v RS= -v ORS='\n\n' -v names="$names" '{ split($0, line, "\n"); sub(/^Package: /, "", line[1]) }
      !index(names, " " line[1] " ")' /var/lib/dpkg/status >"$layers/status"
    cp "$layers/status" /var/lib/dpkg/status
  fi
  ldconfig 2>/dev/null || /sbin/ldconfig
  rm -rf /var/lib/apt/lists/* # as in a new image
}

# Runs the rest in new layers: in_layers FUNCTION PACKAGE…
in_layers() (
  layers=$scratch/layers layer_count=0
  mkdir -p "$layers"
  mount -t tmpfs none "$layers"
  for folder in /usr /etc /var; do layer "$folder"; done
  for folder in /bin /sbin /lib /lib64 /opt; do # path: only where it is a folder
    [[ -L $folder || ! -d $folder ]] || layer "$folder"
  done
  hide "${@:2}"
  layer "$build"
  rm -rf "$build"/CMakeCache.txt "$build"/CMakeFiles/[0-9]* "$build/prefix" "$build/report" "$build/openblas"
  "$1" "${@:2}"
)

# ---- The commands --------------------------------------------------------------------------------

fail() {
  echo "$1"
  tail -n 60 "$log"
  exit 1
}

# command NAME ARGUMENT…
command_runs() {
  local status=0 began=$SECONDS
  log=$layers/log
  bash "$tree/$1" --build "$build" "${@:2}" >"$log" 2>&1 || status=$?
  ((status == 0)) || fail "$1 ends with $status without ${hidden[*]}:"
  echo "$1: $((SECONDS - began)) s"
  grep -E '^-- +left out|^skipped: |^left out: ' "$log" || true
}

says() { # WORDS
  grep -qF -- "$1" "$log" || fail "not a word of: $1"
}

# The suites and tests of optional parts, limited to a short run.
suites=overhead,matmul,fit
tests='^(bench|cli|conformance_(cpu|null)|docs|english|external|fit_files|group_|install|io_weights|onnx|opencl|privileged|public|python|rooms|setup)'
few_tests='^(bench|cli_(bench|fit|report|run)$|fit_files_(movie|others|res)|group_group|io_weights_python|onnx_nodes$|opencl|public_h|python|setup_packages)'

all_hidden() {
  hidden=(all optional packages)
  command_runs bench/run.sh --suite fit
  for words in 'fit/XYNB_7_tiff: compute-fit was built without libtiff (Debian: libtiff-dev)' \
    'left out: the peer oneDNN' 'left out: the OpenCL module' 'left out: PNG in compute-run'; do says "$words"; done
  for words in '<details class="left" open' 'Debian: libtiff-dev' 'Debian: libdnnl-dev' '<svg'; do
    grep -qF -- "$words" "$build/report/report.html" || fail "the report does not say: $words"
  done
  command_runs tests/run.sh -- --label-regex '^quick$' --tests-regex "$few_tests"
}

group_hidden() {
  hidden=("$@")
  command_runs bench/run.sh --suite "$suites"
  command_runs tests/run.sh -- --label-regex '^quick$' --tests-regex "$tests"
}

everything_hidden() {
  hidden=(all optional packages, python3 and make included)
  command_runs bench/run.sh
  command_runs tests/run.sh -- --label-regex '^quick$'
}

# Groups of packages. Packages that nothing installs for these commands are used if they are
# installed. (Without ccache, everything would be compiled again.)
groups=(libtiff-dev libhdf5-dev libyaml-dev libpng-dev libdnnl-dev libtorch-dev make python3 git g++
  ocl-icd-opencl-dev,opencl-c-headers,opencl-clhpp-headers pocl-opencl-icd,libpocl2 oclgrind libclblast1
  libgfortran5,libopenblas0-pthread,libopenblas-dev,libopenblas-pthread-dev
  clang,"$(printf '%s\n' "${SETUP_MORE_TEST_PACKAGES[@]}" | grep libclang)" valgrind
  python3-h5py python3-tifffile python3-yaml python3-numpy python3-pytest
  python3-dev,python3.11-dev,libpython3-dev,libpython3.11-dev,python3.13-dev,libpython3.13-dev
  libtiff-tools hdf5-tools graphviz libonnx-testdata
  openmpi-bin,libopenmpi-dev,libopenmpi3 mpich,libmpich-dev,libmpich12)
mapfile -t packages < <(printf '%s\n' "${SETUP_FIT_PACKAGES[@]}" "${SETUP_BENCH_PACKAGES[@]}" \
  "${SETUP_PEER_PACKAGES[@]}" "${SETUP_MORE_TEST_PACKAGES[@]}" "${SETUP_FULL_TEST_PACKAGES[@]}" \
  "${groups[@]}" gdb clinfo sudo | tr , '\n' | sort -u)
for name in "${packages[@]}"; do # the lists of setup.sh grow
  [[ " ${SETUP_FULL_TEST_PACKAGES[*]} gdb clinfo sudo ${groups[*]//,/ } " == *" $name "* ]] ||
    { echo "$name is in no group of this test"; exit 1; }
done

ip link set lo up 2>/dev/null || true
if [[ $mode == all ]]; then
  # Without python3, the report and the tests of the programs would be missing.
  mapfile -t packages < <(printf '%s\n' "${packages[@]}" | grep -vxE 'python3|make')
  in_layers all_hidden "${packages[@]}"
  exit
fi
shift 4
if [[ $mode == each ]]; then
  (($#)) || mapfile -t chosen < <(printf '%s\n' everything "${groups[@]}" | share_lines 12)
  for group in ${chosen[@]+"${chosen[@]}"} "$@"; do
    echo "== without $group"
    # Each group has a namespace: the kernel stacks only two layers, and the last group must reappear.
    unshare --mount bash "$0" "$tree" "$build" "$scratch" group "$group"
  done
  exit
fi
group=$1 # mode "group": within "each"
if [[ $group == everything ]]; then
  in_layers everything_hidden "${packages[@]}"
elif [[ -n $(files_of "${group%%,*}") ]]; then
  IFS=, read -ra names <<<"$group"
  in_layers group_hidden "${names[@]}"
else
  echo "it is not installed"
fi
