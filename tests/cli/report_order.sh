#!/usr/bin/env bash
# report_order.sh - three shards of one sweep in any order, or in one file: the same report, byte for byte.
. tests/cli/common.inc
if ! command -v python3 >/dev/null; then skip order "no python3"; exit 0; fi
make() { # FILE SHARD
  python3 tests/bench/make_results.py "$T/$1.db" --methods 3 --budgets 2 --tasks 3 --samples 24 --shard "$2" >/dev/null || no "make_$1"
}
for i in 0 1 2; do make $i $i/3; done
export SOURCE_DATE_EPOCH=1700000000
report() { # NAME FILES...
  local name=$1 dbs=()
  shift
  for f; do dbs+=(--db "$T/$f.db"); done
  "$KVAUDIT" report "${dbs[@]}" --json >"$T/$name.json" || no "report_$name"
}
report first 0 1 2
if grep -q '"tables"' "$T/first.json"; then ok has_tables; else no has_tables; fi
for order in "0 2 1" "1 0 2" "1 2 0" "2 0 1" "2 1 0" "0 1 2 2 0"; do
  # shellcheck disable=SC2086
  report next $order
  same "order_${order// /_}" "$T/first.json" "$T/next.json"
done
check merged 0 "$KVAUDIT" merge "$T/all.db" "$T/2.db" "$T/0.db" "$T/1.db"
report next all
same merged_file "$T/first.json" "$T/next.json"
exit $bad
