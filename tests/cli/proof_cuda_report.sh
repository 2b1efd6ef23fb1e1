#!/usr/bin/env bash
# proof_cuda_report.sh - `make cuda-report`: stored output of the compiler becomes the table, worked
# occupancies, what it refuses; with nvcc also the kernels of the tree.
. tests/cli/common.inc
if ! command -v python3 >/dev/null; then
  skip cuda_report "no python3"
  exit 0
fi
report() { python3 tests/device/report.py "$@"; }

# three kernels: clean, one with a frame in sm_90 alone, one with a function beside it
ptxas() { # STACK [CALLED]
  for arch in sm_80 sm_90; do
    cat <<END
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z4goodILi128EEvPf' for '$arch'
ptxas info    : Function properties for _Z4goodILi128EEvPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 512 bytes smem, 360 bytes cmem[0]
ptxas info    : Compiling entry function '_Z5otherPf' for '$arch'
ptxas info    : Function properties for _Z5otherPf
    $([ $arch = sm_90 ] && echo "$1" || echo 0) bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for _Z4calledv
    ${2:-0} bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers
END
  done
}
cat >"$T/k.ptx" <<'END'
.entry _Z4goodILi128EEvPf(
	.param .u64 p
)
.maxntid 128, 1, 1
{
}
.entry _Z5otherPf(
	.param .u64 p
)
.maxntid 256
{
}
END
ptxas 0 >"$T/clean"
check clean_kernels_pass 0 report --ptxas "$T/clean" --ptx "$T/k.ptx"
# 128 registers x 32 = 4,096 a warp: 16 warps of 64; 4 blocks of 4 warps
has occupancy_by_registers "$T/out" '| `good<128>` | clean | 128 | 128 / 128 | 0 | 0 | 512 |  | 4 / 4 | 25 % / 25 % |'
has occupancy_by_warps "$T/out" '| `other` | clean | 256 | 32 / 32 | 0 | 0 | 0 |  | 8 / 8 | 100 % / 100 % |'
ptxas 96 >"$T/frame"
check a_stack_frame_fails 1 report --ptxas "$T/frame" --ptx "$T/k.ptx"
has the_kernel_is_named "$T/err" 'other: 96 bytes of stack, 0 bytes of spills'
ptxas 0 16 >"$T/called"
check the_frame_of_a_called_function_fails 1 report --ptxas "$T/called" --ptx "$T/k.ptx"
sed 's/0 bytes spill loads/8 bytes spill loads/' "$T/clean" >"$T/spill"
check spills_fail 1 report --ptxas "$T/spill" --ptx "$T/k.ptx"

row() { printf 'read\t%s\t%s\t%s\t%s\t%s\t%s\t%s\tnote\n' "$@"; }
rest() { row other '' double 1 0 "$@"; } # every kernel has a line
# 96 KiB and 1 KiB of the system: one block in 164 KiB, two in 228 KiB
{ row good 128 tensor L '96*1024' '4.3e12/1000' '790e12/100'; rest 2150 '34e12/100'; } >"$T/roof"
check roofline 0 report --ptxas "$T/clean" --ptx "$T/k.ptx" --roofline "$T/roof"
has occupancy_by_shared_memory "$T/out" '98304 | 1 / 2 | 6 % / 12 %'
has time_is_the_larger_bound "$T/out" '| 32 | 4.3 GB | 7.9 TFLOP | tensor | tensor | 10 ms |'
has doubles_have_their_own_rate "$T/out" '| 1 | 2.15 kB | 340 GFLOP | double | double | 10 ms |'
{ row good 128 tensor L 0 1 1; rest 2150 1; } >"$T/roof"
check short_times 0 report --ptxas "$T/clean" --ptx "$T/k.ptx" --roofline "$T/roof"
has a_time_below_a_microsecond "$T/out" '| memory | 0.5 ns |'
row good 128 tensor L 0 1 1 >"$T/roof"
check a_kernel_without_a_line_fails 1 report --ptxas "$T/clean" --ptx "$T/k.ptx" --roofline "$T/roof"
has it_is_named "$T/err" "other has no line in $T/roof"
sed 's/Z4goodILi128/Z4goodILi256/' "$T/clean" >"$T/wide"
sed 's/Z4goodILi128/Z4goodILi256/' "$T/k.ptx" >"$T/wide.ptx"
{ cat "$T/clean"; sed '/Z5other/,/Used 32/d' "$T/wide"; } >"$T/two"
{ row good 128 tensor L 1024 1 1; rest 1 1; } >"$T/roof"
check two_variants 0 report --ptxas "$T/two" --ptx "$T/k.ptx" "$T/wide.ptx" --roofline "$T/roof"
has unknown_shared_memory_is_no_zero "$T/out" '| `good<256>` | two | 128 | 128 / 128 | 0 | 0 | 512 | ? | ? / ? | ? / ? |'
printf -- '-\tgood\t256\tfma\t0\t96*1024\t0\t0\t\n' >>"$T/roof"
check a_line_of_shared_memory 0 report --ptxas "$T/two" --ptx "$T/k.ptx" "$T/wide.ptx" --roofline "$T/roof"
has it_is_counted "$T/out" '| 98304 | 1 / 2 | 6 % / 12 % |'
hasnt it_is_no_job "$T/out" '| - |'
row good 128 tensor 1 '200*1024' 1 1 >"$T/roof"
check a_block_that_does_not_fit_fails 1 report --ptxas "$T/clean" --ptx "$T/k.ptx" --roofline "$T/roof"
has no_block_fits "$T/err" 'good<128>: no block fits an SM of sm_80'
{ row gone '' fma 1 0 1 1; row good '' fma 1 0 1 1; rest 1 1; } >"$T/roof"
check a_stale_name_fails 1 report --ptxas "$T/clean" --ptx "$T/k.ptx" --roofline "$T/roof"
has the_stale_line_is_named "$T/err" "roof:1: no source has a kernel gone"
row good '' fma 1 0 'n*oops' 1 >"$T/roof"
check an_unknown_name_fails 1 report --ptxas "$T/clean" --ptx "$T/k.ptx" --roofline "$T/roof"
has the_expression_is_named "$T/err" 'cannot evaluate "n*oops"'
echo 'read	good' >"$T/roof"
check a_short_line_fails 1 report --ptxas "$T/clean" --ptx "$T/k.ptx" --roofline "$T/roof"
has the_columns_are_counted "$T/err" 'roof:1: 2 columns, 9 are wanted'

# the roofline and the kernels of the tree name each other (with the compiler: proof_cuda_report_slow.sh)
awk -F'\t' '!/^#/ && $2 != "kernel" && $2 != "cublasLt" && NF {print $2}' kernels/cuda/roofline.tsv | LC_ALL=C sort -u >"$T/rows"
python3 - kernels/cuda/*.cu >"$T/kernels" <<'END'
import re, sys
names = set()
for path in sys.argv[1:]:
    text = open(path).read()
    for m in re.finditer(r"\bKVA_KERNEL(?:_OF)?\(", text):
        at, depth = m.end(), 1
        while depth:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        names.add(re.match(r"\s*(\w+)\(", text[at:])[1])
print("\n".join(sorted(names)))
END
LC_ALL=C comm -23 "$T/rows" "$T/kernels" >"$T/stale"
empty the_roofline_names_kernels_of_the_tree "$T/stale"
LC_ALL=C comm -13 "$T/rows" "$T/kernels" >"$T/missing"
empty every_kernel_of_the_tree_has_a_line "$T/missing"

NVCC=${NVCC:-$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)}
if [ -z "$NVCC" ]; then
  skip cuda_report_of_the_tree "no nvcc: registers and spills of the kernels are not measured"
  exit $bad
fi
export NVCC
cat >"$T/frame.cu" <<'END'
#include "kernels/cuda/shim.cuh"
KVA_KERNEL(64) bent(float *y, int n)
{
    float x[32];
    for (int i = 0; i < n; i++)
        x[i & 31] = y[i];
    for (int i = 0; i < n; i++)
        y[i] = x[i * 7 & 31];
}
void launch(float *y) { KVA_LAUNCH(bent, 1, 64, 0, NULL, y, 8); }
END
check a_compiled_frame_fails 1 report --keep "$T/kept" "$T/frame.cu"
has bent_is_named "$T/err" 'bent: 128 bytes of stack'
echo 'not C' >"$T/broken.cu"
check a_broken_file_fails 3 report "$T/broken.cu"
exit $bad
