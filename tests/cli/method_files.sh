#!/usr/bin/env bash
# method_files.sh - methods that read a file of numbers, from the suite to the stored outcome: the
# path is relative to the suite, the file's digest is part of the method, a file for another model
# or shape is refused.
. tests/cli/common.inc
export KVAUDIT_JOBS=1
mkdir -p "$T/in/files"
db=$T/m.db
sql() { sqlite3 "$db" "$1"; }

# table FILE KIND COLUMNS MODEL LAYERS ROW...: numbers made by hand, and marked so
table() {
  local file=$1 kind=$2 columns=$3 model=$4 layers=$5
  shift 5
  printf '{"schema":"kvaudit.table/1","kind":"%s","model":"%s","made":"by hand, for a test","layers":%s,"kv_heads":2,"columns":%s,"data":[%s]}' \
    "$kind" "$model" "$layers" "$columns" "$(IFS=,; echo "$*")" >"$T/in/files/$file"
}
# removed shares of the global ratios .01 .. .99 in one layer: FACTOR of the ratio
curve() { awk -v f="$1" 'BEGIN { printf "["; for (i = 1; i < 100; i++) { r = f * i / 100;
  printf("%s%.4f", (i > 1 ? "," : ""), (r > 0.99 ? 0.99 : r)) } printf "]" }'; }
table lukv lukv 99 any 2 "$(curve 0.5)" "$(curve 1.5)" "$(curve 1)" "$(curve 1)"
table heads headkv 1 any 2 "[1]" "[3]" "[1]" "[2]"
table shares budgets 1 any 2 "[0.75]" "[0.25]" "[0.6]" "[0.4]"
table gates duo 1 any 2 "[0.9]" "[0.1]" "[0.2]" "[0.3]"
suite() { # NAME METHODS
  printf '{"schema":1,"name":"%s","models":["builtin:retrieval"],"methods":[%s],"tasks":["ruler/niah_single_2@192"],"budgets":[{"keep":0.5}],"defaults":{"n":2,"seed":9,"max_new_tokens":6}}' \
    "$1" "$2" >"$T/in/$1.json"
}
quoted() { local m out=; for m in "$@"; do out="$out${out:+,}\"$m\""; done; echo "$out"; }

suite good "$(quoted keydiff keydiff+lukv:profile=files/lukv keydiff+headkv:profile=files/heads,window=8 \
  keydiff+file:profile=files/shares,as=shares streaming+duo:profile=files/gates,recent=16 streaming+duo:recent=16)"
check files_are_found_beside_the_suite 0 "$KVAUDIT" run "$T/in/good.json" --db "$db" --quiet --progress none \
  --trace-kept 2
if command -v sqlite3 >/dev/null; then
  is every_outcome_is_there "$(sql "SELECT count(*), sum(status = 'ok') FROM outcome JOIN cell USING(cell_id)
    JOIN method USING(method_id) WHERE method.name NOT IN ('dense', 'blind')")" "12|12"
  is all_hold_the_same_total "$(sql "SELECT count(DISTINCT entries_kept) FROM memory JOIN outcome USING(outcome_id)
    JOIN cell USING(cell_id) JOIN method USING(method_id) WHERE method.name NOT IN ('dense', 'blind')
    AND sample_id = (SELECT min(sample_id) FROM outcome)")" 1
  is each_splits_it_in_its_own_way "$(sql "SELECT count(DISTINCT kept_fnv) FROM outcome JOIN cell USING(cell_id)
    JOIN method USING(method_id) WHERE method.name LIKE 'keydiff%' AND sample_id =
    (SELECT min(sample_id) FROM outcome)")" 4
  is the_digest_of_the_file_is_part_of_the_method "$(sql "SELECT count(*) FROM method WHERE name LIKE '%+lukv%' AND
    name LIKE '%$(sha256sum "$T/in/files/lukv" | cut -c1-8)%'")" 1
else
  skip rows_of_the_files "no sqlite3"
fi
table lukv lukv 99 any 2 "$(curve 1.5)" "$(curve 0.5)" "$(curve 1)" "$(curve 1)"
check another_file_is_another_method 0 "$KVAUDIT" run "$T/in/good.json" --db "$db" --dry-run
has it_is_to_be_done "$T/out" "2 to do"

# refused NAME METHOD TEXT
refused() {
  suite "$1" "\"$2\""
  check "$1" 2 "$KVAUDIT" run "$T/in/$1.json" --db "$T/none.db" --progress none
  has "$1_says_why" "$T/err" "$3"
}
other=00000000000000000000000000000000000000000000000000000000000000ff
for kind in lukv:99 headkv:1 budgets:1 duo:1; do
  columns=${kind#*:} kind=${kind%:*}
  case $kind in budgets) method=keydiff+file ;; duo) method=streaming+duo ;; *) method=keydiff+$kind ;; esac
  row="[$(yes 0.5 | head -n "$columns" | paste -sd,)]"
  table "$kind.model" "$kind" "$columns" $other 2 "$row" "$row" "$row" "$row"
  refused "${kind}_of_another_model" "$method:profile=files/$kind.model" "$kind.model: made for"
  table "$kind.shape" "$kind" "$columns" any 3 "$row" "$row" "$row" "$row" "$row" "$row"
  refused "${kind}_of_another_shape" "$method:profile=files/$kind.shape" "$kind.shape: made for 3 layers"
  table "$kind.kind" qfilter "$columns" any 2 "$row" "$row" "$row" "$row"
  refused "${kind}_of_another_kind" "$method:profile=files/$kind.kind" "$kind.kind"
done
exit $bad
