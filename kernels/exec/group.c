/* group.c - updates or casts of several variables as one call. */
#include "kernels/exec/group.h"

#include "kernels/cuda/launch.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"

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
group_member_make(struct arena *a, struct group_member *m, const struct fuse_step *s, const struct view *in,
                  const struct view *out, int device, int threads)
{
    bool bundled = device_kind(device)->flags & COMPILES && !(kernel_checks() & BY_REFERENCE);
    struct view seen[OP_OPERAND] = {{0}};
    m->to = s->out;
    for (int k = 0; k < s->call->nin; k++) {
        m->from[k] = s->call->in[k].dtype == DT_NONE ? -1 : s->arg[k].index;
        if (m->from[k] >= 0) seen[k] = in[m->from[k]];
    }
    struct kcall k = {.call = s->call, .in = seen, .out = out + s->out, .threads = threads};
    if (bundled) TRY(cuda_launch_bundled(a, &k, &m->launch));
    return m->launch ? 0 : exec_new(&k, device, &m->exec);
}

int
group_new(struct arena *a, int nstep, const struct fuse_step *step, const struct view *in, const struct view *out,
          int device, int threads, struct group **made)
{
    struct group *g = *made = ARENA_NEW(a, struct group);
    g->member = ARENA_ARRAY(a, struct group_member, nstep);
    for (g->n = 0; g->n < nstep; g->n++) {
        struct group_member *m = &g->member[g->n];
        TRY(group_member_make(a, m, &step[g->n], in, out, device, threads));
        if (m->exec) g->scratch_bytes = MAX(g->scratch_bytes, exec_scratch(m->exec));
    }
    return 0;
}

const char *
group_variant(const struct group *g)
{
    return g->member->launch ? g->member->launch->source.engine : exec_variant(g->member->exec);
}

int
group_run(const struct group *g, void *const *in, void *const *out, void *scratch, int device, uint64_t piece,
          struct finding *find)
{
    struct cuda_bundle b;
    cuda_bundle_begin(&b, device);
    for (const struct group_member *m = g->member; m < g->member + g->n; m++) {
        void *own[OP_OPERAND];
        for (int k = 0; k < OP_OPERAND; k++) own[k] = m->from[k] >= 0 ? in[m->from[k]] : NULL;
        TRY(m->launch ? cuda_bundle_add(&b, m->launch, own, out + m->to)
                      : exec_on(m->exec, own, out + m->to, scratch, device, piece, find));
    }
    return cuda_bundle_end(&b);
}
