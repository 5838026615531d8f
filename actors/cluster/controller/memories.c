/* memories.c - assigns devices to memories (one per host) and to slots (device threads), and gives the session
 * access to the bytes of all memories. */
#include "actors/cluster/controller/memories.h"
#include "actors/cluster/controller/watch.h"
#include "actors/cluster/controller/keep.h"

#include "actors/cluster/memory/bus_host.h"
#include "actors/cluster/wire/gpus.h"
#include "actors/cluster/wire/position.h"
#include "runtime/data/arena.h"
#include "kernels/exec/identity.h"
#include "runtime/base/error.h"
#include "runtime/base/limits.h"
#include "actors/cluster/coordinator/coordinator_epoch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MOST = 64 };

/* ---- an epoch ---- */

static int
member_counts(struct cluster *c, int rank, struct device_counts *out)
{
    const char *text = coordinator_member(c->c, rank)->devices;
    int status = device_counts_of_worker(text, false, out);
    if (status) err_note("worker %d", rank);
    return status;
}

int
control_check_kept(const struct cluster *c)
{
    struct device_counts wanted, d;
    struct str want = {0};
    int status = 0;
    if (!c->options.devices) return 0;
    TRY(device_counts_of_worker(c->options.devices, false, &wanted));
    device_counts_print(&wanted, &want);
    for (int r = 0; r < c->options.world && !status; r++) {
        const struct member_info *m = coordinator_member(c->c, r);
        if (m->state != MEMBER_PRESENT) continue;
        status = device_counts_of_worker(m->devices, false, &d);
        if (!status && !device_counts_suit(&wanted, &d))
            status = fail(E_PLACE,
                          "worker %d, kept at %s by an earlier controller, has devices %s, expected %s; start this "
                          "controller with the worker's devices",
                          r, c->options.bind, m->devices, str_text(&want));
    }
    str_free(&want);
    return status;
}

/* Returns the number of device threads of a worker: the worker's share of the job's threads, but at most the number
 * of its devices of the most numerous kind. */
static uint32_t
threads_of(const struct cluster *c, const struct device_counts *d)
{
    int n = 0, share = MAX(1, c->options.threads / c->options.world);
    for (int k = 0; k < NDEVICE_KIND; k++) n = MAX(n, d->n[k]);
    return (uint32_t)MAX(1, MIN(MIN(n, share), THREADS_MOST));
}

/* Gives numbers to a rank's devices, kind by kind. They follow the devices of the ranks that were numbered before. */
static int
settle_rank(struct cluster *c, int rank)
{
    struct device_counts d;
    TRY(member_counts(c, rank, &d));
    uint32_t n = threads_of(c, &d);
    if (c->table.nrange == 0) c->table.devices.first = d.first;
    if (d.n[DEV_CUDA]) c->table.abilities &= coordinator_member(c->c, rank)->abilities;
    for (int k = 0; k < NDEVICE_KIND; k++) {
        if (!d.n[k]) continue;
        c->table.range_rank[c->table.nrange] = rank;
        c->table.range[c->table.nrange++] = (struct range){
            .kind = (uint32_t)k, .first = (uint32_t)c->table.devices.n[k], .n = (uint32_t)d.n[k], .nslot = n};
        c->table.devices.n[k] += d.n[k];
    }
    return 0;
}

/* Returns the memory of a rank's devices: that of its host. If the host has no workers, the devices move to another
 * host. */
static uint32_t
home_of_rank(const struct cluster *c, int rank)
{
    int memory = coordinator_member(c->c, rank)->memory, m = 0;
    if (coordinator_inhabited(c->c, memory)) return (uint32_t)memory;
    while (!coordinator_inhabited(c->c, m)) m++;
    return (uint32_t)m;
}

/* Adds n slots (device threads) of a rank to the table. used: number of slots of the memory so far. */
static int
add_slots(struct cluster *c, int rank, uint32_t memory, uint32_t n, uint32_t *used)
{
    if (c->table.nslot + (int)n > CLUSTER_SLOTS)
        return fail(E_ARG, "a job can have at most %d device threads, found %d", CLUSTER_SLOTS,
                    c->table.nslot + (int)n);
    if (*used + n > BUS_HOST_SLOTS)
        return fail(E_ARG, "one host can have at most %d device threads, found %d", BUS_HOST_SLOTS, (int)(*used + n));
    *used += n;
    for (uint32_t t = 0; t < n; t++) c->table.slot[c->table.nslot++] = (struct slot){memory, (uint32_t)rank};
    return 0;
}

/* Assigns each range of devices to a memory (host) and to slots (device threads) of the host. Increases the version
 * of the tables if anything changes. slots: number of slots of each memory. */
static int
assign_slots(struct cluster *c, uint32_t *slots)
{
    bool changed = c->hosts.memory[c->hosts.home].map.nrange != c->table.nrange;
    c->table.nslot = 0;
    for (int i = 0, rank = -1; i < c->table.nrange; i++) {
        struct range *r = &c->table.range[i];
        bool first = c->table.range_rank[i] != rank;
        uint32_t memory = first ? home_of_rank(c, c->table.range_rank[i]) : r[-1].memory;
        uint32_t slot = first ? slots[memory] : r[-1].slot;
        rank = c->table.range_rank[i];
        changed = changed || r->memory != memory || r->slot != slot;
        r->memory = memory;
        r->slot = slot;
        if (first) TRY(add_slots(c, rank, memory, r->nslot, &slots[memory]));
    }
    c->table.number += changed;
    return 0;
}

/* Copies the ranges of devices to the form that plan maps use. */
static void
settle_plan_ranges(struct cluster *c)
{
    for (int i = 0; i < c->table.nrange; i++) {
        const struct range *r = &c->table.range[i];
        c->table.plan_range[i] = (struct plan_range){(int32_t)r->kind, (int32_t)r->first, (int32_t)r->n,
                                                     (int32_t)r->slot, (int32_t)r->nslot, (int32_t)r->memory};
    }
}

static int
hold_far(void *of, size_t at, size_t bytes, bool give)
{
    const struct memory_heap *w = of;
    return remote_access_hold(w->of->of->reach, w->of->number, w->first + at, bytes, give);
}

/* Returns the size of a memory, bytes: for this host, the size of the segment; for another host, the largest size
 * that a worker there reports. */
static uint64_t
memory_bytes(const struct cluster *c, int memory)
{
    uint64_t bytes = 0;
    for (int r = 0; r < c->options.world; r++) {
        const struct member_info *m = coordinator_member(c->c, r);
        if (m->memory == memory) bytes = MAX(bytes, m->bytes);
    }
    bytes = coordinator_memory(c->c, memory)->own
                ? segment_bytes(c->hosts.own)
                : MIN(MIN(bytes, (uint64_t)1 << 44), limits_address_space((size_t)c->hosts.nmemory + 1));
    return (bytes + 4095) / 4096 * 4096;
}

static int
settle_memory(struct cluster *c, int number)
{
    struct memory *m = &c->hosts.memory[number];
    bool own = coordinator_memory(c->c, number)->own;
    *m = (struct memory){.of = c,
                         .number = number,
                         .map = {.nrange = c->table.nrange, .memory = number, .range = c->table.plan_range},
                         .made_epoch = coordinator_memory(c->c, number)->made_epoch};
    c->table.bytes[number] = memory_bytes(c, number);
    m->nheap = 1 + position_heaps(&m->map, number);
    m->heap = must_alloc(sizeof *m->heap * (size_t)m->nheap);
    for (int i = 0; i < m->nheap; i++) {
        struct memory_heap *w = &m->heap[i];
        struct segment_far far = {w, hold_far};
        *w = (struct memory_heap){.of = m, .first = (uint64_t)i << HEAP_SHIFT};
        if (own && i == 0)
            w->segment = c->hosts.own;
        else
            TRY(segment_far((size_t)(i ? HEAP_BYTES : c->table.bytes[number]), &far, &w->segment));
    }
    return 0;
}

static int
renew_memory(const struct memory *m)
{
    for (int i = 0; i < m->nheap; i++) TRY(segment_renew(m->heap[i].segment));
    return 0;
}

/* Allocates the cluster's tables with room for all ranks, so that entries never move: plans refer to them. */
static void
make_tables(struct cluster *c)
{
    size_t world = (size_t)c->options.world;
    c->hosts.memory = must_alloc(sizeof *c->hosts.memory * world);
    c->table.bytes = must_alloc(sizeof *c->table.bytes * world);
    c->table.range = must_alloc(sizeof *c->table.range * world * NDEVICE_KIND);
    c->table.plan_range = must_alloc(sizeof *c->table.plan_range * world * NDEVICE_KIND);
    c->table.slot = must_alloc(sizeof *c->table.slot * CLUSTER_SLOTS);
    c->table.settled = must_alloc(sizeof *c->table.settled * world);
    c->table.range_rank = must_alloc(sizeof *c->table.range_rank * world * NDEVICE_KIND);
    c->table.abilities = UINT32_MAX;
}

/* Completes the maps from which plans are compiled. Chooses the memory for which the session compiles: the memory of
 * this host if this host has workers, else another memory with workers. */
static void
settle_maps(struct cluster *c, const uint32_t *slots)
{
    settle_plan_ranges(c);
    for (int m = c->hosts.nmemory - 1; m >= 0; m--) {
        c->hosts.memory[m].map.nrange = c->table.nrange;
        c->hosts.memory[m].map.nslot = (int32_t)slots[m];
        if (!slots[c->hosts.home] && slots[m]) c->hosts.home = m;
    }
    for (int m = 0; m < c->hosts.nmemory; m++)
        if (coordinator_memory(c->c, m)->own && slots[m]) c->hosts.home = m;
}

/* Adds the devices and memories of new ranks to the cluster's tables. Then assigns all devices to the memories that
 * have workers in this epoch. */
static int
settle_epoch(struct cluster *c)
{
    int first = c->hosts.nmemory;
    if (!c->table.range) make_tables(c);
    for (int r = 0; r < c->options.world; r++) {
        if (c->table.settled[r] || coordinator_member(c->c, r)->state == MEMBER_RETIRED) continue;
        c->table.settled[r] = true;
        TRY(settle_rank(c, r));
        if (c->table.devices.n[DEV_CUDA]) TRY(cuda_join(c->table.abilities, 0, 0));
    }
    c->hosts.nmemory = coordinator_memories(c->c);
    uint32_t *slots = must_alloc(sizeof *slots * (size_t)c->hosts.nmemory);
    int status = assign_slots(c, slots);
    settle_plan_ranges(c);
    for (int m = first; m < c->hosts.nmemory && !status; m++) status = settle_memory(c, m);
    if (!status) settle_maps(c, slots);
    free(slots);
    return status;
}

/* Makes the segment for this host's messages in an epoch. Sets `text` to "PATH BYTES", by which workers open it. */
static int
new_bus(struct cluster *c, char text[SEGMENT_PATH + 32])
{
    char path[SEGMENT_PATH];
    int nslot = 0;
    for (int s = 0; s < c->table.nslot; s++) nslot += coordinator_memory(c->c, (int)c->table.slot[s].memory)->own;
    segment_free(&c->hosts.bus);
    TRY(segment_new(bus_host_bytes(MAX(nslot, 1)), &c->hosts.bus));
    bus_host_format(segment_base(c->hosts.bus), MAX(nslot, 1));
    segment_path(c->hosts.bus, path);
    snprintf(text, SEGMENT_PATH + 32, "%s %zu", path, segment_bytes(c->hosts.bus));
    return 0;
}

int
control_begin(struct cluster *c)
{
    c->epoch.full = false;
    TRY(settle_epoch(c));
    TRY(new_bus(c, c->hosts.bus_text));
    struct form f = {.threads = (uint32_t)c->options.threads,
                     .abilities = c->table.abilities,
                     .segment = c->hosts.path,
                     .bus = c->hosts.bus_text,
                     .table = c->table.number,
                     .nrange = c->table.nrange,
                     .nslot = c->table.nslot,
                     .range = c->table.range,
                     .slot = c->table.slot,
                     .bytes = c->table.bytes};
    coordinator_form(c->c, &f);
    return kernels_limit_isa(coordinator_isa(c->c));
}

int
control_renew(struct cluster *c)
{
    for (int m = 0; m < c->hosts.nmemory; m++) {
        uint32_t made = coordinator_memory(c->c, m)->made_epoch;
        if (c->hosts.memory[m].made_epoch == made) continue;
        c->hosts.memory[m].made_epoch = made;
        /* the host has no workers, so no value is stored in its memory */
        if (!coordinator_inhabited(c->c, m)) continue;
        pthread_mutex_unlock(&c->lock);
        int status = renew_memory(&c->hosts.memory[m]);
        pthread_mutex_lock(&c->lock);
        TRY(status);
    }
    return 0;
}

void
control_free(struct cluster *c)
{
    segment_free(&c->hosts.bus);
    for (int m = 0; m < c->hosts.nmemory; m++) {
        for (int i = 0; i < c->hosts.memory[m].nheap; i++)
            if (c->hosts.memory[m].heap[i].segment != c->hosts.own) segment_free(&c->hosts.memory[m].heap[i].segment);
        free(c->hosts.memory[m].heap);
    }
    segment_free(&c->hosts.own);
    control_kept_free(c);
    free(c->hosts.memory);
    free(c->table.bytes);
    free(c->table.range);
    free(c->table.plan_range);
    free(c->table.slot);
    free(c->table.settled);
    free(c->table.range_rank);
}

/* ---- queries ---- */

const struct device_counts *
cluster_devices(const struct cluster *c)
{
    return &c->table.devices;
}

const struct plan_map *
cluster_map(const struct cluster *c, int memory)
{
    return &c->hosts.memory[memory].map;
}

int
cluster_memories(const struct cluster *c)
{
    return c->hosts.nmemory;
}

uint32_t
cluster_table(const struct cluster *c)
{
    return c->table.number;
}

int
cluster_home(const struct cluster *c)
{
    return c->hosts.home;
}

static const struct range *
memory_range(const struct cluster *c, int kind, int device)
{
    for (int i = 0; i < c->table.nrange; i++) {
        const struct range *r = &c->table.range[i];
        if ((int)r->kind == kind && (uint32_t)device >= r->first && (uint32_t)device - r->first < r->n) return r;
    }
    return NULL;
}

int
cluster_memory_of(const struct cluster *c, int kind, int device)
{
    const struct range *r = memory_range(c, kind, device);
    return r ? (int)r->memory : c->hosts.home;
}

int
cluster_thread_of(const struct cluster *c, int kind, int device)
{
    const struct range *r = memory_range(c, kind, device);
    if (!r || (int)r->memory != c->hosts.home) return -1;
    return (int)(r->slot + ((uint32_t)device - r->first) % r->nslot);
}

int
cluster_gpu(struct cluster *c, int device, struct cuda_gpu *out, struct str *kernels)
{
    const struct range *r = memory_range(c, DEV_CUDA, device);
    if (!r)
        return fail(E_PLACE, "no device cuda:%d: the workers have %d of kind cuda", device,
                    (int)c->table.devices.n[DEV_CUDA]);
    pthread_mutex_lock(&c->lock);
    const struct member_info *m = NULL;
    for (int k = 0; k < c->options.world && !m; k++) {
        const struct member_info *of = coordinator_member(c->c, k);
        if (of->memory == (int)r->memory && of->gpus && *of->gpus) m = of;
    }
    bool known = m && !gpus_check(m->gpus, (int)r->n);
    if (known) gpus_read(m->gpus, device - (int)r->first, out, kernels);
    pthread_mutex_unlock(&c->lock);
    return known ? 0 : fail(E_LOST, "the worker of cuda:%d is lost", device);
}

static struct memory_heap *
find_memory_heap(const struct cluster *c, int kind, int device)
{
    const struct memory *m = &c->hosts.memory[cluster_memory_of(c, kind, device)];
    return &m->heap[position_heap(&m->map, m->number, kind, device)];
}

static uint64_t
memory_heap_position(const struct memory_heap *w, const void *p)
{
    return w->first + (uint64_t)((const char *)p - segment_base(w->segment));
}

int
cluster_position(const struct cluster *c, int kind, int device, const void *p, uint64_t *out)
{
    const struct memory_heap *w = find_memory_heap(c, kind, device);
    uint64_t base = (uint64_t)(uintptr_t)segment_base(w->segment), at = (uint64_t)(uintptr_t)p;
    *out = POSITION_NONE;
    if (!p) return 0;
    if (at < base || at - base >= segment_bytes(w->segment))
        return fail(E_STATE, "a value is in memory that workers cannot reach; clone() it before workers use it");
    *out = memory_heap_position(w, p);
    return 0;
}

static void *
take_from_heap(void *of, size_t bytes)
{
    return segment_take(((struct memory_heap *)of)->segment, bytes);
}

static void
give_to_heap(void *of, void *p)
{
    segment_give(((struct memory_heap *)of)->segment, p);
}

static int
read_far(void *of, void *to, const void *from, size_t bytes)
{
    const struct memory_heap *w = of;
    return remote_access_fetch(w->of->of->reach, w->of->number, memory_heap_position(w, from), to, bytes);
}

static int
write_far(void *of, void *to, const void *from, size_t bytes)
{
    const struct memory_heap *w = of;
    return remote_access_store(w->of->of->reach, w->of->number, memory_heap_position(w, to), from, bytes);
}

int
control_broken(void *of)
{
    struct cluster *c = of;
    pthread_mutex_lock(&c->lock);
    bool is = c->epoch.nloss && coordinator_phase(c->c) == CLUSTER_BROKEN;
    int status = is ? control_say_lost(c) : 0;
    pthread_mutex_unlock(&c->lock);
    return status;
}

static int
bring_far(void *of, void *to, void *source_of, const void *from, size_t bytes)
{
    const struct memory_heap *w = of, *source = source_of;
    return remote_access_copy(w->of->of->reach, w->of->number, memory_heap_position(w, to), source->of->number,
                              memory_heap_position(source, from), bytes);
}

void
cluster_source(struct cluster *c, int kind, int device, struct pool_source *out)
{
    struct memory_heap *w = find_memory_heap(c, kind, device);
    bool here = w->segment == c->hosts.own;
    *out = (struct pool_source){.take = take_from_heap,
                                .give = give_to_heap,
                                .read = here ? NULL : read_far,
                                .write = here ? NULL : write_far,
                                .bring = here ? NULL : bring_far,
                                .of = w,
                                .generation = &w->of->made_epoch};
}

int
cluster_digests(struct cluster *c, int memory, const uint64_t *place, int n, uint64_t *out)
{
    for (int i = 0, end = 0; i < n; i = end) {
        uint64_t bytes = 0;
        while (end < n && end - i < REMOTE_ACCESS_DIGESTS && bytes + place[2 * end + 1] <= REMOTE_ACCESS_DIGEST_BYTES)
            bytes += place[2 * end++ + 1];
        TRY(remote_access_digests(c->reach, memory, &place[2 * i], end - i, &out[i]));
    }
    return 0;
}
