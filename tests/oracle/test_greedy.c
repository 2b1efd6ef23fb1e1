/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_greedy.c - greedy answers of SmolLM2 in the default numerics (f32, f16 cache)
 * against the reference implementation. A prompt whose smallest margin is above 0.02 must
 * agree in all 24 tokens, another one up to its first step below that. Prompts are
 * prefilled one by one and then decode as one wave, the way cells do. */
#include "tests/oracle/oracle_test.h"

enum { STEPS = 24, MAX_PROMPTS = 24 };
#define MARGIN 0.02

static int trusted_steps(const json_t *row)
{
    const json_t *margins = json_object_get(row, "margins");

    if (json_real_value(json_object_get(row, "min_margin")) > MARGIN)
        return STEPS;
    for (int t = 0; t < STEPS; t++)
        if (json_real_value(json_array_get(margins, (size_t)t)) <= MARGIN)
            return t;
    return STEPS;
}

static void greedy_answers_of_smollm2_agree_with_the_reference(void **state)
{
    const char *path = smollm2_path();
    json_t *all = path ? oracle_rows("greedy.jsonl") : NULL;
    struct kva_session *s[MAX_PROMPTS];
    struct kva_row rows[MAX_PROMPTS];
    const json_t *row[MAX_PROMPTS];
    struct kva_model *m;
    int n = 0, compared = 0;

    (void)state;
    if (!all)
        skip();
    m = open_model(path, "f32");
    for (size_t i = 0; i < json_array_size(all) && n < MAX_PROMPTS; i++) {
        int n_ids;
        int32_t *ids =
            json_ids(json_object_get(json_array_get(all, i), "prompt_ids"), &n_ids);

        row[n] = json_array_get(all, i);
        s[n] = open_session(m, KVA_F16, 0);
        OK(kva_prefill(m, s[n], ids, n_ids, 0, &rows[n], err));
        n++;
        free(ids);
    }
    assert_int_equal(n, MAX_PROMPTS);
    for (int t = 0; t < STEPS; t++) {
        for (int i = 0; i < n; i++) {
            int32_t want = (int32_t)json_integer_value(
                json_array_get(json_object_get(row[i], "gen_ids"), (size_t)t));

            if (t < trusted_steps(row[i])) {
                if (rows[i].argmax != want)
                    fail_msg("%s, step %d: %d, expected %d",
                             json_string_value(json_object_get(row[i], "name")), t,
                             rows[i].argmax, want);
                compared++;
            }
            rows[i] = (struct kva_row){
                .session = s[i], .token = want, .logits = true, .target = -1};
        }
        OK(kva_step(m, rows, n, NULL, err));
    }
    printf("%d prompts, %d tokens equal\n", n, compared);
    for (int i = 0; i < n; i++)
        kva_session_free(s[i]);
    json_decref(all);
    kva_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_answers_of_smollm2_agree_with_the_reference),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
