#!/bin/bash
# SPDX-License-Identifier: MIT
# Makes the release: dist.sh TREE VERSION FOLDER writes FOLDER/libcompute-VERSION.tar.xz, what git
# has in HEAD and, as debian/, the packaging. The same commit gives the same bytes. Beside it are its
# checksums, and libcompute-VERSION-packaging/ with the files for other package managers. `cmake
# --build build --target dist` starts this.
set -euo pipefail
tree=$1 version=$2 folder=$3
name=libcompute-$version

commit=$(git -C "$tree" rev-parse --verify HEAD 2>/dev/null) &&
  [[ $(git -C "$tree" rev-parse --show-toplevel) == "$(realpath "$tree")" ]] ||
  { echo "dist: $tree is not a git checkout; a release is made from one" >&2; exit 1; }
[[ -z $(git -C "$tree" status --porcelain --untracked-files=no) ]] ||
  echo "dist: what is not committed is not in the release" >&2
seconds=$(git -C "$tree" log -1 --format=%ct "$commit")
soversion=${version%%.*}
[[ $soversion != 0 ]] || soversion=$(cut -d. -f1-2 <<<"$version")

work=$(mktemp -d "$folder/dist-XXXXXX")
trap 'rm -rf "$work"' EXIT
git -C "$tree" archive --prefix="$name/" "$commit" | tar -x -C "$work"
packaging=$work/$name/debian
cp -r "$work/$name/src/packaging/debian" "$packaging"
sed -i "s/@soversion@/$soversion/g" "$packaging/control" "$packaging/rules"
cat >"$packaging/changelog" <<TEXT
libcompute ($version-1) unstable; urgency=medium

  * Release $version; what is new is in the documentation.

 -- $(sed -n 's/^Maintainer: //p' "$packaging/control")  $(LC_ALL=C date -u -R -d "@$seconds")
TEXT
tar -c -C "$work" --format=gnu --sort=name --mtime="@$seconds" --owner=0 --group=0 --numeric-owner \
  --mode=u=rwX,go=rX "$name" | xz -6 -T1 >"$work/$name.tar.xz"
mv "$work/$name.tar.xz" "$folder/"
(cd "$folder" && sha256sum "$name.tar.xz" >"$name.tar.xz.sha256" && sha512sum "$name.tar.xz" >"$name.tar.xz.sha512")

# The files *.in get the version, the address and the checksums.
recipes=$folder/$name-packaging
rm -rf "$recipes"
mkdir "$recipes"
for manager in meson vcpkg conan homebrew nix; do
  cp -r "$work/$name/src/packaging/$manager" "$recipes/"
done
cp "$work/$name/docs/examples/hello.c" "$recipes/conan/test_package/program.c"
find "$recipes" -name '*.in' | while read -r file; do
  sed -e "s|@version@|$version|g" -e "s|@url@|$(cat "$work/$name/src/packaging/url")|g" \
    -e "s|@sha256@|$(cut -d' ' -f1 "$folder/$name.tar.xz.sha256")|g" \
    -e "s|@sha512@|$(cut -d' ' -f1 "$folder/$name.tar.xz.sha512")|g" "$file" >"${file%.in}"
  rm "$file"
done
echo "$folder/$name.tar.xz"
