#!/usr/bin/env bash
# database.sh - merge and doctor --db: exit codes, messages, damaged files; --journal delete.
. tests/cli/common.inc
. tests/cli/proof.inc
suite s '"methods":["streaming","keydiff"],"tasks":["ruler/niah_single_1@320"],
  "budgets":[{"keep":0.5}],"defaults":{"n":6,"max_new_tokens":4}'
run_suite s a 0
for i in 0 1 2; do run_suite s p$i 0 --shard $i/3; done
sqlite3 "$T/v1.db" <tests/db/fixtures/v1.sql

# ---- merge
report() { "$KVAUDIT" report --db "$1" --json 2>/dev/null; }
check merges 0 "$KVAUDIT" merge "$T/m.db" "$T/p0.db" "$T/p1.db" "$T/p2.db"
has coverage "$T/out" "24 of 24 outcomes, 0 failed, 0 missing"
report "$T/m.db" >"$T/m.json"
for order in "0 2 1" "1 0 2" "1 2 0" "2 0 1" "2 1 0"; do
  set -- $order
  rm -f "$T/o.db"*
  "$KVAUDIT" merge "$T/o.db" "$T/p$1.db" "$T/p$2.db" "$T/p$3.db" >/dev/null 2>&1
  report "$T/o.db" >"$T/o.json"
  same "report_of_order_${order// /}" "$T/m.json" "$T/o.json"
done
check again 0 "$KVAUDIT" merge "$T/m.db" "$T/p1.db" --json
if have_jq again_is_known; then is again_is_known "$(jq -c '[.inputs[0].new, .inputs[0].conflicts, .plans[0].done]' "$T/out")" "[0,0,24]"; fi
report "$T/m.db" >"$T/o.json"
same again_changes_no_report "$T/m.json" "$T/o.json"
# a directory that the reader may not write, as one shared by a colleague
mkdir "$T/shared" && cp "$T/m.db" "$T/shared/" && cp "$KVAUDIT" "$T/shared/kvaudit" && chmod 755 "$T" && chmod -R a+rX,a-w "$T/shared"
as=
[ "$(id -u)" -ne 0 ] || as="setpriv --reuid 65534 --regid 65534 --clear-groups"
if $as "$T/shared/kvaudit" --version >/dev/null 2>&1; then
  check shared_file_is_read 0 $as "$T/shared/kvaudit" report --db "$T/shared/m.db" --json
  same shared_file_says_the_same "$T/out" "$T/m.json"
  mkdir "$T/mine" && chmod 777 "$T/mine"
  check shared_file_is_merged 0 $as "$T/shared/kvaudit" merge "$T/mine/m.db" "$T/shared/m.db"
  check shared_file_cannot_be_written 3 $as "$T/shared/kvaudit" run --rescore --db "$T/shared/m.db"
  has shared_file_says_why "$T/err" "Permission denied"
  is nothing_is_left_beside_it "$(ls "$T/shared")" "$(printf 'kvaudit\nm.db')"
  # one whose writer was killed half way is not read as it lies there
  chmod -R u+w "$T/shared"
  { sqlite3 "$T/shared/m.db" <<'END'
PRAGMA journal_mode = DELETE;
PRAGMA cache_size = 1;
BEGIN;
UPDATE outcome SET score = 0.123;
CREATE TABLE more AS WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 99) SELECT zeroblob(9999) FROM n;
.shell kill -9 $PPID
END
  } >"$T/sql.out" 2>&1
  chmod -R a+rX,a-w "$T/shared"
  if [ -s "$T/shared/m.db-journal" ]; then
    check torn_file_is_refused 3 $as "$T/shared/kvaudit" report --db "$T/shared/m.db"
  else
    no torn_file_is_made "$(cat "$T/sql.out")"
  fi
else
  skip shared_file "no other user can run the program here"
fi
chmod -R u+w "$T/shared"

check older_input 0 "$KVAUDIT" merge "$T/o.db" "$T/v1.db"
count older_input_is_only_read v1 1 "PRAGMA user_version"
cp "$T/p1.db" "$T/x.db"
sqlite3 "$T/x.db" "UPDATE outcome SET score = 1 - score WHERE outcome_id = 1"
cp "$T/m.db" "$T/c.db"
check conflict 4 "$KVAUDIT" merge "$T/c.db" "$T/x.db" "$T/v1.db"
has conflict_is_named "$T/err" "1 outcomes differ from those stored"
has the_other_input_is_merged "$T/out" "v1.db: 24 outcomes, 24 new"
count conflict_row c 1 "SELECT count(*) FROM merge_conflict"
check keep 0 "$KVAUDIT" merge "$T/c.db" "$T/x.db" --on-conflict keep
check as_rep 0 "$KVAUDIT" merge "$T/c.db" "$T/x.db" --on-conflict as-rep
count as_rep_stored c 1 "SELECT count(*) FROM outcome WHERE rep = 1"
check itself 2 "$KVAUDIT" merge "$T/c.db" "$T/c.db"
check missing_input 3 "$KVAUDIT" merge "$T/none.db" "$T/p0.db" "$T/nope.db"
check missing_first_input 3 "$KVAUDIT" merge "$T/none.db" "$T/nope.db" "$T/p0.db"
has missing_input_is_named_before_anything "$T/err" "nope.db: No such file or directory; nothing was merged"
[ -e "$T/none.db" ] && no nothing_is_made || ok nothing_is_made
sqlite3 "$T/foreign.db" "CREATE TABLE songs(x)"
check foreign_input 3 "$KVAUDIT" merge "$T/c.db" "$T/foreign.db"
echo "this is no database, only a file of some bytes that stands where one is wanted" >"$T/junk.db"
head -c 20000 "$T/p0.db" >"$T/cut.db"
unreadable() { # NAME CODE
  for how in wal delete; do
    check "unreadable_$1_$how" "$2" "$KVAUDIT" merge "$T/new.db" "$T/$1.db" --journal $how
    is "$1_${how}_leaves_nothing" "$(ls "$T"/new.db* 2>/dev/null)" ""
  done
}
unreadable junk 3
unreadable foreign 3
unreadable cut 4
check junk_after_a_good_one 3 "$KVAUDIT" merge "$T/new.db" "$T/p0.db" "$T/junk.db"
count the_good_one_stays new 8 "SELECT count(*) FROM outcome"
: >"$T/touched.db"
check junk_into_a_file_of_the_user 3 "$KVAUDIT" merge "$T/touched.db" "$T/junk.db"
[ -e "$T/touched.db" ] && ok file_of_the_user_stays || no "file_of_the_user_stays it is gone"
check one_argument 2 "$KVAUDIT" merge "$T/c.db"
check unknown_rule 2 "$KVAUDIT" merge "$T/c.db" "$T/p0.db" --on-conflict first
# what two machines made of it goes on: nothing is left to do
run_suite s m 0
has merged_file_is_complete "$T/m.err" "0 to do"

# ---- doctor --db
check sound 0 "$KVAUDIT" doctor --db "$T/a.db" --db "$T/v1.db"
for w in "schema version 2" "schema version 1, read through a copy" "agree with their digest" "1 done" "12 error"; do
  has "doctor_says_${w%% *}_${#w}" "$T/out" "$w"
done
hasnt nothing_is_broken "$T/out" BROKEN
check json 0 "$KVAUDIT" doctor --db "$T/a.db" --json
if have_jq json_reads; then is json_reads "$(jq -r '.schema, .ok' "$T/out" | tr '\n' ' ')" "kvaudit.doctor_db/1 true "; fi
size=$(stat -c %s "$T/a.db")
head -c $((size / 2)) "$T/a.db" >"$T/half.db"
for bad_value in score=-7 score=9e999 rep=-5; do
  cp "$T/a.db" "$T/value.db"
  sqlite3 "$T/value.db" "PRAGMA ignore_check_constraints=ON; UPDATE outcome SET $bad_value WHERE outcome_id=(SELECT min(outcome_id) FROM outcome WHERE status='ok')"
  check "doctor_sees_$bad_value" 4 "$KVAUDIT" doctor --db "$T/value.db"
  has "says_so_of_$bad_value" "$T/out" "CHECK constraint failed in outcome"
  check "no_report_of_$bad_value" 4 "$KVAUDIT" report --db "$T/value.db"
done
check truncated 4 "$KVAUDIT" doctor --db "$T/half.db"
head -c 60 "$T/a.db" >"$T/stump.db"
check stump 3 "$KVAUDIT" doctor --db "$T/stump.db"
flip() { # FILE OFFSET: one bit
  local b
  b=$(od -An -tu1 -j "$2" -N1 "$1")
  printf "$(printf '\\%03o' $((b ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
# a bit inside an answer's tokens: SQLite cannot know, the digest does
text=$(sql a "SELECT hex(text) || hex(token_ids) FROM generation ORDER BY length(text) DESC LIMIT 1" | tr A-F a-f)
at=$(od -An -v -tx1 "$T/a.db" | tr -d ' \n' | grep -ob "$text" | head -1 | cut -d: -f1)
cp "$T/a.db" "$T/bit.db"
flip "$T/bit.db" $((at / 2 + ${#text} / 2 - 1))
check flipped_bit_of_an_answer 4 "$KVAUDIT" doctor --db "$T/bit.db"
has flipped_answer_is_named "$T/out" "1 of"
# the head of a page: its kind is no kind
cp "$T/a.db" "$T/page.db"
flip "$T/page.db" $((4096 * 5))
check flipped_bit_of_a_page 4 "$KVAUDIT" doctor --db "$T/page.db"
cp "$T/a.db" "$T/loose.db"
sqlite3 "$T/loose.db" "UPDATE outcome SET run_id = 99 WHERE outcome_id = 1"
check loose_reference 4 "$KVAUDIT" doctor --db "$T/loose.db"
has loose_reference_is_named "$T/out" "of outcome refers to a missing row of run"
check damaged_input 4 "$KVAUDIT" merge "$T/d.db" "$T/half.db"

# ---- a rollback journal, for file systems without shared memory
run_suite s j 0 --journal delete
count journal_of_the_file j delete "PRAGMA journal_mode"
outcomes a >"$T/a.txt"
outcomes j >"$T/j.txt"
same journals_change_nothing "$T/a.txt" "$T/j.txt"
check unknown_journal 2 "$KVAUDIT" run "$T/s.json" --journal off
exit $bad
