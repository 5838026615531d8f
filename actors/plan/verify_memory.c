/* verify_memory.c - no two live registers share bytes, and what is written over was read by all who read it.
 *
 * Per device the arena is cut where registers begin and end. Going through the
 * tasks in order, each cut knows who had it last; the next one to have it must
 * be written after that one's readers are done. Order is what edges say, however
 * many in a row: bit a of row b, "a happens before b". With several pieces, or
 * too many tasks for such rows, nothing may be shared at all.
 *
 * A path of edges that ends in a task with one act means that all acts of where
 * it begins are over: an edge into a task that acts once waits for all of them. */
#include "actors/plan/stuck.h"
#include "actors/plan/verify.h"

#include "runtime/error.h"

#include <stdlib.h>

enum { ALIGN = 64, REACH_TASKS = 8192 };

struct memory {
    struct proof *v;
    uint64_t *before; /* NULL: edges alone */
    int32_t words;
};

/* ---- order ---- */

static void
find_order(struct memory *m)
{
    const struct plan *p = m->v->plan;
    if (p->ntask > REACH_TASKS) return;
    m->words = (p->ntask + 63) / 64;
    m->before = ARENA_ARRAY(&m->v->tmp, uint64_t, (int64_t)p->ntask * m->words + 1);
    for (int32_t b = 0; b < p->ntask; b++) {
        uint64_t *row = m->before + (int64_t)b * m->words;
        for (int32_t k = 0; k < p->task[b].nin; k++) {
            int32_t a = p->task[b].in[k].task;
            const uint64_t *more = m->before + (int64_t)a * m->words;
            for (int32_t w = 0; w <= a / 64; w++) row[w] |= more[w];
            row[a / 64] |= 1ull << (a % 64);
        }
    }
}

static bool
before(const struct memory *m, int32_t a, int32_t b)
{
    if (m->before) return m->before[(int64_t)b * m->words + a / 64] >> (a % 64) & 1;
    const struct task *t = &m->v->plan->task[b];
    for (int32_t k = 0; k < t->nin; k++)
        if (t->in[k].task == a) return true;
    return false;
}

/* ---- registers ---- */

struct block {
    int64_t lo, hi;
    int32_t task, out;
};

static int
by_offset(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* The registers of a device in task order. */
static int32_t
blocks_of(const struct memory *m, const int32_t *task, int32_t n, struct block *block)
{
    int32_t nblock = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct task *t = &m->v->plan->task[task[i]];
        for (int32_t k = 0; k < t->nout; k++) {
            const struct out_port *o = &t->out[k];
            if (o->where.kind != IN_ARENA || o->bytes == 0) continue;
            int64_t bytes = ((o->bytes + ALIGN - 1) & ~(int64_t)(ALIGN - 1)) * o->nreg;
            block[nblock++] = (struct block){o->where.offset, o->where.offset + bytes, task[i], k};
        }
    }
    return nblock;
}

static int
shared(const struct memory *m, const struct block *a, const struct block *b, int32_t reader)
{
    struct str name = {0};
    task_print(m->v->plan, a->task, &name);
    if (reader != a->task) {
        str_add(&name, ", which is read by ");
        task_print(m->v->plan, reader, &name);
    }
    int status =
        proof_fail(m->v, b->task, "result %d at %lld shares bytes with result %d of %s and does not wait for it",
                   (int)b->out, (long long)b->lo, (int)a->out, str_text(&name));
    str_free(&name);
    return status;
}

static bool
lies_in(const struct out_port *o, int32_t task)
{
    return o->where.kind == IN_TASK && o->where.index == task;
}

/* Everybody who writes b's block comes after task `reader`. */
static int
check_writers(const struct memory *m, const struct block *a, const struct block *b, int32_t reader)
{
    const struct plan *p = m->v->plan;
    if (!before(m, reader, b->task)) return shared(m, a, b, reader);
    for (int32_t i = b->task + 1; p->task[b->task].out[b->out].shared && i < p->ntask; i++)
        if (p->task[i].kind->flags & KIND_WRITES && lies_in(&p->task[i].out[0], b->task) && !before(m, reader, i))
            return shared(m, a, b, reader);
    return 0;
}

static int
check_fans(const struct memory *m, const struct block *a, const struct block *b, const struct out_port *o)
{
    for (int32_t f = 0; f < o->nfan; f++)
        for (int32_t r = 0; r < o->fan[f].nreader; r++) TRY(check_writers(m, a, b, o->fan[f].reader[r].task));
    return 0;
}

/* b is written when nobody needs a any more. */
static int
check_heir(const struct memory *m, const struct block *a, const struct block *b)
{
    const struct plan *p = m->v->plan;
    if (p->pieces > 1 || !m->before) return shared(m, a, b, a->task);
    const struct out_port *o = &p->task[a->task].out[a->out];
    TRY(check_writers(m, a, b, a->task));
    TRY(check_fans(m, a, b, o));
    for (int32_t i = a->task + 1; o->shared && i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nresult; k++) {
            if (!lies_in(&p->task[i].out[k], a->task)) continue;
            TRY(check_writers(m, a, b, i));
            TRY(check_fans(m, a, b, &p->task[i].out[k]));
        }
    return 0;
}

static int32_t
cut_at(const int64_t *cut, int32_t n, int64_t at)
{
    int32_t lo = 0, hi = n;
    while (hi - lo > 1) {
        int32_t mid = lo + (hi - lo) / 2;
        if (cut[mid] <= at)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static int
check_blocks(const struct memory *m, const struct block *block, int32_t n, int64_t *cut, int32_t *owner)
{
    int32_t ncut = 0;
    for (int32_t i = 0; i < n; i++) {
        cut[2 * i] = block[i].lo;
        cut[2 * i + 1] = block[i].hi;
    }
    qsort(cut, (size_t)(2 * n), sizeof *cut, by_offset);
    for (int32_t i = 0; i < 2 * n; i++)
        if (ncut == 0 || cut[i] > cut[ncut - 1]) cut[ncut++] = cut[i];
    for (int32_t i = 0; i < ncut; i++) owner[i] = -1;
    for (int32_t b = 0; b < n; b++) {
        int32_t last = -1;
        for (int32_t c = cut_at(cut, ncut, block[b].lo); cut[c] < block[b].hi; c++) {
            if (owner[c] >= 0 && owner[c] != last) TRY(check_heir(m, &block[owner[c]], &block[b]));
            last = owner[c];
            owner[c] = b;
        }
    }
    return 0;
}

static int
check_registers(const struct memory *m)
{
    const struct plan *p = m->v->plan;
    struct arena *a = &m->v->tmp;
    int64_t nout = m->v->first_out[p->ntask];
    int32_t *first = ARENA_ARRAY(a, int32_t, p->ndevice + 2), *task = ARENA_ARRAY(a, int32_t, p->ntask + 1);
    for (int32_t i = 0; i < p->ntask; i++) first[p->task[i].device + 2]++;
    for (int32_t d = 0; d < p->ndevice; d++) first[d + 2] += first[d + 1];
    for (int32_t i = 0; i < p->ntask; i++) task[first[p->task[i].device + 1]++] = i;
    struct block *block = ARENA_ARRAY(a, struct block, nout + 1);
    int64_t *cut = ARENA_ARRAY(a, int64_t, 2 * nout + 1);
    int32_t *owner = ARENA_ARRAY(a, int32_t, 2 * nout + 1);
    for (int32_t d = 0; d < p->ndevice; d++) {
        int32_t n = blocks_of(m, task + first[d], first[d + 1] - first[d], block);
        TRY(check_blocks(m, block, n, cut, owner));
    }
    return 0;
}

/* ---- updates ---- */

/* A root part that is written over a leaf part: element by element, by an operator that says that it may. */
static int
check_over(const struct memory *m, int32_t task, int32_t k, int32_t *writer)
{
    const struct plan *p = m->v->plan;
    const struct task *t = &p->task[task];
    const struct plan_part *part = &p->root_part[t->out[k].where.index];
    const struct prog_root *root = &p->program->root[part->index];
    int32_t leaf = p->leaf_first[root->over] + part->pos;
    const struct prog_leaf *f = &p->program->leaf[root->over];
    if (f->layout != ref_layout(p->program, root->ref) || !type_equal(&p->leaf_part[leaf].type, &part->type) ||
        f->piece || root->join)
        return proof_fail(m->v, task, "root %d is written over leaf %d, which lies otherwise", (int)part->index,
                          (int)root->over);
    const struct op *op = task_op(p, t);
    bool inplace = op && op->flags & OP_INPLACE && k < op->ninplace && k < t->narg && t->arg[k].kind == ARG_LEAF &&
                   t->arg[k].index == leaf && t->arg[k].skip == 0;
    if (!inplace)
        return proof_fail(m->v, task, "root %d cannot be written over leaf %d in place", (int)part->index,
                          (int)root->over);
    if (!t->updates)
        return proof_fail(m->v, task, "writes over leaf %d and is not marked as an update", (int)root->over);
    if (writer[leaf] >= 0) return proof_fail(m->v, task, "leaf %d is written over twice", (int)root->over);
    writer[leaf] = task;
    return 0;
}

static bool
is_over(const struct plan *p, const struct task *t, int32_t k)
{
    return t->out[k].where.kind == IN_ROOT && p->over[p->root_part[t->out[k].where.index].index];
}

/* Everybody else who reads what an update writes over has read it. */
static int
check_readers(const struct memory *m, const int32_t *writer)
{
    const struct plan *p = m->v->plan;
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t a = 0; a < p->task[i].narg; a++) {
            const struct arg *arg = &p->task[i].arg[a];
            int32_t w = arg->kind == ARG_LEAF ? writer[arg->index] : -1;
            if (w < 0 || w == i || before(m, i, w)) continue;
            struct str name = {0};
            task_print(m->v->plan, i, &name);
            int status = proof_fail(m->v, w, "writes over leaf %d and does not wait for its reader %s",
                                    (int)p->leaf_part[arg->index].index, str_text(&name));
            str_free(&name);
            return status;
        }
    return 0;
}

/* Bad input must not leave half an update: tasks that may refuse it are done before any update begins. */
static int
check_checkers(const struct memory *m, const int32_t *checker, int32_t n, int32_t update)
{
    for (int32_t i = 0; i < n && checker[i] < update; i++)
        if (!before(m, checker[i], update)) {
            struct str name = {0};
            task_print(m->v->plan, checker[i], &name);
            int status = proof_fail(m->v, update, "updates and does not wait for %s, which may refuse its data",
                                    str_text(&name));
            str_free(&name);
            return status;
        }
    return 0;
}

static int
check_updates(const struct memory *m)
{
    const struct plan *p = m->v->plan;
    int32_t *writer = ARENA_ARRAY(&m->v->tmp, int32_t, p->nleaf_part + 1),
            *checker = ARENA_ARRAY(&m->v->tmp, int32_t, p->ntask + 1);
    int32_t nchecker = 0;
    for (int32_t i = 0; i < p->nleaf_part; i++) writer[i] = -1;
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        bool over = false;
        for (int32_t k = 0; k < t->nresult; k++) {
            if (!is_over(p, t, k)) continue;
            TRY(check_over(m, i, k, writer));
            over = true;
        }
        if (t->updates && !over) return proof_fail(m->v, i, "is marked as an update and writes over nothing");
        if (t->updates && t->nact != 1) return proof_fail(m->v, i, "updates %d times", (int)t->nact);
        if (over) TRY(check_checkers(m, checker, nchecker, i));
        const struct op *op = task_op(p, t);
        if (op && op->flags & OP_CHECKS) checker[nchecker++] = i;
    }
    return check_readers(m, writer);
}

int
prove_memory(struct proof *v)
{
    struct memory m = {.v = v};
    find_order(&m);
    TRY(check_registers(&m));
    return check_updates(&m);
}
