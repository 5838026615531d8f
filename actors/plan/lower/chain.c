/* chain.c - lowers a fused chain with its leading operator, or a group of updates or casts (fusion.c), to one task
 * per rank. */
#include "actors/plan/lower/lower.h"
#include "actors/plan/outline/estimate.h"

#include "actors/plan/model/rates.h"
#include "kernels/exec/kernel.h"
#include "runtime/base/error.h"

/* A fused chain under construction. The finished plan keeps its description. */
struct chain {
    struct fuse_step step[FUSE_STEPS];
    struct plan_chain plan;
};

static int
chain_step(const struct plan_chain *c, int32_t node, int n)
{
    for (int i = 0; i < n; i++)
        if (c->member[i] == node) return i;
    return -1;
}

static void
chain_of(struct lower *l, int32_t node, struct chain *chain)
{
    struct arena *a = &l->plan->arena;
    struct plan_chain *c = &chain->plan;
    int32_t member[FUSE_STEPS];
    struct ref in[FUSE_INPUTS], live_out[FUSE_OUTS];
    const struct layout *want[FUSE_INPUTS];
    *c = (struct plan_chain){.member = member, .in = in, .want = want, .live_out = live_out};
    c->nstep = fusion_members(&l->outline->fusion, node, c->member);
    c->nin = fusion_inputs(&l->outline->fusion, c->member, c->nstep, c->in, c->want);
    for (int i = 0; i < c->nstep; i++) {
        const struct prog_node *m = &l->program->node[c->member[i]];
        struct fuse_step *s = &chain->step[i];
        *s = (struct fuse_step){.call = program_call(l->program, m, &l->tmp), .out = -1};
        for (int k = 0; k < m->nin; k++) {
            int inside = m->in[k].kind == REF_NODE ? chain_step(c, m->in[k].index, i) : -1;
            s->arg[k] = inside >= 0 ? (struct fuse_arg){true, inside} : (struct fuse_arg){false, -1};
            if (inside < 0 && m->in[k].kind != REF_NONE)
                s->arg[k].index =
                    fusion_input(c->nin, c->in, c->want, m->in[k], m->in[k].kind == REF_NUMBER ? NULL : m->want[k]);
        }
        for (int k = 0; k < m->nout; k++) {
            if (!fusion_shown(&l->outline->fusion, c->member[i], k)) continue;
            if (k == 0) s->out = c->nout;
            if (k == 1) s->others = c->nout;
            c->live_out[c->nout++] = (struct ref){REF_NODE, (uint8_t)k, c->member[i]};
        }
    }
    c->member = arena_dup(a, member, sizeof *member * (size_t)c->nstep);
    c->in = arena_dup(a, in, sizeof *in * (size_t)c->nin);
    c->want = arena_dup(a, want, sizeof *want * (size_t)c->nin);
    c->live_out = arena_dup(a, live_out, sizeof *live_out * (size_t)c->nout);
}

static const char *
chain_name(struct lower *l, const struct chain *chain)
{
    struct str s = {0};
    bool group = group_is(chain->plan.nstep, chain->step);
    if (group) str_addf(&s, "%s x %d", chain->step[0].call->op->name, (int)chain->plan.nstep);
    for (int i = 0; i < chain->plan.nstep && !group; i++)
        str_addf(&s, "%s%s", i ? "+" : "", chain->step[i].call->op->name);
    const char *name = arena_strdup(&l->plan->arena, str_text(&s));
    str_free(&s);
    return name;
}

/* Returns the number of threads of the chain's kernel, from the work of a leading product and the bytes of the
 * largest shards. Uses the shards of the first rank, which are the largest, even if that rank is in another
 * process. */
static int
chain_team(const struct lower *l, const struct chain *chain)
{
    const struct plan_chain *c = &chain->plan;
    double bytes = 0, flops = 0, unused;
    for (int i = 0; i < c->nstep; i++)
        if (chain->step[i].call->op->flags & OP_LEADS) call_work(chain->step[i].call, &flops, &unused);
    for (int i = 0; i < c->nin; i++) {
        struct type t = ref_type(l->program, c->in[i]);
        if (c->want[i]) t = layout_shard(c->want[i], &t, 0);
        bytes += (double)type_bytes(&t);
    }
    for (int k = 0; k < c->nout; k++) {
        struct ref r = c->live_out[k];
        const struct prog_node *n = &l->program->node[r.index];
        struct type t = layout_shard(n->layout[r.out], &n->type[r.out], 0);
        bytes += (double)type_bytes(&t);
    }
    return lower_team(l, flops / l->program->node[c->member[0]].layout[0]->place->nrank, bytes);
}

static int
chain_task(struct lower *l, struct plan_chain *c, const char *name, struct pval *const *in, struct kernels *kernels,
           int32_t own, int pos)
{
    int32_t node = c->member[c->nstep - 1], id;
    const struct prog_node *last = &l->program->node[node];
    const struct layout *out = last->layout[0];
    struct draft *d = draft_new(l, &kind_compute, node, out->place->kind, out->place->rank[pos], pos, last->piece, &id);
    d->task.looks = l->checks[node];
    d->task.name = name;
    d->task.chain = c;
    draft_args(l, id, c->nin);
    for (int i = 0; i < c->nin; i++) {
        if (c->in[i].kind == REF_NUMBER) {
            struct type t = ref_type(l->program, c->in[i]);
            kernels->at[i] = number_view(&t, NULL);
            l->draft[id].task.arg[i] = (struct arg){.kind = ARG_NUMBER, .index = c->in[i].index};
        } else {
            kernels->view[i] = in[i]->part[own].view;
            kernels->at[i] = kernels->placed ? part_placed(in[i], own) : *in[i]->part[own].view;
            TRY(draft_reads(l, id, &in[i]->part[own], i, false));
        }
    }
    for (int k = 0; k < c->nout; k++) {
        struct pval *v = lower_value(l, c->live_out[k]);
        struct part *part = &v->part[own];
        kernels->view[c->nin + k] = part->view;
        kernels->at[c->nin + k] = kernels->placed ? part_placed(v, own) : *part->view;
        draft_out(l, &l->draft[id], view_bytes(part->view), 1);
        part_is_result(part, id, k);
    }
    struct task *t = &l->draft[id].task;
    t->nresult = c->nout;
    return kernels_get(kernels, t->device, &t->exec);
}

int
lower_chain(struct lower *l, int32_t node)
{
    struct chain chain;
    struct pval *in[FUSE_INPUTS] = {0};
    const struct local_positions *mine = local_positions_of(&l->mines, l->program->node[node].layout[0]->place);
    chain_of(l, node, &chain);
    struct plan_chain *c = arena_dup(&l->plan->arena, &chain.plan, sizeof chain.plan);
    const char *name = chain_name(l, &chain);
    for (int i = 0; i < c->nin; i++)
        if (c->in[i].kind != REF_NUMBER) TRY(lower_moved(l, lower_value(l, c->in[i]), c->want[i], i, true, &in[i]));
    for (int k = 0; k < c->nout; k++) {
        struct ref r = c->live_out[k];
        const struct prog_node *n = &l->program->node[r.index];
        l->node_val[r.index * OP_OUT + r.out] = pval_new(l, &n->type[r.out], n->layout[r.out], n->piece, r);
    }
    struct kernels kernels;
    kernels_begin(&kernels, l, l->program->node[node].layout[0]->place->kind, c->nin, c->nout);
    kernels.like.threads = chain_team(l, &chain);
    kernels_of(&kernels, c->nstep, chain.step);
    for (int32_t own = 0; own < mine->n; own++) TRY(chain_task(l, c, name, in, &kernels, own, mine->pos[own]));
    return 0;
}
