/* plan_print.c - prints a plan as text, for people and for tests that compare plans.
 *
 * The logical view has one line per group of ranks with equal tasks: task numbers, name, devices, local types of
 * results, number of registers (for example x2), bytes on one rank, inputs, and the source line of the user's
 * program. The logical view omits facts that depend on the machine (threads, offsets, kernel variants), so a
 * program prints the same text everywhere. The physical view also shows these facts. */
#include "actors/plan/plan_print.h"
#include "actors/plan/memory/peak.h"
#include "actors/plan/sim/account.h"
#include "actors/plan/outline/outline.h"
#include "actors/plan/model/plan.h"

#include "runtime/device/device.h"
#include "runtime/device/stream.h"
#include "boxing/name.h"

#include <stdlib.h>
#include <string.h>

enum { COL_NAME = 9, COL_PLACE = 32, COL_TYPE = 46, COL_BYTES = 66, COL_FROM = 76 };

static const char *const phase_text[] = {"forward", "backward", "weights", "batch"};

/* ---- properties of a task ---- */

static struct type
result_type(const struct plan *p, int32_t task, int32_t out)
{
    return p->task[task].kind->result(p, task, out);
}

static bool
has_register(const struct out_port *o)
{
    return o->where.kind == IN_ARENA || o->where.kind == IN_ROOT;
}

static int64_t
task_register_bytes(const struct task *t)
{
    int64_t bytes = 0;
    for (int32_t k = 0; k < t->nout; k++)
        if (has_register(&t->out[k])) bytes += t->out[k].bytes * t->out[k].nreg;
    return bytes;
}

/* Returns true if tasks a and b may be printed as one line, because their lines would differ in the rank only. */
static bool
tasks_alike(const struct plan *p, int32_t a, int32_t b)
{
    const struct task *x = &p->task[a], *y = &p->task[b];
    if (x->kind != y->kind || x->node != y->node || task_hop(x) != task_hop(y) || x->nresult != y->nresult)
        return false;
    if (x->nact != y->nact || p->device[x->device].kind != p->device[y->device].kind) return false;
    if (task_hop(x) && x->move.stage != y->move.stage) return false;
    for (int32_t k = 0; k < x->nresult; k++) {
        struct type s = result_type(p, a, k), t = result_type(p, b, k);
        if (!type_equal(&s, &t) || x->out[k].nreg != y->out[k].nreg) return false;
        if ((x->out[k].where.kind == IN_ROOT) != (y->out[k].where.kind == IN_ROOT)) return false;
    }
    return true;
}

static int32_t
group_end(const struct plan *p, int32_t first)
{
    int32_t i = first + 1;
    while (i < p->ntask && tasks_alike(p, first, i)) i++;
    return i;
}

/* ---- lists of numbers ---- */

/* A growing list of pairs: a number and the index of a result. A pair is stored as key = number * PER + index. */
enum { PER = 128 }; /* factor of the key; it exceeds the number of results of a task */
struct list {
    int64_t *key;
    int32_t n, capacity;
};

static void
list_add(struct list *l, int64_t number, int64_t sub)
{
    GROW(l->key, l->n + 1, l->capacity);
    l->key[l->n++] = number * PER + sub;
}

static int
by_result(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    if (x % PER != y % PER) return x % PER < y % PER ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Prints the pairs as runs of numbers, for example "0-3, 5, 8-9.1", where the 1 after the dot is the index of the
 * result. Empties the list. */
static void
list_print(struct list *l, struct str *s)
{
    if (l->n > 1) qsort(l->key, (size_t)l->n, sizeof(*l->key), by_result);
    bool first = true;
    for (int32_t i = 0; i < l->n;) {
        int32_t end = i;
        while (end + 1 < l->n && l->key[end + 1] - l->key[end] <= PER && (l->key[end + 1] - l->key[end]) % PER == 0)
            end++;
        int64_t from = l->key[i] / PER, to = l->key[end] / PER, sub = l->key[i] % PER;
        str_addf(s, "%s%lld", first ? "" : ", ", (long long)from);
        if (to > from) str_addf(s, "-%lld", (long long)to);
        if (sub > 0) str_addf(s, ".%lld", (long long)sub);
        first = false;
        i = end + 1;
    }
    l->n = 0;
}

/* ---- the logical view ---- */

/* Appends at least two spaces, up to column `at`. */
static void
column(struct str *s, size_t at)
{
    str_add(s, "  ");
    str_pad(s, at);
}

static void
print_name(const struct plan *p, int32_t task, struct str *s)
{
    column(s, COL_NAME);
    p->task[task].kind->print(p, task, s);
}

static void
print_place_tasks(const struct plan *p, int32_t first, int32_t end, struct list *l, struct str *s)
{
    column(s, COL_PLACE);
    str_addf(s, "%s[", device_kind_text(p->device[p->task[first].device].kind));
    for (int32_t i = first; i < end; i++) list_add(l, p->device[p->task[i].device].rank, 0);
    list_print(l, s);
    str_add(s, "]");
}

static void
print_task_results(const struct plan *p, int32_t task, struct str *s)
{
    const struct task *t = &p->task[task];
    enum { SHOWN = 6 };
    column(s, COL_TYPE);
    for (int32_t k = 0; k < t->nresult; k++) {
        if (k == SHOWN && t->nresult > SHOWN + 1) {
            str_addf(s, ", ... (%d)", (int)t->nresult);
            break;
        }
        struct type type = result_type(p, task, k);
        if (k) str_add(s, ", ");
        type_print(&type, s);
        if (t->out[k].nreg > 1) str_addf(s, " x%d", (int)t->out[k].nreg);
    }
    column(s, COL_BYTES);
    str_addf(s, "%lld B", (long long)task_register_bytes(t));
}

/* Relations of a task to other tasks and values, in the order in which they are printed. first: text before a list
 * of numbers. then: text in place of `first` after another "from" list, as in "from leaf 0, number 1"; NULL:
 * `first`. */
enum relation { FROM_TASK, FROM_LEAF, FROM_NUMBER, AFTER, LENT_BY, TO_ROOT, OVER_LEAF, NRELATION };
static const struct {
    const char *first, *then;
} relation_text[] = {
    [FROM_TASK] = {"from ", NULL},
    [FROM_LEAF] = {"from leaf ", ", leaf "},
    [FROM_NUMBER] = {"from number ", ", number "},
    [AFTER] = {"after ", NULL},
    [LENT_BY] = {"credit of ", NULL},
    [TO_ROOT] = {"to root ", NULL},
    [OVER_LEAF] = {"over leaf ", NULL},
};

static void
collect_inputs(const struct plan *p, const struct task *t, enum relation what, struct list *l)
{
    for (int32_t i = 0; i < t->nin; i++) {
        const struct in_port *in = &t->in[i];
        bool result = in->out < p->task[in->task].nresult, control = p->task[in->task].out[in->out].control;
        if (what == (result ? FROM_TASK : control ? AFTER : LENT_BY)) list_add(l, in->task, result ? in->out : 0);
    }
    for (int32_t i = 0; i < t->narg; i++) {
        const struct arg *a = &t->arg[i];
        if (a->kind == ARG_LEAF && what == FROM_LEAF) list_add(l, p->leaf_part[a->index].index, 0);
        if (a->kind == ARG_NUMBER && what == FROM_NUMBER) list_add(l, a->index, 0);
    }
}

static void
collect_outputs(const struct plan *p, const struct task *t, enum relation what, struct list *l)
{
    for (int32_t k = 0; k < t->nresult; k++) {
        if (t->out[k].where.kind != IN_ROOT) continue;
        int32_t root = p->root_part[t->out[k].where.index].index;
        if (what == TO_ROOT) list_add(l, root, 0);
        if (what == OVER_LEAF && p->overwrites[root]) list_add(l, p->program->root[root].overwrites_leaf, 0);
    }
}

static void
print_relations(const struct plan *p, int32_t first, int32_t end, struct list *l, struct str *s)
{
    bool from = false, any = false;
    column(s, COL_FROM);
    for (int what = 0; what < NRELATION; what++) {
        for (int32_t i = first; i < end; i++) {
            collect_inputs(p, &p->task[i], (enum relation)what, l);
            collect_outputs(p, &p->task[i], (enum relation)what, l);
        }
        if (l->n == 0) continue;
        bool then = from && relation_text[what].then;
        str_addf(s, "%s%s", any && !then ? "; " : "", then ? relation_text[what].then : relation_text[what].first);
        list_print(l, s);
        from = from || what <= FROM_NUMBER;
        any = true;
    }
}

/* Prints the phase and the source line of a task. */
static void
print_task_line(const struct plan *p, const struct task *t, struct str *s)
{
    if (p->pieces > 1) str_addf(s, "; %s%s", phase_text[t->phase], t->nact > 1 ? ", each micro-batch" : "");
    struct line line = task_line(p, t);
    if (line.file) str_addf(s, "; %s:%d", line.file, (int)line.line);
    if (line.file && line.inside) str_addf(s, " in %s", line.inside);
    if (!task_op(p, t) || t->chain) return;
    const char *whole = p->program->node[t->node].name;
    if (whole && strcmp(whole, t->name)) str_addf(s, " of %s", whole);
}

static void
print_task_group(const struct plan *p, int32_t first, int32_t end, struct list *l, struct str *s)
{
    str_addf(s, "%5d", (int)first);
    if (end - first > 1) str_addf(s, "-%d", (int)end - 1);
    print_name(p, first, s);
    print_place_tasks(p, first, end, l, s);
    print_task_results(p, first, s);
    print_relations(p, first, end, l, s);
    print_task_line(p, &p->task[first], s);
    str_add(s, "\n");
}

/* Returns the number of times per run that the move is made. */
static int64_t
move_times(const struct plan *p, const struct plan_move *b)
{
    for (int32_t i = 0; i < p->ntask; i++)
        if (task_hop(&p->task[i]) == b) return p->task[i].nact;
    return 0;
}

static void
print_moves(const struct plan *p, struct str *s)
{
    int64_t total = 0;
    for (int32_t i = 0; i < p->nmove; i++) {
        const struct plan_move *b = p->move[i];
        int64_t times = move_times(p, b);
        total += b->bytes * times;
        str_addf(s, "move  step %d, ", (int)b->step);
        hops_side_print(b->operand, s);
        str_addf(s, ", hop %d: %s  ", b->hop, b->name);
        type_print(&b->type, s);
        str_add(s, "  ");
        layout_print(b->from, s);
        str_add(s, " on ");
        place_print(b->from->place, s);
        str_add(s, " -> ");
        layout_print(b->to, s);
        str_add(s, " on ");
        place_print(b->to->place, s);
        const char *each = p->pieces == 1 ? "" : times > 1 ? " per micro-batch" : " per batch";
        str_addf(s, ": %lld B%s, bound %lld B", (long long)b->bytes, each, (long long)b->bound);
        if (times > 1) str_addf(s, ", %lld times per batch", (long long)times);
        if (b->nleg) box_relay_print(b->nleg, b->back, b->nchunk, s);
        str_add(s, "\n");
    }
    str_addf(s, "moved %lld B%s\n", (long long)total, p->pieces > 1 ? " per batch" : "");
}

struct use {
    int64_t bytes;
    int32_t nreg;
};

static void
print_memory(const struct plan *p, struct list *l, struct str *s)
{
    struct use *use = must_alloc(sizeof *use * (size_t)MAX(1, p->ndevice));
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        use[task_holder(t)].bytes += task_register_bytes(t);
        for (int32_t k = 0; k < t->nresult; k++) use[task_holder(t)].nreg += t->out[k].nreg;
    }
    for (int32_t d = 0, end; d < p->ndevice; d = end) {
        for (end = d; end < p->ndevice; end++) {
            bool same = use[end].bytes == use[d].bytes && use[end].nreg == use[d].nreg;
            if (!same || p->device[end].kind != p->device[d].kind) break;
            list_add(l, p->device[end].rank, 0);
        }
        str_addf(s, "memory %s[", device_kind_text(p->device[d].kind));
        list_print(l, s);
        str_addf(s, "]: %d register%s, %lld B%s\n", (int)use[d].nreg, use[d].nreg == 1 ? "" : "s",
                 (long long)use[d].bytes, end - d > 1 ? " each" : "");
    }
    free(use);
}

static void
print_logical(const struct plan *p, struct str *s)
{
    struct list l = {0};
    for (int32_t i = 0, end; i < p->ntask; i = end) {
        end = group_end(p, i);
        print_task_group(p, i, end, &l, s);
    }
    print_moves(p, s);
    print_memory(p, &l, s);
    free(l.key);
}

/* ---- the physical view ---- */

static void
print_registers(const struct task *t, struct str *s)
{
    for (int32_t k = 0; k < t->nresult; k++) {
        const struct out_port *o = &t->out[k];
        str_add(s, k ? ", " : "  ");
        if (o->where.kind == IN_ROOT)
            str_addf(s, "root part %d", (int)o->where.index);
        else if (o->where.kind == IN_TASK)
            str_addf(s, "in task %d", (int)o->where.index);
        else
            str_addf(s, "at %lld", (long long)o->where.offset);
        str_addf(s, " + %lld B", (long long)o->bytes);
        if (o->nreg > 1) str_addf(s, " x%d", (int)o->nreg);
        if (o->where.nact_offset) str_addf(s, " at %d offsets", (int)o->where.nact_offset);
    }
}

static void
print_physical(const struct plan *p, struct str *s)
{
    for (int32_t i = 0; i < p->ndevice; i++) {
        const struct plan_device *d = &p->device[i];
        str_addf(s, "device %s:%d  thread %d  arena %lld B  scratch at %lld + %lld B\n", device_kind_text(d->kind),
                 (int)d->rank, d->thread, (long long)d->arena_bytes, (long long)d->scratch,
                 (long long)d->scratch_bytes);
        if (d->arena_bytes == d->scratch_bytes) continue;
        str_add(s, "  most of it: ");
        plan_peak_print(p, i, 5, s);
        str_add(s, "\n");
    }
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        const struct plan_device *d = &p->device[t->device];
        str_addf(s, "%5d", (int)i);
        print_name(p, i, s);
        column(s, COL_PLACE);
        str_addf(s, "%s:%d  thread %d", device_kind_text(d->kind), (int)d->rank, t->thread);
        if (t->stream != STREAM_COMPUTE) str_addf(s, "  stream %s", stream_role_text(t->stream));
        print_registers(t, s);
        if (t->exec) str_addf(s, "  %s, scratch %lld B", exec_variant(t->exec), (long long)exec_scratch(t->exec));
        str_add(s, "\n");
    }
    str_addf(s, "plan itself %lld B\n", (long long)(p->arena.used_bytes + p->program->arena.used_bytes));
}

void
plan_print(const struct plan *p, bool physical, struct str *s)
{
    int64_t nreg = 0;
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nresult; k++) nreg += p->task[i].out[k].nreg;
    str_addf(s, "plan: %d micro-batch%s, %d device%s, %d task%s, %lld register%s", (int)p->pieces,
             p->pieces == 1 ? "" : "es", (int)p->ndevice, p->ndevice == 1 ? "" : "s", (int)p->ntask,
             p->ntask == 1 ? "" : "s", (long long)nreg, nreg == 1 ? "" : "s");
    if (p->nmemory > 1) str_addf(s, "; partition of host %d of %d", (int)p->memory, (int)p->nmemory);
    str_add(s, "\n");
    (physical ? print_physical : print_logical)(p, s);
}
