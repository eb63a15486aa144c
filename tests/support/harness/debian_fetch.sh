# SPDX-License-Identifier: MIT
# Fetches Debian's packages for another architecture, and sources of packages, without a change to
# this machine: apt-get's state is in a separate folder. Source this file. Each function fails
# without apt-get, a network or such a package.
#
#   fetch_packages FOLDER ARCHITECTURE NAME…   unpacks them into FOLDER/root
#   fetch_sources FOLDER NAME…                 unpacks each into FOLDER/NAME
#   build_libraries FOLDER PREFIX [HOST]       builds zlib, libmd and cmocka from their sources in
#                                              FOLDER with $CC and $CFLAGS, and installs them

# Sets `options`, and reads the lists of packages from the machine's own sources, as far as they are
# Debian's.
fetch_prepare() {
  local folder=$1 architecture=$2 file
  mkdir -p "$folder"/{lists/partial,cache/archives/partial,sources}
  folder=$(realpath "$folder")
  : >"$folder/status"
  for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
    [[ -s $file ]] || continue
    # Both formats of the file, for packages and for sources.
    sed -E 's/^Types:.*/Types: deb deb-src/; s/^deb(-src)? (.*)/deb \2\ndeb-src \2/' "$file" \
      >"$folder/sources/$(basename "$file" | sed 's/^sources.list$/debian.list/')"
  done
  options=(-qq -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture"
    -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$folder/sources"
    -o "Dir::State::lists=$folder/lists" -o "Dir::State::status=$folder/status"
    -o "Dir::Cache=$folder/cache" -o APT::Sandbox::User=)
  command -v apt-get >/dev/null && command -v dpkg >/dev/null && apt-get "${options[@]}" update
}

fetch_packages() {
  local folder=$1 options file
  fetch_prepare "$folder/apt" "$2" || return 1
  mkdir -p "$folder/root"
  (cd "$folder/apt/cache" && apt-get "${options[@]}" download "${@:3}") || return 1
  for file in "$folder"/apt/cache/*.deb; do dpkg -x "$file" "$folder/root" || return 1; done
}

fetch_sources() {
  local folder=$1 options name
  command -v dpkg-source >/dev/null && fetch_prepare "$folder/apt" "$(dpkg --print-architecture)" ||
    return 1
  for name in "${@:2}"; do
    rm -rf "${folder:?}/$name"
    (cd "$folder/apt/cache" && apt-get "${options[@]}" --download-only source "$name" &&
      dpkg-source --no-check -x "${name}"_*.dsc "$folder/$name") >/dev/null || return 1
  done
}

build_libraries() {
  local folder=$1 prefix=$2 system=${3:+-DCMAKE_SYSTEM_NAME=Linux} host=${3:+--host=$3}
  (cd "$folder/zlib" && ./configure --static --prefix="$prefix" && make install) &&
    (cd "$folder/libmd" && ./configure $host --disable-shared --prefix="$prefix" && make install) &&
    cmake -S "$folder/cmocka" -B "$folder/cmocka/build" $system -DWITH_EXAMPLES=OFF \
      -DCMAKE_C_COMPILER="$CC" -DCMAKE_INSTALL_PREFIX="$prefix" &&
    cmake --build "$folder/cmocka/build" --target install
}
