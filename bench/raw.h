/* raw.h - executes oneDNN's primitives directly, for comparison with Rille's operators. */
#ifndef RILLE_BENCH_RAW_H
#define RILLE_BENCH_RAW_H

#include "kernels/cpu/base/dnnl.h"
#include "runtime/base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RAW_ARG = 4 };

struct raw {
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    int narg;
    dnnl_exec_arg_t arg[RAW_ARG];
    void *own[RAW_ARG]; /* memory that raw_close() frees */
};

static inline void
raw_check(bool done)
{
    if (done) return;
    fprintf(stderr, "oneDNN: %s\n", err_text());
    exit(1);
}

/* Allocates an array of numbers from 0 to 1. The numbers differ, because zeros or equal numbers need less power
 * and run faster. */
static inline void *
raw_numbers(dnnl_data_type_t dtype, size_t bytes)
{
    char *p = aligned_alloc(64, bytes / 64 * 64 + 64);
    raw_check(p);
    memset(p, 0, bytes);
    size_t size = dtype == dnnl_bf16 ? sizeof(uint16_t) : sizeof(float);
    for (size_t i = 0; i < bytes / size; i++) {
        float x = (float)((uint32_t)i * 2654435761u >> 16) / 65536.0f;
        /* stores the upper half of the float, which has the same value in bf16 */
        memcpy(p + i * size, (char *)&x + sizeof x - size, size);
    }
    return p;
}

/* Adds an argument in the layout that the primitive needs. data: the argument's numbers; if it is NULL, allocates
 * random ones. */
static inline void
raw_add(struct raw *r, const_dnnl_primitive_desc_t pd, dnnl_engine_t engine, int arg, dnnl_data_type_t dtype,
        void *data)
{
    int i = r->narg++;
    bool scratch = arg == DNNL_ARG_SCRATCHPAD;
    dnnl_query_t what = scratch ? dnnl_query_scratchpad_md : dnnl_query_exec_arg_md;
    int which = scratch ? 0 : arg;
    size_t bytes = dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, what, which));
    if (!data) data = r->own[i] = raw_numbers(dtype, bytes);
    r->arg[i].arg = arg;
    raw_check(!dnnl_memory_create(&r->arg[i].memory, dnnl_primitive_desc_query_md(pd, what, which), engine, data));
}

/* Creates the primitive of an operation with narg arguments. data: the arguments' numbers; if it is NULL,
 * allocates random ones. */
static inline struct raw
raw_open(const struct prim_op *op, const struct prim_op *forward, int threads, int narg, const int *arg,
         void *const *data)
{
    struct raw r = {0};
    dnnl_primitive_desc_t pd;
    dnnl_engine_t engine;
    raw_check(!prim_describe(op, forward, threads, &pd));
    raw_check(!dnnl_primitive_desc_query(pd, dnnl_query_engine, 0, &engine));
    raw_check(!dnnl_stream_create(&r.stream, engine, dnnl_stream_default_flags));
    raw_check(!dnnl_primitive_create(&r.primitive, pd));
    for (int i = 0; i < narg; i++) raw_add(&r, pd, engine, arg[i], op->src.dtype, data ? data[i] : NULL);
    raw_add(&r, pd, engine, DNNL_ARG_SCRATCHPAD, dnnl_f32, NULL);
    dnnl_primitive_desc_destroy(pd);
    return r;
}

/* Creates the primitive of a matrix product. packed: oneDNN chooses the layout of b, which makes the product
 * fastest. */
static inline struct raw
raw_matmul(const struct prim_layout *a, const struct prim_layout *b, const struct prim_layout *c, bool packed,
           int threads, void *const *data)
{
    struct prim_op op = {.kind = PRIM_MATMUL, .src = *a, .weights = *b, .dst = *c};
    if (packed) op.weights.tag = dnnl_format_tag_any;
    return raw_open(&op, NULL, threads, 3, (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, data);
}

/* Describes a matrix; a transposed one is stored by columns. */
static inline struct prim_layout
raw_matrix(dnnl_data_type_t dtype, int64_t rows, int64_t columns, bool transposed)
{
    return (struct prim_layout){dtype, 2, {rows, columns}, .tag = transposed ? dnnl_ba : dnnl_ab};
}

static inline void
raw_run(void *arg)
{
    const struct raw *r = arg;
    raw_check(!dnnl_primitive_execute(r->primitive, r->stream, r->narg, r->arg));
}

static inline void
raw_close(struct raw *r)
{
    for (int i = 0; i < r->narg; i++) {
        dnnl_memory_destroy(r->arg[i].memory);
        free(r->own[i]);
    }
    dnnl_primitive_destroy(r->primitive);
    dnnl_stream_destroy(r->stream);
}

#endif
