/* SPDX-License-Identifier: GPL-3.0-or-later */
/* data.c - word lists and essays inside the program (assembler's .incbin).
 *
 * Paths are relative to the source root, the directory the compiler runs in. Provenance
 * and licences: configs/data/README.md. */
#include "tasks/internal.h"

#include <string.h>
#include <sys/stat.h>

#define CARRY(symbol, path)                                                              \
    __asm__(".section .rodata\n"                                                         \
            ".balign 16\n" #symbol ":\n"                                                 \
            ".incbin \"configs/data/" path "\"\n" #symbol "_end:\n"                      \
            ".byte 0\n"                                                                  \
            ".previous\n");                                                              \
    extern const char symbol[], symbol##_end[];

CARRY(kva_carried_adjectives_220, "adjectivelist-2.2.0.txt")
CARRY(kva_carried_nouns_220, "nounlist-2.2.0.txt")
CARRY(kva_carried_adjectives_300, "adjectivelist-3.0.0.txt")
CARRY(kva_carried_nouns_300, "nounlist-3.0.0.txt")
CARRY(kva_carried_verbs_220, "verblist-2.2.0.txt")
CARRY(kva_carried_verbs_300, "verblist-3.0.0.txt")
CARRY(kva_carried_emerson, "emerson_essays.txt")
CARRY(kva_carried_squad, "qa_mini_squad.json")
CARRY(kva_carried_hotpot, "qa_mini_hotpot.json")

static const struct {
    const char *file, *sha256, *begin, *end;
} carried[] = {
    {"adjectivelist-2.2.0.txt",
     "66814d46b7e292c83e839d12fe2fa083c8f66779b14b294e1be4e1342c5d4131",
     kva_carried_adjectives_220, kva_carried_adjectives_220_end},
    {"nounlist-2.2.0.txt",
     "0778f51872f2aa89e0745c0cc37471a13e3d2161a79fcfdc03b6390b10604a55",
     kva_carried_nouns_220, kva_carried_nouns_220_end},
    {"adjectivelist-3.0.0.txt",
     "66814d46b7e292c83e839d12fe2fa083c8f66779b14b294e1be4e1342c5d4131",
     kva_carried_adjectives_300, kva_carried_adjectives_300_end},
    {"nounlist-3.0.0.txt",
     "8d88b3ebc2e2969ed92ebe49cdb0c8a87c2ad3b27493d7afdff608f2e51c5bc9",
     kva_carried_nouns_300, kva_carried_nouns_300_end},
    {"verblist-2.2.0.txt",
     "9fbf5e4e69b8869aebd88e6d545312ff9f878a747327ede5f6dbbba5c27b08ad",
     kva_carried_verbs_220, kva_carried_verbs_220_end},
    {"verblist-3.0.0.txt",
     "9fbf5e4e69b8869aebd88e6d545312ff9f878a747327ede5f6dbbba5c27b08ad",
     kva_carried_verbs_300, kva_carried_verbs_300_end},
    {"qa_mini_squad.json",
     "2061b4fe8ebe025c364653e00003f7083858a2a7937024e60fa3dc2e63870069",
     kva_carried_squad, kva_carried_squad_end},
    {"qa_mini_hotpot.json",
     "84f3b784884bd7899c83e86f5c26f6694c3f8d103cab705b017fee8511e3c3e7",
     kva_carried_hotpot, kva_carried_hotpot_end},
    {"emerson_essays.txt",
     "1d3e5462bd714d419471ff9d18d0c2e86ea71ecd43159fc0189e70c8f0b3eb9b",
     kva_carried_emerson, kva_carried_emerson_end},
};
enum { N_CARRIED = sizeof carried / sizeof carried[0] };

size_t kva_carried_count(void)
{
    return N_CARRIED;
}

struct kva_carried kva_carried_file(size_t i)
{
    return (struct kva_carried){carried[i].file, carried[i].sha256, carried[i].begin,
                                (size_t)(carried[i].end - carried[i].begin)};
}

enum kva_status kva_carried_load(const char *data_dir, const char *file,
                                 struct kva_buf *own, const char **bytes, size_t *n,
                                 char sha256[65], struct kva_error *err)
{
    struct kva_buf path;
    uint8_t digest[32];
    enum kva_status rc;

    if (!data_dir) {
        for (size_t i = 0; i < N_CARRIED; i++) {
            struct kva_carried c = kva_carried_file(i);

            if (strcmp(c.file, file) != 0)
                continue;
            *bytes = c.bytes;
            *n = c.n;
            memcpy(sha256, c.sha256, 65); /* compared with the bytes by a test */
            return KVA_OK;
        }
        return KVA_FAIL(err, KVA_EINVALID, "%s is not a file the program carries", file);
    }
    kva_buf_init(&path, 0);
    kva_buf_printf(&path, "%s/%s", data_dir, file);
    KVA_GO(kva_buf_status(&path, err));
    KVA_GO(kva_read_file(path.data, (size_t)256 << 20, own, err));
    kva_sha256_of(own->data, own->len, digest);
    kva_hex(digest, sizeof digest, sha256);
    *bytes = own->data;
    *n = own->len;
out:
    kva_buf_release(&path);
    return rc;
}

const char *const kva_task_data_names[] = {
    "squad",   "hotpot",  "essays", "english_words", "longbench", "longbench_v2",
    "scbench", "math500", "aime25", "gsm8k",         NULL};

enum kva_status kva_data_find(const struct kva_task_opts *opts, const char *name,
                              const char *file, struct kva_buf *path,
                              struct kva_error *err)
{
    const char *given = NULL;
    struct stat st;

    for (int i = 0; i < opts->n_data; i++)
        if (strcmp(opts->data[i].name, name) == 0)
            given = opts->data[i].path;
    path->len = 0;
    if (given) {
        if (given[0] != '/' && opts->base_dir)
            kva_buf_printf(path, "%s/", opts->base_dir);
        kva_buf_puts(path, given);
        KVA_TRY(kva_buf_status(path, err));
        if (stat(path->data, &st) == 0 && S_ISDIR(st.st_mode))
            kva_buf_printf(path, "/%s", file);
    } else {
        KVA_TRY(kva_cache_dir(path, err));
        kva_buf_printf(path, "/data/%s/%s", name, file);
    }
    KVA_TRY(kva_buf_status(path, err));
    if (stat(path->data, &st) == 0)
        return KVA_OK;
    return KVA_FAIL(err, KVA_EIO,
                    "data set \"%s\": no file %s; name it with --data %s=PATH or in the "
                    "suite's \"data\"",
                    name, path->data, name);
}
