#!/usr/bin/env bash
# carry.sh BUILD TO - packs what a machine with a GPU needs: the programs of BUILD (build/cuda), the
# libraries they load, the scripts, the suite; TO.tar.xz beside it. The C library, the driver and
# CUDA's own libraries are that machine's.
set -eu
build=$1 to=$2
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$to" "$to.tar.xz"
mkdir -p "$to/bin" "$to/lib" "$to/configs" "$to/model"
cp "$here/run.sh" "$here/parts.sh" "$here/README.md" "$to/"
cp "$here/../../configs/quickstart.json" "$to/configs/"
(cd "$build" && find kvaudit tests -type f -perm -u+x) | while read -r f; do
  mkdir -p "$to/bin/$(dirname "$f")"
  cp "$build/$f" "$to/bin/$f"
  strip --strip-debug "$to/bin/$f"
done
find "$to/bin" -type f -exec ldd {} + | awk '/=> \// {print $3}' | sort -u | while read -r lib; do
  case $(basename "$lib") in
    libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | libresolv.so.* | ld-linux*) ;;
    libcu* | libnv*) case $lib in *libcurl*) cp -L "$lib" "$to/lib/" ;; esac ;;
    *) cp -L "$lib" "$to/lib/" ;;
  esac
done
echo "needs $(find "$to/bin" "$to/lib" -type f -exec objdump -T {} + | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)"
(cd "$to" && find . -type f ! -name SHA256SUMS -exec sha256sum {} + >SHA256SUMS)
# the programs share most of their bytes: a dictionary over several of them halves the file
tar -C "$(dirname "$to")" -cf - "$(basename "$to")" | xz --lzma2=preset=2,dict=64MiB >"$to.tar.xz"
du -sh "$to" "$to.tar.xz"
