/* worker.c - a worker process: its link, memory, plans and runs.
 *
 * Two threads receive packets, under one lock. The main thread does the work, and receives packets itself while
 * idle, so that a run begins without a switch of threads. The link's thread sends and receives heartbeats and, while
 * the main thread is busy, receives packets: STOP, CANCEL and UNITE take effect at once, files have a thread of
 * their own, everything else is queued. If the worker must leave and the main thread does not return, because a
 * kernel is running, the link's thread ends the process.
 *
 * The thread that receives packets also reads and writes values of this host's memory for the controller: between
 * runs, or in buffers that no run writes.
 *
 * With other hosts, a program is connected before HAVE is sent. This worker asks a worker of each other memory,
 * chosen by its own index, for that memory's list of channels, and sends the list of its own memory on request.
 *
 * Received data is not trusted: programs are parsed strictly and verified, and address ranges must be inside the
 * segment. */
#include "actors/cluster/worker/worker_inner.h"

#include "actors/cluster/wire/gpus.h"
#include "actors/cluster/wire/machine.h"
#include "actors/cluster/wire/position.h"
#include "actors/cluster/controller/remote_access.h"
#include "kernels/exec/kernel.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/file/source.h"
#include "runtime/base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { TICK_MS = 100, SILENCE_TICKS = 45, LEAVE_MS = 1500 };

static void
wake_server(struct server *s)
{
    uint64_t one = 1;
    if (write(s->wake_fd, &one, sizeof one) < 0) return; /* already awake */
}

/* ---- callbacks of the member ---- */

static void
send_to_controller(void *arg, const struct packet *p)
{
    struct server *s = arg;
    str_clear(&s->packet);
    packet_write(p, &s->packet);
    if (link_send(s->link, LINK_CONTROL, 0, s->packet.text, s->packet.len)) err_clear(); /* a lost peer falls silent */
}

/* Stops the engine's run. Repeated at every tick, because an engine that is about to begin discards an interrupt as
 * old. */
static void
stop_engine(struct server *s)
{
    if (!s->engine || !s->running || (s->stop != s->running && !s->leaving)) return;
    bool failed = s->leaving || s->stop_why >= STOP_FAILED;
    if (s->meets && (failed || s->yields)) server_part(s);
    if (failed)
        engine_abort(s->engine);
    else if (s->decides)
        engine_interrupt(s->engine);
    bus_host_nudge(s->bus_end);
}

void
server_leave(struct server *s, int status, const char *text)
{
    if (s->leaving) return;
    s->leaving = true;
    s->status = status;
    if (s->carrier) carrier_cut(s->carrier, status != 0);
    s->leave_ns =
        now_ns() + (status == LEAVE_ORPHAN ? MAX(LEAVE_MS, s->options.keep_s * 1000ll) : LEAVE_MS) * 1000000ll;
    snprintf(s->text, sizeof s->text, "%s", text ? text : "");
    stop_engine(s);
    wake_server(s);
}

static void
stop_server(struct server *s, const struct packet *p)
{
    if (p->flags == STOP_LOST && s->carrier)
        carrier_cut(s->carrier, true); /* senders to the lost worker stop waiting */
    if (p->flags == STOP_LOST) s->over = p->epoch;
    s->stop_why = s->stop == p->run ? MAX(s->stop_why, p->flags) : p->flags;
    s->stop = p->run;
    stop_engine(s);
}

/* Copies the bytes that the spans of an order name, because the spans point into the link's buffer. */
static void
keep_spans(struct order *o)
{
    struct packet *p = &o->packet;
    struct span *span[] = {&p->text,   &p->job,   &p->segment, &p->beat,  &p->bulk,    &p->bus,  &p->port,
                           &p->ranges, &p->slots, &p->places,  &p->ports, &p->numbers, &p->lost, &p->digests};
    size_t n = 0, at = 0;
    for (size_t i = 0; i < countof(span); i++) n += (span[i]->n + 7u) & ~7u;
    if (o->work.bytes) n += o->work.n;
    o->copy = must_alloc(n + 1);
    for (size_t i = 0; i < countof(span); i++) {
        if (span[i]->n) memcpy(o->copy + at, span[i]->bytes, span[i]->n);
        span[i]->bytes = o->copy + at;
        at += (span[i]->n + 7u) & ~7u;
    }
    if (!o->work.bytes) return;
    memcpy(o->copy + at, o->work.bytes, o->work.n);
    o->work.bytes = o->copy + at;
}

static void
queue_order(struct orders *to, const struct work *w)
{
    struct order *o = must_alloc(sizeof *o);
    o->work = *w;
    if (w->packet) o->packet = *w->packet;
    o->work.packet = &o->packet;
    keep_spans(o);
    *to->last = o;
    to->last = &o->next;
}

void
order_free(struct order *o)
{
    free(o->copy);
    free(o);
}

static void
on_work(void *arg, const struct work *w)
{
    struct server *s = arg;
    if (w->kind == WORK_LEAVE) {
        server_leave(s, w->status, w->text);
        return;
    }
    if (w->kind == WORK_STOP) {
        stop_server(s, w->packet);
        return;
    }
    if (w->kind == WORK_UNITE) {
        server_unite(s, w->packet);
        return;
    }
    if (w->kind == WORK_CANCEL) {
        server_cancel_file(s, w->packet->count);
        return;
    }
    bool file = w->kind == WORK_FILE;
    queue_order(file ? &s->files : &s->orders, w);
    if (file)
        server_file(s);
    else
        wake_server(s);
}

/* Returns the heartbeat word of a rank of this host; NULL: no bus, or the rank has no slot. */
static _Atomic uint64_t *
on_word(void *arg, int rank, bool down)
{
    struct server *s = arg;
    for (int i = 0, slot = 0; s->bus_end && i < s->nall; i++) {
        if ((int)s->slot[i].memory != s->map.memory) continue;
        if ((int)s->slot[i].owner == rank) return bus_host_beat(segment_base(s->bus), slot, down);
        slot++;
    }
    return NULL;
}

/* ---- messages of workers of other hosts; on the carrier's thread ---- */

static void
on_asked(void *of, uint32_t epoch, int from, uint64_t program)
{
    struct server *s = of;
    pthread_mutex_lock(&s->lock);
    on_work(s, &(struct work){.kind = WORK_ASKED, .epoch = epoch, .from = from, .program = program});
    pthread_mutex_unlock(&s->lock);
}

static void
on_listed(void *of, uint32_t epoch, int from, uint64_t program, const void *bytes, size_t n)
{
    struct server *s = of;
    pthread_mutex_lock(&s->lock);
    on_work(s, &(struct work){
                   .kind = WORK_LISTED, .epoch = epoch, .from = from, .program = program, .bytes = bytes, .n = n});
    pthread_mutex_unlock(&s->lock);
}

static void
on_lost(void *of, const char *how)
{
    struct server *s = of;
    pthread_mutex_lock(&s->lock);
    member_leave(s->member, how);
    server_leave(s, LEAVE_FAILED, how);
    pthread_mutex_unlock(&s->lock);
}

/* ---- receiving ---- */

void
server_take_control(struct server *s)
{
    const void *bytes;
    size_t n;
    int peer;
    struct packet p;
    while (!s->leaving && link_receive(s->link, LINK_CONTROL, &peer, &bytes, &n)) {
        if (packet_read(bytes, n, &p))
            server_leave(s, LEAVE_FAILED, err_text());
        else
            member_receive(s->member, &p);
    }
}

static void
worker_take_beats(struct server *s)
{
    const void *bytes;
    size_t n;
    int peer;
    struct packet p;
    while (link_receive(s->link, LINK_BEAT, &peer, &bytes, &n))
        if (!packet_read(bytes, n, &p)) member_heard(s->member, &p);
}

/* ---- values ---- */

static void
reply(struct server *s, const struct packet *p, int status, struct span bytes)
{
    struct packet out = {.kind = PACKET_VALUE, .count = p->count, .status = (uint32_t)status, .bytes = bytes};
    if (status) out.bytes = span_text(err_text());
    str_clear(&s->packet);
    packet_write(&out, &s->packet);
    if (link_send(s->link, LINK_BULK, 0, s->packet.text, s->packet.len)) err_clear();
}

static int
find_shared(const struct server *s, uint64_t at, size_t n, char **out)
{
    if (!s->segment) return fail(E_BUS, "the host's memory is not there");
    size_t most = segment_bytes(s->segment);
    if (at > most || n > most - at) return fail(E_BUS, "bytes outside of the host's memory");
    *out = segment_base(s->segment) + at;
    return 0;
}

int
server_find(const struct server *s, uint64_t at, size_t n, struct spot *out)
{
    *out = (struct spot){.kind = device_kind(DEV_CPU)};
    if (at >> BANK_SHIFT == 0) return find_shared(s, at, n, &out->data);
    const struct holding *h = device_heap_find(&s->held, at, n);
    if (!h) return fail(E_BUS, "bytes outside of what devices hold");
    *out = (struct spot){device_kind(h->kind), h->data + (at - h->at)};
    return 0;
}

/* Takes or gives pages: of the memory shared by the host's processes (bank 0), or of the bank's device. */
static int
hold_buffer(struct server *s, const struct packet *p)
{
    uint64_t bank = p->offset >> BANK_SHIFT, offset = p->offset - (bank << BANK_SHIFT);
    bool give = p->flags & HOLD_GIVE;
    int32_t device;
    int kind;
    char *at;
    if (bank == 0) {
        TRY(find_shared(s, p->offset, p->total, &at));
        return segment_hold(s->segment, p->offset, p->total, give);
    }
    if (!bank_device(&s->map, s->map.memory, (int32_t)bank, &kind, &device) || offset > BANK_BYTES ||
        p->total > BANK_BYTES - offset)
        return fail(E_BUS, "HOLD: there is no such bank");
    if (!give) return device_heap_take(&s->held, kind, device, p->offset, p->total);
    device_heap_give(&s->held, p->offset);
    return 0;
}

/* Finds the bytes to send. Sets *copy to a copy if one is needed; the caller frees it. */
static int
fetch(const struct server *s, const struct packet *p, struct span *out, void **copy)
{
    struct spot spot;
    if (p->total > WIRE_PIECE) return fail(E_BUS, "%s: too many bytes at once", packet_name(p->kind));
    TRY(server_find(s, p->offset, p->total, &spot));
    *out = (struct span){(const unsigned char *)spot.data, (uint32_t)p->total};
    if (spot.kind->flags & HOST_READS) return 0;
    out->bytes = *copy = must_alloc(p->total);
    return spot.kind->copy(*copy, spot.data, p->total);
}

static int
worker_store(const struct server *s, uint64_t at, const void *bytes, size_t n)
{
    struct spot spot;
    TRY(server_find(s, at, n, &spot));
    return spot.kind->copy(spot.data, bytes, n);
}

static void
server_take_value(struct server *s, const struct packet *p)
{
    struct span bytes = {0};
    void *copy = NULL;
    int status = p->kind == PACKET_HOLD    ? hold_buffer(s, p)
                 : p->kind == PACKET_STORE ? worker_store(s, p->offset, p->bytes.bytes, p->bytes.n)
                                           : fetch(s, p, &bytes, &copy);
    reply(s, p, status, bytes);
    free(copy);
}

static int
sum(const struct server *s, uint64_t at, size_t n, uint64_t *out)
{
    struct spot spot;
    TRY(server_find(s, at, n, &spot));
    bool reads = spot.kind->flags & HOST_READS;
    void *copy = reads ? NULL : must_alloc(n);
    int status = reads ? 0 : spot.kind->copy(copy, spot.data, n);
    if (!status) *out = source_digest(reads ? spot.data : copy, n);
    free(copy);
    return status;
}

static void
take_sum(struct server *s, const struct packet *p)
{
    struct str sums = {0};
    uint64_t place[2], digest, left = REMOTE_ACCESS_DIGEST_BYTES;
    int status = p->places.n % sizeof place ? fail(E_BUS, "sum: %u bytes of places", p->places.n) : 0;
    for (uint32_t i = 0; i < p->places.n && !status; i += sizeof place) {
        memcpy(place, p->places.bytes + i, sizeof place);
        status = place[1] > left ? fail(E_BUS, "sum: too many bytes at once") : sum(s, place[0], place[1], &digest);
        if (status) break;
        str_addn(&sums, &digest, sizeof digest);
        left -= place[1];
    }
    reply(s, p, status, (struct span){(const void *)sums.text, (uint32_t)sums.len});
    str_free(&sums);
}

/* Copies bytes within this worker's memory. */
static int
bring_here(const struct server *s, const struct packet *p)
{
    struct spot spot;
    TRY(server_find(s, p->source, (size_t)p->total, &spot));
    void *bytes = must_alloc(p->total);
    int status = spot.kind->copy(bytes, spot.data, p->total);
    if (!status) status = worker_store(s, p->offset, bytes, (size_t)p->total);
    free(bytes);
    return status;
}

/* Requests bytes from another worker; the answer follows when the bytes have arrived. */
static void
take_bring(struct server *s, const struct packet *p)
{
    struct spot spot;
    bool own = p->rank == member_rank(s->member);
    int status = p->total > WIRE_PIECE ? fail(E_BUS, "bring: too many bytes at once")
                                       : server_find(s, p->offset, (size_t)p->total, &spot);
    if (!status && own) status = bring_here(s, p);
    if (!status && !own && (!s->carrier || p->rank < 0))
        status = fail(E_BUS, "bring: there is no worker %d to ask", p->rank);
    if (status || own) {
        reply(s, p, status, (struct span){0});
        return;
    }
    s->brought[p->count % SERVER_BRINGS] = (struct brought){p->count, p->offset, p->source, p->rank, (size_t)p->total};
    carrier_fetch(s->carrier, p->rank, p->count, p->source, (size_t)p->total);
}

void
server_bring_again(struct server *s)
{
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < SERVER_BRINGS; i++) {
        const struct brought *b = &s->brought[i];
        if (b->count) carrier_fetch(s->carrier, b->rank, b->count, b->from, b->n);
    }
    pthread_mutex_unlock(&s->lock);
}

static void
take_bulk(struct server *s)
{
    const void *bytes;
    size_t n;
    int peer;
    struct packet p;
    while (!s->leaving && link_receive(s->link, LINK_BULK, &peer, &bytes, &n)) {
        if (packet_read(bytes, n, &p))
            server_leave(s, LEAVE_FAILED, err_text());
        else if (p.kind == PACKET_BRING)
            take_bring(s, &p);
        else if (p.kind == PACKET_SUM)
            take_sum(s, &p);
        else if (p.kind == PACKET_HOLD || p.kind == PACKET_STORE || p.kind == PACKET_FETCH)
            server_take_value(s, &p);
    }
}

/* ---- values between hosts; on the carrier's thread ---- */

static int
on_give(void *of, uint64_t at, size_t n, void *to)
{
    struct server *s = of;
    struct spot spot;
    pthread_mutex_lock(&s->lock);
    int status = server_find(s, at, n, &spot);
    if (!status) status = spot.kind->copy(to, spot.data, n);
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* Stores fetched bytes and answers the request; drops bytes of no request, or of another size. The answer may
 * consume the readiness event of arrivals, so arrivals are handled, too. */
static void
on_brought(void *of, int from, uint64_t count, const void *bytes, size_t n)
{
    struct server *s = of;
    pthread_mutex_lock(&s->lock);
    struct brought *b = &s->brought[count % SERVER_BRINGS];
    struct packet p = {.kind = PACKET_BRING, .count = count};
    if (b->count == count && b->rank == from && b->n == n && n) {
        int status = bytes ? worker_store(s, b->at, bytes, n) : fail(E_BUS, "bring: worker %d has no such bytes", from);
        *b = (struct brought){0};
        reply(s, &p, status, (struct span){0});
        take_bulk(s);
    }
    pthread_mutex_unlock(&s->lock);
}

const struct carrier_hear server_hear = {NULL, on_asked, on_listed, on_give, on_brought, on_lost};

static void
take_state(struct server *s, enum link_state state)
{
    switch (state) {
    case LINK_WAITING: break;
    case LINK_UP: member_linked(s->member); break;
    case LINK_DENIED:
        server_leave(s, LEAVE_FAILED, "the coordinator does not take this worker's key, or one of the two has none");
        break;
    case LINK_DOWN: member_cut(s->member, "the link to the coordinator ended"); break;
    }
}

static void
server_tick(struct server *s)
{
    struct packet p;
    member_tick(s->member);
    stop_engine(s);
    if (member_beat(s->member, &p)) {
        str_clear(&s->packet);
        packet_write(&p, &s->packet);
        if (link_send(s->link, LINK_BEAT, 0, s->packet.text, s->packet.len)) err_clear();
    }
    s->tick_ns = now_ns() + TICK_MS * 1000000ll;
    server_take_control(s); /* a send may consume the readiness event of arrivals */
    worker_take_beats(s);
}

/* Handles arrivals. Packets come before a change of the link's state, so that BYE followed by the link's end is no
 * loss of the coordinator. */
static void
server_pump(struct server *s)
{
    enum link_state state = link_state(s->link);
    server_take_control(s);
    take_state(s, state);
    worker_take_beats(s);
    take_bulk(s);
    if (now_ns() >= s->tick_ns) server_tick(s);
}

/* Sleeps until an event may have arrived, at most until the next tick. Releases the lock while asleep; the poll set
 * is read before. */
static void
server_sleep(struct server *s, bool control)
{
    struct pollfd fd[5];
    nfds_t n = 0;
    uint64_t count;
    if (control) fd[n++] = (struct pollfd){.fd = s->wake_fd, .events = POLLIN};
    if (control) fd[n++] = (struct pollfd){.fd = link_fd(s->link, LINK_CONTROL), .events = POLLIN};
    fd[n++] = (struct pollfd){.fd = link_fd(s->link, LINK_BEAT), .events = POLLIN};
    fd[n++] = (struct pollfd){.fd = link_fd(s->link, LINK_BULK), .events = POLLIN};
    fd[n++] = (struct pollfd){.fd = link_state_fd(s->link), .events = POLLIN};
    int64_t left = (s->tick_ns - now_ns()) / 1000000;
    pthread_mutex_unlock(&s->lock);
    poll(fd, n, (int)MAX(1, MIN(left + 1, TICK_MS)));
    ssize_t taken = control && fd[0].revents ? read(fd[0].fd, &count, sizeof count) : 0;
    UNUSED(taken);
    pthread_mutex_lock(&s->lock);
}

/* Ends the process: the main thread had time to return, but is in a kernel or a system call. */
static void
end_process(const struct server *s)
{
    if (!s->options.die) return;
    link_sweep(s->options.join);
    s->options.die(s->status ? 1 : 0);
}

static void *
link_thread(void *arg)
{
    struct server *s = arg;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_mutex_lock(&s->lock);
    while (!s->quit) {
        server_pump(s);
        if (s->leaving && now_ns() > s->leave_ns) end_process(s);
        server_sleep(s, s->busy);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- the main thread ---- */

static void (*const perform[NWORK])(struct server *s, const struct order *o) = {
    [WORK_WELCOME] = server_welcome, [WORK_MAKE] = server_make,     [WORK_FORM] = server_form,
    [WORK_PROGRAM] = server_program, [WORK_FORGET] = server_forget, [WORK_START] = server_start,
    [WORK_ASKED] = server_asked,     [WORK_LISTED] = server_listed, [WORK_PORTS] = server_ports,
    [WORK_ROWS] = server_rows,
};

struct order *
server_take(struct orders *from)
{
    struct order *o = from->first;
    if (!o) return NULL;
    from->first = o->next;
    if (!from->first) from->last = &from->first;
    return o;
}

static void
serve_work(struct server *s)
{
    pthread_mutex_lock(&s->lock);
    while (!s->leaving) {
        server_pump(s);
        struct order *o = server_take(&s->orders);
        s->busy = o != NULL;
        if (!o) {
            server_sleep(s, true);
            continue;
        }
        pthread_mutex_unlock(&s->lock);
        perform[o->work.kind](s, o);
        order_free(o);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
}

static int
open_server(struct server *s)
{
    struct key key = {0};
    const char *file = s->options.key_file;
    TRY(roots_read(s->options.root, &s->roots));
    if (file) TRY(key_read(file, s->options.rank, &key));
    if (file && key.nrank) s->options.rank = key.rank;
    int status = link_join(s->options.join, file ? &key : NULL, &s->link);
    key_forget(&key);
    TRY(status);
    machine_text(s->options.host, &s->machine);
    if (banks_wanted(&s->options.devices)) machine_apart(&s->machine);
    machine_host(s->options.host, s->host);
    device_counts_print(&s->options.devices, &s->devices);
    int ngpu = s->options.devices.n[DEV_CUDA];
    if (ngpu) TRY(cuda_join(cuda_abilities(), 0, ngpu)); /* replaces the abilities of an earlier cluster */
    gpus_print(0, ngpu, &s->gpus);
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    struct member_env env = {s, send_to_controller, on_work, on_word};
    struct member_options o = {.hello = {.kind = PACKET_HELLO,
                                         .protocol = WIRE_VERSION,
                                         .version = span_text(s->options.version),
                                         .host = span_text(s->host),
                                         .machine = span_text(str_text(&s->machine)),
                                         .devices = span_text(str_text(&s->devices)),
                                         .gpus = {(const void *)s->gpus.text, (uint32_t)s->gpus.len},
                                         .abilities = cuda_abilities(),
                                         .pid = (uint32_t)getpid(),
                                         .cores = (uint32_t)thread_cores(),
                                         .memory = (uint64_t)pages * (uint64_t)size,
                                         .rank = s->options.rank,
                                         .secret = {s->options.secret, CLUSTER_ID}},
                               .silence = SILENCE_TICKS,
                               .wait = s->options.wait_s * (1000 / TICK_MS)};
    s->member = member_new(&o, &env);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake_fd < 0) return fail(E_IO, "eventfd: %s", strerror(errno));
    s->tick_ns = now_ns() + TICK_MS * 1000000ll;
    return pthread_create(&s->thread, NULL, link_thread, s) ? fail(E_BUS, "the link's thread could not be started") : 0;
}

static void
close_server(struct server *s)
{
    server_close_engine(s);
    while (s->njob) job_free(s->job[--s->njob]);
    carrier_free(&s->carrier);
    for (struct order *o; (o = server_take(&s->orders)) != NULL;) order_free(o);
    member_free(&s->member);
    link_free(&s->link);
    segment_free(&s->bus);
    segment_free(&s->made_bus);
    segment_free(&s->segment);
    device_heap_free(&s->held);
    atlas_free(&s->atlas);
    str_free(&s->packet);
    str_free(&s->machine);
    str_free(&s->devices);
    str_free(&s->gpus);
    roots_free(&s->roots);
    free(s->job);
    free(s->map.range);
    free(s->slot);
    free(s->asker);
    free(s->united);
    free(s->met);
    free(s->route);
    free(s->doing);
    if (s->wake_fd >= 0) close(s->wake_fd);
    pthread_cond_destroy(&s->unites);
    pthread_cond_destroy(&s->filed);
    pthread_mutex_destroy(&s->lock);
}

/* Serves a coordinator. *last: the assigned rank, unless none was assigned. E_LOST: the coordinator is gone. */
static int
serve_once(const struct cluster_worker_options *o, int *last)
{
    struct server s = {.options = *o, .wake_fd = -1};
    pthread_mutex_init(&s.lock, NULL);
    pthread_cond_init(&s.filed, NULL);
    pthread_cond_init(&s.unites, NULL);
    s.orders.last = &s.orders.first;
    s.files.last = &s.files.first;
    s.atlas = atlas_new();
    if (o->check_ref || o->check_nan) kernel_check(o->check_ref, o->check_nan);
    int status = open_server(&s);
    if (!status) {
        serve_work(&s);
        pthread_mutex_lock(&s.lock);
        s.quit = true;
        pthread_mutex_unlock(&s.lock);
        pthread_join(s.thread, NULL);
        server_close_files(&s);
        if (s.status) link_sweep(o->join);
    }
    int end = s.status, rank = s.member ? member_rank(s.member) : -1;
    char text[WIRE_TEXT];
    snprintf(text, sizeof text, "%s", s.text);
    close_server(&s);
    if (rank >= 0) *last = rank;
    if (status || !end) return status;
    return fail(end == LEAVE_ORPHAN ? E_LOST : E_BUS, "%s", text);
}

/* Serves coordinators in turn. With keep_s, a worker that lost its coordinator rejoins as the same rank. */
int
cluster_serve(const struct cluster_worker_options *o)
{
    struct cluster_worker_options again = *o;
    int status = serve_once(&again, &again.rank);
    while (status == E_LOST && o->keep_s > 0) {
        char text[WIRE_TEXT];
        snprintf(text, sizeof text, "worker %d: %s; it waits for the next coordinator", again.rank, err_text());
        if (o->say) o->say(text);
        again.wait_s = o->keep_s;
        status = serve_once(&again, &again.rank);
    }
    return status;
}
