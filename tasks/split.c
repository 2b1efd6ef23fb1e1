/* SPDX-License-Identifier: GPL-3.0-or-later */
/* split.c - sentences of English text, splitter `simple-v1`, and the haystacks made of
 * them.
 *
 * Scan for a run of . ! ?, then closing characters " ' ) ] }. If a blank follows, it is a
 * boundary when the next character (opening " ' ( [ skipped) is an ASCII upper-case
 * letter or a digit, unless the mark is one lone "." and the word before it is a known
 * abbreviation or one upper-case letter. The blank belongs to no sentence. Stands in for
 * NLTK's punkt, whose model is not ours to ship. */
#include "tasks/internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

const char kva_embedded_essay[] =
    "The harbor wakes before the town. Gulls circle above the grey quay. A clerk counts "
    "barrels of salt. Rain taps on the tin roofs all morning. The baker opens his "
    "shutters "
    "at six. Two boys mend a torn blue net. An old dog sleeps beside the scales in the "
    "shade. The ferry leaves when the bell rings twice. Smoke drifts over the long "
    "wooden "
    "pier. Nobody remembers who painted the lighthouse red. Evening brings a slow wind "
    "from "
    "the west and the smell of bread. Lamps are lit along the wall before the last boat "
    "returns.";
const char kva_noise_line[] =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. "
    "There and back again.";

static bool in_set(char c, const char *set)
{
    return c && strchr(set, c) != NULL;
}

void kva_squeeze(const char *text, size_t n, struct kva_buf *out)
{
    bool gap = false;

    for (size_t i = 0; i < n; i++) {
        if (in_set(text[i], " \t\n\v\f\r")) {
            gap = true;
            continue;
        }
        if (gap && out->len > 0)
            kva_buf_putc(out, ' ');
        gap = false;
        kva_buf_putc(out, text[i]);
    }
}

/* Is the word that ends before `dot` one after which a full stop ends no sentence? */
static bool is_abbreviation(const char *text, size_t sentence, size_t dot)
{
    static const char *const known[] = {"Mr",   "Mrs", "Ms",  "Dr",  "St",  "Sr",  "Jr",
                                        "Prof", "vs",  "etc", "e.g", "i.e", "cf",  "No",
                                        "Vol",  "Fig", "Mt",  "Gen", "Col", "Capt"};
    size_t b = dot, n;

    while (b > sentence && text[b - 1] != ' ')
        b--;
    while (b < dot && in_set(text[b], "\"'(["))
        b++;
    n = dot - b;
    if (n == 1 && text[b] >= 'A' && text[b] <= 'Z')
        return true;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i]) == n && memcmp(known[i], text + b, n) == 0)
            return true;
    return false;
}

/* End of the sentence that begins at `start`: first byte behind it. */
static size_t sentence_end(const char *text, size_t n, size_t start)
{
    for (size_t i = start; i < n; i++) {
        size_t mark = i, run, closed, next;

        if (!in_set(text[i], ".!?"))
            continue;
        for (run = mark; run < n && in_set(text[run], ".!?"); run++)
            ;
        for (closed = run; closed < n && in_set(text[closed], "\"')]}"); closed++)
            ;
        i = closed - 1;
        if (closed >= n || text[closed] != ' ')
            continue;
        for (next = closed + 1; next < n && in_set(text[next], "\"'(["); next++)
            ;
        if (next >= n || !((text[next] >= 'A' && text[next] <= 'Z') ||
                           (text[next] >= '0' && text[next] <= '9')))
            continue;
        if (closed == mark + 1 && text[mark] == '.' && is_abbreviation(text, start, mark))
            continue;
        return closed;
    }
    return n;
}

enum kva_status kva_split_sentences(const char *text, size_t n, struct kva_slice **out,
                                    size_t *count, struct kva_error *err)
{
    struct kva_slice *list = NULL, *grown;
    size_t cap = 0, used = 0;

    for (size_t b = 0; b < n;) {
        size_t e = sentence_end(text, n, b);

        if (used == cap) {
            cap = cap ? 2 * cap : 256;
            grown = kva_realloc(list, cap, sizeof *list);
            if (!grown) {
                free(list);
                return KVA_FAIL(err, KVA_ENOMEM, "sentences: out of memory");
            }
            list = grown;
        }
        list[used++] = (struct kva_slice){b, e};
        b = e + 1;
    }
    *out = list;
    *count = used;
    return KVA_OK;
}

/* Plain text, or the text of {"text": "..."}, as the official downloader writes it. */
static enum kva_status user_essay(const struct kva_task_opts *opts, struct kva_buf *own,
                                  char sha256[65], struct kva_error *err)
{
    struct kva_buf path;
    uint8_t digest[32];
    json_error_t why;
    json_t *root = NULL, *text;
    size_t first = 0;
    enum kva_status rc;

    kva_buf_init(&path, 0);
    KVA_GO(kva_data_find(opts, "essays", "PaulGrahamEssays.json", &path, err));
    KVA_GO(kva_read_file(path.data, (size_t)1 << 30, own, err));
    kva_sha256_of(own->data, own->len, digest);
    kva_hex(digest, sizeof digest, sha256);
    while (first < own->len && in_set(own->data[first], " \t\n\r"))
        first++;
    if (first == own->len || own->data[first] != '{')
        goto out;
    root = json_loadb(own->data, own->len, JSON_ALLOW_NUL, &why);
    text = json_object_get(root, "text");
    if (!json_is_string(text)) {
        rc = KVA_FAIL(err, KVA_EFORMAT, "%s:%d: %s", path.data, root ? 1 : why.line,
                      root ? "no \"text\"" : why.text);
        goto out;
    }
    own->len = 0;
    kva_buf_add(own, json_string_value(text), json_string_length(text));
    rc = kva_buf_status(own, err);
out:
    json_decref(root);
    kva_buf_release(&path);
    return rc;
}

enum kva_status kva_essay_load(const char *haystack, const struct kva_task_opts *opts,
                               struct kva_buf *own, const char **bytes, size_t *n,
                               char sha256[65], struct kva_error *err)
{
    uint8_t digest[32];

    if (strcmp(haystack, "essays") == 0) {
        KVA_TRY(user_essay(opts, own, sha256, err));
        *bytes = own->data;
        *n = own->len;
        return KVA_OK;
    }
    if (strcmp(haystack, "embedded") != 0)
        return kva_carried_load(opts->data_dir, "emerson_essays.txt", own, bytes, n,
                                sha256, err);
    *bytes = kva_embedded_essay;
    *n = strlen(kva_embedded_essay);
    kva_sha256_of(*bytes, *n, digest);
    kva_hex(digest, sizeof digest, sha256);
    return KVA_OK;
}

enum kva_status kva_essay_open(struct kva_essay *essay, const char *haystack,
                               const struct kva_task_opts *opts, struct kva_error *err)
{
    struct kva_buf own;
    const char *bytes;
    size_t n;
    enum kva_status rc;

    *essay = (struct kva_essay){.repeats = strcmp(haystack, "embedded") == 0};
    kva_buf_init(&own, 0);
    kva_buf_init(&essay->text, 0);
    KVA_GO(kva_essay_load(haystack, opts, &own, &bytes, &n, essay->sha256, err));
    kva_squeeze(bytes, n, &essay->text);
    KVA_GO(kva_buf_status(&essay->text, err));
    KVA_GO(kva_split_sentences(essay->text.data, essay->text.len, &essay->sentence,
                               &essay->n, err));
    if (essay->n == 0)
        rc = KVA_FAIL(err, KVA_EFORMAT, "%s: no sentences", haystack);
out:
    kva_buf_release(&own);
    if (rc != KVA_OK)
        kva_essay_release(essay);
    return rc;
}

void kva_essay_release(struct kva_essay *essay)
{
    kva_buf_release(&essay->text);
    free(essay->sentence);
    *essay = (struct kva_essay){0};
}
