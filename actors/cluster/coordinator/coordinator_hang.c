/* coordinator_hang.c - finds a member that is alive but makes no progress, and declares it lost.
 *
 * A member owes an answer while it makes memory, maps memory, compiles, runs, or handles files. Its heartbeats carry
 * a number that changes when the member completes a piece of work. A worker of a run can wait for another worker, so
 * the run hangs only if none of the members that owe an answer progresses. Then these members are asked what they
 * do; a process whose work hangs still answers. After the answers, or after REPORT_TICKS, the coordinator declares
 * one member lost. It prefers members that do work, then members that do not answer, then members that wait for no
 * other member. Among equals, it selects the member that has been without progress for the longest time. Progress in
 * the meantime ends the inquiry. */
#include "actors/cluster/coordinator/coordinator_inner.h"

enum { REPORT_TICKS = 50 };

static bool
owes_answer(const struct coordinator *c, const struct member *m)
{
    if (!is_in(m) || c->phase == CLUSTER_BROKEN) return false;
    if (m->files > 0) return true;
    return m->info.state == (c->phase == CLUSTER_FORM ? MEMBER_PRESENT : MEMBER_BUSY);
}

void
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

void
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

void
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
