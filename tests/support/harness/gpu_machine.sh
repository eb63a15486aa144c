# SPDX-License-Identifier: MIT
# Adds missing software of a machine with an NVIDIA GPU and finds hidden software, for tests/gpu.sh.
# That script sources this file and defines refuse, build, carry, candidates and info.

# Debian packages to unpack where a machine with CUDA, gcc, CMake and ninja may lack them.
CARRIED=(pkgconf pkgconf-bin libpkgconf3 libjansson4 libjansson-dev libmd0 libmd-dev zlib1g zlib1g-dev
  libcmocka0 libcmocka-dev libopenblas0-pthread libgfortran5 ocl-icd-libopencl1 ocl-icd-opencl-dev
  opencl-c-headers opencl-clhpp-headers)

left_out=()
leave_out() {
  left_out+=("$*")
  echo "left out: $*" >&2
}

# Makes links between packages relative, so that they work wherever the folder is carried.
pack_packages() {
  local folder=$1 work link target
  work=$(mktemp -d)
  mkdir -p "$folder"
  # As root, apt-get would download as a user who cannot write here, and warn about it.
  (cd "$work" && apt-get -qq -o APT::Sandbox::User=root download "${CARRIED[@]}") ||
    refuse "--pack: these packages cannot be downloaded; apt-get update may help"
  for package in "$work"/*.deb; do dpkg -x "$package" "$folder"; done
  rm -rf "$work"
  while read -r link; do
    target=$(readlink "$link")
    [[ $target == /* ]] || continue
    ln -sfnr "$folder$target" "$link"
  done < <(find "$folder" -type l)
  du -sh "$folder"
}

# Makes compilers, pkg-config, CMake and the loader find the carried folder.
use_carried() {
  local architecture folder
  architecture=$(cc -print-multiarch 2>/dev/null || true)
  local libraries=$carry/usr/lib/${architecture:-$(uname -m)-linux-gnu}
  export PATH=$PATH:$carry/usr/bin # the machine's own programs come first
  export CPATH=$carry/usr/include${CPATH:+:$CPATH}
  export LIBRARY_PATH=$libraries${LIBRARY_PATH:+:$LIBRARY_PATH}
  for folder in "$carry/lib/${libraries##*/}" "$libraries/openblas-pthread" "$libraries"; do
    LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  done
  export LD_LIBRARY_PATH
  export PKG_CONFIG_PATH=$libraries/pkgconfig:$carry/usr/share/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
  export PKG_CONFIG_SYSROOT_DIR=$carry
  export CMAKE_PREFIX_PATH=$carry/usr
}
# A container may have NVIDIA's OpenCL driver without the file that registers it.
use_opencl_driver() {
  local library
  [[ -n ${OCL_ICD_VENDORS-} ]] && return
  compgen -G '/etc/OpenCL/vendors/*nvidia*' >/dev/null && return
  library=$({ PATH=$PATH:/sbin:/usr/sbin ldconfig -p || true; } |
    sed -n '/libnvidia-opencl\.so\.1 /{s/^.*=> //p;q}')
  if [[ -z $library ]]; then
    leave_out "OpenCL on the NVIDIA GPU: no libnvidia-opencl.so.1"
    return
  fi
  mkdir -p "$build"
  echo "$library" >"$build/nvidia.icd"
  export OCL_ICD_VENDORS=$build/nvidia.icd
}
# PyTorch's package contains NVIDIA's libraries, in folders unknown to the loader.
use_torch_libraries() {
  local folder
  while read -r folder; do
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
  done < <(python3 -c '
import glob, importlib.util
spec = importlib.util.find_spec("nvidia")
for place in spec.submodule_search_locations if spec else ():
    print("\n".join(sorted(glob.glob(place + "/*/lib"))))' 2>/dev/null | sed '/^$/d')
  [[ -z ${LD_LIBRARY_PATH-} ]] || export LD_LIBRARY_PATH
}

# ---- Devices ------------------------------------------------------------------------------------

# Prints a property of a device from compute-info.
fact() {
  awk -v device="$1" -v fact="$2" '
    /^  [^ ]/ { here = $1 == device }
    here && $1 == fact { sub(/^ *[^ ]+ +/, ""); print; exit }' <<<"$info"
}

# Prints the GPUs among `candidates`.
find_devices() {
  local device type
  devices=()
  for device in "${candidates[@]}"; do
    type=$(fact "$device" type)
    if [[ -n $type && $type != CPU ]]; then
      devices+=("$device")
    else
      leave_out "$device: see compute-info"
    fi
  done
}

has_cuda() { [[ " ${devices[*]-} " == *" cuda:0 "* ]]; }

folder_name() {
  local model
  model=$(fact "${devices[0]-}" model)
  tr 'A-Z ' 'a-z-' <<<"${model:-no-gpu}" | tr -cd 'a-z0-9-'
}
