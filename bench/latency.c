/* latency.c - times the smallest operations from C, and one large product through the whole system.
 *
 * An operator call adds a node. Reading the node's result looks up the cached plan and runs it. So the time of a
 * call and a read is the overhead of a step. A product of two 1024 x 1024 matrices is computed in the same way, in
 * turns with oneDNN called directly on the same thread. Prints "what, least, median" in microseconds; for the
 * product, in Gflop/s. */
#include "bench/clock.h"
#include "bench/raw.h"
#include "rille.h"
#include "runtime/base/base.h"

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

/* Creates oneDNN's primitive for the product. packed: the second operand has the layout that oneDNN prefers, which
 * gives the core's greatest rate. */
static struct raw
raw_product(bool packed)
{
    struct prim_layout d = raw_matrix(dnnl_f32, SIZE, SIZE, false);
    return raw_matmul(&d, &d, &d, packed, 1, NULL);
}

static double
raw_product_us(struct raw *r)
{
    double begin = now_us();
    raw_run(r);
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
    struct raw raw = raw_product(false), packed = raw_product(true);
    double ours_us[ROUNDS], raw_us[ROUNDS], packed_us[ROUNDS];
    struct rille_tensor *x = ones(2, (int64_t[]){SIZE, SIZE}), *y = ones(2, (int64_t[]){SIZE, SIZE});
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
