/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fetch.h - files from the network into content-addressed caches (reports.md 10).
 *
 * An item says what is wanted and how it is recognised. fetch.c brings one: local copies
 * first, then fetch_http.c transfers into a partial file that survives every end of the
 * process, and nothing appears under its name before size and hash agree. fetch_cache.c
 * knows where files lie, fetch_manifest.c reads items, fetch_secret.c keeps tokens out of
 * everything that is printed or stored. Without the network no connection is opened: the
 * transfer functions are not reached. */
#ifndef KVA_FETCH_H
#define KVA_FETCH_H

#include "kva.h"

#include <jansson.h>

/* One file. Strings live in the arena of whoever read it. */
struct kva_fetch_item {
    const char *name;              /* for people: no secrets in it */
    const char *url;               /* NULL for a hub file */
    const char *repo, *rev, *path; /* of a hub: "org/repo" or "datasets/org/repo", "main",
                                     file */
    const char *sha256;            /* 64 hex digits; NULL: not pinned */
    const char *licence, *dest;    /* dest: relative path; NULL: the cache alone */
    int64_t bytes;                 /* -1: not known */
};

struct kva_fetch_opts {
    bool offline, allow_http;
    int stall_s;    /* a transfer below 1 KiB/s for so long is broken off and resumed */
    int max_wait_s; /* longest pause between two tries, before the random factor */
    const char *progress; /* auto, bar, plain, none */
};
#define KVA_FETCH_OPTS                                                                   \
    {                                                                                    \
        .stall_s = 30, .max_wait_s = 60, .progress = "auto"                              \
    }

/* ---- fetch.c ---- */
/* Brings the item into its cache and appends where it is to `path`. *status: "present" or
 * "fetched". KVA_EIO when it is missing offline, naming every place that was looked at.
 */
enum kva_status kva_fetch_file(const struct kva_fetch_item *it,
                               const struct kva_fetch_opts *o, struct kva_buf *path,
                               const char **status, struct kva_error *err);
/* Puts a cached file at `target` too: a hard link where the file system allows it, else a
 * copy. What is there is replaced. */
enum kva_status kva_fetch_place(const char *from, const char *target,
                                struct kva_error *err);
/* KVAUDIT_OFFLINE or HF_HUB_OFFLINE. */
bool kva_fetch_offline(void);
/* Free space on the file system of `dir` is `bytes` and 5 % more, else KVA_EIO with both
 * numbers. */
enum kva_status kva_fetch_space(const char *dir, int64_t bytes, struct kva_error *err);

/* ---- fetch_cache.c: where files lie ---- */
/* $HF_HUB_CACHE, else $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else
 * ~/.cache/huggingface/hub; no hub file needs anything else. */
enum kva_status kva_hub_root(struct kva_buf *out, struct kva_error *err);
/* "models--org--repo", "datasets--org--repo" into out. */
enum kva_status kva_hub_folder(const char *repo, struct kva_buf *out,
                               struct kva_error *err);
/* The commit a name stands for in refs/; false when it is not known. A commit is itself.
 */
bool kva_hub_commit(const char *dir, const char *rev, char commit[41]);
/* refs/REV and the relative symlink snapshots/COMMIT/PATH -> ../../blobs/ETAG, each by
 * rename. */
enum kva_status kva_hub_link(const char *dir, const char *rev, const char *commit,
                             const char *path, const char *etag, struct kva_error *err);
/* Symlink by temporary and rename; the directory is made. */
enum kva_status kva_symlink_put(const char *to, const char *at, struct kva_error *err);
/* An exclusive lock, waited for (said once after a moment). *fd is closed to unlock.
 * KVA_EINTERRUPTED. */
enum kva_status kva_fetch_lock(const char *path, int *fd, struct kva_error *err);
/* What a blob's name promises: 64 hex digits are a SHA-256, 40 a git blob's SHA-1. */
bool kva_hash_name(const char *name);
/* Size and hash of a file against what is known of it (sha256 may be NULL, etag NULL,
 * bytes -1). A hash is computed once per (inode, size, time of change) and remembered in
 * the own cache. KVA_EFORMAT when it is another file. */
enum kva_status kva_fetch_verify(const char *path, int64_t bytes, const char *sha256,
                                 const char *etag, struct kva_error *err);
/* Remembers hashes that were just computed; sha1 may be "". */
void kva_fetch_remember(const char *path, const char *sha256, const char *sha1);
/* Hashes of a whole file; sha1 (of a git blob, may be NULL) takes 41 bytes. */
enum kva_status kva_file_hashes(const char *path, char sha256[65], char *sha1,
                                struct kva_error *err);
enum kva_status kva_sync_dir_of(const char *path, struct kva_error *err);
/* Makes the directories above `path`. */
enum kva_status kva_mkdirs_of(const char *path, struct kva_error *err);

/* ---- fetch_http.c: one URL into one partial file ---- */
/* What the headers of a response say; read line by line. */
struct kva_http_head {
    long status;
    char etag[128], last_modified[64]; /* etag with its quotes and W/ */
    char location[4096];               /* "" when longer */
    int64_t length;                    /* Content-Length, -1 */
    int64_t first, last, total;        /* Content-Range; total alone for 416; -1 */
    /* of the last response with X-Repo-Commit, which is the hub's own and not that of the
     * store it redirects to: X-Linked-Etag and X-Linked-Size, else ETag and length */
    char hub_commit[41], hub_etag[128]; /* without quotes and W/ */
    int64_t hub_size;                   /* -1 */
    struct {
        char commit[41], etag[128];
        int64_t size;
    } now; /* of the response being read */
};
void kva_http_head_init(struct kva_http_head *h);
/* One header line, the empty one that ends them included; a status line starts over but
 * keeps what the hub said. */
void kva_http_header(struct kva_http_head *h, const char *line, size_t n);
/* "bytes 10-19/20", "bytes 10-19" + "/" + "*", or "bytes " + "*" + "/20". */
bool kva_http_range(const char *text, int64_t *first, int64_t *last, int64_t *total);
bool kva_http_strong(const char *etag); /* usable in If-Range */
/* The pause before try k+1 (k from 0): min(max, 2^k) times a factor in [0.5, 1.5), or
 * what the server asked for if longer. */
double kva_http_wait(int k, int max_s, double unit, int64_t asked_s);

struct kva_http_job {
    const char *url, *name; /* name: for people */
    const char *token; /* NULL: none; to the first host only, and not over plain http */
    const char *licence_page; /* named when access is refused */
    const struct kva_fetch_opts *o;
    const char *part; /* partial file; PART.json beside it */
    int64_t bytes;    /* expected, -1 */
};
struct kva_http_got {
    int64_t bytes;
    char sha256[65];
};
/* What the hub says of a file: `head` has hub_commit and hub_etag then. */
enum kva_status kva_http_ask(const struct kva_http_job *j, struct kva_http_head *head,
                             struct kva_error *err);
/* All of it into job.part, resuming and trying again as reports.md 10.2 says; synced. The
 * caller holds the lock. */
enum kva_status kva_http_get(const struct kva_http_job *j, struct kva_http_got *got,
                             struct kva_error *err);
/* Removes the partial file and its notes. */
void kva_http_forget(const char *part);

/* ---- fetch_progress.c ---- */
struct kva_fetch_progress {
    const char *name;
    int mode; /* 0 none, 1 plain, 2 bar */
    uint64_t begin_ns, last_ns;
    int64_t from; /* bytes that were there */
    int last_tenth;
    bool shown;
};
void kva_fetch_progress_begin(struct kva_fetch_progress *p, const char *mode,
                              const char *name, int64_t from);
void kva_fetch_progress_at(struct kva_fetch_progress *p, int64_t bytes, int64_t total);
void kva_fetch_progress_end(struct kva_fetch_progress *p);
bool kva_fetch_progress_known(const char *mode);

/* ---- fetch_manifest.c: items from a file or a word ---- */
/* {"schema": "kvaudit.files/1", "files": [{url | hf, rev, path; sha256, bytes, licence,
 * dest}]}. All errors, one line each with line, column and pointer, into `report`, then
 * KVA_EINVALID. */
enum kva_status kva_fetch_manifest(const char *text, size_t n, const char *name,
                                   bool unpinned, struct kva_arena *arena,
                                   struct kva_fetch_item **items, int *n_items,
                                   struct kva_buf *report, struct kva_error *err);
/* One entry. The message names the key; `key` (may be NULL) is that key. */
enum kva_status kva_fetch_entry(const json_t *o, bool unpinned, struct kva_arena *arena,
                                struct kva_fetch_item *it, const char **key,
                                struct kva_error *err);
/* "hf:[datasets/]org/repo[@rev]/path" or "https://...". */
bool kva_fetch_is_address(const char *word);
enum kva_status kva_fetch_word(const char *word, struct kva_arena *arena,
                               struct kva_fetch_item *it, struct kva_error *err);

/* ---- fetch_secret.c ---- */
/* HF_TOKEN, else the file HF_TOKEN_PATH, else $HF_HOME/token; NULL: none. Read once. */
const char *kva_hub_token(void);
/* The text with tokens, user info and secret parameters of URLs replaced. */
void kva_secret_hide(const char *text, struct kva_buf *out);
/* The same in place, for fixed buffers; never longer than n - 1. */
void kva_secret_hide_in(char *text, size_t n);

#endif
