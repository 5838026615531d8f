/* peak.c - reports the results that hold most of a device's register bytes at its peak. */
#include "actors/plan/memory/peak.h"

#include "runtime/base/error.h"
#include "runtime/data/str.h"

#include <stdlib.h>

/* A result, and the lifetime of its registers from task `first` to task `last`. */
struct live_range {
    int32_t task, out, first, last;
    int64_t bytes; /* total size of the result's registers, bytes */
};

static int32_t
last_port_reader(const struct out_port *o, int32_t task)
{
    for (int32_t f = 0; f < o->nfan; f++)
        for (int32_t r = 0; r < o->fan[f].nreader; r++) task = MAX(task, o->fan[f].reader[r].task);
    return task;
}

/* Lists the live ranges of results on a device. A result with several registers holds values of several
 * micro-batches, so it counts as live all the time. */
static struct live_range *
list_live(const struct plan *p, int32_t device, int32_t *n)
{
    struct live_range *list = NULL;
    int32_t capacity = 0;
    *n = 0;
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nresult; k++) {
            const struct out_port *o = &p->task[i].out[k];
            if (o->where.kind != IN_ARENA || o->where.index != device || o->bytes == 0) continue;
            GROW(list, *n + 1, capacity);
            bool pieces = o->nreg > 1;
            list[(*n)++] = (struct live_range){i, k, pieces ? 0 : i, pieces ? p->ntask : last_port_reader(o, i),
                                               o->nreg * where_stride(o->bytes)};
        }
    return list;
}

/* Returns the index of the task during which most bytes are live. */
static int32_t
find_peak(const struct plan *p, const struct live_range *list, int32_t n)
{
    int64_t *change = must_alloc(sizeof *change * (size_t)(p->ntask + 2)), now = 0, most = -1;
    int32_t peak = 0;
    for (int32_t i = 0; i < n; i++) {
        change[list[i].first] += list[i].bytes;
        change[list[i].last + 1] -= list[i].bytes;
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
compare_live_bytes(const void *x, const void *y)
{
    const struct live_range *a = x, *b = y;
    return a->bytes != b->bytes ? (a->bytes < b->bytes) - (a->bytes > b->bytes) : a->task - b->task;
}

/* Keeps the live ranges that include the peak, sorted from the largest; returns their number. */
static int32_t
keep_peak(const struct plan *p, struct live_range *list, int32_t n)
{
    int32_t peak = find_peak(p, list, n), kept = 0;
    if (n > 0) qsort(list, (size_t)n, sizeof *list, compare_live_bytes);
    for (int32_t i = 0; i < n; i++)
        if (list[i].first <= peak && peak <= list[i].last) list[kept++] = list[i];
    return kept;
}

void
plan_peak_print(const struct plan *p, int32_t device, int32_t n, struct str *s)
{
    int32_t all;
    struct live_range *list = list_live(p, device, &all);
    n = MIN(n, keep_peak(p, list, all));
    for (int32_t i = 0; i < n; i++) {
        const struct live_range *r = &list[i];
        const struct task *t = &p->task[r->task];
        struct type type = t->kind->result(p, r->task, r->out);
        struct line line = task_line(p, t);
        if (i) str_add(s, ", ");
        t->kind->print(p, r->task, s);
        str_add(s, " ");
        type_print(&type, s);
        if (t->out[r->out].nreg > 1) str_addf(s, " x%d", (int)t->out[r->out].nreg);
        str_addf(s, " %lld B", (long long)r->bytes);
        if (line.file) str_addf(s, " (%s:%d)", line.file, (int)line.line);
    }
    free(list);
}

int
plan_peak_blame(const struct plan *p, int32_t device, int status)
{
    struct str s = {0};
    plan_peak_print(p, device, 3, &s);
    if (s.len) fail((enum err_code)status, "%s; largest tensors: %s", err_text(), str_text(&s));
    str_free(&s);
    return status;
}
