#!/usr/bin/env bash
# proof_ci_workflow.sh - tests/ci/nightly.yml: its scripts are run for three nights on a small suite.
. tests/cli/common.inc
command -v jq >/dev/null || { skip ci_workflow "no jq"; exit 0; }
if ! python3 -c 'import yaml' 2>/dev/null; then skip ci_workflow "no python yaml"; exit 0; fi
yml=$PWD/tests/ci/nightly.yml
check valid_yaml 0 python3 - "$yml" "$T" <<'END'
import re, sys, yaml
w = yaml.safe_load(open(sys.argv[1]))
for job in w["jobs"].values():
    for step in job["steps"]:
        if "run" in step:
            assert "${{" not in step["run"], step  # settings come from the environment
            name = re.sub(r"\W+", "_", step["name"])
            open(sys.argv[2] + "/step_" + name, "w").write(step["run"])
        else:
            assert re.fullmatch(r"actions/[a-z/-]+@v\d+", step["uses"]), step
shards = w["jobs"]["shard"]["strategy"]["matrix"]["shard"]
assert shards == list(range(int(w["env"]["SHARDS"]))), shards
for key in ("SUITE", "GATE"):
    open(w["env"][key])
END
mkdir -p "$T/tree/build" "$T/tree/configs" && cd "$T/tree" || exit 1
ln -s "$KVAUDIT" build/kvaudit
cp "$OLDPWD"/configs/{gate,paths}.json configs/
printf '{"schema":1,"methods":["keydiff"],"models":["builtin:retrieval"],"budgets":[{"keep":0.75}],
"tasks":["niah/needle:keys=2@512"],"defaults":{"n":8}}' >configs/nightly.json
export SUITE=configs/nightly.json GATE=configs/gate.json SHARDS=2 GITHUB_STEP_SUMMARY=$T/summary
step() { bash -e "$T/step_$1"; }
night() { # NIGHT SQL: measure, merge; what SQL does happens in between
  export NIGHT=$1
  rm -rf shards && mkdir shards
  for SHARD in 0 1; do
    export SHARD
    step measure || return 1
  done
  mv shard-*.db shards/
  step merge || return 1
  [ -z "${2:-}" ] || sqlite3 "nightly/$1.db" "$2"
}
check first_night 0 night 100
check is_pinned 0 step gate
has as_last_good nightly/gate.json '"db": "100.db"'
check second_night 0 night 101
check passes 0 step gate
has and_is_the_new_base nightly/gate.json '"db": "101.db"'
check a_report 0 step report
check tidying 0 step keep_ten_nights_and_what_is_pinned
is both_nights_are_kept "$(ls nightly/*.db | wc -l)" 2
if command -v sqlite3 >/dev/null; then
  check third_night 0 night 102 "UPDATE memory SET kv_alloc_bytes = kv_alloc_bytes + 1"
  check fails 1 step gate
  has the_base_stays nightly/gate.json '"db": "101.db"'
  has the_summary_says_so "$GITHUB_STEP_SUMMARY" "### kvaudit gate: fail"
  has junit verdict.xml '<failure type="memory"'
else
  skip third_night "no sqlite3"
fi
for i in $(seq 10 30); do touch -d "2020-01-$i" "nightly/$i.db"; done
touch -d 2019-01-01 nightly/101.db # the base, oldest of all
check tidying_again 0 step keep_ten_nights_and_what_is_pinned
is ten_and_the_base "$(ls nightly/*.db | wc -l)" 11
exit $bad
