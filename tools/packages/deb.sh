#!/bin/sh
# VERSION=0.3.0 sh tools/packages/deb.sh: build/deb/vram-0.3.0, a source tree with debian/ at its top as
# dpkg-buildpackage wants it, and beside it the tarball without. From a git repository it is the last
# commit, else the tree less what is built.
set -e
deb=build/deb tree=vram-$VERSION
rm -rf $deb
mkdir -p "$deb/$tree"
orig=$deb/vram_$VERSION.orig.tar.gz
if [ -e .git ]; then
  git diff --quiet HEAD || echo "the package is the last commit: changes since then are not in it" >&2
  git -c tar.umask=0022 archive "--prefix=$tree/" HEAD | gzip -9n >"$orig"
else
  tar -cf - --exclude=./build --exclude=./vram --exclude='./libvram*' --exclude='./vram-*.tar.gz' \
    --exclude=__pycache__ --owner=0 --group=0 --transform="s:^\.:$tree:" . |
    gzip -9n >"$orig"
fi
tar -xzf "$orig" -C $deb
cp -R "$deb/$tree/tools/packages/debian" "$deb/$tree/debian"
echo "$deb/$tree"
