/* worker_values.c - answers the controller's requests on the link for values: allocates, reads and writes bytes of the
 * host's memory, and copies bytes between hosts. */
#include "actors/cluster/worker/worker_values.h"

#include "actors/cluster/controller/remote_access.h"
#include "actors/cluster/wire/position.h"
#include "actors/cluster/worker/worker_kept.h"
#include "runtime/base/error.h"
#include "runtime/file/disk/source.h"
#include "actors/cluster/transport/fetch.h"

#include <stdlib.h>
#include <string.h>

void
worker_values_reply(struct worker_process *w, const struct packet *p, int status, struct span bytes)
{
    struct packet out = {.kind = PACKET_VALUE, .count = p->count, .status = (uint32_t)status, .bytes = bytes};
    if (status) out.bytes = span_text(err_text());
    str_clear(&w->shared.packet);
    packet_write(&out, &w->shared.packet);
    if (link_send(w->link, LINK_BULK, 0, w->shared.packet.text, w->shared.packet.len)) err_clear();
}

static int
find_shared(const struct segment *s, uint64_t at, size_t n, char **out)
{
    if (!s) return fail(E_BUS, "the host's memory is not mapped yet");
    size_t most = segment_bytes(s);
    if (at > most || n > most - at)
        return fail(E_BUS, "%zu bytes at offset %llu are outside the host's memory of %zu bytes", n,
                    (unsigned long long)at, most);
    *out = segment_base(s) + at;
    return 0;
}

static int
find_spot_in(const struct segment *s, const struct device_heap *heap, uint64_t at, size_t n, struct spot *out)
{
    *out = (struct spot){.kind = device_kind(DEV_CPU)};
    if (at >> HEAP_SHIFT == 0) return find_shared(s, at, n, &out->data);
    const struct holding *h = device_heap_find(heap, at, n);
    if (!h) return fail(E_BUS, "%zu bytes at position %llx are not allocated on a device", n, (unsigned long long)at);
    *out = (struct spot){device_kind(h->kind), h->data + (at - h->at)};
    return 0;
}

int
worker_find(const struct worker_process *w, uint64_t at, size_t n, struct spot *out)
{
    return find_spot_in(w->shared.segment, &w->shared.heap, at, n, out);
}

/* Handles a HOLD packet: allocates or frees pages. Heap 0 is the memory that the host's processes share; every other
 * heap belongs to a device. */
static int
hold_buffer(struct worker_process *w, const struct packet *p)
{
    uint64_t heap = p->offset >> HEAP_SHIFT, offset = p->offset - (heap << HEAP_SHIFT);
    bool give = p->flags & HOLD_GIVE;
    int32_t device;
    int kind;
    char *at;
    if (p->flags & HOLD_KEPT) return worker_kept_hold(w->shared.kept, p->flags);
    if (heap == 0) {
        TRY(find_shared(w->shared.segment, p->offset, p->total, &at));
        return segment_hold(w->shared.segment, p->offset, p->total, give);
    }
    if (!position_heap_device(&w->shared.map, w->shared.map.memory, (int32_t)heap, &kind, &device) ||
        offset > HEAP_BYTES || p->total > HEAP_BYTES - offset)
        return fail(E_BUS, "packet HOLD: %llu bytes at offset %llu are outside of device heap %d of this worker",
                    (unsigned long long)p->total, (unsigned long long)offset, (int)heap);
    if (!give) return device_heap_take(&w->shared.heap, kind, device, p->offset, p->total);
    device_heap_give(&w->shared.heap, p->offset);
    return 0;
}

/* Finds the bytes that a FETCH packet asks for. If the bytes must be copied first, sets *copy to the copy, which the
 * caller frees. */
static int
fetch(const struct worker_process *w, const struct packet *p, struct span *out, void **copy)
{
    struct spot spot;
    if (p->total > WIRE_PIECE)
        return fail(E_BUS, "%s: expected at most %d bytes, found %llu", packet_name(p->kind), WIRE_PIECE,
                    (unsigned long long)p->total);
    int i = p->flags & FETCH_OLDER ? 1 : 0;
    struct worker_kept *kept = w->shared.kept;
    if (p->flags & FETCH_PATH) {
        worker_kept_path(kept, *copy = must_alloc(KEPT_PATH));
        *out = (struct span){*copy, KEPT_PATH};
        return 0;
    }
    if (p->flags & FETCH_KEPT)
        TRY(find_spot_in(kept->of[i].segment, &kept->of[i].heap, p->offset, p->total, &spot));
    else
        TRY(worker_find(w, p->offset, p->total, &spot));
    *out = (struct span){(const unsigned char *)spot.data, (uint32_t)p->total};
    if (spot.kind->flags & HOST_READS) return 0;
    out->bytes = *copy = must_alloc(p->total);
    return spot.kind->copy(*copy, spot.data, p->total);
}

int
worker_values_store(const struct worker_process *w, uint64_t at, const void *bytes, size_t n)
{
    struct spot spot;
    TRY(worker_find(w, at, n, &spot));
    return spot.kind->copy(spot.data, bytes, n);
}

static void
take_value(struct worker_process *w, const struct packet *p)
{
    struct span bytes = {0};
    void *copy = NULL;
    int status = p->kind == PACKET_HOLD    ? hold_buffer(w, p)
                 : p->kind == PACKET_STORE ? worker_values_store(w, p->offset, p->bytes.bytes, p->bytes.n)
                                           : fetch(w, p, &bytes, &copy);
    worker_values_reply(w, p, status, bytes);
    free(copy);
}

static int
sum(const struct worker_process *w, uint64_t at, size_t n, uint64_t *out)
{
    struct spot spot;
    TRY(worker_find(w, at, n, &spot));
    bool reads = spot.kind->flags & HOST_READS;
    void *copy = reads ? NULL : must_alloc(n);
    int status = reads ? 0 : spot.kind->copy(copy, spot.data, n);
    if (!status) *out = source_digest(reads ? spot.data : copy, n);
    free(copy);
    return status;
}

static void
take_sum(struct worker_process *w, const struct packet *p)
{
    struct str sums = {0};
    uint64_t place[2], digest, left = REMOTE_ACCESS_DIGEST_BYTES;
    int status = p->places.n % sizeof place
                     ? fail(E_BUS, "packet SUM: expected 16 bytes per block, found %u bytes", p->places.n)
                     : 0;
    for (uint32_t i = 0; i < p->places.n && !status; i += sizeof place) {
        memcpy(place, p->places.bytes + i, sizeof place);
        status =
            place[1] > left
                ? fail(E_BUS, "packet SUM: the blocks must have at most %d bytes in all, found %llu or more",
                       REMOTE_ACCESS_DIGEST_BYTES, (unsigned long long)(REMOTE_ACCESS_DIGEST_BYTES - left + place[1]))
                : sum(w, place[0], place[1], &digest);
        if (status) break;
        str_addn(&sums, &digest, sizeof digest);
        left -= place[1];
    }
    worker_values_reply(w, p, status, (struct span){(const void *)sums.text, (uint32_t)sums.len});
    str_free(&sums);
}

/* Copies bytes to another position of this worker's memory. */
static int
bring_here(const struct worker_process *w, const struct packet *p)
{
    struct spot spot;
    TRY(worker_find(w, p->source, (size_t)p->total, &spot));
    void *bytes = must_alloc(p->total);
    int status = spot.kind->copy(bytes, spot.data, p->total);
    if (!status) status = worker_values_store(w, p->offset, bytes, (size_t)p->total);
    free(bytes);
    return status;
}

/* Requests bytes from a worker of another host. The controller gets its answer when the bytes have arrived. */
static void
take_bring(struct worker_process *w, const struct packet *p)
{
    struct spot spot;
    bool own = p->rank == member_rank(w->member);
    int status = p->total > WIRE_PIECE ? fail(E_BUS, "packet BRING: expected at most %d bytes, found %llu", WIRE_PIECE,
                                              (unsigned long long)p->total)
                                       : worker_find(w, p->offset, (size_t)p->total, &spot);
    if (!status && own) status = bring_here(w, p);
    if (!status && !own && (!w->shared.carrier || p->rank < 0))
        status = fail(E_BUS, "packet BRING: worker %d on another host does not exist", p->rank);
    if (status || own) {
        worker_values_reply(w, p, status, (struct span){0});
        return;
    }
    w->shared.brought[p->count % WORKER_FETCHES] =
        (struct brought){p->count, p->offset, p->source, p->rank, (size_t)p->total};
    carrier_fetch(w->shared.carrier, p->rank, p->count, p->source, (size_t)p->total);
}

void
worker_fetch_again(struct worker_process *w)
{
    pthread_mutex_lock(&w->lock);
    for (int i = 0; i < WORKER_FETCHES; i++) {
        const struct brought *b = &w->shared.brought[i];
        if (b->count) carrier_fetch(w->shared.carrier, b->rank, b->count, b->from, b->n);
    }
    pthread_mutex_unlock(&w->lock);
}

void
worker_values_receive(struct worker_process *w)
{
    const void *bytes;
    size_t n;
    int peer;
    struct packet p;
    while (!w->shared.leave.asked && link_receive(w->link, LINK_BULK, &peer, &bytes, &n)) {
        if (packet_read(bytes, n, &p))
            worker_leave(w, LEAVE_FAILED, err_text());
        else if (p.kind == PACKET_BRING)
            take_bring(w, &p);
        else if (p.kind == PACKET_SUM)
            take_sum(w, &p);
        else if (p.kind == PACKET_HOLD || p.kind == PACKET_STORE || p.kind == PACKET_FETCH)
            take_value(w, &p);
    }
}
