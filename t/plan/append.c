/* append.c - tests that sums of products over micro-batches become one product of appended operands.
 *
 * The gradients of two weights share an operand. All layouts of the operands on five meshes are tried, with 1, 2 and 4
 * rows per micro-batch. Values are quarters, so each order of summation gives the same bits. */
#include "actors/plan/plan_print.h"
#include "actors/plan/rewrite/append.h"
#include "actors/plan/verify/verify.h"
#include "t/lib/plan/parts.h"

enum { WIDTH = 8 };
static const struct cut cut[] = {{2, {2, 2}}, {4, {1, 1, 1, 1}}};

/* A step with two gradients: x^T dy and x^T dz, each summed over the micro-batches. */
struct step_of {
    struct maker m;
    struct val *root[2];
};

static struct val *
rows_leaf(struct maker *m, int64_t rows, const struct layout *l)
{
    struct type t = type_of(DT_F32, 2, (int64_t[]){rows, WIDTH});
    return build_fresh(m->s, graph_leaf(m->s->graph, &t, l, store_new(l->place->nrank)));
}

static struct val *
gradient(struct step_of *x, struct val *in, struct val *out)
{
    struct val *y = call(&x->m, "contract", 2, (struct val *[]){in, out}), *sum;
    if (!y || build_to_global(&x->m.s->context, y, y->layout, &sum)) return NULL;
    sum->node->accumulate = 1;
    return sum;
}

static struct program *
step_program(struct rille_session *s, int64_t rows, const struct layout *in, const struct layout *out, int pieces)
{
    struct step_of x = {.m = {.s = s}};
    struct val *left = rows_leaf(&x.m, rows, in);
    struct program *g = NULL;
    for (int k = 0; k < 2; k++) x.root[k] = gradient(&x, left, rows_leaf(&x.m, rows, out));
    if (x.root[0] && x.root[1] && !collect(s, 2, x.root, COLLECT_RUN)) {
        g = collection_program(s, &s->collection);
        g->pieces = pieces;
        for (int32_t i = 0; i < g->nleaf; i++) g->leaf[i].piece = true;
        for (int32_t i = 0; i < g->nnode; i++)
            for (int32_t k = 0; k < g->node[i].nin; k++)
                g->node[i].piece = g->node[i].piece || ref_varies(g, g->node[i].in[k]);
    }
    build_settle(s, 0);
    return g;
}

static int
count_appends(const struct program *g)
{
    int n = 0;
    for (int32_t i = 0; i < g->nnode; i++) n += g->node[i].append;
    return n;
}

/* Returns true if the operands of the first product can be appended: their rows are split evenly, and they take no
 * more bytes than the gradient. */
static bool
expects_appends(const struct program *g)
{
    int32_t i = 0, ranks = 1;
    while (strcmp(g->node[i].op->name, "contract")) i++;
    const struct layout *l = g->node[i].want[0], *r = g->node[i].want[1];
    for (int a = 0; a < l->place->naxis; a++) {
        if (l->sbp[a].kind == SBP_P || r->sbp[a].kind == SBP_P) return false;
        if (l->sbp[a].kind == SBP_S && l->sbp[a].axis == 0) ranks *= l->place->axis[a];
    }
    int64_t rows = ref_type(g, g->node[i].in[0]).dim[0];
    return rows % ranks == 0 && 2 * rows * g->pieces <= WIDTH;
}

static bool
same_roots(const struct bench *a, const struct bench *b)
{
    for (int32_t i = 0; i < a->run.plan->nroot_part; i++)
        if (!same_root(a, i, b, i)) return false;
    return true;
}

/* Compiles the program, and runs it on one host. */
static int
open_and_run(struct program *g, struct atlas *at, struct bench *b)
{
    struct plan *p;
    struct engine *e;
    TRY(plan_compile(g, at, &p));
    bench_open(b, p);
    e = simulator(1);
    int status = engine_run(e, &b->run);
    engine_free(&e);
    return status;
}

static void
close_and_free(struct bench *b)
{
    struct plan *p = (struct plan *)(uintptr_t)b->run.plan;
    bench_close(b);
    plan_free(&p);
}

struct counts {
    int tried, appended, right, same, parts;
};

static void
try_step(struct rille_session *s, struct program *g, struct counts *n)
{
    struct program *once = program_copy(g);
    struct bench each, batch;
    struct str bytes = {0};
    bool expected = expects_appends(g);
    append_operands(once, 1);
    n->tried++;
    n->appended += expected;
    n->right += count_appends(once) == (expected ? 3 : 0);
    program_write(once, &bytes);
    if (open_and_run(g, s->atlas, &each) || open_and_run(once, s->atlas, &batch)) {
        diag("%s", err_text());
        str_free(&bytes);
        return;
    }
    n->same += same_roots(&each, &batch);
    for (int k = 0; expected && k < (int)countof(cut); k++)
        n->parts += same_in_parts(&batch, &bytes, &cut[k], s->atlas);
    close_and_free(&each);
    close_and_free(&batch);
    str_free(&bytes);
}

/* Sets *l to the k-th layout of a matrix on the mesh. Returns false if there are no more layouts. */
static bool
nth_layout(struct rille_session *s, const struct place *p, int k, const struct layout **l)
{
    static const struct sbp entry[] = {
        {.kind = SBP_B}, {.kind = SBP_S}, {.kind = SBP_S, .axis = 1}, {.kind = SBP_P, .reduce = RED_SUM}};
    struct sbp sbp[MAX_AXIS];
    for (int a = 0; a < p->naxis; a++, k /= (int)countof(entry)) sbp[a] = entry[k % (int)countof(entry)];
    return k == 0 && !layout_new(s->atlas, p, sbp, NULL, l);
}

static void
try_mesh(struct rille_session *s, const int32_t *axis, struct counts *n)
{
    static const int32_t rank[] = {0, 1, 2, 3};
    const struct place *p;
    const struct layout *in, *out;
    int number = 0;
    assert(place_new(s->atlas, DEV_CPU, axis[1] > 1 ? 2 : 1, axis, rank, &p) == 0);
    for (int i = 0; nth_layout(s, p, i, &in); i++)
        for (int k = 0; nth_layout(s, p, k, &out); k++)
            for (int64_t rows = 1; rows <= 4; rows *= 2) {
                if (!share(number++)) continue;
                struct program *g = step_program(s, rows, in, out, 2 + (i + k) % 2);
                if (g) try_step(s, g, n);
            }
}

static void
test_layouts(struct rille_session *s)
{
    static const int32_t mesh[][2] = {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {2, 2}};
    struct counts n = {0};
    for (int i = 0; i < (int)countof(mesh); i++) try_mesh(s, mesh[i], &n);
    ok(n.appended > 0 && n.appended < n.tried, "operands of %d of %d steps can be appended", n.appended, n.tried);
    is_int(n.right, n.tried, "operands are appended where their shards are equal and small, a shared operand once");
    is_int(n.same, n.tried, "the product of appended operands has the bits of the sum of products");
    is_int(n.parts, (int)countof(cut) * n.appended, "plan partitions give the same bits");
}

/* ---- mistakes that the proof must find ---- */

static void
without_accumulate(struct program *g, struct prog_node *n)
{
    UNUSED(g);
    n->accumulate = false;
}

static void
too_long(struct program *g, struct prog_node *n)
{
    struct type t = n->type[0];
    t.dim[0]++;
    n->type = arena_dup(&g->arena, &t, sizeof t);
}

static void
fewer_pieces(struct program *g, struct prog_node *n)
{
    UNUSED(n);
    g->pieces--;
}

static const struct {
    void (*mistake)(struct program *g, struct prog_node *n);
    const char *text;
} mistakes[] = {
    {without_accumulate, "appends micro-batches, but is no move that combines them"},
    {too_long, "must be"},
    {fewer_pieces, "must be"},
};

static const struct layout *
layout_on_two(struct rille_session *s, int k)
{
    const struct place *p;
    const struct layout *l;
    assert(place_new(s->atlas, DEV_CPU, 1, (int32_t[]){2}, (int32_t[]){0, 1}, &p) == 0 && nth_layout(s, p, k, &l));
    return l;
}

static struct program *
appended_program(struct rille_session *s)
{
    struct program *g = step_program(s, 2, layout_on_two(s, 1), layout_on_two(s, 1), 2);
    append_operands(g, 1);
    return g;
}

static void
test_program(struct rille_session *s)
{
    for (int k = 0; k < (int)countof(mistakes); k++) {
        struct program *g = appended_program(s), *read = NULL;
        struct str bytes = {0};
        int32_t i = 0;
        while (!g->node[i].append) i++;
        mistakes[k].mistake(g, &g->node[i]);
        program_write(g, &bytes);
        bool found = program_read(str_text(&bytes), bytes.len, s->atlas, &read) == E_PLAN;
        ok(found && strstr(err_text(), mistakes[k].text), "a program that appends wrongly is rejected: %s", err_text());
        err_clear();
        program_free(&read);
        program_free(&g);
        str_free(&bytes);
    }
}

/* Checks that the proof rejects a plan in which a task adds where it must append. */
static void
test_plan(struct rille_session *s)
{
    struct plan *p;
    int32_t i = 0;
    assert(plan_compile(appended_program(s), s->atlas, &p) == 0);
    while (p->task[i].kind != &kind_append) i++;
    is_int(p->task[i].out[0].bytes, 2 * type_bytes(p->task[i].type), "a register has the rows of all micro-batches");
    p->task[i].kind = &kind_accumulate;
    is_int(plan_verify(p), E_PLAN, "the proof finds a task that adds where it must append");
    err_clear();
    plan_free(&p);
}

int
main(void)
{
    struct rille_options o = {.devices = "cpu:4", .threads = 1, .bus = "zmq"};
    struct rille_session *s;
    alarm(HANG);
    if (rille_open(&o, &s)) return 1;
    test_layouts(s);
    test_program(s);
    test_plan(s);
    rille_close(&s);
    return done();
}
