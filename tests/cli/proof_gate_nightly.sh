#!/usr/bin/env bash
# proof_gate_nightly.sh - compare --gate: verdicts and exit codes, baselines, quarantine, machine-readable
# output, hints and a whole git bisect on a throw-away repository.
. tests/cli/common.inc
. tests/cli/proof.inc
export SOURCE_DATE_EPOCH=1786000000 # 2026-08-06
gate() { "$KVAUDIT" compare --gate "$T/g.json" "$@"; }
# night NAME SQL: a copy of the base in which something happened
night() { rm -f "$T/$1.db"*; cp "$T/base.db" "$T/$1.db"; sqlite3 "$T/$1.db" "PRAGMA journal_mode=DELETE; $2" >/dev/null; }
# file [QUARANTINE [MORE]]: the gate file, baselines stay
file() {
  printf '{"schema":1,"gates":["score","memory"],"base":"last-good","baselines":{"last-good":{"db":"base.db"}},\n"quarantine":[%s]%s}\n' \
    "${1:-}" "${2:-}" >"$T/g.json"
}
suite base '"methods":["keydiff","knorm"],"budgets":[{"keep":0.75}],"defaults":{"n":20},
  "tasks":["niah/needle:keys=2@512","niah/needle:keys=4@512"]'
run_suite base base 0
sqlite3 "$T/base.db" "PRAGMA journal_mode=DELETE; UPDATE env SET git_commit='1111111111111111'" >/dev/null
LOST="UPDATE outcome SET score = 0, gen_sha256 = randomblob(32) WHERE cell_id IN (SELECT cell_id FROM cell WHERE slug LIKE '%/keydiff/%keys=2%')"
sqlite3 "$T/base.db" "UPDATE outcome SET score = 1 WHERE status = 'ok'"
ONE="(SELECT min(outcome_id) FROM outcome JOIN cell USING(cell_id) WHERE slug LIKE '%/keydiff/%')"
slug=$(sql base "SELECT slug FROM cell WHERE slug LIKE '%/keydiff/%keys=2%'")

# ---- baselines
printf '{"schema":1,"//":"mine","gates":["score","memory"],"base":"last-good"}' >"$T/g.json"
check no_baseline_yet_is_usage 2 gate --db "$T/base.db"
has it_says_how_to_make_one "$T/err" "--pin last-good makes one"
check the_first_night_is_pinned 0 gate --db "$T/base.db" --pin last-good
has the_baseline_is_written "$T/g.json" '"db": "base.db"'
has its_commit_too "$T/g.json" '"commit": "1111111111111111"'
has the_rest_stays "$T/g.json" '"//": "mine"'
check equal_databases_pass 0 gate --db "$T/base.db"
has the_verdict_in_words "$T/out" "The gate holds."
check a_selector_is_a_base 0 "$KVAUDIT" compare --gate "$T/g.json" "db=$T/base.db" "db=$T/base.db"

# ---- scores and bytes
night lost "$LOST; UPDATE env SET git_commit='2222222222222222'"
file
check a_lost_cell_fails 1 gate --db "$T/lost.db" --junit "$T/j.xml"
has the_cell_is_named "$T/out" "$slug against last-good"
has drop_and_p "$T/out" "100.0 to 0.0: -100.0 points"
has changed_tokens_are_counted "$T/out" "answers changed"
check pinning_needs_a_pass 1 gate --db "$T/lost.db" --pin last-good
has the_baseline_stays "$T/g.json" '"db":"base.db"'
check unless_forced 1 gate --db "$T/lost.db" --pin other --force
has then_it_is_written "$T/g.json" '"other"'
if command -v xmllint >/dev/null; then
  check junit_is_xml 0 xmllint --noout "$T/j.xml"
  is junit_failures "$(xmllint --xpath 'count(//failure) = sum(//testsuite/@failures) and count(//failure) > 0 and count(//testcase) = /testsuites/@tests' "$T/j.xml")" true
else
  skip junit_is_xml "no xmllint"
fi
file
night bytes "UPDATE memory SET kv_meta_bytes = kv_meta_bytes + 1 WHERE outcome_id = $ONE"
check one_byte_fails 1 gate --db "$T/bytes.db"
has memory_gate "$T/out" "cache bytes grew in 1 of 20 samples"
check not_when_only_scores_are_asked 0 gate --db "$T/bytes.db" --gates score
check a_wrong_gate_is_usage 2 gate --db "$T/bytes.db" --gates speed
night tokens "UPDATE outcome SET gen_sha256 = randomblob(32) WHERE outcome_id = $ONE"
check other_tokens_warn 0 gate --db "$T/tokens.db"
has other_tokens_are_told "$T/out" "the tokens of 1 of 20 answers changed"
check other_tokens_fail_with_exact 1 gate --db "$T/tokens.db" --exact
night fewer "DELETE FROM outcome WHERE cell_id IN (SELECT cell_id FROM cell WHERE slug LIKE '%/knorm/%keys=4%'); DELETE FROM plan WHERE cell_id IN (SELECT cell_id FROM cell WHERE slug LIKE '%/knorm/%keys=4%')"
check missing_results_are_no_verdict 5 gate --db "$T/fewer.db"
night gone "$(sed 's/;.*//' <<<"DELETE FROM outcome WHERE cell_id IN (SELECT cell_id FROM cell WHERE slug LIKE '%/knorm/%');"); UPDATE cell SET digest = randomblob(32) WHERE slug LIKE '%/knorm/%'"
check a_removed_cell_fails 1 gate --db "$T/gone.db"
check unless_allowed 0 gate --db "$T/gone.db" --allow-removed
check surely_not_worse 0 gate --db "$T/base.db" --non-inferiority 20
check not_sure_at_a_point 5 gate --db "$T/base.db" --non-inferiority 1
check non_inferiority_wants_points 2 gate --db "$T/base.db" --non-inferiority x

# ---- quarantine
q() { printf '{"cell":"%s","gate":"%s","since":"2026-08-01","expires":"%s","owner":"me","reason":"driver <1>"}' "$1" "$2" "$3"; }
file "$(q "$slug" score 2026-08-20)"
check exact_cells_are_not_quarantined 2 gate --db "$T/lost.db"
has with_the_place "$T/err" "g.json:2:15: /quarantine/0"
CUDA="UPDATE env SET backend = 'cuda'"
night cudabase "$CUDA"
night cudalost "$LOST; $CUDA"
file "$(q "$slug" score 2026-08-20),$(q nothing time 2026-08-20)"
sed -i 's/"base.db"/"cudabase.db"/' "$T/g.json"
check a_quarantined_failure_passes 0 gate --db "$T/cudalost.db" --gates score --cell "$slug" --junit "$T/q.xml"
has it_is_skipped_with_the_reason "$T/q.xml" '<skipped message="quarantined: driver &lt;1&gt;; '
has an_entry_without_a_cell_is_told "$T/err" "no cell is meant by nothing"
SOURCE_DATE_EPOCH=1787270400 check it_expires_by_itself 1 gate --db "$T/cudalost.db" --gates score --cell "$slug"
has expiry_is_told "$T/err" "expired on 2026-08-20"

# ---- time
reps() { # MS...: six repetitions of the first cell
  local i=0 ms
  for ms; do
    i=$((i + 1))
    echo "INSERT INTO perf_rep(cell_id, run_id, phase, rep, ord, ns, work) SELECT min(cell_id), 1, 'ttft', $i, $i, ${ms}000000, 1 FROM cell WHERE slug LIKE '%/keydiff/%';"
  done
}
night fast "$(reps 100 101 99 102 98 100)"
night slow "$(reps 110 111 109 112 108 110)"
night other "$(reps 110 111 109 112 108 110) UPDATE env SET perf_digest = randomblob(32)"
file '' ',"time":{"tau_cpu":0.05}'
sed -i 's/"base.db"/"fast.db"/; s/"gates":\[[^]]*\]/"gates":["time"]/' "$T/g.json"
check a_slower_night_fails 1 gate --db "$T/slow.db"
has ratio_and_p "$T/out" "r 1.100"
check another_machine_cannot_be_compared 5 gate --db "$T/other.db"
has incomparable "$T/out" "INCOMPARABLE"
check unconfirmed_is_a_warning 0 gate --db "$T/slow.db" --confirm "$T/fast.db"
check confirmed_fails 1 gate --db "$T/slow.db" --confirm "$T/slow.db"
hasnt what_was_confirmed_is_not_asked_again "$T/out" "kvaudit run"
sed -i 's/0.05/0.15/' "$T/g.json"
check tolerated_at_fifteen_percent 0 gate --db "$T/slow.db"
has with_a_warning "$T/out" "slower, within what is tolerated"

# what a failed time asks for really measures it again, and --confirm then decides
suite timed '"methods":["keydiff","knorm"],"budgets":[{"keep":0.75}],"tasks":["niah/needle:keys=2@256"],
  "defaults":{"n":1,"max_new_tokens":2},"perf_reps":6'
run_suite timed timed 0
cp "$T/timed.db" "$T/slower.db"
sqlite3 "$T/slower.db" "UPDATE perf_rep SET ns = ns * 20 WHERE phase NOT LIKE 'calib%' AND cell_id = (SELECT min(cell_id)
  FROM cell WHERE slug LIKE '%/keydiff/%')"
printf '{"schema":1,"gates":["time"],"base":"b","baselines":{"b":{"db":"timed.db"}},"time":{"tau_cpu":0.9},"bisect":{"suite":"timed.json"}}' >"$T/t.json"
check twenty_times_slower_fails 1 "$KVAUDIT" compare --gate "$T/t.json" --db "$T/slower.db"
grep '^  kvaudit run ' "$T/out" >"$T/again.sh"
grep '^  kvaudit compare ' "$T/out" >"$T/decide.sh"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$KVAUDIT" >"$T/kvaudit"
chmod +x "$T/kvaudit"
check the_line_that_measures_again 0 env -C "$T" PATH="$T:$PATH" sh "$T/again.sh"
is it_measures_that_cell_and_the_full_cache "$(sql again "SELECT group_concat(m, ' ') FROM (SELECT DISTINCT substr(method.name, 1, 5) AS m
  FROM perf_rep JOIN cell USING(cell_id) JOIN method USING(method_id) ORDER BY 1)")" "dense keydi"
check the_line_that_decides 0 env -C "$T" PATH="$T:$PATH" sh "$T/decide.sh"
has it_was_a_mishap "$T/out" "not confirmed"
cp "$T/slower.db" "$T/again.db"
check slower_again_fails 1 env -C "$T" PATH="$T:$PATH" sh "$T/decide.sh"
hasnt it_is_settled "$T/out" "kvaudit run"

# ---- machine-readable
file
GITHUB_STEP_SUMMARY=$T/summary.md check github 1 gate --db "$T/lost.db" --github
has summary_verdict "$T/summary.md" "### kvaudit gate: fail"
has annotation "$T/out" "::error title=kvaudit score gate::"
head -c 1048000 /dev/zero | tr '\0' x >"$T/full.md"
GITHUB_STEP_SUMMARY=$T/full.md check a_full_summary 1 gate --db "$T/lost.db" --github
is never_above_a_mebibyte $(($(stat -c %s "$T/full.md") <= 1048576)) 1
env -u GITHUB_STEP_SUMMARY "$KVAUDIT" compare --gate "$T/g.json" --db "$T/lost.db" --github >/dev/null 2>&1
is github_without_github $? 2
check json 1 gate --db "$T/lost.db" --json
cp "$T/out" "$T/verdict.json"
if have_jq verdict_json; then
  is json_counts "$(jq '(.rows | map(select(.verdict == "fail")) | length) == ([.counts[].fail] | add) and .exit == 1' "$T/verdict.json")" true
  is json_rows_have_all_keys "$(jq '[.rows[] | keys] | unique | length' "$T/verdict.json")" 1
fi
if python3 -c 'import jsonschema' 2>/dev/null; then
  check json_follows_its_schema 0 python3 -c "import json, jsonschema, sys
jsonschema.validate(json.load(open(sys.argv[1])), json.load(open('reports/schema/gate-1.json')))" "$T/verdict.json"
else
  skip json_follows_its_schema "no python jsonschema"
fi
check twice_the_same 1 gate --db "$T/lost.db" --json
same deterministic "$T/out" "$T/verdict.json"

# ---- other nights
night n1 "UPDATE run SET started_ms = started_ms + 86400000; $CUDA"
night n2 "$LOST; UPDATE run SET started_ms = started_ms + 2*86400000; UPDATE env SET git_commit='3333333333333333'; $CUDA"
night n3 "UPDATE run SET started_ms = started_ms + 3*86400000; $CUDA"
night n4 "$LOST; UPDATE run SET started_ms = started_ms + 4*86400000; UPDATE env SET git_commit='4444444444444444'; $CUDA"
check history 1 gate "db=$T/cudabase.db" --db "$T/n4.db" --history "$T/n2.db" --history "$T/n1.db" --history "$T/n3.db" \
  --suggest-quarantine --figures "$T/fig"
has the_last_good_night "$T/out" "last held on"
has flips_are_counted "$T/out" "flipped 3 times in 4 nights"
has history_data "$T/fig/history.tsv" "4444444444444444"
if command -v gnuplot >/dev/null; then
  has history_is_drawn "$T/fig/history.svg" "<svg"
else
  skip history_is_drawn "no gnuplot"
fi
check figures_need_nights 2 gate --db "$T/base.db" --figures "$T/fig"

# ---- bad input
echo '{"schema":1,"scroe":{}}' >"$T/bad.json"
check a_broken_file_is_usage 2 "$KVAUDIT" compare --gate "$T/bad.json" --db "$T/base.db"
has place_and_suggestion "$T/err" "bad.json:1:13: /scroe: unknown key; did you mean 'score'?"
check no_such_file 3 "$KVAUDIT" compare --gate "$T/none.json" --db "$T/base.db"
check no_such_database 3 gate --db "$T/none.db"
: >"$T/empty.db"
check an_empty_file_is_no_database 3 gate --db "$T/empty.db"
check junit_that_cannot_be_written 3 gate --db "$T/base.db" --junit /nonexistent/j.xml
check tables_have_no_csv 2 gate --db "$T/base.db" -f csv

# ---- hints and bisection, on a repository whose build is a copy of this program
if ! command -v git >/dev/null; then
  skip bisect "no git"
  exit $bad
fi
G() { git -C "$T/src" -c user.name=n -c user.email=e@example.org -c commit.gpgsign=false "$@"; }
mkdir -p "$T/src/methods" && git init -q "$T/src"
cat >"$T/src/Makefile" <<END
all:
	test ! -e broken
	mkdir -p build && cp tool build/kvaudit
END
cat >"$T/src/tool" <<END
#!/bin/sh
# measures with the program under test; a bug in the tree loses every answer
"$KVAUDIT" "\$@" || exit \$?
while [ "\$1" != --db ]; do shift; done
[ "\$(cat methods/score_keydiff.c)" = bug ] && score=0 || score=1
sqlite3 "\$2" "UPDATE outcome SET score = \$score WHERE status = 'ok'"
END
chmod +x "$T/src/tool"
echo build >"$T/src/.gitignore"
step() { G add -A && G commit -q -m "$1"; }
echo good >"$T/src/methods/score_keydiff.c"; step one
good=$(G rev-parse HEAD)
echo 2 >"$T/src/note"; step two
: >"$T/src/broken"; step "does not build"
rm "$T/src/broken"; step "builds again"
echo bug >"$T/src/methods/score_keydiff.c"; step "the bug"
culprit=$(G rev-parse HEAD)
echo 3 >"$T/src/note"; step five
echo 4 >"$T/src/note"; step six
now=$(G rev-parse HEAD)
sqlite3 "$T/base.db" "UPDATE env SET git_commit='${good:0:12}'"
night lost "$LOST; UPDATE env SET git_commit='${now:0:12}'"
cp configs/paths.json "$T/paths.json"
file '' ',"bisect":{"suite":"base.json","paths":"paths.json"}'
check hints 1 gate --db "$T/lost.db" --repo "$T/src"
has commits_between "$T/out" "6 commits between"
has commits_that_matter "$T/out" "1 of them touches what the failures rest on"
has bisect_command "$T/out" "git bisect start ${now:0:12} ${good:0:12}"
cmd=$(grep -o 'git bisect run .*' "$T/out")
has the_step_is_ready_to_run "$T/out" "--bisect-step"
G bisect start "$now" "$good" >/dev/null 2>&1
(cd "$T/src" && PATH=$(dirname "$KVAUDIT"):$PATH sh -c "$cmd") >"$T/bisect.out" 2>&1
has bisect_finds_the_commit "$T/bisect.out" "$culprit is the first bad commit"
G bisect reset >/dev/null 2>&1
bisect() { (cd "$T/src" && "$KVAUDIT" compare --gate "$T/g.json" --bisect-step "$@"); }
G checkout -q "$good" && check good_is_0 0 bisect "$slug" --gates score
G checkout -q "$culprit" && check bad_is_1 1 bisect "$slug" --gates score
G checkout -q "$culprit~2" && check no_build_is_125 125 bisect "$slug" --gates score
G checkout -q "$good" && check undecided_is_125 125 bisect "$slug" --gates time
check an_unknown_cell_ends_it 128 bisect nothing
check no_gate_cannot_hold 2 "$KVAUDIT" compare --gate "$T/g.json" --gates ""
check a_broken_file_ends_it 128 "$KVAUDIT" compare --gate "$T/bad.json" --bisect-step "$slug"
exit $bad
