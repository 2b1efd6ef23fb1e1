#!/usr/bin/env bash
# fetch_http.sh - fetching from a hostile server (fetch_server.py): every way of misbehaving ends in
# the right bytes or the right exit code, and no token is ever shown.
. tests/cli/common.inc
command -v python3 >/dev/null || { skip fetch_http "no python3"; exit 0; }
export HF_TOKEN=hf_abcdefSECRETghijkl0123 SERVER_TOKEN=hf_abcdefSECRETghijkl0123
unset HF_HOME HF_HUB_CACHE HF_TOKEN_PATH HF_HUB_OFFLINE XDG_CACHE_HOME http_proxy https_proxy \
  all_proxy HTTPS_PROXY ALL_PROXY SSL_CERT_FILE
export HOME=$T/home no_proxy='*' HF_HUB_CACHE=$T/hub
mkdir -p "$HOME" "$T/srv"
cert=()
if command -v openssl >/dev/null && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 \
  -addext subjectAltName=IP:127.0.0.1 -keyout "$T/key" -out "$T/cert" 2>/dev/null; then
  cert=("$T/cert" "$T/key")
fi
mkfifo "$T/stop"
python3 tests/cli/fetch_server.py "$T/srv" "${cert[@]}" <"$T/stop" &
exec 9>"$T/stop"
until_true test -s "$T/srv/ports"
read -r port other tls <"$T/srv/ports" || { no server_starts "no ports"; exit 1; }
base=http://127.0.0.1:$port
sha=$(sha256sum <"$T/srv/truth" | cut -c1-64)
export HF_ENDPOINT=$base

# start NAME MODE OPTION...: a fetch of its own cache beside the others; wait, then ended NAME CODE
start() {
  local name=$1 url=$base/$2/$1
  shift 2
  (
    KVAUDIT_CACHE=$T/c/$name "$KVAUDIT" fetch "$url" --sha256 "$sha" --max-wait 0 -vv "$@" \
      >"$T/$name.out" 2>"$T/$name.err" 9>&-
    echo $? >"$T/$name.code"
  ) &
  jobs_left="$jobs_left $!"
}
ended() {
  is "$1" "$(cat "$T/$1.code")" "$2"
  [ "$2" = 0 ] && same "$1_bytes" "$T/c/$1/blobs/$sha" "$T/srv/truth"
  is "$1_leaves_no_part" "$(find "$T/c/$1" -name '*.part*' 2>/dev/null | wc -l)" "${3:-0}"
}
asked() { grep -c -- "$1" "$T/srv/log"; } # requests that look so
jobs_left=""
good_modes="ok cut norange badstart badtotal nototal liar206 416 weak 429 503 wrongonce nolength slow hop away"
bad_modes="wrong longer shorter huge loop outside outside2 ftp file 401 403 404 410 400 changed drop 500 garbage"
for m in $good_modes $bad_modes; do
  case $m in slow) start "t_$m" $m --stall 2 ;; *) start "t_$m" "$m" ;; esac
done
wait $jobs_left
for m in $good_modes; do ended "t_$m" 0; done
for m in wrong longer loop outside outside2 ftp file 401 403 404 410 400 changed shorter; do ended "t_$m" 3; done
for m in huge drop 500 garbage; do ended "t_$m" 3 "$(find "$T/c/t_$m" -name '*.part*' | wc -l)"; done

has cut_resumes "$T/srv/log" "GET /cut/t_cut n=2 range=bytes=50000- if-range=\"v1\""
is cut_takes_four_answers "$(asked 'GET /cut/')" 4
is compressed_bodies_are_not_asked_for "$(grep -vc 'encoding=- ' "$T/srv/log")" 0
is weak_tag_is_not_resumed "$(asked 'GET /weak/.* range=bytes')" 0
is norange_starts_over "$(asked 'GET /norange/')" 2
for m in badstart badtotal nototal liar206 416; do is "${m}_starts_over" "$(asked "GET /$m/.* range=-")" 2; done
has retry_after_is_kept "$T/t_429.err" "HTTP 429; trying again in 2.0 s (1 of 6)"
is unavailable_twice_then_the_file "$(asked 'GET /503/')" 3
for m in 401 403 404 410 400; do is "no_second_try_after_$m" "$(asked "GET /$m/")" 1; done
is six_more_tries_then_an_end "$(asked 'GET /500/')" 7
is six_more_tries_without_a_byte "$(asked 'GET /drop/')" 7
has gives_up_aloud "$T/t_500.err" "HTTP 500; given up after 7 tries"
is wrong_bytes_get_one_fresh_try "$(asked 'GET /wrong/')" 2
has wrong_bytes_are_said "$T/t_wrong.err" "SHA-256"
has slow_is_broken_off "$T/t_slow.err" "trying again"
is slow_resumes "$(asked 'GET /slow/.* n=2 range=bytes=')" 1
has loop_ends "$T/t_loop.err" "edirect"
is loop_is_followed_five_times "$(asked 'GET /loop/')" 6
for m in 404 503; do
  KVAUDIT_CACHE=$T/c/endless check "endless_${m}_ends" 3 timeout 120 "$KVAUDIT" fetch "$base/endless$m/x" \
    --sha256 "$sha" --max-wait 0
  has "endless_${m}_is_told" "$T/err" "HTTP $m"
done
KVAUDIT_CACHE=$T/c/endless check endless_redirect_is_followed 0 timeout 120 "$KVAUDIT" fetch \
  "$base/endless302/x" --sha256 "$sha" --max-wait 0
has http_elsewhere_is_refused "$T/t_outside.err" "--allow-http"
has scheme_relative_too "$T/t_outside2.err" "--allow-http"
has a_local_file_is_no_answer "$T/t_file.err" "redirected to file:///etc/passwd: "
has no_room_has_numbers "$T/t_huge.err" "1050000000.0 MB are needed"
has refused_names_the_token "$T/t_403.err" "HF_TOKEN"
is no_token_outside_the_hub "$(grep -c 'auth=Bearer' "$T/srv/log")" 0

# what is there is not fetched again; a damaged blob is
export KVAUDIT_CACHE=$T/c/t_ok
check present 0 "$KVAUDIT" fetch "$base/ok/t_ok" --sha256 "$sha"
has present_says_so "$T/out" "present $KVAUDIT_CACHE/blobs/$sha"
is present_asks_nothing "$(asked 'GET /ok/t_ok')" 1
printf X | dd of="$KVAUDIT_CACHE/blobs/$sha" bs=1 seek=5 conv=notrunc 2>/dev/null
check damaged_offline_is_3 3 "$KVAUDIT" fetch "$base/ok/t_ok" --sha256 "$sha" --offline
check damaged_is_replaced 0 "$KVAUDIT" fetch "$base/ok/t_ok" --sha256 "$sha"
same damaged_is_right_again "$KVAUDIT_CACHE/blobs/$sha" "$T/srv/truth"
check dest 0 "$KVAUDIT" fetch "$base/ok/t_ok?token=abc" --sha256 "$sha" --dest "$T/d"
same dest_has_the_file "$T/d/t_ok" "$T/srv/truth"
hasnt dest_hides_the_parameter "$T/out" "token=abc"

# pins, addresses, words
export KVAUDIT_CACHE=$T/c/pins
check unpinned_is_refused 2 "$KVAUDIT" fetch "$base/ok/u"
has unpinned_says_what_to_do "$T/err" "--allow-unpinned"
check unpinned_taken 0 "$KVAUDIT" fetch "$base/ok/u" --allow-unpinned
same unpinned_bytes "$KVAUDIT_CACHE/blobs/$sha" "$T/srv/truth"
check unpinned_found_again 0 "$KVAUDIT" fetch "$base/ok/u" --allow-unpinned --offline
has unpinned_found_says_so "$T/out" "present"
check empty_file 0 "$KVAUDIT" fetch "$base/empty/e" --allow-unpinned --dest "$T/d"
empty empty_file_is_empty "$T/d/e"
check http_is_refused 2 "$KVAUDIT" fetch http://192.0.2.1/x --sha256 "${sha:1}0"
has http_refusal_says_how "$T/err" "--allow-http"
check other_scheme 2 "$KVAUDIT" fetch ftp://127.0.0.1/x --sha256 "$sha"
check short_hash 2 "$KVAUDIT" fetch "$base/ok/u" --sha256 abc
check hash_for_one 2 "$KVAUDIT" fetch "$base/ok/u" "$base/ok/v" --sha256 "$sha"
check hub_word 2 "$KVAUDIT" fetch hf:org/../x --allow-unpinned
check progress_word 2 "$KVAUDIT" fetch "$base/ok/u" --progress fancy
check plain_progress 0 "$KVAUDIT" fetch "$base/steady/p" --sha256 "$sha" --progress plain
if [ -s "$T/err" ]; then ok plain_progress_has_lines; else
  KVAUDIT_CACHE=$T/c/pl check plain 0 "$KVAUDIT" fetch "$base/steady/p" --sha256 "$sha" --progress plain
  is plain_progress_has_lines "$([ "$(wc -l <"$T/err")" -ge 4 ] && echo yes)" yes
fi
KVAUDIT_CACHE=$T/c/quiet check no_progress 0 "$KVAUDIT" fetch "$base/steady/q" --sha256 "$sha" --progress none
empty no_progress_is_silent "$T/err"

# a full disk: what came stays, the next run goes on
export KVAUDIT_CACHE=$T/c/full
(ulimit -f 100; "$KVAUDIT" fetch "$base/ok/full" --sha256 "$sha" >"$T/out" 2>"$T/err" 9>&-)
is full_disk_is_3 $? 3
has full_disk_is_named "$T/err" "cannot write"
check after_full_disk 0 "$KVAUDIT" fetch "$base/ok/full" --sha256 "$sha"
same after_full_disk_bytes "$KVAUDIT_CACHE/blobs/$sha" "$T/srv/truth"
is after_full_disk_resumes "$(asked 'GET /ok/full.* range=bytes=')" 1

# kill -9 and SIGINT in the middle, then the rest; two at once
for signal in KILL INT; do
  export KVAUDIT_CACHE=$T/c/$signal
  "$KVAUDIT" fetch "$base/held/$signal" --sha256 "$sha" >/dev/null 2>&1 9>&- &
  pid=$!
  part=$KVAUDIT_CACHE/blobs/$sha.part
  until_true test -s "$part"
  kill -$signal $pid
  wait $pid 2>/dev/null
  is "exit_after_$signal" $? $([ $signal = KILL ] && echo 137 || echo 130)
  before=$(stat -c %s "$part")
  check "resume_after_$signal" 0 "$KVAUDIT" fetch "$base/held/$signal" --sha256 "$sha"
  same "resume_after_${signal}_bytes" "$KVAUDIT_CACHE/blobs/$sha" "$T/srv/truth"
  has "resume_after_${signal}_asks_for_the_rest" "$T/srv/log" "n=2 range=bytes=$before-"
done
export KVAUDIT_CACHE=$T/c/two
"$KVAUDIT" fetch "$base/held/two" --sha256 "$sha" >"$T/a" 2>&1 9>&- &
first=$!
until_true test -s "$KVAUDIT_CACHE/blobs/$sha.part"
"$KVAUDIT" fetch "$base/held/two" --sha256 "$sha" >"$T/out" 2>"$T/err" 9>&- &
second=$!
until_true grep -q "waiting for it" "$T/err" && ok second_process_waits || no second_process_waits
touch "$T/srv/go"
wait $first
is first_process $? 0
wait $second
is second_process $? 0
is two_processes_one_transfer "$(asked 'GET /held/two')" 1
same two_processes_bytes "$KVAUDIT_CACHE/blobs/$sha" "$T/srv/truth"

# the hub: layout, token, links, other programs' files
export KVAUDIT_CACHE=$T/c/hub
commit=0123456789abcdef0123456789abcdef01234567
check hub_file 0 "$KVAUDIT" fetch hf:org/repo/sub/dir/model.bin --sha256 "$sha" -vv
repo=$T/hub/models--org--repo
has hub_prints_the_snapshot "$T/out" "fetched $repo/snapshots/$commit/sub/dir/model.bin"
is hub_link_is_relative "$(readlink "$repo/snapshots/$commit/sub/dir/model.bin")" "../../../../blobs/$sha"
same hub_blob "$repo/blobs/$sha" "$T/srv/truth"
is hub_ref "$(cat "$repo/refs/main")" $commit
is hub_lock_is_where_others_look "$(ls "$T/hub/.locks/models--org--repo")" "$sha.lock"
has hub_gets_the_token "$T/srv/log" "HEAD /org/repo/resolve/main/sub/dir/model.bin n=0 range=- if-range=- encoding=- auth=Bearer $HF_TOKEN"
is the_store_does_not "$(grep '/store/' "$T/srv/log" | grep -vc 'auth=- ')" 0
is the_store_was_asked "$(grep -c '/store/' "$T/srv/log")" 1
hasnt signatures_are_hidden "$T/err" verysecret
check hub_again 0 "$KVAUDIT" fetch hf:org/repo/sub/dir/model.bin --sha256 "$sha" --offline
has hub_again_present "$T/out" present
check hub_other_path 0 "$KVAUDIT" fetch hf:org/repo@refs%2Fpr%2F1/copy.bin --allow-unpinned
has hub_other_path_needs_no_transfer "$T/out" present
is hub_ref_with_slashes "$(cat "$repo/refs/refs/pr/1")" $commit
check hub_git_file 0 "$KVAUDIT" fetch hf:org/repo/small.json --allow-unpinned
same hub_git_file_bytes "$repo/snapshots/$commit/small.json" "$T/srv/small"
check hub_git_hash_is_checked 3 "$KVAUDIT" fetch hf:org/wrong/bad/small.json --allow-unpinned
has hub_git_hash_is_said "$T/err" "git hash"
check hub_other_hash 3 "$KVAUDIT" fetch hf:org/repo/other.bin --sha256 "${sha:1}0"
check hub_no_hash 3 "$KVAUDIT" fetch hf:org/repo/none.bin --allow-unpinned
check hub_renamed 0 "$KVAUDIT" fetch hf:old/repo/m.bin --allow-unpinned
check hub_no_such_revision 3 "$KVAUDIT" fetch hf:org/repo@nope/m.bin --allow-unpinned
check hub_other_commit 3 "$KVAUDIT" fetch "hf:org/repo@$(printf 'f%.0s' $(seq 40))/m.bin" --allow-unpinned
has hub_other_commit_said "$T/err" "the hub answers with commit ${commit:0:12}"
check hub_gated_with_token 0 "$KVAUDIT" fetch hf:org/gated/m.bin --allow-unpinned
HF_TOKEN=hf_otherSECRETtoken check hub_gated_with_another 3 "$KVAUDIT" fetch hf:org/gated@$commit/n.bin --allow-unpinned
has hub_gated_names_the_page "$T/err" "$base/org/gated"
check hub_branch 0 "$KVAUDIT" fetch hf:org/repo@moved/b.bin --allow-unpinned
touch "$T/srv/moved"
check hub_branch_moves 0 "$KVAUDIT" fetch hf:org/repo@moved/b.bin --allow-unpinned
has hub_branch_moved "$T/out" "fetched $repo/snapshots/89abcdef"
mkdir -p "$T/hub/models--org--mine/blobs"
cp "$T/srv/truth" "$T/hub/models--org--mine/blobs/$sha"
check file_of_another_program 0 "$KVAUDIT" fetch hf:org/mine/m.bin --sha256 "$sha"
has file_of_another_program_is_used "$T/out" present
echo damaged >"$T/hub/models--org--mine/blobs/$sha"
check damaged_file_of_another_program 0 "$KVAUDIT" fetch hf:org/mine@$commit/m.bin --sha256 "$sha"
same damaged_file_of_another_program_replaced "$T/hub/models--org--mine/blobs/$sha" "$T/srv/truth"
unset HF_TOKEN
mkdir -p "$T/hf"
echo "$SERVER_TOKEN" >"$T/hf/token"
HF_HOME=$T/hf check token_of_a_file 0 "$KVAUDIT" fetch hf:org/gated/o.bin --allow-unpinned
HF_TOKEN_PATH=$T/hf/token check token_of_a_path 0 "$KVAUDIT" fetch hf:org/gated/p.bin --allow-unpinned
check no_token 3 "$KVAUDIT" fetch hf:org/gated/q.bin --allow-unpinned
export HF_TOKEN=$SERVER_TOKEN

# offline: every place is named, no socket is made
check offline_hub 3 "$KVAUDIT" fetch hf:org/absent/m.bin hf:org/repo@$commit/absent.bin --offline --allow-unpinned
has offline_names_the_ref "$T/err" "$T/hub/models--org--absent/refs/main"
has offline_names_the_snapshot "$T/err" "$repo/snapshots/$commit/absent.bin"
HF_HUB_OFFLINE=1 check offline_by_the_hub_variable 3 "$KVAUDIT" fetch "$base/ok/z" --sha256 "${sha:1}0"
has offline_names_the_blob "$T/err" "$KVAUDIT_CACHE/blobs/${sha:1}0"
if command -v strace >/dev/null && strace -f -e trace=network -o "$T/trace" true 2>/dev/null; then
  strace -f -e trace=network -o "$T/trace" "$KVAUDIT" fetch "$base/ok/z" hf:org/absent/m.bin smollm2-135m \
    --allow-unpinned --offline >/dev/null 2>&1
  is offline_makes_no_socket "$(grep -c 'socket(' "$T/trace")" 0
  strace -f -e trace=network -o "$T/trace" "$KVAUDIT" fetch "$base/ok/z" --allow-unpinned >/dev/null 2>&1
  is online_makes_one "$([ "$(grep -c 'socket(' "$T/trace")" -gt 0 ] && echo yes)" yes
else
  skip offline_makes_no_socket "strace is missing or may not trace here"
fi

# manifests
cat >"$T/m.json" <<M
{"schema": "kvaudit.files/1", "files": [
  {"url": "$base/ok/m1", "sha256": "$sha", "bytes": 200000, "licence": "CC0", "dest": "data/one.bin"},
  {"hf": "org/repo", "rev": "$commit", "path": "m.bin", "sha256": "$sha"},
  {"url": "$base/404/m3", "sha256": "${sha:1}0"}]}
M
check manifest_tries_all 3 "$KVAUDIT" fetch "$T/m.json"
has manifest_first "$T/out" "present $T/data/one.bin"
same manifest_bytes "$T/data/one.bin" "$T/srv/truth"
has manifest_second "$T/out" "$repo/snapshots/$commit/m.bin"
has manifest_third "$T/err" "HTTP 404"
if have_jq fetch_json; then
  "$KVAUDIT" fetch "$T/m.json" --json >"$T/j" 2>/dev/null
  is manifest_json "$(jq -r '.schema + " " + ([.files[].status] | join(","))' "$T/j")" "kvaudit.fetch/1 present,present,failed"
fi
sed 's/200000/200001/' "$T/m.json" >"$T/m2.json"
check manifest_other_size 3 "$KVAUDIT" fetch "$T/m2.json" --dest "$T/d2"
has manifest_other_size_said "$T/err" "200001 expected"
printf '{"schema": "kvaudit.files/1", "files": [\n {"url": "https://x/y", "shasum": "1"},\n {"url": "https://x/y", "sha256": "%s", "dest": "../z"}, 3, {"hf": "org/repo", "path": "a"}]}' "$sha" >"$T/bad.json"
check manifest_errors 2 "$KVAUDIT" fetch "$T/bad.json"
has manifest_unknown_key "$T/err" "bad.json:2:35: /files/0/shasum: unknown key 'shasum'"
has manifest_dest_outside "$T/err" "/files/1/dest: not a relative path"
has manifest_no_object "$T/err" "/files/2: must be an object"
has manifest_no_pin "$T/err" "/files/3: no sha256"
has manifest_counts "$T/err" "4 errors"
cat >"$T/twice.json" <<M
{"schema": "kvaudit.files/1", "files": [
  {"url": "$base/ok/m1", "sha256": "$sha", "dest": "same.bin"},
  {"url": "$base/ok/m4", "sha256": "${sha:1}0", "dest": "same.bin"}]}
M
check manifest_one_place_twice 2 "$KVAUDIT" fetch "$T/twice.json" --dest "$T/d3"
has manifest_one_place_twice_said "$T/err" "would both be $T/d3/same.bin"
[ -e "$T/d3" ] && no nothing_was_fetched || ok nothing_was_fetched
check manifest_missing 3 "$KVAUDIT" fetch "$T/absent.json"

# a run downloads only when told to; what it stores holds no token
export KVAUDIT_CACHE=$T/c/run
cat >"$T/suite.json" <<M
{"schema": 1, "models": [{"id": "mine", "fetch": {"url": "$base/ok/run.gguf", "sha256": "$sha"}}],
 "methods": "dense", "tasks": "ruler/niah_single_1@512", "defaults": {"n": 1}}
M
check run_without_fetch 3 "$KVAUDIT" run "$T/suite.json" --db "$T/run.db"
has run_without_fetch_says_how "$T/err" "'kvaudit run --fetch' brings it"
is run_without_fetch_asks_nothing "$(asked 'GET /ok/run.gguf')" 0
check run_fetch_offline 3 env KVAUDIT_OFFLINE=1 "$KVAUDIT" run "$T/suite.json" --fetch --db "$T/run.db"
is run_fetch_offline_asks_nothing "$(asked 'GET /ok/run.gguf')" 0
check run_with_fetch 3 "$KVAUDIT" run "$T/suite.json" --fetch --db "$T/run.db"
same run_with_fetch_brings_it "$KVAUDIT_CACHE/blobs/$sha" "$T/srv/truth"
hasnt run_with_fetch_then_opens_it "$T/err" "brings it"
sed -i 's/"fetch": {"url"/"fetch": {"ulr"/' "$T/suite.json"
check run_bad_fetch 2 "$KVAUDIT" run "$T/suite.json" --db "$T/run.db"
has run_bad_fetch_has_the_place "$T/err" "/models/0/fetch/ulr: unknown key 'ulr'"
check run_secret 0 "$KVAUDIT" run configs/quickstart-builtin.json --only method=dense --limit 1 \
  --set "label=$HF_TOKEN https://h/x?token=tokenSECRET" --db "$T/secret.db"
is no_token_in_the_database "$(cat "$T"/secret.db* | grep -c SECRET)" 0

# https: a certificate nobody trusts, one that is trusted, and no way back to http
if [ -n "$tls" ]; then
  export KVAUDIT_CACHE=$T/c/tls
  check unknown_certificate 3 "$KVAUDIT" fetch "https://127.0.0.1:$tls/ok/a" --sha256 "$sha" --max-wait 0
  export SSL_CERT_FILE=$T/cert
  check trusted_certificate 0 "$KVAUDIT" fetch "https://127.0.0.1:$tls/ok/a" --sha256 "$sha"
  check downgrade 3 "$KVAUDIT" fetch "https://127.0.0.1:$tls/downgrade/b" --sha256 "${sha:1}0"
  has downgrade_is_said "$T/err" "from https only https is followed"
  is downgrade_asks_nothing "$(asked 'GET /ok/plain')" 0
else
  skip https "no openssl to make a certificate"
fi

# nothing written anywhere holds the token
"$KVAUDIT" fetch "https://me:$HF_TOKEN@host.invalid/x?token=tokenSECRET" >"$T/s.out" 2>"$T/s.err"
is no_token_is_shown "$(grep -rl SECRET "$T" --include='*.out' --include='*.err' --include='*.json' | wc -l)" 0
is no_token_in_caches "$(grep -rl SECRET "$T/c" "$T/hub" | wc -l)" 0
exec 9>&-
wait
exit $bad
