#!/usr/bin/env bash
# toolkit.sh DIR - what `make cuda CUDA=DIR` needs of the CUDA toolkit, from PyPI: compiler, runtime,
# cuBLASLt (840 MB on disk). For machines without an installed toolkit; nothing outside DIR is touched.
set -eu
dir=${1:?toolkit.sh DIR}
version=13.0
packages=""
for p in nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-crt nvidia-nvvm nvidia-cuda-cccl nvidia-cublas; do
  packages="$packages $p==$version.*"
done
if [ -x "$dir/bin/nvcc" ]; then
  echo "toolkit: $dir is complete"
  exit 0
fi
rm -rf "$dir.part" "$dir"
mkdir -p "$(dirname "$dir")"
# one call: the packages share a folder
# shellcheck disable=SC2086
python3 -m pip install -q --disable-pip-version-check --no-input --no-deps --root-user-action=ignore \
  --target "$dir.part" $packages
mv "$dir.part/nvidia/cu13" "$dir"
rm -rf "$dir.part"
chmod +x "$dir"/bin/* "$dir"/nvvm/bin/*
ln -s lib "$dir/lib64"
ln -s libcublasLt.so.13 "$dir/lib/libcublasLt.so"
"$dir/bin/nvcc" --version | grep -q "release $version" || { echo "toolkit: $dir/bin/nvcc does not run" >&2; exit 1; }
echo "toolkit: CUDA $version in $dir"
