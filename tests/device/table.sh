#!/usr/bin/env bash
# table.sh [DEVICE.json] - what `kvaudit report --device` says of the file, or of none, as the section
# "On a device" of kernels/README.md (KVAUDIT: the program; README: another file).
set -eu
readme=${README:-kernels/README.md}
begin='<!-- device: begin -->' end='<!-- device: end -->'
[ "$(grep -cxF -e "$begin" -e "$end" "$readme")" = 2 ] || { echo "table.sh: $readme: not one pair of marks" >&2; exit 1; }
new=$("${KVAUDIT:-build/kvaudit}" report --device ${1:+"$1"} -f markdown)
{
  sed "/^$begin\$/q" "$readme"
  printf '%s\n' "$new"
  sed -n "/^$end\$/,\$p" "$readme"
} >"$readme.tmp"
mv -f "$readme.tmp" "$readme"
