/* Tests of actors/cluster/coordinator: signals that workers pass on. A signal that the program handles is reported, and
 * the worker stays. Any other number is the loss of the worker, which is dismissed. */
#include "actors/cluster/coordinator/coordinator.h"
#include "t/lib/tap.h"

#include <stdio.h>
#include <string.h>

struct seen {
    int signals, losses, dismissed, status, rank;
    char how[64], why[64];
};

static void
see_send(void *arg, int peer, const struct packet *p)
{
    struct seen *t = arg;
    if (p->kind != PACKET_REFUSE || peer != 1) return;
    t->dismissed++;
    snprintf(t->why, sizeof t->why, "%.*s", (int)p->text.n, (const char *)p->text.bytes);
}

static void
see_cut(void *arg, int peer)
{
    UNUSED(arg);
    UNUSED(peer);
}

static void
see_notice(void *arg, const struct notice *n)
{
    struct seen *t = arg;
    if (n->kind != NOTICE_SIGNAL && n->kind != NOTICE_LOST) return;
    t->signals += n->kind == NOTICE_SIGNAL;
    t->losses += n->kind == NOTICE_LOST;
    t->status = n->status;
    t->rank = n->rank;
    snprintf(t->how, sizeof t->how, "%s", n->text);
}

static void
join(struct coordinator *c, int rank)
{
    struct packet p = {.kind = PACKET_HELLO,
                       .seq = 1,
                       .protocol = WIRE_VERSION,
                       .version = span_text("1"),
                       .host = span_text("h"),
                       .machine = span_text("m"),
                       .devices = span_text("cpu:1"),
                       .rank = rank};
    coordinator_receive(c, rank, &p);
}

/* Lets worker 1 of 3 pass on a number; returns true if that is reported or ends the worker, as `handled` says. */
static bool
pass(uint32_t number, uint64_t signals, bool handled)
{
    struct seen t = {0};
    char how[64];
    struct coordinator_env env = {&t, see_send, see_cut, see_notice};
    struct coordinator_options o = {.world = 3, .silence = 3, .version = "1", .machine = "m"};
    struct coordinator *c = coordinator_new(&o, &env);
    coordinator_hear(c, signals);
    for (int r = 0; r < 2; r++) join(c, r);
    struct packet p = {.kind = PACKET_SIGNAL, .seq = 2, .status = number};
    coordinator_receive(c, 1, &p);
    bool stays = coordinator_member(c, 1)->state == MEMBER_PRESENT;
    coordinator_free(&c);
    if (handled) return stays && t.signals == 1 && !t.losses && !t.dismissed && t.rank == 1 && t.status == (int)number;
    snprintf(how, sizeof how, "was ended by signal %u", number);
    return !stays && !t.signals && t.losses == 1 && t.dismissed == 1 && t.rank == 1 && !strcmp(t.how, how) &&
           !strcmp(t.why, how);
}

int
main(void)
{
    static const uint32_t beyond[] = {64, 65, 79, 128, 1u << 31, UINT32_MAX};
    int wrong = 0;
    for (uint32_t number = 0; number < 64; number++)
        for (uint32_t bit = 0; bit < 64; bit++) wrong += !pass(number, 1ull << bit, number == bit);
    is_int(wrong, 0, "each number is reported if the program handles it, and else ends its worker");
    for (size_t i = 0; i < countof(beyond); i++) wrong += !pass(beyond[i], UINT64_MAX, false);
    is_int(wrong, 0, "a number that is no signal ends its worker");
    return done();
}
