/* worker.c - a worker process: its link, memory, plans and runs.
 *
 * Two threads receive packets, under one lock. The main thread does the work, and receives packets itself while it
 * is idle, so a run begins without a switch of threads. The link's thread sends and receives heartbeats. While the
 * main thread is busy, the link's thread receives packets, too. The link's thread handles STOP, CANCEL and UNITE at
 * once, and queues all other work; a separate thread handles files. If the worker must leave while the main thread
 * is in a kernel and does not return, the link's thread ends the process.
 *
 * The thread that receives packets also reads and writes values of this host's memory for the controller. The
 * controller requests such reads and writes only between runs, or for buffers that no run writes.
 *
 * If a program uses several hosts, its channels are connected before HAVE is sent. For each other memory, this
 * worker asks one worker there for the memory's list of channels. On request, it sends the list of its own memory.
 * Worker i of this memory asks worker i of the other memory, modulo the number of workers there.
 *
 * Received data is not trusted: programs are parsed strictly and verified, and address ranges must be inside the
 * segment. */

#include "actors/cluster/worker/worker_epoch.h"
#include "actors/cluster/worker/worker_files.h"
#include "actors/cluster/worker/worker_job.h"
#include "actors/cluster/worker/worker_kept.h"
#include "actors/cluster/worker/worker_report.h"
#include "actors/cluster/worker/worker_run.h"
#include "actors/cluster/worker/worker_unite.h"
#include "actors/cluster/worker/worker_values.h"
#include "actors/act/run/engine.h"
#include "actors/cluster/wire/gpus.h"
#include "actors/cluster/wire/machine.h"
#include "actors/cluster/wire/position.h"
#include "actors/cluster/controller/remote_access.h"
#include "kernels/exec/identity.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/limits.h"
#include "runtime/file/disk/source.h"
#include "runtime/base/thread.h"
#include "runtime/tensor/atlas.h"
#include "actors/cluster/coordinator/coordinator_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { TICK_MS = 100, LEAVE_MS = 1500 };
static const double LINK_S = 3, ORPHAN_S = 4.5; /* defaults of cluster_worker_options.link_s and orphan_s */

static void
wake_main_thread(struct worker_process *w)
{
    system_raise(&w->wake);
}

/* ---- callbacks of the member ---- */

static void
send_to_controller(void *arg, const struct packet *p)
{
    struct worker_process *w = arg;
    str_clear(&w->shared.packet);
    packet_write(p, &w->shared.packet);
    if (link_send(w->link, LINK_CONTROL, 0, w->shared.packet.text, w->shared.packet.len))
        err_clear(); /* ignored: a coordinator that is gone sends no more heartbeats */
}

/* Stops the engine's run, if the run must stop. Called again at every tick, because an engine that is about to begin
 * a run discards an earlier interrupt. */
static void
stop_engine(struct worker_process *w)
{
    if (!w->shared.engine || !w->shared.run.id || (w->shared.run.stop != w->shared.run.id && !w->shared.leave.asked))
        return;
    bool failed = w->shared.leave.asked || w->shared.run.stop_why >= STOP_FAILED;
    if (w->shared.run.meets && (failed || w->shared.run.yields)) worker_unite_part(w);
    if (failed)
        engine_abort(w->shared.engine);
    else if (w->shared.run.decides)
        engine_interrupt(w->shared.engine);
    bus_host_nudge(w->shared.bus_end);
}

void
worker_leave(struct worker_process *w, int status, const char *text)
{
    if (w->shared.leave.asked) return;
    w->shared.leave.asked = true;
    w->shared.leave.status = status;
    if (w->shared.carrier) carrier_cut(w->shared.carrier, status != 0);
    w->shared.leave.until_ns =
        now_ns() + (status == LEAVE_ORPHAN ? MAX(LEAVE_MS, w->options.keep_s * 1000ll) : LEAVE_MS) * 1000000ll;
    snprintf(w->shared.leave.text, sizeof w->shared.leave.text, "%s", text ? text : "");
    stop_engine(w);
    wake_main_thread(w);
}

static void
stop_worker_run(struct worker_process *w, const struct packet *p)
{
    if (p->flags == STOP_LOST && w->shared.carrier)
        carrier_cut(w->shared.carrier, true); /* ends the waits of threads that send to the lost worker */
    if (p->flags == STOP_LOST) w->shared.over = p->epoch;
    w->shared.run.stop_why = w->shared.run.stop == p->run ? MAX(w->shared.run.stop_why, p->flags) : p->flags;
    w->shared.run.stop = p->run;
    stop_engine(w);
}

/* Copies the bytes to which the spans of an order (queued work) point, because the originals are in the link's
 * buffer, which is reused. */
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
replace_connection(struct worker_process *w, enum link_socket which)
{
    if (link_reconnect(w->link, which)) worker_leave(w, LEAVE_ORPHAN, err_text());
}

static void
on_work(void *arg, const struct work *work)
{
    struct worker_process *w = arg;
    if (work->kind == WORK_LEAVE) {
        if (!w->shared.leave.asked) w->shared.leave.code = (int)(work->code & 0xff); /* as the system does */
        worker_leave(w, work->status, work->text);
        return;
    }
    if (work->kind == WORK_STOP) {
        stop_worker_run(w, work->packet);
        return;
    }
    if (work->kind == WORK_ASK) {
        worker_report(w);
        return;
    }
    if (work->kind == WORK_UNITE) {
        worker_unite_store(w, work->packet);
        return;
    }
    if (work->kind == WORK_CANCEL) {
        worker_files_cancel(w, work->packet->count);
        return;
    }
    if (work->kind == WORK_CONNECT) {
        replace_connection(w, work->packet->flags & CONNECT_VALUES ? LINK_BULK : LINK_CONTROL);
        return;
    }
    bool file = work->kind == WORK_FILE;
    queue_order(file ? &w->files.queue : &w->shared.orders, work);
    if (file)
        worker_files_wake(w);
    else
        wake_main_thread(w);
}

/* Returns the shared word in which a rank of this host passes heartbeats (bus_host_beat); NULL: there is no bus, or
 * the rank has no slot. */
static _Atomic uint64_t *
on_word(void *arg, int rank, enum beat_word which)
{
    struct worker_process *w = arg;
    for (int i = 0, slot = 0; w->shared.bus_end && i < w->shared.nall; i++) {
        if ((int)w->shared.slot[i].memory != w->shared.map.memory) continue;
        if ((int)w->shared.slot[i].owner == rank) return bus_host_beat(segment_base(w->main.bus), slot, which);
        slot++;
    }
    return NULL;
}

/* ---- handle messages from workers of other hosts, on the carrier's thread ---- */

static void
on_asked(void *of, uint32_t epoch, int from, uint64_t program)
{
    struct worker_process *w = of;
    pthread_mutex_lock(&w->lock);
    on_work(w, &(struct work){.kind = WORK_ASKED, .epoch = epoch, .from = from, .program = program});
    pthread_mutex_unlock(&w->lock);
}

static void
on_listed(void *of, uint32_t epoch, int from, uint64_t program, const void *bytes, size_t n)
{
    struct worker_process *w = of;
    pthread_mutex_lock(&w->lock);
    on_work(w, &(struct work){
                   .kind = WORK_LISTED, .epoch = epoch, .from = from, .program = program, .bytes = bytes, .n = n});
    pthread_mutex_unlock(&w->lock);
}

/* Reports a worker that cannot be reached. The coordinator decides which of the two workers is lost. */
static void
on_lost(void *of, int rank, const char *how)
{
    struct worker_process *w = of;
    pthread_mutex_lock(&w->lock);
    if (rank >= 0) {
        member_unreached(w->member, rank, how);
    } else {
        member_leave(w->member, how);
        worker_leave(w, LEAVE_FAILED, how);
    }
    pthread_mutex_unlock(&w->lock);
}

/* ---- receiving ---- */

void
worker_take_control(struct worker_process *w)
{
    const void *bytes;
    size_t n;
    int peer;
    struct packet p;
    while (!w->shared.leave.asked && link_receive(w->link, LINK_CONTROL, &peer, &bytes, &n)) {
        if (packet_read(bytes, n, &p))
            worker_leave(w, LEAVE_FAILED, err_text());
        else
            member_receive(w->member, &p);
    }
}

static void
worker_take_beats(struct worker_process *w)
{
    const void *bytes;
    size_t n;
    int peer;
    struct packet p;
    while (link_receive(w->link, LINK_BEAT, &peer, &bytes, &n))
        if (!packet_read(bytes, n, &p)) member_heard(w->member, &p);
}

/* ---- move values between hosts, on the carrier's thread ---- */

static int
on_give(void *of, uint64_t at, size_t n, void *to)
{
    struct worker_process *w = of;
    struct spot spot;
    pthread_mutex_lock(&w->lock);
    int status = worker_find(w, at, n, &spot);
    if (!status) status = spot.kind->copy(to, spot.data, n);
    pthread_mutex_unlock(&w->lock);
    return status;
}

/* Stores fetched bytes and answers the controller's request. Drops bytes that belong to no request, or have the
 * wrong size. Sending the answer can consume the edge-triggered event of packets that have arrived, so the function
 * handles these packets, too. */
static void
on_brought(void *of, int from, uint64_t count, const void *bytes, size_t n)
{
    struct worker_process *w = of;
    pthread_mutex_lock(&w->lock);
    struct brought *b = &w->shared.brought[count % WORKER_FETCHES];
    struct packet p = {.kind = PACKET_BRING, .count = count};
    if (b->count == count && b->rank == from && b->n == n && n) {
        int status = bytes ? worker_values_store(w, b->at, bytes, n)
                           : fail(E_BUS, "packet BRING: worker %d does not have the requested bytes", from);
        *b = (struct brought){0};
        worker_values_reply(w, &p, status, (struct span){0});
        worker_values_receive(w);
    }
    pthread_mutex_unlock(&w->lock);
}

const struct carrier_hear worker_hear = {NULL, on_asked, on_listed, on_give, on_brought, on_lost};

static void
take_state(struct worker_process *w, enum link_state state)
{
    switch (state) {
    case LINK_WAITING: break;
    case LINK_UP:
        if (w->shared.linked == link_connections(w->link, LINK_CONTROL)) break;
        w->shared.linked = link_connections(w->link, LINK_CONTROL);
        member_linked(w->member);
        break;
    case LINK_DENIED:
        worker_leave(w, LEAVE_FAILED,
                     "the coordinator refuses this worker's key, or only one of the two has a key; both need "
                     "--key-file with files of one job");
        break;
    case LINK_DOWN:
        member_down(w->member);
        if (link_is_refused(w->link)) member_cut(w->member, "the connection to the coordinator ended");
        break;
    }
}

static void
pass_signal(struct worker_process *w)
{
    int number = w->options.signal ? w->options.signal() : 0;
    if (!number || w->shared.signalled) return;
    w->shared.signalled = true;
    member_signal(w->member, number);
}

static void
worker_tick(struct worker_process *w)
{
    struct packet p;
    member_tick(w->member);
    pass_signal(w);
    stop_engine(w);
    worker_epoch_greet(w);
    worker_report_progress(w);
    if (member_beat(w->member, &p)) {
        str_clear(&w->shared.packet);
        packet_write(&p, &w->shared.packet);
        if (link_send(w->link, LINK_BEAT, 0, w->shared.packet.text, w->shared.packet.len)) err_clear();
    }
    w->shared.tick_ns = now_ns() + TICK_MS * 1000000ll;
    worker_take_control(w); /* receives packets, because the send may have consumed their edge-triggered event */
    worker_take_beats(w);
}

/* Handles everything that has arrived. Control packets are handled before a change of the link's state: if the link
 * ends after a BYE, the coordinator is not lost, so the BYE must be handled first. */
static void
worker_pump(struct worker_process *w)
{
    enum link_state state = link_state(w->link);
    worker_take_control(w);
    take_state(w, state);
    worker_take_beats(w);
    worker_values_receive(w);
    if (now_ns() >= w->shared.tick_ns) worker_tick(w);
}

/* Sleeps until an event may have arrived, at most until the next tick. The lock is released during the sleep, so the
 * descriptors to poll are collected before the sleep. */
static void
worker_sleep(struct worker_process *w, bool control)
{
    struct pollfd fd[5];
    nfds_t n = 0;
    if (control) fd[n++] = (struct pollfd){.fd = w->wake.fd, .events = POLLIN};
    if (control) fd[n++] = (struct pollfd){.fd = link_fd(w->link, LINK_CONTROL), .events = POLLIN};
    fd[n++] = (struct pollfd){.fd = link_fd(w->link, LINK_BEAT), .events = POLLIN};
    fd[n++] = (struct pollfd){.fd = link_fd(w->link, LINK_BULK), .events = POLLIN};
    fd[n++] = (struct pollfd){.fd = link_state_fd(w->link), .events = POLLIN};
    int64_t left = (w->shared.tick_ns - now_ns()) / 1000000;
    pthread_mutex_unlock(&w->lock);
    poll(fd, n, (int)MAX(1, MIN(left + 1, TICK_MS)));
    if (control && fd[0].revents) system_lower(&w->wake);
    pthread_mutex_lock(&w->lock);
}

/* Ends the process, because the main thread is in a kernel or a system call and did not return in time. */
static void
end_process(const struct worker_process *w)
{
    if (!w->options.die) return;
    link_sweep(w->options.join);
    w->options.die(w->shared.leave.status ? 1 : w->shared.leave.code);
}

static void *
link_thread(void *arg)
{
    struct worker_process *w = arg;
    pthread_mutex_lock(&w->lock);
    while (!w->shared.quit) {
        worker_pump(w);
        if (w->shared.leave.asked && now_ns() > w->shared.leave.until_ns) end_process(w);
        worker_sleep(w, w->shared.busy);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- the main thread ---- */

static void (*const perform[NWORK])(struct worker_process *w, const struct order *o) = {
    [WORK_WELCOME] = worker_epoch_welcome, [WORK_MAKE] = worker_epoch_make,   [WORK_FORM] = worker_epoch_form,
    [WORK_PROGRAM] = worker_job_make,      [WORK_FORGET] = worker_job_forget, [WORK_START] = worker_run_start,
    [WORK_ASKED] = worker_job_asked,       [WORK_LISTED] = worker_job_listed, [WORK_PORTS] = worker_job_ports,
    [WORK_ROWS] = worker_job_rows,
};

struct order *
order_take(struct orders *from)
{
    struct order *o = from->first;
    if (!o) return NULL;
    from->first = o->next;
    if (!from->first) from->last = &from->first;
    return o;
}

static void
serve_work(struct worker_process *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->shared.leave.asked) {
        worker_pump(w);
        struct order *o = order_take(&w->shared.orders);
        w->shared.busy = o != NULL;
        if (o) w->shared.work = o->work.kind;
        if (!o) {
            worker_sleep(w, true);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        perform[o->work.kind](w, o);
        order_free(o);
        pthread_mutex_lock(&w->lock);
        w->shared.ndone++;
    }
    pthread_mutex_unlock(&w->lock);
}

static int
open_worker(struct worker_process *w)
{
    struct key key = {0};
    const char *file = w->options.key_file;
    uint32_t isa = kernels_isa();
    kernels_print(&w->kernels);
    TRY(roots_read(w->options.root, &w->roots));
    if (file) TRY(key_read(file, w->options.rank, &key));
    if (file && key.nrank) w->options.rank = key.rank;
    int status = link_join(w->options.join, file ? &key : NULL, &w->link);
    key_forget(&key);
    TRY(status);
    if (getentropy(w->link_id, CLUSTER_ID)) return fail(E_IO, "cannot read random bytes: %s", strerror(errno));
    machine_text(w->options.host, &w->machine);
    if (position_heaps_wanted(&w->options.devices)) machine_apart(&w->machine);
    machine_host(w->options.host, w->host);
    device_counts_print(&w->options.devices, &w->devices);
    int ngpu = w->options.devices.n[DEV_CUDA];
    /* undoes the cuda_join() of an earlier cluster: the abilities are again those of this process's GPUs */
    if (ngpu) TRY(cuda_join(cuda_abilities(), 0, ngpu));
    gpus_print(0, ngpu, &w->gpus);
    struct limits limits = limits_now();
    struct member_env env = {w, send_to_controller, on_work, on_word};
    struct member_options o = {.hello = {.kind = PACKET_HELLO,
                                         .protocol = WIRE_VERSION,
                                         .version = span_text(w->options.version),
                                         .host = span_text(w->host),
                                         .machine = span_text(str_text(&w->machine)),
                                         .devices = span_text(str_text(&w->devices)),
                                         .gpus = {(const void *)w->gpus.text, (uint32_t)w->gpus.len},
                                         .abilities = cuda_abilities(),
                                         .pid = (uint32_t)getpid(),
                                         .cores = (uint32_t)limits.cores,
                                         .memory = limits_shared_memory(),
                                         .link_ms = (uint32_t)(w->options.link_s * 1000),
                                         .orphan_ms = (uint32_t)(w->options.orphan_s * 1000),
                                         .name = span_text(w->options.job),
                                         .kernels = span_text(str_text(&w->kernels)),
                                         .isa = isa,
                                         .link = {w->link_id, CLUSTER_ID},
                                         .rank = w->options.rank,
                                         .secret = {w->options.secret, CLUSTER_ID},
                                         .flags = (w->options.keep_s > 0 ? HELLO_KEEPS : 0) |
                                                  (w->shared.kept->served ? HELLO_RETURNS : 0) |
                                                  (w->shared.kept->of[0].segment ? HELLO_KEPT : 0)},
                               .silence = (int)(w->options.orphan_s * 1000 / TICK_MS),
                               .link = (int)(w->options.link_s * 1000 / TICK_MS),
                               .wait = w->options.wait_s * (1000 / TICK_MS)};
    w->member = member_new(&o, &env);
    if (system_event_open(&w->wake)) return fail(E_IO, "cannot create an event descriptor: %s", strerror(errno));
    w->shared.tick_ns = now_ns() + TICK_MS * 1000000ll;
    return thread_start(&w->thread, link_thread, w);
}

static void
close_worker(struct worker_process *w)
{
    worker_epoch_close(w);
    while (w->main.njob) worker_job_free(w->main.job[--w->main.njob]);
    if (w->shared.leave.status == LEAVE_ORPHAN && w->options.keep_s > 0) worker_kept_take(w, w->shared.kept);
    carrier_free(&w->shared.carrier);
    for (struct order *o; (o = order_take(&w->shared.orders)) != NULL;) order_free(o);
    member_free(&w->member);
    link_free(&w->link);
    segment_free(&w->main.bus);
    segment_free(&w->main.made_bus);
    segment_free(&w->shared.segment);
    device_heap_free(&w->shared.heap);
    atlas_free(&w->main.atlas);
    str_free(&w->shared.packet);
    str_free(&w->machine);
    str_free(&w->kernels);
    str_free(&w->devices);
    str_free(&w->gpus);
    roots_free(&w->roots);
    free(w->main.job);
    free(w->shared.map.range);
    free(w->shared.slot);
    free(w->main.asker);
    free(w->shared.ids.id);
    free(w->main.met);
    free(w->main.route);
    free(w->main.recorder);
    system_event_close(&w->wake);
    pthread_cond_destroy(&w->shared.ids.changed);
    pthread_cond_destroy(&w->files.wake);
    pthread_mutex_destroy(&w->lock);
}

/* Serves one coordinator. Sets *last to the rank that the coordinator assigned, if it assigned one. E_LOST: the
 * coordinator is gone. */
static int
serve_once(const struct cluster_worker_options *o, struct worker_kept *kept, int *last)
{
    struct worker_process w = {.options = *o, .wake = SYSTEM_NO_EVENT, .shared.kept = kept};
    if (!o->link_s) w.options.link_s = LINK_S;
    if (!o->orphan_s) w.options.orphan_s = ORPHAN_S;
    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.files.wake, NULL);
    pthread_cond_init(&w.shared.ids.changed, NULL);
    w.shared.orders.last = &w.shared.orders.first;
    w.files.queue.last = &w.files.queue.first;
    w.main.atlas = atlas_new();
    if (o->check_ref) kernel_check(true);
    int status = open_worker(&w);
    if (!status) {
        serve_work(&w);
        pthread_mutex_lock(&w.lock);
        w.shared.quit = true;
        pthread_mutex_unlock(&w.lock);
        pthread_join(w.thread, NULL);
        worker_files_close(&w);
        if (w.shared.leave.status) link_sweep(o->join);
    }
    int end = w.shared.leave.status, rank = w.member ? member_rank(w.member) : -1;
    char text[WIRE_TEXT];
    snprintf(text, sizeof text, "%s", w.shared.leave.text);
    close_worker(&w);
    if (rank >= 0) *last = rank;
    if (!status && !end && o->code) *o->code = w.shared.leave.code;
    if (status || !end) return status;
    if (rank < 0) return fail(end == LEAVE_ORPHAN ? E_LOST : E_BUS, "%s (coordinator at %s)", text, o->join);
    return fail(end == LEAVE_ORPHAN ? E_LOST : E_BUS, "%s", text);
}

/* Serves coordinators, one after the other. If keep_s is not 0, a worker that has lost its coordinator joins the
 * next coordinator with the same rank. */
int
cluster_serve(const struct cluster_worker_options *o)
{
    struct cluster_worker_options again = *o;
    struct worker_kept kept = {0};
    int status = serve_once(&again, &kept, &again.rank);
    while (status == E_LOST && o->keep_s > 0) {
        char text[WIRE_TEXT];
        snprintf(text, sizeof text, "worker %d: %s; waiting for the next coordinator", again.rank, err_text());
        if (o->say) o->say(text);
        again.wait_s = o->keep_s;
        kept.served = true;
        status = serve_once(&again, &kept, &again.rank);
    }
    worker_kept_free(&kept);
    return status;
}
