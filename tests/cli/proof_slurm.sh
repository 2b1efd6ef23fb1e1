#!/usr/bin/env bash
# proof_slurm.sh - `run --slurm` on a real Slurm of one node that lives for this test: a 4-task array, a task
# that is told to stop and starts again, the merge behind them, and the report of one process. The
# daemons listen on 127.0.0.1 alone (reports.md 9.3). Needs root: slurmd starts jobs as their user.
. tests/cli/common.inc
. tests/cli/proof.inc
suite s '"methods":["random","keydiff","tova"],"tasks":["ruler/niah_single_1@512"],"models":["builtin:tiny-llama"],
  "budgets":[{"keep":0.5}],"defaults":{"n":10,"max_new_tokens":4}'

# The script itself, without a cluster
dir="$T/a 'dir'"
check prints 0 "$KVAUDIT" run "$T/s.json" --slurm 4 --db-dir "$dir" --set "defaults.n=8" --only 'method=*' --keep-going --progress none
cp "$T/out" "$T/job.sh"
k=0
for text in '#SBATCH --array=0-3' '#SBATCH --requeue' '#SBATCH --signal=B:TERM@60' '--shard "$i/4"' 'afterany:$job' \
  "--only 'method=*' --set defaults.n=8 --keep-going" "dir='$T/a '\\''dir'\\'''"; do
  k=$((k + 1))
  has "says_$k" "$T/job.sh" "$text"
done
hasnt no_gpu_without_cuda "$T/job.sh" "--gres"
bash -n "$T/job.sh" && ok script_parses || no script_parses
echo '{"schema":1,"modles":[]}' >"$T/broken.json"
check broken_suite_fails_here 2 "$KVAUDIT" run "$T/broken.json" --slurm 4
check missing_suite_fails_here 3 "$KVAUDIT" run "$T/none.json" --slurm 4
check no_shard_of_a_shard 2 "$KVAUDIT" run "$T/s.json" --slurm 4 --shard 0/2
check zero_shards 2 "$KVAUDIT" run "$T/s.json" --slurm 0
check directory_alone 2 "$KVAUDIT" run "$T/s.json" --db-dir "$T"
check empty_directory 2 "$KVAUDIT" run "$T/s.json" --slurm 4 --db-dir ""
check directory_like_an_option 2 "$KVAUDIT" run "$T/s.json" --slurm 4 --db-dir -x
# a name that would end the here-document stays one word
evil=$(printf '%s/x\nEND_OF_SHARD_SCRIPT\ntouch %s/pwned\n' "$T" "$T")
check prints_evil 0 "$KVAUDIT" run "$T/s.json" --slurm 2 --db-dir "$evil"
cp "$T/out" "$T/evil.sh"
mkdir "$T/bin0"
printf '#!/bin/sh\necho 1\n' >"$T/bin0/sbatch"
chmod +x "$T/bin0/sbatch"
check submits_evil 0 env PATH="$T/bin0:$PATH" bash "$T/evil.sh"
[ -e "$T/pwned" ] && no no_word_is_run || ok no_word_is_run
[ -f "$evil/merge.sh" ] && bash -n "$evil/shard.sh" && ok its_scripts_are_whole || no its_scripts_are_whole
# sbatch that only writes down what it is asked, and stat that sees NFS: databases live on the node's
# disk and are moved; a partial file comes back first
mkdir "$T/bin"
cat >"$T/bin/sbatch" <<'EOS'
#!/bin/bash
printf '%s\n' "$*" >>"$SBATCH_LOG"
echo "7$(wc -l <"$SBATCH_LOG");cluster"
EOS
printf '#!/bin/sh\necho 6969\n' >"$T/bin/stat"
chmod +x "$T/bin/sbatch" "$T/bin/stat"
export SBATCH_LOG=$T/sbatch.log
check submits 0 env PATH="$T/bin:$PATH" bash "$T/job.sh" --partition=long
has array_number "$T/out" "array 71, merge 72: $dir/merged.db"
has arguments_go_to_the_array "$SBATCH_LOG" "--partition=long $dir/shard.sh"
has merge_waits "$SBATCH_LOG" "--dependency=afterany:71 $dir/merge.sh"
mkdir "$T/node"
for again in 1 2; do
  check "on_a_network_file_system_$again" 0 env PATH="$T/bin:$PATH" TMPDIR="$T/node" SLURM_ARRAY_TASK_ID=1 bash "$dir/shard.sh"
done
has second_start_has_nothing_to_do "$T/err" "0 to do"
is moved_whole "$(ls "$dir" | tr '\n' ' ')" "merge.sh shard-1.db shard.sh "
is node_left_clean "$(ls -A "$T/node")" ""
# TERM reaches the program, which keeps what is finished; the script gives its exit code
suite long '"methods":["random","keydiff","tova"],"tasks":["ruler/niah_single_1@1024"],"models":["builtin:tiny-llama"],
  "budgets":[{"keep":0.5},{"tokens":60}],"defaults":{"n":4000,"max_new_tokens":4}'
"$KVAUDIT" run "$T/long.json" --slurm 1 --db-dir "$T/stop" --keep-going --progress none >"$T/stop.sh"
PATH="$T/bin:$PATH" bash "$T/stop.sh" >/dev/null
PATH="$T/bin:$PATH" TMPDIR="$T/node" SLURM_ARRAY_TASK_ID=0 bash "$T/stop/shard.sh" >"$T/out" 2>"$T/err" &
pid=$!
part_of_it() { [ "$(sqlite3 "$(echo "$T"/node/*/shard-0.db)" "SELECT count(*) FROM outcome")" -gt 5 ]; }
until_true part_of_it
kill -TERM $pid
wait $pid
is term_is_passed_on $? 143
[ "$(sqlite3 "$T/stop/shard-0.db" "SELECT count(*) > 5 FROM outcome")" = 1 ] && ok part_is_moved || no part_is_moved "$(head -c 300 "$T/err")"

# A cluster of one
why=
for p in munged slurmctld slurmd sbatch scontrol squeue; do command -v $p >/dev/null || why="no $p; .ci/deps.sh test brings it"; done
[ -n "$why" ] || [ "$(id -u)" -eq 0 ] || why="slurmd needs root"
if [ -n "$why" ]; then skip slurm "$why"; exit $bad; fi
host=$(hostname -s) S=$T/slurm pids=()
mkdir -p "$S/state" "$S/spool" "$S/munge"
chmod 755 "$T" "$S" && chmod 700 "$S/munge"
end_cluster() {
  local p
  for p in "${pids[@]}"; do kill "$p" 2>/dev/null; done
  for p in "${pids[@]}"; do wait "$p" 2>/dev/null; done
  rm -rf "$T"
}
trap end_cluster EXIT
give_up() {
  skip slurm "$1: $(tail -n 2 "$S"/*.log 2>/dev/null | tr '\n' ' ' | head -c 300)"
  exit $bad
}
dd if=/dev/urandom of="$S/munge/key" bs=1024 count=1 2>/dev/null
chmod 400 "$S/munge/key"
# as root: a socket and a key of its own, beside any munged of the machine
munged --foreground --force --key-file="$S/munge/key" --socket="$S/munge.sock" --pid-file="$S/munge/pid" \
  --log-file="$S/munge/log" --seed-file="$S/munge/seed" >"$S/munged.log" 2>&1 &
pids+=($!)
port=$((20000 + RANDOM % 12000)) # below those that connections take
cat >"$S/slurm.conf" <<EOS
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$S/munge.sock
CryptoType=crypto/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
SlurmdUser=root
ReturnToService=2
StateSaveLocation=$S/state
SlurmdSpoolDir=$S/spool
SlurmctldPidFile=$S/ctld.pid
SlurmdPidFile=$S/d.pid
SlurmctldLogFile=$S/ctld.log
SlurmdLogFile=$S/d.log
SlurmctldPort=$port
SlurmdPort=$((port + 1))
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES State=UP
EOS
export SLURM_CONF=$S/slurm.conf
until_true test -S "$S/munge.sock" || give_up "munged does not start"
slurmctld -c -D >"$S/ctld.out.log" 2>&1 &
pids+=($!)
slurmd -D >"$S/d.out.log" 2>&1 &
pids+=($!)
is_idle() { sinfo -h -o %t | grep -q idle; }
until_true is_idle || give_up "the node does not come up"

"$KVAUDIT" run "$T/s.json" --db "$T/one.db" --progress none >"$T/out" 2>"$T/err"
is one_process $? 0
"$KVAUDIT" run "$T/s.json" --slurm 4 --db-dir "$T/shards" --progress none >"$T/job.sh"
check array_submitted 0 bash "$T/job.sh"
no_jobs() { [ -z "$(squeue -h)" ]; }
until_true no_jobs
is all_jobs_ended "$(squeue -h)" ""
for i in 0 1 2 3; do
  [ -s "$T/shards/shard-$i.db" ] && ok "shard_$i" || no "shard_$i $(head -c 300 "$T/shards/shard-$i.log")"
done
report() { # FILES...
  local args=() f
  for f; do args+=(--db "$f"); done
  "$KVAUDIT" report --json "${args[@]}" 2>"$T/err" |
    jq 'del(.generated) | .tables |= map(select(.id != "runs")) | .footer |= map(select(test("from results up to") | not))'
}
report "$T/one.db" >"$T/one.json"
report "$T"/shards/shard-?.db >"$T/four.json"
same report_of_the_shards "$T/four.json" "$T/one.json"
if "$KVAUDIT" merge --help >/dev/null 2>&1; then
  [ -s "$T/shards/merged.db" ] && ok merge_ran_behind || no merge_ran_behind "$(head -c 300 "$T/shards/merge.log")"
  report "$T/shards/merged.db" >"$T/merged.json"
  same report_of_the_merge "$T/merged.json" "$T/one.json"
else
  skip merge_ran_behind "merge is not built"
fi
# the same submission again has nothing to do, and says so in its logs
check submitted_again 0 bash "$T/job.sh"
until_true no_jobs
has again_has_nothing_to_do "$T/shards/shard-2.log" "0 to do, 0 to time alone"
exit $bad
