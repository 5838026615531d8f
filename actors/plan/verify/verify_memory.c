/* verify_memory.c - proves that no two live registers share bytes, and that a value is overwritten only after all
 * its readers.
 *
 * The arena of a device is divided into sections at every start and end of a register. The proof goes through the
 * tasks in order and records the last owner of each section. The next owner must be written after the readers of
 * the last owner are done. A path of edges between the two tasks proves this order. If the path ends at a task
 * that acts once, that task waits for all acts of the path's first task. If both tasks act per micro-batch, the
 * path orders their acts for the same micro-batch.
 *
 * Registers that are written per micro-batch are written again in each period. So if registers of two results
 * share a section, both results must have equally many registers, and registers of equal index must share bytes.
 * The first owner of a section is written in the next period after the section's last owner. To prove this order,
 * the proof looks for an output of the first owner's task that has at most as many registers as the owners'
 * results. Each reader of the last owner must also read this output or precede a reader of it. A result made once
 * per batch and read per micro-batch is needed until the last micro-batch, and a sum over micro-batches is
 * written from the first one on. So neither may share bytes with a result that is written per micro-batch. */
#include "actors/plan/verify/verify_memory.h"
#include "actors/plan/model/deadlock.h"
#include "actors/plan/verify/value/verify_value.h"
#include "actors/plan/verify/verify_act_offset.h"

#include "runtime/base/error.h"
#include "runtime/data/sorted.h"

#include <stdlib.h>

enum { ALIGN = 64 };

struct memory {
    struct proof *v;
    /* A row is a chain of tasks connected by edges, so each task of a row precedes the next one. row[task]: index of
     * the task's row; position[task]: place of the task in its row */
    int32_t *row, *position;
    int32_t *seen, stamp, *queue; /* seen[task]: stamp of the last search that reached the task; stamp: number of the
                                     search; queue: tasks to visit */
    /* asked[row]: stamp of the last search that looks for tasks of the row; last[row]: latest position on the row
     * that the search must reach; met[row]: latest position that it has reached */
    int32_t *asked, *last, *met;
    int32_t *next_writer;           /* by task: next task that writes the same register; -1: none */
    int32_t *user, nuser, capacity; /* user[0 .. nuser - 1]: tasks that write or read the register under proof */
    /* number of users at the front of the list from which an order proof suffices. Every later user in
     * the list precedes one of these users */
    int32_t nlast;
};

/* ---- order ---- */

/* Divides the tasks into rows: long chains of tasks connected by edges. The next task on a row is the reader from
 * which the path to the end of the graph is longest. If a task is the next task of several rows, it joins the
 * longest of them. */
static void
find_rows(struct memory *m)
{
    const struct proof *v = m->v;
    const struct plan *p = v->plan;
    struct arena *a = &m->v->tmp;
    int32_t *togo = ARENA_ARRAY(a, int32_t, p->ntask + 1), *next = ARENA_ARRAY(a, int32_t, p->ntask + 1);
    m->row = ARENA_ARRAY(a, int32_t, p->ntask + 1);
    m->position = ARENA_ARRAY(a, int32_t, p->ntask + 1);
    m->seen = ARENA_ARRAY(a, int32_t, p->ntask + 1);
    m->queue = ARENA_ARRAY(a, int32_t, p->ntask + 1);
    m->asked = ARENA_ARRAY(a, int32_t, p->ntask + 1);
    m->last = ARENA_ARRAY(a, int32_t, p->ntask + 1);
    m->met = ARENA_ARRAY(a, int32_t, p->ntask + 1);
    for (int32_t i = 0; i < p->ntask; i++) next[i] = -1;
    for (int32_t b = p->ntask - 1; b >= 0; b--)
        for (int64_t k = v->first_in[b]; k < v->first_in[b + 1]; k++) {
            int32_t x = v->from[k];
            if (next[x] >= 0 && togo[b] < togo[x]) continue;
            next[x] = b;
            togo[x] = togo[b] + 1;
        }
    for (int32_t b = 0; b < p->ntask; b++) {
        m->row[b] = b;
        for (int64_t k = v->first_in[b]; k < v->first_in[b + 1]; k++) {
            int32_t x = v->from[k];
            if (next[x] != b || m->position[x] < m->position[b]) continue;
            m->row[b] = m->row[x];
            m->position[b] = m->position[x] + 1;
        }
    }
}

/* Returns the first of the n tasks a[] that does not precede task b; -1: all precede b. Searches back from b,
 * breadth first. On each row (chain of tasks), the search need only reach the last of the row's tasks in a[],
 * because that task follows the others. A task is marked as reached before its inputs are scanned, because a task
 * may have as many inputs as there are ranks. */
static int32_t
not_before(struct memory *m, const int32_t *a, int32_t n, int32_t b)
{
    const struct proof *v = m->v;
    int32_t stamp = ++m->stamp, first = INT32_MAX, left = 0, nqueue = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t row = m->row[a[i]];
        if (m->asked[row] != stamp) {
            m->asked[row] = stamp;
            m->last[row] = m->met[row] = -1;
            left++;
        }
        m->last[row] = MAX(m->last[row], m->position[a[i]]);
        first = MIN(first, a[i]);
    }
    m->queue[nqueue++] = b;
    for (int32_t at = 0; at < nqueue && left > 0; at++) {
        int32_t y = m->queue[at];
        for (int64_t k = v->first_in[y]; k < v->first_in[y + 1] && left > 0; k++) {
            int32_t x = v->from[k];
            if (x < first || m->seen[x] == stamp) continue;
            int32_t row = m->row[x];
            m->seen[x] = stamp;
            m->queue[nqueue++] = x;
            if (m->asked[row] != stamp || m->met[row] >= m->position[x]) continue;
            left -= m->met[row] < m->last[row] && m->position[x] >= m->last[row];
            m->met[row] = m->position[x];
        }
    }
    for (int32_t i = 0; i < n && left > 0; i++)
        if (m->met[m->row[a[i]]] < m->position[a[i]]) return a[i];
    return -1;
}

static bool
memory_before(struct memory *m, int32_t a, int32_t b)
{
    return not_before(m, &a, 1, b) < 0;
}

/* ---- registers ---- */

struct block {
    int64_t lo, hi;
    int32_t task, out, slot, nreg;
    bool repeats; /* written for each micro-batch */
    bool shared;  /* other tasks write the same register, too */
    bool once;    /* a run fills each register at most once */
};

/* Lists the registers that are stored in a device's arena, in task order. */
static int32_t
task_blocks(const struct memory *m, const int32_t *task, int32_t n, struct block *block)
{
    int32_t nblock = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct task *t = &m->v->plan->task[task[i]];
        for (int32_t k = 0; k < t->nresult; k++) {
            const struct out_port *o = &t->out[k];
            if (o->where.kind != IN_ARENA || o->bytes == 0) continue;
            int64_t bytes = (o->bytes + ALIGN - 1) & ~(int64_t)(ALIGN - 1), at = o->where.offset;
            struct block b = {.task = task[i],
                              .out = k,
                              .nreg = o->nreg,
                              .repeats = t->nact > 1 && o->every == 1,
                              .shared = o->shared,
                              .once = o->once};
            for (; b.slot < o->nreg; b.slot++) {
                b.lo = at + b.slot * o->where.stride;
                b.hi = b.lo + bytes;
                block[nblock++] = b;
            }
        }
    }
    return nblock;
}

static int
check_shared_block(const struct memory *m, const struct block *a, const struct block *b, int32_t reader)
{
    struct str name = {0};
    task_print(m->v->plan, a->task, &name);
    if (reader != a->task) {
        str_add(&name, ", which is read by ");
        task_print(m->v->plan, reader, &name);
    }
    int status = proof_fail(
        m->v, b->task,
        "result %d at offset %lld shares bytes with result %d of %s, and does not wait until it has been read",
        (int)b->out, (long long)b->lo, (int)a->out, str_text(&name));
    str_free(&name);
    return status;
}

/* Links the tasks that write one register: each task refers to the next writer. */
static void
list_part_writers(struct memory *m)
{
    const struct plan *p = m->v->plan;
    m->next_writer = ARENA_ARRAY(&m->v->tmp, int32_t, p->ntask + 1);
    int32_t *last = ARENA_ARRAY(&m->v->tmp, int32_t, p->ntask + 1);
    for (int32_t i = 0; i < p->ntask; i++) {
        m->next_writer[i] = -1;
        last[i] = i;
        if (p->task[i].nresult == 0 || p->task[i].out[0].where.kind != IN_TASK) continue;
        int32_t *at = &last[p->task[i].out[0].where.index];
        m->next_writer[*at] = i;
        *at = i;
    }
}

/* Adds a task to the list of users, unless the list has it already: a task may read several results that share a
 * block. */
static void
add_user(struct memory *m, int32_t task)
{
    if (m->seen[task] == m->stamp) return;
    m->seen[task] = m->stamp;
    GROW(m->user, m->nuser + 1, m->capacity);
    m->user[m->nuser++] = task;
}

/* Adds the readers of a result to the users. Returns false if the result has no readers. */
static bool
add_readers(struct memory *m, int32_t task, int32_t out)
{
    const struct proof *v = m->v;
    int64_t o = v->first_out[task] + out;
    for (int64_t r = v->first_reader[o]; r < v->first_reader[o + 1]; r++) add_user(m, v->reader[r].task);
    return v->first_reader[o] < v->first_reader[o + 1];
}

/* Returns the next task that writes the block; -1: none. */
static int32_t
writer_after(const struct memory *m, const struct block *a, int32_t writer)
{
    return a->shared ? m->next_writer[writer] : -1;
}

/* Lists the tasks that write or read the block, and sets nlast. A writer with readers precedes them, so such writers
 * are listed last, from nlast on. */
static void
list_users(struct memory *m, const struct block *a)
{
    m->nuser = 0;
    m->stamp++;
    for (int32_t w = a->task; w >= 0; w = writer_after(m, a, w))
        if (!add_readers(m, w, w == a->task ? a->out : 0)) add_user(m, w);
    m->nlast = m->nuser;
    for (int32_t w = a->task; w >= 0; w = writer_after(m, a, w)) add_user(m, w);
}

/* Returns true if two blocks that are written per micro-batch overlap only in registers of equal index. */
static bool
in_step(const struct block *a, const struct block *b)
{
    return a->nreg == b->nreg && a->slot == b->slot;
}

/* Checks that block b is written after the last use of block a: every writer of b must come after all users of a,
 * and no user of a may act again after b is written. */
static int
check_heir(struct memory *m, const struct block *a, const struct block *b)
{
    const struct plan *p = m->v->plan;
    bool sum = p->task[b->task].nact > 1 && !b->repeats;
    if (a->repeats && (sum || (b->repeats && !in_step(a, b)))) return check_shared_block(m, a, b, a->task);
    list_users(m, a);
    for (int32_t i = 0; i < m->nuser && !a->repeats && p->task[b->task].nact > 1; i++)
        if (p->task[m->user[i]].nact > 1) return check_shared_block(m, a, b, m->user[i]);
    for (int32_t w = b->task; w >= 0; w = writer_after(m, b, w)) {
        if (!(p->task[w].kind->flags & KIND_WRITES)) continue;
        int32_t late = not_before(m, m->user, m->nlast, w);
        if (late >= 0) return check_shared_block(m, a, b, late);
    }
    return 0;
}

/* Returns true if the task waits for `reader` before it writes the register again for a later micro-batch. */
static bool
memory_waits_for(struct memory *m, int32_t task, int32_t nreg, int32_t reader)
{
    const struct plan *p = m->v->plan;
    const struct task *t = &p->task[task];
    for (int32_t k = 0; k < t->nout; k++) {
        const struct out_port *o = &t->out[k];
        if (o->control || o->every != 1 || o->nreg > nreg) continue;
        int64_t at = m->v->first_out[task] + k;
        for (int64_t r = m->v->first_reader[at]; r < m->v->first_reader[at + 1]; r++) {
            const struct reader *to = &m->v->reader[r];
            bool piece = p->task[to->task].nact == t->nact && p->task[to->task].in[to->port].hold == 1;
            if (piece && (to->task == reader || memory_before(m, reader, to->task))) return true;
        }
    }
    return false;
}

/* Checks the order between two periods. `first` is the first owner of a section, and `last` is its last owner. In the
 * next period, `first` must be written only after the last use of `last`. */
static int
check_return(struct memory *m, const struct block *last, const struct block *first)
{
    int32_t nreg = first->nreg;
    if (last->task == first->task && last->out == first->out) return 0;
    if (last->once && in_step(last, first)) return 0; /* each register is filled once per run: no next period */
    if (!in_step(last, first) || !memory_waits_for(m, first->task, nreg, last->task))
        return check_shared_block(m, last, first, last->task);
    int64_t at = m->v->first_out[last->task] + last->out;
    for (int64_t r = m->v->first_reader[at]; r < m->v->first_reader[at + 1]; r++)
        if (!memory_waits_for(m, first->task, nreg, m->v->reader[r].task))
            return check_shared_block(m, last, first, m->v->reader[r].task);
    return 0;
}

/* The sections into which the starts and ends of registers divide an arena, and the owners of each section. */
struct cuts {
    int64_t *at;
    int32_t n;
    /* owner[section]: present owner; first, last: first and last owner among those written per micro-batch; -1:
     * none */
    int32_t *owner, *first, *last;
};

static void
cut_blocks(struct cuts *c, const struct block *block, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        c->at[2 * i] = block[i].lo;
        c->at[2 * i + 1] = block[i].hi;
    }
    c->n = sorted_once64(c->at, 2 * n);
    for (int32_t i = 0; i < c->n; i++) c->owner[i] = c->first[i] = c->last[i] = -1;
}

static int
check_blocks(struct memory *m, const struct block *block, int32_t n, struct cuts *c)
{
    cut_blocks(c, block, n);
    for (int32_t b = 0; b < n; b++) {
        int32_t was = -1;
        for (int32_t k = sorted_last64(c->at, c->n, block[b].lo); c->at[k] < block[b].hi; k++) {
            if (c->owner[k] >= 0 && c->owner[k] != was) TRY(check_heir(m, &block[c->owner[k]], &block[b]));
            was = c->owner[k];
            c->owner[k] = b;
            if (!block[b].repeats) continue;
            c->last[k] = b;
            if (c->first[k] < 0) c->first[k] = b;
        }
    }
    for (int32_t k = 0, last = -1, first = -1; k < c->n; k++) {
        bool same = c->last[k] == last && c->first[k] == first;
        last = c->last[k];
        first = c->first[k];
        if (last >= 0 && !same) TRY(check_return(m, &block[last], &block[first]));
    }
    return 0;
}

static int
check_register_memory(struct memory *m)
{
    const struct plan *p = m->v->plan;
    struct arena *a = &m->v->tmp;
    int64_t most = 0;
    int32_t *first = ARENA_ARRAY(a, int32_t, p->ndevice + 2), *task = ARENA_ARRAY(a, int32_t, p->ntask + 1);
    for (int32_t i = 0; i < p->ntask; i++) first[task_holder(&p->task[i]) + 2]++;
    for (int32_t d = 0; d < p->ndevice; d++) first[d + 2] += first[d + 1];
    for (int32_t i = 0; i < p->ntask; i++) task[first[task_holder(&p->task[i]) + 1]++] = i;
    for (int32_t d = 0; d < p->ndevice; d++) {
        int64_t n = 0;
        for (int32_t i = first[d]; i < first[d + 1]; i++)
            for (int32_t k = 0; k < p->task[task[i]].nresult; k++) n += p->task[task[i]].out[k].nreg;
        most = MAX(most, n);
    }
    struct block *block = ARENA_ARRAY(a, struct block, most + 1);
    struct cuts c = {.at = ARENA_ARRAY(a, int64_t, 2 * most + 1),
                     .owner = ARENA_ARRAY(a, int32_t, 2 * most + 1),
                     .first = ARENA_ARRAY(a, int32_t, 2 * most + 1),
                     .last = ARENA_ARRAY(a, int32_t, 2 * most + 1)};
    bool *berths = ARENA_ARRAY(a, bool, p->ndevice + 1);
    TRY(prove_act_offsets(m->v, berths));
    for (int32_t d = 0; d < p->ndevice; d++) {
        if (berths[d]) continue;
        int32_t n = task_blocks(m, task + first[d], first[d + 1] - first[d], block);
        TRY(check_blocks(m, block, n, &c));
    }
    return 0;
}

/* ---- updates ---- */

static bool
is_leaf_arg(const struct arg *a, int32_t leaf)
{
    return a->kind == ARG_LEAF && a->index == leaf;
}

static bool
reads_leaf(const struct task *t, int32_t leaf)
{
    for (int32_t a = 0; a < t->narg; a++)
        if (is_leaf_arg(&t->arg[a], leaf)) return true;
    return false;
}

/* Returns the index of the task's argument that is operand k of a node. The node is the task's node or a member
 * of its group. */
static int32_t
argument_of(const struct plan *p, const struct task *t, int32_t node, int32_t k)
{
    return t->chain ? value_chain_source(t->chain, 0, &p->program->node[node], k).index : k;
}

/* Returns true if the operator may write result k in place of leaf part `leaf`. No other member of the task's group
 * may read this part. */
static bool
writes_in_place(const struct plan *p, const struct task *t, int32_t k, int32_t leaf)
{
    if (!task_op(p, t)) return false;
    struct ref r = t->chain ? t->chain->live_out[k] : (struct ref){REF_NODE, (uint8_t)k, t->node};
    const struct op *op = p->program->node[r.index].op;
    int32_t over = op->flags & OP_INPLACE && r.out < op->ninplace ? argument_of(p, t, r.index, r.out) : -1;
    if (over < 0 || over >= t->narg || !is_leaf_arg(&t->arg[over], leaf)) return false;
    if (t->arg[over].skip != t->out[k].where.offset) return false;
    for (int32_t i = 0; t->chain && i < t->chain->nstep; i++) {
        int32_t m = t->chain->member[i];
        for (int32_t a = 0; m != r.index && a < p->program->node[m].nin; a++) {
            int32_t read = argument_of(p, t, m, a);
            if (read >= 0 && is_leaf_arg(&t->arg[read], leaf)) return false;
        }
    }
    return true;
}

/* Checks a root part that is stored in the buffer of a leaf part. The writer must be an element-wise in-place
 * operator, or a move that does not read the leaf. No other member of the writer's group may read the leaf. */
static int
check_over(const struct memory *m, int32_t task, int32_t k, int32_t *writer)
{
    const struct plan *p = m->v->plan;
    const struct task *t = &p->task[task];
    const struct plan_part *part = &p->root_part[t->out[k].where.index];
    const struct prog_root *root = &p->program->root[part->index];
    int32_t leaf = p->leaf_first[root->overwrites_leaf] + t->out[k].where.index - p->root_first[part->index];
    const struct prog_leaf *f = &p->program->leaf[root->overwrites_leaf];
    if (f->layout != ref_layout(p->program, root->ref) || !type_equal(&p->leaf_part[leaf].type, &part->type) ||
        f->piece || root->join)
        return proof_fail(m->v, task, "root %d cannot be written over leaf %d, which has another layout or type",
                          (int)part->index, (int)root->overwrites_leaf);
    if (!writes_in_place(p, t, k, leaf) && (!(t->kind->flags & KIND_MOVE) || reads_leaf(t, leaf)))
        return proof_fail(m->v, task, "root %d overwrites leaf %d, but its operator does not work in place",
                          (int)part->index, (int)root->overwrites_leaf);
    if (p->shared[part->index] && !shared_update_reads_own(t, &t->out[k], k, leaf))
        return proof_fail(m->v, task, "must read only its own slice of leaf %d", (int)root->overwrites_leaf);
    if (!t->updates)
        return proof_fail(m->v, task, "overwrites leaf %d but is not marked as an update", (int)root->overwrites_leaf);
    if (writer[leaf] >= 0) return proof_fail(m->v, task, "leaf %d is overwritten twice", (int)root->overwrites_leaf);
    writer[leaf] = task;
    return 0;
}

static bool
overwrites_root(const struct plan *p, const struct task *t, int32_t k)
{
    return t->out[k].where.kind == IN_ROOT && p->overwrites[p->root_part[t->out[k].where.index].index];
}

static int
check_reader(struct memory *m, int32_t task, int32_t writer, int32_t leaf)
{
    if (task == writer || memory_before(m, task, writer)) return 0;
    struct str name = {0};
    task_print(m->v->plan, task, &name);
    int status = proof_fail(m->v, writer, "overwrites leaf shard %d but does not wait for its reader, %s", (int)leaf,
                            str_text(&name));
    str_free(&name);
    return status;
}

/* Returns true if the two parts of a leaf hold the same block. They then have a common buffer, if replicas of the
 * leaf share one. */
static bool
parts_lie_together(const struct plan *p, const struct plan_part *a, const struct plan_part *b)
{
    const struct layout *l = p->program->leaf[a->index].layout;
    return a->index == b->index && layout_origin(l, a->pos) == layout_origin(l, b->pos);
}

/* Checks that all other readers of an overwritten value come before the update. If replicas share one buffer, a
 * reader must come before the writers of all slices, and a writer must read only the slice that it writes. */
static int
check_readers(struct memory *m, const int32_t *writer, const bool *shared)
{
    const struct plan *p = m->v->plan;
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t a = 0; a < p->task[i].narg; a++) {
            const struct arg *arg = &p->task[i].arg[a];
            if (arg->kind != ARG_LEAF || writer[arg->index] < 0) continue;
            const struct plan_part *part = &p->leaf_part[arg->index];
            TRY(check_reader(m, i, writer[arg->index], part->index));
            if (!shared[part->index] || writer[arg->index] == i) continue;
            int32_t first = p->leaf_first[part->index];
            for (int32_t w = first; w < p->nleaf_part && p->leaf_part[w].index == part->index; w++)
                if (parts_lie_together(p, part, &p->leaf_part[w])) TRY(check_reader(m, i, writer[w], part->index));
        }
    return 0;
}

/* Data for the proof that no update begins before all checks of data have ended, because bad input must not update
 * only some of the variables. A check is a task that may reject its data; checks are numbered in list order.
 * done[task] = d means that checks 0 to d - 1 have ended before the task begins. To compute d, the proof takes the
 * largest done[] of the task's inputs. It then adds 1 as long as the task directly reads the result of the next
 * check. A gate that receives from another host counts as a check: it stands for that host's checks. A gate that
 * sends to another host must wait for all checks of this host. */
struct checks {
    int32_t *task, n; /* checks, in list order */
    /* done[task]: number of checks that have certainly ended before the task; mark[check]: last task found to
     * read the check's result */
    int32_t *done, *mark;
};

static void
count_checks(const struct proof *v, struct checks *c, int32_t i)
{
    for (int64_t k = v->first_in[i]; k < v->first_in[i + 1]; k++) {
        int32_t a = v->from[k], at = c->done[a];
        c->done[i] = MAX(c->done[i], at);
        /* binary search for `a` in the list of checks */
        int32_t lo = 0, hi = c->n;
        while (lo < hi) {
            int32_t mid = lo + (hi - lo) / 2;
            if (c->task[mid] < a)
                lo = mid + 1;
            else
                hi = mid;
        }
        if (lo < c->n && c->task[lo] == a) c->mark[lo] = i;
    }
    while (c->done[i] < c->n && c->mark[c->done[i]] == i && c->task[c->done[i]] < i) c->done[i]++;
}

static int
check_checked(const struct memory *m, const struct checks *c, int32_t update)
{
    int32_t next = c->done[update];
    if (next >= c->n) return 0;
    struct str name = {0};
    task_print(m->v->plan, c->task[next], &name);
    int status = proof_fail(m->v, update, "updates a variable but does not wait for %s, which may reject its data",
                            str_text(&name));
    str_free(&name);
    return status;
}

static int
check_updates(struct memory *m)
{
    const struct plan *p = m->v->plan;
    struct arena *a = &m->v->tmp;
    int32_t *writer = ARENA_ARRAY(a, int32_t, p->nleaf_part + 1);
    bool *shared = ARENA_ARRAY(a, bool, p->program->nleaf + 1); /* by leaf: true if replicas share one buffer */
    struct checks c = {.task = ARENA_ARRAY(a, int32_t, p->ntask + 1),
                       .done = ARENA_ARRAY(a, int32_t, p->ntask + 1),
                       .mark = ARENA_ARRAY(a, int32_t, p->ntask + 1)};
    for (int32_t i = 0; i < p->nleaf_part; i++) writer[i] = -1;
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        bool over = false;
        for (int32_t k = 0; k < t->nresult; k++) {
            if (!overwrites_root(p, t, k)) continue;
            TRY(check_over(m, i, k, writer));
            over = true;
        }
        if (t->updates && !over) return proof_fail(m->v, i, "is marked as an update but overwrites nothing");
        if (t->updates && t->nact != 1)
            return proof_fail(m->v, i, "updates a variable %d times per run; once is allowed", (int)t->nact);
        count_checks(m->v, &c, i);
        const struct channel *joined = t->kind->flags & KIND_ORDER && t->channel >= 0 ? &p->channel[t->channel] : NULL;
        if (over || (joined && joined->sends)) TRY(check_checked(m, &c, i));
        if ((task_op(p, t) && m->v->checks[t->node]) || (joined && !joined->sends)) c.task[c.n++] = i;
    }
    for (int32_t k = 0; k < p->program->nroot; k++)
        if (p->overwrites[k] && p->shared[k]) shared[p->program->root[k].overwrites_leaf] = true;
    return check_readers(m, writer, shared);
}

int
prove_memory(struct proof *v)
{
    struct memory m = {.v = v};
    find_rows(&m);
    list_part_writers(&m);
    int status = check_register_memory(&m);
    free(m.user);
    return status ? status : check_updates(&m);
}
