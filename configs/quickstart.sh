#!/usr/bin/env bash
# quickstart.sh PROGRAM DIR - model file, run, leaderboard. Called again it finds everything done.
set -eu
program=$1 dir=$2
here=$(cd "$(dirname "$0")" && pwd)
suite=$here/quickstart.json
mkdir -p "$dir"
if ! "$program" fetch smollm2-135m; then
  echo
  echo "quickstart: no model file in the cache and none to be had; without a network the same suite runs on"
  echo "quickstart: builtin:retrieval, a model with computed weights. Its scores say nothing about real models."
  suite=$here/quickstart-builtin.json
fi
code=0
"$program" run "$suite" --db "$dir/kvaudit.db" || code=$?
[ $code -lt 128 ] || exit $code # interrupted: the same command resumes
"$program" report --db "$dir/kvaudit.db" -o "$dir/report" --force
"$program" report --db "$dir/kvaudit.db"
echo
echo "database     $dir/kvaudit.db"
echo "leaderboard  $dir/report/index.html"
exit $code
