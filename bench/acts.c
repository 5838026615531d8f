/* acts.c - overhead of an act in addition to its kernel, and cost of a hop (message) between two threads, in
 * microseconds.
 *
 * Act: a compiled chain of small kernels runs on one device. The overhead is the time of a run minus the time of
 * the same kernels, called in sequence.
 *
 * Hop: a chain of moves between two devices on two threads has a message and an act per hop. The limit is the time
 * of three messages between two threads on a separate bus.
 *
 * Prints "what, least, median" of ROUNDS runs. */
#include "actors/act/bus/bus.h"
#include "actors/plan/model/plan.h"
#include "actors/session/step/compiled.h"
#include "bench/clock.h"
#include "rille.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 3000, ACTS = 100 };

static struct rille_session *session;

static void
must(int status)
{
    if (!status) return;
    fprintf(stderr, "acts: %s\n", rille_error());
    exit(1);
}

static void
print_row(const char *what, double least, double median)
{
    printf("%s\t%.3f\t%.3f\n", what, least / ACTS, median / ACTS);
    fflush(stdout);
}

static void
tell(const char *what, double *us)
{
    qsort(us, ROUNDS, sizeof *us, by_size);
    print_row(what, us[0], us[ROUNDS / 2]);
}

static const struct rille_layout *
layout_on(int device)
{
    int32_t rank = device, one = 1;
    const char *sbp = "B";
    const struct rille_place *p;
    const struct rille_layout *l;
    must(rille_place(session, "cpu", 1, &one, &rank, &p));
    must(rille_layout(session, p, 1, &sbp, NULL, -1, &l));
    return l;
}

static struct rille_tensor *
flipped(struct rille_tensor *x, int i)
{
    struct rille_tensor *y;
    struct rille_arg arg = {.kind = RILLE_ARG_TENSOR, .tensor = x};
    struct rille_attr axes = {.name = "axes", .kind = RILLE_INTS, .n = 1, .list = (int64_t[]){0}};
    (void)i;
    must(rille_call(session, rille_op_find("flip"), 1, &arg, 1, &axes, &y));
    return y;
}

static struct rille_tensor *
moved(struct rille_tensor *x, int i)
{
    struct rille_tensor *y;
    must(rille_tensor_to_global(x, layout_on(1 - i % 2), &y));
    return y;
}

/* Compiles a chain of ACTS operators; x is the input of the first operator. */
static struct rille_graph *
chain(struct rille_tensor *x, struct rille_tensor *(*step)(struct rille_tensor *x, int i))
{
    struct rille_graph_options o = {0};
    struct rille_tensor *t, *next;
    struct rille_graph *g;
    must(rille_trace_begin(session, &o, 1, &x, &t));
    for (int i = 0; i < ACTS; i++, t = next) {
        next = step(t, i);
        rille_tensor_free(&t);
    }
    must(rille_trace_end(session, 1, &t, &g));
    rille_tensor_free(&t);
    if (g->runner->plan->ntask != ACTS) fprintf(stderr, "acts: %d tasks\n", (int)g->runner->plan->ntask);
    return g;
}

static double
run_us(struct rille_graph *g, struct rille_tensor *x)
{
    struct rille_tensor *y;
    double begin = now_us();
    must(rille_graph_run(g, 1, &x, &y));
    double us = now_us() - begin;
    rille_tensor_free(&y);
    return us;
}

static double
kernels_us(const struct plan *p)
{
    static _Alignas(64) char bytes[4][4096];
    void *in = bytes[0], *out = bytes[1];
    double begin = now_us();
    for (int32_t i = 0; i < p->ntask; i++) {
        struct finding find = {0};
        must(exec_enqueue(p->task[i].exec, &in, &out, bytes[2], NULL, 0, &find));
    }
    return now_us() - begin;
}

static struct rille_tensor *
open_with(const char *devices, int threads)
{
    struct rille_tensor *x;
    float value[4] = {1, 2, 3, 4};
    must(rille_open(&(struct rille_options){.devices = devices, .threads = threads}, &session));
    must(rille_tensor_from_host(session, "f32", 1, (int64_t[]){4}, value, layout_on(0), &x));
    return x;
}

static void
time_acts(void)
{
    double ours[ROUNDS], kernels[ROUNDS];
    struct rille_tensor *x = open_with("cpu:1", 1);
    struct rille_graph *g = chain(x, flipped);
    for (int i = -10; i < ROUNDS; i++) {
        int k = i < 0 ? 0 : i;
        ours[k] = run_us(g, x);
        kernels[k] = kernels_us(g->runner->plan);
    }
    tell("C: an act of a chain", ours);
    tell("C: its kernel, called directly", kernels);
    print_row("C: dispatch, what is between (limit 0.100)", ours[0] - kernels[0],
              ours[ROUNDS / 2] - kernels[ROUNDS / 2]);
    rille_graph_free(&g);
    rille_tensor_free(&x);
    rille_close(&session);
}

static void
time_hops(void)
{
    double ours[ROUNDS];
    struct rille_tensor *x = open_with("cpu:2", 2);
    struct rille_graph *g = chain(x, moved);
    for (int i = -10; i < ROUNDS; i++) ours[i < 0 ? 0 : i] = run_us(g, x);
    tell("C: a hop between threads, its act included", ours);
    rille_graph_free(&g);
    rille_tensor_free(&x);
    rille_close(&session);
}

/* ---- messages between two threads, without a plan ---- */

static struct bus *bus;

static struct msg
pass(int self, struct msg m, bool first)
{
    while (!first && !bus_recv(bus, (uint32_t)self, &m, 1, BUS_WAIT)) continue;
    m.from = addr_of(0, self);
    m.to = addr_of(0, 1 - self);
    if (bus_send(bus, &m)) exit(1);
    return m;
}

static void *
answer(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS * ACTS / 2; i++) pass(1, (struct msg){0}, false);
    return NULL;
}

/* Sends ACTS messages one after the other between two threads, alternately in both directions. */
static void
time_messages(void)
{
    double us[ROUNDS];
    pthread_t thread;
    struct bus_options o = {.nthread = 2, .spin_ns = 50000};
    must(bus_zmq.open(&o, &bus) || bus_zmq.grow(bus, 2));
    pthread_create(&thread, NULL, answer, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        double begin = now_us();
        struct msg m = {.kind = MSG_FULL};
        for (int k = 0; k < ACTS / 2; k++) {
            pass(0, m, true);
            while (!bus_recv(bus, 0, &m, 1, BUS_WAIT)) continue;
        }
        us[i] = 3 * (now_us() - begin);
    }
    pthread_join(thread, NULL);
    bus_zmq.close(&bus);
    tell("C: three messages between threads (limit of a hop)", us);
}

int
main(void)
{
    time_acts();
    time_hops();
    time_messages();
    return 0;
}
