/* SPDX-License-Identifier: GPL-3.0-or-later */
/* data_test.h - data files that a test writes, and the shared ones. */
#ifndef KVA_DATA_TEST_H
#define KVA_DATA_TEST_H

#include "tests/tasks/tasks_test.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static char data_dir[] = "/tmp/kva_data_XXXXXX";

static inline int make_data_dir(void **state)
{
    (void)state;
    return mkdtemp(data_dir) ? 0 : -1;
}

static inline int drop_data_dir(void **state)
{
    DIR *d = opendir(data_dir);
    char path[512];

    (void)state;
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        snprintf(path, sizeof path, "%s/%s", data_dir, e->d_name);
        if (e->d_name[0] != '.')
            unlink(path);
    }
    if (d)
        closedir(d);
    return rmdir(data_dir);
}

static inline void put_data_n(const char *file, const void *bytes, size_t n)
{
    struct kva_error err = {0};
    char path[256];

    snprintf(path, sizeof path, "%s/%s", data_dir, file);
    if (kva_write_file(path, bytes, n, &err) != KVA_OK)
        fail_msg("%s", err.text);
}

static inline void put_data(const char *file, const char *text)
{
    put_data_n(file, text, strlen(text));
}

/* A directory of the shared data; NULL, said aloud, when it is not there. */
static inline const char *shared_dir(const char *name)
{
    static char path[512];
    const char *base = getenv("KVAUDIT_SHARED");
    struct stat st;

    snprintf(path, sizeof path, "%s/%s", base ? base : "../shared/data", name);
    if (stat(path, &st) == 0)
        return path;
    print_message("SKIP: no directory %s (set KVAUDIT_SHARED)\n", path);
    return NULL;
}

/* The message of an item that cannot be made. */
static inline const char *item_refusal(const struct kva_task *task, int idx,
                                       const struct kva_tok_api *tok)
{
    static struct kva_error err;
    struct kva_arena arena;
    struct kva_item item;
    enum kva_status rc;

    err = (struct kva_error){0};
    kva_arena_init(&arena);
    rc = kva_task_item(task, idx, tok, &arena, &item, &err);
    kva_arena_release(&arena);
    if (rc == KVA_OK)
        fail_msg("item %d is accepted", idx);
    assert_int_equal(rc, err.code);
    return err.text;
}

static inline bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);

    return n >= k && strcmp(text + n - k, end) == 0;
}

#endif
