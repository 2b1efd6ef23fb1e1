/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_env_row.c - the machine of a run: what is stored of a device, and that a host
 * without one says nothing of any. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "runner/env_row.h"

static const struct kva_device H200 = {.name = "NVIDIA H200",
                                       .major = 9,
                                       .driver = 13010,
                                       .runtime = 12090,
                                       .total_bytes = 150754820096};

static struct kva_env_row row_of(const char *backend, const struct kva_ops *ops)
{
    struct kva_env_row e;
    struct kva_error err = {0};

    assert_int_equal(kva_env_row(backend, ops, 1, &e, &err), KVA_OK);
    return e;
}

static void a_host_has_no_device(void **state)
{
    struct kva_env_row e;
    struct kva_ops *ops;
    json_t *doc;

    (void)state;
    assert_int_equal(kva_ops_open("cpu", "f32", 1, &ops, NULL), KVA_OK);
    assert_int_equal(kva_env_row(NULL, ops, 1, &e, NULL), KVA_OK);
    assert_string_equal(e.row.backend, "cpu");
    assert_null(e.row.gpu_name);
    assert_null(e.row.driver);
    assert_null(e.row.cuda_runtime);
    assert_int_equal(e.row.gpu_count, 0);
    assert_int_equal(e.row.gpu_bytes, 0);
    doc = json_loads(e.detail, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(doc, "isa")), ops->isa);
    assert_null(json_object_get(doc, "device"));
    json_decref(doc);
    kva_ops_close(ops);
}

static void a_device_is_stored_as_it_is(void **state)
{
    const struct kva_ops ops = {.isa = H200.name, .device = &H200};
    const struct kva_env_row e = row_of("cuda", &ops);
    json_t *doc = json_loads(e.detail, 0, NULL), *d = json_object_get(doc, "device");
    char text[200];

    (void)state;
    assert_string_equal(e.row.backend, "cuda");
    assert_string_equal(e.gpu, "NVIDIA H200");
    assert_string_equal(e.driver, "13.1");
    assert_string_equal(e.runtime, "12.9");
    assert_int_equal(e.row.gpu_count, 1);
    assert_int_equal(e.row.gpu_bytes, 150754820096);
    assert_string_equal(json_string_value(json_object_get(d, "capability")), "9.0");
    json_decref(doc);
    kva_device_text(&H200, text, sizeof text);
    assert_string_equal(text,
                        "NVIDIA H200 (9.0), 140.4 GiB, CUDA driver 13.1, runtime 12.9");
}

/* Times compare inside one device under one driver. */
static void another_device_or_driver_is_another_environment(void **state)
{
    struct kva_device other = H200;
    const struct kva_ops ops = {.isa = H200.name, .device = &H200},
                         newer = {.isa = other.name, .device = &other};
    const struct kva_env_row a = row_of("cuda", &ops), b = row_of("cuda", &newer),
                             none = row_of("cuda", NULL);

    (void)state;
    assert_memory_equal(a.row.perf_digest, b.row.perf_digest, 32);
    assert_memory_equal(a.row.digest, b.row.digest, 32);
    assert_memory_not_equal(a.row.perf_digest, none.row.perf_digest, 32);
    assert_null(none.row.gpu_name);
    other.driver = 13020;
    assert_memory_not_equal(a.row.perf_digest, row_of("cuda", &newer).row.perf_digest,
                            32);
    other = H200;
    other.total_bytes /= 2;
    assert_memory_not_equal(a.row.perf_digest, row_of("cuda", &newer).row.perf_digest,
                            32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_has_no_device),
        cmocka_unit_test(a_device_is_stored_as_it_is),
        cmocka_unit_test(another_device_or_driver_is_another_environment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
