/* SPDX-License-Identifier: GPL-3.0-or-later */
/* options.h - one table per command drives parsing, --help, the man page and bash
 * completion. */
#ifndef KVA_OPTIONS_H
#define KVA_OPTIONS_H

#include "kva.h"

enum kva_opt_type {
    KVA_OPT_FLAG,
    KVA_OPT_INT,
    KVA_OPT_STR,
    KVA_OPT_WORD, /* STR whose value may be left out: "" then */
    KVA_OPT_LIST  /* repeatable */
};

struct kva_opt_list {
    const char **v;
    int n;
};
/* `where` points at int (FLAG counts, INT), const char * (STR, WORD) or struct
 * kva_opt_list (LIST). A help that begins with "with --A: " or "with --A or --B: " is a
 * rule as well: without one of them the option is refused. */
struct kva_opt {
    const char *name; /* "jobs" */
    char letter;      /* 'q' or 0 */
    enum kva_opt_type type;
    void *where;
    const char *arg; /* "N" */
    const char *help;
    int64_t min, max; /* INT */
};

/* Settings every command has. */
struct kva_common {
    int json, quiet, verbose, no_color, help;
    struct kva_opt_list db; /* repeatable --db; default KVAUDIT_DB or ./kvaudit.db */
};

struct kva_command {
    const char *name, *args, *summary, *details; /* details: paragraphs of the manual */
    const struct kva_opt *(*options)(
        void); /* ends with NULL name; common ones are added */
    int (*run)(int argc,
               char **argv); /* positional arguments, after parsing; exit code */
};
extern struct kva_common kva_common;
const struct kva_command *kva_commands(size_t *n);

/* Parses into the table's targets; positional arguments are moved to the front of argv
 * and counted. Unknown options name the nearest known one. Exit code 2 through
 * KVA_EINVALID. */
enum kva_status kva_options_parse(const struct kva_command *cmd, int *argc, char **argv,
                                  struct kva_error *err);
void kva_options_help(const struct kva_command *cmd,
                      struct kva_buf *out);       /* cmd NULL: overview */
void kva_options_man(struct kva_buf *out);        /* roff of kvaudit.1 */
void kva_options_completion(struct kva_buf *out); /* bash */
/* The word as a shell reads it back, quoted when it must be. */
void kva_shell_quote(const char *word, struct kva_buf *out);
/* An INT below its minimum was not given. */
bool kva_option_given(const struct kva_opt *o);
/* The options that were given, a blank before each, without those named in `except`
 * (ends with NULL): " --set defaults.n=3 --limit 4". */
void kva_options_words(const struct kva_opt *table, const char *const *except,
                       struct kva_buf *out);
/* First database: --db, else KVAUDIT_DB, else ./kvaudit.db */
const char *kva_db_default(void);

#endif
