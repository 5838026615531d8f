/* worker_epoch.c - the worker joins, makes what its host and the epoch need, and opens its engine. */
#include "actors/cluster/worker/worker_inner.h"

#include "actors/cluster/wire/machine.h"
#include "runtime/base/error.h"
#include "runtime/base/thread.h"

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

/* Joins the bulk link. The first packet tells the worker's rank and the epoch of its admission. */
static int
join_bulk(struct server *s, const char *address, uint32_t epoch)
{
    struct packet p = {
        .kind = PACKET_BEAT, .epoch = epoch, .rank = member_rank(s->member), .job = {s->job_id, CLUSTER_ID}};
    TRY(link_join_more(s->link, LINK_BULK, address));
    str_clear(&s->packet);
    packet_write(&p, &s->packet);
    return link_send(s->link, LINK_BULK, 0, s->packet.text, s->packet.len);
}

void
server_welcome(struct server *s, const struct order *o)
{
    char *beat = span_string(o->packet.beat), *bulk = span_string(o->packet.bulk);
    memcpy(s->job_id, o->packet.job.bytes, CLUSTER_ID);
    s->world = (int)o->packet.world;
    pthread_mutex_lock(&s->lock);
    int status = link_join_more(s->link, LINK_BEAT, beat);
    if (!status) status = join_bulk(s, bulk, o->work.epoch);
    if (status) {
        member_leave(s->member, err_text());
        server_leave(s, LEAVE_FAILED, err_text());
    } else if (s->options.joined) {
        s->options.joined();
    }
    pthread_mutex_unlock(&s->lock);
    free(beat);
    free(bulk);
}

/* Replaces the mapped segment. No work of this process uses the old one, because no run began before the coordinator
 * knew of the mapping. */
static void
set_segment(struct server *s, struct segment *segment, uint32_t made)
{
    pthread_mutex_lock(&s->lock);
    segment_free(&s->segment);
    s->segment = segment;
    s->segment_made = made;
    pthread_mutex_unlock(&s->lock);
}

static int
make_memory(struct server *s, const struct packet *p, uint32_t epoch, char segment[SEGMENT_PATH],
            char bus[SEGMENT_PATH + 32])
{
    char path[SEGMENT_PATH];
    struct segment *made;
    int nslot = (int)MIN(p->nslot, (uint32_t)BUS_HOST_SLOTS + 1);
    if (nslot < 1 || nslot > BUS_HOST_SLOTS || p->memory == 0 || p->memory > (uint64_t)1 << 46)
        return fail(E_BUS, "MAKE: %u slots, %llu bytes", p->nslot, (unsigned long long)p->memory);
    if (p->flags & MAKE_FRESH) {
        TRY(segment_new(p->memory, &made));
        set_segment(s, made, epoch);
    }
    if (!s->segment) return fail(E_BUS, "MAKE: the host's memory is not there");
    segment_free(&s->made_bus);
    TRY(segment_new(bus_host_bytes(nslot), &s->made_bus));
    bus_host_format(segment_base(s->made_bus), nslot);
    segment_path(s->segment, segment);
    segment_path(s->made_bus, path);
    snprintf(bus, SEGMENT_PATH + 32, "%s %zu", path, segment_bytes(s->made_bus));
    return 0;
}

static int
worker_open_carrier(struct server *s)
{
    struct carrier_options o = {.hear = server_hear, .mpi = s->options.mpi};
    struct carrier *carrier;
    char host[MACHINE_ADDRESS];
    struct key key = {0};
    if (s->carrier) return 0;
    o.hear.of = s;
    o.host = host;
    machine_address(s->options.join, host);
    if (s->options.key_file) TRY(key_read(s->options.key_file, member_rank(s->member), &key));
    bool loopback = machine_is_loopback(host, strlen(host));
    if (s->options.key_file) o.key = &key;
    int status = s->options.key_file || loopback
                     ? carrier_new(&o, &carrier)
                     : fail(E_ARG, "there are workers on other hosts, and there is no key (--key-file FILE)");
    key_forget(&key);
    TRY(status);
    pthread_mutex_lock(&s->lock);
    s->carrier = carrier;
    pthread_mutex_unlock(&s->lock);
    return 0;
}

static uint32_t
u32_at(struct span s, size_t i)
{
    uint32_t v;
    memcpy(&v, s.bytes + 4 * i, 4);
    return v;
}

/* Kills lost workers of this host, even if they are stopped, or only cut off from the coordinator. */
static int
end_lost(struct span lost)
{
    for (uint32_t i = 0; i < lost.n / 4; i++) TRY(machine_end((int)u32_at(lost, i)));
    return 0;
}

void
server_make(struct server *s, const struct order *o)
{
    char segment[SEGMENT_PATH] = "", bus[SEGMENT_PATH + 32] = "", port[CARRIER_PORT] = "";
    struct made made = {.segment = segment, .bus = bus, .port = port, .text = ""};
    made.status = end_lost(o->packet.lost);
    if (!made.status && o->packet.flags & MAKE_MEMORY)
        made.status = make_memory(s, &o->packet, o->work.epoch, segment, bus);
    if (!made.status && o->packet.flags & MAKE_PORT) made.status = worker_open_carrier(s);
    if (s->carrier) carrier_port(s->carrier, port);
    made.mpi = s->carrier && carrier_has_mpi(s->carrier);
    if (made.status) made.text = err_text();
    pthread_mutex_lock(&s->lock);
    member_made(s->member, o->work.epoch, &made);
    pthread_mutex_unlock(&s->lock);
}

/* Opens the bus of an epoch. text: "PATH BYTES" */
static int
open_bus(struct server *s, struct span text)
{
    char *path = span_string(text), *space = strchr(path, ' ');
    segment_free(&s->bus);
    int status = space ? 0 : fail(E_BUS, "the epoch's bus has no path");
    if (space) *space = '\0';
    if (!status) status = segment_open(path, (size_t)strtoull(space + 1, NULL, 10), &s->bus);
    free(path);
    return status;
}

static int
read_range(const struct server *s, struct span ranges, int i, struct plan_range *out)
{
    enum { RANGE = 6 };
    uint32_t v[RANGE];
    for (int k = 0; k < RANGE; k++) v[k] = u32_at(ranges, (size_t)(i * RANGE + k));
    if (v[0] >= NDEVICE_KIND || v[1] > INT32_MAX / 2 || v[2] > INT32_MAX / 2 || v[4] < 1 || v[4] > CLUSTER_SLOTS ||
        v[3] > CLUSTER_SLOTS || v[5] >= (uint32_t)s->nmemory ||
        ((int)v[5] == s->map.memory && v[3] + v[4] > (uint32_t)s->nslot))
        return fail(E_BUS, "FORM: range %d is none", i);
    *out =
        (struct plan_range){(int32_t)v[0], (int32_t)v[1], (int32_t)v[2], (int32_t)v[3], (int32_t)v[4], (int32_t)v[5]};
    return 0;
}

static int
read_slots(struct server *s, struct span slots, uint32_t home)
{
    s->nall = (int)(slots.n / sizeof *s->slot);
    if (s->nall < 1 || s->nall > CLUSTER_SLOTS || slots.n % sizeof *s->slot)
        return fail(E_BUS, "FORM: %u bytes of slots", slots.n);
    s->slot = must_realloc(s->slot, slots.n);
    memcpy(s->slot, slots.bytes, slots.n);
    s->nslot = s->nmemory = 0;
    for (int i = 0; i < s->nall; i++) {
        if (s->slot[i].memory >= CLUSTER_SLOTS || s->slot[i].owner >= (uint32_t)s->world)
            return fail(E_BUS, "FORM: slot %d is none", i);
        s->nmemory = MAX(s->nmemory, (int)s->slot[i].memory + 1);
        s->nslot += s->slot[i].memory == home;
    }
    return s->nslot >= 1 && s->nslot <= BUS_HOST_SLOTS ? 0 : fail(E_BUS, "FORM: %d slots on this host", s->nslot);
}

static int
read_map(struct server *s, const struct packet *p)
{
    enum { RANGE = 6 };
    int nrange = (int)(p->ranges.n / 4 / RANGE);
    if (p->ranges.n % (4 * RANGE) || p->threads < 1) return fail(E_BUS, "FORM: %u numbers of ranges", p->ranges.n / 4);
    TRY(read_slots(s, p->slots, p->home));
    struct plan_range *range = must_realloc(s->map.range, sizeof *range * (size_t)(nrange + 1));
    s->map = (struct plan_map){.nrange = nrange, .nslot = s->nslot, .memory = (int32_t)p->home, .range = range};
    for (int i = 0; i < nrange; i++) TRY(read_range(s, p->ranges, i, &range[i]));
    return 0;
}

/* Sets the abilities that plans for GPUs rely on: common to all GPUs of the cluster, also if this worker has no GPU. */
static int
join_gpus(const struct server *s, uint32_t abilities)
{
    int n = 0, first = 0, all = 0;
    for (int i = 0; i < s->map.nrange; i++) {
        const struct plan_range *r = &s->map.range[i];
        if (r->kind != DEV_CUDA) continue;
        all += r->n;
        if (r->memory == s->map.memory) n = r->n, first = r->first;
    }
    return all ? cuda_join(abilities, first, n) : 0;
}

/* Returns the bus address of a thread of a memory's partition: the slot's owner, and the slot's index among that
 * owner's slots. -1: no such thread. */
int64_t
server_address(const struct server *s, int memory, int thread)
{
    int at = -1, turn = 0;
    for (int i = 0; i < s->nall && at < 0; i++)
        if ((int)s->slot[i].memory == memory && thread-- == 0) at = i;
    if (at < 0) return -1;
    for (int i = 0; i < at; i++)
        turn += s->slot[i].memory == s->slot[at].memory && s->slot[i].owner == s->slot[at].owner;
    return addr_of((int)s->slot[at].owner, turn);
}

void
server_close_engine(struct server *s)
{
    pthread_mutex_lock(&s->lock);
    struct engine *e = s->engine;
    s->engine = NULL;
    s->bus_end = NULL;
    pthread_mutex_unlock(&s->lock);
    if (s->carrier) carrier_leave(s->carrier);
    engine_free(&e); /* frees the bus, too */
    server_cut();    /* communicators of the epoch that ended */
}

/* Computes the bus addresses of this memory's threads. This worker's slots are its threads, in order. */
static void
read_route(struct server *s, int rank)
{
    s->route = must_realloc(s->route, sizeof *s->route * (size_t)s->nslot);
    s->doing = must_realloc(s->doing, sizeof *s->doing * (size_t)s->nslot);
    s->nlocal = 0;
    for (int i = 0; i < s->nslot; i++) {
        s->route[i] = (uint32_t)server_address(s, s->map.memory, i);
        if (addr_process(s->route[i]) == rank) s->doing[s->nlocal++] = bus_host_doing(segment_base(s->bus), i);
    }
}

/* Returns true if threads may spin, because cores remain for the carrier's and the link's threads. Other processes
 * may share the host, and a launcher may bind this process to a few cores. */
static bool
may_spin(const struct server *s)
{
    return s->nslot < sysconf(_SC_NPROCESSORS_ONLN) && s->nlocal < thread_cores();
}

static int
worker_open_engine(struct server *s, int rank, struct bus **bus, struct engine **out)
{
    uint32_t owner[BUS_HOST_SLOTS];
    for (int i = 0, k = 0; i < s->nall; i++)
        if ((int)s->slot[i].memory == s->map.memory) owner[k++] = s->slot[i].owner;
    TRY(bus_host_map(segment_base(s->bus), segment_bytes(s->bus), s->nslot, owner, bus));
    read_route(s, rank);
    if (s->nlocal == 0) return fail(E_BUS, "FORM: worker %d has no slot", rank);
    struct engine_options o = {.process = rank,
                               .threads = s->nlocal,
                               .bus = &bus_host,
                               .spin_ns = may_spin(s) ? 50000 : 0,
                               .with = *bus,
                               .route = s->route,
                               .nroute = s->nslot,
                               .doing = s->doing,
                               .gate = bus_host_gate(segment_base(s->bus))};
    return engine_new(&o, out);
}

static int
open_memory(struct server *s, const struct packet *p)
{
    struct segment *opened;
    if (s->segment && s->segment_made == p->made) return 0;
    char *path = span_string(p->segment);
    int status = segment_open(path, p->memory, &opened);
    free(path);
    if (!status) set_segment(s, opened, p->made);
    return status;
}

/* Reports why hosts communicate by tcp, from rank 0 only. */
static void
say_why_tcp(const struct server *s)
{
    const char *why = carrier_why_tcp(s->carrier);
    char text[512];
    if (!why || !s->options.say || member_rank(s->member) != 0) return;
    snprintf(text, sizeof text, "between hosts by tcp, not by MPI: %s", why);
    s->options.say(text);
}

static int
join_others(struct server *s, const struct order *o, struct bus *bus)
{
    char *ports = span_string(o->packet.ports);
    struct carrier_epoch e = {.epoch = o->work.epoch,
                              .job = s->job_id,
                              .rank = member_rank(s->member),
                              .world = s->world,
                              .ports = ports,
                              .lacks = o->packet.lacks,
                              .bus = bus};
    s->met = must_realloc(s->met, (size_t)s->nmemory);
    memset(s->met, MEET_NOT, (size_t)s->nmemory);
    server_met(s, ports);
    int status = carrier_join(s->carrier, &e);
    free(ports);
    if (!status) say_why_tcp(s);
    return status;
}

void
server_form(struct server *s, const struct order *o)
{
    struct engine *engine = NULL;
    struct bus *bus = NULL;
    server_close_engine(s);
    s->epoch = o->work.epoch;
    s->nasker = 0;
    int status = open_memory(s, &o->packet);
    if (!status) status = open_bus(s, o->packet.bus);
    pthread_mutex_lock(&s->lock);
    if (!status) status = read_map(s, &o->packet);
    pthread_mutex_unlock(&s->lock);
    if (!status) status = join_gpus(s, o->packet.abilities);
    if (!status) status = worker_open_engine(s, member_rank(s->member), &bus, &engine);
    if (!status && s->carrier) status = join_others(s, o, bus);
    pthread_mutex_lock(&s->lock);
    s->engine = engine;
    s->bus_end = engine ? bus : NULL;
    member_ready(s->member, o->work.epoch, status, status ? err_text() : "");
    pthread_mutex_unlock(&s->lock);
}
