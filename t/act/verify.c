/* Tests of actors/plan/verify: valid plans pass; a plan with one changed number is rejected, or computes the same
 * bytes.
 *
 * The test changes one field at a time in a copy of each random plan. A changed plan that passes must compute the
 * same bytes on the simulator, with poisoned registers and buffers of exactly the sizes that the plan states. The
 * plan must also run to its end in a simple simulation of tokens (runs_greedily). */
#include "actors/plan/plan_print.h"
#include "actors/plan/verify/verify.h"
#include "t/lib/plan/plans.h"
#include "t/lib/plan/collecting.h"
#include "t/lib/plan/greedy.h"

#include <unistd.h>

/* ---- a copy that may be changed ---- */

/* Copies n elements and appends an empty one, which the verifier reads if the test makes a count one too high. */
#define COPY(a, p, n) copy_array(a, p, sizeof *(p), n)
static void *
copy_array(struct arena *a, const void *p, size_t size, int64_t n)
{
    void *q = arena_alloc(a, size * (size_t)(n + 1));
    if (n > 0) memcpy(q, p, size * (size_t)n);
    return q;
}

static void
copy_program(struct arena *a, struct program *g)
{
    g->leaf = COPY(a, g->leaf, g->nleaf);
    g->number = COPY(a, g->number, g->nnumber);
    g->node = COPY(a, g->node, g->nnode);
    g->root = COPY(a, g->root, g->nroot);
    for (int32_t i = 0; i < g->nnode; i++) {
        struct prog_node *n = &g->node[i];
        n->in = COPY(a, n->in, n->nin);
        n->want = COPY(a, n->want, n->nin);
        n->type = COPY(a, n->type, n->nout);
        n->layout = COPY(a, n->layout, n->nout);
        if (n->attr) n->attr = COPY(a, n->attr, op_nattr(n->op));
    }
}

static bool
is_node(const struct task *t)
{
    return t->kind->flags & KIND_NODE;
}

static void
copy_member(struct arena *a, struct task_move *m)
{
    struct move_comm_rank *s = COPY(a, m->member, 1);
    s->pack = COPY(a, s->pack, s->npack);
    s->unpack = COPY(a, s->unpack, s->nunpack);
    for (int32_t i = 0; i < s->npack + s->nunpack; i++) {
        struct comm_rank_copy *c = i < s->npack ? &s->pack[i] : &s->unpack[i - s->npack];
        c->from = COPY(a, c->from, 1);
        c->to = COPY(a, c->to, 1);
    }
    m->member = s;
}

static void
copy_moves(struct arena *a, struct task_move *m)
{
    m->step = COPY(a, m->step, m->nstep);
    if (m->member) copy_member(a, m);
    for (int32_t i = 0; i < m->nstep; i++) {
        struct box_move *b = &m->step[i];
        b->view = COPY(a, b->view, 1);
        if (b->slice) b->slice = COPY(a, b->slice, 1);
        b->from = COPY(a, b->from, b->nfrom);
        for (int32_t k = 0; k < b->nfrom; k++) b->from[k].view = COPY(a, b->from[k].view, 1);
    }
}

static void
copy_task(struct arena *a, struct task *t)
{
    t->in = COPY(a, t->in, t->nin);
    t->out = COPY(a, t->out, t->nout);
    t->arg = COPY(a, t->arg, t->narg);
    if (t->source) t->source = COPY(a, t->source, 1);
    if (t->type) t->type = COPY(a, t->type, 1);
    if (is_node(t) && t->chain) {
        t->chain = arena_dup(a, t->chain, sizeof *t->chain);
        t->chain->member = COPY(a, t->chain->member, t->chain->nstep);
        t->chain->in = COPY(a, t->chain->in, t->chain->nin);
        t->chain->want = COPY(a, t->chain->want, t->chain->nin);
        t->chain->live_out = COPY(a, t->chain->live_out, t->chain->nout);
    }
    for (int32_t k = 0; k < t->nout; k++) {
        struct out_port *o = &t->out[k];
        o->fan = COPY(a, o->fan, o->nfan);
        for (int32_t f = 0; f < o->nfan; f++) o->fan[f].reader = COPY(a, o->fan[f].reader, o->fan[f].nreader);
    }
    if (task_hop(t)) copy_moves(a, &t->move);
}

/* Returns a copy of the plan, which has the same kernels. */
static struct plan *
copy_plan(struct arena *a, const struct plan *from)
{
    struct plan *p = arena_dup(a, from, sizeof *from);
    p->program = arena_dup(a, from->program, sizeof *from->program);
    copy_program(a, p->program);
    p->device = COPY(a, p->device, p->ndevice);
    p->task = COPY(a, p->task, p->ntask);
    for (int32_t i = 0; i < p->ntask; i++) copy_task(a, &p->task[i]);
    p->nlocal = COPY(a, p->nlocal, p->nthread);
    p->local = COPY(a, p->local, p->nthread);
    p->nact = COPY(a, p->nact, p->nthread);
    for (int32_t t = 0; t < p->nthread; t++) p->local[t] = COPY(a, p->local[t], p->nlocal[t]);
    p->leaf_part = COPY(a, p->leaf_part, p->nleaf_part);
    p->root_part = COPY(a, p->root_part, p->nroot_part);
    p->leaf_first = COPY(a, p->leaf_first, p->program->nleaf);
    p->root_first = COPY(a, p->root_first, p->program->nroot);
    p->overwrites = COPY(a, p->overwrites, p->program->nroot);
    p->shared = COPY(a, p->shared, p->program->nroot);
    p->move = COPY(a, p->move, p->nmove);
    for (int32_t i = 0; i < p->nmove; i++) {
        const struct plan_move *was = p->move[i];
        p->move[i] = arena_dup(a, was, sizeof *was);
        if (was->by) p->move[i]->by = COPY(a, was->by, 1);
        for (int32_t t = 0; t < p->ntask; t++)
            if (task_hop(&p->task[t]) == was) p->task[t].move.of = p->move[i];
    }
    p->arena = p->program->arena = *a;
    return p;
}

/* ---- listing every number in a plan ---- */

struct field {
    const char *name;
    int64_t mutants, refused, right;
};
struct slot {
    void *at;
    uint8_t bytes, field;
    bool is_bool, is_signed, is_kind;
};
struct slots {
    struct slot *slot;
    int n, capacity;
};

enum { MOST_FIELDS = 250 };
static struct field field[MOST_FIELDS];
static int nfield;

static int
field_index(const char *name)
{
    for (int i = 0; i < nfield; i++)
        if (field[i].name == name || !strcmp(field[i].name, name)) return i;
    assert(nfield < MOST_FIELDS);
    field[nfield].name = name;
    return nfield++;
}

static void
add_slot(struct slots *s, const char *name, const void *at, size_t bytes, bool is_bool, bool is_signed)
{
    if (s->n == s->capacity) {
        s->capacity = s->capacity ? 2 * s->capacity : 1024;
        s->slot = realloc(s->slot, sizeof(*s->slot) * (size_t)s->capacity);
    }
    s->slot[s->n++] =
        (struct slot){(void *)(uintptr_t)at, (uint8_t)bytes, (uint8_t)field_index(name), is_bool, is_signed, false};
}

#define IS_BOOL(x)       _Generic((x), bool : true, default : false)
#define IS_SIGNED(x)     _Generic((x), int8_t : true, int16_t : true, int32_t : true, int64_t : true, default : false)
#define SLOT(s, name, x) add_slot(s, name, &(x), sizeof(x), IS_BOOL(x), IS_SIGNED(x))

static void
type_slots(struct slots *s, const struct type *t, const char *dtype, const char *ndim, const char *dim)
{
    SLOT(s, dtype, t->dtype);
    SLOT(s, ndim, t->ndim);
    for (int d = 0; d < t->ndim; d++) SLOT(s, dim, t->dim[d]);
}

static void
view_slots(struct slots *s, const struct view *v, const char *shape, const char *stride)
{
    SLOT(s, shape, v->dtype);
    SLOT(s, shape, v->ndim);
    for (int d = 0; d < v->ndim; d++) SLOT(s, shape, v->dim[d]);
    for (int d = 0; d < v->ndim; d++) SLOT(s, stride, v->stride[d]);
}

static void
port_slots(struct slots *s, const struct task *t)
{
    for (int32_t k = 0; k < t->nin; k++) {
        SLOT(s, "in_port.task", t->in[k].task);
        SLOT(s, "in_port.out", t->in[k].out);
        SLOT(s, "in_port.hold", t->in[k].hold);
        SLOT(s, "in_port.need", t->in[k].need);
        SLOT(s, "in_port.fan", t->in[k].fan);
        SLOT(s, "in_port.token", t->in[k].token);
    }
    for (int32_t k = 0; k < t->nout; k++) {
        const struct out_port *o = &t->out[k];
        SLOT(s, "out_port.control", o->control);
        SLOT(s, "out_port.nreg", o->nreg);
        SLOT(s, "out_port.every", o->every);
        SLOT(s, "out_port.bytes", o->bytes);
        SLOT(s, "where.kind", o->where.kind);
        SLOT(s, "where.index", o->where.index);
        SLOT(s, "where.offset", o->where.offset);
        SLOT(s, "where.stride", o->where.stride);
        SLOT(s, "where.nberth", o->where.nact_offset);
        for (int32_t b = 0; b < o->where.nact_offset; b++) SLOT(s, "where.berth", o->where.berth[b]);
        SLOT(s, "out_port.shared", o->shared);
        SLOT(s, "out_port.nfan", o->nfan);
        for (int32_t f = 0; f < o->nfan; f++) {
            SLOT(s, "fan.thread", o->fan[f].thread);
            SLOT(s, "fan.nreader", o->fan[f].nreader);
            SLOT(s, "fan.nissued", o->fan[f].nissued);
            for (int32_t r = 0; r < o->fan[f].nreader; r++) {
                SLOT(s, "reader.task", o->fan[f].reader[r].task);
                SLOT(s, "reader.port", o->fan[f].reader[r].port);
            }
        }
    }
}

static void
move_slots(struct slots *s, const struct box_move *m)
{
    for (int d = 0; m->slice && d < m->view->ndim; d++) {
        SLOT(s, "box_move.slice", m->slice->lo[d]);
        SLOT(s, "box_move.slice", m->slice->hi[d]);
    }
    SLOT(s, "box_move.verb", m->verb);
    SLOT(s, "box_move.reduce", m->reduce);
    SLOT(s, "box_move.nfrom", m->nfrom);
    SLOT(s, "box_move.skip", m->skip);
    view_slots(s, m->view, "box_move.view", "box_move.view.stride");
    for (int32_t i = 0; i < m->nfrom; i++) {
        SLOT(s, "box_from.arg", m->from[i].arg);
        SLOT(s, "box_from.skip", m->from[i].skip);
        view_slots(s, m->from[i].view, "box_from.view", "box_from.view.stride");
    }
}

static void
ref_slots(struct slots *s, const char *name, const struct ref *r)
{
    SLOT(s, name, r->kind);
    SLOT(s, name, r->out);
    SLOT(s, name, r->index);
}

static void
chain_slots(struct slots *s, const struct plan_chain *c)
{
    SLOT(s, "chain.nstep", c->nstep);
    SLOT(s, "chain.nin", c->nin);
    SLOT(s, "chain.nout", c->nout);
    for (int32_t i = 0; i < c->nstep; i++) SLOT(s, "chain.member", c->member[i]);
    for (int32_t k = 0; k < c->nout; k++) ref_slots(s, "chain.live_out", &c->live_out[k]);
    for (int32_t i = 0; i < c->nin; i++) ref_slots(s, "chain.in", &c->in[i]);
}

static void
member_slots(struct slots *s, const struct move_comm_rank *m)
{
    SLOT(s, "move_comm_rank.comm_rank", m->comm_rank);
    SLOT(s, "move_comm_rank.numel", m->numel);
    SLOT(s, "move_comm_rank.npack", m->npack);
    SLOT(s, "move_comm_rank.nunpack", m->nunpack);
    for (int32_t i = 0; i < m->npack + m->nunpack; i++) {
        const struct comm_rank_copy *c = i < m->npack ? &m->pack[i] : &m->unpack[i - m->npack];
        SLOT(s, "comm_rank_copy.from_skip", c->from_skip);
        SLOT(s, "comm_rank_copy.to_skip", c->to_skip);
        view_slots(s, c->from, "comm_rank_copy.from", "comm_rank_copy.from.stride");
        view_slots(s, c->to, "comm_rank_copy.to", "comm_rank_copy.to.stride");
    }
}

static void
task_slots(struct slots *s, const struct task *t)
{
    SLOT(s, "task.kind", t->kind);
    s->slot[s->n - 1].is_kind = true;
    SLOT(s, "task.thread", t->thread);
    SLOT(s, "task.phase", t->phase);
    SLOT(s, "task.turn", t->turn);
    SLOT(s, "task.stream", t->stream);
    SLOT(s, "task.lead", t->lead);
    SLOT(s, "task.device", t->device);
    SLOT(s, "task.node", t->node);
    SLOT(s, "task.pos", t->pos);
    SLOT(s, "task.nact", t->nact);
    SLOT(s, "task.priority", t->priority);
    SLOT(s, "task.nin", t->nin);
    SLOT(s, "task.nout", t->nout);
    SLOT(s, "task.narg", t->narg);
    SLOT(s, "task.nresult", t->nresult);
    SLOT(s, "task.updates", t->updates);
    SLOT(s, "task.looks", t->looks);
    SLOT(s, "task.channel", t->channel);
    if (task_hop(t)) {
        SLOT(s, "task_move.stage", t->move.stage);
        SLOT(s, "task_move.nstep", t->move.nstep);
        SLOT(s, "task_move.received", t->move.received);
        for (int32_t i = 0; i < t->move.nstep; i++) move_slots(s, &t->move.step[i]);
        if (t->move.member) member_slots(s, t->move.member);
    } else if (is_node(t)) {
        if (t->chain) chain_slots(s, t->chain);
    } else {
        if (t->type) type_slots(s, t->type, "task.type", "task.type", "task.type");
        if (t->source) view_slots(s, t->source, "task.source", "task.source.stride");
    }
    port_slots(s, t);
    for (int32_t i = 0; i < t->narg; i++) {
        SLOT(s, "arg.kind", t->arg[i].kind);
        SLOT(s, "arg.index", t->arg[i].index);
        SLOT(s, "arg.skip", t->arg[i].skip);
        SLOT(s, "arg.piece_stride", t->arg[i].piece_stride);
    }
}

static void
program_slots(struct slots *s, const struct program *g)
{
    SLOT(s, "program.nleaf", g->nleaf);
    SLOT(s, "program.nnumber", g->nnumber);
    SLOT(s, "program.nnode", g->nnode);
    SLOT(s, "program.nroot", g->nroot);
    SLOT(s, "program.pieces", g->pieces);
    for (int32_t i = 0; i < g->nleaf; i++) {
        type_slots(s, &g->leaf[i].type, "prog_leaf.type.dtype", "prog_leaf.type.ndim", "prog_leaf.type.dim");
        SLOT(s, "prog_leaf.piece", g->leaf[i].piece);
    }
    for (int32_t i = 0; i < g->nnode; i++) {
        const struct prog_node *n = &g->node[i];
        SLOT(s, "prog_node.nin", n->nin);
        SLOT(s, "prog_node.nout", n->nout);
        SLOT(s, "prog_node.phase", n->phase);
        SLOT(s, "prog_node.piece", n->piece);
        SLOT(s, "prog_node.accumulate", n->accumulate);
        SLOT(s, "prog_node.recompute", n->recompute);
        for (int32_t k = 0; k < n->nin; k++) {
            SLOT(s, "ref.kind", n->in[k].kind);
            SLOT(s, "ref.out", n->in[k].out);
            SLOT(s, "ref.index", n->in[k].index);
        }
        for (int k = 0; n->attr && k < op_nattr(n->op); k++) {
            SLOT(s, "attr.i", n->attr[k].i);
            SLOT(s, "attr.n", n->attr[k].n);
            for (int32_t e = 0; e < n->attr[k].n; e++) SLOT(s, "attr.list", n->attr[k].list[e]);
        }
        for (int32_t k = 0; k < n->nout; k++)
            type_slots(s, &n->type[k], "prog_node.type.dtype", "prog_node.type.ndim", "prog_node.type.dim");
    }
    for (int32_t k = 0; k < g->nroot; k++) {
        SLOT(s, "prog_root.ref.kind", g->root[k].ref.kind);
        SLOT(s, "prog_root.ref.out", g->root[k].ref.out);
        SLOT(s, "prog_root.ref.index", g->root[k].ref.index);
        SLOT(s, "prog_root.overwrites_leaf", g->root[k].overwrites_leaf);
        SLOT(s, "prog_root.join", g->root[k].join);
    }
}

static void
part_slots(struct slots *s, const struct plan_part *part)
{
    SLOT(s, "plan_part.index", part->index);
    SLOT(s, "plan_part.pos", part->pos);
    SLOT(s, "plan_part.bytes", part->bytes);
    type_slots(s, &part->type, "plan_part.type", "plan_part.type", "plan_part.type");
}

static void
plan_slots(struct slots *s, const struct plan *p)
{
    s->n = 0;
    SLOT(s, "plan.nthread", p->nthread);
    SLOT(s, "plan.ndevice", p->ndevice);
    SLOT(s, "plan.ntask", p->ntask);
    SLOT(s, "plan.pieces", p->pieces);
    SLOT(s, "plan.group", p->group);
    SLOT(s, "plan.round", p->round);
    SLOT(s, "plan.nleaf_part", p->nleaf_part);
    SLOT(s, "plan.nroot_part", p->nroot_part);
    SLOT(s, "plan.nmove", p->nmove);
    for (int32_t d = 0; d < p->ndevice; d++) {
        SLOT(s, "plan_device.kind", p->device[d].kind);
        SLOT(s, "plan_device.thread", p->device[d].thread);
        SLOT(s, "plan_device.rank", p->device[d].rank);
        SLOT(s, "plan_device.arena_bytes", p->device[d].arena_bytes);
        SLOT(s, "plan_device.scratch", p->device[d].scratch);
        SLOT(s, "plan_device.scratch_bytes", p->device[d].scratch_bytes);
    }
    for (int32_t t = 0; t < p->nthread; t++) {
        SLOT(s, "plan.nlocal", p->nlocal[t]);
        SLOT(s, "plan.nact", p->nact[t]);
        for (int32_t i = 0; i < p->nlocal[t]; i++) SLOT(s, "plan.local", p->local[t][i]);
    }
    for (int32_t i = 0; i < p->nmove; i++) {
        SLOT(s, "plan_move.step", p->move[i]->step);
        SLOT(s, "plan_move.operand", p->move[i]->operand);
        SLOT(s, "plan_move.hop", p->move[i]->hop);
        const struct collective *by = p->move[i]->by;
        if (!by) continue;
        SLOT(s, "collective.verb", by->verb);
        SLOT(s, "collective.reduce", by->reduce);
        SLOT(s, "collective.dtype", by->dtype);
        SLOT(s, "collective.gives", by->gives);
        SLOT(s, "collective.packs", by->packs);
        SLOT(s, "collective.unpacks", by->unpacks);
        SLOT(s, "collective.nsent", by->nsent);
        SLOT(s, "collective.ncame", by->ncame);
        SLOT(s, "collective.axes", by->axes);
        SLOT(s, "collective.size", by->size);
    }
    for (int32_t i = 0; i < p->ntask; i++) task_slots(s, &p->task[i]);
    for (int32_t i = 0; i < p->nleaf_part; i++) part_slots(s, &p->leaf_part[i]);
    for (int32_t i = 0; i < p->nroot_part; i++) part_slots(s, &p->root_part[i]);
    for (int32_t i = 0; i < p->program->nleaf; i++) SLOT(s, "plan.leaf_first", p->leaf_first[i]);
    for (int32_t k = 0; k < p->program->nroot; k++) {
        SLOT(s, "plan.root_first", p->root_first[k]);
        SLOT(s, "plan.overwrites", p->overwrites[k]);
        SLOT(s, "plan.shared", p->shared[k]);
    }
    program_slots(s, p->program);
}

/* ---- changing a field ---- */

enum change { MORE, LESS, ZERO, LARGE, NCHANGE };
static const char *const change_text[] = {"one more", "one less", "0", "large"};

static const struct task_kind *const kinds[] = {
#define KIND(name) &kind_##name,
#include "actors/plan/model/kinds.def"
#undef KIND
};

/* Returns the value of a field. The kind of a task is a pointer; its value is its index in the list of kinds. */
static int64_t
get(const struct slot *s)
{
    int64_t v = 0;
    for (int64_t i = 0; s->is_kind && i < (int64_t)countof(kinds); i++)
        if (!memcmp(s->at, &kinds[i], sizeof kinds[i])) return i;
    memcpy(&v, s->at, s->bytes);
    int shift = 64 - 8 * s->bytes;
    return s->is_signed ? (int64_t)((uint64_t)v << shift) >> shift : v;
}

static void
put(const struct slot *s, int64_t v)
{
    if (s->is_kind) {
        memcpy(s->at, &kinds[(v + (int64_t)countof(kinds)) % (int64_t)countof(kinds)], sizeof kinds[0]);
        return;
    }
    memcpy(s->at, &v, s->bytes);
}

static int64_t
changed(const struct slot *s, enum change c, int64_t v)
{
    if (s->is_kind) return c == ZERO ? 0 : c == LARGE ? v + 2 : c == MORE ? v + 1 : v - 1;
    static const int64_t large[] = {0, 255, 32767, 0, 0x7fffff00, 0, 0, 0, INT64_MAX / 3};
    if (s->is_bool) return !v;
    switch (c) {
    case MORE: return v + 1;
    case LESS: return v - 1;
    case ZERO: return 0;
    default: return large[s->bytes];
    }
}

/* Returns false if the changed plan passed the verifier but computed another result. */
static bool
try_mutant(struct engine *e, struct plan *p, const struct slot *s, enum change c, uint64_t want)
{
    int64_t was = get(s);
    struct field *f = &field[s->field];
    put(s, changed(s, c, was));
    if (get(s) == was) return true;
    bool fine = true;
    f->mutants++;
    int status = plan_verify(p);
    if (status) {
        fine = status == E_PLAN && strlen(err_text()) > 10;
        f->refused += fine;
    } else {
        fine = runs_greedily(p) && outcome(e, p) == want;
        f->right += fine;
    }
    if (!fine)
        diag("%s: %s (%lld) %s", f->name, change_text[c], (long long)was,
             status ? err_text() : "passed, computes otherwise");
    put(s, was);
    return fine;
}

/* Changes one random element of each field; if `all`, changes every element. */
static int
try_plan(struct engine *e, struct plan *p, struct slots *s, uint64_t *rng, bool all)
{
    int wrong = 0;
    uint64_t want = outcome(e, p);
    if (!want || !runs_greedily(p)) return 1;
    plan_slots(s, p);
    int first[MOST_FIELDS], count[MOST_FIELDS] = {0};
    for (int i = 0; i < s->n; i++)
        if (next_random(rng) % (uint64_t)++count[s->slot[i].field] == 0) first[s->slot[i].field] = i;
    for (int i = 0; all && i < s->n; i++)
        for (int c = 0; c < NCHANGE; c++) wrong += !try_mutant(e, p, &s->slot[i], (enum change)c, want);
    for (int f = 0; !all && f < nfield; f++)
        if (count[f]) wrong += !try_mutant(e, p, &s->slot[first[f]], (enum change)(next_random(rng) % NCHANGE), want);
    return wrong;
}

static void
test_mutants(struct rille_session *s, uint64_t seed, int nplan, int nall)
{
    struct engine *e = simulator(seed);
    struct slots slots = {0};
    int made = 0, deadlock = 0, refused = 0, wrong = 0, invalid = 0, batched = 0, sliced = 0;
    for (int i = 0; made < nplan; i++) {
        struct plan *p = random_plan(s, &seed, i % 3 == 2);
        if (!p) {
            if (!strncmp(err_text(), "plan cannot finish", 18))
                deadlock++;
            else if (!strncmp(err_text(), "plan: ", 6) && invalid++ < 5)
                diag("%s", err_text());
            refused++;
            continue;
        }
        struct arena a = {0};
        struct plan *copy = copy_plan(&a, p);
        invalid += plan_verify(copy) != 0;
        wrong += try_plan(e, copy, &slots, &seed, made < nall);
        batched += p->pieces > 1;
        for (int32_t k = 0; k < p->program->nroot; k++) sliced += p->shared[k];
        made++;
        arena_fini(&a);
        plan_free(&p);
    }
    int64_t mutants = 0, no = 0, right = 0, untried = 0;
    for (int f = 0; f < nfield; f++) {
        mutants += field[f].mutants;
        no += field[f].refused;
        right += field[f].right;
        untried += field[f].mutants == 0;
        if (getenv("VERBOSE"))
            diag("%-28s %7lld refused %7lld ran right %6lld", field[f].name, (long long)field[f].mutants,
                 (long long)field[f].refused, (long long)field[f].right);
    }
    diag("%d plans (%d in pieces; %d programs cannot be planned, %d of them would deadlock), %d updates on slices",
         made, batched, refused, deadlock, sliced);
    diag("%d fields, %lld mutants: %lld refused, %lld ran right", nfield, (long long)mutants, (long long)no,
         (long long)right);
    ok(invalid == 0, "each compiled plan is valid, or refused as a deadlock");
    ok(covered(sliced > 0), "some updates write slices of a shared buffer");
    ok(wrong == 0, "a plan with one number changed is refused or computes the same bytes");
    ok(covered(no > right && right > 0), "most changes are refused, some are harmless");
    ok(covered(untried == 0), "every field was changed");
    free(slots.slot);
    engine_free(&e);
}

/* ---- changes of several numbers at once ---- */

/* Changes an operand's layout at random. The verifier must report an illegal signature, and accept no wrong plan. */
static void
test_layouts(struct rille_session *s, uint64_t seed)
{
    int illegal = 0, refused = 0, right = 0, wrong = 0;
    struct engine *e = simulator(seed);
    for (int i = 0, cases = share_of(300, &seed); i < cases; i++) {
        struct plan *p = random_plan(s, &seed, false);
        if (!p) continue;
        uint64_t want = outcome(e, p);
        struct maker m = {.s = s, .rng = next_random(&seed)};
        for (int32_t k = 0; k < p->program->nnode; k++) {
            struct prog_node *n = &p->program->node[k];
            const struct layout **l = (const struct layout **)(uintptr_t)&n->want[0], *was = *l;
            if (!was) continue;
            *l = random_layout(&m, was->place, true);
            if (plan_verify(p))
                refused++, illegal += strstr(err_text(), "not a legal signature") != NULL;
            else if (outcome(e, p) == want)
                right++;
            else
                wrong++;
            *l = was;
        }
        plan_free(&p);
    }
    diag("%d layouts: %d refused, %d of them as no signature; %d right, %d wrong", refused + right + wrong, refused,
         illegal, right, wrong);
    ok(covered(illegal > 0) && wrong == 0, "a changed operand layout is refused or computes the same bytes");
    engine_free(&e);
}

/* Plans h = 2 x; s = sum of h over micro-batches; y = h + s. So h must be kept for every micro-batch until s. */
static struct plan *
reconvergent(struct rille_session *s, int32_t lag, int *status)
{
    struct maker m = {.s = s, .n = 4};
    const struct place *p;
    assert(place_new(s->atlas, DEV_CPU, 1, (int32_t[]){1}, (int32_t[]){0}, &p) == 0);
    const struct layout *l = layout_broadcast(s->atlas, p);
    struct val *x = leaf(&m, l), *sum, *plan_root;
    struct val *h = call(&m, "mul", 2, (struct val *[]){x, build_number(s, false, 2, 0)});
    assert(build_to_global(&s->context, h, l, &sum) == 0);
    plan_root = call(&m, "add", 2, (struct val *[]){h, sum});
    assert(collect(s, 1, &plan_root, COLLECT_RUN) == 0);
    struct program *g = collection_program(s, &s->collection);
    struct plan *plan;
    g->pieces = 3;
    g->lag = lag;
    g->threads = 1;
    g->leaf[0].piece = g->root[0].join = true;
    for (int32_t i = 0; i < g->nnode; i++) {
        g->node[i].piece = true;
        g->node[i].line = (struct line){.file = "a.lua", .line = i + 1};
        g->node[i].phase = g->node[i].op == op_find("add") ? PHASE_BACKWARD : PHASE_FORWARD;
        g->node[i].accumulate = g->node[i].op == op_find("to_global");
    }
    *status = plan_compile(g, s->atlas, &plan);
    build_settle(s, 0);
    return plan;
}

static void
test_deadlock(struct rille_session *s)
{
    int status;
    struct plan *p = reconvergent(s, 0, &status);
    is_int(status, 0, "a value that waits for the sum of its micro-batches runs with a register for each");
    plan_free(&p);
    p = reconvergent(s, 1, &status);
    is_int(status, E_PLAN, "with one register the plan would deadlock and is refused");
    ok(strstr(err_text(), "plan cannot finish: mul (a.lua:1) on cpu:0, 1 of 3 acts done, waits for a free register of "
                          "result 0 (it has 1)"),
       "the error names the blocked producer");
    ok(strstr(err_text(), "add (a.lua:3) on cpu:0, 0 of 3 acts done, waits for accumulate (a.lua:1) on cpu:0"),
       "the error names the blocked consumer");
    diag("%s", err_text());
    plan_free(&p);
}

/* A plan with two equal calls; the second is declared a recomputation of the first. */
struct twice {
    const char *op[2];
    int operand[2]; /* by call: index of the leaf that the call reads */
    const char *name;
};
static int
recomputed(struct rille_session *s, const struct twice *c)
{
    struct maker m = {.s = s, .n = 4};
    const struct place *p;
    assert(place_new(s->atlas, DEV_CPU, 1, (int32_t[]){1}, (int32_t[]){0}, &p) == 0);
    const struct layout *l = layout_broadcast(s->atlas, p);
    struct val *x[2] = {leaf(&m, l), leaf(&m, l)}, *made[2], *sum;
    for (int i = 0; i < 2; i++) made[i] = call(&m, c->op[i], 1, &x[c->operand[i]]);
    sum = call(&m, "add", 2, made);
    assert(collect(s, 1, &sum, COLLECT_RUN) == 0);
    struct program *g = collection_program(s, &s->collection);
    struct plan *plan;
    g->threads = 1;
    g->node[1].recompute = 1;
    int status = plan_compile(g, s->atlas, &plan);
    plan_free(&plan);
    build_settle(s, 0);
    return status;
}

static void
test_recomputed(struct rille_session *s)
{
    static const struct twice same = {{"relu", "relu"}, {0, 0}, ""},
                              others[] = {{{"relu", "tanh"}, {0, 0}, "a recomputation by another operator is refused"},
                                          {{"relu", "relu"}, {0, 1}, "a recomputation from another value is refused"}};
    is_int(recomputed(s, &same), 0, "a recomputation by the same call on the same values passes");
    for (size_t i = 0; i < countof(others); i++) {
        is_int(recomputed(s, &others[i]), E_PLAN, others[i].name);
        ok(strstr(err_text(), "recomputes node 0, but by another call"), "the error says that the calls differ");
    }
}

/* Gives two registers of a device the same offset. Two that can be live at once must be rejected. */
static void
test_shared(struct rille_session *s, uint64_t seed)
{
    int tried = 0, refused = 0, harmless = 0;
    struct engine *e = simulator(seed);
    for (int i = 0, cases = share_of(200, &seed); i < cases; i++) {
        struct plan *p = random_plan(s, &seed, i % 3 == 2);
        if (!p) continue;
        uint64_t want = outcome(e, p);
        for (int32_t a = 0; a < p->ntask; a++)
            for (int32_t b = a + 1; b < p->ntask; b++) {
                struct out_port *x = &p->task[a].out[0], *y = &p->task[b].out[0];
                struct where *at = &x->where, *to = &y->where;
                bool both = p->task[a].device == p->task[b].device && at->kind == IN_ARENA && to->kind == IN_ARENA &&
                            x->bytes > 0 && y->bytes > 0;
                if (!both || at->offset == to->offset || x->nreg != y->nreg || x->bytes != y->bytes) continue;
                int64_t was = to->offset;
                to->offset = at->offset;
                tried++;
                if (plan_verify(p))
                    refused++;
                else
                    harmless += outcome(e, p) == want;
                to->offset = was;
            }
        plan_free(&p);
    }
    diag("%d pairs: %d refused, %d never live together", tried, refused, harmless);
    ok(covered(refused > 0) && refused + harmless == tried,
       "two registers may share bytes only if their live ranges are disjoint");
    engine_free(&e);
}

/* Checks that the printed plan does not depend on the number of threads. */
static void
test_text(struct rille_session *s)
{
    struct str text[2] = {{0}};
    for (int i = 0; i < 2; i++) {
        struct maker m = {.s = s, .n = 4};
        const struct layout *l[2];
        for (int k = 0; k < 2; k++) {
            const struct place *p;
            int32_t two = 2, rank[] = {2 * k, 2 * k + 1};
            struct sbp sbp = {.kind = k ? SBP_B : SBP_S};
            assert(place_new(s->atlas, DEV_CPU, 1, &two, rank, &p) == 0 &&
                   layout_new(s->atlas, p, &sbp, NULL, &l[k]) == 0);
        }
        rille_at(s, "a.lua", 3, NULL, 0);
        struct val *x = leaf(&m, l[0]), *y = call(&m, "relu", 1, &x), *z;
        assert(build_to_global(&s->context, y, l[1], &z) == 0);
        rille_at(s, "a.lua", 4, NULL, 0);
        z = call(&m, "matmul", 2, (struct val *[]){z, leaf(&m, l[1])});
        assert(collect(s, 1, &z, COLLECT_RUN) == 0);
        struct program *g = collection_program(s, &s->collection);
        struct plan *plan;
        g->threads = i ? 3 : 1;
        assert(plan_compile(g, s->atlas, &plan) == 0);
        plan_print(plan, false, &text[i]);
        plan_free(&plan);
        build_settle(s, 0);
    }
    is_str(str_text(&text[1]), str_text(&text[0]), "the printed plan does not depend on the number of threads");
    is_str(
        str_text(&text[0]),
        "plan: 1 micro-batch, 4 devices, 8 tasks, 8 registers\n"
        "    0-1  relu                   cpu[0-1]      f32{2, 4}           32 B      from leaf 0; a.lua:3\n"
        "    2-3  box exchange           cpu[2-3]      f32{4, 4}           64 B      from 0-1; a.lua:3\n"
        "    4-5  join                   cpu[2-3]      f32{4, 4}           0 B       from 2-3; a.lua:3\n"
        "    6-7  matmul                 cpu[2-3]      f32{4, 4}           64 B      from 4-5, leaf 1; to root 0; "
        "a.lua:4\n"
        "move  step 1, operand 0, hop 0: exchange  f32{4, 4}  S(0) on cpu[0, 1] -> B on cpu[2, 3]: 128 B, bound 128 B\n"
        "moved 128 B\n"
        "memory cpu[0-1]: 1 register, 32 B each\n"
        "memory cpu[2]: 3 registers, 128 B\n"
        "memory cpu[3]: 3 registers, 64 B\n",
        "the printed plan is as expected");
    str_free(&text[0]);
    str_free(&text[1]);
}

int
main(void)
{
    uint64_t seed = seed_of(5);
    bool more = getenv("RILLE_LONG") != NULL;
    struct rille_options o = {.devices = "cpu:4,async:4", .threads = 1, .bus = "zmq"};
    struct rille_session *s;
    alarm(more ? 2 * HANG : HANG);
    if (rille_open(&o, &s)) return 1;
    test_text(s);
    test_recomputed(s);
    test_deadlock(s);
    test_shared(s, seed);
    test_layouts(s, seed);
    test_mutants(s, seed, share_some(more ? 20000 : 1000, 125, &seed), share_some(more ? 1000 : 40, 10, NULL));
    other_kind = DEV_ASYNC;
    test_shared(s, seed + 1);
    test_mutants(s, seed + 1, share_some(more ? 20000 : 500, 62, NULL), share_some(more ? 1000 : 20, 5, NULL));
    collecting_begin(true);
    test_mutants(s, seed + 2, share_some(more ? 10000 : 300, 37, NULL), share_some(more ? 500 : 20, 5, NULL));
    rille_close(&s);
    return done();
}
