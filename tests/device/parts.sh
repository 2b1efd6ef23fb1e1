# parts.sh PART - one part of run.sh; its environment holds bin, root, model, shape, layers, tokens,
# numerics, limit (its seconds) and tmp, a folder of its own. Standard output: JSON lines. Standard
# error: the log.
set -u
absent() { echo "absent: $*" >&2; exit 4; }
program() { [ -x "$bin/$1" ] || absent "$bin/$1"; }
now_ms() { local t=${EPOCHREALTIME/[.,]/}; echo "${t%???}"; }
# A program that needs the device asks for it by itself; scripts ask once, before they work.
need_device() {
  program kvaudit
  local said rc
  said=$("$bin/kvaudit" doctor --model builtin:tiny-llama --backend cuda 2>&1)
  rc=$?
  [ $rc -eq 0 ] || { printf '%s\n' "$said" >&2; exit $rc; }
}

part_device() {
  program tests/device/yardstick
  if command -v nvidia-smi >/dev/null; then timeout 10 nvidia-smi >&2; fi
  "$bin/tests/device/yardstick"
}

# The parity programs of the emulator, linked with the real runtime. Each counts its tests as all
# test programs do. One that hangs leaves the others their time: it is stopped after three times its
# even share of the seconds until END.
run_tests() { # END COMMAND-PREFIX... -- PROGRAM...
  local end=$1 prefix=() t name share rc bad=0 none=0 n=0 from p f s
  shift
  while [ "$1" != -- ]; do prefix+=("$1"); shift; done
  shift
  for t in "$@"; do
    [ -x "$t" ] || continue
    share=$((3 * (end - SECONDS) / ($# - n))) n=$((n + 1)) from=$(now_ms) name=$(basename "$t")
    timeout -k 2 $((share > 0 ? share : 1)) "${prefix[@]}" "$t" >"$tmp/$name.txt" 2>&1
    rc=$?
    read -r p f s < <(awk '/^\[  PASSED  \] [0-9]+ test\(s\)/ {p += $4}
      /^\[  SKIPPED \] [0-9]+ test\(s\)/ {s += $4}
      /^ [0-9]+ FAILED TEST\(S\)/ {f += $1}
      END {printf "%d %d %d\n", p, f, s}' "$tmp/$name.txt")
    printf '{"test": "%s", "passed": %d, "failed": %d, "skipped": %d, "exit": %d, "ms": %d}\n' \
      "$name" "$p" "$f" "$s" $rc $(($(now_ms) - from))
    if [ $rc -ne 0 ]; then
      if [ $rc -eq 3 ]; then none=$((none + 1)); else bad=1; fi
      echo "$t: status $rc, last $(grep -a '^\[ *RUN *\]' "$tmp/$name.txt" | tail -1)" >&2
      grep -av '^\[ *RUN *\]\|^\[ *OK *\]' "$tmp/$name.txt" | tail -15 >&2
    else
      rm -f "$tmp/$name.txt"
    fi
  done
  [ $n -gt 0 ] || absent "no test program in $bin/tests/simt"
  [ $bad -eq 0 ] || return 1
  [ $none -eq 0 ] || return 3
}

part_parity() { run_tests "$limit" env -- "$bin"/tests/simt/test_*; }

part_sanitizer() {
  local tool end rc=0 s
  s=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
  [ -n "$s" ] || { echo "compute-sanitizer is not installed" >&2; exit 5; }
  for tool in racecheck memcheck; do # the more telling first (README.md)
    echo "{\"tool\": \"$tool\"}"
    if [ $tool = racecheck ]; then end=$((limit * 2 / 3)); else end=$limit; fi
    # KVAUDIT_SMALL: each test once, not twice, for these are a hundred times slower
    KVAUDIT_SMALL=1 run_tests "$end" "$s" --tool $tool --error-exitcode 9 -- "$bin"/tests/simt/test_* || rc=$?
  done
  return $rc
}

# The tiny golden model: -log p of 200 tokens on the device against numerics ref of the processor.
part_golden() {
  local ids nll=()
  need_device
  ids="[256$(for i in $(seq 1 199); do printf ',%d' $((i * 37 % 256)); done)]"
  for how in '--numerics ref' '--numerics f32' '--numerics f32 --backend cuda'; do
    # shellcheck disable=SC2086
    nll+=("$(echo "$ids" | "$bin/kvaudit" doctor --model builtin:tiny-llama --nll --kv f16 $how)") || return 1
  done
  printf '%s\n' "${nll[@]}" | tr -d '[]' | awk -F, '
    { for (i = 1; i <= NF; i++) x[NR, i] = $i; n[NR] = NF }
    END {
      if (n[1] < 1 || n[1] != n[2] || n[1] != n[3]) exit 1
      for (i = 1; i <= n[1]; i++) {
        for (k = 1; k <= 3; k++) # a NaN is larger than nothing
          if (x[k, i] !~ /^ *-?[0-9][0-9.]*([eE][-+]?[0-9]+)? *$/) bad = 1
        a = x[3, i] - x[1, i]; b = x[3, i] - x[2, i]
        if (a < 0) a = -a; if (b < 0) b = -b
        if (a > ma) ma = a; if (b > mb) mb = b
      }
      if (bad) { print "a -log p is no number" >"/dev/stderr"; ma = mb = "null" }
      else { ma = sprintf("%.3g", ma); mb = sprintf("%.3g", mb) }
      printf "{\"golden\": \"builtin:tiny-llama\", \"tokens\": %d, \"off_ref\": %s, \"off_f32\": %s}\n", n[1], ma, mb
      exit !(!bad && ma <= 2e-3 && mb <= 2e-3)
    }'
}

# The model file; one in parts is joined in $tmp and checked.
find_model() {
  local name=SmolLM2-135M-Instruct.Q4_1.gguf f=${model:-} whole
  for f in "$f" "$root/$name" "$root/model/$name" "${XDG_CACHE_HOME:-${HOME:-}/.cache}/kvaudit/models/$name"; do
    [ -n "$f" ] || continue
    if [ -e "$f" ]; then echo "$f"; return; fi
    [ -e "$f.part1" ] || continue
    whole=$tmp/$(basename "$f")
    cat "$f".part[0-9]* >"$whole" || return 1
    if [ -e "$f.sha256" ] &&
      [ "$(sha256sum <"$whole" | cut -d' ' -f1)" != "$(cut -d' ' -f1 <"$f.sha256")" ]; then
      echo "the joined $f does not have the hash of $f.sha256" >&2
      return 1
    fi
    echo "$whole"
    return
  done
  return 4
}

# The quickstart's suite on both backends; the same samples, outcome by outcome.
part_quickstart() {
  local file named rc suite=$tmp/quickstart.json b
  file=$(find_model)
  rc=$?
  [ $rc -ne 1 ] || return 1
  if [ $rc -ne 0 ]; then
    echo "no model file: builtin:retrieval stands in" >&2
    file=builtin:retrieval
  fi
  need_device
  named=$(printf %s "$file" | sed 's/["\\]/\\&/g; s/[\\&|]/\\&/g') # in JSON, in a sed replacement
  for b in cpu cuda; do # the processor's own times are no concern of this part, and take minutes
    sed 's|"models": \[.*\]|"models": ["'"$named"'"]|; s|"n": 20|"n": 4|; s|"perf": 1|"perf": '$([ $b = cpu ]; echo $?)'|' \
      "$root/configs/quickstart.json" >"$suite"
    "$bin/kvaudit" run "$suite" --db "$tmp/$b.db" --backend $b --progress none >&2 || return 1
    "$bin/kvaudit" report --db "$tmp/$b.db" --what outcomes -f jsonl >"$tmp/$b.jsonl" || return 1
  done
  awk -v name="$(basename "$file")" '
    function get(key,   m) {
      if (!match($0, "\"" key "\":(\"[^\"]*\"|[^,}]*)")) return ""
      m = substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
      gsub(/"/, "", m)
      return m
    }
    get("method") == "" { noise = 1 }
    {
      k = get("method") "|" get("task") "|" get("budget") "|" get("enforce") "|" get("visibility") "|" get("index")
      if (FNR == NR) { score[k] = get("score"); kept[k] = get("kept_fnv"); nll[k] = get("gold_nll"); na++; next }
      nb++
      if (!(k in score)) { lost++; next }
      pairs++
      same_score += score[k] == get("score")
      same_kept += kept[k] == get("kept_fnv")
      if (get("method") ~ /^(blind|dense|streaming|random)/) moved += kept[k] != get("kept_fnv")
      if (kept[k] == get("kept_fnv")) {
        d = nll[k] - get("gold_nll"); if (d < 0) d = -d; if (d > worst) worst = d
      }
    }
    END {
      printf "{\"quickstart\": \"%s\", \"cpu\": %d, \"cuda\": %d, \"pairs\": %d, \"same_score\": %d, \"same_kept\": %d, \"off_nll\": %.3g}\n",
        name, na, nb, pairs, same_score, same_kept, worst
      # Where numbers choose, rounding may move one of the entries of all layers across the cut; where
      # positions or chance do, none moves.
      exit !(!noise && pairs > 0 && pairs == na && pairs == nb && moved == 0 && same_score >= 0.9 * pairs && worst <= 0.05)
    }' "$tmp/cpu.jsonl" "$tmp/cuda.jsonl"
}

# Times and memory on random weights of a real shape; one run for each numerics.
part_synthetic() {
  local rc=0 n
  program tests/device/synthetic
  for n in ${numerics//,/ }; do
    "$bin/tests/device/synthetic" --backend "${KVAUDIT_DEVICE_BACKEND:-cuda}" --numerics "$n" \
      --shape "$shape" --tokens "$tokens" ${layers:+--layers "$layers"} || rc=$?
    echo # a line that was not finished ends here
  done
  return $rc
}

"$@"
