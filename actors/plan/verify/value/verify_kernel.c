/* verify_kernel.c - proves that a task's kernel computes what the program says: operator, attributes, types, and
 * wiring of a chain. Also proves the size of scratch memory, and the schedule's credits and phases.
 *
 * A kernel records the calls for which it was made (exec_made); the proof compares them with the program's nodes.
 * That kernels compute these calls correctly is left to the tests of kernels/. Equal tasks may share a kernel if
 * no two of them run at the same time. A kernel shared by the ranks of a node is checked once. */
#include "actors/plan/verify/value/verify_kernel.h"
#include "actors/plan/outline/stage.h"
#include "actors/plan/verify/value/verify_send.h"
#include "actors/plan/verify/value/verify_part.h"

#include "runtime/device/device.h"
#include "runtime/base/error.h"

#include <string.h>

/* ---- calls ---- */

bool
proof_same_attr(const struct attr *a, const struct attr *b)
{
    return a->n == b->n && a->i == b->i && !memcmp(&a->f, &b->f, sizeof a->f) &&
           !memcmp(a->list, b->list, sizeof a->list[0] * (size_t)MAX(0, MIN(a->n, ATTR_LIST)));
}

/* Returns true if ranks store elements of type t in layout l as dtype `held`. l is NULL for a number, which has no
 * layout. */
static bool
is_type_held(const struct type *held, const struct type *t, const struct layout *l)
{
    return held->dtype == (l ? layout_dtype(l, (enum dtype)t->dtype) : t->dtype) && shape_equal(held, t);
}

static int
check_node_call(const struct values *s, int32_t task, const struct prog_node *n, const struct call *c)
{
    if (c->op != n->op)
        return proof_fail(s->v, task, "its kernel computes %s, must compute %s", c->op->name, n->op->name);
    TRY(proof_same(s->v, task, "number of operands of its kernel", c->nin, n->nin));
    TRY(proof_same(s->v, task, "number of results of its kernel", c->nout, n->nout));
    for (int k = 0, nattr = op_nattr(n->op); k < nattr; k++)
        if (!c->attr != !n->attr || (n->attr && !proof_same_attr(&c->attr[k], &n->attr[k])))
            return proof_fail(s->v, task, "attribute %s of its kernel has another value than in the program",
                              n->op->attr[k].name);
    for (int32_t i = 0; i < n->nin; i++) {
        const struct type *t = ref_type_of(s->v->plan->program, n->in[i]);
        if (!is_type_held(&c->in[i], t, n->want[i]) || c->in[i].weak != t->weak)
            return proof_fail(s->v, task, "operand %d of its kernel has another type than in the program", (int)i);
    }
    for (int32_t k = 0; k < n->nout; k++)
        if (!is_type_held(&c->out[k], &n->type[k], n->layout[k]))
            return proof_fail(s->v, task, "result %d of its kernel has another type than in the program", (int)k);
    return 0;
}

/* ---- wiring ---- */

static int
check_fused_step(const struct values *s, int32_t task, int32_t i, const struct fuse_step *step)
{
    const struct plan_chain *c = s->v->plan->task[task].chain;
    const struct prog_node *n = &s->v->plan->program->node[c->member[i]];
    int out = -1, others = 0;
    TRY(check_node_call(s, task, n, step->call));
    for (int32_t k = 0; k < n->nin; k++) {
        if (n->in[k].kind == REF_NONE) continue;
        struct fuse_arg want = value_chain_source(c, i, n, k);
        if (step->arg[k].step != want.step || step->arg[k].index != want.index)
            return proof_fail(s->v, task, "its kernel reads the wrong value as operand %d of %s", (int)k, n->op->name);
    }
    for (int32_t k = 0; k < c->nout; k++) {
        if (c->live_out[k].index != c->member[i]) continue;
        if (c->live_out[k].out == 0) out = (int)k;
        if (c->live_out[k].out == 1) others = (int)k;
    }
    TRY(proof_same(s->v, task, "first output for the other results of a step of its kernel", step->others, others));
    return proof_same(s->v, task, "output for the result of a step of its kernel", step->out, out);
}

/* Proves that the kernel knows how the batch is divided, and which operands differ between micro-batches. From these
 * facts the kernel computes the row numbers in its error messages. */
static int
check_pieces(const struct values *s, int32_t task, const struct prog_node *n, const struct pieces *p)
{
    const struct program *g = s->v->plan->program;
    uint32_t of = 0;
    for (int32_t i = 0; i < n->nin && i < 32; i++)
        if (n->in[i].kind == REF_NODE || n->in[i].kind == REF_LEAF) of |= (uint32_t)value_varies(s->v, n->in[i]) << i;
    TRY(proof_same(s->v, task, "number of micro-batches in its kernel", p->n, g->pieces));
    TRY(proof_same(s->v, task, "number of equal parts of the batch in its kernel", p->cut, g->cut));
    return proof_same(s->v, task, "mask of micro-batched operands in its kernel", p->of, of);
}

static int
check_made(const struct values *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    const struct prog_node *n = &s->v->plan->program->node[t->node];
    const struct exec_made *made = exec_made(t->exec);
    TRY(proof_same(s->v, task, "number of steps of its kernel", made->nstep, t->chain ? t->chain->nstep : 1));
    for (int32_t i = 0; t->chain && i < made->nstep; i++) TRY(check_fused_step(s, task, i, &made->step[i]));
    TRY(proof_same(s->v, task, "flag \"adds to a sum\" of its kernel", made->adds,
                   t->kind->flags & KIND_ONCE_A_BATCH ? 1 : 0));
    if (t->chain) return 0;
    TRY(check_pieces(s, task, n, &made->pieces));
    for (int32_t i = 0; i < MIN(n->nin, OP_OPERAND); i++)
        if (made->step[0].arg[i].step || made->step[0].arg[i].index != i)
            return proof_fail(s->v, task, "its kernel reads the wrong value as operand %d", (int)i);
    return check_node_call(s, task, n, made->step[0].call);
}

/* ---- the task ---- */

struct proved {
    const struct exec *exec;
    /* runner: number of the thread that runs the kernel; for a device with streams, number of the device after all
     * threads. node: node of the last task whose use of the kernel was checked */
    int32_t runner, node;
    const struct plan_chain *chain;
};

static struct proved *
proved_of(struct values *s, const struct exec *e, int32_t runner)
{
    struct proved *found;
    uint32_t at = 0;
    while ((found = hash_next(&s->kernels, hash_address(e), &at)) && found->exec != e) continue;
    if (found) return found;
    found = ARENA_NEW(&s->v->tmp, struct proved);
    *found = (struct proved){.exec = e, .runner = runner, .node = -1};
    s->kernels.arena = &s->v->tmp;
    hash_add(&s->kernels, hash_address(e), found);
    return found;
}

int
value_kernel(struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct plan_device *d = &p->device[t->device];
    if ((int64_t)exec_scratch(t->exec) > d->scratch_bytes)
        return proof_fail(s->v, task, "its kernel needs %lld bytes of scratch memory, its device has %lld",
                          (long long)exec_scratch(t->exec), (long long)d->scratch_bytes);
    /* A kernel has state for one run at a time. So a kernel belongs to one thread or, if the device has streams,
     * to one device. */
    int32_t runner = device_kind(d->kind)->stream_new ? p->nthread + t->device : t->thread;
    struct proved *k = proved_of(s, t->exec, runner);
    if (k->runner != runner)
        return proof_fail(s->v, task,
                          "its kernel also belongs to another thread or device, which may run it at the same time");
    if (k->node == t->node && k->chain == t->chain) return 0;
    TRY(check_made(s, task));
    k->node = t->node;
    k->chain = t->chain;
    return 0;
}

/* ---- credits ---- */

static struct moment
task_moment_of(const struct task *t)
{
    return (struct moment){.stage = t->stage, .phase = t->phase};
}

/* Returns the number of registers that the readers need: the number of micro-batches between writer and readers,
 * plus one. If data is sent to another stage on another device, the number is at least two, except for offloads
 * and fetches. */
static int32_t
asked(const struct proof *v, const struct stages *st, const struct task *from, const struct out_port *o)
{
    int32_t n = 1;
    for (int32_t f = 0; f < o->nfan; f++)
        for (int32_t r = 0; r < o->fan[f].nreader; r++) {
            const struct task *to = &v->plan->task[o->fan[f].reader[r].task];
            n = MAX(n, stages_credits(v->plan->program, st, task_moment_of(from), task_moment_of(to)));
            bool crosses = to->device != from->device && to->stage != from->stage && !task_fetches(v->plan, to) &&
                           !task_fetches(v->plan, from);
            if (crosses) n = MAX(n, MIN(2, v->plan->pieces));
        }
    return n;
}

/* Proves phase and stage of a task. A task that computes a node must have the phase and stage of the node. A move
 * must have the phase of the node whose value it moves; if it offloads or fetches the value, that of the node that
 * requests the move. */
static int
check_moment(const struct proof *v, const struct stages *st, int32_t task)
{
    const struct task *t = &v->plan->task[task];
    int32_t of = task_fetches(v->plan, t) ? task_hop(t)->step : t->node;
    int phase = t->kind->flags & KIND_ORDER ? PHASE_BATCH : of >= 0 ? st->phase[of] : PHASE_FORWARD;
    TRY(proof_same(v, task, "phase", t->phase, phase));
    if (t->kind->flags & KIND_NODE) return proof_same(v, task, "virtual stage", t->stage, st->stage[t->node]);
    return t->stage < 0 || t->stage >= st->n
               ? proof_fail(v, task, "stage %d does not exist; the program has %d stages", (int)t->stage, (int)st->n)
               : 0;
}

/* Proves that a result has as many registers as its readers request. A result made per micro-batch and stored in
 * stage slots may have more registers, one per slot (arena.c). */
static int
check_register_count(const struct proof *v, int32_t task, int32_t k, int32_t want)
{
    const struct task *t = &v->plan->task[task];
    int32_t nreg = t->out[k].nreg;
    if (nreg > want && t->nact > 1 && t->out[k].every == 1) return 0;
    return proof_same(v, task, "number of registers", nreg, want);
}

/* Proves that the task's turn (priority class) and place in a round are those of the program's priority rule. */
static int
check_turns(struct proof *v, const struct stages *st)
{
    const struct plan *p = v->plan;
    int32_t group, round;
    bool *begun = ARENA_ARRAY(&v->tmp, bool, p->ndevice * st->n * (PHASE_BATCH + 1));
    stages_round(p->program, st, &group, &round);
    if (p->group != group || p->round != round)
        return fail(E_PLAN, "plan: the rounds of stages do not match the program's schedule");
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        bool *was = &begun[task_moment(t, st->n)];
        struct stage_turn turn =
            stages_turn(p->program, st, task_moment_of(t), task_goes_on(t, st->joint[t->stage], was));
        TRY(proof_same(v, i, "priority on its device", t->turn, turn.first));
        TRY(proof_same(v, i, "place of its stage in a round of stages", t->lead, turn.lead));
    }
    return 0;
}

int
prove_credits(struct proof *v)
{
    const struct plan *p = v->plan;
    struct stages st;
    TRY(stages_find(&st, p->program, &v->tmp));
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        TRY(check_moment(v, &st, i));
        bool each = t->nact > 1 && !(t->kind->flags & KIND_ONCE_A_BATCH);
        for (int32_t k = 0; k < t->nresult; k++)
            if (t->out[k].where.kind == IN_ARENA)
                TRY(check_register_count(v, i, k, each ? asked(v, &st, t, &t->out[k]) : 1));
    }
    return check_turns(v, &st);
}
