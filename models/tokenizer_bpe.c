/* SPDX-License-Identifier: GPL-3.0-or-later */
/* tokenizer_bpe.c - byte-level BPE over a GGUF vocabulary (models.md 6.1, 6.3, 6.5, 6.6).
 *
 *     text -> special tokens cut out -> pieces (tokenizer_pre.c) -> one symbol per byte
 *          -> merge the adjacent pair of lowest rank, leftmost on ties, until none is
 * left
 *
 * Vocabulary strings are written in an alphabet of 256 printable characters, one per
 * byte. A merge is found by its pair of token ids: (left, right) -> (rank, result).
 * Candidates wait in a heap; an entry whose symbols have changed meanwhile is dropped
 * when it comes up, so a piece of n bytes costs O(n log n) however long it is. */
#include "models/tokenizer_internal.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* tokenizer.ggml.token_type */
enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER, TYPE_UNUSED, TYPE_BYTE };

struct merge {
    int32_t left, right; /* left -1: free slot */
    int32_t rank, result;
};

struct special {
    const char *text;
    uint32_t len;
    int32_t id;
    bool always; /* user-defined: cut out even when control tokens are not parsed */
};

/* Shared by all handles on one vocabulary. */
struct vocab {
    atomic_int users;
    atomic_bool warned; /* a byte without token was met */
    int size;
    struct kva_arena strings;
    struct {
        const char *bytes; /* what the token stands for in text */
        uint32_t len;
        uint8_t type;
        bool eog;
    } * token;
    struct kva_map by_text; /* string as in the file -> id, the first of equal strings */
    int32_t byte_id[256];   /* -1: the vocabulary lacks the byte */
    struct merge *merges;
    size_t merge_mask;       /* slots - 1, a power of two */
    struct special *special; /* ascending by bytes */
    size_t n_special;
    uint32_t
        special_from[257]; /* specials that start with byte b: [from[b], from[b + 1]) */
    struct presplit *pre;
    struct pre_facts facts;
    uint8_t sha256[32];
};

static void vocab_free(void *state)
{
    struct vocab *v = state;
    if (!v || atomic_fetch_sub(&v->users, 1) > 1)
        return;
    kva_arena_release(&v->strings);
    free(v->token);
    kva_map_release(&v->by_text);
    free(v->merges);
    free(v->special);
    kva_presplit_free(v->pre);
    free(v);
}

/* Only the count of users changes; the vocabulary itself is read-only. */
static enum kva_status vocab_clone(void *state, void **copy, struct kva_error *err)
{
    struct vocab *v = state;
    (void)err;
    atomic_fetch_add(&v->users, 1);
    *copy = v;
    return KVA_OK;
}

/* ---- the byte alphabet ---- */

static bool stands_for_itself(int byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

/* Code point of each byte: printable Latin-1 is itself, the other 68 follow from 256. */
static void alphabet(uint16_t code_of[256], int16_t byte_of[324])
{
    int next = 256;
    for (int c = 0; c < 324; c++)
        byte_of[c] = -1;
    for (int b = 0; b < 256; b++) {
        code_of[b] = (uint16_t)(stands_for_itself(b) ? b : next++);
        byte_of[code_of[b]] = (int16_t)b;
    }
}

/* Bytes of a vocabulary string, or false when it leaves the alphabet. out holds n bytes.
 */
static bool to_bytes(const int16_t byte_of[324], const char *s, size_t n, char *out,
                     size_t *len)
{
    *len = 0;
    for (size_t i = 0; i < n;) {
        unsigned c = (unsigned char)s[i];
        int k = kva_utf8_len(s + i, n - i);
        if (k == 2)
            c = (c & 31) << 6 | ((unsigned char)s[i + 1] & 63);
        if (k < 1 || k > 2 || c >= 324 || byte_of[c] < 0)
            return false;
        out[(*len)++] = (char)byte_of[c];
        i += (size_t)k;
    }
    return true;
}

/* ---- merges ---- */

static size_t merge_slot(const struct vocab *v, int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    return (size_t)(kva_mix64(key) & v->merge_mask);
}

static const struct merge *merge_find(const struct vocab *v, int32_t left, int32_t right)
{
    for (size_t i = merge_slot(v, left, right);; i = (i + 1) & v->merge_mask) {
        const struct merge *m = &v->merges[i];
        if (m->left < 0)
            return NULL;
        if (m->left == left && m->right == right)
            return m;
    }
}

static int32_t id_of_text(const struct vocab *v, const char *s, size_t n)
{
    int64_t id;
    return kva_map_get(&v->by_text, s, n, &id) ? (int32_t)id : -1;
}

/* One line of tokenizer.ggml.merges: "left right", split at the first blank behind index
 * 0. */
static enum kva_status merge_add(struct vocab *v, int64_t rank, const char *s, size_t n,
                                 struct kva_buf *joined, struct kva_error *err)
{
    const char *blank = n > 1 ? memchr(s + 1, ' ', n - 1) : NULL;
    if (!blank)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "key 'tokenizer.ggml.merges': merge %lld is no pair",
                        (long long)rank);
    size_t left_len = (size_t)(blank - s), right_len = n - left_len - 1;
    int32_t left = id_of_text(v, s, left_len),
            right = id_of_text(v, blank + 1, right_len);
    joined->len = 0;
    kva_buf_add(joined, s, left_len);
    kva_buf_add(joined, blank + 1, right_len);
    KVA_TRY(kva_buf_status(joined, err));
    int32_t result = id_of_text(v, joined->data, joined->len);
    if (left < 0 || right < 0 || result < 0)
        return KVA_FAIL(
            err, KVA_EFORMAT,
            "key 'tokenizer.ggml.merges': a part of merge %lld is no vocabulary entry",
            (long long)rank);
    size_t i = merge_slot(v, left, right);
    for (; v->merges[i].left >= 0; i = (i + 1) & v->merge_mask)
        if (v->merges[i].left == left && v->merges[i].right == right)
            return KVA_OK; /* the lower rank stays */
    v->merges[i] = (struct merge){left, right, (int32_t)rank, result};
    return KVA_OK;
}

static enum kva_status load_merges(struct vocab *v, const struct kva_gguf *g,
                                   struct kva_error *err)
{
    enum kva_status rc = KVA_OK;
    int64_t n = kva_gguf_array_len(g, "tokenizer.ggml.merges");
    if (n < 0)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "the file has no merges (key tokenizer.ggml.merges)");
    size_t slots = 16;
    while (slots < 2 * (size_t)n + 2)
        slots *= 2;
    v->merges = kva_calloc(slots, sizeof *v->merges);
    if (!v->merges)
        return KVA_FAIL(err, KVA_ENOMEM, "no memory for %lld merges", (long long)n);
    for (size_t i = 0; i < slots; i++)
        v->merges[i].left = -1;
    v->merge_mask = slots - 1;
    struct kva_buf joined;
    kva_buf_init(&joined, 0);
    for (int64_t i = 0; i < n; i++) {
        const char *s;
        size_t len;
        if (!kva_gguf_array_str(g, "tokenizer.ggml.merges", i, &s, &len)) {
            rc = KVA_FAIL(err, KVA_EFORMAT,
                          "key 'tokenizer.ggml.merges': not an array of strings");
            goto out;
        }
        KVA_GO(merge_add(v, i, s, len, &joined, err));
    }
out:
    kva_buf_release(&joined);
    return rc;
}

/* ---- vocabulary ---- */

static enum kva_status load_tokens(struct vocab *v, const struct kva_gguf *g,
                                   struct kva_error *err)
{
    uint16_t code_of[256];
    int16_t byte_of[324];
    alphabet(code_of, byte_of);
    int64_t n = kva_gguf_array_len(g, "tokenizer.ggml.tokens");
    if (n < 1 || n > INT32_MAX / 2)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "the file has no vocabulary (key tokenizer.ggml.tokens)");
    v->size = (int)n;
    v->token = kva_calloc((size_t)n, sizeof *v->token);
    if (!v->token)
        return KVA_FAIL(err, KVA_ENOMEM, "no memory for %lld tokens", (long long)n);
    int64_t repeated = 0;
    for (int64_t i = 0; i < n; i++) {
        const char *s;
        size_t len, bytes;
        if (!kva_gguf_array_str(g, "tokenizer.ggml.tokens", i, &s, &len) ||
            len > UINT32_MAX)
            return KVA_FAIL(err, KVA_EFORMAT,
                            "key 'tokenizer.ggml.tokens': not an array of strings");
        int64_t type = TYPE_NORMAL;
        kva_gguf_array_i64(g, "tokenizer.ggml.token_type", i, &type);
        v->token[i].type = type >= 1 && type <= TYPE_BYTE ? (uint8_t)type : TYPE_NORMAL;
        char *text = kva_arena_alloc(&v->strings, len + 1, 1);
        if (!text)
            return KVA_FAIL(err, KVA_ENOMEM, "no memory for the vocabulary");
        /* added tokens are stored as they stand in text, the others in the byte alphabet
         */
        bool literal = type == TYPE_UNKNOWN || type == TYPE_CONTROL || type == TYPE_USER;
        if (literal || !to_bytes(byte_of, s, len, text, &bytes)) {
            memcpy(text, s, len);
            bytes = len;
        }
        v->token[i].bytes = text;
        v->token[i].len = (uint32_t)bytes;
        int64_t earlier;
        if (kva_map_get(&v->by_text, s, len, &earlier)) {
            repeated++;
            continue;
        }
        KVA_TRY(kva_map_put(&v->by_text, s, len, i, NULL, err));
    }
    if (repeated > 0)
        kva_log(KVA_LOG_WARN,
                "%lld vocabulary strings occur twice; the first of each is used",
                (long long)repeated);
    for (int b = 0; b < 256; b++) {
        uint16_t c = code_of[b];
        char text[2] = {(char)c, 0};
        if (c >= 128) {
            text[0] = (char)(0xc0 | c >> 6);
            text[1] = (char)(0x80 | (c & 63));
        }
        v->byte_id[b] = id_of_text(v, text, c >= 128 ? 2 : 1);
    }
    return KVA_OK;
}

static int special_order(const void *a, const void *b)
{
    const struct special *x = a, *y = b;
    int c = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);
    if (c == 0)
        c = (x->len > y->len) - (x->len < y->len);
    return c ? c : (x->id > y->id) - (x->id < y->id);
}

static bool valid_utf8(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        int k = kva_utf8_len(s + i, n - i);
        if (k == 0)
            return false;
        i += (size_t)k;
    }
    return true;
}

static enum kva_status load_specials(struct vocab *v, struct kva_error *err)
{
    v->special = kva_calloc((size_t)v->size, sizeof *v->special);
    if (!v->special)
        return KVA_FAIL(err, KVA_ENOMEM, "no memory for special tokens");
    for (int i = 0; i < v->size; i++) {
        uint8_t type = v->token[i].type;
        if (type != TYPE_UNKNOWN && type != TYPE_CONTROL && type != TYPE_USER)
            continue;
        /* of equal strings the first one counts; half a character could be cut out of a
         * whole one */
        if (v->token[i].len == 0 || !valid_utf8(v->token[i].bytes, v->token[i].len) ||
            id_of_text(v, v->token[i].bytes, v->token[i].len) != i)
            continue;
        v->special[v->n_special++] =
            (struct special){v->token[i].bytes, v->token[i].len, i, type == TYPE_USER};
    }
    qsort(v->special, v->n_special, sizeof *v->special, special_order);
    size_t k = 0;
    for (int b = 0; b < 256; b++) {
        v->special_from[b] = (uint32_t)k;
        while (k < v->n_special && (unsigned char)v->special[k].text[0] == b)
            k++;
    }
    v->special_from[256] = (uint32_t)k;
    return KVA_OK;
}

static void mark_end(struct vocab *v, const struct kva_gguf *g, const char *key)
{
    int64_t id;
    if (!kva_gguf_i64(g, key, &id))
        return;
    if (id < 0 || id >= v->size)
        kva_log(KVA_LOG_WARN, "key '%s': id %lld is outside the vocabulary and ignored",
                key, (long long)id);
    else
        v->token[id].eog = true;
}

/* The tokens after which a generation stops: by key and by name (models.md 6.5). */
static void load_ends(struct vocab *v, const struct kva_gguf *g)
{
    static const char *const names[] = {
        "<|eot_id|>",      "<|eom_id|>", "<|im_end|>",    "<|end|>",
        "<|return|>",      "<|call|>",   "<end_of_turn>", "<|endoftext|>",
        "<|end_of_text|>", "<eos>",      "</s>"};
    mark_end(v, g, "tokenizer.ggml.eos_token_id");
    mark_end(v, g, "tokenizer.ggml.eot_token_id");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int32_t id = id_of_text(v, names[i], strlen(names[i]));
        /* </s> is an ordinary HTML tag in some vocabularies */
        if (id >= 0 &&
            (strcmp(names[i], "</s>") != 0 || v->token[id].type == TYPE_CONTROL))
            v->token[id].eog = true;
    }
    /* harmony: <|end|> ends a message, not the answer */
    int32_t end = id_of_text(v, "<|end|>", 7);
    if (end >= 0 && id_of_text(v, "<|return|>", 10) >= 0 &&
        id_of_text(v, "<|call|>", 8) >= 0)
        v->token[end].eog = false;
}

static void hash_string(struct kva_sha256 *h, const char *s, size_t n)
{
    uint8_t len[8];
    for (int i = 0; i < 8; i++)
        len[i] = (uint8_t)((uint64_t)n >> (8 * i));
    kva_sha256_add(h, len, sizeof len);
    kva_sha256_add(h, s, n);
}

/* Everything that decides ids: strings, types, merges, pre-tokenizer, flags. */
static void hash_vocab(struct vocab *v, const struct kva_gguf *g, const char *pre,
                       size_t pre_len, int32_t bos, bool add_bos)
{
    static const char *const arrays[] = {"tokenizer.ggml.tokens",
                                         "tokenizer.ggml.merges"};
    struct kva_sha256 h;
    kva_sha256_init(&h);
    hash_string(&h, "kvaudit bpe 1", 13);
    for (int a = 0; a < 2; a++) {
        int64_t n = kva_gguf_array_len(g, arrays[a]);
        for (int64_t i = 0; i < n; i++) {
            const char *s;
            size_t len;
            if (kva_gguf_array_str(g, arrays[a], i, &s, &len))
                hash_string(&h, s, len);
        }
        hash_string(&h, "", 0);
    }
    for (int i = 0; i < v->size; i++) {
        uint8_t facts[2] = {v->token[i].type, v->token[i].eog};
        kva_sha256_add(&h, facts, sizeof facts);
    }
    hash_string(&h, pre ? pre : "", pre_len);
    uint8_t flags[6] = {add_bos, v->facts.ignore_merges};
    for (int i = 0; i < 4; i++)
        flags[2 + i] = (uint8_t)((uint32_t)bos >> (8 * i));
    kva_sha256_add(&h, flags, sizeof flags);
    kva_sha256_end(&h, v->sha256);
}

/* ---- encoding ---- */

struct symbol {
    int32_t id; /* -1: merged away */
    int32_t prev, next;
    uint32_t begin, end; /* bytes in the piece */
};

struct candidate {
    uint64_t
        key; /* rank << 32 | index of the left symbol: lowest rank first, then leftmost */
    int32_t left, right, result;
};

struct bpe {
    const struct vocab *v;
    struct symbol *symbol;
    size_t cap_symbols;
    struct candidate *heap;
    size_t n_heap, cap_heap;
    struct pieces pieces, spare;
    struct kva_buf mapped; /* a piece in the byte alphabet */
    uint16_t code_of[256];
    int dropped; /* last byte that has no token, -1: none */
};

static void heap_push(struct candidate *heap, size_t *n, struct candidate c)
{
    size_t i = (*n)++;
    while (i > 0 && heap[(i - 1) / 2].key > c.key) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = c;
}

static struct candidate heap_pop(struct candidate *heap, size_t *n)
{
    struct candidate top = heap[0], last = heap[--*n];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= *n)
            break;
        if (child + 1 < *n && heap[child + 1].key < heap[child].key)
            child++;
        if (heap[child].key >= last.key)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

/* Room for a piece of n bytes: n symbols; each merge removes one symbol and adds at most
 * two candidates to the n - 1 of the start. */
static enum kva_status reserve(struct bpe *b, size_t n, struct kva_error *err)
{
    if (n <= b->cap_symbols)
        return KVA_OK;
    size_t cap = n < 256 ? 256 : n + n / 2;
    struct symbol *s = kva_realloc(b->symbol, cap, sizeof *s);
    if (s)
        b->symbol = s;
    struct candidate *h = s ? kva_realloc(b->heap, 3 * cap, sizeof *h) : NULL;
    if (!h)
        return KVA_FAIL(err, KVA_ENOMEM, "no memory to tokenise a piece of %zu bytes", n);
    b->heap = h;
    b->cap_symbols = cap;
    return KVA_OK;
}

static void consider(struct bpe *b, int32_t left)
{
    const struct symbol *s = &b->symbol[left];
    if (s->next < 0)
        return;
    int32_t right = b->symbol[s->next].id;
    const struct merge *m = merge_find(b->v, s->id, right);
    if (m)
        heap_push(b->heap, &b->n_heap,
                  (struct candidate){(uint64_t)(uint32_t)m->rank << 32 | (uint32_t)left,
                                     s->id, right, m->result});
}

static void merge_all(struct bpe *b)
{
    while (b->n_heap > 0) {
        struct candidate c = heap_pop(b->heap, &b->n_heap);
        int32_t left = (int32_t)(uint32_t)c.key;
        struct symbol *s = &b->symbol[left];
        if (s->id != c.left || s->next < 0 || b->symbol[s->next].id != c.right)
            continue;
        struct symbol *gone = &b->symbol[s->next];
        s->id = c.result;
        s->end = gone->end;
        s->next = gone->next;
        gone->id = -1;
        if (s->next >= 0)
            b->symbol[s->next].prev = left;
        if (s->prev >= 0)
            consider(b, s->prev);
        consider(b, left);
    }
}

/* The piece as one vocabulary entry, or -1. */
static int32_t whole_piece(struct bpe *b, const char *s, size_t n)
{
    b->mapped.len = 0;
    for (size_t i = 0; i < n; i++) {
        uint16_t c = b->code_of[(unsigned char)s[i]];
        if (c >= 128)
            kva_buf_putc(&b->mapped, (char)(0xc0 | c >> 6));
        kva_buf_putc(&b->mapped, (char)(c >= 128 ? 0x80 | (c & 63) : c));
    }
    return b->mapped.failed ? -1 : id_of_text(b->v, b->mapped.data, b->mapped.len);
}

static enum kva_status encode_piece(struct bpe *b, const char *text, size_t begin,
                                    size_t end, struct kva_tokens *out,
                                    struct kva_error *err)
{
    size_t n = end - begin;
    if (b->v->facts.ignore_merges) {
        int32_t id = whole_piece(b, text + begin, n);
        KVA_TRY(kva_buf_status(&b->mapped, err));
        if (id >= 0)
            return kva_tokens_add(out, id, begin, end, err);
    }
    if (n > INT32_MAX / 4)
        return KVA_FAIL(err, KVA_EINVALID, "a piece of %zu bytes is too long to tokenise",
                        n);
    KVA_TRY(reserve(b, n, err));
    b->n_heap = 0;
    int32_t symbols = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)text[begin + i];
        if (b->v->byte_id[byte] < 0) {
            b->dropped = byte;
            continue;
        }
        b->symbol[symbols] = (struct symbol){b->v->byte_id[byte], symbols - 1,
                                             symbols + 1, (uint32_t)i, (uint32_t)i + 1};
        symbols++;
    }
    if (symbols == 0)
        return KVA_OK;
    b->symbol[symbols - 1].next = -1;
    for (int32_t i = 0; i + 1 < symbols; i++)
        consider(b, i);
    merge_all(b);
    for (int32_t i = 0; i >= 0; i = b->symbol[i].next)
        KVA_TRY(kva_tokens_add(out, b->symbol[i].id, begin + b->symbol[i].begin,
                               begin + b->symbol[i].end, err));
    return KVA_OK;
}

/* Longest special token at s, NULL: none. The sorted list is narrowed byte by byte:
 * entries that agree with the text so far are neighbours, and one that ends here stands
 * first. */
static const struct special *special_at(const struct vocab *v, const char *s, size_t n,
                                        bool control)
{
    size_t lo = v->special_from[(unsigned char)s[0]],
           hi = v->special_from[(unsigned char)s[0] + 1];
    const struct special *best = NULL;
    for (size_t depth = 1; lo < hi; depth++) {
        while (lo < hi && v->special[lo].len == depth) {
            if (control || v->special[lo].always)
                best = &v->special[lo];
            lo++;
        }
        if (depth >= n || lo >= hi)
            break;
        unsigned char want = (unsigned char)s[depth];
        size_t a = lo, z = hi;
        while (a < z) { /* first entry with byte >= want */
            size_t m = a + (z - a) / 2;
            if ((unsigned char)v->special[m].text[depth] < want)
                a = m + 1;
            else
                z = m;
        }
        lo = a;
        z = hi;
        while (a < z) { /* first entry with byte > want */
            size_t m = a + (z - a) / 2;
            if ((unsigned char)v->special[m].text[depth] <= want)
                a = m + 1;
            else
                z = m;
        }
        hi = a;
    }
    return best;
}

static enum kva_status encode_fragment(struct bpe *b, const char *text, size_t begin,
                                       size_t end, struct kva_tokens *out,
                                       struct kva_error *err)
{
    if (begin == end)
        return KVA_OK;
    KVA_TRY(kva_presplit_run(b->v->pre, text + begin, end - begin, &b->pieces, &b->spare,
                             err));
    for (size_t i = 0; i < b->pieces.n; i++)
        KVA_TRY(encode_piece(b, text, begin + b->pieces.begin[i],
                             begin + b->pieces.end[i], out, err));
    return KVA_OK;
}

static enum kva_status encode_text(struct vocab *v, const char *text, size_t n,
                                   bool parse_special, struct kva_tokens *out,
                                   struct kva_error *err)
{
    enum kva_status rc = KVA_OK;
    struct bpe b = {.v = v, .dropped = -1};
    int16_t unused[324];
    alphabet(b.code_of, unused);
    kva_buf_init(&b.mapped, 0);
    size_t begin = 0;
    for (size_t i = 0; i < n;) {
        const struct special *s = special_at(b.v, text + i, n - i, parse_special);
        if (!s) {
            i++;
            continue;
        }
        KVA_GO(encode_fragment(&b, text, begin, i, out, err));
        KVA_GO(kva_tokens_add(out, s->id, i, i + s->len, err));
        i += s->len;
        begin = i;
    }
    KVA_GO(encode_fragment(&b, text, begin, n, out, err));
    if (b.dropped >= 0 && !atomic_exchange(&v->warned, true))
        kva_log(KVA_LOG_WARN,
                "the vocabulary has no token for byte 0x%02x; such bytes are left out",
                (unsigned)b.dropped);
out:
    free(b.symbol);
    free(b.heap);
    kva_pieces_release(&b.pieces);
    kva_pieces_release(&b.spare);
    kva_buf_release(&b.mapped);
    return rc;
}

static enum kva_status vocab_encode(void *state, const char *text, size_t n,
                                    bool parse_special, struct kva_tokens *out,
                                    struct kva_error *err)
{
    return encode_text(state, text, n, parse_special, out, err);
}

/* Control tokens count as what they become in a prompt. */
static enum kva_status vocab_count(void *state, const char *text, size_t n, size_t *count,
                                   struct kva_error *err)
{
    struct kva_tokens t = {0};
    enum kva_status rc = encode_text(state, text, n, true, &t, err);
    *count = t.n;
    kva_tokens_release(&t);
    return rc;
}

static enum kva_status vocab_decode(const void *state, const int32_t *ids, size_t n,
                                    struct kva_buf *out, struct kva_error *err)
{
    const struct vocab *v = state;
    (void)err;
    for (size_t i = 0; i < n; i++)
        if (v->token[ids[i]].type != TYPE_CONTROL &&
            v->token[ids[i]].type != TYPE_UNKNOWN)
            kva_buf_add(out, v->token[ids[i]].bytes, v->token[ids[i]].len);
    return KVA_OK;
}

static void vocab_sha256(const void *state, uint8_t out[32])
{
    memcpy(out, ((const struct vocab *)state)->sha256, 32);
}

static bool vocab_is_eog(const void *state, int32_t id)
{
    return ((const struct vocab *)state)->token[id].eog;
}

static const struct tokenizer_kind bpe_kind = {
    .clone = vocab_clone,
    .free = vocab_free,
    .encode = vocab_encode,
    .count = vocab_count,
    .decode = vocab_decode,
    .sha256 = vocab_sha256,
    .is_eog = vocab_is_eog,
};

/* ---- from a file ---- */

static int32_t bos_of(const struct kva_gguf *g, int size)
{
    int64_t id;
    if (!kva_gguf_i64(g, "tokenizer.ggml.bos_token_id", &id))
        return -1;
    if (id < 0 || id >= size) {
        kva_log(KVA_LOG_WARN,
                "key 'tokenizer.ggml.bos_token_id': id %lld is outside the vocabulary "
                "and ignored",
                (long long)id);
        return -1;
    }
    return (int32_t)id;
}

enum kva_status kva_tokenizer_bpe_new(const struct kva_gguf *g, struct kva_tokenizer **t,
                                      struct kva_error *err)
{
    enum kva_status rc = KVA_OK;
    struct vocab *v = kva_calloc(1, sizeof *v);
    *t = NULL;
    if (!v)
        return KVA_FAIL(err, KVA_ENOMEM, "no memory for a vocabulary");
    atomic_init(&v->users, 1);
    kva_arena_init(&v->strings);
    kva_map_init(&v->by_text);
    const char *pre = NULL;
    size_t pre_len = 0;
    kva_gguf_str(g, "tokenizer.ggml.pre", &pre, &pre_len);
    KVA_GO(kva_presplit_new(pre, pre_len, &v->pre, &v->facts, err));
    KVA_GO(load_tokens(v, g, err));
    KVA_GO(load_merges(v, g, err));
    KVA_GO(load_specials(v, err));
    load_ends(v, g);
    int32_t bos = bos_of(g, v->size);
    bool add_bos = v->facts.add_bos;
    kva_gguf_bool(g, "tokenizer.ggml.add_bos_token", &add_bos);
    hash_vocab(v, g, pre, pre_len, bos, add_bos);
    int size = v->size;
    struct vocab *given = v;
    v = NULL; /* the handle owns it, also when wrapping fails */
    KVA_GO(kva_tokenizer_wrap(&bpe_kind, given, t, err));
    (*t)->size = size;
    (*t)->bos = bos;
    (*t)->add_bos = add_bos && bos >= 0;
out:
    vocab_free(v);
    return rc;
}
