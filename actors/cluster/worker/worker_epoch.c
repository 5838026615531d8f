/* worker_epoch.c - a worker joins a cluster, makes what the epoch needs on this host, and opens its engine. */
#include "actors/cluster/worker/worker_epoch.h"

#include "actors/cluster/worker/worker_job.h"
#include "actors/cluster/worker/worker_kept.h"
#include "actors/cluster/worker/worker_unite.h"
#include "actors/act/run/engine.h"
#include "actors/cluster/wire/machine.h"
#include "kernels/exec/identity.h"
#include "runtime/base/error.h"
#include "runtime/base/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- joining ---- */

static char *
span_string(struct span s)
{
    char *text = must_alloc(s.n + 1);
    memcpy(text, s.bytes, s.n);
    return text;
}

static int
send_greeting(struct worker_process *w, int connection)
{
    w->shared.greeting.count = (uint64_t)connection;
    w->shared.greeted = connection;
    str_clear(&w->shared.packet);
    packet_write(&w->shared.greeting, &w->shared.packet);
    return link_send(w->link, LINK_BULK, 0, w->shared.packet.text, w->shared.packet.len);
}

/* Connects the link for values. On each connection, the first packet tells the coordinator the worker's rank, the
 * epoch in which the rank was assigned, and the number of the connection. */
static int
join_bulk(struct worker_process *w, const char *address, uint32_t epoch)
{
    w->shared.greeting = (struct packet){
        .kind = PACKET_BEAT, .epoch = epoch, .rank = member_rank(w->member), .job = {w->main.job_id, CLUSTER_ID}};
    TRY(link_join_more(w->link, LINK_BULK, address));
    return send_greeting(w, 1);
}

void
worker_epoch_greet(struct worker_process *w)
{
    int connections = link_connections(w->link, LINK_BULK);
    if (connections > w->shared.greeted && send_greeting(w, connections)) err_clear();
}

void
worker_epoch_welcome(struct worker_process *w, const struct order *o)
{
    char *beat = span_string(o->packet.beat), *bulk = span_string(o->packet.bulk);
    memcpy(w->main.job_id, o->packet.job.bytes, CLUSTER_ID);
    w->main.world = (int)o->packet.world;
    pthread_mutex_lock(&w->lock);
    worker_kept_forget(w->shared.kept, w->main.job_id);
    int status = link_join_more(w->link, LINK_BEAT, beat);
    if (!status) status = join_bulk(w, bulk, o->work.epoch);
    if (status) {
        member_leave(w->member, err_text());
        worker_leave(w, LEAVE_FAILED, err_text());
    } else if (w->options.joined) {
        w->options.joined();
    }
    pthread_mutex_unlock(&w->lock);
    free(beat);
    free(bulk);
}

/* Replaces the mapped segment. No work of this process uses the old segment, because no run begins before the
 * coordinator knows that the new segment is mapped. */
static void
set_segment(struct worker_process *w, struct segment *segment, uint32_t made)
{
    pthread_mutex_lock(&w->lock);
    segment_free(&w->shared.segment);
    w->shared.segment = segment;
    w->shared.segment_made = made;
    pthread_mutex_unlock(&w->lock);
}

static int
make_memory(struct worker_process *w, const struct packet *p, uint32_t epoch, char segment[SEGMENT_PATH],
            char bus[SEGMENT_PATH + 32])
{
    char path[SEGMENT_PATH];
    struct segment *made;
    int nslot = (int)MIN(p->nslot, (uint32_t)BUS_HOST_SLOTS + 1);
    if (nslot < 1 || nslot > BUS_HOST_SLOTS || p->memory == 0 || p->memory > (uint64_t)1 << 46)
        return fail(E_BUS, "packet MAKE: expected 1 to %d slots and 1 to 2^46 bytes, found %u slots and %llu bytes",
                    BUS_HOST_SLOTS, p->nslot, (unsigned long long)p->memory);
    if (p->flags & MAKE_FRESH) {
        TRY(segment_new(p->memory, &made));
        set_segment(w, made, epoch);
    }
    if (!w->shared.segment) return fail(E_BUS, "packet MAKE: the host's memory is not mapped");
    segment_free(&w->main.made_bus);
    TRY(segment_new(bus_host_bytes(nslot), &w->main.made_bus));
    bus_host_format(segment_base(w->main.made_bus), nslot);
    segment_path(w->shared.segment, segment);
    segment_path(w->main.made_bus, path);
    snprintf(bus, SEGMENT_PATH + 32, "%s %zu", path, segment_bytes(w->main.made_bus));
    return 0;
}

static int
worker_open_carrier(struct worker_process *w)
{
    struct carrier_options o = {.hear = worker_hear, .mpi = w->options.mpi, .link_ms = (int)(w->options.link_s * 1000)};
    struct carrier *carrier;
    char host[MACHINE_ADDRESS];
    struct key key = {0};
    if (w->shared.carrier) return 0;
    o.hear.of = w;
    o.host = host;
    machine_address(w->options.join, host);
    if (w->options.key_file) TRY(key_read(w->options.key_file, member_rank(w->member), &key));
    bool loopback = machine_is_loopback(host, strlen(host));
    if (w->options.key_file) o.key = &key;
    int status =
        w->options.key_file || loopback
            ? carrier_new(&o, &carrier)
            : fail(E_ARG, "workers are on other hosts, so a key is needed; start the workers with --key-file FILE");
    key_forget(&key);
    TRY(status);
    pthread_mutex_lock(&w->lock);
    w->shared.carrier = carrier;
    pthread_mutex_unlock(&w->lock);
    return 0;
}

static uint32_t
u32_at(struct span s, size_t i)
{
    uint32_t v;
    memcpy(&v, s.bytes + 4 * i, 4);
    return v;
}

/* Kills lost worker processes of this host. A lost process may still run: it may be suspended, or only disconnected
 * from the coordinator. */
static int
end_lost(struct span lost)
{
    for (uint32_t i = 0; i < lost.n / 4; i++) TRY(machine_end((int)u32_at(lost, i)));
    return 0;
}

void
worker_epoch_make(struct worker_process *w, const struct order *o)
{
    char segment[SEGMENT_PATH] = "", bus[SEGMENT_PATH + 32] = "", port[CARRIER_PORT] = "";
    struct made made = {.segment = segment, .bus = bus, .port = port, .text = ""};
    made.status = end_lost(o->packet.lost);
    if (!made.status && o->packet.flags & MAKE_MEMORY)
        made.status = make_memory(w, &o->packet, o->work.epoch, segment, bus);
    if (!made.status && o->packet.flags & MAKE_PORT) made.status = worker_open_carrier(w);
    if (w->shared.carrier) carrier_port(w->shared.carrier, port);
    made.mpi = w->shared.carrier && carrier_has_mpi(w->shared.carrier);
    if (made.status) made.text = err_text();
    pthread_mutex_lock(&w->lock);
    member_made(w->member, o->work.epoch, &made);
    pthread_mutex_unlock(&w->lock);
}

/* Maps the segment for this host's messages in an epoch. text: "PATH BYTES". */
static int
open_bus(struct worker_process *w, struct span text)
{
    char *path = span_string(text), *space = strchr(path, ' ');
    segment_free(&w->main.bus);
    int status = space ? 0 : fail(E_BUS, "packet FORM: expected a path and a size of the bus, found no size");
    if (space) *space = '\0';
    if (!status) status = segment_open(path, (size_t)strtoull(space + 1, NULL, 10), &w->main.bus);
    free(path);
    return status;
}

static int
read_range(const struct worker_process *w, struct span ranges, int i, struct plan_range *out)
{
    enum { RANGE = 6 };
    uint32_t v[RANGE];
    for (int k = 0; k < RANGE; k++) v[k] = u32_at(ranges, (size_t)(i * RANGE + k));
    if (v[0] >= NDEVICE_KIND || v[1] > INT32_MAX / 2 || v[2] > INT32_MAX / 2 || v[4] < 1 || v[4] > CLUSTER_SLOTS ||
        v[3] > CLUSTER_SLOTS || v[5] >= (uint32_t)w->shared.nmemory ||
        ((int)v[5] == w->shared.map.memory && v[3] + v[4] > (uint32_t)w->shared.nslot))
        return fail(
            E_BUS,
            "packet FORM: device range %d is out of range: found kind %u, devices from %u, %u devices, slots from "
            "%u, %u slots, host %u",
            i, v[0], v[1], v[2], v[3], v[4], v[5]);
    *out =
        (struct plan_range){(int32_t)v[0], (int32_t)v[1], (int32_t)v[2], (int32_t)v[3], (int32_t)v[4], (int32_t)v[5]};
    return 0;
}

static int
read_slots(struct worker_process *s, struct span slots, uint32_t home)
{
    s->shared.nall = (int)(slots.n / sizeof *s->shared.slot);
    if (s->shared.nall < 1 || s->shared.nall > CLUSTER_SLOTS || slots.n % sizeof *s->shared.slot)
        return fail(E_BUS, "packet FORM: expected 1 to %d slots of %zu bytes, found %u bytes", CLUSTER_SLOTS,
                    sizeof *s->shared.slot, slots.n);
    s->shared.slot = must_realloc(s->shared.slot, slots.n);
    memcpy(s->shared.slot, slots.bytes, slots.n);
    s->shared.nslot = s->shared.nmemory = 0;
    for (int i = 0; i < s->shared.nall; i++) {
        if (s->shared.slot[i].memory >= CLUSTER_SLOTS || s->shared.slot[i].owner >= (uint32_t)s->main.world)
            return fail(E_BUS,
                        "packet FORM: slot %d: expected a host from 0 to %d and an owner from 0 to %d, found %u and %u",
                        i, CLUSTER_SLOTS - 1, s->main.world - 1, s->shared.slot[i].memory, s->shared.slot[i].owner);
        s->shared.nmemory = MAX(s->shared.nmemory, (int)s->shared.slot[i].memory + 1);
        s->shared.nslot += s->shared.slot[i].memory == home;
    }
    return s->shared.nslot >= 1 && s->shared.nslot <= BUS_HOST_SLOTS
               ? 0
               : fail(E_BUS, "packet FORM: expected 1 to %d slots on this host, found %d", BUS_HOST_SLOTS,
                      s->shared.nslot);
}

static int
read_map(struct worker_process *w, const struct packet *p)
{
    enum { RANGE = 6 };
    int nrange = (int)(p->ranges.n / 4 / RANGE);
    if (p->ranges.n % (4 * RANGE) || p->threads < 1)
        return fail(
            E_BUS,
            "packet FORM: expected %d numbers per device range and at least 1 thread, found %u numbers and %u threads",
            RANGE, p->ranges.n / 4, p->threads);
    TRY(read_slots(w, p->slots, p->home));
    struct plan_range *range = must_realloc(w->shared.map.range, sizeof *range * (size_t)(nrange + 1));
    w->shared.map =
        (struct plan_map){.nrange = nrange, .nslot = w->shared.nslot, .memory = (int32_t)p->home, .range = range};
    for (int i = 0; i < nrange; i++) TRY(read_range(w, p->ranges, i, &range[i]));
    return 0;
}

/* Sets the abilities that plans for GPUs may use: the abilities that all GPUs of the cluster have. A worker without
 * a GPU sets the abilities, too, because all workers must make equal plans. */
static int
join_gpus(const struct worker_process *w, uint32_t abilities)
{
    int n = 0, first = 0, all = 0;
    for (int i = 0; i < w->shared.map.nrange; i++) {
        const struct plan_range *r = &w->shared.map.range[i];
        if (r->kind != DEV_CUDA) continue;
        all += r->n;
        if (r->memory == w->shared.map.memory) n = r->n, first = r->first;
    }
    return all ? cuda_join(abilities, first, n) : 0;
}

/* Returns the bus address of a thread of a memory's (host's) plan partition. It consists of the worker that runs the
 * thread and the thread's index in that worker. -1: there is no such thread. */
int64_t
worker_epoch_address(const struct worker_process *w, int memory, int thread)
{
    int at = -1, turn = 0;
    for (int i = 0; i < w->shared.nall && at < 0; i++)
        if ((int)w->shared.slot[i].memory == memory && thread-- == 0) at = i;
    if (at < 0) return -1;
    for (int i = 0; i < at; i++)
        turn += w->shared.slot[i].memory == w->shared.slot[at].memory &&
                w->shared.slot[i].owner == w->shared.slot[at].owner;
    return addr_of((int)w->shared.slot[at].owner, turn);
}

void
worker_epoch_close(struct worker_process *w)
{
    pthread_mutex_lock(&w->lock);
    struct engine *e = w->shared.engine;
    w->shared.engine = NULL;
    w->shared.bus_end = NULL;
    pthread_mutex_unlock(&w->lock);
    if (w->shared.carrier) carrier_leave(w->shared.carrier);
    engine_free(&e);    /* engine_free() frees the bus, too */
    worker_unite_cut(); /* aborts the communicators of the epoch that has ended */
}

/* Computes the bus address of each thread of this memory (host), and lists the flight recorders of this worker's
 * threads. A worker has a thread for each slot that it runs, in the order of the slots. */
static void
read_route(struct worker_process *w, int rank)
{
    w->main.route = must_realloc(w->main.route, sizeof *w->main.route * (size_t)w->shared.nslot);
    w->main.recorder = must_realloc(w->main.recorder, sizeof *w->main.recorder * (size_t)w->shared.nslot);
    w->main.nlocal = 0;
    for (int i = 0; i < w->shared.nslot; i++) {
        w->main.route[i] = (uint32_t)worker_epoch_address(w, w->shared.map.memory, i);
        if (addr_process(w->main.route[i]) == rank)
            w->main.recorder[w->main.nlocal++] = bus_host_recorder(segment_base(w->main.bus), i);
    }
}

/* Returns true if threads may spin, because cores are left for the threads of the carrier and of the link. Counts
 * the threads of all workers of the host, and the cores to which a launcher has bound this process. */
static bool
may_spin(const struct worker_process *w)
{
    return w->shared.nslot < sysconf(_SC_NPROCESSORS_ONLN) && w->main.nlocal < limits_now().cores;
}

static int
worker_open_engine(struct worker_process *w, int rank, struct bus **bus, struct engine **out)
{
    uint32_t owner[BUS_HOST_SLOTS];
    for (int i = 0, k = 0; i < w->shared.nall; i++)
        if ((int)w->shared.slot[i].memory == w->shared.map.memory) owner[k++] = w->shared.slot[i].owner;
    TRY(bus_host_map(segment_base(w->main.bus), segment_bytes(w->main.bus), w->shared.nslot, owner, bus));
    read_route(w, rank);
    if (w->main.nlocal == 0) return fail(E_BUS, "packet FORM: worker %d has no slot", rank);
    struct engine_options o = {.process = rank,
                               .threads = w->main.nlocal,
                               .bus = &bus_host,
                               .spin_ns = may_spin(w) ? 50000 : 0,
                               .with = *bus,
                               .route = w->main.route,
                               .nroute = w->shared.nslot,
                               .recorder = w->main.recorder,
                               .gate = bus_host_gate(segment_base(w->main.bus))};
    return engine_new(&o, out);
}

static int
open_memory(struct worker_process *w, const struct packet *p)
{
    struct segment *opened;
    if (w->shared.segment && w->shared.segment_made == p->made) return 0;
    char *path = span_string(p->segment);
    int status = segment_open(path, p->memory, &opened);
    free(path);
    if (!status) set_segment(w, opened, p->made);
    return status;
}

/* Tells the user why hosts communicate by tcp instead of MPI. Only the worker of rank 0 prints this message. */
static void
say_why_tcp(const struct worker_process *w)
{
    const char *why = carrier_why_tcp(w->shared.carrier);
    char text[512];
    if (!why || !w->options.say || member_rank(w->member) != 0) return;
    snprintf(text, sizeof text, "hosts communicate by tcp, not by MPI: %s", why);
    w->options.say(text);
}

static int
join_others(struct worker_process *w, const struct order *o, struct bus *bus)
{
    char *ports = span_string(o->packet.ports);
    struct carrier_epoch e = {.epoch = o->work.epoch,
                              .job = w->main.job_id,
                              .rank = member_rank(w->member),
                              .world = w->main.world,
                              .ports = ports,
                              .lacks = o->packet.lacks,
                              .bus = bus};
    w->main.met = must_realloc(w->main.met, (size_t)w->shared.nmemory);
    memset(w->main.met, MEET_NOT, (size_t)w->shared.nmemory);
    worker_job_met(w, ports);
    int status = carrier_join(w->shared.carrier, &e);
    free(ports);
    if (!status) say_why_tcp(w);
    return status;
}

void
worker_epoch_form(struct worker_process *w, const struct order *o)
{
    struct engine *engine = NULL;
    struct bus *bus = NULL;
    worker_epoch_close(w);
    w->main.epoch = o->work.epoch;
    w->main.nasker = 0;
    int status = open_memory(w, &o->packet);
    if (!status) status = open_bus(w, o->packet.bus);
    pthread_mutex_lock(&w->lock);
    if (!status) status = read_map(w, &o->packet);
    pthread_mutex_unlock(&w->lock);
    if (!status) status = kernels_limit_isa(o->packet.isa);
    if (!status) status = join_gpus(w, o->packet.abilities);
    if (!status) status = worker_open_engine(w, member_rank(w->member), &bus, &engine);
    if (!status && w->shared.carrier) status = join_others(w, o, bus);
    pthread_mutex_lock(&w->lock);
    w->shared.engine = engine;
    w->shared.bus_end = engine ? bus : NULL;
    member_ready(w->member, o->work.epoch, status, status ? err_text() : "");
    pthread_mutex_unlock(&w->lock);
}
