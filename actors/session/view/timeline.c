/* timeline.c - writes a run as Chrome trace JSON, for Perfetto. Each device or stream has a track on which its acts
 * are slices. Arrows show values sent between devices of a host. Counters show bytes and registers in use. Each
 * device kind of a host is a process of the trace. Messages between hosts align the clocks. */
#include "actors/plan/model/sync.h"
#include "actors/plan/sim/account.h"
#include "actors/session/core/face.h"
#include "actors/session/run/cluster_view.h"
#include "actors/session/step/compiled.h"

#include "runtime/device/device.h"
#include "runtime/file/disk/file.h"
#include "runtime/device/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct timeline { /* state while writing one host's plan partition */
    const struct rille_graph *g;
    const struct plan *p;
    const struct act_time *act;
    int64_t nact;
    int part;
    const char *host; /* name of the host; "": the session has a single host */
    bool *any;        /* an event was written before, so a comma must come first */
    FILE *f;
    struct arena tmp;
};

static void
put_json_text(FILE *f, const char *text)
{
    fputc('"', f);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', f);
        if ((unsigned char)*text >= 32) fputc(*text, f);
    }
    fputc('"', f);
}

static double
micros(const struct timeline *t, int64_t ns)
{
    return (double)(ns - t->g->times.begin_ns) * 1e-3;
}

/* Returns the process id that stands for one device kind of a host in the trace file. The threads of this process
 * are the devices or, if devices have several streams, the streams. */
static int
pid_of(const struct timeline *t, int32_t device)
{
    return 1 + t->part * NDEVICE_KIND + (int)t->p->device[device].kind - (int)DEV_CPU;
}

static int
tid_of(const struct timeline *t, int32_t device, int role)
{
    const struct plan_device *d = &t->p->device[device];
    return device_kind(d->kind)->flags & ROLES ? (int)d->rank * NSTREAM + role : (int)d->rank;
}

static void
put_tracks(const struct timeline *t, int32_t device, unsigned roles)
{
    const struct plan_device *d = &t->p->device[device];
    for (int role = 0; role < NSTREAM; role++)
        if (roles >> role & 1)
            fprintf(t->f,
                    ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"ts\":0,\"pid\":%d,\"tid\":%d,\"args\":{\"name\":"
                    "\"%s:%d%s%s\"}}",
                    pid_of(t, device), tid_of(t, device, role), device_kind_text(d->kind), (int)d->rank,
                    role ? " " : "", role ? stream_role_text(role) : "");
}

static void
put_devices(struct timeline *t)
{
    uint64_t named = 0;
    uint8_t *roles = ARENA_ARRAY(&t->tmp, uint8_t, t->p->ndevice + 1);
    sync_roles(t->p, roles);
    for (int32_t d = 0; d < t->p->ndevice; d++) {
        int pid = pid_of(t, d);
        const char *kind = device_kind_text(t->p->device[d].kind);
        if (!(named >> t->p->device[d].kind & 1))
            fprintf(
                t->f,
                "%s\n{\"name\":\"process_name\",\"ph\":\"M\",\"ts\":0,\"pid\":%d,\"tid\":0,\"args\":{\"name\":\"rille "
                "%s%s%s\"}}",
                named || *t->any ? "," : "", pid, kind, *t->host ? " of " : "", t->host);
        named |= (uint64_t)1 << t->p->device[d].kind;
        *t->any = true;
        put_tracks(t, d, roles[d]);
    }
}

static void
put_act(const struct timeline *t, int64_t i)
{
    const struct act_time *a = &t->act[i];
    const struct task *task = &t->p->task[a->task];
    static const char *const phase[] = {"forward", "backward", "weight", "batch"};
    char line[512];
    fprintf(t->f, ",\n{\"name\":");
    put_json_text(t->f, task->name);
    fprintf(t->f,
            ",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%d,\"tid\":%d,\"args\":{\"micro_batch\":%d,"
            "\"stage\":%d,\"thread\":%d,\"line\":",
            phase[task->phase], micros(t, a->begin), (double)(a->end - a->begin) * 1e-3, pid_of(t, task->device),
            tid_of(t, task->device, task->stream), (int)a->piece, (int)task->stage,
            (int)(t->part ? task->thread : t->g->times.act_thread[i]));
    struct line at = task_line(t->p, task);
    snprintf(line, sizeof line, "%s:%d", at.file ? at.file : "", at.line);
    put_json_text(t->f, line);
    fprintf(t->f, "}}");
}

/* Writes one end of an arrow. Trace viewers attach the arrow to the slice that encloses the time. */
static void
put_end(const struct timeline *t, const char *end, int64_t id, int32_t task, int64_t ns)
{
    const struct task *of = &t->p->task[task];
    fprintf(t->f,
            ",\n{\"name\":\"register\",\"cat\":\"message\",\"ph\":%s,\"id\":%lld,\"ts\":%.3f,\"pid\":%d,\"tid\":%d}",
            end, (long long)id, micros(t, ns), pid_of(t, of->device), tid_of(t, of->device, of->stream));
}

static void
put_messages(struct timeline *t)
{
    struct crossing *list;
    int64_t n, id = ((int64_t)t->part << 32) + 1;
    plan_crossings(t->p, t->act, t->nact, &t->tmp, &list, &n);
    for (int64_t i = 0; i < n; i++) {
        put_end(t, "\"s\"", id + i, list[i].from, list[i].sent - 1); /* 1 ns earlier, to be within the slice */
        put_end(t, "\"f\",\"bp\":\"e\"", id + i, list[i].to, list[i].taken);
    }
}

static int64_t *
all_registers(struct timeline *t)
{
    int64_t *total = ARENA_ARRAY(&t->tmp, int64_t, t->p->ndevice + 1);
    for (int32_t i = 0; i < t->p->ntask; i++)
        for (int32_t k = 0; k < t->p->task[i].nout; k++) {
            const struct out_port *o = &t->p->task[i].out[k];
            if (o->where.kind == IN_ARENA && o->bytes) total[o->where.index] += o->nreg;
        }
    return total;
}

/* Writes counters over time: free registers (credits), registers in use, and their bytes. Writes one value per point
 * in time. */
static void
put_trace_counters(struct timeline *t)
{
    struct reg_change *list;
    int64_t n, *total = all_registers(t), *used = ARENA_ARRAY(&t->tmp, int64_t, t->p->ndevice + 1),
               *bytes = ARENA_ARRAY(&t->tmp, int64_t, t->p->ndevice + 1);
    plan_changes(t->p, t->act, t->nact, &t->tmp, &list, &n);
    for (int64_t i = 0; i < n; i++) {
        int32_t d = list[i].device;
        const char *kind = device_kind_text(t->p->device[d].kind);
        int rank = (int)t->p->device[d].rank;
        used[d] += list[i].bytes > 0 ? 1 : -1;
        bytes[d] += list[i].bytes;
        if (i + 1 < n && list[i + 1].at == list[i].at && list[i + 1].device == d) continue;
        fprintf(t->f,
                ",\n{\"name\":\"memory %s:%d\",\"ph\":\"C\",\"ts\":%.3f,\"pid\":%d,\"args\":{\"bytes\":%lld}}"
                ",\n{\"name\":\"credits "
                "%s:%d\",\"ph\":\"C\",\"ts\":%.3f,\"pid\":%d,\"args\":{\"used\":%lld,\"free\":%lld}}",
                kind, rank, micros(t, list[i].at), pid_of(t, d), (long long)bytes[d], kind, rank, micros(t, list[i].at),
                pid_of(t, d), (long long)used[d], (long long)(total[d] - used[d]));
    }
}

static void
put_part(const struct rille_graph *g, int part, const struct cluster_view *x, FILE *f, bool *any)
{
    struct timeline t = {
        .g = g, .p = x->plan, .act = x->act, .nact = x->nact, .part = part, .host = x->host, .any = any, .f = f};
    if (part == 0) t.act = g->times.act, t.nact = g->times.nact;
    put_devices(&t);
    for (int64_t i = 0; i < t.nact; i++) put_act(&t, i);
    put_messages(&t);
    put_trace_counters(&t);
    arena_fini(&t.tmp);
}

int
rille_graph_timeline(struct rille_graph *g, const char *path)
{
    TRY(face_graph(g, __func__));
    TRY(face_given(path, "the path", __func__));
    struct file_out out;
    bool any = false;
    g->times.watched = true;
    if (g->times.nact == 0) {
        free(g->trace_path);
        g->trace_path = strdup(path);
        g->write_trace = rille_graph_timeline;
        return 0;
    }
    struct cluster_view part[CLUSTER_VIEW_PARTS];
    TRY(cluster_view_settle(g->s, g->runner, g->times.act, g->times.nact, part));
    TRY(file_create("trace", path, &out));
    fprintf(out.f, "{\"traceEvents\":[");
    int n = cluster_view_count(g->runner);
    for (int i = 0; i < n; i++) put_part(g, i, &part[i], out.f, &any);
    fprintf(out.f, "\n],\"displayTimeUnit\":\"ms\",\"otherData\":{\"hosts\":%d,\"shown\":%d}}\n",
            cluster_view_hosts(g->runner), n);
    return file_finish(&out);
}
