/* member.c - handles a worker's packets, and passes work to its executor. */
#include "actors/cluster/coordinator/member.h"

#include "actors/cluster/coordinator/coordinator_epoch.h"
#include "actors/cluster/coordinator/coordinator_run.h"
#include "actors/cluster/wire/window.h"

#include "runtime/data/arena.h"
#include "runtime/device/communicator.h"
#include "runtime/base/error.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ID = CLUSTER_ID };
static const char lost_packet[] = "a packet from the coordinator was lost";

struct worker_member {
    struct member_options options;
    struct member_env env;
    enum { JOIN, IN, LEFT } state;
    uint32_t code; /* exit code of the job, from BYE */
    int rank, missed, lag;
    bool waits;           /* true: the worker waits, because the coordinator has no free rank for it */
    bool retries;         /* true: a packet is missing, and the worker has already replaced its connection for it */
    int down;             /* ticks without a connection; 0: the worker is connected */
    uint64_t connections; /* number of connections so far */
    /* seen: number of the last packet received; said: number of the last packet that the coordinator has sent,
     * according to its last heartbeat */
    uint32_t epoch, seen, said;
    struct window window; /* packets sent to the coordinator that it has not acknowledged */
    uint64_t beats, heard, progress;
    uint32_t npiece; /* number of parts of programs received so far; a received part counts as progress */
    int speaker;     /* rank that relays this worker's heartbeats; -1: no rank, the worker sends heartbeats directly */
    uint32_t every, ticks; /* every: ticks between two heartbeats; ticks: ticks counted so far */
    /* spoken: ranks whose heartbeats this worker relays. others: their heartbeats, collected for the next BEAT
     * packet */
    struct str spoken, others;
    unsigned char job[ID];
    struct str program; /* bytes received so far of a program, or of its schedule rows */
    enum work_kind as;  /* kind of `program`: WORK_PROGRAM or WORK_ROWS */
    uint64_t id;        /* number that names the program being received */
};

struct worker_member *
member_new(const struct member_options *o, const struct member_env *env)
{
    struct worker_member *m = must_alloc(sizeof *m);
    m->options = *o;
    m->env = *env;
    m->rank = m->speaker = -1;
    m->every = 1;
    if (!m->options.link) m->options.link = LINK_TICKS;
    return m;
}

void
member_free(struct worker_member **mp)
{
    struct worker_member *m = *mp;
    *mp = NULL;
    if (!m) return;
    window_free(&m->window);
    str_free(&m->program);
    str_free(&m->spoken);
    str_free(&m->others);
    free(m);
}

int
member_rank(const struct worker_member *m)
{
    return m->rank;
}

static void
send_packet(struct worker_member *m, uint32_t epoch, struct packet p)
{
    if (m->state == LEFT) return;
    p.epoch = epoch;
    p.seq = m->window.last + 1;
    p.ack = m->seen;
    window_add(&m->window, &p);
    m->env.send(m->env.arg, &p);
}

static void
queue_work(struct worker_member *m, struct work w)
{
    w.epoch = m->epoch;
    m->env.work(m->env.arg, &w);
}

/* Ends this worker's membership. Later calls have no effect, so the first reason is kept. */
static void
member_end(struct worker_member *m, int status, const char *text)
{
    if (m->state == LEFT) return;
    m->state = LEFT;
    queue_work(m, (struct work){.kind = WORK_LEAVE, .status = status, .code = m->code, .text = text});
}

static void
send_hello(struct worker_member *m)
{
    struct packet p = m->options.hello;
    p.seq = 1; /* HELLO is always packet number 1, so the window begins with packet number 2 */
    p.ack = m->seen;
    p.count = m->connections;
    if (m->rank >= 0) p.rank = m->rank;
    p.epoch = m->epoch;
    p.job = (struct span){m->job, m->state == IN ? ID : 0};
    if (!m->window.last) m->window.last = p.seq;
    m->env.send(m->env.arg, &p);
}

void
member_linked(struct worker_member *m)
{
    struct packet p;
    if (m->state == LEFT) return;
    m->down = 0;
    m->connections++;
    send_hello(m);
    for (size_t at = 0; window_next(&m->window, &at, &p);) {
        p.ack = m->seen;
        m->env.send(m->env.arg, &p);
    }
}

void
member_down(struct worker_member *m)
{
    m->down = MAX(m->down, 1);
}

/* ---- handle packets of the coordinator ---- */

static void
welcome(struct worker_member *m, const struct packet *p)
{
    if (m->state != JOIN || p->job.n != ID) return;
    m->waits = p->rank < 0;
    if (m->waits) {
        send_hello(m); /* shows the coordinator that this worker still waits */
        return;
    }
    m->state = IN;
    m->rank = p->rank;
    memcpy(m->job, p->job.bytes, ID);
    queue_work(m, (struct work){.kind = WORK_WELCOME, .packet = p});
}

static void
queue_refused(struct worker_member *m, const struct packet *p)
{
    struct str text = {0};
    span_print(p->text, &text);
    member_end(m, p->flags & REFUSE_LOST ? LEAVE_ORPHAN : LEAVE_FAILED, str_text(&text));
    str_free(&text);
}

static void
queue_make(struct worker_member *m, const struct packet *p)
{
    queue_work(m, (struct work){.kind = WORK_MAKE, .packet = p});
}

static void
form(struct worker_member *m, const struct packet *p)
{
    enum { EVERY_MOST = 100 };
    m->speaker = p->speaker == m->rank ? -1 : p->speaker;
    m->every = MAX(1, MIN(p->every, (uint32_t)EVERY_MOST));
    str_clear(&m->spoken);
    str_addn(&m->spoken, p->spoken.bytes, p->spoken.n);
    queue_work(m, (struct work){.kind = WORK_FORM, .packet = p});
}

static void
ports(struct worker_member *m, const struct packet *p)
{
    queue_work(m, (struct work){.kind = WORK_PORTS, .packet = p});
}

/* Appends a part of a program. The part must begin where the previous part ended. */
static void
piece(struct worker_member *m, const struct packet *p, enum work_kind as)
{
    bool first = p->offset == 0;
    m->npiece++;
    if (p->total > MEMBER_PROGRAM_MOST || p->bytes.n > p->total || p->offset > p->total - p->bytes.n ||
        (!first && (as != m->as || p->program != m->id || p->offset != m->program.len))) {
        member_end(m, LEAVE_FAILED, "received a program in chunks that do not fit together");
        return;
    }
    if (first) str_clear(&m->program);
    m->as = as;
    m->id = p->program;
    str_addn(&m->program, p->bytes.bytes, p->bytes.n);
    if (m->program.len < p->total) return;
    queue_work(m, (struct work){.kind = as, .program = m->id, .bytes = str_text(&m->program), .n = m->program.len});
    str_free(&m->program);
}

static void
program(struct worker_member *m, const struct packet *p)
{
    piece(m, p, WORK_PROGRAM);
}

static void
queue_rows(struct worker_member *m, const struct packet *p)
{
    piece(m, p, WORK_ROWS);
}

static void
queue_forget(struct worker_member *m, const struct packet *p)
{
    queue_work(m, (struct work){.kind = WORK_FORGET, .program = p->program});
}

static void
queue_start(struct worker_member *m, const struct packet *p)
{
    queue_work(m, (struct work){.kind = WORK_START, .packet = p, .program = p->program});
}

static void
queue_stop(struct worker_member *m, const struct packet *p)
{
    /* no worker relays heartbeats until the next epoch, so members send them directly */
    if (p->flags == STOP_LOST) m->speaker = -1;
    if (p->flags == STOP_LOST) str_clear(&m->spoken);
    queue_work(m, (struct work){.kind = WORK_STOP, .packet = p});
}

static void
unite(struct worker_member *m, const struct packet *p)
{
    if (p->bytes.n == COMMUNICATOR_ID) queue_work(m, (struct work){.kind = WORK_UNITE, .packet = p});
}

static void
file(struct worker_member *m, const struct packet *p)
{
    queue_work(m, (struct work){.kind = WORK_FILE, .packet = p});
}

static void
queue_ask(struct worker_member *m, const struct packet *p)
{
    queue_work(m, (struct work){.kind = WORK_ASK, .packet = p});
}

static void
queue_cancel(struct worker_member *m, const struct packet *p)
{
    queue_work(m, (struct work){.kind = WORK_CANCEL, .packet = p});
}

static void
queue_connect(struct worker_member *m, const struct packet *p)
{
    if (p->flags & CONNECT_VALUES || p->count == m->connections)
        queue_work(m, (struct work){.kind = WORK_CONNECT, .packet = p});
}

static void
bye(struct worker_member *m, const struct packet *p)
{
    m->code = p->code;
    member_end(m, LEAVE_DONE, "");
}

/* For each kind of packet, the function that handles it. inside: true if the packet is valid only in state IN. */
static const struct {
    void (*take)(struct worker_member *m, const struct packet *p);
    bool inside;
} handle[NPACKET] = {
    [PACKET_REFUSE] = {queue_refused, false},
    [PACKET_WELCOME] = {welcome, false},
    [PACKET_MAKE] = {queue_make, true},
    [PACKET_FORM] = {form, true},
    [PACKET_PROGRAM] = {program, true},
    [PACKET_FORGET] = {queue_forget, true},
    [PACKET_PORTS] = {ports, true},
    [PACKET_START] = {queue_start, true},
    [PACKET_STOP] = {queue_stop, true},
    [PACKET_BYE] = {bye, false},
    [PACKET_SAVE] = {file, true},
    [PACKET_LOAD] = {file, true},
    [PACKET_CANCEL] = {queue_cancel, true},
    [PACKET_ASK] = {queue_ask, true},
    [PACKET_ROWS] = {queue_rows, true},
    [PACKET_UNITE] = {unite, true},
    [PACKET_CONNECT] = {queue_connect, true},
};

void
member_receive(struct worker_member *m, const struct packet *p)
{
    if (m->state == LEFT || (int32_t)(p->seq - m->seen) <= 0) return;
    if (p->seq != m->seen + 1) {
        member_end(m, LEAVE_ORPHAN, lost_packet);
        return;
    }
    m->seen = p->seq;
    window_acknowledge(&m->window, p->ack);
    m->missed = m->lag = 0;
    m->retries = false;
    if (!handle[p->kind].take || (handle[p->kind].inside && m->state != IN)) return;
    if ((int32_t)(p->epoch - m->epoch) < 0) return;
    m->epoch = p->epoch;
    handle[p->kind].take(m, p);
}

/* ---- ticks and heartbeats ---- */

void
member_tick(struct worker_member *m)
{
    int silence = m->options.silence * (int)m->every;
    m->ticks++;
    if (m->state == JOIN && m->window.last && ++m->missed > silence)
        member_end(m, LEAVE_ORPHAN, "the coordinator does not answer");
    if (m->state == JOIN && m->options.wait && !m->waits && m->ticks > (uint32_t)m->options.wait)
        member_end(m, LEAVE_FAILED,
                   "no coordinator answered in the time of --wait; start the coordinator, or set a longer time");
    if (m->state != IN) return;
    m->lag = (int32_t)(m->said - m->seen) > 0 ? m->lag + 1 : 0;
    m->down += m->down > 0;
    if (m->lag > m->options.link / 2 && !m->retries) {
        m->retries = true;
        m->lag = 0;
        queue_connect(m, &(struct packet){.count = m->connections});
    }
    if (++m->missed > silence)
        member_end(m, LEAVE_ORPHAN, "the coordinator stopped responding");
    else if (m->down > m->options.link)
        member_end(m, LEAVE_ORPHAN, "the connection to the coordinator ended");
    else if (m->lag > m->options.link)
        member_end(m, LEAVE_ORPHAN, lost_packet);
}

void
member_cut(struct worker_member *m, const char *how)
{
    member_end(m, LEAVE_ORPHAN, how);
}

static _Atomic uint64_t *
rank_word(struct worker_member *m, int rank, enum beat_word which)
{
    return m->env.word ? m->env.word(m->env.arg, rank, which) : NULL;
}

static void
member_hear(struct worker_member *m, uint64_t count, uint32_t seq)
{
    if (count <= m->heard) return;
    m->heard = count;
    m->said = seq;
    m->missed = 0;
}

static bool
member_relays_for(const struct worker_member *m, uint32_t rank)
{
    for (size_t i = 0; i < m->spoken.len; i += sizeof rank)
        if (!memcmp(m->spoken.text + i, &rank, sizeof rank)) return true;
    return false;
}

void
member_heard(struct worker_member *m, const struct packet *p)
{
    bool ours = m->state == IN && p->kind == PACKET_BEAT && p->job.n == ID && !memcmp(p->job.bytes, m->job, ID);
    if (!ours || p->count <= m->heard) return;
    member_hear(m, p->count, p->seq);
    window_acknowledge(&m->window, p->ack);
    for (uint32_t i = 0; i + 4 * NBEAT <= p->others.n; i += 4 * NBEAT) {
        uint32_t beat[NBEAT];
        memcpy(beat, p->others.bytes + i, sizeof beat);
        _Atomic uint64_t *down =
            member_relays_for(m, beat[BEAT_RANK]) ? rank_word(m, (int)beat[BEAT_RANK], WORD_DOWN) : NULL;
        if (down) atomic_store(down, (uint64_t)beat[BEAT_COUNT] << 32 | beat[BEAT_SEQ]);
    }
}

/* Collects the heartbeats of the other workers of the host, if this worker relays them. */
static void
beat_others(struct worker_member *m)
{
    str_clear(&m->others);
    for (size_t i = 0; i < m->spoken.len; i += 4) {
        uint32_t rank;
        memcpy(&rank, m->spoken.text + i, sizeof rank);
        _Atomic uint64_t *up = rank_word(m, (int)rank, WORD_UP), *done = rank_word(m, (int)rank, WORD_PROGRESS);
        uint64_t left = up ? atomic_load(up) : 0, progress = done ? atomic_load(done) : 0;
        const uint32_t beat[NBEAT] = {rank, (uint32_t)(left >> 32), (uint32_t)left, (uint32_t)progress,
                                      (uint32_t)(progress >> 32)};
        str_addn(&m->others, beat, sizeof beat);
    }
}

/* Passes heartbeats through shared memory: leaves this worker's heartbeat for the speaker (the worker that relays
 * it), and reads the coordinator's heartbeat. Returns false if the worker must also send heartbeats directly. It
 * must if there is no speaker, or if the coordinator's heartbeat was never seen in this epoch or has not changed for
 * QUIET intervals. */
static bool
leave_beat(struct worker_member *m)
{
    enum { QUIET = 4 };
    if (m->speaker < 0) return false;
    _Atomic uint64_t *up = rank_word(m, m->rank, WORD_UP), *down = rank_word(m, m->rank, WORD_DOWN);
    _Atomic uint64_t *progress = rank_word(m, m->rank, WORD_PROGRESS);
    if (!up || !down || !progress) return false;
    atomic_store(progress, m->progress);
    atomic_store(up, m->beats << 32 | m->window.last);
    uint64_t heard = atomic_load(down);
    member_hear(m, heard >> 32, (uint32_t)heard);
    return heard && m->missed < QUIET * (int)m->every;
}

void
member_progress(struct worker_member *m, uint32_t done, int32_t node)
{
    m->progress = PROGRESS(done + m->npiece, node);
}

bool
member_beat(struct worker_member *m, struct packet *out)
{
    if (m->state != IN || m->ticks % m->every) return false;
    m->beats++;
    if (leave_beat(m)) return false;
    beat_others(m);
    *out = (struct packet){.kind = PACKET_BEAT,
                           .epoch = m->epoch,
                           .seq = m->window.last,
                           .ack = m->seen,
                           .rank = m->rank,
                           .job = {m->job, ID},
                           .count = m->beats,
                           .progress = m->progress,
                           .others = {(const void *)m->others.text, (uint32_t)m->others.len}};
    return true;
}

/* ---- answers of the executor ---- */

void
member_made(struct worker_member *m, uint32_t epoch, const struct made *made)
{
    send_packet(m, epoch,
                (struct packet){.kind = PACKET_MADE,
                                .status = (uint32_t)made->status,
                                .text = span_text(made->text),
                                .segment = span_text(made->segment),
                                .bus = span_text(made->bus),
                                .port = span_text(made->port),
                                .flags = made->mpi ? MADE_MPI : 0});
}

void
member_meet(struct worker_member *m, uint32_t epoch, uint32_t memory)
{
    send_packet(m, epoch, (struct packet){.kind = PACKET_MEET, .memories = {(const void *)&memory, sizeof memory}});
}

void
member_ready(struct worker_member *m, uint32_t epoch, int status, const char *text)
{
    send_packet(m, epoch, (struct packet){.kind = PACKET_READY, .status = (uint32_t)status, .text = span_text(text)});
}

void
member_have(struct worker_member *m, uint32_t epoch, const struct have *h)
{
    send_packet(m, epoch,
                (struct packet){.kind = PACKET_HAVE,
                                .program = h->program,
                                .status = (uint32_t)h->status,
                                .text = span_text(h->text),
                                .digest = {h->digest, h->digest ? ID : 0},
                                .outline = {h->outline, h->outline ? ID : 0},
                                .arenas = {(const void *)h->arenas, (uint32_t)(8 * h->narena)},
                                .replaces = {h->replaces, (uint32_t)h->nreplace},
                                .comm_ranks = {h->comm_ranks, (uint32_t)h->ncomm_ranks}});
}

void
member_unite(struct worker_member *m, uint32_t epoch, const struct unite *u)
{
    send_packet(m, epoch,
                (struct packet){.kind = PACKET_UNITE,
                                .run = u->run,
                                .count = u->name,
                                .memories = {(const void *)u->memory, (uint32_t)(4 * u->nmemory)},
                                .bytes = {u->id, COMMUNICATOR_ID}});
}

void
member_ended(struct worker_member *m, const struct run_end *e)
{
    for (size_t at = 0; at < e->ntime; at += WIRE_PIECE) {
        size_t n = MIN(e->ntime - at, (size_t)WIRE_PIECE);
        send_packet(m, e->epoch,
                    (struct packet){.kind = PACKET_ACTS,
                                    .run = e->run,
                                    .offset = at,
                                    .total = e->ntime,
                                    .count = (uint64_t)e->began,
                                    .bytes = {(const unsigned char *)e->times + at, (uint32_t)n}});
    }
    send_packet(m, e->epoch,
                (struct packet){.kind = PACKET_END,
                                .run = e->run,
                                .status = (uint32_t)e->status,
                                .node = e->node,
                                .text = span_text(e->text),
                                .count = e->acts,
                                .begun = {(const void *)e->begun, (uint32_t)(4 * e->nbegun)},
                                .acted = {(const void *)e->acted, (uint32_t)(4 * e->nacted)},
                                .busy = {(const void *)e->busy, (uint32_t)(8 * e->nbusy)}});
}

void
member_filed(struct worker_member *m, uint32_t epoch, uint64_t count, int status, const char *text,
             const struct str *digests)
{
    size_t at = 0, n;
    do {
        n = MIN(digests->len - at, (size_t)WIRE_PIECE);
        send_packet(m, epoch,
                    (struct packet){.kind = PACKET_FILED,
                                    .count = count,
                                    .status = (uint32_t)status,
                                    .text = span_text(text),
                                    .flags = at + n < digests->len ? FILED_MORE : 0,
                                    .digests = {(const unsigned char *)digests->text + at, (uint32_t)n}});
        at += n;
    } while (at < digests->len);
}

void
member_report(struct worker_member *m, bool works, int32_t rank, const struct str *lines)
{
    send_packet(m, m->epoch,
                (struct packet){.kind = PACKET_REPORT,
                                .flags = works ? REPORT_WORKS : 0,
                                .rank = rank,
                                .bytes = {(const void *)lines->text, (uint32_t)MIN(lines->len, (size_t)WIRE_PIECE)}});
}

void
member_unreached(struct worker_member *m, int rank, const char *how)
{
    send_packet(m, m->epoch, (struct packet){.kind = PACKET_UNREACHED, .rank = rank, .text = span_text(how)});
}

void
member_signal(struct worker_member *m, int number)
{
    if (m->state == IN)
        send_packet(m, m->epoch, (struct packet){.kind = PACKET_SIGNAL, .status = (uint32_t)number});
    else
        member_end(m, LEAVE_FAILED, "a signal ended the worker");
}

void
member_leave(struct worker_member *m, const char *why)
{
    send_packet(m, m->epoch, (struct packet){.kind = PACKET_LEAVE, .text = span_text(why)});
    m->state = LEFT;
}
