#!/usr/bin/env bash
# run.sh - everything a machine with a GPU is asked, in one go of at most five minutes.
#
#   tests/device/run.sh [--bin DIR] [--model FILE] [--out DIR] [--seconds 300] [--only PART,...]
#                       [--shape NAME] [--layers N] [--tokens A,B] [--numerics A,B]
#
# DIR holds kvaudit and tests/ (default: beside this script as `make cuda-carry` packs them, else
# build/cuda). FILE may lie in parts FILE.part1, FILE.part2, ... with FILE.sha256 beside them.
# Parts, in their order: device, parity, golden, synthetic, quickstart, sanitizer. Each has its own
# time limit and none needs another; what is left of --seconds cuts them. DIR/device.json holds what
# came out (README.md says how), complete after every part; beside it lie run.log, the parts' logs,
# and PART.tar.xz, what a part that failed was working on.
#
# Exit 0: every part passed (sanitizer may be skipped). 1: one did not. 2: misuse. 3: no device,
# each part says so.
set -u
here=$(cd "$(dirname "$0")" && pwd)
bin='' model='' out=device-out seconds=300 only='' shape=llama-3.1-8b layers='' tokens=4096,32768
numerics=bf16,f32
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || { echo "run.sh: $1 without a value" >&2; exit 2; }
  case $1 in
    --bin) bin=$2 ;;
    --model) model=$2 ;;
    --out) out=$2 ;;
    --seconds) seconds=$2 ;;
    --only) only=$2 ;;
    --shape) shape=$2 ;;
    --layers) layers=$2 ;;
    --tokens) tokens=$2 ;;
    --numerics) numerics=$2 ;;
    *) echo "run.sh: no option $1" >&2; exit 2 ;;
  esac
  shift 2
done
case $seconds in
  '' | *[!0-9]* | ???????*) echo "run.sh: --seconds wants a number of at most six digits" >&2; exit 2 ;;
esac
seconds=$((10#$seconds))
PARTS='device parity golden synthetic quickstart sanitizer'
case $only in '' | *[!,]*) ;; *) echo "run.sh: --only names no part" >&2; exit 2 ;; esac
for p in ${only//,/ }; do
  case " $PARTS " in *" $p "*) ;; *) echo "run.sh: no part $p; known: $PARTS" >&2; exit 2 ;; esac
done
if [ -z "$bin" ]; then
  if [ -x "$here/bin/kvaudit" ]; then bin=$here/bin; else bin=build/cuda; fi
fi
for d in "$here" "$here/../.."; do # where configs/ lies: packed beside, or in the tree
  if [ -e "$d/configs/quickstart.json" ]; then root=$d; break; fi
done
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
rm -f "$out/device.json" # the folder may be one with other things in it
for p in $PARTS; do rm -rf "$out/$p.part" "$out/$p.tar.xz"; done
: >"$out/run.log"
begin=$SECONDS
# The library of large products lies with CUDA or, where only Python's packages brought it, with those.
want=$(ldd "$bin/kvaudit" 2>/dev/null | sed -n 's/^[[:space:]]*\(libcublasLt[^ ]*\) => not found.*/\1/p')
if [ -n "$want" ]; then
  for d in /usr/local/cuda*/lib64 /usr/local/cuda*/targets/*/lib /opt/cuda/lib64 /usr/lib/*-linux-gnu \
    $(python3 -c 'import sys; print(*(p + "/nvidia/*/lib" for p in sys.path if p))' 2>/dev/null) \
    /opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib; do
    if [ -e "$d/$want" ]; then export LD_LIBRARY_PATH=$d${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; break; fi
  done
fi
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES-0} KVAUDIT_OFFLINE=1 HOME=${HOME:-$out}

version=$(timeout 10 "$bin/kvaudit" --version 2>/dev/null | head -1 | tr -d '\000')

# A text as a JSON string: control characters become blanks, what is no ASCII (and may be cut in two) "?".
ascii() { LC_ALL=C tr -s '\000-\037' ' ' | LC_ALL=C tr '\177-\377' '?'; }
quote() { printf '"%s"' "$(printf %s "$1" | ascii | sed 's/\\/\\\\/g; s/"/\\"/g')"; }
# Of what a part printed the lines that are whole objects, comma between them: a program may have been
# stopped inside a line, and the next one goes on behind it. A number that is none becomes null.
value='("([^"\\]|\\.)*"|-?[0-9][-+.0-9eE]*|true|false|null)'
key='"[a-z0-9_]+": '
object="\\{($key$value(, $key$value)*)?\\}"
whole_lines() {
  LC_ALL=C tr '\000-\011\013-\037' ' ' <"$1" | LC_ALL=C tr '\177-\377' '?' |
    sed -E 's/: [-+]?(nan|inf)([,}])/: null\2/g' |
    grep -E "^\\{$key($value|$object)(, $key($value|$object))*\\}$" | paste -sd, -
}
# The last complete words of a log, for a reader of the JSON alone.
last_words() { tail -c 400 "$1" 2>/dev/null | tr -d '\000'; }
milli() { local t=${EPOCHREALTIME/[.,]/}; echo "${t%???}"; }
left() { echo $((seconds - (SECONDS - begin))); }

# part NAME LIMIT: runs part_NAME, whose standard output is JSON lines and whose status is 0 (ok),
# 1 (failed), 3 (no device), 4 (absent: something it needs is not here); 124: out of time.
part() {
  local name=$1 limit=$2 from to rc status why='' lines tmp=$out/$1.tmp
  [ -z "$only" ] || case ",$only," in *",$name,"*) ;; *) return ;; esac
  [ "$(left)" -ge "$limit" ] || limit=$(left)
  from=$(milli)
  rm -rf "$tmp"
  mkdir "$tmp" || exit 2
  if [ "$limit" -le 0 ]; then
    rc=125 limit=0
  else
    limit=$limit tmp=$tmp timeout -k 5 "$limit" bash "$here/parts.sh" "part_$name" \
      >"$out/$name.lines" 2>"$out/$name.log"
    rc=$?
  fi
  to=$(milli)
  case $rc in
    0 | 3 | 4 | 5 | 125) ;;
    *) [ -z "$(ls "$tmp")" ] || tar -C "$out" --exclude='*.gguf' -cJf "$out/$name.tar.xz" "$name.tmp" ;;
  esac
  rm -rf "$tmp"
  why=$(last_words "$out/$name.log")
  lines=''
  if [ -e "$out/$name.lines" ]; then
    lines=$(whole_lines "$out/$name.lines")
    { echo "== $name"; tail -c 2000000 "$out/$name.log"; } >>"$out/run.log"
  fi
  [ $rc -ne 0 ] || [ -n "$lines" ] || { rc=1 why="no result was printed${why:+; $why}"; }
  case $rc in
    0) status=ok why='' ;;
    3) status='no device' ;;
    4) status=absent ;;
    5) status=skipped ;;
    124 | 137) status='out of time' why="stopped after $limit s${why:+; $why}" ;;
    125) status='not reached' why="the $seconds s were used up" ;;
    *) status=failed why="status $rc${why:+; $why}" ;;
  esac
  printf '{"part": "%s", "status": "%s", "exit": %d, "seconds": %d.%03d, "limit": %d, "why": %s, "lines": [%s]}\n' \
    "$name" "$status" $rc $(((to - from) / 1000)) $(((to - from) % 1000)) "$limit" \
    "$(quote "$why")" "$lines" >"$out/$name.part"
  rm -f "$out/$name.lines" "$out/$name.log"
  printf '%-10s %-11s %5d.%01d s  %s\n' "$name" "$status" $(((to - from) / 1000)) \
    $(((to - from) % 1000 / 100)) "$(printf %s "$why" | ascii | tail -c 160)"
  write_json
}

write_json() {
  local p list=''
  for p in $PARTS; do
    if [ -e "$out/$p.part" ]; then list+="${list:+,
  }$(cat "$out/$p.part")"; fi
  done
  {
    printf '{"schema": "kvaudit/device-1", "program": %s, "date": "%s", "seconds": %d,\n "parts": [\n  %s\n ]}\n' \
      "$(quote "$version")" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" $((SECONDS - begin)) "$list"
  } >"$out/device.json.tmp" && mv -f "$out/device.json.tmp" "$out/device.json"
}

export bin root model shape layers tokens numerics
part device 40
part parity 60
part golden 20
part synthetic 150
part quickstart 60
part sanitizer 90
all=
for p in $PARTS; do
  [ ! -e "$out/$p.part" ] || all+=$(sed -n '1s/^{"part": "[a-z]*", "status": "\([a-z ]*\)".*/\1/p' "$out/$p.part")$'\n'
  rm -f "$out/$p.part"
done
all=$(printf %s "$all" | sort -u | paste -sd,)
echo "$out/device.json"
case $all in
  ok | ok,skipped) exit 0 ;;
  'no device' | 'no device,skipped') exit 3 ;;
  *) exit 1 ;;
esac
