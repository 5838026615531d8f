/* kernels.c - tests that the plan verifier finds mistakes of a planner in kernels and in memory.
 *
 * Mistakes: another operator, attribute, micro-batch count, wiring or result layout; other steps in a chain; a
 * kernel on two threads; too little scratch; too few registers; a missing control edge. Each mistake is put into
 * every suitable task of random plans. Also checks, for each pair of tasks, that they share a kernel if and only if
 * they compute the same on one thread. */
#include "actors/plan/compile.h"
#include "actors/plan/verify/verify.h"
#include "t/lib/plan/plans.h"

struct count {
    int planted, refused, harmless;
};

/* Verifies the changed plan, which must be rejected. judge_run() also permits that the plan computes the same
 * values, because the change is then harmless. */
static void
judge(struct plan *p, struct count *c)
{
    c->planted++;
    c->refused += plan_verify(p) == E_PLAN;
}

static void
judge_run(struct engine *e, struct plan *p, uint64_t want, struct count *c)
{
    c->planted++;
    if (plan_verify(p) == E_PLAN)
        c->refused++;
    else
        c->harmless += outcome(e, p) == want;
}

/* ---- mistakes in single kernels ---- */

static const struct view *
views_of(const struct exec *e, int from, int n, struct view *out)
{
    for (int i = 0; i < n; i++) out[i] = *exec_view(e, from + i);
    return out;
}

/* Returns a kernel like that of the task, but with another call or another number of micro-batches. */
static struct exec *
other_kernel(const struct plan *p, const struct task *t, const struct call *call, struct pieces pieces)
{
    struct view in[OP_OPERAND], out[OP_OUT];
    struct kcall k = {.call = call,
                      .in = views_of(t->exec, 0, call->nin, in),
                      .out = views_of(t->exec, call->nin, call->nout, out),
                      .pieces = pieces,
                      .threads = 1};
    struct exec *e;
    return exec_new(&k, p->device[t->device].kind, &e) ? NULL : e;
}

static void
judge_kernel(struct plan *p, struct task *t, struct exec *e, struct count *c)
{
    struct exec *was = t->exec;
    if (!e) return;
    t->exec = e;
    judge(p, c);
    t->exec = was;
    exec_free(&e);
}

static const char *const pair[][2] = {{"relu", "neg"}, {"neg", "relu"}, {"add", "mul"}, {"mul", "sub"}};

static void
plant_operator(struct plan *p, struct task *t, struct count *c)
{
    struct call call = *exec_made(t->exec)->step[0].call;
    const char *name = call.op->name;
    for (size_t i = 0; i < countof(pair); i++)
        if (!strcmp(name, pair[i][0]) && !t->chain) {
            call.op = op_find(pair[i][1]);
            judge_kernel(p, t, other_kernel(p, t, &call, exec_made(t->exec)->pieces), c);
        }
}

static void
plant_attribute(struct plan *p, struct task *t, struct count *c)
{
    struct call call = *exec_made(t->exec)->step[0].call;
    struct attr attr[OP_ATTR];
    if (t->chain || strcmp(call.op->name, "softmax")) return;
    memcpy(attr, call.attr, sizeof *attr * (size_t)op_nattr(call.op));
    attr[0].i = !attr[0].i;
    call.attr = attr;
    judge_kernel(p, t, other_kernel(p, t, &call, exec_made(t->exec)->pieces), c);
}

/* Changes the kernel's number of micro-batches. Such a kernel would report wrong positions in error messages. */
static void
plant_pieces(struct plan *p, struct task *t, struct count *c)
{
    const struct exec_made *made = exec_made(t->exec);
    struct pieces n = made->pieces, cut = n, of = n;
    if (t->chain) return;
    n.n++;
    cut.cut++;
    of.of ^= 1;
    judge_kernel(p, t, other_kernel(p, t, made->step[0].call, n), c);
    judge_kernel(p, t, other_kernel(p, t, made->step[0].call, cut), c);
    if (made->step[0].call->nin > 0) judge_kernel(p, t, other_kernel(p, t, made->step[0].call, of), c);
}

/* Transposes the result, or leaves gaps between its rows. */
static void
plant_turned(struct engine *sim, struct plan *p, struct task *t, uint64_t want, struct count *c)
{
    const struct exec_made *made = exec_made(t->exec);
    const struct call *call = made->step[0].call;
    struct view in[OP_OPERAND], out[OP_OUT];
    if (t->chain || !(call->op->flags & OP_ANY_ORDER)) return;
    const struct view was = *exec_view(t->exec, call->nin);
    if (was.dim[0] < 2 || was.dim[1] < 2) return;
    for (int gaps = 0; gaps < 2; gaps++) {
        struct kcall k = {.call = call,
                          .in = views_of(t->exec, 0, call->nin, in),
                          .out = views_of(t->exec, call->nin, call->nout, out),
                          .pieces = made->pieces,
                          .threads = 1};
        struct exec *e;
        bool transposed = was.stride[0] == 1;
        out[0].stride[0] = gaps ? was.stride[0] + 1 : transposed ? was.dim[1] : 1;
        out[0].stride[1] = gaps ? was.stride[1] : transposed ? 1 : was.dim[0];
        if (exec_new(&k, p->device[t->device].kind, &e)) continue;
        struct exec *made_for = t->exec;
        t->exec = e;
        judge_run(sim, p, want, c);
        t->exec = made_for;
        exec_free(&e);
    }
}

/* ---- mistakes in fused chains ---- */

struct steps {
    struct fuse_step step[64];
    struct call call[64];
    int n;
};

/* Copies the steps of the task's chain, to change them. Returns false if the task has no chain. */
static bool
steps_of(const struct task *t, struct steps *s)
{
    const struct exec_made *made = exec_made(t->exec);
    s->n = made->nstep;
    if (!t->chain || s->n > (int)countof(s->step)) return false;
    for (int i = 0; i < s->n; i++) {
        s->step[i] = made->step[i];
        s->call[i] = *made->step[i].call;
        s->step[i].call = &s->call[i];
    }
    return true;
}

static void
judge_steps(struct plan *p, struct task *t, const struct steps *s, struct count *c)
{
    struct view in[EXEC_ADDRESSES], out[EXEC_ADDRESSES];
    struct exec *e;
    views_of(t->exec, 0, t->chain->nin, in);
    views_of(t->exec, t->chain->nin, t->chain->nout, out);
    if (!exec_fused(s->n, s->step, t->chain->nin, in, t->chain->nout, out, p->device[t->device].kind, 1, &e))
        judge_kernel(p, t, e, c);
}

/* Swaps two operands of one step. */
static void
plant_wiring(struct plan *p, struct task *t, struct count *c)
{
    struct steps s;
    for (int i = 0; steps_of(t, &s) && i < s.n; i++) {
        struct fuse_arg *a = s.step[i].arg, first = a[0];
        if (s.call[i].nin < 2 || (a[0].step == a[1].step && a[0].index == a[1].index)) continue;
        a[0] = a[1];
        a[1] = first;
        judge_steps(p, t, &s, c);
    }
}

/* Replaces the operator of one step. */
static void
plant_step_operator(struct plan *p, struct task *t, struct count *c)
{
    struct steps s;
    for (int i = 0; steps_of(t, &s) && i < s.n; i++)
        for (size_t k = 0; k < countof(pair); k++) {
            if (strcmp(s.call[i].op->name, pair[k][0])) continue;
            s.call[i].op = op_find(pair[k][1]);
            judge_steps(p, t, &s, c);
            break;
        }
}

/* Removes a step; its readers then read the step's first operand. */
static void
plant_skipped_step(struct plan *p, struct task *t, struct count *c)
{
    struct steps s;
    for (int i = 0; steps_of(t, &s) && i < s.n; i++) {
        int readers = 0;
        for (int j = i + 1; j < s.n; j++)
            for (int k = 0; k < s.call[j].nin; k++) {
                struct fuse_arg *a = &s.step[j].arg[k];
                if (!a->step || a->index != i) continue;
                *a = s.step[i].arg[0];
                readers++;
            }
        if (readers) judge_steps(p, t, &s, c);
    }
}

/* ---- tasks that share a kernel ---- */

struct sharing {
    /* Counts of pairs of tasks. shared: pairs with a common kernel; of_nodes: such pairs whose nodes differ;
     * apart: pairs with different kernels; wrong: pairs whose kernel is common and should not be, or is not common
     * and should be. */
    int64_t shared, of_nodes, apart, wrong;
};

static bool
same_attr(const struct attr *a, const struct attr *b)
{
    return a->set == b->set && a->n == b->n && a->i == b->i && !memcmp(&a->f, &b->f, sizeof a->f) &&
           !memcmp(a->list, b->list, sizeof *a->list * (size_t)MAX(0, a->n));
}

static bool
same_type(const struct type *a, const struct type *b)
{
    return type_equal(a, b) && a->weak == b->weak;
}

static bool
same_step(const struct fuse_step *x, const struct fuse_step *y)
{
    const struct call *a = x->call, *b = y->call;
    bool same = a->op == b->op && a->nin == b->nin && a->nout == b->nout && x->out == y->out && x->others == y->others;
    for (int i = 0; same && i < a->nin; i++)
        same =
            same_type(&a->in[i], &b->in[i]) && x->arg[i].step == y->arg[i].step && x->arg[i].index == y->arg[i].index;
    for (int k = 0; same && k < a->nout; k++) same = same_type(&a->out[k], &b->out[k]);
    for (int k = 0; same && k < op_nattr(a->op); k++) same = same_attr(&a->attr[k], &b->attr[k]);
    return same;
}

/* Returns true if a node reads the task's result. */
static bool
is_read(const struct plan *p, const struct task *t)
{
    const struct program *g = p->program;
    struct arena a = {0};
    int32_t node = t->kind->flags & KIND_ONCE_A_BATCH ? program_sums(g, &a)[t->node] : t->node;
    bool read = false;
    for (int32_t i = 0; i < g->nnode; i++)
        for (int32_t k = 0; k < g->node[i].nin; k++)
            read = read || (g->node[i].in[k].kind == REF_NODE && g->node[i].in[k].index == node);
    arena_fini(&a);
    return read;
}

/* Returns true if the two tasks may share a kernel. Ignores thread counts, because kernels of small plans have one
 * thread. */
static bool
compute_alike(const struct plan *p, const struct task *t, const struct task *u)
{
    const struct exec_made *a = exec_made(t->exec), *b = exec_made(u->exec);
    bool same = p->device[t->device].kind == p->device[u->device].kind && a->nstep == b->nstep && t->narg == u->narg &&
                t->nresult == u->nresult && a->adds == b->adds && a->pieces.n == b->pieces.n &&
                a->pieces.cut == b->pieces.cut && a->pieces.of == b->pieces.of;
    for (int i = 0; same && i < a->nstep; i++) same = same_step(&a->step[i], &b->step[i]);
    for (int i = 0; same && i < t->narg + t->nresult; i++)
        same = view_same(exec_view(t->exec, i), exec_view(u->exec, i));
    return same && (t->chain || is_read(p, t) == is_read(p, u));
}

static bool
is_placed(const struct task *t)
{
    const struct exec_made *made = exec_made(t->exec);
    bool placed = false;
    for (int i = 0; i < made->nstep; i++) placed = placed || op_is_placed(made->step[i].call->op);
    return placed;
}

static void
judge_sharing(const struct plan *p, struct sharing *s)
{
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t j = 0; j < i; j++) {
            const struct task *t = &p->task[i], *u = &p->task[j];
            if (!t->exec || !u->exec) continue;
            bool shared = t->exec == u->exec;
            s->shared += shared;
            s->of_nodes += shared && t->node != u->node;
            s->apart += !shared;
            s->wrong += shared != (t->thread == u->thread && !is_placed(t) && compute_alike(p, t, u));
        }
}

/* Gives the task the kernel of a task on another thread. */
static void
plant_runner(struct plan *p, struct task *t, struct count *c)
{
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct task *u = &p->task[i];
        if (!u->exec || u->thread == t->thread || is_placed(u) || !compute_alike(p, t, u)) continue;
        struct exec *was = t->exec;
        t->exec = u->exec;
        judge(p, c);
        t->exec = was;
        return;
    }
}

/* ---- mistakes in memory and credits ---- */

static void
plant_scratch(struct plan *p, struct count *c)
{
    for (int32_t d = 0; d < p->ndevice; d++) {
        struct plan_device *at = &p->device[d], was = *at;
        if (at->scratch_bytes < 64) continue;
        at->scratch_bytes -= 64;
        at->arena_bytes -= 64;
        judge(p, c);
        *at = was;
    }
}

static void
plant_credits(struct plan *p, struct count *c)
{
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nresult; k++) {
            struct out_port *o = &p->task[i].out[k], was = *o;
            if (o->nreg < 2 || o->where.kind != IN_ARENA) continue;
            if (o->bytes == 0 || o->where.stride > where_stride(o->bytes))
                continue; /* results stored in stage slots may have more registers than requested */
            if (o->where.nact_offset) continue; /* the same holds for results with per-act offsets */
            o->nreg = 1;
            o->once = p->task[i].nact / o->every <= 1;
            judge(p, c);
            *o = was;
        }
}

/* Removes a control edge from the inputs of the task that reads it. */
static void
plant_order(struct engine *e, struct plan *p, uint64_t want, struct count *c)
{
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nin; k++) {
            struct task *t = &p->task[i];
            struct in_port *in = &t->in[k], was = *in;
            struct out_port *o = &p->task[in->task].out[in->out];
            if (!o->control || k + 1 < t->nin || o->fan[in->fan].nreader < 2) continue;
            struct fan *fan = &o->fan[in->fan], had = *fan;
            struct reader *reader = (struct reader *)fan->reader, last = reader[fan->nreader - 1];
            if (last.task != i || last.port != k) continue;
            fan->nreader--;
            t->nin--;
            judge_run(e, p, want, c);
            t->nin++;
            *fan = had;
            *in = was;
        }
}

static void
report_count(const struct count *c, const char *what)
{
    diag("%s: %d planted, %d refused, %d harmless", what, c->planted, c->refused, c->harmless);
    ok(c->planted > 0 && c->refused + c->harmless == c->planted && c->refused > 0, "%s is found", what);
}

int
main(void)
{
    uint64_t seed = seed_of(7);
    struct rille_options o = {.devices = "cpu:4", .threads = 1, .bus = "zmq"};
    struct rille_session *s;
    struct count operator= {0}, attribute = {0}, pieces = {0}, transposed = {0}, wiring = {0}, step = {0},
                 skipped = {0}, runner = {0}, scratch = {0}, credits = {0}, order = {0};
    struct sharing sharing = {0};
    alarm(HANG);
    if (rille_open(&o, &s)) return 1;
    struct engine *e = simulator(seed);
    for (int i = 0; i < (getenv("RILLE_LONG") ? 20000 : 1500); i++) {
        struct plan *p = random_plan(s, &seed, i % 2);
        if (!p) continue;
        uint64_t want = outcome(e, p);
        judge_sharing(p, &sharing);
        for (int32_t t = 0; t < p->ntask; t++) {
            if (!p->task[t].exec) continue;
            plant_operator(p, &p->task[t], &operator);
            plant_attribute(p, &p->task[t], &attribute);
            plant_pieces(p, &p->task[t], &pieces);
            plant_turned(e, p, &p->task[t], want, &transposed);
            plant_wiring(p, &p->task[t], &wiring);
            plant_step_operator(p, &p->task[t], &step);
            plant_skipped_step(p, &p->task[t], &skipped);
            plant_runner(p, &p->task[t], &runner);
        }
        plant_scratch(p, &scratch);
        plant_credits(p, &credits);
        plant_order(e, p, want, &order);
        plan_free(&p);
    }
    diag("pairs of tasks: %lld share a kernel, %lld of those have two nodes, %lld do not share",
         (long long)sharing.shared, (long long)sharing.of_nodes, (long long)sharing.apart);
    ok(sharing.of_nodes > 0 && sharing.apart > 0 && !sharing.wrong,
       "tasks share a kernel if and only if they compute the same on one thread");
    report_count(&operator, "a kernel of another operator");
    report_count(&attribute, "a kernel with another attribute");
    report_count(&pieces, "a kernel with another count of micro-batches");
    report_count(&transposed, "a kernel with another layout of its result");
    report_count(&wiring, "a chain with swapped operands");
    report_count(&step, "a chain with another operator in a step");
    report_count(&skipped, "a chain that skips a step");
    report_count(&runner, "a kernel on two threads");
    report_count(&scratch, "too little scratch");
    report_count(&credits, "a missing register");
    report_count(&order, "a missing control edge");
    engine_free(&e);
    rille_close(&s);
    return done();
}
