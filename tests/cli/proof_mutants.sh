#!/usr/bin/env bash
# proof_mutants.sh - every bug planted in the device code (KVA_MUT(n)) makes a parity test fail that
# was not written for it: tests/simt/mutants.md says which, and this runs them in the emulator, with one seed
# of random inputs, since a bug that needs equal scores is not met by all.
#
#   tests/cli/proof_mutants.sh [N...]   prints, of all tests, those that catch the bugs
if [ $# -gt 0 ]; then
  : "${B:=build/plain}"
  for n; do
    for program in "$B"/tests/simt/test_*; do
      [ -x "$program" ] || continue
      KVA_MUTANT=$n timeout 120 "$program" >/dev/null 2>&1 || {
        caught=$(KVA_MUTANT=$n timeout 120 "$program" 2>/dev/null | awk '/^\[  FAILED  \] [a-z]/ && !seen[$4]++ {print $4}' | paste -sd ' ')
        echo "$n: $(basename "$program"): ${caught:-ended early}"
      }
    done
  done
  exit
fi
. tests/cli/common.inc
: "${B:?}"
table=tests/simt/mutants.md
[ -x "$B/tests/simt/test_simt" ] || { skip mutants "the emulator's tests are not built"; exit 0; }

# "n file" of the bugs in the sources, and of those in the table
grep -n 'KVA_MUT([0-9]' kernels/cuda/*.cu kernels/cuda/*.c kernels/cuda/*.cuh |
  sed -n 's|^kernels/cuda/\([^:]*\):.*KVA_MUT(\([0-9]*\)).*|\2 \1|p' | sort -un >"$T/planted"
sed -n 's/^| *\([0-9][0-9]*\) *| *\([^ |]*\) .*/\1 \2/p' "$table" | sort -n >"$T/listed"
if cmp -s "$T/planted" "$T/listed"; then ok all_planted_bugs_are_listed; else
  no all_planted_bugs_are_listed "$(diff "$T/planted" "$T/listed" | paste -sd ' ')"
fi
is at_least_eight_bugs $(($(wc -l <"$T/listed") >= 8)) 1

# | n | file | bug | program test |
while IFS='|' read -r _ n file bug by _; do
  n=${n// /} file=${file// /}
  read -r program name <<<"$by"
  [[ $n =~ ^[0-9]+$ ]] || continue
  KVA_SEED=${KVA_SEED:-4} KVA_MUTANT=$n timeout 120 "$B/tests/simt/$program" "$name" >"$T/out" 2>&1
  if grep -q "^\[ RUN      \] $name\$" "$T/out" && ! grep -q "^\[       OK \] $name\$" "$T/out"; then
    ok "mutant_${n}_of_${file}_is_caught"
  else
    no "mutant_${n}_of_${file}_is_caught" "not by $program $name:$bug"
  fi
  KVA_MUTANT=0 timeout 120 "$B/tests/simt/$program" "$name" >"$T/out" 2>&1 ||
    no "without_mutant_$n" "$program $name fails by itself"
done <"$table"
exit $bad
