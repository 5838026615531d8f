/* intern.c - interns equal views, and shares kernels between tasks that compute the same function.
 *
 * Interned views have sizes and strides, but no position in the global tensor, because the position follows from
 * the layout (part_placed). All tasks of one thread with equal calls (or chains) and equal views use one kernel,
 * whatever their node and rank. So equal layers of a network share kernels. Sharing is safe, because kernels of one
 * thread never run concurrently, and the state of a kernel (oneDNN's memory objects, for example) is used only
 * during a run. Operators whose values depend on a shard's position have one kernel per task. */
#include "actors/plan/lower/intern.h"

#include "runtime/device/device.h"

#include <stdlib.h>
#include <string.h>

/* ---- views ---- */

static uint64_t
view_hash(const struct view *v)
{
    uint64_t h = hash_number(0x2545f4914f6cdd1dull, (uint64_t)v->dtype << 8 | v->ndim);
    for (int d = 0; d < v->ndim; d++) h = hash_number(hash_number(h, (uint64_t)v->dim[d]), (uint64_t)v->stride[d]);
    return h;
}

const struct view *
intern_view(struct lower *l, const struct view *v)
{
    uint64_t hash = view_hash(v);
    uint32_t at = 0;
    for (const struct view *old; (old = hash_next(&l->views, hash, &at));)
        if (view_same(old, v)) return old;
    struct view *made = ARENA_NEW(&l->plan->arena, struct view);
    *made = (struct view){.dtype = v->dtype, .ndim = v->ndim};
    memcpy(made->dim, v->dim, sizeof v->dim[0] * v->ndim);
    memcpy(made->stride, v->stride, sizeof v->stride[0] * v->ndim);
    l->views.arena = &l->tmp;
    hash_add(&l->views, hash, made);
    return made;
}

/* ---- kernels ---- */

static void
add_number(struct str *s, int64_t x)
{
    str_addn(s, &x, sizeof x);
}

static void
add_type(struct str *s, const struct type *t)
{
    add_number(s, t->dtype << 16 | t->ndim << 8 | t->weak);
    str_addn(s, t->dim, sizeof t->dim[0] * t->ndim);
}

static void
add_attr(struct str *s, const struct attr *a)
{
    add_number(s, a->set);
    add_number(s, a->n);
    add_number(s, a->i);
    str_addn(s, &a->f, sizeof a->f);
    str_addn(s, a->list, sizeof a->list[0] * (size_t)MAX(0, MIN(a->n, ATTR_LIST)));
}

static void
print_step_key(struct str *s, const struct fuse_step *step)
{
    const struct call *c = step->call;
    add_number(s, (intptr_t)c->op);
    add_number(s, c->nin);
    add_number(s, c->nout);
    add_number(s, step->out);
    add_number(s, step->others);
    for (int i = 0; i < c->nin; i++) add_type(s, &c->in[i]);
    for (int k = 0; k < c->nout; k++) add_type(s, &c->out[k]);
    for (int k = 0; k < op_nattr(c->op); k++) add_attr(s, &c->attr[k]);
    for (int i = 0; i < MIN(c->nin, OP_OPERAND); i++) {
        add_number(s, step->arg[i].step);
        add_number(s, step->arg[i].index);
    }
}

void
kernels_begin(struct kernels *k, struct lower *l, int device, int nin, int nout)
{
    *k = (struct kernels){.l = l, .device = device, .nin = nin, .nout = nout};
    k->view = ARENA_ARRAY(&l->tmp, const struct view *, nin + nout);
    k->at = ARENA_ARRAY(&l->tmp, struct view, nin + nout);
    k->like = (struct kcall){.in = k->at, .out = k->at + nin};
}

void
kernels_of(struct kernels *k, int nstep, const struct fuse_step *step)
{
    const struct kcall *like = &k->like;
    struct str s = {0};
    k->nstep = nstep;
    k->step = step;
    for (int i = 0; i < nstep; i++) k->placed |= op_is_placed(step[i].call->op);
    if (k->placed) return;
    for (int i = 0; i < nstep; i++) print_step_key(&s, &step[i]);
    add_number(&s, k->device);
    add_number(&s, like->threads);
    add_number(&s, like->find_nan << 2 | like->adds << 1 | like->unread);
    add_number(&s, like->pieces.n);
    add_number(&s, like->pieces.cut);
    add_number(&s, like->pieces.of);
    k->l->calls.arena = &k->l->tmp;
    k->what = hash_keep(&k->l->calls, str_text(&s), s.len);
    str_free(&s);
}

/* Returns the number of the sequence in which a kernel runs. Kernels of one sequence never run concurrently, so
 * tasks of a sequence may share a kernel. A sequence is a thread, or a device with asynchronous work. */
static int32_t
runner_of(const struct lower *l, int32_t device)
{
    const struct plan_device *d = &l->plan->device[device];
    return d->kind == DEV_CPU || d->kind == DEV_META ? d->thread : l->plan->nthread + device;
}

struct made_kernel {
    const void *what;
    int32_t runner;
    struct exec *exec;
    const struct view *view[];
};

/* Makes a kernel; the plan owns it. */
static int
make_kernel(const struct kernels *k, struct exec **e)
{
    struct lower *l = k->l;
    struct plan *p = l->plan;
    if (k->nstep > 1)
        TRY(exec_fused(k->nstep, k->step, k->nin, k->at, k->nout, k->at + k->nin, k->device, k->like.threads, e));
    else
        TRY(exec_new(&k->like, k->device, e));
    GROW(p->exec, p->nexec + 1, l->exec_capacity);
    p->exec[p->nexec++] = *e;
    return 0;
}

int
kernels_get(const struct kernels *k, int32_t device, struct exec **e)
{
    struct lower *l = k->l;
    int32_t runner = runner_of(l, device);
    size_t bytes = sizeof *k->view * (size_t)(k->nin + k->nout);
    uint64_t hash = hash_bytes((uintptr_t)k->what + (uint64_t)runner, k->view, bytes);
    uint32_t at = 0;
    if (k->placed) return make_kernel(k, e);
    for (struct made_kernel *m; (m = hash_next(&l->kernels, hash, &at));)
        if (m->what == k->what && m->runner == runner && !memcmp(m->view, k->view, bytes)) {
            *e = m->exec;
            return 0;
        }
    TRY(make_kernel(k, e));
    struct made_kernel *m = arena_alloc(&l->tmp, sizeof *m + bytes);
    *m = (struct made_kernel){.what = k->what, .runner = runner, .exec = *e};
    memcpy(m->view, k->view, bytes);
    l->kernels.arena = &l->tmp;
    hash_add(&l->kernels, hash, m);
    return 0;
}
