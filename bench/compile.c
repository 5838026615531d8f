/* compile.c - time and memory from a traced program to a proved plan, and size of the plan.
 *
 *   compile [NAME]      all rows, or those whose name begins with NAME
 *
 * Each row runs in a separate process, so that its peak memory can be measured. Columns:
 *
 *   seconds   time of rille_trace_end on one core, which collects the program, makes and proves the plan, and creates
 *             its actors; for a plan partition, time to make and prove the plan
 *   proof     time of a second proof
 *   MB        peak memory of the process when the plan is finished
 *   B/task    bytes of the plan per task
 *   arena     KiB of registers on the fullest device
 *   /live     arena divided by the peak bytes in use at once (live.h) */
#include "actors/plan/compile.h"
#include "actors/plan/model/plan.h"
#include "actors/plan/model/program_bytes.h"
#include "actors/plan/verify/verify.h"
#include "actors/plan/verify/verify_program.h"
#include "actors/session/step/compiled.h"
#include "t/lib/plan/live.h"
#include "t/lib/plan/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WIDE = 8 };

struct bench {
    struct net net;
    /* n: number of operators or of layers; ranks: number of devices; pieces: number of micro-batches */
    int n, ranks, pieces;
    /* Number of devices in the trace. It is 4 on a mesh of two axes, 2 if only one plan partition is compiled, and
     * `ranks` otherwise. */
    int cut;
    struct rille_tensor *w;
};

/* ---- programs: each consists of a function that creates initial values and a function to trace ---- */

static void
data_inputs(struct bench *b)
{
    int64_t rows = 2ll * b->ranks * b->pieces;
    const struct rille_layout *split = net_layout(&b->net, 0, b->cut, "S(0)");
    b->net.x = net_floats(&b->net, rows, WIDE, split);
    net_labels(&b->net, rows, split);
}

static void
chain_before(struct bench *b)
{
    data_inputs(b);
    b->w = net_floats(&b->net, WIDE, WIDE, net_layout(&b->net, 0, b->cut, "B"));
}

static struct rille_tensor *
chain(struct bench *b, struct rille_tensor *x, struct rille_tensor *y)
{
    (void)y;
    for (int i = 0; i < b->n; i++) net_call(&b->net, "matmul", &x, b->w);
    return x;
}

/* Traces n products that do not depend on each other: the operand of product i is i times x. Adds their results in
 * pairs. */
static struct rille_tensor *
wide(struct bench *b, struct rille_tensor *x, struct rille_tensor *y)
{
    struct rille_tensor **all = malloc(sizeof *all * (size_t)b->n);
    (void)y;
    for (int i = 0; i < b->n; i++) {
        struct rille_arg arg[2] = {{.kind = RILLE_ARG_TENSOR, .tensor = x}, {.kind = RILLE_ARG_FLOAT, .f = i}};
        must(rille_call(b->net.s, rille_op_find("mul"), 2, arg, 0, NULL, &all[i]), "mul");
        net_call(&b->net, "matmul", &all[i], b->w);
    }
    for (int n = b->n; n > 1; n = (n + 1) / 2)
        for (int i = 0; i < n / 2; i++) {
            struct rille_tensor *sum = all[2 * i];
            net_call(&b->net, "add", &sum, all[2 * i + 1]);
            rille_tensor_free(&all[2 * i + 1]);
            all[i] = sum;
            if (i == n / 2 - 1 && n % 2) all[n / 2] = all[n - 1];
        }
    rille_tensor_free(&x);
    x = all[0];
    free(all);
    return x;
}

static void
dp_before(struct bench *b)
{
    data_inputs(b);
    for (int i = 0; i < b->n; i++) {
        net_param(&b->net, WIDE, WIDE, net_layout(&b->net, 0, b->cut, "B"));
        net_param(&b->net, 1, WIDE, net_layout(&b->net, 0, b->cut, "B"));
    }
}

static struct rille_tensor *
dp(struct bench *b, struct rille_tensor *x, struct rille_tensor *y)
{
    for (int i = 0; i < b->n; i++) {
        net_call(&b->net, "matmul", &x, b->net.param[2 * i]);
        net_call(&b->net, "add", &x, b->net.param[2 * i + 1]);
        net_call(&b->net, "relu", &x, NULL);
    }
    net_call(&b->net, "cross_entropy", &x, y);
    net_train(&b->net, x);
    return x;
}

/* Traces pairs of layers; the weight of the first is split by columns, that of the second by rows. */
static void
tp_before(struct bench *b)
{
    data_inputs(b);
    must(rille_tensor_relayout(b->net.x, net_layout(&b->net, 0, b->cut, "B")), "batch");
    must(rille_tensor_relayout(b->net.y, net_layout(&b->net, 0, b->cut, "B")), "labels");
    for (int i = 0; i < b->n; i++) {
        net_param(&b->net, WIDE, 4 * b->ranks, net_layout(&b->net, 0, b->cut, "S(1)"));
        net_param(&b->net, 4 * b->ranks, WIDE, net_layout(&b->net, 0, b->cut, "S(0)"));
    }
}

static struct rille_tensor *
tp(struct bench *b, struct rille_tensor *x, struct rille_tensor *y)
{
    for (int i = 0; i < b->n; i++) {
        net_call(&b->net, "matmul", &x, b->net.param[2 * i]);
        net_call(&b->net, "gelu", &x, NULL);
        net_call(&b->net, "matmul", &x, b->net.param[2 * i + 1]);
        net_move(&x, net_layout(&b->net, 0, b->cut, "B"));
    }
    net_call(&b->net, "cross_entropy", &x, y);
    net_train(&b->net, x);
    return x;
}

/* Traces pairs of layers on a mesh of 2 x 2: the first axis splits the batch, the second splits the layers'
 * weights. */
static const struct rille_layout *
layout_of(struct bench *b, const char *data, const char *layer)
{
    int32_t rank[4] = {0, 1, 2, 3}, axis[2] = {2, 2};
    const char *sbp[2] = {data, layer};
    const struct rille_place *p;
    const struct rille_layout *l;
    must(rille_place(b->net.s, "cpu", 2, axis, rank, &p), "placement");
    must(rille_layout(b->net.s, p, 2, sbp, NULL, -1, &l), "layout");
    return l;
}

static void
grid_before(struct bench *b)
{
    enum { HIDDEN = 32 };
    data_inputs(b);
    must(rille_tensor_relayout(b->net.x, layout_of(b, "S(0)", "B")), "batch");
    must(rille_tensor_relayout(b->net.y, layout_of(b, "S(0)", "B")), "labels");
    for (int i = 0; i < b->n; i++) {
        net_param(&b->net, WIDE, HIDDEN, layout_of(b, "B", "S(1)"));
        net_param(&b->net, HIDDEN, WIDE, layout_of(b, "B", "S(0)"));
    }
}

static struct rille_tensor *
grid(struct bench *b, struct rille_tensor *x, struct rille_tensor *y)
{
    for (int i = 0; i < b->n; i++) {
        net_call(&b->net, "matmul", &x, b->net.param[2 * i]);
        net_call(&b->net, "gelu", &x, NULL);
        net_call(&b->net, "matmul", &x, b->net.param[2 * i + 1]);
        net_move(&x, layout_of(b, "S(0)", "B"));
    }
    net_call(&b->net, "cross_entropy", &x, y);
    net_train(&b->net, x);
    return x;
}

/* Traces a pipeline with n layers per stage and one device per stage. */
static void
pp_before(struct bench *b)
{
    int64_t rows = 2 * b->pieces;
    b->net.x = net_floats(&b->net, rows, WIDE, net_layout(&b->net, 0, 1, "B"));
    net_labels(&b->net, rows, net_layout(&b->net, b->ranks - 1, 1, "B"));
    for (int i = 0; i < b->n * b->ranks; i++) net_param(&b->net, WIDE, WIDE, net_layout(&b->net, i / b->n, 1, "B"));
}

static struct rille_tensor *
pp(struct bench *b, struct rille_tensor *x, struct rille_tensor *y)
{
    for (int i = 0; i < b->n * b->ranks; i++) {
        if (i && i % b->n == 0) net_move(&x, net_layout(&b->net, i / b->n, 1, "B"));
        net_call(&b->net, "matmul", &x, b->net.param[i]);
        net_call(&b->net, "relu", &x, NULL);
    }
    net_call(&b->net, "cross_entropy", &x, y);
    net_train(&b->net, x);
    return x;
}

static void
move_before(struct bench *b)
{
    b->net.x = net_floats(&b->net, 2 * b->ranks, b->ranks, net_layout(&b->net, 0, b->cut, "S(0)"));
    b->net.y = net_floats(&b->net, 1, 1, net_layout(&b->net, 0, b->cut, "B"));
}

static struct rille_tensor *
all_to_all(struct bench *b, struct rille_tensor *x, struct rille_tensor *y)
{
    (void)y;
    net_move(&x, net_layout(&b->net, 0, b->cut, "S(1)"));
    return x;
}

static struct rille_tensor *
all_reduce(struct bench *b, struct rille_tensor *x, struct rille_tensor *y)
{
    (void)y;
    struct rille_tensor *t = x;
    struct rille_attr axis = {.name = "axis", .kind = RILLE_INTS, .n = 1, .list = (int64_t[]){0}};
    struct rille_arg arg = {.kind = RILLE_ARG_TENSOR, .tensor = t};
    must(rille_call(b->net.s, rille_op_find("sum"), 1, &arg, 1, &axis, &x), "sum");
    rille_tensor_free(&t);
    net_move(&x, net_layout(&b->net, 0, b->cut, "B"));
    return x;
}

/* ---- the rows of the table ---- */

typedef struct rille_tensor *program_fn(struct bench *b, struct rille_tensor *x, struct rille_tensor *y);

static const struct row {
    const char *name;
    void (*before)(struct bench *b);
    program_fn *program;
    int n, ranks, pieces;
    int host;  /* number of ranks per host if only one plan partition is compiled; 0: the complete plan is compiled */
    int group; /* length of the second mesh axis; 0: the mesh has one axis */
} row[] = {
    {"chain", chain_before, chain, 10000, 1, 1, 0, 0},
    {"chain", chain_before, chain, 10000, 8, 1, 0, 0},
    {"chain", chain_before, chain, 10000, 64, 1, 0, 0},
    {"chain", chain_before, chain, 100, 1024, 1, 0, 0},
    {"wide", chain_before, wide, 10000, 8, 1, 0, 0},
    {"wide", chain_before, wide, 4000, 64, 1, 0, 0},
    {"dp", dp_before, dp, 200, 1, 1, 0, 0},
    {"dp", dp_before, dp, 200, 8, 1, 0, 0},
    {"dp", dp_before, dp, 100, 16, 1, 0, 0},
    {"dp", dp_before, dp, 10, 256, 1, 0, 0},
    {"dp", dp_before, dp, 2, 1024, 1, 0, 0},
    {"dp", dp_before, dp, 900, 64, 1, 0, 0},
    {"dp, 8 pieces", dp_before, dp, 200, 8, 8, 0, 0},
    {"dp, 8 pieces", dp_before, dp, 160, 64, 8, 0, 0},
    {"tp", tp_before, tp, 100, 8, 1, 0, 0},
    {"tp", tp_before, tp, 5, 128, 1, 0, 0},
    {"tp", tp_before, tp, 1, 1024, 1, 0, 0},
    {"pp, 8 pieces", pp_before, pp, 4, 4, 8, 0, 0},
    {"pp, 64 pieces", pp_before, pp, 4, 64, 64, 0, 0},
    {"pp, 8 pieces", pp_before, pp, 400, 64, 8, 0, 0},
    {"pp, 8 pieces", pp_before, pp, 3000, 8, 8, 0, 0},
    {"all-to-all", move_before, all_to_all, 1, 256, 1, 0, 0},
    {"all-to-all", move_before, all_to_all, 1, 1024, 1, 0, 0},
    {"all-reduce", move_before, all_reduce, 1, 256, 1, 0, 0},
    {"all-reduce", move_before, all_reduce, 1, 1024, 1, 0, 0},
    {"chain, part", chain_before, chain, 10000, 1024, 1, 1, 0},
    {"dp, part", dp_before, dp, 900, 1024, 1, 1, 0},
    {"dp, part", dp_before, dp, 900, 1024, 1, 8, 0},
    {"tp, part", tp_before, tp, 10, 64, 1, 1, 0},
    {"tp, part", tp_before, tp, 10, 256, 1, 1, 0},
    {"tp, part", tp_before, tp, 10, 1024, 1, 1, 0},
    {"tp, part", tp_before, tp, 4, 1024, 1, 8, 0},
    {"dp x tp 8, part", grid_before, grid, 660, 1024, 1, 1, 8},
    {"dp x tp 8, part", grid_before, grid, 660, 1024, 1, 8, 8},
};

static double
core_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static int64_t
control_edges(const struct plan *p)
{
    int64_t n = 0;
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nin; k++) {
            const struct in_port *in = &p->task[i].in[k];
            n += p->task[in->task].out[in->out].control;
        }
    return n;
}

/* Returns the peak memory of this program, MB. Does not use getrusage(), which would include the program that this
 * process executed before. */
static long
most_mb(void)
{
    char line[200];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) sscanf(line, "VmHWM: %ld kB", &kib);
    if (f) fclose(f);
    return kib / 1024;
}

/* Returns the device with the largest arena of registers. */
static int32_t
fullest(const struct plan *p)
{
    int32_t d = 0;
    for (int32_t i = 0; i < p->ndevice; i++)
        if (p->device[i].scratch > p->device[d].scratch) d = i;
    return d;
}

static void
tell(const struct row *r, const struct plan *p, double seconds)
{
    int32_t d = fullest(p);
    long mb = most_mb();
    int64_t arena = p->device[d].scratch, live = live_most(p, d);
    double begin = core_seconds();
    if (plan_verify(p)) exit(1);
    double proof = core_seconds() - begin;
    printf("%-15s %6d %6d %8d %9.3f %7.3f %7ld %8.2f %8lld %10.1f %6.3f %9.2f\n", r->name,
           r->host ? (int)p->program->nnode : r->n, r->ranks, (int)p->ntask, seconds, proof, mb,
           1e6 * seconds / p->ntask, (long long)(p->arena.used_bytes / (size_t)p->ntask), (double)arena / 1024,
           live > 0 ? (double)arena / (double)live : 1, (double)control_edges(p) / p->ntask);
    fflush(stdout);
}

/* ---- compiling one plan partition ---- */

/* Returns layout l on a larger mesh. */
static const struct layout *
widen(struct atlas *at, const struct layout *l, const struct place *p)
{
    const struct layout *wide;
    if (layout_new(at, p, l->sbp, l->order, &wide)) exit(1);
    return wide;
}

static const struct layout *const *
widen_all(struct arena *a, struct atlas *at, const struct layout *const *l, int n, const struct place *p)
{
    const struct layout **wide = ARENA_ARRAY(a, const struct layout *, n + 1);
    for (int i = 0; i < n; i++) wide[i] = l[i] ? widen(at, l[i], p) : NULL;
    return wide;
}

/* Rewrites a program that was traced on two ranks into a program on many ranks. */
static void
widen_program(struct program *g, struct atlas *at, int32_t ranks, int32_t group)
{
    int32_t axis[2] = {group ? ranks / group : ranks, group};
    const struct place *p;
    int32_t *rank = malloc(sizeof *rank * (size_t)ranks);
    for (int32_t i = 0; i < ranks; i++) rank[i] = i;
    if (place_new(at, DEV_CPU, group ? 2 : 1, axis, rank, &p)) exit(1);
    free(rank);
    for (int32_t i = 0; i < g->nleaf; i++) g->leaf[i].layout = widen(at, g->leaf[i].layout, p);
    for (int32_t i = 0; i < g->nnode; i++) {
        struct prog_node *n = &g->node[i];
        n->want = widen_all(&g->arena, at, n->want, n->nin, p);
        n->layout = widen_all(&g->arena, at, n->layout, n->nout, p);
    }
}

static void
must_plan(int status)
{
    if (!status) return;
    printf("%s\n", rille_error());
    exit(1);
}

/* Compiles the plan partition of one host: the host of rank `ranks / 2`, if each host has `host` ranks. The
 * program is read from bytes, because this process has traced nothing. */
static void
run_part(const struct row *r, const char *bytes, size_t n)
{
    struct atlas *at = atlas_new();
    struct program *g;
    struct plan *p;
    struct plan_map map = {.nrange = r->ranks / r->host, .nslot = MIN(r->host, 8)};
    map.range = calloc((size_t)map.nrange, sizeof *map.range);
    map.memory = map.nrange / 2;
    for (int m = 0; m < map.nrange; m++)
        map.range[m] =
            (struct plan_range){.kind = DEV_CPU, .first = m * r->host, .n = r->host, .nslot = map.nslot, .memory = m};
    must_plan(program_read(bytes, n, at, &g));
    widen_program(g, at, r->ranks, r->group);
    g->map = &map;
    double begin = core_seconds();
    must_plan(plan_compile(g, at, &p));
    tell(r, p, core_seconds() - begin);
    _exit(0);
}

/* Executes this program in a child process that reads the bytes from its standard input. */
static void
start_part(const struct row *r, const struct program *g)
{
    char number[20];
    struct str bytes = {0};
    FILE *f = tmpfile();
    program_write(g, &bytes);
    if (!f || fwrite(str_text(&bytes), 1, bytes.len, f) != bytes.len || fflush(f) || fseek(f, 0, SEEK_SET)) exit(1);
    snprintf(number, sizeof number, "%d", (int)(r - row));
    dup2(fileno(f), 0);
    execl("/proc/self/exe", "compile", "--part", number, (char *)NULL);
    exit(1);
}

static void
continue_part(const char *number)
{
    size_t n = 0, k = 1, capacity = 0;
    char *bytes = NULL;
    while (k > 0) {
        GROW(bytes, n + 1, capacity);
        n += k = fread(bytes + n, 1, capacity - n, stdin);
    }
    alarm(60);
    run_part(&row[atoi(number)], bytes, n);
}

static void
run(const struct row *r)
{
    char devices[20];
    struct rille_graph_options g = {.micro_batches = r->pieces};
    struct rille_graph *graph;
    struct rille_tensor *piece[2], *out;
    snprintf(devices, sizeof devices, "cpu:%d", r->group ? 4 : r->host ? 2 : r->ranks);
    struct rille_options o = {.devices = devices};
    struct bench b = {.n = r->n, .ranks = r->ranks, .pieces = r->pieces, .cut = r->group ? 4 : r->host ? 2 : r->ranks};
    must(rille_open(&o, &b.net.s), "open");
    r->before(&b);
    struct rille_tensor *in[2] = {b.net.x, b.net.y};
    must(rille_trace_begin(b.net.s, &g, 2, in, piece), "trace");
    out = r->program(&b, rille_tensor_hold(piece[0]), piece[1]);
    double begin = core_seconds();
    must(rille_trace_end(b.net.s, 1, &out, &graph), r->name);
    if (r->host) start_part(r, graph->runner->plan->program);
    tell(r, graph->runner->plan, core_seconds() - begin);
    _exit(0);
}

int
main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "--part")) continue_part(argv[2]);
    printf("%-15s %6s %6s %8s %9s %7s %7s %8s %8s %10s %6s %9s\n", "", "n", "ranks", "tasks", "seconds", "proof", "MB",
           "us/task", "B/task", "arena KiB", "/live", "ctl/task");
    fflush(stdout);
    for (size_t i = 0; i < countof(row); i++) {
        if (argc > 1 && strncmp(row[i].name, argv[1], strlen(argv[1]))) continue;
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            run(&row[i]);
        }
        int status;
        if (waitpid(child, &status, 0) < 0 || status)
            printf("%-15s %6d %6d    %s\n", row[i].name, row[i].n, row[i].ranks,
                   WIFSIGNALED(status) ? "more than 60 seconds" : "refused");
        fflush(stdout);
    }
    return 0;
}
