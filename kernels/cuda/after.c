/* after.c - epilogues: the kernel of a chain's leading call, which processes lines, also computes the chain's
 * other steps.
 *
 * Each thread reads the operands of the other steps at the elements that it writes, with the same vector width.
 * The epilogue does not change how lines are distributed over threads, so the leading call's sums have the same
 * bits with and without it. */
#include "kernels/cuda/after.h"

#include "runtime/base/error.h"

/* ---- writing the functions of the epilogue, which work element by element ---- */

/* Maximum number of elements of the epilogue's operands that a thread keeps in registers, in addition to the
 * elements of its line. 24 are enough for one operand on a line of 768 elements. If more would be kept, each pack
 * is read when it is needed. */
enum { HELD_BESIDE = 24 };

/* Writes the declaration of the C++ function v<k>(i), which reads operand k of the chain in its memory type. */
static void
add_bringing(struct making *m, int k, enum dtype d, bool together)
{
    const char *memory = making_memory(d);
    str_addf(&m->head, "    READ_BESIDE(%d, %s)\n", k, memory);
    if (together) str_addf(&m->head, "    READ_BESIDE_PACK(%d, %s)\n", k, memory);
}

/* Writes the declaration of the C++ function r<k>(i), which writes result k of the chain. A pack is written once
 * its last element is computed. */
static void
add_leaving(struct making *m, int k, enum dtype d, bool together)
{
    str_addf(&m->head, "    %s(%d, %s)\n", together ? "WRITE_BESIDE_PACK" : "WRITE_BESIDE", k, making_memory(d));
}

/* Writes the declarations of the chain's operand i or, if i >= nin, of its result i - nin. */
static void
add_epilogue_end(struct making *m, const struct lines_on *l, const struct passing *p, int i)
{
    const struct making_ends *e = &p->after->ends;
    bool operand = i < e->nin;
    int k = operand ? i : i - e->nin;
    int64_t stride[2][MAX_DIM];
    if (e->view[i]->dtype != DT_NONE && e->number[i]) {
        str_addf(&m->member, "    const int64_t *v%d;\n", k);
        making_fill(m, FILL_ADDRESS, p->after->index + i, 0);
    }
    if (!making_in_memory(e, i) || !line_strides(l, 0, e->view[i], stride)) return;
    bool together = p->pack > 1 && line_step(l, stride, 1) == 1 && line_begins_whole(l, stride, 1, p->pack);
    line_add_place(m, l, operand ? 'v' : 'r', k, p->after->index + i, stride, together);
    if (operand)
        add_bringing(m, k, (enum dtype)e->view[i]->dtype, together);
    else
        add_leaving(m, k, (enum dtype)e->view[i]->dtype, together);
}

/* Writes the declaration of the C++ function each_of(), which reads the operands of the chain before it writes
 * results. If all elements of a thread's line fit its registers, each_of() reads the whole line first; otherwise
 * it reads pack by pack. */
static void
add_each_of(struct making *m, const struct passing *p, const struct making_ends *e)
{
    struct str members = {0}, before = {0}, values = {0};
    int n = 0;
    for (int i = 0; i < e->nin; i++) n += making_in_memory(e, i);
    for (int i = 0; i < e->nin; i++) {
        if (e->view[i]->dtype == DT_NONE) continue;
        const char *memory = making_memory((enum dtype)e->view[i]->dtype);
        str_addf(&members, "        %s v%d;\n", memory, i);
        if (e->number[i])
            str_addf(&before, "        NUMBER_OF(%d, %s, all_v%d)\n", i, memory, i);
        else
            str_addf(&before, "        LINE_BESIDE(%d, %s)\n", i, n * p->held <= HELD_BESIDE ? "held" : "");
        str_addf(&values, e->number[i] ? "all_v%d, " : "all_v%d(i), ", i);
    }
    str_addf(&m->head,
             "    struct operands {\n%s    };\n"
             "    template <class From, class To> METHOD void each_of(From from, To to) const\n"
             "    {\n%s        EACH_BESIDE(%s)\n    }\n    mutable operands now;\n",
             str_text(&members), str_text(&before), str_text(&values));
    str_free(&members);
    str_free(&before);
    str_free(&values);
}

/* Writes the declaration of the C++ function y0(element, value), which computes the epilogue's steps for one
 * element of the leading call's result, and writes their results. */
void
line_add_after(struct making *m, const struct lines_on *l, const struct passing *p)
{
    const struct after *f = p->after;
    const struct making_ends *e = &f->ends;
    struct str arguments = {0}, writing = {0};
    for (int i = 0; i < e->nin + e->nout; i++) add_epilogue_end(m, l, p, i);
    add_each_of(m, p, e);
    for (int i = 0; i < e->nin; i++)
        if (e->view[i]->dtype != DT_NONE) str_addf(&arguments, ", now.v%d", i);
    for (int i = 0; i < e->nout; i++) {
        if (e->view[e->nin + i]->dtype == DT_NONE) continue;
        str_addf(&arguments, ", now_r%d.of[i.u]", i);
        str_addf(&writing, "        r%d(i);\n", i);
    }
    str_addf(&m->head,
             "    template <class C> METHOD void y0(const packed<PACK> &i, C v) const\n    {\n"
             "        chain::of(put<%s>(v)%s);\n%s    }\n",
             making_memory((enum dtype)f->step[f->lead].call->out[0].dtype), str_text(&arguments), str_text(&writing));
    str_free(&arguments);
    str_free(&writing);
}

/* ---- preparing a chain whose leading call works along lines ---- */

/* Returns a view broadcast to the sizes of another view. */
static struct view
broadcast_view(const struct view *v, const struct view *to)
{
    struct view all = *to;
    all.dtype = v->dtype;
    for (int d = 0; d < to->ndim; d++) {
        int own = d - (to->ndim - v->ndim);
        all.stride[d] = own < 0 || v->dim[own] == 1 ? 0 : v->stride[own];
    }
    return all;
}

/* Returns true if operand or result i of the chain is read or written along the lines. This is the case for
 * operands of steps other than the leading one, and for the first result of any step. */
static bool
goes_along(const struct after *f, int i)
{
    for (int s = 0; s < f->nstep; s++) {
        const struct fuse_step *step = &f->step[s];
        if (i >= f->ends.nin && step->out == i - f->ends.nin) return true;
        for (int k = 0; s != f->lead && k < step->call->nin; k++)
            if (step->call->in[k].dtype != DT_NONE && !step->arg[k].step && step->arg[k].index == i) return true;
    }
    return false;
}

/* Renumbers the operands and results that s->fill names: replaces their indices in the leading call by their
 * indices in the chain. */
static void
renumber_source(struct cuda_source *s, const struct after *f)
{
    const struct fuse_step *lead = &f->step[f->lead];
    for (; s; s = s->then)
        for (int i = 0; i < s->nfill; i++) {
            int *at = &s->fill[i].index, result = *at - lead->call->nin;
            if (*at >= f->index)
                *at -= f->index;
            else if (result >= 0)
                *at = f->ends.nin + lead->others + result - 1;
            else
                *at = MAX(lead->arg[*at].index, 0);
        }
}

/* Sets the operand and result views of the chain's first call, `lead`, as if it were not fused. The chain does not
 * store the first result, so a dense view stands for it. */
static void
lead_views(const struct fuse_step *lead, const struct making_ends *e, struct view *in, struct view *out)
{
    const struct call *c = lead->call;
    for (int i = 0; i < c->nin; i++)
        if (c->in[i].dtype != DT_NONE) in[i] = *e->view[lead->arg[i].index];
    for (int i = 1; i < c->nout; i++) out[i] = *e->view[e->nin + lead->others + i - 1];
    struct type first = type_of((enum dtype)c->out[0].dtype, in[0].ndim, in[0].dim);
    out[0] = view_dense(&first, NULL);
}

int
making_epilogue(struct arena *a, int lead, int nstep, const struct fuse_step *step, const struct making_ends *e,
                struct cuda_source *s)
{
    static const struct view none;
    const struct call *c = step[lead].call;
    struct view in[OP_OPERAND] = {{0}}, out[OP_OUT], all[MAKING_LANES];
    struct after f = {.lead = lead, .nstep = nstep, .step = step, .ends = *e, .index = c->nin + c->nout};
    if ((!c->op->gpu.line && !c->op->gpu.pass) || c->op->gpu.by_position || c->op->ninplace)
        return fail(E_KERNEL, "%s cannot be the first call of a fused GPU kernel", c->op->name);
    lead_views(&step[lead], e, in, out);
    if (view_numel(&out[0]) == 0) return fail(E_KERNEL, "%s: the result is empty", c->op->name);
    for (int i = 0; i < e->nin + e->nout; i++) {
        all[i] = broadcast_view(e->view[i], &out[0]);
        f.ends.view[i] = goes_along(&f, i) ? &all[i] : &none;
    }
    TRY(line_make(a, &(struct kcall){.call = c, .in = in, .out = out}, &f, s));
    renumber_source(s, &f);
    return 0;
}
