/* peak.c - reports the results that occupy most of a device's registers at its peak. */
#include "actors/plan/memory/peak.h"

#include "runtime/base/str.h"

#include <stdlib.h>

/* A tenant and its lifetime, as indices of tasks. */
struct lived {
    struct peak_tenant is;
    int32_t first, last;
};

static int32_t
last_reader(const struct out_port *o, int32_t task)
{
    for (int32_t f = 0; f < o->nfan; f++)
        for (int32_t r = 0; r < o->fan[f].nreader; r++) task = MAX(task, o->fan[f].reader[r].task);
    return task;
}

/* Lists the tenants. Results with several registers belong to several micro-batches and count as live throughout. */
static struct lived *
list_lived(const struct plan *p, int32_t device, int32_t *n)
{
    struct lived *list = NULL;
    int32_t capacity = 0;
    *n = 0;
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nresult; k++) {
            const struct out_port *o = &p->task[i].out[k];
            if (o->where.kind != IN_ARENA || o->where.index != device || o->bytes == 0) continue;
            GROW(list, *n + 1, capacity);
            bool pieces = o->nreg > 1;
            list[(*n)++] = (struct lived){
                {i, k, o->nreg * where_stride(o->bytes)}, pieces ? 0 : i, pieces ? p->ntask : last_reader(o, i)};
        }
    return list;
}

/* Returns the task at which most bytes are live. */
static int32_t
find_peak(const struct plan *p, const struct lived *list, int32_t n)
{
    int64_t *change = must_alloc(sizeof *change * (size_t)(p->ntask + 2)), now = 0, most = -1;
    int32_t peak = 0;
    for (int32_t i = 0; i < n; i++) {
        change[list[i].first] += list[i].is.bytes;
        change[list[i].last + 1] -= list[i].is.bytes;
    }
    for (int32_t i = 0; i < p->ntask; i++) {
        now += change[i];
        if (now <= most) continue;
        most = now;
        peak = i;
    }
    free(change);
    return peak;
}

static int
by_bytes(const void *x, const void *y)
{
    const struct peak_tenant *a = &((const struct lived *)x)->is, *b = &((const struct lived *)y)->is;
    return a->bytes != b->bytes ? (a->bytes < b->bytes) - (a->bytes > b->bytes) : a->task - b->task;
}

int32_t
plan_tenants(const struct plan *p, int32_t device, struct peak_tenant *out, int32_t n)
{
    int32_t all, found = 0;
    struct lived *list = list_lived(p, device, &all);
    int32_t peak = find_peak(p, list, all);
    if (all) qsort(list, (size_t)all, sizeof *list, by_bytes);
    for (int32_t i = 0; i < all && found < n; i++)
        if (list[i].first <= peak && peak <= list[i].last) out[found++] = list[i].is;
    free(list);
    return found;
}

void
plan_tenants_print(const struct plan *p, int32_t device, int32_t n, struct str *s)
{
    struct peak_tenant *tenant = must_alloc(sizeof *tenant * (size_t)(n + 1));
    n = plan_tenants(p, device, tenant, n);
    for (int32_t i = 0; i < n; i++) {
        const struct task *t = &p->task[tenant[i].task];
        struct type type = t->kind->result(p, tenant[i].task, tenant[i].out);
        struct line line = task_line(p, t);
        if (i) str_add(s, ", ");
        t->kind->print(p, tenant[i].task, s);
        str_add(s, " ");
        type_print(&type, s);
        if (t->out[tenant[i].out].nreg > 1) str_addf(s, " x%d", (int)t->out[tenant[i].out].nreg);
        str_addf(s, " %lld B", (long long)tenant[i].bytes);
        if (line.file) str_addf(s, " (%s:%d)", line.file, (int)line.line);
    }
    free(tenant);
}
