/* intern.c - views that are equal are one, and ranks of a node that are alike share its kernel.
 *
 * A view is kept by its sizes and strides alone: where a part lies in the whole
 * follows from its layout (part_placed). A kernel is made for views; it serves
 * all ranks whose views are the same, on one thread: kernels of one thread never
 * run at the same time, and what a variant keeps (oneDNN's memory objects) is for one
 * run at a time. Operators whose values depend on where a part lies have a kernel
 * for each place. */
#include "actors/plan/lower.h"

#include "runtime/device.h"

#include <stdlib.h>
#include <string.h>

/* ---- views ---- */

static uint64_t
hash_of(const struct view *v)
{
    uint64_t h = hash_number(0x2545f4914f6cdd1dull, (uint64_t)v->dtype << 8 | v->ndim);
    for (int d = 0; d < v->ndim; d++) h = hash_number(hash_number(h, (uint64_t)v->dim[d]), (uint64_t)v->stride[d]);
    return h;
}

const struct view *
intern_view(struct lower *l, const struct view *v)
{
    uint64_t hash = hash_of(v);
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

void
kernels_begin(struct kernels *k, struct lower *l, int32_t nview, bool placed)
{
    *k = (struct kernels){.l = l, .nview = nview, .placed = placed};
    k->view = ARENA_ARRAY(&l->tmp, const struct view *, nview);
    k->at = ARENA_ARRAY(&l->tmp, struct view, nview);
}

/* Which kernels may not run at the same time: those of a thread; of devices that work later, those of a device. */
static int32_t
runner_of(const struct lower *l, int32_t device)
{
    const struct plan_device *d = &l->plan->device[device];
    return d->kind == DEV_CPU || d->kind == DEV_META ? d->thread : l->plan->nthread + device;
}

struct exec *
kernels_find(const struct kernels *k, int32_t device)
{
    size_t bytes = sizeof *k->view * (size_t)k->nview;
    for (int32_t i = 0; i < k->n && !k->placed; i++)
        if (k->made[i].runner == runner_of(k->l, device) && !memcmp(k->made[i].view, k->view, bytes))
            return k->made[i].exec;
    return NULL;
}

/* The plan owns it from now on. */
void
kernels_add(struct kernels *k, int32_t device, struct exec *e)
{
    struct lower *l = k->l;
    struct plan *p = l->plan;
    GROW(p->exec, p->nexec + 1, l->exec_capacity);
    p->exec[p->nexec++] = e;
    if (k->placed) return;
    ARENA_GROW(&l->tmp, k->made, k->n + 1, k->capacity);
    k->made[k->n++] = (struct made_kernel){
        .runner = runner_of(l, device),
        .view = arena_dup(&l->tmp, k->view, sizeof *k->view * (size_t)k->nview),
        .exec = e,
    };
}
