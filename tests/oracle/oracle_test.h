/* SPDX-License-Identifier: GPL-3.0-or-later */
/* oracle_test.h - the SmolLM2 file and the rows of the reference implementations. Either
 * may be absent; the test then says so and is skipped. */
#ifndef KVA_ORACLE_TEST_H
#define KVA_ORACLE_TEST_H

#include "tests/models/engine_test.h"

#include <jansson.h>
#include <unistd.h>

/* Path of the model, or NULL after saying why. */
static inline const char *smollm2_path(void)
{
    static struct kva_buf path;

    if (!path.data) {
        kva_buf_init(&path, 0);
        OK(kva_cache_dir(&path, err));
        kva_buf_puts(&path, "/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    }
    if (access(path.data, R_OK) == 0)
        return path.data;
    printf("SKIP: %s is not there\n", path.data);
    return NULL;
}

/* The lines of a file under the shared data, as JSON objects; NULL after saying why. */
static inline json_t *oracle_rows(const char *name)
{
    const char *root = getenv("KVAUDIT_SHARED");
    char path[512], *line = NULL;
    size_t cap = 0;
    json_t *rows;
    FILE *f;

    snprintf(path, sizeof path, "%s/oracle/%s", root ? root : "../shared/data", name);
    f = fopen(path, "r");
    if (!f) {
        printf("SKIP: %s is not there\n", path);
        return NULL;
    }
    rows = json_array();
    while (getline(&line, &cap, f) > 0)
        assert_int_equal(json_array_append_new(rows, json_loads(line, 0, NULL)), 0);
    free(line);
    fclose(f);
    assert_true(json_array_size(rows) > 0);
    return rows;
}

/* An array of integers as ids; the caller frees. */
static inline int32_t *json_ids(const json_t *array, int *n)
{
    int32_t *ids;

    *n = (int)json_array_size(array);
    ids = calloc((size_t)*n + 1, sizeof *ids);
    assert_non_null(ids);
    for (int i = 0; i < *n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(array, (size_t)i));
    return ids;
}

#endif
