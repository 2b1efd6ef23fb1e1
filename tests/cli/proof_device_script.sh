#!/usr/bin/env bash
# proof_device_script.sh - tests/device/run.sh without a device: every part says what became of it, one
# part's failure or endless loop hides no other, the JSON is whole, parts of a file are joined by
# hash; what `report --device` makes of it; the synthetic model on the processor.
. tests/cli/common.inc
command -v python3 >/dev/null || { skip device_script "no python3"; exit 0; }
bin="$T/the bin" out="$T/the out" # a blank in every path
mkdir -p "$bin/tests/simt" "$bin/tests/device"
program() { # NAME; body from standard input
  { echo '#!/bin/bash'; cat; } >"$bin/$1"
  chmod +x "$bin/$1"
}
run() { env PATH="/usr/bin:/bin" bash tests/device/run.sh --bin "$bin" --out "$out" "$@"; }
# get PART KEY: of device.json
get() {
  python3 -c 'import json,sys
d = json.load(open(sys.argv[1]))
print(next((p[sys.argv[3]] for p in d["parts"] if p["part"] == sys.argv[2]), "-"))' "$out/device.json" "$1" "$2"
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

# one part hangs behind half a line, one crashes, one passes; the processor's program says no device
program tests/device/yardstick <<'END'
echo '{"device": "a \"card\" \\ H200", "capability": "9.0", "processors": 132, "memory": 150000000000, "free": 1, "l2": 62914560, "driver": 13000, "runtime": 13000}'
echo '{"yardstick": "copy", "rate": 4e12, "bytes": 1}'
echo '{"yardstick": "bf16", "rate": 8e14, "side": 8192}'
echo '{"yardstick": "f32", "rate": nan, "side": 8192}'
echo 'a word of the driver'
END
program tests/device/synthetic <<'END'
case "$*" in *'--numerics bf16'*) ;; *) sleep 60 ;; esac
echo '{"model": {"shape": "llama-3.1-8b", "layers": 32, "backend": "cuda", "numerics": "bf16", "isa": "x", "seed": 1, "weights": 1e9, "seconds": 1.5}}'
echo '{"measure": "decode", "tokens": 32768, "entries": 32768, "sessions": 1, "seconds": 0.01, "bytes": 16e9, "flop": 0}'
echo '{"measure": "prefill", "tokens": 32768, "entries": 32768, "sessions": 1, "seconds": 4.0, "bytes": 1, "flop": 8e14}'
echo '{"memory": "full", "tokens": 32768, "held": 8e9, "committed": 4e9, "alloc": 4e9, "live": 4e9}'
echo '{"memory": "evicted", "tokens": 32768, "held": 5e9, "committed": 1e9, "alloc": 1e9, "live": 1e9}'
printf '{"measure": "dec'
kill -SEGV $$
END
program tests/simt/test_a <<'END'
echo '[  PASSED  ] 7 test(s).'
END
program tests/simt/test_b <<'END'
echo '[ RUN      ] the_last_one'
printf 'half \377\303' >&2
kill -SEGV $$
END
program tests/simt/test_c <<'END'
echo '[  PASSED  ] 2 test(s).'; echo ' 1 FAILED TEST(S)'; exit 1
END
check no_time_at_all 1 run --seconds 0
is nothing_was_reached "$(for p in device parity golden synthetic quickstart sanitizer; do get $p status; done | sort -u)" 'not reached'
check leading_zeros_are_decimal 0 run --seconds 08 --only device
is the_others_are_left_out "$(get golden status)" -
mkdir -p "$out"
echo mine >"$out/other.log"
check a_failed_part_is_exit_1 1 run --seconds 15
is the_card "$(get device status)" ok
is a_crash_is_a_failure "$(get parity status)" failed
case $(get parity why) in *'test_b: status 139, last [ RUN ] the_last_one half ??'*) ok the_crash_is_described ;; *) no "the_crash_is_described $(get parity why)" ;; esac
is the_program_without_a_device "$(get golden status)" 'no device'
is the_endless_one "$(get synthetic status)" 'out of time'
is its_whole_lines_stay "$(get synthetic lines | grep -o "'measure'\|'memory'" | wc -l)" 4
is what_came_too_late "$(get quickstart status),$(get sanitizer status)" 'not reached,not reached'
is a_nan_is_null "$(get device lines | grep -c "'rate': None")" 1
is words_of_a_crashed_program_are_kept "$(tar xJOf "$out/parity.tar.xz" parity.tmp/test_b.txt | head -1)" '[ RUN      ] the_last_one'
has the_logs_of_all_parts "$out/run.log" '== golden'
is other_files_stay "$(cat "$out/other.log")" mine
# what the program says of it
show() { "$KVAUDIT" report --device "$out/device.json" "$@"; }
check the_report 0 show -f markdown
has the_card_is_named "$T/out" '| a "card" \\ H200 | 9.0 | 132 | 140 GiB | 60.0 MiB | 13.0 | 13.0 | 4.00 | 800.0 | not measured |'
has parity_counts "$T/out" '| parity | failed |'
has why_it_failed "$T/out" '- parity: status 1; '
has tests_are_added_up "$T/out" '9 passed, 1 failed, 0 skipped in 3 programs'
# 16e9 bytes at 4e12 a second are 4 ms of 10; 8e14 FLOP one second of four
has a_target_met "$T/out" '| decode | bf16 | 32768 | 32768 | 1 | 10.000 | 4.000 | memory | 40.0 | &gt;= 35 % | met |'
has a_target_missed "$T/out" '| prefill | bf16 | 32768 | 32768 | 1 | 4000.000 | 1000.000 | product | 25.0 | &lt;= 3.7 s | missed |'
has a_gap_is_told "$T/out" '| decode, evicted | bf16 | 32768 | 2048 | 1 | not measured |'
has the_witness "$T/out" '| 32768 | bf16 | 2.8 GiB | 2.8 GiB | 0 B | 76.3 MiB | met |'
check for_a_terminal 0 show
has columns "$T/out" 'decode                bf16       32768    32768     1        10.000   40.0  >= 35 %   met'
has times_of_a_model "$T/out" 'numerics bf16: random weights of the shape llama-3.1-8b, 32 layers, 1.00 GB'
check as_csv 0 show -f csv
has csv_rows "$T/out" 'device-times,Times and their share of the ceilings,row,decode,bf16,32768,32768,1,10,4,memory,0.4,>= 35 %,met'
check as_json 0 show --json
is json_numbers "$(python3 -c 'import json,sys
t = {x["id"]: x for x in json.load(open(sys.argv[1]))["tables"]}
r = next(x for x in t["device-times"]["rows"] if x["measure"] == "decode" and x["time"])
print(r["time"], r["share"], t["device-memory"]["rows"][0]["seen"])' "$T/out")" '10 0.4 3000000000'
check as_a_page 0 show -o "$T/page" -q
has the_page "$T/page/index.html" 'Memory given back by an eviction'
check missed_targets_are_a_no 1 show --strict
has strict_counts "$T/err" '2 targets are missed, 2 not measured, 1 met'
check nothing_measured 0 "$KVAUDIT" report --device
has not_measured "$T/out" 'not measured'
check no_other_view 2 show leaderboard
check no_file 3 "$KVAUDIT" report --device "$T/nothing.json"
has the_file_is_named "$T/err" "$T/nothing.json"
sed 's/"status": "ok"/"status": "fine"/' "$out/device.json" >"$T/torn.json"
check another_word 3 "$KVAUDIT" report --device "$T/torn.json"
has its_place "$T/err" 'torn.json: parts[0]: unknown status "fine"'
head -c 300 "$out/device.json" >"$T/torn.json"
check half_a_file 3 "$KVAUDIT" report --device "$T/torn.json"
# what kernels/README.md says is what the program says of the file that is there, or of none
export KVAUDIT
cp kernels/README.md "$T/readme"
check into_a_file 0 env README="$T/readme" tests/device/table.sh $(ls tests/device/device.json 2>/dev/null)
same readme_is_up_to_date "$T/readme" kernels/README.md
check measured_into_a_file 0 env README="$T/readme" tests/device/table.sh "$out/device.json"
is the_rest_stays "$(sed '/device: begin/,/device: end/d' "$T/readme" | cksum)" "$(sed '/device: begin/,/device: end/d' kernels/README.md | cksum)"
has the_new_text "$T/readme" '| parity | failed |'
echo 'no marks' >"$T/readme"
check marks_are_wanted 1 env README="$T/readme" tests/device/table.sh

# a program of parity that hangs leaves the others their time
program tests/simt/test_b <<'END'
echo '[ RUN      ] the_endless_one'
exec sleep 60
END
for t in d e f; do echo "echo '[  PASSED  ] 1 test(s).'" | program tests/simt/test_$t; done
check one_hangs 1 run --seconds 15 --only parity
is the_others_ran "$(get parity lines | grep -o "'exit': [0-9]*" | tr -dc '0-9\n' | paste -sd ' ')" "0 124 1 0 0 0"
case $(get parity why) in *'test_b: status 124, last [ RUN ] the_endless_one'*) ok the_endless_one_is_named ;; *) no "the_endless_one_is_named $(get parity why)" ;; esac
rm "$bin"/tests/simt/test_[def]

# nothing but noise is no measurement, and no noise breaks the file
for p in kvaudit tests/device/yardstick tests/device/synthetic; do
  program $p <<'END'
for _ in 1 2 3; do printf '\000\377{"a": 1}x\n{"b": '; printf '\000"\\%%\377' >&2; done
END
done
check noise_is_a_failure 1 run --only device,golden,synthetic,quickstart
for p in device golden synthetic quickstart; do is "noise_of_$p" "$(get $p status)" failed; done
hasnt no_complaint_of_the_shell "$T/err" run.sh:

# compute-sanitizer: absent is skipped, and a finding of one tool fails
mkdir "$T/tools"
cat >"$T/tools/compute-sanitizer" <<'END'
#!/bin/bash
[ "$2" = racecheck ] && [ "${5##*/}" = test_b ] && exit 9
shift 4
exec "$@"
END
chmod +x "$T/tools/compute-sanitizer"
for t in b c; do echo "echo '[  PASSED  ] 1 test(s).'" | program tests/simt/test_$t; done
if [ -e /usr/local/cuda/bin/compute-sanitizer ]; then
  skip no_sanitizer "there is one"
else
  check no_sanitizer_is_no_failure 0 run --only parity,sanitizer
  is it_is_skipped "$(get sanitizer status)" skipped
fi
check a_finding_fails 1 env PATH="$T/tools:/usr/bin:/bin" bash tests/device/run.sh --bin "$bin" --out "$out" --only sanitizer
check findings_are_reported 0 show
has which_target_missed "$T/out" '1 of 6 programs with findings'

# the model file in parts
mkdir "$T/the model"
export SEEN=$T/seen
printf 'first' >"$T/the model/m.gguf.part1"
printf 'second' >"$T/the model/m.gguf.part2"
printf 'firstsecond' | sha256sum >"$T/the model/m.gguf.sha256"
program kvaudit <<'END'
case "$*" in
  *--version*) echo 'kvaudit 9.9' ;;
  *doctor*--nll*) cat >/dev/null; case "$*" in *cuda*) echo '[1.0005,2]' ;; *) echo '[1,2]' ;; esac ;;
  *"run "*)
    cp "$2" "$SEEN.suite"
    cp "$(sed -n 's/.*"models": \["\(.*\)"\].*/\1/p' "$2")" "$SEEN.model" ;;
  *"report "*) case "$*" in *cuda*) f=b ;; *) f=a ;; esac
    for i in 1 2 3; do
      echo '{"method":"dense","task":"t","budget":1,"enforce":"dense","visibility":"v","index":'$i',"score":1,"gold_nll":2.'$i',"kept_fnv":"'$([ $i$f = 3b ] && [ -n "$OTHER" ] && echo x || echo k)'"}'
    done ;;
esac
END
check quickstart_compares 0 env OTHER= bash tests/device/run.sh --bin "$bin" --out "$out" --only quickstart,golden --model "$T/the model/m.gguf"
is joined "$(cat "$SEEN.model")" firstsecond
has the_suite_names_the_file "$SEEN.suite" "\"models\": [\"$out/quickstart.tmp/m.gguf\"]"
is nothing_else_is_left "$(ls "$out" | paste -sd ' ')" 'device.json other.log run.log'
case $(get quickstart lines) in *"'pairs': 3, 'same_score': 3, 'same_kept': 3"*) ok outcomes_pair ;; *) no "outcomes_pair $(get quickstart lines)" ;; esac
case $(get golden lines) in *"'tokens': 2, 'off_ref': 0.0005"*) ok golden_differences ;; *) no "golden_differences $(get golden lines)" ;; esac
cp "$bin/kvaudit" "$T/kept"
sed -i "s/\[1.0005,2\]/[1,nan]/" "$bin/kvaudit"
check a_nan_is_no_agreement 1 env OTHER= bash tests/device/run.sh --bin "$bin" --out "$out" --only golden
case $(get golden lines) in *"'off_ref': None"*) ok nan_is_told ;; *) no "nan_is_told $(get golden lines)" ;; esac
cp "$T/kept" "$bin/kvaudit"
check other_entries_fail 1 env OTHER=1 bash tests/device/run.sh --bin "$bin" --out "$out" --only quickstart --model "$T/the model/m.gguf"
is what_it_compared_is_kept "$(tar tJf "$out/quickstart.tar.xz" | grep -c 'jsonl$\|gguf$')" 2
echo 'torn' >"$T/the model/m.gguf.part2"
check a_torn_part_fails 1 env OTHER= bash tests/device/run.sh --bin "$bin" --out "$out" --only quickstart --model "$T/the model/m.gguf"
case $(get quickstart why) in *'does not have the hash'*) ok the_hash_is_named ;; *) no "the_hash_is_named $(get quickstart why)" ;; esac
check an_unknown_part 2 run --only parity,nothing
check an_option_without_value 2 run --seconds
check an_empty_list 2 run --only ,
check no_number 2 run --seconds 1e3
touch "$T/a_file"
check a_file_is_no_folder 2 run --out "$T/a_file"

# the program behind the part `synthetic`, small and on the processor
S=$B/tests/device/synthetic
if [ -x "$S" ]; then
  cp "$S" "$bin/tests/device/synthetic"
  check synthetic_on_the_processor 0 env KVAUDIT_DEVICE_BACKEND=cpu bash tests/device/run.sh --bin "$bin" --out "$out" \
    --only synthetic --shape toy --layers 1 --tokens 100,2500 --numerics f32
  is every_measure "$(get synthetic lines | grep -o "'measure'" | wc -l)" 15
  if "$S" --backend nothing >/dev/null 2>"$T/err"; then no synthetic_without_its_backend; else ok synthetic_without_its_backend; fi
  check synthetic_refuses 2 "$S" --tokens 0
else
  skip synthetic "not built: $S"
fi
exit $bad
