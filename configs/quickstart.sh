#!/usr/bin/env bash
# quickstart.sh PROGRAM DIR - model file, run, leaderboard. Called again it finds everything done.
set -eu
program=$1 dir=$2
here=$(cd "$(dirname "$0")" && pwd)
suite=$here/quickstart.json
mkdir -p "$dir"
if ! "$program" fetch smollm2-135m; then
  echo
  echo "quickstart: no network and no model file in the cache: the same suite runs on builtin:retrieval,"
  echo "quickstart: a model with computed weights. Its scores say nothing about real models."
  suite=$here/quickstart-builtin.json
fi
"$program" run "$suite" --db "$dir/kvaudit.db"
"$program" report --db "$dir/kvaudit.db" -o "$dir/report" --force >/dev/null
"$program" report --db "$dir/kvaudit.db"
echo
echo "database     $dir/kvaudit.db"
echo "leaderboard  $dir/report/index.html"
