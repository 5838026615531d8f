/* group.c - updates of several variables as one call. */
#include "kernels/group.h"

#include "runtime/error.h"

bool
group_is(int nstep, const struct fuse_step *step)
{
    return step[nstep - 1].call->op->flags & OP_UPDATE;
}

static int
member_new(struct group_member *m, const struct fuse_step *s, const struct view *in, const struct view *out, int device,
           int threads)
{
    struct view seen[OP_OPERAND] = {{0}};
    m->to = s->out;
    for (int k = 0; k < s->call->nin; k++) {
        m->from[k] = s->call->in[k].dtype == DT_NONE ? -1 : s->arg[k].index;
        if (m->from[k] >= 0) seen[k] = in[m->from[k]];
    }
    struct kcall k = {.call = s->call, .in = seen, .out = out + s->out, .threads = threads};
    return exec_new(&k, device, &m->exec);
}

int
group_new(struct arena *a, int nstep, const struct fuse_step *step, const struct view *in, const struct view *out,
          int device, int threads, struct group **made)
{
    struct group *g = *made = ARENA_NEW(a, struct group);
    g->member = ARENA_ARRAY(a, struct group_member, nstep);
    for (g->n = 0; g->n < nstep; g->n++) {
        struct group_member *m = &g->member[g->n];
        TRY(member_new(m, &step[g->n], in, out, device, threads));
        g->scratch_bytes = MAX(g->scratch_bytes, exec_scratch(m->exec));
    }
    return 0;
}

int
group_run(const struct group *g, void *const *in, void *const *out, void *scratch, int device, uint64_t piece,
          struct finding *find)
{
    for (const struct group_member *m = g->member; m < g->member + g->n; m++) {
        void *own[OP_OPERAND];
        for (int k = 0; k < OP_OPERAND; k++) own[k] = m->from[k] >= 0 ? in[m->from[k]] : NULL;
        TRY(exec_on(m->exec, own, out + m->to, scratch, device, piece, find));
    }
    return 0;
}
