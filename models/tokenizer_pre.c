/* SPDX-License-Identifier: GPL-3.0-or-later */
/* tokenizer_pre.c - splits text into the pieces inside which byte-level BPE merges
 * (models.md 6.2).
 *
 * A pre-tokenizer is a list of expressions. Start with the whole fragment as one piece;
 * for each expression in order, replace every piece by its matches and the gaps between
 * them. Each piece is matched as a subject of its own, so a lookahead ends where the
 * piece ends.
 *
 * The expressions are the original ones of the models' tokenizer.json files, with \s and
 * \S spelled out: PCRE2 10.42 counts U+180E as white space, the reference engines do not.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "models/tokenizer_internal.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* White_Space of Unicode, for use inside brackets. */
#define WS                                                                               \
    "\\t-\\r "                                                                           \
    "\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{" \
    "3000}"
#define S_  "[" WS "]"
#define NS_ "[^" WS "]"
/* the last blank of a run goes to the next word */
#define SPACES S_ "+(?!" NS_ ")|" S_ "+"

#define ENGLISH "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define UPPER   "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER   "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define LEAD    "[^\\r\\n\\p{L}\\p{N}]?"

#define CL100K3                                                                          \
    ENGLISH "|" LEAD "\\p{L}+|\\p{N}{1,3}| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n]*|" S_         \
            "*[\\r\\n]+|" SPACES
#define O200K                                                                            \
    LEAD UPPER "*" LOWER "+" ENGLISH "?|" LEAD UPPER "+" LOWER "*" ENGLISH               \
               "?|\\p{N}{1,3}| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n/]*|" S_                    \
               "*[\\r\\n]+|" SPACES
#define TEKKEN                                                                           \
    LEAD UPPER "*" LOWER "+|" LEAD UPPER "+" LOWER "*|\\p{N}| ?[^" WS                    \
               "\\p{L}\\p{N}]+[\\r\\n/]*|" S_ "*[\\r\\n]+|" SPACES
#define GPT2                                                                             \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" WS "\\p{L}\\p{N}]+|" SPACES
#define DIGIT "\\p{N}"
#define DEF1  "[\\p{P}\\$\\+<=>\\^~\\|]+"
#define DEF3  "\\p{N}+"
#define DEF4  "[0-9][0-9][0-9]"

enum { MAX_STAGES = 4 };

struct pre_family {
    const char *names; /* blank-separated, with a blank at both ends */
    const char *stage[MAX_STAGES];
    struct pre_facts facts;
    bool nfc; /* needs Unicode normalisation, which we do not do yet */
};

static const struct pre_family families[] = {
    {" llama-bpe llama3 llama-v3 falcon3 pixtral lfm2 ", {CL100K3}, {true, true}, false},
    {" dbrx smaug-bpe ", {CL100K3}, {false, false}, false},
    {" gpt-4o llama4 ", {O200K}, {true, false}, false},
    {" tekken ", {TEKKEN}, {true, true}, false},
    {" smollm starcoder refact command-r exaone codeshell ",
     {DIGIT, GPT2},
     {false, false},
     false},
    {" gpt-2 olmo mpt jais ", {GPT2}, {false, false}, false},
    {" default ", {DEF1, GPT2, DEF3, DEF4}, {false, false}, false},
    {" qwen2 deepseek-r1-qwen megrez qwen35 ", {NULL}, {false, false}, true},
};

struct presplit {
    pcre2_code *code[MAX_STAGES];
    int stages;
};

static const struct pre_family *family_of(const char *name, size_t n)
{
    char word[48];
    if (n == 0 || n + 3 > sizeof word || memchr(name, ' ', n) || memchr(name, 0, n))
        return NULL;
    word[0] = ' ';
    memcpy(word + 1, name, n);
    memcpy(word + 1 + n, " ", 2);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strstr(families[i].names, word))
            return &families[i];
    return NULL;
}

static enum kva_status compile(const char *pattern, pcre2_code **code,
                               struct kva_error *err)
{
    int number;
    PCRE2_SIZE at;
    *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_UCP, &number, &at, NULL);
    if (!*code)
        return KVA_FAIL(err, KVA_EUNSUPPORTED,
                        "PCRE2 refuses a pre-tokenizer expression (error %d at %zu)",
                        number, at);
    /* Without JIT the same matches come four times slower: no reason to fail. */
    (void)pcre2_jit_compile(*code, PCRE2_JIT_COMPLETE);
    return KVA_OK;
}

enum kva_status kva_presplit_new(const char *name, size_t n, struct presplit **out,
                                 struct pre_facts *facts, struct kva_error *err)
{
    *out = NULL;
    if (!name || (n == 7 && memcmp(name, "default", 7) == 0)) {
        kva_log(KVA_LOG_WARN,
                "the file does not name its pre-tokenizer; the generic one is used and "
                "may split text differently than in training");
        name = "default";
        n = 7;
    }
    const struct pre_family *f = family_of(name, n);
    if (!f)
        return KVA_FAIL(err, KVA_EUNSUPPORTED, "pre-tokenizer '%.*s' is not known",
                        (int)(n < 40 ? n : 40), name);
    if (f->nfc)
        return KVA_FAIL(
            err, KVA_EUNSUPPORTED,
            "pre-tokenizer '%.*s' needs NFC normalisation, which is not supported yet",
            (int)n, name);
    struct presplit *p = kva_calloc(1, sizeof *p);
    if (!p)
        return KVA_FAIL(err, KVA_ENOMEM, "no memory for a pre-tokenizer");
    for (int i = 0; i < MAX_STAGES && f->stage[i]; i++) {
        enum kva_status rc = compile(f->stage[i], &p->code[i], err);
        if (rc != KVA_OK) {
            kva_presplit_free(p);
            return rc;
        }
        p->stages++;
    }
    *facts = f->facts;
    *out = p;
    return KVA_OK;
}

void kva_presplit_free(struct presplit *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->stages; i++)
        pcre2_code_free(p->code[i]);
    free(p);
}

void kva_pieces_release(struct pieces *p)
{
    free(p->begin);
    free(p->end);
    memset(p, 0, sizeof *p);
}

static enum kva_status pieces_add(struct pieces *p, size_t begin, size_t end,
                                  struct kva_error *err)
{
    if (begin == end)
        return KVA_OK;
    if (p->n == p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 64;
        size_t *b = kva_realloc(p->begin, cap, sizeof *b);
        if (b)
            p->begin = b;
        size_t *e = b ? kva_realloc(p->end, cap, sizeof *e) : NULL;
        if (!e)
            return KVA_FAIL(err, KVA_ENOMEM, "no memory for %zu pieces of text", cap);
        p->end = e;
        p->cap = cap;
    }
    p->begin[p->n] = begin;
    p->end[p->n] = end;
    p->n++;
    return KVA_OK;
}

/* One stage on one piece. */
static enum kva_status split(pcre2_code *code, pcre2_match_data *match, const char *text,
                             size_t begin, size_t end, struct pieces *out,
                             struct kva_error *err)
{
    const char *subject = text + begin;
    size_t n = end - begin, at = 0, gap = 0;
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(match);
    while (at < n) {
        int rc = pcre2_match(code, (PCRE2_SPTR)subject, n, at, PCRE2_NO_UTF_CHECK, match,
                             NULL);
        if (rc == PCRE2_ERROR_NOMATCH)
            break;
        if (rc < 0)
            return KVA_FAIL(err, rc == PCRE2_ERROR_NOMEMORY ? KVA_ENOMEM : KVA_EINVALID,
                            "splitting the text at byte %zu: PCRE2 error %d", begin + at,
                            rc);
        /* no expression matches the empty string */
        KVA_TRY(pieces_add(out, begin + gap, begin + range[0], err));
        KVA_TRY(pieces_add(out, begin + range[0], begin + range[1], err));
        at = gap = range[1];
    }
    return pieces_add(out, begin + gap, end, err);
}

enum kva_status kva_presplit_run(const struct presplit *p, const char *text, size_t n,
                                 struct pieces *out, struct pieces *spare,
                                 struct kva_error *err)
{
    enum kva_status rc = KVA_OK;
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    if (!match)
        return KVA_FAIL(err, KVA_ENOMEM, "no memory to split text");
    out->n = 0;
    KVA_GO(pieces_add(out, 0, n, err));
    for (int s = 0; s < p->stages; s++) {
        struct pieces input = *out;
        *out = *spare;
        *spare = input;
        out->n = 0;
        for (size_t i = 0; i < spare->n; i++)
            KVA_GO(
                split(p->code[s], match, text, spare->begin[i], spare->end[i], out, err));
    }
out:
    pcre2_match_data_free(match);
    return rc;
}
