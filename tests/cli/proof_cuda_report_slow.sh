#!/usr/bin/env bash
# proof_cuda_report_slow.sh - the report of all device kernels of the tree: no stack, no spills, and every
# line of the roofline is a kernel's.
. tests/cli/common.inc
NVCC=${NVCC:-$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)}
if [ -z "$NVCC" ] || ! command -v python3 >/dev/null; then
  skip cuda_report_of_the_tree "no nvcc or no python3: registers and spills of the kernels are not measured"
  exit 0
fi
export NVCC
check the_tree_has_no_spills 0 python3 tests/device/report.py --roofline kernels/cuda/roofline.tsv kernels/cuda/*.cu
sed -n 's/^\(report: .*\)/# \1/p' "$T/err"
exit $bad
