/* comm_ranks.c - finds the tasks of other ranks in collectives, lists the communicators of a plan, and checks that
 * all plan partitions agree about collectives.
 *
 * The tasks of a collective hop are adjacent in the list, in mesh order. All partitions sort communicators in the
 * same way: those of collectives by the first hop that needs them, then by first rank; point-to-point links by
 * their devices. So partitions create shared communicators one after the other in the same order, and cannot
 * deadlock. */
#include "actors/plan/outline/comm_ranks.h"

#include "actors/plan/model/contract.h"
#include "actors/plan/outline/outline.h"
#include "runtime/device/communicator.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/data/hash.h"

#include <stdlib.h>
#include <string.h>

bool
comm_ranks_library(int kind)
{
    const struct device_kind *k = device_kind(kind);
    return k->flags & COLLECTS && (!k->settle || k->flags & COMPILES);
}

/* ---- partners ---- */

static bool
is_of(const struct plan *p, int64_t task, const struct plan_move *m)
{
    return task >= 0 && task < p->ntask && p->task[task].kind->flags & KIND_COLLECTS && p->task[task].move.of == m;
}

/* Returns the task of another rank in a task's collective. If all positions are in this partition, the collective's
 * tasks are listed in mesh order without gaps. So the function first tries the place that follows from this order,
 * and only then searches. */
int32_t
comm_ranks_partner(const struct plan *p, int32_t task, int32_t comm_rank)
{
    const struct task *t = &p->task[task];
    const struct plan_move *m = t->move.of;
    int32_t first;
    collective_comm_rank(m->by, m->to->place, t->pos, &first);
    int32_t pos = collective_pos(m->by, m->to->place, first, comm_rank), step = pos < t->pos ? -1 : 1;
    int64_t at = (int64_t)task + pos - t->pos;
    if (is_of(p, at, m) && p->task[at].pos == pos) return (int32_t)at;
    for (at = task; is_of(p, at, m); at += step)
        if (p->task[at].pos == pos) return (int32_t)at;
    return -1;
}

bool
comm_ranks_abroad(const struct plan *p, int32_t task)
{
    int32_t n = p->nmemory > 1 ? p->task[task].move.of->by->size : 0;
    for (int32_t i = 0; i < n; i++)
        if (comm_ranks_partner(p, task, i) < 0) return true;
    return false;
}

/* A task that needs a communicator, with the sort key by which communicators are created. hop: number of the task's
 * hop; first, second: the first two devices of the communicator. */
struct wish {
    int32_t hop, first, second, task;
};

static int
compare_rank_order(const void *a, const void *b)
{
    const struct wish *v = a, *w = b;
    const int32_t x[] = {v->hop, v->first, v->second, v->task}, y[] = {w->hop, w->first, w->second, w->task};
    for (size_t i = 0; i < countof(x); i++)
        if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
    return 0;
}

static struct wish
wish_of(const struct task *t, int32_t task, int32_t hop)
{
    const struct communicator *in = t->move.member->in;
    struct wish w = {hop, in->device[0], in->device[1], task};
    if (!(t->kind->flags & KIND_COLLECTS)) return w;
    collective_comm_rank(t->move.of->by, t->move.of->to->place, t->pos, &w.first);
    w.second = 0;
    return w;
}

static struct wish *
list_wishes(const struct plan *p, struct arena *a, int32_t *n)
{
    struct wish *wish = ARENA_ARRAY(a, struct wish, p->ntask + 1);
    const struct plan_move *last = NULL;
    int32_t hop = 0;
    *n = 0;
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        if (!(t->kind->flags & (KIND_COLLECTS | KIND_P2P))) continue;
        hop += last != t->move.of;
        last = t->move.of;
        wish[(*n)++] = wish_of(t, i, hop);
    }
    if (*n) qsort(wish, (size_t)*n, sizeof *wish, compare_rank_order);
    return wish;
}

int32_t
comm_ranks_communicators(const struct plan *p, struct arena *a, struct communicator ***out)
{
    int32_t n, nfound = 0;
    const struct wish *wish = list_wishes(p, a, &n);
    struct hash_table found = {.arena = a};
    *out = ARENA_ARRAY(a, struct communicator *, n + 1);
    for (int32_t i = 0; i < n; i++) {
        struct communicator *in = p->task[wish[i].task].move.member->in;
        uint32_t at = 0;
        const void *known;
        while ((known = hash_next(&found, in->name, &at)) && known != in) continue;
        if (known) continue;
        hash_add(&found, in->name, in);
        (*out)[nfound++] = in;
    }
    return nfound;
}

/* ---- the contract ---- */

/* Columns of a collective's row in the list. HOP: the hop's place in the program (step, operand, index); WHAT:
 * digest of the facts on which all partitions must agree; HERE: number of ranks in this partition; ALL: number of
 * ranks in all partitions. */
enum { HOP, WHAT, HERE, ALL, ROW };

static void
digest_layout(struct digest *d, const struct layout *l)
{
    const struct place *p = l->place;
    digest_add(d, (uint64_t)p->kind << 8 | p->naxis);
    for (int a = 0; a < p->naxis; a++) {
        digest_add(d, (uint64_t)p->axis[a] << 32 | (uint64_t)l->sbp[a].kind << 24 | (uint64_t)l->sbp[a].axis << 16 |
                          (uint64_t)l->sbp[a].reduce << 8 | l->order[a]);
        digest_add(d, (uint64_t)l->sbp[a].unit);
    }
    for (int32_t i = 0; i < p->nrank; i++) digest_add(d, (uint64_t)p->rank[i]);
}

/* Returns a digest of a collective move: the moved value, the two layouts and the collective. These facts
 * determine the ranks, blocks and devices. */
static uint64_t
what_of(const struct plan_move *m, const struct task *t)
{
    const struct collective *c = m->by;
    struct digest d = DIGEST_BEGIN;
    digest_add(&d, (uint64_t)m->value.kind << 40 | (uint64_t)m->value.out << 32 | (uint32_t)m->value.index);
    digest_add(&d, (uint64_t)m->type.dtype << 8 | m->type.ndim);
    for (int k = 0; k < m->type.ndim; k++) digest_add(&d, (uint64_t)m->type.dim[k]);
    digest_layout(&d, m->from);
    digest_layout(&d, m->to);
    digest_add(&d, (uint64_t)c->verb << 24 | (uint64_t)c->reduce << 16 | (uint64_t)c->dtype << 8 | c->gives);
    digest_add(&d, (uint64_t)c->axes << 32 | (uint32_t)c->size);
    digest_add(&d, (uint64_t)c->nsent << 32 | (uint32_t)c->ncame);
    digest_add(&d, (uint64_t)t->nact << 1 | m->late);
    return hash_number(d.a, d.b);
}

void
comm_ranks_write(const struct plan *p, struct str *s)
{
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct plan_move *m = p->task[i].move.of;
        int32_t first = i;
        if (!(p->task[i].kind->flags & KIND_COLLECTS)) continue;
        while (is_of(p, i + 1, m)) i++;
        contract_put(s, (uint64_t)m->step << 32 | (uint64_t)(uint16_t)m->operand << 16 | (uint16_t)m->hop);
        contract_put(s, what_of(m, &p->task[i]));
        contract_put(s, (uint64_t)(i + 1 - first));
        contract_put(s, (uint64_t)m->to->place->nrank);
    }
}

struct row {
    uint64_t word[ROW];
    int memory;
};

static int
by_hop(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->word[HOP] != y->word[HOP]) return x->word[HOP] < y->word[HOP] ? -1 : 1;
    return (x->memory > y->memory) - (x->memory < y->memory);
}

static int
row_differs(const struct row *r, const char *what)
{
    struct str text = {0};
    str_addf(&text, "step %d, ", (int)(r->word[HOP] >> 32));
    hops_side_print((int16_t)(r->word[HOP] >> 16), &text);
    str_addf(&text, ", hop %d", (int16_t)r->word[HOP]);
    int status = fail(E_PLAN, "collectives: %s: host %d %s", str_text(&text), r->memory, what);
    str_free(&text);
    return status;
}

/* Checks the rows of one collective, which are those with the same hop as row r, one per partition: all must
 * describe the same collective, and together have all ranks. Returns the number of these rows in *n. */
static int
match_hop(const struct row *r, size_t left, size_t *n)
{
    uint64_t nrank = 0;
    for (*n = 0; *n < left && r[*n].word[HOP] == r->word[HOP]; ++*n) {
        if (*n && r[*n].memory == r[*n - 1].memory) return row_differs(&r[*n], "has two collectives of this name");
        if (r[*n].word[WHAT] != r->word[WHAT] || r[*n].word[ALL] != r->word[ALL])
            return row_differs(&r[*n], "takes part in another collective than the first host");
        if (r[*n].word[HERE] > r->word[ALL] - nrank)
            return row_differs(&r[*n], "claims more communicator ranks than the other hosts leave");
        nrank += r[*n].word[HERE];
    }
    return nrank == r->word[ALL]
               ? 0
               : row_differs(r, "takes part in a collective in which some positions have no communicator rank");
}

int
comm_ranks_match(int n, const struct comm_ranks_list *list)
{
    size_t nrow = 0, all = 0, same;
    int status = 0;
    for (int i = 0; i < n; i++) {
        if (list[i].n % (8 * ROW))
            return fail(E_PLAN, "collectives: the list of host %d has an impossible size, %zu bytes", list[i].memory,
                        list[i].n);
        all += list[i].n / (8 * ROW);
    }
    struct row *row = must_alloc(sizeof *row * (all + 1));
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < list[i].n / (8 * ROW); k++, nrow++) {
            for (size_t w = 0; w < ROW; w++) row[nrow].word[w] = contract_get(list[i].bytes, k * ROW + w);
            row[nrow].memory = list[i].memory;
        }
    if (nrow) qsort(row, nrow, sizeof *row, by_hop);
    for (size_t i = 0; i < nrow && !status; i += same) status = match_hop(&row[i], nrow - i, &same);
    free(row);
    return status;
}
