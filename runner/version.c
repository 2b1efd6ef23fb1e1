/* SPDX-License-Identifier: GPL-3.0-or-later */
/* version.c - what was built, from what, with which libraries. The Makefile defines
 * KVA_COMMIT, KVA_DIRTY and KVA_CFLAGS for this file alone. */
#include "runner/commands.h"

#include "db/db.h"
#include "kernels/kernels.h"

#include <archive.h>
#include <curl/curl.h>
#include <gsl/gsl_version.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#ifndef KVA_COMMIT
#define KVA_COMMIT "unknown"
#endif
#ifndef KVA_DIRTY
#define KVA_DIRTY 0
#endif
#ifndef KVA_CFLAGS
#define KVA_CFLAGS ""
#endif

const char *kva_version_commit(void)
{
    return KVA_COMMIT;
}

int kva_version_dirty(void)
{
    return KVA_DIRTY;
}

const char *kva_version_cflags(void)
{
    return KVA_CFLAGS;
}

const char *kva_version_compiler(void)
{
#ifdef __clang__
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}

#define N_LIBS 6
struct library {
    const char *name;
    char version[48];
};

/* Versions of what is loaded now, not of the headers, where the library can tell. */
static void libraries(struct library lib[N_LIBS])
{
    char pcre[64] = "";
    const curl_version_info_data *curl = curl_version_info(CURLVERSION_NOW);

    pcre2_config(PCRE2_CONFIG_VERSION, pcre);
    pcre[strcspn(pcre, " ")] = '\0';
    memset(lib, 0, N_LIBS * sizeof lib[0]);
    lib[0].name = "sqlite";
    snprintf(lib[0].version, sizeof lib[0].version, "%s", sqlite3_libversion());
    lib[1].name = "jansson";
    snprintf(lib[1].version, sizeof lib[1].version, "%s", jansson_version_str());
    lib[2].name = "libcurl";
    snprintf(lib[2].version, sizeof lib[2].version, "%s", curl->version);
    lib[3].name = "gsl";
    snprintf(lib[3].version, sizeof lib[3].version, "%s", gsl_version);
    lib[4].name = "pcre2";
    snprintf(lib[4].version, sizeof lib[4].version, "%.40s", pcre);
    lib[5].name = "libarchive";
    snprintf(lib[5].version, sizeof lib[5].version, "%d.%d.%d",
             archive_version_number() / 1000000, archive_version_number() / 1000 % 1000,
             archive_version_number() % 1000);
}

void kva_version_text(struct kva_buf *out)
{
    struct library lib[N_LIBS];

    libraries(lib);
    kva_buf_printf(out, "kvaudit %s (commit %s%s)\n", KVA_VERSION, KVA_COMMIT,
                   KVA_DIRTY ? ", modified" : "");
    kva_buf_printf(out, "semantics %d, database schema %d\n", KVA_SEMANTICS,
                   KVA_DB_SCHEMA);
    kva_buf_printf(out, "built by %s with %s\n", kva_version_compiler(), KVA_CFLAGS);
    kva_buf_puts(out, "backend cpu (numerics f32, ref):");
    for (const char *const *isa = kva_cpu_isas(); *isa; isa++)
        kva_buf_printf(out, " %s", *isa);
    kva_buf_puts(out, "\nlibraries:");
    for (int i = 0; i < N_LIBS; i++)
        kva_buf_printf(out, "%s %s %s", i ? "," : "", lib[i].name, lib[i].version);
    kva_buf_putc(out, '\n');
}

json_t *kva_version_json(void)
{
    struct library lib[N_LIBS];
    json_t *o = json_object(), *libs = json_object(), *isas = json_array();

    libraries(lib);
    for (int i = 0; i < N_LIBS; i++)
        json_object_set_new(libs, lib[i].name, json_string(lib[i].version));
    for (const char *const *isa = kva_cpu_isas(); *isa; isa++)
        json_array_append_new(isas, json_string(*isa));
    json_object_set_new(o, "version", json_string(KVA_VERSION));
    json_object_set_new(o, "commit", json_string(KVA_COMMIT));
    json_object_set_new(o, "modified", json_boolean(KVA_DIRTY));
    json_object_set_new(o, "semantics", json_integer(KVA_SEMANTICS));
    json_object_set_new(o, "db_schema", json_integer(KVA_DB_SCHEMA));
    json_object_set_new(o, "compiler", json_string(kva_version_compiler()));
    json_object_set_new(o, "cflags", json_string(KVA_CFLAGS));
    json_object_set_new(o, "backends", json_pack("[s]", "cpu"));
    json_object_set_new(o, "isas", isas);
    json_object_set_new(o, "libraries", libs);
    return o;
}
