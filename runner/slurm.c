/* SPDX-License-Identifier: GPL-3.0-or-later */
/* slurm.c - prints what submits a sweep to Slurm.
 *
 * A batch script hears a signal only while it is in `wait`, so the program runs behind it
 * and the signal is passed on. The merge depends on `afterany`: with `afterok` one failed
 * shard would block it for ever. SQLite's WAL does not work on a network file system, so
 * there the databases are written to $TMPDIR of the node and moved at the end; a task
 * that was requeued starts from the partial file. */
#include "runner/slurm.h"

#include "runner/options.h"

/* File system types as `stat -f -c %t` prints them: NFS, SMB, CIFS, SMB2, Lustre, GPFS,
 * BeeGFS, FUSE, those that kva_db_open refuses. */
#define NETWORK "6969|517b|ff534d42|fe534d42|bd00bd0|47504653|19830326|65735546"

static void variable(const char *name, const char *value, struct kva_buf *out)
{
    kva_buf_printf(out, "%s=", name);
    kva_shell_quote(value, out);
    kva_buf_putc(out, '\n');
}

/* What both job scripts start with. */
static void preamble(const struct kva_slurm *s, struct kva_buf *out)
{
    kva_buf_puts(out, "set -u\n");
    variable("kvaudit", s->program, out);
    variable("dir", s->dir, out);
    kva_buf_puts(out, "cd ");
    kva_shell_quote(s->cwd, out);
    kva_buf_puts(out, " || exit 3\n"
                      "case $(stat -f -c %t \"$dir\") in\n"
                      "  " NETWORK ") local=$(mktemp -d) || exit 3 ;;\n"
                      "  *) local= ;;\n"
                      "esac\n");
}

static void shard_script(const struct kva_slurm *s, struct kva_buf *out)
{
    kva_buf_printf(out,
                   "#!/bin/bash\n"
                   "#SBATCH --job-name=kvaudit\n"
                   "#SBATCH --array=0-%d\n"
                   "#SBATCH --requeue\n"
                   "#SBATCH --open-mode=append\n"
                   "#SBATCH --signal=B:TERM@60\n%s",
                   s->shards - 1, s->gpu ? "#SBATCH --gres=gpu:1\n" : "");
    preamble(s, out);
    variable("suite", s->suite, out);
    kva_buf_printf(
        out,
        "i=$SLURM_ARRAY_TASK_ID\n"
        "final=$dir/shard-$i.db\n"
        "db=$final\n"
        "if [ -n \"$local\" ]; then\n"
        "  db=$local/shard-$i.db\n"
        "  [ ! -e \"$final\" ] || cp \"$final\" \"$db\" || exit 3\n"
        "fi\n"
        "export KVAUDIT_JOBS=${KVAUDIT_JOBS:-${SLURM_CPUS_PER_TASK:-1}}\n"
        "stopped=0\n"
        "pid=\n"
        "trap 'stopped=1; [ -z \"$pid\" ] || kill -TERM \"$pid\" 2>/dev/null' TERM INT\n"
        "\"$kvaudit\" run \"$suite\" --db \"$db\" --shard \"$i/%d\"%s &\n"
        "pid=$!\n"
        "wait \"$pid\"\n"
        "rc=$?\n"
        "while [ $stopped = 1 ]; do # a signal ended the wait, not the program\n"
        "  stopped=0\n"
        "  wait \"$pid\"\n"
        "  rc=$?\n"
        "done\n"
        "if [ -n \"$local\" ]; then\n"
        "  cp \"$db\" \"$final.part\" && mv \"$final.part\" \"$final\" || rc=3\n"
        "  rm -rf \"$local\"\n"
        "fi\n"
        "exit $rc\n",
        s->shards, s->words);
}

static void merge_script(const struct kva_slurm *s, struct kva_buf *out)
{
    kva_buf_puts(out, "#!/bin/bash\n"
                      "#SBATCH --job-name=kvaudit-merge\n"
                      "#SBATCH --open-mode=append\n");
    preamble(s, out);
    kva_buf_puts(out, "to=$dir\n"
                      "if [ -n \"$local\" ]; then\n"
                      "  cp \"$dir\"/shard-*.db \"$local\" || exit 3\n"
                      "  to=$local\n"
                      "fi\n"
                      "\"$kvaudit\" merge \"$to/merged.db\" \"$to\"/shard-*.db\n"
                      "rc=$?\n"
                      "if [ -n \"$local\" ]; then\n"
                      "  [ ! -e \"$to/merged.db\" ] ||\n"
                      "    { cp \"$to/merged.db\" \"$dir/merged.db.part\" &&\n"
                      "      mv \"$dir/merged.db.part\" \"$dir/merged.db\"; } || rc=3\n"
                      "  rm -rf \"$local\"\n"
                      "fi\n"
                      "exit $rc\n");
}

void kva_slurm_script(const struct kva_slurm *s, struct kva_buf *out)
{
    kva_buf_puts(out,
                 "#!/bin/bash\n"
                 "# Submits a kvaudit sweep as a job array and the merge behind it.\n"
                 "# Arguments go to sbatch: bash job.sh --partition=long "
                 "--cpus-per-task=8\n"
                 "set -eu\n");
    variable("dir", s->dir, out);
    kva_buf_puts(out, "cd ");
    kva_shell_quote(s->cwd, out);
    kva_buf_puts(out, "\nmkdir -p \"$dir\"\n"
                      "cat >\"$dir/shard.sh\" <<'END_OF_SHARD_SCRIPT'\n");
    shard_script(s, out);
    kva_buf_puts(out, "END_OF_SHARD_SCRIPT\n"
                      "cat >\"$dir/merge.sh\" <<'END_OF_MERGE_SCRIPT'\n");
    merge_script(s, out);
    kva_buf_puts(out, "END_OF_MERGE_SCRIPT\n"
                      "job=$(sbatch --parsable --output=\"$dir/shard-%a.log\" \"$@\" "
                      "\"$dir/shard.sh\")\n"
                      "job=${job%%;*}\n"
                      "merge=$(sbatch --parsable --output=\"$dir/merge.log\" "
                      "--dependency=\"afterany:$job\" \"$dir/merge.sh\")\n"
                      "echo \"array $job, merge ${merge%%;*}: $dir/merged.db\"\n");
}
