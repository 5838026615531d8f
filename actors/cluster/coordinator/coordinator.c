/* coordinator.c - receives packets and ticks, sends packets and notices, and declares silent members lost. */
#include "actors/cluster/coordinator/coordinator_inner.h"
#include "actors/cluster/coordinator/coordinator_admit.h"
#include "actors/cluster/coordinator/coordinator_run.h"

#include "runtime/data/arena.h"
#include "runtime/base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Finds a member that is alive but makes no progress, and declares it lost.
 *
 * A member owes an answer while it makes memory, maps memory, compiles, runs, or handles files. Its heartbeats carry
 * a number that changes when the member completes a piece of work. A worker of a run can wait for another worker, so
 * the run hangs only if none of the members that owe an answer progresses. Then these members are asked what they
 * do; a process whose work hangs still answers. After the answers, or after REPORT_TICKS, the coordinator declares
 * one member lost. It prefers members that do work, then members that do not answer, then members that wait for no
 * other member. Among equals, it selects the member that has been without progress for the longest time. Progress in
 * the meantime ends the inquiry. */

enum { REPORT_TICKS = 50 };

static bool
owes_answer(const struct coordinator *c, const struct member *m)
{
    if (!is_in(m) || c->phase == CLUSTER_BROKEN) return false;
    if (m->files > 0) return true;
    return m->info.state == (c->phase == CLUSTER_FORM ? MEMBER_PRESENT : MEMBER_BUSY);
}

/* Counts a tick without progress, if the member owes an answer. Called for members whose last heartbeat has just
 * arrived. */
static void
coordinate_count_still(struct coordinator *c, int rank)
{
    struct member *m = &c->member[rank];
    m->info.still = owes_answer(c, m) ? m->info.still + 1 : 0;
}

/* Returns true if at least one member owes an answer, and no such member has progressed for `hang` ticks. */
static bool
nothing_progresses(const struct coordinator *c)
{
    bool any = false;
    for (int r = 0; r < c->options.world; r++) {
        if (!owes_answer(c, &c->member[r])) continue;
        if (c->member[r].info.still <= c->options.hang + (int)c->every) return false;
        any = true;
    }
    return any;
}

static void
ask_members(struct coordinator *c)
{
    coordinate_tell(c, (struct notice){.kind = NOTICE_HANG, .rank = -1});
    for (int r = 0; r < c->options.world; r++) {
        if (!owes_answer(c, &c->member[r])) continue;
        c->member[r].report.came = false;
        coordinate_send(c, r, (struct packet){.kind = PACKET_ASK});
    }
}

static void
coordinate_report(struct coordinator *c, int rank, const struct packet *p)
{
    struct member *m = &c->member[rank];
    if (!c->asked) return;
    m->report.came = true;
    m->report.works = p->flags & REPORT_WORKS;
    m->report.rank = p->rank;
    coordinate_tell(c, (struct notice){.kind = NOTICE_REPORT, .rank = rank, .packet = p});
}

static bool
all_reported(const struct coordinator *c)
{
    for (int r = 0; r < c->options.world; r++)
        if (owes_answer(c, &c->member[r]) && !c->member[r].report.came) return false;
    return true;
}

/* Returns a number that is higher the more likely the member is the cause of the hang. The member with the highest
 * number is declared lost first. */
static int
suspicion(const struct member *m, int rank)
{
    if (!m->report.came) return 3;
    if (m->report.works) return 4;
    return m->report.rank < 0 || m->report.rank == rank ? 2 : 1;
}

static int
most_suspect(const struct coordinator *c)
{
    int worst = -1, most = 0;
    for (int r = 0; r < c->options.world; r++) {
        const struct member *m = &c->member[r];
        int is = owes_answer(c, m) ? suspicion(m, r) : 0;
        if (is < most || !is || (is == most && m->info.still <= c->member[worst].info.still)) continue;
        worst = r;
        most = is;
    }
    return worst;
}

static void
coordinate_find_hang(struct coordinator *c)
{
    static const char how[] = "stopped making progress";
    if (!c->options.hang || !nothing_progresses(c)) {
        c->asked = 0;
        return;
    }
    if (c->asked++ == 0) ask_members(c);
    if (!all_reported(c) && c->asked <= REPORT_TICKS) return;
    int rank = most_suspect(c);
    coordinate_tell(c, (struct notice){.kind = NOTICE_HANG, .rank = rank, .status = !c->member[rank].report.came});
    coordinate_lose(c, rank, how);
}

static const char silent[] = "stopped responding", lost_packet[] = "lost a packet",
                  unexpected[] = "sent an unexpected packet";

const char *
coordinator_phase_text(enum coordinator_phase phase)
{
    static const char *const text[] = {"gathering", "making", "forming", "idle", "shipping", "running", "broken"};
    return text[phase];
}

const char *
member_state_text(enum member_state state)
{
    static const char *const text[] = {"absent", "present", "ready", "busy", "lost", "retired"};
    return text[state];
}

/* ---- opening ---- */

struct coordinator *
coordinator_new(const struct coordinator_options *o, const struct coordinator_env *env)
{
    assert(o->world >= 1 && o->world <= CLUSTER_WORLD && o->silence > 0);
    struct coordinator *c = must_alloc(sizeof *c);
    c->options = *o;
    c->env = *env;
    c->epoch = c->every = 1;
    c->started = o->started;
    c->member = must_alloc(sizeof *c->member * (size_t)o->world);
    for (int r = 0; r < o->world; r++) c->member[r].info.peer = c->member[r].info.memory = -1;
    return c;
}

void
member_forget(struct member *m)
{
    free(m->info.host);
    free(m->info.devices);
    free(m->info.gpus);
    free(m->machine);
    free(m->port);
    window_free(&m->window);
    m->info.host = m->info.devices = m->info.gpus = m->machine = m->port = NULL;
}

void
coordinator_free(struct coordinator **cp)
{
    struct coordinator *c = *cp;
    *cp = NULL;
    if (!c) return;
    for (int r = 0; r < c->options.world; r++) member_forget(&c->member[r]);
    for (int i = 0; i < c->nshipped; i++) shipped_free(&c->shipped[i]);
    while (c->nwaiting) coordinate_forget_waiting(c, c->nwaiting - 1);
    free(c->waiting);
    for (int m = 0; m < c->nmemory; m++) {
        free(c->memory[m].info.machine);
        free(c->memory[m].segment);
        free(c->memory[m].bus);
        free(c->memory[m].lost);
        free(c->memory[m].meets);
    }
    free(c->memory);
    free(c->shipped);
    free(c->member);
    free(c->peer);
    str_free(&c->others);
    free(c);
}

/* ---- sending ---- */

void
coordinate_send(struct coordinator *c, int rank, struct packet p)
{
    struct member *m = &c->member[rank];
    p.epoch = c->epoch;
    p.seq = m->window.last + 1;
    p.ack = m->seen;
    window_add(&m->window, &p);
    c->env.send(c->env.arg, m->info.peer, &p);
}

static void
send_to_all(struct coordinator *c, struct packet p)
{
    for (int r = 0; r < c->options.world; r++)
        if (is_in(&c->member[r])) coordinate_send(c, r, p);
}

void
coordinate_tell(struct coordinator *c, struct notice n)
{
    c->env.tell(c->env.arg, &n);
}

/* ---- links ---- */

void
coordinate_know(struct coordinator *c, int peer)
{
    int slot = peer_slot(peer);
    GROW(c->peer, slot + 1, c->peer_capacity);
    for (; c->npeer <= slot; c->npeer++) c->peer[c->npeer] = (struct peer){.number = -1, .rank = -1, .key = -1};
    if (c->peer[slot].number == peer) return;
    assert(c->peer[slot].rank < 0); /* the slot of a member's link is not used again */
    c->peer[slot] = (struct peer){.number = peer, .rank = -1, .key = -1};
}

struct peer *
coordinate_peer(const struct coordinator *c, int peer)
{
    struct peer *p = &c->peer[peer_slot(peer)];
    assert(peer_slot(peer) < c->npeer && p->number == peer);
    return p;
}

/* Returns the rank of the member on a link; -1: no member. */
static int
coordinator_rank_of(const struct coordinator *c, int peer)
{
    int slot = peer_slot(peer);
    return slot < c->npeer && c->peer[slot].number == peer ? c->peer[slot].rank : -1;
}

bool
coordinator_uses(const struct coordinator *c, int peer)
{
    for (int i = 0; i < c->nwaiting; i++)
        if (c->waiting[i].peer == peer) return true;
    return coordinator_rank_of(c, peer) >= 0;
}

/* ---- losing a member ---- */

void
coordinate_stop(struct coordinator *c, uint32_t why)
{
    for (int r = 0; r < c->options.world; r++)
        if (is_in(&c->member[r]) && (why == STOP_LOST || !c->member[r].ended))
            coordinate_send(c, r, (struct packet){.kind = PACKET_STOP, .run = c->start.run, .flags = why});
}

void
coordinate_cut(struct coordinator *c, int peer)
{
    coordinate_peer(c, peer)->out = true;
    c->env.cut(c->env.arg, peer);
}

/* Detaches a member from its link. */
static void
detach(struct coordinator *c, struct member *m)
{
    if (m->info.peer < 0) return;
    coordinate_peer(c, m->info.peer)->rank = -1;
    coordinate_cut(c, m->info.peer);
    m->info.peer = -1;
}

/* Records the pid of a lost process on another host. A worker of that host will kill the process, because it could
 * still write to memory that the host's other processes use. Does nothing on the coordinator's host, where the owner
 * of the coordinator kills lost processes, or for a worker that has not mapped memory yet. */
static void
fence(struct coordinator *c, const struct member *m)
{
    struct memory *at = m->info.memory >= 0 ? &c->memory[m->info.memory] : NULL;
    if (!at || at->info.own || !is_in(m) || m->machine) return;
    GROW(at->lost, at->nlost + 1, at->lost_capacity);
    at->lost[at->nlost++] = m->info.pid;
}

void
coordinate_break(struct coordinator *c)
{
    bool spoke = coordinate_speaks(c);
    c->phase = CLUSTER_BROKEN;
    c->asked = 0;
    for (int r = 0; r < c->options.world; r++) {
        c->member[r].files = 0;
        /* no member owes an answer any more, so lack of progress is no fault */
        c->member[r].info.still = 0;
        if (spoke) c->member[r].info.missed = 0; /* silence counts from now, because relaying of heartbeats ends */
    }
    coordinate_stop(c, STOP_LOST);
}

void
coordinate_lose(struct coordinator *c, int rank, const char *how)
{
    struct member *m = &c->member[rank];
    if (!is_in(m) && m->info.state != MEMBER_ABSENT) return;
    fence(c, m);
    window_free(&m->window);
    free(m->machine); /* a lost worker that was not assigned to a memory gets none */
    m->machine = NULL;
    m->info.state = MEMBER_LOST;
    m->holds = false;
    c->first_out = MIN(c->first_out, rank);
    detach(c, m);
    for (int i = 0; i < c->nshipped; i++) c->shipped[i].has[rank] = 0, c->shipped[i].rows[rank] = 0;
    coordinate_break(c);
    coordinate_tell(c, (struct notice){.kind = NOTICE_LOST, .rank = rank, .text = how});
}

bool
coordinate_accepts(struct coordinator *c, int rank, bool makes_sense)
{
    if (!makes_sense && c->phase != CLUSTER_BROKEN) coordinate_lose(c, rank, unexpected);
    return makes_sense;
}

char *
coordinate_text(struct span s)
{
    struct str out = {0};
    span_print(s, &out);
    if (!out.text) str_add(&out, "");
    return out.text;
}

/* Declares a member lost for the reason that it has reported itself. */
void
coordinate_lose_for(struct coordinator *c, int rank, struct span text)
{
    char *why = coordinate_text(text);
    coordinate_lose(c, rank, why);
    free(why);
}

void
coordinator_gone(struct coordinator *c, int rank, const char *how)
{
    if (rank >= 0 && rank < c->options.world) coordinate_lose(c, rank, how);
}

static void
forget_waiting_peer(struct coordinator *c, int peer)
{
    for (int i = 0; i < c->nwaiting; i++)
        if (c->waiting[i].peer == peer) coordinate_forget_waiting(c, i--);
}

void
coordinator_cut(struct coordinator *c, int peer, const char *how)
{
    forget_waiting_peer(c, peer);
    int rank = coordinator_rank_of(c, peer);
    if (rank >= 0) coordinate_lose(c, rank, how);
}

/* ---- signals of workers ---- */

void
coordinator_hear(struct coordinator *c, uint64_t signals)
{
    c->signals = signals;
}

/* Handles a worker's report of a signal that the worker has received. If the program handles this signal, notifies
 * the program (NOTICE_SIGNAL). Otherwise dismisses the worker and counts the worker as lost. */
static void
take_signal(struct coordinator *c, int rank, const struct packet *p)
{
    char how[64];
    if (p->status < 64 && c->signals >> p->status & 1) {
        coordinate_tell(c, (struct notice){.kind = NOTICE_SIGNAL, .rank = rank, .status = (int)p->status, .text = ""});
        return;
    }
    snprintf(how, sizeof how, "was ended by signal %u", p->status);
    coordinate_send(c, rank, (struct packet){.kind = PACKET_REFUSE, .text = span_text(how)});
    coordinate_lose(c, rank, how);
}

/* ---- heartbeats ---- */

/* Returns true if nothing is known about a rank, because the worker that relays its heartbeats is silent. */
static bool
is_unheard(const struct coordinator *c, int rank)
{
    if (!coordinate_is_spoken(c, rank)) return false;
    int speaker = c->memory[c->member[rank].info.memory].first;
    return c->member[speaker].info.missed > (int)c->every;
}

/* Returns the number of ticks without a heartbeat after which a member is lost. While processes start, their hosts are
 * loaded, so the limit is the largest one until the epoch is formed. */
static int
silence_of(const struct coordinator *c, const struct member *m)
{
    int every = (int)c->every, gap = c->phase < CLUSTER_IDLE ? SILENCE_GROWTH * every : m->gap / 8;
    return c->options.silence * MAX(every, MIN(gap, SILENCE_GROWTH * every));
}

/* Declares a member lost that does not respond. Tells the worker, because it may be alive, and would wait
 * otherwise. */
static void
lose_silent(struct coordinator *c, int rank, const char *how)
{
    coordinate_send(c, rank, (struct packet){.kind = PACKET_REFUSE, .flags = REFUSE_LOST, .text = span_text(how)});
    coordinate_lose(c, rank, how);
}

/* Asks a member for a new connection, because a packet is missing. Asks only once until a packet arrives. The wait
 * for the packet (lag) begins again, because the old connection may only have been slow. */
static void
retry_connection(struct coordinator *c, int rank)
{
    struct member *m = &c->member[rank];
    m->retries = true;
    m->info.lag = 0;
    coordinate_send(c, rank, (struct packet){.kind = PACKET_CONNECT, .count = m->connection});
}

void
coordinator_tick(struct coordinator *c)
{
    int link = c->options.link ? c->options.link : LINK_TICKS;
    c->ticks++;
    for (int r = 0; r < c->options.world; r++) {
        struct member *m = &c->member[r];
        if (!is_in(m) || is_unheard(c, r)) continue;
        if (m->info.missed <= (int)c->every) coordinate_count_still(c, r);
        m->info.lag = (int32_t)(m->said - m->seen) > 0 ? m->info.lag + 1 : 0;
        if (m->info.lag > link / 4 && !m->retries) retry_connection(c, r);
        if (++m->info.missed > silence_of(c, m))
            lose_silent(c, r, silent);
        else if (m->info.lag > link)
            lose_silent(c, r, lost_packet);
    }
    coordinate_tick_waiting(c);
    coordinate_find_hang(c);
}

void
coordinator_connect_values(struct coordinator *c, int rank)
{
    if (is_in(&c->member[rank]))
        coordinate_send(c, rank, (struct packet){.kind = PACKET_CONNECT, .flags = CONNECT_VALUES});
}

static void
pulse_others(struct coordinator *c, int rank)
{
    str_clear(&c->others);
    if (!coordinate_speaks(c)) return;
    for (int r = c->member[rank].next; r >= 0; r = c->member[r].next) {
        struct member *m = &c->member[r];
        const uint32_t beat[NBEAT] = {(uint32_t)r, (uint32_t)++m->pulses, m->window.last, 0, 0};
        str_addn(&c->others, beat, sizeof beat);
    }
}

bool
coordinator_pulse(struct coordinator *c, int rank, struct packet *out)
{
    struct member *m = &c->member[rank];
    if (!is_in(m) || coordinate_is_spoken(c, rank) || c->ticks % c->every) return false;
    pulse_others(c, rank);
    *out = (struct packet){.kind = PACKET_BEAT,
                           .epoch = c->epoch,
                           .seq = m->window.last,
                           .ack = m->seen,
                           .rank = rank,
                           .job = {c->options.job, CLUSTER_ID},
                           .count = ++m->pulses,
                           .others = {(const void *)c->others.text, (uint32_t)c->others.len}};
    return true;
}

static void
take_beat(struct member *m, uint64_t count, uint32_t seq, uint64_t progress)
{
    if (count <= m->info.beats) return; /* ignores an old heartbeat that a newer heartbeat overtook */
    if (progress >> 32 != m->info.progress >> 32) m->info.still = 0;
    m->info.progress = progress;
    m->info.beats = count;
    m->gap += m->info.missed - m->gap / 8;
    m->info.missed = 0;
    m->said = seq;
}

static bool
coordinator_relays_for(const struct coordinator *c, int speaker, uint32_t rank)
{
    if (rank >= (uint32_t)c->options.world || !is_in(&c->member[rank])) return false;
    return coordinate_is_spoken(c, (int)rank) && c->memory[c->member[rank].info.memory].first == speaker;
}

bool
coordinator_beat(struct coordinator *c, const struct packet *p)
{
    bool ours = p->kind == PACKET_BEAT && p->job.n == CLUSTER_ID && !memcmp(p->job.bytes, c->options.job, CLUSTER_ID);
    if (!ours || p->rank < 0 || p->rank >= c->options.world || !is_in(&c->member[p->rank])) return false;
    take_beat(&c->member[p->rank], p->count, p->seq, p->progress);
    window_acknowledge(&c->member[p->rank].window, p->ack);
    for (uint32_t i = 0; i + 4 * NBEAT <= p->others.n; i += 4 * NBEAT) {
        uint32_t beat[NBEAT];
        memcpy(beat, p->others.bytes + i, sizeof beat);
        if (coordinator_relays_for(c, p->rank, beat[BEAT_RANK]))
            take_beat(&c->member[beat[BEAT_RANK]], beat[BEAT_COUNT], beat[BEAT_SEQ],
                      (uint64_t)beat[BEAT_DONE] << 32 | beat[BEAT_NODE]);
    }
    return true;
}

/* ---- receiving ---- */

static void
lose_leaver(struct coordinator *c, int rank, const struct packet *p)
{
    coordinate_lose_for(c, rank, p->text);
}

/* Handles a member's report that it cannot reach another member. If the other member is silent, it is lost; if a
 * third worker relays its heartbeats and is silent, that worker is lost. Otherwise the reporting member is lost,
 * because it may be at fault. */
static void
lose_unreached(struct coordinator *c, int rank, const struct packet *p)
{
    if (c->phase == CLUSTER_BROKEN) return;
    if (p->rank < 0 || p->rank >= c->options.world || p->rank == rank) {
        coordinate_lose(c, rank, unexpected);
        return;
    }
    int other = is_unheard(c, p->rank) ? c->memory[c->member[p->rank].info.memory].first : p->rank;
    if (c->member[other].info.missed > (int)c->every + 1) {
        lose_silent(c, other, silent);
        return;
    }
    char *why = coordinate_text(p->text);
    lose_silent(c, rank, why);
    free(why);
}

static void (*const handle[NPACKET])(struct coordinator *c, int rank, const struct packet *p) = {
    [PACKET_MADE] = coordinate_made, [PACKET_READY] = coordinate_ready,   [PACKET_HAVE] = coordinate_have,
    [PACKET_ACTS] = coordinate_acts, [PACKET_END] = coordinate_end,       [PACKET_LEAVE] = lose_leaver,
    [PACKET_MEET] = coordinate_meet, [PACKET_FILED] = coordinate_filed,   [PACKET_UNITE] = coordinate_unite,
    [PACKET_SIGNAL] = take_signal,   [PACKET_REPORT] = coordinate_report, [PACKET_UNREACHED] = lose_unreached,
};

void
coordinator_vouch(struct coordinator *c, int peer, int rank)
{
    coordinate_know(c, peer);
    coordinate_peer(c, peer)->key = rank;
}

void
coordinator_receive(struct coordinator *c, int peer, const struct packet *p)
{
    assert(peer >= 0);
    coordinate_know(c, peer);
    int rank = coordinate_peer(c, peer)->rank;
    if (coordinate_peer(c, peer)->out) return;
    if (rank < 0) {
        if (p->kind == PACKET_HELLO) coordinate_hello(c, peer, p);
        if (p->kind == PACKET_LEAVE) forget_waiting_peer(c, peer);
        return;
    }
    struct member *m = &c->member[rank];
    if ((int32_t)(p->seq - m->seen) <= 0) return;
    if (p->seq != m->seen + 1) {
        coordinate_lose(c, rank, lost_packet);
        return;
    }
    m->seen = p->seq;
    window_acknowledge(&m->window, p->ack);
    m->info.missed = m->info.lag = 0;
    m->retries = false;
    if (p->kind != PACKET_REPORT) m->info.still = 0;
    if (!handle[p->kind]) {
        if (p->kind != PACKET_HELLO) coordinate_lose(c, rank, unexpected);
        return;
    }
    if (p->epoch == c->epoch || p->kind == PACKET_LEAVE || p->kind == PACKET_SIGNAL) handle[p->kind](c, rank, p);
}

/* ---- the end ---- */

void
coordinator_bye(struct coordinator *c, uint32_t code)
{
    const struct packet p = {.kind = PACKET_BYE, .code = code};
    send_to_all(c, p);
    for (int i = 0; i < c->nwaiting; i++) coordinate_tell_waiting(c, &c->waiting[i], p);
}

/* ---- queries ---- */

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

double
coordinator_slow(const struct coordinator *c, int rank)
{
    return c->member[rank].pace.times;
}

uint32_t
coordinator_slot(const struct coordinator *c, int slot)
{
    return c->slot[slot].owner;
}

int
coordinator_memories(const struct coordinator *c)
{
    return c->nmemory;
}

int
coordinator_keeper(const struct coordinator *c, int memory)
{
    int rank = coordinate_keeper(c, memory);
    return rank >= 0 && c->member[rank].holds ? rank : -1;
}

const struct memory_info *
coordinator_memory(const struct coordinator *c, int memory)
{
    return &c->memory[memory].info;
}

size_t
coordinator_bytes(const struct coordinator *c)
{
    size_t n = sizeof *c + sizeof *c->member * (size_t)c->options.world + sizeof *c->peer * (size_t)c->peer_capacity;
    for (int r = 0; r < c->options.world; r++)
        if (c->member[r].info.host)
            n +=
                strlen(c->member[r].info.host) + strlen(c->member[r].info.devices) + strlen(c->member[r].info.gpus) + 3;
    return n + (sizeof *c->shipped + (size_t)c->options.world) * (size_t)c->nshipped;
}
