#!/usr/bin/env bash
# bad_input.sh - what can be wrong with files, suites, prompts and databases: the documented exit code,
# a message with place and reason, no partial result, and what was stored before is still there.
. tests/cli/common.inc
. tests/cli/proof.inc
small='"methods":["keydiff"],"tasks":["ruler/niah_single_2@192"],"budgets":[{"keep":0.5}],
  "defaults":{"n":2,"max_new_tokens":4}'
suite good "$small"
run_suite good good 0
outcomes good >"$T/good.txt"

# refused NAME CODE TEXT: run of $T/NAME.json on the good database; nothing in it may change
refused() {
  "$KVAUDIT" run "$T/$1.json" --db "$T/good.db" --progress none >"$T/out" 2>"$T/err"
  is "$1_exit" $? "$2"
  has "$1_says_why" "$T/err" "$3"
  outcomes good >"$T/now.txt"
  same "$1_stores_nothing" "$T/now.txt" "$T/good.txt"
}

# ---- model files
model() { suite "$1" "\"models\":[\"$2\"],$small"; }
model absent "$T/none.gguf"
refused absent 3 "$T/none.gguf"
model not_fetched smollm2-135m
KVAUDIT_CACHE=$T/empty refused not_fetched 3 "kvaudit fetch smollm2-135m"
model misspelt_model builtin:retreival
refused misspelt_model 2 "did you mean 'builtin:retrieval'?"
echo "no model at all" >"$T/text.gguf"
model text "$T/text.gguf"
refused text 3 "$T/text.gguf"
mkdir "$T/dir.gguf"
model directory "$T/dir.gguf"
refused directory 3 "$T/dir.gguf"
: >"$T/zero.gguf"
model zero_bytes "$T/zero.gguf"
refused zero_bytes 3 "$T/zero.gguf"
for f in tests/fuzz/gguf/*.gguf; do
  name=hostile_$(basename "$f" .gguf | tr - _)
  model "$name" "$PWD/$f"
  "$KVAUDIT" run "$T/$name.json" --db "$T/good.db" --progress none >"$T/out" 2>"$T/err"
  rc=$?
  if { [ $rc -eq 3 ] || [ $rc -eq 2 ]; } && grep -qF "$(basename "$f")" "$T/err"; then
    ok "$name"
  else
    no "$name exit $rc: $(head -c 300 "$T/err")"
  fi
done
printf 'GGUF\003\0\0\0\0\0\0\0\0\0\0\0\001\0\0\0\0\0\0\0\024\0\0\0\0\0\0\0general.architecture\010\0\0\0\006\0\0\0\0\0\0\0mambo9' >"$T/arch.gguf"
model unknown_architecture "$T/arch.gguf"
refused unknown_architecture 3 "mambo9"
outcomes good >"$T/now.txt"
same hostile_files_store_nothing "$T/now.txt" "$T/good.txt"

# ---- suites
bad_suite() { # NAME REST TEXT
  suite "$1" "$2"
  refused "$1" 2 "$3"
  has "$1_names_the_place" "$T/err" "$T/$1.json:${4:-1}:"
}
with() { echo "\"methods\":[\"$1\"],\"tasks\":[\"${2:-ruler/niah_single_2@192}\"],\"budgets\":[${3:-{\"keep\":0.5\}}],\"defaults\":{\"n\":1}"; }
bad_suite unknown_method "$(with keydif)" 'did you mean "keydiff"?'
bad_suite unknown_allocator "$(with keydiff+adakw)" "adakv"
bad_suite unknown_parameter "$(with snapkv:windw=3)" "window"
bad_suite parameter_out_of_range "$(with snapkv:window=-3)" "window"
bad_suite refused_pair "$(with streaming+adakv)" "nothing to compare"
bad_suite keep_above_one "$(with keydiff '' '{"keep":20}')" "0.2"
bad_suite keep_zero "$(with keydiff '' '{"keep":0}')" "keep"
bad_suite keep_too_fine "$(with keydiff '' '{"keep":0.12345}')" "keep"
bad_suite tokens_zero "$(with keydiff '' '{"tokens":0}')" "tokens"
bad_suite unknown_budget "$(with keydiff '' '{"keeep":0.5}')" "keep"
bad_suite unknown_task "$(with keydiff ruler/niah_single_9@192)" "niah_single"
bad_suite unknown_key "$small,\"shedules\":\"oneshot\"" "schedules" 2
bad_suite unknown_schedule "$small,\"schedules\":\"blck:4\"" "block" 2
# found when the suite is planned: what a method asks of its cell, and of its file
bad_plan() { # NAME REST TEXT [CODE]
  suite "$1" "$2"
  refused "$1" "${4:-2}" "$3"
}
bad_plan unseen_question "$(with finch)" "visibility agnostic does not"
bad_plan rotated_mask "$(with streaming_rot),\"enforce\":[\"mask\"]" "use enforce physical"
bad_plan rotated_again "$(with streaming_rot),\"schedules\":[\"block:64\"]" "use oneshot or layerwise"
bad_suite all_layers_one_by_one "$(with snapkv+global),\"schedules\":[\"layerwise\"]" "use oneshot"
bad_suite repeated_after_the_cut "$(with kvzip),\"schedules\":[\"layerwise\"]" "use oneshot"
table() { # NAME MODEL LAYERS DATA
  printf '{"schema":"kvaudit.table/1","kind":"headkv","model":"%s","made":"","layers":%s,"kv_heads":1,"columns":1,"data":%s}' \
    "$2" "$3" "$4" >"$T/$1.table"
}
table other_model 00ff 2 "[[1],[1]]"
table other_shape any 3 "[[1],[1],[1]]"
bad_plan no_table "$(with headkv)" "needs a file"
bad_plan table_of_another_model "$(with headkv:profile=other_model.table)" "other_model.table: made for"
bad_plan table_of_another_shape "$(with headkv:profile=other_shape.table)" "other_shape.table: made for 3 layers"
echo "[]" >"$T/list.table"
bad_plan table_is_none "$(with headkv:profile=list.table)" "list.table: no table" 3
bad_plan table_is_absent "$(with headkv:profile=nowhere.table)" "nowhere.table" 3
printf '{"schema":1,\n "models":["builtin:retrieval"' >"$T/cut.json"
refused cut 2 "$T/cut.json:2:"
"$KVAUDIT" run "$T/nowhere.json" --db "$T/good.db" >"$T/out" 2>"$T/err"
rc=$?
{ [ $rc -eq 3 ] || [ $rc -eq 2 ]; } && ok missing_suite_exit || no missing_suite_exit $rc
has missing_suite_is_named "$T/err" "$T/nowhere.json"

# ---- prompts and budgets
long=$(head -c 9000 /dev/zero | tr '\0' 'a')
printf '{"context":"%s","question":"b","answers":["c"],"max_new_tokens":3}\n{"context":"short text","question":"b","answers":["c"],"max_new_tokens":3}\n' "$long" >"$T/long.jsonl"
suite long "\"models\":[\"builtin:tiny-llama\"],\"methods\":[\"keydiff\",\"snapkv\"],\"tasks\":[\"jsonl:$T/long.jsonl\"],
  \"budgets\":[{\"keep\":0.5}],\"schedules\":[\"oneshot\",\"block:64\"],\"perf\":2,\"defaults\":{\"n\":2}"
run_suite long long 5
has too_long_says_both_lengths "$T/long.err" "exceed the model's context of 8192"
none too_long_is_truncated long "$FLAT SELECT slug, status FROM x WHERE (idx = 0 AND method <> 'blind') <> (status = 'truncated')"
none truncated_has_no_score long "$FLAT SELECT slug FROM x WHERE status = 'truncated' AND (score IS NOT NULL OR text IS NOT NULL)"
run_suite long long 5
has truncated_is_not_repeated "$T/long.err" "0 to do"
# ten tokens under a window of 64: the window shrinks to half of what was seen
count short_context_works long 1 "$FLAT SELECT count(*) = 2 AND min(status = 'ok') AND max(n_ctx) < 64 FROM x WHERE idx = 1 AND method LIKE 'snapkv:%window=64%'"
none short_context_is_cut_to_its_budget long "$FLAT SELECT slug, entries_kept, n_cut FROM x JOIN memory m ON m.outcome_id = oid
  WHERE idx = 1 AND method LIKE 'snapkv%' AND entries_kept <> n_cut / 2 * 6"
suite tiny_bytes "${small/'{"keep":0.5}'/'{"bytes":100}'}"
run_suite tiny_bytes tiny_bytes 5
none too_few_bytes_fail tiny_bytes "$FLAT SELECT slug, status, error FROM x WHERE (budget_kind = 'bytes') <> (status = 'error' AND error <> '')"

# ---- databases
db() { # NAME FILE CODE TEXT
  "$KVAUDIT" run "$T/good.json" --db "$2" --progress none >"$T/out" 2>"$T/err"
  is "$1_exit" $? "$3"
  has "$1_says_why" "$T/err" "$4"
}
db no_such_directory "$T/no/dir/x.db" 3 "$T/no/dir/x.db"
db database_is_a_directory "$T" 3 "$T"
if [ "$(id -u)" -ne 0 ]; then
  mkdir "$T/ro"
  chmod 555 "$T/ro"
  db unwritable_directory "$T/ro/x.db" 3 "$T/ro/x.db"
else
  db unwritable_directory /proc/kvaudit.db 3 /proc/kvaudit.db
fi
sqlite3 "$T/other.db" "CREATE TABLE songs(x); INSERT INTO songs VALUES('la la')"
cp "$T/other.db" "$T/other.copy"
db another_program "$T/other.db" 3 "$T/other.db"
same another_program_is_untouched "$T/other.db" "$T/other.copy"
head -c 20000 /dev/urandom >"$T/noise.db"
cp "$T/noise.db" "$T/noise.copy"
db no_database "$T/noise.db" 3 "$T/noise.db"
same no_database_is_untouched "$T/noise.db" "$T/noise.copy"
cp "$T/good.db" "$T/newer.db"
v=$(sqlite3 "$T/newer.db" "PRAGMA user_version")
sqlite3 "$T/newer.db" "PRAGMA user_version=$((v + 1))"
cp "$T/newer.db" "$T/newer.copy"
db newer_schema "$T/newer.db" 3 "$T/newer.db"
has newer_schema_names_versions "$T/err" "$((v + 1))"
same newer_schema_is_untouched "$T/newer.db" "$T/newer.copy"

# ---- a disk that fills up
suite more '"methods":["random","keydiff","snapkv"],"tasks":["ruler/niah_single_2@192","ruler/niah_single_1@192"],
  "budgets":[{"keep":0.5},{"keep":0.25}],"defaults":{"n":60,"max_new_tokens":4}'
disk=
mkdir "$T/disk"
if mount -t tmpfs -o size=640k tmpfs "$T/disk" 2>/dev/null; then
  disk=$T/disk
  trap 'umount "$disk" 2>/dev/null; rm -rf "$T"' EXIT
fi
if [ -n "$disk" ]; then
  "$KVAUDIT" run "$T/good.json" --db "$disk/x.db" --progress none >"$T/out" 2>"$T/err"
  is full_disk_first_run $? 0
  "$KVAUDIT" run "$T/more.json" --db "$disk/x.db" --progress none >"$T/out" 2>"$T/err"
  is full_disk_exit $? 3
  has full_disk_says_so "$T/err" "full"
  has full_disk_names_the_file "$T/err" "$disk/x.db"
  mount -o remount,size=64m "$disk"
  is full_disk_keeps_the_file_whole "$(sqlite3 "$disk/x.db" 'PRAGMA integrity_check')" ok
  sqlite3 "$disk/x.db" "$OUTCOMES" >"$T/all.txt"
  [ -z "$(comm -23 "$T/good.txt" "$T/all.txt")" ] && ok full_disk_loses_nothing || no full_disk_loses_nothing
  "$KVAUDIT" run "$T/more.json" --db "$disk/x.db" --progress none >"$T/out" 2>"$T/err"
  is full_disk_resumes $? 0
  run_suite more more 0
  outcomes more >"$T/more.txt"
  sqlite3 "$disk/x.db" "$OUTCOMES" >"$T/all.txt"
  [ -z "$(comm -23 "$T/more.txt" "$T/all.txt")" ] && ok full_disk_ends_equal || no full_disk_ends_equal
  umount "$disk"
else
  skip full_disk "no small file system can be mounted here"
fi
# the same through a limit on the size of a file
cp "$T/good.db" "$T/limit.db"
(ulimit -f 400 && exec "$KVAUDIT" run "$T/more.json" --db "$T/limit.db" --progress none) >"$T/out" 2>"$T/err"
is file_limit_exit $? 3
has file_limit_names_the_file "$T/err" "$T/limit.db"
is file_limit_keeps_the_file_whole "$(sqlite3 "$T/limit.db" 'PRAGMA integrity_check')" ok
sqlite3 "$T/limit.db" "$OUTCOMES" >"$T/all.txt"
[ -z "$(comm -23 "$T/good.txt" "$T/all.txt")" ] && ok file_limit_loses_nothing || no file_limit_loses_nothing
exit $bad
