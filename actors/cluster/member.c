/* member.c - a worker's packets and work. */
#include "actors/cluster/member.h"

#include "actors/cluster/coordinator.h"

#include "runtime/arena.h"
#include "runtime/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ID = CLUSTER_ID };
static const char lost_packet[] = "a packet of the coordinator was lost on its way";

struct worker_member {
    struct member_options options;
    struct member_env env;
    enum { JOIN, IN, LEFT } state;
    int rank, missed, lag;
    uint32_t epoch, sent, seen, said; /* said: by the coordinator's heartbeat */
    uint64_t beats, heard;
    unsigned char job[ID];
    struct str program; /* as it comes */
    uint64_t id;        /* of it */
};

struct worker_member *
member_new(const struct member_options *o, const struct member_env *env)
{
    struct worker_member *m = must_alloc(sizeof *m);
    m->options = *o;
    m->env = *env;
    m->rank = -1;
    return m;
}

void
member_free(struct worker_member **mp)
{
    struct worker_member *m = *mp;
    *mp = NULL;
    if (!m) return;
    str_free(&m->program);
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
    p.seq = ++m->sent;
    m->env.send(m->env.arg, &p);
}

static void
work(struct worker_member *m, struct work w)
{
    w.epoch = m->epoch;
    m->env.work(m->env.arg, &w);
}

/* The end of this worker; the first reason counts. */
static void
end(struct worker_member *m, int status, const char *text)
{
    if (m->state == LEFT) return;
    m->state = LEFT;
    work(m, (struct work){.kind = WORK_LEAVE, .status = status, .text = text});
}

void
member_linked(struct worker_member *m)
{
    if (m->state != JOIN || m->sent) return;
    send_packet(m, 0, m->options.hello);
}

/* ---- what the coordinator says ---- */

static void
welcome(struct worker_member *m, const struct packet *p)
{
    if (m->state != JOIN || p->job.n != ID || p->rank < 0) return;
    m->state = IN;
    m->rank = p->rank;
    memcpy(m->job, p->job.bytes, ID);
    work(m, (struct work){.kind = WORK_WELCOME, .packet = p});
}

static void
refused(struct worker_member *m, const struct packet *p)
{
    struct str text = {0};
    span_print(p->text, &text);
    end(m, LEAVE_FAILED, str_text(&text));
    str_free(&text);
}

static void
make(struct worker_member *m, const struct packet *p)
{
    work(m, (struct work){.kind = WORK_MAKE, .packet = p});
}

static void
form(struct worker_member *m, const struct packet *p)
{
    work(m, (struct work){.kind = WORK_FORM, .packet = p});
}

/* Pieces come in order: each begins where the one before it ended. */
static void
program(struct worker_member *m, const struct packet *p)
{
    bool first = p->offset == 0;
    if (p->total > MEMBER_PROGRAM_MOST || p->bytes.n > p->total || p->offset > p->total - p->bytes.n ||
        (!first && (p->program != m->id || p->offset != m->program.len))) {
        end(m, LEAVE_FAILED, "a program came in pieces that do not fit");
        return;
    }
    if (first) str_clear(&m->program);
    m->id = p->program;
    str_addn(&m->program, p->bytes.bytes, p->bytes.n);
    if (m->program.len < p->total) return;
    work(m, (struct work){.kind = WORK_PROGRAM, .program = m->id, .bytes = str_text(&m->program), .n = m->program.len});
    str_free(&m->program);
}

static void
forget(struct worker_member *m, const struct packet *p)
{
    work(m, (struct work){.kind = WORK_FORGET, .program = p->program});
}

static void
start(struct worker_member *m, const struct packet *p)
{
    work(m, (struct work){.kind = WORK_START, .packet = p, .program = p->program});
}

static void
stop(struct worker_member *m, const struct packet *p)
{
    work(m, (struct work){.kind = WORK_STOP, .packet = p});
}

static void
bye(struct worker_member *m, const struct packet *p)
{
    UNUSED(p);
    end(m, LEAVE_DONE, "");
}

/* inside: only for a member. */
static const struct {
    void (*take)(struct worker_member *m, const struct packet *p);
    bool inside;
} handle[NPACKET] = {
    [PACKET_REFUSE] = {refused, false}, [PACKET_WELCOME] = {welcome, false}, [PACKET_MAKE] = {make, true},
    [PACKET_FORM] = {form, true},       [PACKET_PROGRAM] = {program, true},  [PACKET_FORGET] = {forget, true},
    [PACKET_START] = {start, true},     [PACKET_STOP] = {stop, true},        [PACKET_BYE] = {bye, false},
};

void
member_receive(struct worker_member *m, const struct packet *p)
{
    if (m->state == LEFT || (int32_t)(p->seq - m->seen) <= 0) return;
    if (p->seq != m->seen + 1) {
        end(m, LEAVE_ORPHAN, lost_packet);
        return;
    }
    m->seen = p->seq;
    m->missed = m->lag = 0;
    if (!handle[p->kind].take || (handle[p->kind].inside && m->state != IN)) return;
    if ((int32_t)(p->epoch - m->epoch) < 0) return;
    m->epoch = p->epoch;
    handle[p->kind].take(m, p);
}

/* ---- life ---- */

void
member_tick(struct worker_member *m)
{
    if (m->state == JOIN && m->sent && ++m->missed > m->options.silence)
        end(m, LEAVE_ORPHAN, "the coordinator does not answer");
    if (m->state != IN) return;
    m->lag = (int32_t)(m->said - m->seen) > 0 ? m->lag + 1 : 0;
    if (++m->missed > m->options.silence)
        end(m, LEAVE_ORPHAN, "the coordinator fell silent");
    else if (m->lag > LAG_TICKS)
        end(m, LEAVE_ORPHAN, lost_packet);
}

void
member_cut(struct worker_member *m, const char *how)
{
    end(m, LEAVE_ORPHAN, how);
}

void
member_heard(struct worker_member *m, const struct packet *p)
{
    bool ours = m->state == IN && p->kind == PACKET_BEAT && p->job.n == ID && !memcmp(p->job.bytes, m->job, ID);
    if (!ours || p->count <= m->heard) return;
    m->heard = p->count;
    m->said = p->seq;
    m->missed = 0;
}

bool
member_beat(struct worker_member *m, struct packet *out)
{
    if (m->state != IN) return false;
    *out = (struct packet){.kind = PACKET_BEAT,
                           .epoch = m->epoch,
                           .seq = m->sent,
                           .rank = m->rank,
                           .job = {m->job, ID},
                           .count = ++m->beats};
    return true;
}

/* ---- what the executor answers ---- */

void
member_made(struct worker_member *m, uint32_t epoch, const struct made *made)
{
    send_packet(m, epoch,
                (struct packet){.kind = PACKET_MADE,
                                .status = (uint32_t)made->status,
                                .text = span_text(made->text),
                                .segment = span_text(made->segment),
                                .bus = span_text(made->bus),
                                .port = span_text(made->port)});
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
                                .replaces = {h->replaces, (uint32_t)h->nreplace}});
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
member_leave(struct worker_member *m, const char *why)
{
    send_packet(m, m->epoch, (struct packet){.kind = PACKET_LEAVE, .text = span_text(why)});
    m->state = LEFT;
}
