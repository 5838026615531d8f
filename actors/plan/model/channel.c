/* channel.c - prints names of channels, and compares the channel lists of two connected partitions.
 *
 * The list that a partition sends consists of a header and one row per channel. All entries are
 * 64-bit numbers, little-endian. A received list is untrusted input: every number is compared with the number that
 * this partition expects. */
#include "actors/plan/model/contract.h"
#include "actors/plan/model/plan.h"

#include "runtime/device/communicator.h"
#include "runtime/base/error.h"

#include <string.h>

/* ---- names ---- */

int
channel_compare(const struct channel_name *a, const struct channel_name *b)
{
    const int32_t x[] = {a->step, a->operand, a->hop, a->from_side, a->from, a->to_side, a->to};
    const int32_t y[] = {b->step, b->operand, b->hop, b->from_side, b->from, b->to_side, b->to};
    for (size_t i = 0; i < countof(x); i++)
        if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
    return 0;
}

void
channel_print(const struct channel_name *name, struct str *s)
{
    static const char *const side[] = {[SIDE_PART] = "part ", [SIDE_STAGE] = "stage ", [SIDE_GATE] = "memory "};
    str_addf(s, "step %d, ", (int)name->step);
    if (name->from_side != SIDE_GATE) {
        hops_side_print(name->operand, s);
        str_addf(s, ", hop %d: ", name->hop);
    }
    str_addf(s, "%s%d -> ", side[name->from_side], (int)name->from);
    str_addf(s, "%s%d", side[name->to_side], (int)name->to);
}

/* ---- the contract ---- */

enum { MAGIC = 0x4c484333, HEADER = 4 };

/* Columns of a channel's row in the list: the channel's name (STEP to TO); SENDS, true if this end sends; facts
 * that must be equal at both ends (NREG to EDGE); indices of this end's task and thread. */
enum {
    STEP,
    OPERAND,
    HOP,
    FROM_SIDE,
    FROM,
    TO_SIDE,
    TO,
    SENDS,
    NREG,
    NACT,
    LATE,
    BYTES,
    WHAT,
    EDGE,
    TASK,
    THREAD,
    ROW
};
static const char *const term[] = {
    [NREG] = "registers", [NACT] = "acts per run", [LATE] = "late",
    [BYTES] = "bytes",    [WHAT] = "content",      [EDGE] = "number of the library's link (0: none)"};

static void
fill_channel_row(const struct plan *p, const struct channel *c, uint64_t *row)
{
    const struct channel_name *n = &c->name;
    row[STEP] = (uint64_t)n->step;
    row[OPERAND] = (uint64_t)n->operand;
    row[HOP] = (uint64_t)n->hop;
    row[FROM_SIDE] = n->from_side;
    row[FROM] = (uint64_t)n->from;
    row[TO_SIDE] = n->to_side;
    row[TO] = (uint64_t)n->to;
    row[SENDS] = c->sends;
    row[NREG] = (uint64_t)c->nreg;
    row[NACT] = (uint64_t)c->nact;
    row[LATE] = c->late;
    row[BYTES] = (uint64_t)c->bytes;
    row[WHAT] = c->what;
    row[EDGE] = c->direct ? p->task[c->task].move.member->in->name : 0;
    row[TASK] = (uint64_t)c->task;
    row[THREAD] = (uint64_t)p->task[c->task].thread;
}

/* Returns the header of the list. The header identifies the program and the inputs from which both partitions must
 * be compiled. */
static void
header_of(const struct plan *p, int32_t to, uint64_t header[HEADER])
{
    uint64_t digest[2];
    memcpy(digest, p->digest, sizeof digest);
    header[0] = (uint64_t)MAGIC << 32 | (uint32_t)to;
    header[1] = (uint32_t)p->memory;
    header[2] = digest[0];
    header[3] = digest[1];
}

enum root_fate
root_fate(const struct plan *p, int32_t k)
{
    int32_t end = k + 1 < p->program->nroot ? p->root_first[k + 1] : p->nroot_part;
    return p->root_first[k] == end ? ROOT_ELSEWHERE : p->overwrites[k] ? ROOT_OVERWRITES : ROOT_NEW;
}

void
channels_write(const struct plan *p, int32_t peer, struct str *s)
{
    uint64_t header[HEADER], row[ROW];
    header_of(p, peer, header);
    for (int i = 0; i < HEADER; i++) contract_put(s, header[i]);
    for (int32_t c = 0; c < p->nchannel; c++) {
        if (p->channel[c].peer != peer) continue;
        fill_channel_row(p, &p->channel[c], row);
        for (int i = 0; i < ROW; i++) contract_put(s, row[i]);
    }
}

static int
check_header(const struct plan *p, int32_t peer, const char *bytes, size_t n)
{
    uint64_t header[HEADER];
    if (n % 8 || n < 8 * HEADER || (n / 8 - HEADER) % ROW)
        return fail(E_PLAN, "channels: the list of host %d has an impossible size, %zu bytes", (int)peer, n);
    header_of(p, peer, header);
    if (contract_get(bytes, 0) != ((uint64_t)MAGIC << 32 | (uint32_t)p->memory) ||
        contract_get(bytes, 1) != (uint32_t)peer)
        return fail(E_PLAN, "channels: the list must be that of host %d for host %d", (int)peer, (int)p->memory);
    if (contract_get(bytes, 2) != header[2] || contract_get(bytes, 3) != header[3])
        return fail(E_PLAN, "channels: host %d compiled another plan", (int)peer);
    return 0;
}

static struct channel_name
name_of(const uint64_t *row)
{
    return (struct channel_name){.step = (int32_t)row[STEP],
                                 .operand = (int16_t)row[OPERAND],
                                 .hop = (int16_t)row[HOP],
                                 .from_side = (uint8_t)MIN(row[FROM_SIDE], (uint64_t)SIDE_GATE),
                                 .to_side = (uint8_t)MIN(row[TO_SIDE], (uint64_t)SIDE_GATE),
                                 .from = (int32_t)row[FROM],
                                 .to = (int32_t)row[TO]};
}

static int
lacks_channel(const struct channel_name *name, int32_t memory)
{
    struct str text = {0};
    channel_print(name, &text);
    int status = fail(E_PLAN, "channels: %s: host %d has no such channel", str_text(&text), (int)memory);
    str_free(&text);
    return status;
}

static int
channel_differs(const struct channel_name *name, int k, uint64_t here, int32_t peer, uint64_t there)
{
    struct str text = {0};
    channel_print(name, &text);
    int status = fail(E_PLAN, "channels: %s: %s is %lld on this host, %lld on host %d", str_text(&text), term[k],
                      (long long)here, (long long)there, (int)peer);
    str_free(&text);
    return status;
}

/* Compares the two rows that describe channel c, one from each host. The facts about the channel (number of
 * registers, bytes, ...) must be equal in both rows, and exactly one host must send. */
static int
check_terms(const struct channel *c, const uint64_t *here, const uint64_t *there)
{
    struct str text = {0};
    for (int k = 0; k < SENDS; k++)
        if (here[k] != there[k]) return lacks_channel(&c->name, c->peer);
    for (int k = NREG; k <= EDGE; k++)
        if (here[k] != there[k]) return channel_differs(&c->name, k, here[k], c->peer, there[k]);
    if (there[SENDS] == !here[SENDS] && there[TASK] <= INT32_MAX && there[THREAD] <= INT16_MAX) return 0;
    channel_print(&c->name, &text);
    int status = fail(E_PLAN, "channels: %s: both ends %s", str_text(&text), c->sends ? "send" : "receive");
    str_free(&text);
    return status;
}

int
channels_match(const struct plan *p, int32_t peer, const char *bytes, size_t n, struct channel_far *far)
{
    uint64_t here[ROW], there[ROW];
    TRY(check_header(p, peer, bytes, n));
    size_t nrow = (n / 8 - HEADER) / ROW, r = 0;
    for (int32_t c = 0; c < p->nchannel; c++) {
        if (p->channel[c].peer != peer) continue;
        if (r == nrow) return lacks_channel(&p->channel[c].name, peer);
        for (int i = 0; i < ROW; i++) there[i] = contract_get(bytes, HEADER + r * ROW + (size_t)i);
        r++;
        fill_channel_row(p, &p->channel[c], here);
        struct channel_name name = name_of(there);
        int order = channel_compare(&p->channel[c].name, &name);
        if (order) return order < 0 ? lacks_channel(&p->channel[c].name, peer) : lacks_channel(&name, p->memory);
        TRY(check_terms(&p->channel[c], here, there));
        far[c] = (struct channel_far){.task = (int32_t)there[TASK], .thread = (int32_t)there[THREAD]};
    }
    if (r == nrow) return 0;
    for (int i = 0; i < ROW; i++) there[i] = contract_get(bytes, HEADER + r * ROW + (size_t)i);
    struct channel_name name = name_of(there);
    return lacks_channel(&name, p->memory);
}

/* ---- bytes ---- */

void
channel_gather(const struct channel *c, const char *from, char *dense)
{
    for (int32_t i = 0; i < c->nslice; i++) {
        struct view src = *c->slice[i].view, dst = src;
        src.data = (char *)from + c->slice[i].skip;
        dst.data = dense;
        int64_t stride = 1;
        for (int d = dst.ndim - 1; d >= 0; d--) {
            dst.stride[d] = stride;
            stride *= dst.dim[d];
        }
        view_copy(&dst, &src);
        dense += view_bytes(&dst);
    }
}
