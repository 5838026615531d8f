/* coordinator.c - packets and ticks in, packets and notices out. */
#include "actors/cluster/coordinator.h"

#include "runtime/arena.h"
#include "runtime/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct member {
    struct member_info info;
    uint32_t sent, seen, said; /* numbers of packets of its link; said: by its heartbeat */
    uint64_t pulses;
    bool ended; /* in this run */
};

/* A link: what a stranger has until it is a member. */
struct peer {
    int32_t rank; /* -1: none */
    bool out;     /* refused or lost: what still comes is not read */
};

/* Who has a program. */
struct shipped {
    uint64_t id;
    uint8_t *has; /* by rank: in this epoch's process */
};

struct coordinator {
    struct coordinator_options options;
    struct coordinator_env env;
    enum coordinator_phase phase;
    uint32_t epoch;
    struct member *member; /* by rank */
    struct peer *peer;
    int npeer, peer_capacity;
    struct shipped *shipped;
    int nshipped, shipped_capacity;
    uint32_t slot[CLUSTER_SLOTS];
    int nslot;
    struct start start;      /* in SHIP and RUN */
    int status, blame, node; /* the first failure of the run */
    char text[WIRE_TEXT];
};

const char *
coordinator_phase_text(enum coordinator_phase phase)
{
    static const char *const text[] = {"gathering", "forming", "idle", "shipping", "running", "broken"};
    return text[phase];
}

const char *
member_state_text(enum member_state state)
{
    static const char *const text[] = {"absent", "present", "ready", "busy", "lost", "retired"};
    return text[state];
}

static const char lost_packet[] = "lost a packet on its way";

static bool
is_in(const struct member *m)
{
    return m->info.state >= MEMBER_PRESENT && m->info.state <= MEMBER_BUSY;
}

static bool
is_wanted(const struct member *m)
{
    return m->info.state != MEMBER_RETIRED;
}

/* ---- opening ---- */

struct coordinator *
coordinator_new(const struct coordinator_options *o, const struct coordinator_env *env)
{
    assert(o->world >= 1 && o->world <= CLUSTER_WORLD && o->silence > 0);
    struct coordinator *c = must_alloc(sizeof *c);
    c->options = *o;
    c->env = *env;
    c->epoch = 1;
    c->member = must_alloc(sizeof *c->member * (size_t)o->world);
    for (int r = 0; r < o->world; r++) c->member[r].info.peer = -1;
    return c;
}

static void
member_forget(struct member *m)
{
    free(m->info.host);
    free(m->info.devices);
    m->info.host = m->info.devices = NULL;
}

void
coordinator_free(struct coordinator **cp)
{
    struct coordinator *c = *cp;
    *cp = NULL;
    if (!c) return;
    for (int r = 0; r < c->options.world; r++) member_forget(&c->member[r]);
    for (int i = 0; i < c->nshipped; i++) free(c->shipped[i].has);
    free(c->shipped);
    free(c->member);
    free(c->peer);
    free(c);
}

/* ---- sending ---- */

static void
send_to(struct coordinator *c, int rank, struct packet p)
{
    struct member *m = &c->member[rank];
    p.epoch = c->epoch;
    p.seq = ++m->sent;
    c->env.send(c->env.arg, m->info.peer, &p);
}

static void
send_all(struct coordinator *c, struct packet p)
{
    for (int r = 0; r < c->options.world; r++)
        if (is_in(&c->member[r])) send_to(c, r, p);
}

static void
tell(struct coordinator *c, struct notice n)
{
    c->env.tell(c->env.arg, &n);
}

/* ---- losing a member ---- */

static void
stop_run(struct coordinator *c, uint32_t why)
{
    for (int r = 0; r < c->options.world; r++)
        if (is_in(&c->member[r]) && !c->member[r].ended)
            send_to(c, r, (struct packet){.kind = PACKET_STOP, .run = c->start.run, .flags = why});
}

static void
cut(struct coordinator *c, int peer)
{
    c->peer[peer].out = true;
    c->env.cut(c->env.arg, peer);
}

/* The link of a member goes, whatever the reason; its number may be a newcomer's later. */
static void
detach(struct coordinator *c, struct member *m)
{
    if (m->info.peer < 0) return;
    c->peer[m->info.peer].rank = -1;
    cut(c, m->info.peer);
    m->info.peer = -1;
}

static void
lose(struct coordinator *c, int rank, const char *how)
{
    struct member *m = &c->member[rank];
    if (!is_in(m) && m->info.state != MEMBER_ABSENT) return;
    bool running = c->phase == CLUSTER_RUN;
    m->info.state = MEMBER_LOST;
    detach(c, m);
    for (int i = 0; i < c->nshipped; i++) c->shipped[i].has[rank] = 0;
    c->phase = CLUSTER_BROKEN;
    if (running) stop_run(c, STOP_FAILED);
    tell(c, (struct notice){.kind = NOTICE_LOST, .rank = rank, .text = how});
}

void
coordinator_gone(struct coordinator *c, int rank, const char *how)
{
    if (rank >= 0 && rank < c->options.world) lose(c, rank, how);
}

void
coordinator_cut(struct coordinator *c, int peer, const char *how)
{
    if (peer < c->npeer && c->peer[peer].rank >= 0) lose(c, c->peer[peer].rank, how);
}

void
coordinator_tick(struct coordinator *c)
{
    for (int r = 0; r < c->options.world; r++) {
        struct member *m = &c->member[r];
        if (!is_in(m)) continue;
        m->info.lag = (int32_t)(m->said - m->seen) > 0 ? m->info.lag + 1 : 0;
        if (++m->info.missed > c->options.silence)
            lose(c, r, "fell silent");
        else if (m->info.lag > LAG_TICKS)
            lose(c, r, lost_packet);
    }
}

bool
coordinator_pulse(struct coordinator *c, int rank, struct packet *out)
{
    struct member *m = &c->member[rank];
    if (!is_in(m)) return false;
    *out = (struct packet){.kind = PACKET_BEAT,
                           .epoch = c->epoch,
                           .seq = m->sent,
                           .rank = rank,
                           .job = {c->options.job, CLUSTER_ID},
                           .count = ++m->pulses};
    return true;
}

void
coordinator_beat(struct coordinator *c, const struct packet *p)
{
    bool ours = p->kind == PACKET_BEAT && p->job.n == CLUSTER_ID && !memcmp(p->job.bytes, c->options.job, CLUSTER_ID);
    if (!ours || p->rank < 0 || p->rank >= c->options.world) return;
    struct member *m = &c->member[p->rank];
    if (!is_in(m) || p->count <= m->info.beats) return; /* a late one says nothing of now */
    m->info.beats = p->count;
    m->info.missed = 0;
    m->said = p->seq;
}

/* ---- letting in ---- */

static bool
zero(const unsigned char *p)
{
    for (int i = 0; i < CLUSTER_ID; i++)
        if (p[i]) return false;
    return true;
}

/* Compares in the same time whatever the bytes are. */
static bool
same_secret(struct span said, const unsigned char *want)
{
    unsigned char differ = 0;
    if (said.n != CLUSTER_ID) return false;
    for (int i = 0; i < CLUSTER_ID; i++) differ |= (unsigned char)(said.bytes[i] ^ want[i]);
    return differ == 0;
}

static bool
may_have(const struct coordinator *c, int rank, const struct packet *p)
{
    if (c->member[rank].info.state != MEMBER_ABSENT) return false;
    const unsigned char *want = c->options.secret ? c->options.secret[rank] : NULL;
    return !want || zero(want) || same_secret(p->secret, want);
}

/* The rank that it wants, else the lowest that is free; -1. */
static int
rank_for(const struct coordinator *c, const struct packet *p)
{
    if (p->rank >= 0) return p->rank < c->options.world && may_have(c, p->rank, p) ? p->rank : -1;
    for (int r = 0; r < c->options.world; r++)
        if (may_have(c, r, p)) return r;
    return -1;
}

/* Why it cannot be let in; false: it can. */
static bool
objection(const struct coordinator *c, const struct packet *p, int rank, struct str *why)
{
    if (p->protocol != WIRE_VERSION || !span_is(p->version, span_text(c->options.version))) {
        str_addf(why, "the coordinator is rille %s, the worker is rille ", c->options.version);
        span_print(p->version, why);
    } else if (!span_is(p->machine, span_text(c->options.machine))) {
        str_add(why, "the worker is on another host (");
        span_print(p->host, why);
        str_add(why, "); this version wants the coordinator and all workers on one");
    } else if (rank < 0 && p->rank >= c->options.world) {
        str_addf(why, "there is no rank %d: the job has %d worker%s", p->rank, c->options.world,
                 c->options.world == 1 ? "" : "s");
    } else if (rank < 0 && p->rank >= 0) {
        str_addf(why, "rank %d is another worker's", p->rank);
    } else if (rank < 0) {
        str_addf(why, "the job has its %d worker%s already", c->options.world, c->options.world == 1 ? "" : "s");
    }
    return why->len > 0;
}

static void
refuse(struct coordinator *c, int peer, const struct packet *p, const char *why)
{
    struct packet no = {.kind = PACKET_REFUSE, .epoch = c->epoch, .seq = 1, .text = span_text(why)};
    struct str text = {0};
    c->env.send(c->env.arg, peer, &no);
    cut(c, peer);
    str_add(&text, "a worker (");
    span_print(p->host, &text);
    str_addf(&text, ", pid %u) was not let in: %s", p->pid, why);
    tell(c, (struct notice){.kind = NOTICE_REFUSED, .rank = -1, .text = str_text(&text)});
    str_free(&text);
}

static char *
copy_text(struct span s)
{
    struct str out = {0};
    span_print(s, &out);
    if (!out.text) str_add(&out, "");
    return out.text;
}

static bool
all_in(const struct coordinator *c)
{
    for (int r = 0; r < c->options.world; r++)
        if (is_wanted(&c->member[r]) && !is_in(&c->member[r])) return false;
    return true;
}

static void
admit(struct coordinator *c, int peer, int rank, const struct packet *p)
{
    struct member *m = &c->member[rank];
    member_forget(m);
    *m = (struct member){.info = {.state = MEMBER_PRESENT,
                                  .peer = peer,
                                  .host = copy_text(p->host),
                                  .devices = copy_text(p->devices),
                                  .pid = p->pid,
                                  .cores = p->cores,
                                  .memory = p->memory},
                         .seen = p->seq};
    c->peer[peer].rank = rank;
    send_to(c, rank,
            (struct packet){.kind = PACKET_WELCOME,
                            .job = {c->options.job, CLUSTER_ID},
                            .rank = rank,
                            .world = (uint32_t)c->options.world,
                            .segment = span_text(c->options.segment),
                            .memory = c->options.memory,
                            .beat = span_text(c->options.beat)});
    if (c->phase == CLUSTER_GATHER && all_in(c)) tell(c, (struct notice){.kind = NOTICE_FULL, .rank = rank});
}

static void
hello(struct coordinator *c, int peer, const struct packet *p)
{
    struct str why = {0};
    int rank = rank_for(c, p);
    if (c->peer[peer].rank >= 0) return; /* said twice */
    if (objection(c, p, rank, &why))
        refuse(c, peer, p, str_text(&why));
    else
        admit(c, peer, rank, p);
    str_free(&why);
}

/* ---- an epoch begins ---- */

static uint32_t
heir(const struct coordinator *c, uint32_t owner, int slot)
{
    int nin = 0, at = 0;
    if (is_in(&c->member[owner])) return owner;
    for (int r = 0; r < c->options.world; r++) nin += is_in(&c->member[r]);
    for (int r = 0, k = slot % nin; r < c->options.world; r++)
        if (is_in(&c->member[r]) && k-- == 0) at = r;
    return (uint32_t)at;
}

void
coordinator_form(struct coordinator *c, const struct form *f)
{
    assert(c->phase == CLUSTER_GATHER && all_in(c) && f->nslot <= CLUSTER_SLOTS);
    c->phase = CLUSTER_FORM;
    c->nslot = f->nslot;
    for (int s = 0; s < f->nslot; s++) c->slot[s] = heir(c, f->owner[s], s);
    send_all(c, (struct packet){.kind = PACKET_FORM,
                                .threads = f->threads,
                                .ranges = {(const void *)f->range, (uint32_t)(sizeof *f->range * (size_t)f->nrange)},
                                .slots = {(const void *)c->slot, (uint32_t)(4 * f->nslot)},
                                .bus = span_text(f->bus)});
}

static void
ready(struct coordinator *c, int rank, const struct packet *p)
{
    struct member *m = &c->member[rank];
    if (c->phase != CLUSTER_FORM || m->info.state != MEMBER_PRESENT) return;
    if (p->status) {
        char *text = copy_text(p->text);
        lose(c, rank, text);
        free(text);
        return;
    }
    m->info.state = MEMBER_READY;
    for (int r = 0; r < c->options.world; r++)
        if (is_wanted(&c->member[r]) && c->member[r].info.state != MEMBER_READY) return;
    c->phase = CLUSTER_IDLE;
    tell(c, (struct notice){.kind = NOTICE_FORMED});
}

/* ---- programs ---- */

static struct shipped *
find_shipped(struct coordinator *c, uint64_t id)
{
    for (int i = 0; i < c->nshipped; i++)
        if (c->shipped[i].id == id) return &c->shipped[i];
    GROW(c->shipped, c->nshipped + 1, c->shipped_capacity);
    struct shipped *s = &c->shipped[c->nshipped++];
    *s = (struct shipped){id, must_alloc((size_t)c->options.world)};
    return s;
}

void
coordinator_forget(struct coordinator *c, uint64_t program)
{
    struct shipped *s = find_shipped(c, program);
    for (int r = 0; r < c->options.world; r++)
        if (s->has[r] && is_in(&c->member[r]))
            send_to(c, r, (struct packet){.kind = PACKET_FORGET, .program = program});
    free(s->has);
    *s = c->shipped[--c->nshipped];
}

static void
ship(struct coordinator *c, int rank, const struct start *s)
{
    size_t at = 0;
    do {
        size_t n = MIN(s->nbyte - at, (size_t)WIRE_PIECE);
        send_to(c, rank,
                (struct packet){.kind = PACKET_PROGRAM,
                                .program = s->program,
                                .offset = at,
                                .total = s->nbyte,
                                .bytes = {(const unsigned char *)s->bytes + at, (uint32_t)n}});
        at += n;
    } while (at < s->nbyte);
    c->member[rank].info.state = MEMBER_BUSY;
}

/* ---- runs ---- */

static void
end_run(struct coordinator *c, const struct packet *p)
{
    c->phase = CLUSTER_IDLE;
    for (int r = 0; r < c->options.world; r++)
        if (c->member[r].info.state == MEMBER_BUSY) c->member[r].info.state = MEMBER_READY;
    tell(c, (struct notice){.kind = NOTICE_ENDED,
                            .run = c->start.run,
                            .status = c->status,
                            .rank = c->blame,
                            .node = c->node,
                            .text = c->text,
                            .packet = p});
}

/* The first failure is the one that counts. */
static bool
blame(struct coordinator *c, int rank, int status, int node, struct span text)
{
    struct str s = {0};
    if (c->status || !status) return false;
    c->status = status;
    c->blame = rank;
    c->node = node;
    for (uint32_t i = 0; i < text.n; i++) /* lines stay lines; what would steer a terminal does not */
        str_addf(&s, text.bytes[i] == '\n' || text.bytes[i] >= ' ' ? "%c" : "\\x%02x", text.bytes[i]);
    snprintf(c->text, sizeof c->text, "%s", str_text(&s));
    str_free(&s);
    return true;
}

static void
begin_run(struct coordinator *c)
{
    const struct start *s = &c->start;
    c->phase = CLUSTER_RUN;
    for (int r = 0; r < c->options.world; r++) {
        c->member[r].ended = false;
        if (is_in(&c->member[r])) c->member[r].info.state = MEMBER_BUSY;
    }
    send_all(c, (struct packet){.kind = PACKET_START,
                                .run = s->run,
                                .program = s->program,
                                .flags = s->flags,
                                .places = {(const void *)s->places, (uint32_t)(8 * s->nplace)},
                                .numbers = {(const void *)s->numbers, (uint32_t)(8 * s->nnumber)}});
}

static bool
all_have(const struct coordinator *c, const struct shipped *s)
{
    for (int r = 0; r < c->options.world; r++)
        if (is_in(&c->member[r]) && !s->has[r]) return false;
    return true;
}

void
coordinator_start(struct coordinator *c, const struct start *s)
{
    assert(c->phase == CLUSTER_IDLE);
    c->start = *s;
    c->status = 0;
    c->blame = c->node = -1;
    c->text[0] = '\0';
    struct shipped *known = find_shipped(c, s->program);
    if (all_have(c, known)) {
        begin_run(c);
        return;
    }
    c->phase = CLUSTER_SHIP;
    for (int r = 0; r < c->options.world; r++)
        if (is_in(&c->member[r]) && !known->has[r]) ship(c, r, s);
}

/* Of a program that some refused, those that made it keep it. */
static void
have(struct coordinator *c, int rank, const struct packet *p)
{
    struct member *m = &c->member[rank];
    if (c->phase != CLUSTER_SHIP || p->program != c->start.program || m->info.state != MEMBER_BUSY) return;
    m->info.state = MEMBER_READY;
    if (p->status) {
        blame(c, rank, (int)MIN(p->status, (uint32_t)UINT8_MAX), -1, p->text);
    } else if (!same_secret(p->digest, c->start.digest)) {
        blame(c, rank, E_PLAN, -1, span_text("the worker makes another plan of this program than the controller"));
    } else {
        find_shipped(c, p->program)->has[rank] = 1;
    }
    for (int r = 0; r < c->options.world; r++)
        if (c->member[r].info.state == MEMBER_BUSY) return;
    if (c->status)
        end_run(c, NULL);
    else
        begin_run(c);
}

static void
end(struct coordinator *c, int rank, const struct packet *p)
{
    struct member *m = &c->member[rank];
    if (c->phase != CLUSTER_RUN || p->run != c->start.run || m->ended) return;
    m->ended = true;
    m->info.state = MEMBER_READY;
    if (blame(c, rank, (int)MIN(p->status, (uint32_t)UINT8_MAX), p->node, p->text)) stop_run(c, STOP_FAILED);
    tell(c, (struct notice){.kind = NOTICE_ACTS, .rank = rank, .run = p->run, .packet = p});
    for (int r = 0; r < c->options.world; r++)
        if (is_in(&c->member[r]) && !c->member[r].ended) return;
    end_run(c, p);
}

static void
acts(struct coordinator *c, int rank, const struct packet *p)
{
    if (c->phase == CLUSTER_RUN && p->run == c->start.run && !c->member[rank].ended)
        tell(c, (struct notice){.kind = NOTICE_ACTS, .rank = rank, .run = p->run, .packet = p});
}

static void
leave(struct coordinator *c, int rank, const struct packet *p)
{
    char *why = copy_text(p->text);
    lose(c, rank, why);
    free(why);
}

void
coordinator_stop(struct coordinator *c)
{
    if (c->phase == CLUSTER_RUN) stop_run(c, STOP_ASKED);
}

/* ---- receiving ---- */

static void (*const handle[NPACKET])(struct coordinator *c, int rank, const struct packet *p) = {
    [PACKET_READY] = ready, [PACKET_HAVE] = have, [PACKET_ACTS] = acts, [PACKET_END] = end, [PACKET_LEAVE] = leave,
};

static void
know(struct coordinator *c, int peer)
{
    GROW(c->peer, peer + 1, c->peer_capacity);
    for (; c->npeer <= peer; c->npeer++) c->peer[c->npeer] = (struct peer){.rank = -1};
}

void
coordinator_receive(struct coordinator *c, int peer, const struct packet *p)
{
    assert(peer >= 0);
    know(c, peer);
    int rank = c->peer[peer].rank;
    if (c->peer[peer].out) return;
    if (rank < 0) {
        if (p->kind == PACKET_HELLO) hello(c, peer, p);
        return;
    }
    struct member *m = &c->member[rank];
    if ((int32_t)(p->seq - m->seen) <= 0) return;
    if (p->seq != m->seen + 1) {
        lose(c, rank, lost_packet);
        return;
    }
    m->seen = p->seq;
    m->info.missed = m->info.lag = 0;
    if (!handle[p->kind]) {
        if (p->kind != PACKET_HELLO) lose(c, rank, "said what no worker says");
        return;
    }
    if (p->epoch == c->epoch || p->kind == PACKET_LEAVE) handle[p->kind](c, rank, p);
}

/* ---- the next epoch, the end ---- */

int
coordinator_recover(struct coordinator *c, int workers)
{
    int alive = 0, lost = 0;
    assert(c->phase == CLUSTER_BROKEN);
    for (int r = 0; r < c->options.world; r++) {
        alive += is_in(&c->member[r]);
        lost += c->member[r].info.state == MEMBER_LOST;
    }
    if (workers < MAX(alive, 1) || workers > alive + lost)
        return fail(E_ARG, "recover: %d workers: %d are left and %d were lost, so that %d to %d can go on", workers,
                    alive, lost, MAX(alive, 1), alive + lost);
    c->epoch++;
    c->phase = CLUSTER_GATHER;
    for (int r = 0; r < c->options.world; r++) {
        struct member *m = &c->member[r];
        if (is_in(m)) m->info.state = MEMBER_PRESENT;
        if (m->info.state != MEMBER_LOST) continue;
        m->info.state = alive < workers ? MEMBER_ABSENT : MEMBER_RETIRED;
        m->info.beats = 0;
        m->info.missed = 0;
        alive++;
    }
    if (all_in(c)) tell(c, (struct notice){.kind = NOTICE_FULL, .rank = -1});
    return 0;
}

void
coordinator_bye(struct coordinator *c, int status)
{
    send_all(c, (struct packet){.kind = PACKET_BYE, .status = (uint32_t)status});
}

/* ---- what is asked ---- */

enum coordinator_phase
coordinator_phase(const struct coordinator *c)
{
    return c->phase;
}

uint32_t
coordinator_epoch(const struct coordinator *c)
{
    return c->epoch;
}

const struct member_info *
coordinator_member(const struct coordinator *c, int rank)
{
    return &c->member[rank].info;
}

uint32_t
coordinator_slot(const struct coordinator *c, int slot)
{
    return c->slot[slot];
}

size_t
coordinator_bytes(const struct coordinator *c)
{
    size_t n = sizeof *c + sizeof *c->member * (size_t)c->options.world + sizeof *c->peer * (size_t)c->peer_capacity;
    for (int r = 0; r < c->options.world; r++)
        if (c->member[r].info.host) n += strlen(c->member[r].info.host) + strlen(c->member[r].info.devices) + 2;
    return n + (sizeof *c->shipped + (size_t)c->options.world) * (size_t)c->nshipped;
}
