#!/usr/bin/env bash
# device_script.sh - tests/device/run.sh without a device: every part says what became of it, one
# part's failure or endless loop hides no other, the JSON is whole, parts of a file are joined by
# hash; the table made of it; the synthetic model on the processor.
. tests/cli/common.inc
command -v python3 >/dev/null || { skip device_script "no python3"; exit 0; }
bin=$T/bin
mkdir -p "$bin/tests/simt" "$bin/tests/device"
program() { # NAME; body from standard input
  { echo '#!/bin/bash'; cat; } >"$bin/$1"
  chmod +x "$bin/$1"
}
run() { env PATH="/usr/bin:/bin" bash tests/device/run.sh --bin "$bin" --out "$T/d" "$@"; }
# get PART KEY: of device.json
get() {
  python3 -c 'import json,sys
d = json.load(open(sys.argv[1]))
print(next((p[sys.argv[3]] for p in d["parts"] if p["part"] == sys.argv[2]), "-"))' "$T/d/device.json" "$1" "$2"
}

check nothing_built_is_told 1 run
is absent "$(get device status)" absent
is absent_parity "$(get parity status)" absent

no_device() { printf 'echo "%s: no CUDA device: no driver" >&2\nexit 3\n' "$1"; }
for p in kvaudit tests/device/yardstick tests/device/synthetic tests/simt/test_a; do
  no_device "$p" | program "$p"
done
check no_device_is_exit_3 3 run
for p in device parity golden synthetic quickstart; do is "no_device_$p" "$(get $p status)" 'no device'; done
case $(get device why) in *'no CUDA device: no driver'*) ok the_reason_is_kept ;; *) no "the_reason_is_kept $(get device why)" ;; esac

# one part writes half a line and hangs, one fails, one passes
program tests/device/yardstick <<'END'
echo '{"device": "a \"card\"", "capability": "9.0", "processors": 132, "memory": 150000000000, "free": 1, "l2": 62914560, "driver": 13000, "runtime": 13000}'
echo '{"yardstick": "copy", "rate": 4e12, "bytes": 1}'
echo '{"yardstick": "bf16", "rate": 8e14, "side": 8192}'
END
program tests/device/synthetic <<'END'
echo '{"model": {"shape": "toy", "layers": 2, "numerics": "bf16", "weights": 1e9}}'
echo '{"measure": "decode", "tokens": 32768, "entries": 32768, "sessions": 1, "seconds": 0.01, "bytes": 16e9, "flop": 0}'
echo '{"measure": "prefill", "tokens": 32768, "entries": 32768, "sessions": 1, "seconds": 4.0, "bytes": 1, "flop": 8e14}'
echo '{"memory": "full", "tokens": 32768, "held": 8e9, "committed": 4e9}'
echo '{"memory": "evicted", "tokens": 32768, "held": 5e9, "committed": 1e9}'
printf '{"measure": "dec'
exec sleep 60
END
program tests/simt/test_a <<'END'
echo '[  PASSED  ] 7 test(s).'
END
program tests/simt/test_b <<'END'
echo '[  PASSED  ] 2 test(s).'; echo ' 1 FAILED TEST(S)'; exit 1
END
check a_failed_part_is_exit_1 1 run --only device,parity,synthetic --seconds 3
is the_card "$(get device status)" ok
is the_failure "$(get parity status)" failed
is the_endless_one "$(get synthetic status)" 'out of time'
is its_whole_lines_stay "$(get synthetic lines | grep -o "'measure'\|'memory'" | wc -l)" 4
is the_others_are_left_out "$(get golden status)" -
check the_table 0 python3 tests/device/table.py "$T/d/device.json"
has ceilings "$T/out" 'copy 4 TB/s, bf16 product 800 TFLOP/s'
has parity_counts "$T/out" '| parity | failed |'
has tests_are_added_up "$T/out" '9 passed, 1 failed, 0 skipped in 2 programs'
# 16e9 bytes at 4e12 a second are 4 ms of 10; 8e14 FLOP one second of four
has a_target_met "$T/out" '| decode | bf16 | 32,768 | 32,768 | 1 | 10.00 ms | 40.0% | >= 35% | met |'
has a_target_missed "$T/out" '| prefill | bf16 | 32,768 | 32,768 | 1 | 4.000 s | 25.0% | <= 3.7 s | missed |'
has a_gap_is_told "$T/out" '| decode, evicted | bf16 | 32,768 | 2,048 | 1 | not measured | not measured |'
has the_witness "$T/out" '| 32,768 | bf16 | 2,861.0 MiB | 2,861.0 MiB | +0.0 MiB | 76.3 MiB | met |'
check nothing_measured 0 python3 tests/device/table.py
has not_measured "$T/out" '- card: not measured'
printf 'a\n<!-- device: begin -->\nyesterday\n<!-- device: end -->\nb\n' >"$T/readme"
check into_a_file 0 python3 tests/device/table.py --into "$T/readme"
hasnt the_old_text_goes "$T/readme" yesterday
is the_rest_stays "$(sed -n '1p;$p' "$T/readme" | paste -sd,)" a,b
# what the README says is what the program says of the file that is there, or of none
sed -n '/<!-- device: begin -->/,/<!-- device: end -->/p' kernels/README.md | sed '1d;$d' >"$T/said"
python3 tests/device/table.py $(ls tests/device/device.json 2>/dev/null) >"$T/now"
same readme_is_up_to_date "$T/said" "$T/now"

# the model file in parts
mkdir "$T/model"
printf 'first' >"$T/model/m.gguf.part1"
printf 'second' >"$T/model/m.gguf.part2"
printf 'firstsecond' | sha256sum >"$T/model/m.gguf.sha256"
program kvaudit <<'END'
case "$*" in
  *--version*) echo 'kvaudit 9.9' ;;
  *doctor*--nll*) cat >/dev/null; case "$*" in *cuda*) echo '[1.0005,2]' ;; *) echo '[1,2]' ;; esac ;;
  *"run "*) cp "$2" "$4.suite" ;;
  *"report "*) case "$*" in *cuda*) f=b ;; *) f=a ;; esac
    for i in 1 2 3; do
      echo '{"method":"dense","task":"t","budget":1,"enforce":"dense","visibility":"v","index":'$i',"score":1,"gold_nll":2.'$i',"kept_fnv":"'$([ $i$f = 3b ] && [ -n "$OTHER" ] && echo x || echo k)'"}'
    done ;;
esac
END
check quickstart_compares 0 env OTHER= bash tests/device/run.sh --bin "$bin" --out "$T/d" --only quickstart,golden --model "$T/model/m.gguf"
is joined "$(cat "$T/model/m.gguf")" firstsecond
has the_suite_names_the_file "$T/d/cuda.db.suite" "\"models\": [\"$T/model/m.gguf\"]"
case $(get quickstart lines) in *"'pairs': 3, 'same_score': 3, 'same_kept': 3"*) ok outcomes_pair ;; *) no "outcomes_pair $(get quickstart lines)" ;; esac
case $(get golden lines) in *"'tokens': 2, 'off_ref': 0.0005"*) ok golden_differences ;; *) no "golden_differences $(get golden lines)" ;; esac
check other_entries_fail 1 env OTHER=1 bash tests/device/run.sh --bin "$bin" --out "$T/d" --only quickstart --model "$T/model/m.gguf"
rm "$T/model/m.gguf"
echo 'torn' >"$T/model/m.gguf.part2"
check a_torn_part_fails 1 env OTHER= bash tests/device/run.sh --bin "$bin" --out "$T/d" --only quickstart --model "$T/model/m.gguf"
case $(get quickstart why) in *'does not have the hash'*) ok the_hash_is_named ;; *) no "the_hash_is_named $(get quickstart why)" ;; esac
check an_unknown_part 2 run --only parity,nothing
check an_option_without_value 2 run --seconds

# the program behind the part `synthetic`, small and on the processor
S=$B/tests/device/synthetic
if [ -x "$S" ]; then
  cp "$S" "$bin/tests/device/synthetic"
  check synthetic_on_the_processor 0 env KVAUDIT_DEVICE_BACKEND=cpu bash tests/device/run.sh --bin "$bin" --out "$T/d" \
    --only synthetic --shape toy --layers 1 --tokens 100,2500 --numerics f32
  is every_measure "$(get synthetic lines | grep -o "'measure'" | wc -l)" 15
  if "$S" --backend nothing >/dev/null 2>"$T/err"; then no synthetic_without_its_backend; else ok synthetic_without_its_backend; fi
  check synthetic_refuses 2 "$S" --tokens 0
else
  skip synthetic "not built: $S"
fi
exit $bad
