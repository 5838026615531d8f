/* method_group.c - computes updates or casts of several variables as one call. The calls differ only in their
 * variables. The results have the same bits as those of separate calls.
 *
 * Each member has its own kernel, and members run one after the other. On devices that compile kernels, members with
 * the same kernel are launched together. Operands and results are passed as for a chain of independent steps. */
#include "kernels/exec/method_group.h"
#include "kernels/exec/exec_inner.h"

#include "kernels/cuda/launch.h"
#include "runtime/base/error.h"
#include "runtime/device/device.h"

/* One call of the group. Part i of the exec computes member i, unless the member has a kernel that is launched
 * together with those of other members. */
struct group_member {
    struct cuda_launch *launch; /* kernel of this member; NULL: part i of the exec computes it */
    int from[OP_OPERAND];       /* index of each operand of the member among the group's operands; -1: absent */
    int to;                     /* index of the first result among the group's outputs */
};

bool
group_is(int nstep, const struct fuse_step *step)
{
    for (int i = 0; i < nstep; i++) {
        if (step[i].call->op != step[0].call->op || step[i].out < 0) return false;
        for (int k = 0; k < step[i].call->nin; k++)
            if (step[i].arg[k].step) return false;
    }
    return nstep > 1;
}

static int
make_member(struct exec *e, struct group_member *m, const struct fuse_step *s, struct exec **part, int device)
{
    bool bundled = device_kind(device)->flags & COMPILES && !kernel_checks();
    struct view seen[OP_OPERAND] = {{0}};
    m->to = s->out;
    for (int k = 0; k < s->call->nin; k++) {
        m->from[k] = s->call->in[k].dtype == DT_NONE ? -1 : s->arg[k].index;
        if (m->from[k] >= 0) seen[k] = e->in[m->from[k]];
    }
    struct kcall k = {.call = s->call, .in = seen, .out = e->out + s->out, .threads = e->k.threads};
    if (bundled) TRY(cuda_launch_bundled(&e->arena, &k, &m->launch));
    return m->launch ? 0 : exec_new(&k, device, part);
}

static int
make_group(struct exec *e, int device)
{
    int n = e->made.nstep;
    size_t scratch_bytes = 0;
    if (!e->fused || !group_is(n, e->made.step)) return 0;
    struct group_member *member = ARENA_ARRAY(&e->arena, struct group_member, n);
    e->part = ARENA_ARRAY(&e->arena, struct exec *, n);
    for (e->npart = 0; e->npart < n; e->npart++) {
        int i = e->npart;
        TRY(make_member(e, &member[i], &e->made.step[i], &e->part[i], device));
        if (e->part[i]) scratch_bytes = MAX(scratch_bytes, exec_scratch(e->part[i]));
    }
    const char *name = member->launch ? member->launch->source.engine : exec_variant(e->part[0]);
    return exec_accept(e, &method_group, name, member, scratch_bytes);
}

static int
run_members(const struct exec *e, void *const *in, void *const *out, const struct run_args *r)
{
    const struct group_member *member = e->own;
    struct cuda_bundle b;
    cuda_bundle_begin(&b, r->device);
    for (int i = 0; i < e->npart; i++) {
        const struct group_member *m = &member[i];
        void *own[OP_OPERAND];
        for (int k = 0; k < OP_OPERAND; k++) own[k] = m->from[k] >= 0 ? in[m->from[k]] : NULL;
        TRY(m->launch ? cuda_bundle_add(&b, m->launch, own, out + m->to)
                      : exec_on(e->part[i], own, out + m->to, r->scratch, r->device, r->piece, r->find));
    }
    return cuda_bundle_end(&b);
}

const struct method method_group = {.make = make_group, .run = run_members, .launches = exec_parts_launch};
