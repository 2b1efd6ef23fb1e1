/* SPDX-License-Identifier: GPL-3.0-or-later */
/* data.c - word lists and essays inside the program (assembler's .incbin).
 *
 * Paths are relative to the source root, the directory the compiler runs in. Provenance
 * and licences: configs/data/README.md. */
#include "tasks/internal.h"

#include <string.h>

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
CARRY(kva_carried_emerson, "emerson_essays.txt")

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
