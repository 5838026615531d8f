/* latency.c - times the smallest operations from C, and one large product through the whole system.
 *
 * An operator call adds a node. Reading the node's result looks up the cached plan and runs it. So its time is the
 * overhead of a step. A product of two 1024 x 1024 matrices takes the same path, in turns with oneDNN called
 * directly on the same thread. Prints "what, least, median", microseconds; Gflop/s for the product. */
#include "bench/clock.h"
#include "rille.h"
#include "runtime/base/base.h"

#include <dnnl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 15, CALLS = 2000, SIZE = 1024, WARM = 3 };

static struct rille_session *session;

static void
must(bool good)
{
    if (good) return;
    fprintf(stderr, "latency: %s\n", rille_error());
    exit(1);
}

static struct rille_tensor *
ones(int ndim, const int64_t *shape)
{
    struct rille_tensor *t;
    must(!rille_create(session, rille_op_find("ones"), 0, NULL, ndim, shape, NULL, NULL, &t));
    must(!rille_eval(session, 1, &t));
    return t;
}

static struct rille_tensor *
call(const char *op, struct rille_tensor *x, struct rille_tensor *y)
{
    struct rille_tensor *result;
    struct rille_arg arg[2] = {{.kind = RILLE_ARG_TENSOR, .tensor = x}, {.kind = RILLE_ARG_TENSOR, .tensor = y}};
    must(!rille_call(session, rille_op_find(op), 2, arg, 0, NULL, &result));
    return result;
}

/* ---- small operations ---- */

static void
add(struct rille_tensor *x, struct rille_tensor *y)
{
    struct rille_tensor *z = call("add", x, y);
    rille_tensor_free(&z);
}

static void
add_and_read(struct rille_tensor *x, struct rille_tensor *y)
{
    float value;
    struct rille_tensor *z = call("add", x, y);
    must(!rille_tensor_read(z, &value));
    rille_tensor_free(&z);
}

static void
time_calls(const char *what, void (*f)(struct rille_tensor *x, struct rille_tensor *y))
{
    double time_us[ROUNDS + 1];
    struct rille_tensor *x = ones(1, (int64_t[]){1}), *y = ones(1, (int64_t[]){1});
    for (int round = 0; round <= ROUNDS; round++) { /* the first round warms up */
        double begin = now_us();
        for (int i = 0; i < CALLS; i++) f(x, y);
        time_us[round] = (now_us() - begin) / CALLS;
    }
    qsort(time_us + 1, ROUNDS, sizeof *time_us, by_size);
    printf("%s\t%.2f\t%.2f\n", what, time_us[1], time_us[1 + ROUNDS / 2]);
    rille_tensor_free(&x);
    rille_tensor_free(&y);
}

/* ---- one large product ---- */

struct raw {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arg[3];
};

static void
check(dnnl_status_t status)
{
    if (status == dnnl_success) return;
    fprintf(stderr, "latency: oneDNN fails with status %d\n", (int)status);
    exit(1);
}

static void
add_memory(struct raw *r, int i, const dnnl_memory_desc_t *d)
{
    float *data = aligned_alloc(64, SIZE * SIZE * sizeof *data);
    for (int k = 0; k < SIZE * SIZE; k++) data[k] = 1;
    r->arg[i].arg = (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}[i];
    check(dnnl_memory_create(&r->arg[i].memory, d, r->engine, data));
}

/* Makes the product in oneDNN. packed: stores the second operand in oneDNN's preferred layout, which gives the
 * core's best rate. */
static void
raw_open(struct raw *r, bool packed)
{
    dnnl_memory_desc_t d, weights;
    dnnl_matmul_desc_t op;
    dnnl_primitive_desc_t pd;
    check(dnnl_engine_create(&r->engine, dnnl_cpu, 0));
    check(dnnl_stream_create(&r->stream, r->engine, dnnl_stream_default_flags));
    check(dnnl_memory_desc_init_by_tag(&d, 2, (dnnl_dims_t){SIZE, SIZE}, dnnl_f32, dnnl_ab));
    check(dnnl_memory_desc_init_by_tag(&weights, 2, (dnnl_dims_t){SIZE, SIZE}, dnnl_f32,
                                       packed ? dnnl_format_tag_any : dnnl_ab));
    check(dnnl_matmul_desc_init(&op, &d, &weights, NULL, &d));
    check(dnnl_primitive_desc_create(&pd, &op, NULL, r->engine, NULL));
    check(dnnl_primitive_create(&r->primitive, pd));
    add_memory(r, 0, &d);
    add_memory(r, 1, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0));
    add_memory(r, 2, &d);
    check(dnnl_primitive_desc_destroy(pd));
}

static void
raw_close(struct raw *r)
{
    for (int i = 0; i < 3; i++) {
        void *data;
        check(dnnl_memory_get_data_handle(r->arg[i].memory, &data));
        check(dnnl_memory_destroy(r->arg[i].memory));
        free(data);
    }
    check(dnnl_primitive_destroy(r->primitive));
    check(dnnl_stream_destroy(r->stream));
    check(dnnl_engine_destroy(r->engine));
}

static double
raw_product_us(struct raw *r)
{
    double begin = now_us();
    check(dnnl_primitive_execute(r->primitive, r->stream, 3, r->arg));
    return now_us() - begin;
}

static double
our_product_us(struct rille_tensor *x, struct rille_tensor *y)
{
    double begin = now_us();
    struct rille_tensor *z = call("matmul", x, y);
    must(!rille_eval(session, 1, &z));
    rille_tensor_free(&z);
    return now_us() - begin;
}

static void
tell_rate(const char *what, double *time_us)
{
    double flop = 2.0 * SIZE * SIZE * SIZE;
    qsort(time_us, ROUNDS, sizeof *time_us, by_size);
    printf("%s\t%.0f\t%.0f\n", what, flop / time_us[0] / 1e3, flop / time_us[ROUNDS / 2] / 1e3);
}

static void
time_product(void)
{
    struct raw raw, packed;
    double ours_us[ROUNDS], raw_us[ROUNDS], packed_us[ROUNDS];
    struct rille_tensor *x = ones(2, (int64_t[]){SIZE, SIZE}), *y = ones(2, (int64_t[]){SIZE, SIZE});
    raw_open(&raw, false);
    raw_open(&packed, true);
    for (int round = -WARM; round < ROUNDS; round++) {
        int k = MAX(round, 0);
        ours_us[k] = our_product_us(x, y);
        raw_us[k] = raw_product_us(&raw);
        packed_us[k] = raw_product_us(&packed);
    }
    tell_rate("Gflop/s, matmul 1024^3 on one thread", ours_us);
    tell_rate("Gflop/s, the same in oneDNN, called directly", raw_us);
    tell_rate("Gflop/s, the same, packed (limit)", packed_us);
    raw_close(&raw);
    raw_close(&packed);
    rille_tensor_free(&x);
    rille_tensor_free(&y);
}

int
main(void)
{
    must(!rille_open(&(struct rille_options){.devices = "cpu:1", .threads = 1}, &session));
    omp_set_num_threads(1);
    time_calls("C: x + y, read", add_and_read);
    time_calls("C: x + y", add);
    time_product();
    rille_close(&session);
    return 0;
}
