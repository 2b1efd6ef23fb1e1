/* SPDX-License-Identifier: GPL-3.0-or-later */
/* commands.c - the table of commands and what all of them need. */
#include "runner/commands.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct kva_command COMMANDS[] = {
    {"run", "SUITE", "measure every missing cell of a suite",
     "Reads a suite file, works out which outcomes the database does not hold yet, and "
     "measures "
     "them. The same command line resumes an interrupted run; finished outcomes are "
     "never "
     "measured again.\n\n"
     "Results depend on the suite file, --set and the model file only. --jobs, "
     "--threads, "
     "--wave and --chunk choose resources and change no token.",
     kva_cmd_run_options, kva_cmd_run},
    {"report", "[VIEW]", "show what the database holds: tables, figures, exports",
     "VIEW is leaderboard (the default) or another of `kvaudit list views`. Without a "
     "format it is printed as text. Cells that were not measured, failed "
     "or may "
     "not be ranked are named below the table, never left out in silence.",
     kva_cmd_report_options, kva_cmd_report},
    {"generate", "TASK", "write samples of a task as JSON lines",
     "A task is written SUITE/NAME[:KEY=VALUE,...][@LENGTH] or jsonl:PATH. Sample I "
     "depends on "
     "the task, the length, the seed and I alone.\n\n"
     "With --tokens MODEL each line also carries context_ids and question_ids, exactly "
     "what "
     "that model would be fed. Nothing is answered: that is what `kvaudit run` does, "
     "with the largest logit or as the suite's \"sampling\" says.",
     kva_cmd_generate_options, kva_cmd_generate},
    {"list", "[KIND]", "models, methods, tasks, metrics, views or runs",
     "Without KIND the counts of each are printed. --verbose adds the parameters of the "
     "methods "
     "and where each one comes from.",
     kva_cmd_list_options, kva_cmd_list},
    {"doctor", "", "what this build and machine can do, and what is missing",
     "With --db it looks whether the file is whole. With --model it opens the model and "
     "prints its shape. --tokenize and --nll turn it "
     "into a "
     "filter: one JSON value a line from standard input, one answer a line on standard "
     "output.",
     kva_cmd_doctor_options, kva_cmd_doctor},
    {"fetch", "[NAME|ADDRESS|MANIFEST...]",
     "models and files, checked against their hash",
     "Without a word it lists what is known by name and what is already there. An "
     "address "
     "is https://... or hf:[datasets/]ORG/REPO[@REVISION]/PATH; a manifest is a JSON "
     "file "
     "that names many (configs/README.md). Hub files lie in the hub's own cache, shared "
     "with other programs, anything else in that of kvaudit; the path is printed.\n\n"
     "A transfer that ends early goes on where it was, in this process or the next. A "
     "file gets its name after its size and hash agree. Nothing else opens a connection, "
     "but 'kvaudit run --fetch'.\n\n"
     "kvaudit fetch smollm2-135m\n\n"
     "kvaudit fetch hf:org/repo@main/model.gguf --allow-unpinned",
     kva_cmd_fetch_options, kva_cmd_fetch},
    {"compare", "A B", "paired win, tie and loss with intervals",
     "A and B select cells: KEY=VALUE[,KEY=VALUE], keys model, method, task, budget, "
     "enforce, schedule, visibility, numerics, kv, sampling, suite, run and db; values "
     "may be "
     "globs. "
     "A key given twice names alternatives. A word without = is a database.\n\n"
     "A pair agrees in every key that neither names, and is compared on the samples that "
     "are there in both; with less than 95 % of them it is invalid, which is not a tie. "
     "Cells without a partner are counted; --verbose lists them.\n\n"
     "Examples:\n\n"
     "kvaudit compare method=snapkv method=tova\n\n"
     "kvaudit compare method=snapkv,budget=0.1 method=dense\n\n"
     "kvaudit compare method=snapkv,enforce=mask method=snapkv,enforce=physical\n\n"
     "kvaudit compare db=old.db db=new.db\n\n"
     "The exit code is 0 whoever is ahead, 5 when no pair can be judged.\n\n"
     "With --gate FILE it is the nightly regression: are scores, times or bytes of B "
     "worse than A allows? A is a baseline of FILE (default its \"base\") or a "
     "selection, "
     "B a selection (default --db). FILE holds thresholds, baselines and quarantine "
     "(configs/README.md); --pin moves a baseline. The exit code is 0 when the gate "
     "holds, 1 when it fails, 5 when it cannot be decided. After a failure the commits "
     "between and a git bisect command are printed.\n\n"
     "kvaudit compare --gate gate.json --db tonight.db --pin last-good",
     kva_cmd_compare_options, kva_cmd_compare},
    {"audit", "SUITE",
     "decide what each method claims: bytes, ratio, equal answers, leaks",
     "Adds to every method of the suite the arms of an audit: the same method masked as "
     "published, by bits and by fake keys, under equal shares, padded, as a union of "
     "heads, with a copy for every query head, and having seen the question. Measures "
     "what the database lacks of them, probes logits and kept sets on "
     "a few samples, and judges the claims K1 to K8: UPHELD, UPHELD-C (on a condition), "
     "REFUTED (with a reason code), UNDECIDED (with the number of samples that would "
     "decide), UNTESTED, N/A.\n\n"
     "The exit code is 1 when a method as held here fails a claim, 5 when a claim cannot "
     "be decided. Masked rows that hold all bytes are the expected finding and change no "
     "exit code. `kvaudit report audit` shows the verdicts again.",
     kva_cmd_audit_options, kva_cmd_audit},
    {"analyze", "KIND MODEL", "measure a model once for methods that read a file",
     "KIND is\n\n"
     "qfilter: the mean direction of the queries of each KV head, for the method "
     "qfilter:filter=FILE.\n\n"
     "The file names the model it was made for; the program refuses it for another.",
     kva_cmd_analyze_options, kva_cmd_analyze},
    {"score", "METRIC FILE", "score given predictions with a metric",
     "FILE (- is standard input) holds one JSON object a line: \"prediction\", "
     "\"answers\" (a list, or one text), and where they apply \"all_classes\", "
     "\"dataset\", \"id\" and \"_id\". The names \"pred\" and \"outputs\" of official "
     "result files are understood.\n\n"
     "Each line is answered by one with its score from 0 to 1; mean, interval and count "
     "go to standard error. A line that cannot be scored is named, answered with "
     "\"error\", counts as 0 and makes the exit code 2. With --json standard output is "
     "the summary alone.",
     kva_cmd_score_options, kva_cmd_score},
    {"merge", "OUT IN...", "join databases of several machines",
     "Adds the results of each IN to OUT, which is made when it is missing. Results meet "
     "by digest: what OUT holds already counts once, a finished outcome takes the place "
     "of "
     "a failed one, times and bytes measured alone are joined. The order of the inputs "
     "changes no report, and merging a file again changes nothing.\n\n"
     "An input whose outcomes differ from those in OUT is refused as a whole, with exit "
     "code 4; --on-conflict chooses otherwise. Inputs are only read.",
     kva_cmd_merge_options, kva_cmd_merge},
};

const struct kva_command *kva_commands(size_t *n)
{
    *n = sizeof COMMANDS / sizeof COMMANDS[0];
    return COMMANDS;
}

/* Whatever is said goes past the filter of secrets. */
void kva_command_log(enum kva_log_level level, const char *text, void *ctx)
{
    static const char *const words[] = {"error", "warning", "info", "debug"};
    struct kva_buf hidden;

    (void)ctx;
    kva_buf_init(&hidden, 1 << 20);
    kva_secret_hide(text, &hidden);
    fprintf(stderr, "kvaudit: %s: %s\n", words[level],
            hidden.failed || !hidden.data ? "(out of memory)" : hidden.data);
    kva_buf_release(&hidden);
}

int kva_command_fail(const struct kva_error *err)
{
    char text[sizeof err->text];

    snprintf(text, sizeof text, "%s",
             err->text[0] ? err->text : kva_status_text(err->code));
    kva_secret_hide_in(text, sizeof text);
    fprintf(stderr, "kvaudit: %s\n", text);
    if (kva_common.verbose && err->file)
        fprintf(stderr, "kvaudit: found at %s:%d (%s)\n", err->file, err->line,
                kva_status_name(err->code));
    if (err->code == KVA_EINTERRUPTED && kva_interrupted)
        return 128 + kva_interrupted;
    return kva_status_exit(err->code);
}

enum kva_status kva_command_out(const char *bytes, size_t n, struct kva_error *err)
{
    if (n && fwrite(bytes, 1, n, stdout) != n)
        return KVA_FAIL(err, KVA_EIO, "cannot write to standard output");
    return KVA_OK;
}

int kva_command_usage(const char *command, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    if (vsnprintf(text, sizeof text, fmt, ap) < 0)
        text[0] = '\0';
    va_end(ap);
    kva_secret_hide_in(text, sizeof text);
    fprintf(stderr, "kvaudit: %s\nkvaudit: try 'kvaudit %s --help'\n", text, command);
    return 2;
}

static void on_signal(int sig)
{
    if (kva_interrupted) {
        signal(sig, SIG_DFL);
        raise(sig);
        return;
    }
    kva_interrupted = sig;
}

void kva_command_signals(void)
{
    struct sigaction act;

    memset(&act, 0, sizeof act);
    act.sa_handler = on_signal;
    sigemptyset(&act.sa_mask);
    /* no SA_RESTART: a blocking read or wait returns and sees the flag */
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    /* a file that may not grow is an error of the write, not a death */
    (void)signal(SIGXFSZ, SIG_IGN);
}

bool kva_env_flag(const char *name)
{
    const char *v = getenv(name);

    return v && v[0] && strcmp(v, "0") != 0;
}

bool kva_on_path(const char *program)
{
    const char *path = getenv("PATH");

    while (path && *path) {
        size_t n = strcspn(path, ":");
        char full[4096];

        if (snprintf(full, sizeof full, "%.*s/%s", (int)n, path, program) <
                (int)sizeof full &&
            access(full, X_OK) == 0)
            return true;
        path += n;
        path += *path == ':';
    }
    return false;
}

int64_t kva_env_int(const char *name, int64_t min, int64_t max, int64_t def)
{
    const char *v = getenv(name);
    int64_t n;

    if (!v || !v[0])
        return def;
    if (!kva_parse_i64(v, &n) || n < min || n > max) {
        kva_log(KVA_LOG_WARN, "%s=%s is not a whole number in %lld..%lld and is ignored",
                name, v, (long long)min, (long long)max);
        return def;
    }
    return n;
}
