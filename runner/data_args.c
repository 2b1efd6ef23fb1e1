/* SPDX-License-Identifier: GPL-3.0-or-later */
/* data_args.c - reads `--data NAME=PATH`. */
#include "runner/data_args.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

static enum kva_status known_name(const char *name, const char *arg,
                                  struct kva_error *err)
{
    const char *near = kva_nearest(name, kva_task_data_names);

    for (int i = 0; kva_task_data_names[i] != NULL; i++)
        if (strcmp(kva_task_data_names[i], name) == 0)
            return KVA_OK;
    return KVA_FAIL(err, KVA_EINVALID, "--data %s: unknown data set '%s'%s%s%s", arg,
                    name, near != NULL ? "; did you mean '" : "",
                    near != NULL ? near : "", near != NULL ? "'?" : "");
}

static enum kva_status no_memory(struct kva_error *err)
{
    return KVA_FAIL(err, KVA_ENOMEM, "out of memory for the names of data sets");
}

enum kva_status kva_data_args(const struct kva_opt_list *args, struct kva_arena *arena,
                              const struct kva_task_data **data, int *n,
                              struct kva_error *err)
{
    struct kva_task_data *list =
        kva_arena_alloc(arena, (size_t)args->n + 1, sizeof *list);
    char cwd[PATH_MAX] = "";

    *data = list;
    *n = 0;
    if (list == NULL)
        return no_memory(err);
    if (args->n > 0 && getcwd(cwd, sizeof cwd) == NULL)
        return KVA_FAIL(err, KVA_EIO, "the working directory: %s", strerror(errno));
    for (int i = 0; i < args->n; i++) {
        const char *arg = args->v[i], *eq = strchr(arg, '=');
        const char *name, *path;
        int k = 0;

        if (eq == NULL || eq == arg || eq[1] == '\0')
            return KVA_FAIL(err, KVA_EINVALID, "--data %s is not NAME=PATH", arg);
        name = kva_arena_strndup(arena, arg, (size_t)(eq - arg));
        path = eq[1] == '/' ? kva_arena_strdup(arena, eq + 1)
                            : kva_arena_printf(arena, "%s/%s", cwd, eq + 1);
        if (name == NULL || path == NULL)
            return no_memory(err);
        KVA_TRY(known_name(name, arg, err));
        while (k < *n && strcmp(list[k].name, name) != 0)
            k++;
        list[k] = (struct kva_task_data){name, path};
        *n += k == *n;
    }
    return KVA_OK;
}
